"""What settings would have avoided: estimates from the rebalances of a group, and how they are reported. Pure."""
