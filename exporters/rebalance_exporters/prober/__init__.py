"""Asks coordinators and leaders for what the log does not contain, and publishes it to the topic `…probes`.

That is: classic rebalances in progress, the members of a group that is preparing, and the end offsets of partitions.
Its tasks (groups, offsets and, if configured, ZooKeeper) run in separate threads and publish independently; none joins
a group.
"""
