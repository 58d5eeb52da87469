"""Groups without members (Kafka: simple consumer groups), whose consumers assign partitions manually and commit.

The log has only their commits and, with the Java coordinator, a group tombstone at their end. As they have no group
record, their snapshot is made from their lag row.
"""

from __future__ import annotations

from dataclasses import replace

from rebalance_contract.groups import GroupSnapshot
from rebalance_contract.lag import GroupLag
from rebalance_contract.sets import GroupState, GroupType


def with_commits(group: GroupSnapshot | None, lag: GroupLag) -> GroupSnapshot:
    """Return the snapshot of a group that commits; a group with known group records is returned unchanged."""
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
