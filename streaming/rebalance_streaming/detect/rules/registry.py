"""Which rules look at a group, in the order they are asked."""

from __future__ import annotations

from rebalance_streaming.detect.group_view import Condition, MemoryUpdate
from rebalance_streaming.detect.rules import (
    announced,
    benign,
    configuration,
    coordinator,
    kip848,
    loops,
    membership,
    offsets,
    patterns,
    progress,
    zookeeper,
)
from rebalance_streaming.detect.rules.duplicates import update_duplicates
from rebalance_streaming.detect.rules.offsets import update_jumps
from rebalance_streaming.detect.rules.progress import update_waiting
from rebalance_streaming.observed import inputs

#: What is to be remembered before rules are asked.
MEMORY_UPDATES: tuple[MemoryUpdate, ...] = (
    MemoryUpdate(update_waiting, inputs.COMMITS | inputs.ENDS),
    MemoryUpdate(update_jumps, inputs.COMMITS | inputs.ENDS),
    MemoryUpdate(update_duplicates, inputs.COMMITS | inputs.ENDS | inputs.CLIENTS),
)
#: What several rebalances have in common, and what stands, rebalance or not.
CONDITIONS: tuple[Condition, ...] = (
    *announced.CONDITIONS,
    *patterns.PATTERNS,
    *loops.CONDITIONS,
    *coordinator.CONDITIONS,
    *kip848.CONDITIONS,
    *benign.CONDITIONS,
    *configuration.CONDITIONS,
    *membership.CONDITIONS,
    *progress.CONDITIONS,
    *offsets.CONDITIONS,
    *zookeeper.CONDITIONS,
)
#: Sum up what has been explained; judged last.
AGGREGATES: tuple[Condition, ...] = patterns.AGGREGATES
