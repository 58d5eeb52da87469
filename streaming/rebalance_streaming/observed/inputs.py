"""Inputs of rules as bits: a rule is evaluated again when one of its inputs changed.

A group's members, rebalances and their causes are inputs of every rule. The others arrive in bulk, every few seconds
for every group, and most rules use none of them.
"""

from __future__ import annotations

#: Snapshots, rebalances, what was found about them, and partition counts of topics.
GROUP = 1
#: Probed states of the group and its coordinator.
STATES = 2
#: Ids and owners in ZooKeeper.
OWNERS = 4
#: Committed offsets.
COMMITS = 8
#: Ends of partitions.
ENDS = 16
#: What clients report.
CLIENTS = 32
#: Members that other groups lost at the same time as this one.
LOSSES = 64

#: PROGRESS: positions of partitions; REPORTED: these and the reports of clients.
PROGRESS = COMMITS | ENDS
REPORTED = PROGRESS | CLIENTS

#: If the log is not read, these are incomplete and late: rules that use them are not evaluated then.
LOGGED = COMMITS

NOTHING, EVERYTHING = 0, 127
#: Inputs that change all the time: rules are not evaluated at each change but some time after the first.
BULK = COMMITS | ENDS | CLIENTS
