"""The founding incidents as a show: `rebalance-monitor demo --story`."""
