"""Estimates of what settings would have avoided, from the rebalances of a group, and how they are reported. Pure."""
