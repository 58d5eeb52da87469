"""The rules that look at a group, in the order in which they are asked."""

from __future__ import annotations

from rebalance_streaming.detect.group_view import Condition, MemoryUpdate, conditions_in
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
    MemoryUpdate(progress.update_waiting, inputs.PROGRESS),
    MemoryUpdate(offsets.update_jumps, inputs.PROGRESS),
    MemoryUpdate(duplicates.update_duplicates, inputs.REPORTED),
)
#: What several rebalances have in common, and what stands, rebalance or not.
CONDITIONS: tuple[Condition, ...] = conditions_in(
    announced,
    patterns,
    loops,
    leader,
    coordinator,
    failover,
    kip848,
    scheduled,
    configuration,
    polling,
    assignors,
    membership,
    static_members,
    progress,
    unread,
    offsets,
    duplicates,
    zookeeper,
)
#: Sum up what has been explained; judged last.
AGGREGATES: tuple[Condition, ...] = (Condition(patterns.rebalance_storm, inputs.PROGRESS, without_log=True),)
