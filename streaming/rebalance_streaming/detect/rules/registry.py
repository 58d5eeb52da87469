"""Which rules look at a group, in the order they are asked."""

from __future__ import annotations

from rebalance_streaming.detect.group_view import Condition, MemoryUpdate
from rebalance_streaming.detect.rules import (
    announced,
    assignors,
    configuration,
    coordinator,
    duplicates,
    failover,
    kip848,
    leader,
    loops,
    membership,
    offsets,
    patterns,
    polling,
    progress,
    scheduled,
    static_members,
    unread,
    zookeeper,
)
from rebalance_streaming.observed import inputs

#: What is to be remembered before rules are asked.
MEMORY_UPDATES: tuple[MemoryUpdate, ...] = (
    MemoryUpdate(progress.update_waiting, inputs.COMMITS | inputs.ENDS),
    MemoryUpdate(offsets.update_jumps, inputs.COMMITS | inputs.ENDS),
    MemoryUpdate(duplicates.update_duplicates, inputs.COMMITS | inputs.ENDS | inputs.CLIENTS),
)
#: What several rebalances have in common, and what stands, rebalance or not.
CONDITIONS: tuple[Condition, ...] = (
    *announced.CONDITIONS,
    *patterns.PATTERNS,
    *loops.CONDITIONS,
    *leader.CONDITIONS,
    *coordinator.CONDITIONS,
    *failover.CONDITIONS,
    *kip848.CONDITIONS,
    *scheduled.CONDITIONS,
    *configuration.CONDITIONS,
    *polling.CONDITIONS,
    *assignors.CONDITIONS,
    *membership.CONDITIONS,
    *static_members.CONDITIONS,
    *progress.CONDITIONS,
    *unread.CONDITIONS,
    *offsets.CONDITIONS,
    *duplicates.CONDITIONS,
    *zookeeper.CONDITIONS,
)
#: Sum up what has been explained; judged last.
AGGREGATES: tuple[Condition, ...] = patterns.AGGREGATES
