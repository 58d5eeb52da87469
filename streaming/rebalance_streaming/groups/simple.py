"""Groups without members: whoever assigns partitions by hand and commits (Kafka: simple consumer groups).

The log has only their commits, and on the Java coordinator a group tombstone at their end. So the commits query says
of each group once in a while that it commits; here that makes a group known of which nothing else is.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

from rebalance_streaming.groups.classic import DELETED, EMPTY
from rebalance_streaming.groups.model import GroupState

SIMPLE = "simple"


@dataclass(frozen=True, slots=True)
class Committing:
    """A commit of a group: where it stands in the log, and its record's time in epoch milliseconds."""

    group: str
    log_partition: int
    log_offset: int
    timestamp_ms: int


def note_commit(state: GroupState, commit: Committing) -> GroupState:
    """Take up that the group commits. It may come long after the commit, and changes nothing of a known group."""
    picture = state.picture
    if picture.type is not None:
        return state
    after = copy(state)
    deleted = picture.state == DELETED and picture.log_offset is not None and picture.log_offset > commit.log_offset
    after.picture = replace(
        picture,
        type=SIMPLE,
        state=DELETED if deleted else EMPTY,
        first_seen_ms=commit.timestamp_ms if picture.first_seen_ms is None else picture.first_seen_ms,
        updated_at_ms=commit.timestamp_ms if picture.updated_at_ms is None else picture.updated_at_ms,
    )
    return after
