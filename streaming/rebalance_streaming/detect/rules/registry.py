"""Which rules look at a group, in the order they are asked."""

from __future__ import annotations

from rebalance_streaming.detect.look import ConditionRule
from rebalance_streaming.detect.rules import (
    configuration,
    coordinator,
    frameworks,
    kip848,
    loops,
    membership,
    offsets,
    patterns,
    progress,
    zookeeper,
)

#: What several rebalances have in common, and what stands, rebalance or not.
CONDITIONS: tuple[ConditionRule, ...] = (
    *patterns.PATTERNS,
    *loops.CONDITIONS,
    *coordinator.CONDITIONS,
    *kip848.CONDITIONS,
    *frameworks.CONDITIONS,
    *configuration.CONDITIONS,
    *membership.CONDITIONS,
    *progress.CONDITIONS,
    *offsets.CONDITIONS,
    *zookeeper.CONDITIONS,
)
#: Sum up what has been explained; judged last.
AGGREGATES: tuple[ConditionRule, ...] = patterns.AGGREGATES
