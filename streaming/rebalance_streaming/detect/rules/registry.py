"""The rules for groups, in the order in which they are evaluated."""

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

#: Updates of the rules' memory, run before the rules are evaluated.
MEMORY_UPDATES: tuple[MemoryUpdate, ...] = (
    MemoryUpdate(progress.update_waiting, inputs.PROGRESS),
    MemoryUpdate(offsets.update_jumps, inputs.PROGRESS),
    MemoryUpdate(duplicates.update_duplicates, inputs.REPORTED),
)
#: Rules for patterns of rebalances and for conditions that hold independently of rebalances.
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
#: Rules that summarise explained rebalances; evaluated last.
AGGREGATES: tuple[Condition, ...] = (Condition(patterns.rebalance_storm, inputs.PROGRESS, without_log=True),)
