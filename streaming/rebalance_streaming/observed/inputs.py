"""What rules look at, as bits: a rule is asked again when one of its inputs changed.

What a group's members, rebalances and their causes are is every rule's input. The rest comes in bulk, every few
seconds for every group, and most rules look at none of it.
"""

from __future__ import annotations

#: Snapshots, rebalances, what was found of them, and how many partitions topics have.
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

#: Where partitions stand, and with it what clients say of themselves.
PROGRESS = COMMITS | ENDS
REPORTED = PROGRESS | CLIENTS

#: Where the log is not read, these are seldom known and late: rules that look at them are not asked there.
LOGGED = COMMITS

NOTHING, EVERYTHING = 0, 63
#: Inputs that change all the time: rules are not asked at each change but some time after the first.
BULK = COMMITS | ENDS | CLIENTS
