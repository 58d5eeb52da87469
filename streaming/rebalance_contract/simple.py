"""Groups without members (Kafka: simple consumer groups): whoever assigns partitions by hand and commits.

The log has only their commits and, on the Java coordinator, a group tombstone at their end. So no group record makes
them known; their lag row does.
"""

from __future__ import annotations

from dataclasses import replace

from rebalance_contract.groups import GroupSnapshot
from rebalance_contract.lag import GroupLag
from rebalance_contract.sets import GroupState, GroupType


def with_commits(group: GroupSnapshot | None, lag: GroupLag) -> GroupSnapshot:
    """Return the snapshot of a group that commits; one of which group records are known stays as it is."""
    known = group or GroupSnapshot(cluster=lag.cluster, group=lag.group)
    if known.type is not None or lag.last_log_offset is None:
        return known
    deleted = known.state == GroupState.DELETED and (known.log_offset or 0) > lag.last_log_offset
    return replace(
        known,
        type=GroupType.SIMPLE,
        state=GroupState.DELETED if deleted else GroupState.EMPTY,
        first_seen_ms=lag.first_commit_ms if known.first_seen_ms is None else known.first_seen_ms,
        updated_at_ms=lag.last_commit_ms if known.updated_at_ms is None else known.updated_at_ms,
        log_partition=lag.log_partition if known.log_partition is None else known.log_partition,
    )
