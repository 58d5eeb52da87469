"""Asks coordinators and leaders for what the log does not have, and publishes it to the topic `…probes`.

Classic rebalances show while they run, members of a group that is preparing, and where partitions end. Three tasks in
threads of their own (groups, offsets and, where asked for, ZooKeeper) publish side by side; none joins a group.
"""
