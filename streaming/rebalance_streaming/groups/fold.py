"""Fold a group's records into what happened: `fold(state, record) -> (state, rebalances)`.

Pure: no clock, no Spark. Records of one group arrive in log order, possibly again after a restart; a record at or
before the position already folded changes nothing.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from rebalance_streaming.groups import episodes
from rebalance_streaming.groups.classic import fold_classic
from rebalance_streaming.groups.epochs import HANDLERS, fold_epochs
from rebalance_streaming.groups.events import Rebalance
from rebalance_streaming.groups.model import GroupRecord, GroupState

GROUP_METADATA = 2

#: Record types that `fold` understands: everything about groups but their offsets.
FOLDED_TYPES = frozenset({GROUP_METADATA, *HANDLERS})


def fold(state: GroupState, record: GroupRecord) -> tuple[GroupState, tuple[Rebalance, ...]]:
    """Apply one record. Returns the new state and the rebalance it began, continued or ended, if any."""
    if _is_repetition(state, record):
        return state, ()
    after = copy(state)
    if record.record_type == GROUP_METADATA:
        fold_classic(after, record)
    else:
        fold_epochs(after, record)
    _move_to(after, record)
    return after, _changed_rebalance(state, after)


def settle(state: GroupState, now_ms: int) -> GroupState:
    """Count what has been over for long enough by `now_ms` (epoch milliseconds)."""
    due = episodes.settles_at_ms(state)
    if due is None or due > now_ms:
        return state
    after = copy(state)
    episodes.settle(after)
    return after


def _is_repetition(state: GroupState, record: GroupRecord) -> bool:
    at = state.picture
    return at.log_offset is not None and at.log_partition == record.partition and record.offset <= at.log_offset


def _move_to(state: GroupState, record: GroupRecord) -> None:
    """Move the state's log position and times to the record."""
    seen = state.picture.first_seen_ms
    state.picture = replace(
        state.picture,
        first_seen_ms=record.timestamp_ms if seen is None else seen,
        updated_at_ms=record.timestamp_ms,
        log_partition=record.partition,
        log_offset=record.offset,
    )


def _changed_rebalance(before: GroupState, after: GroupState) -> tuple[Rebalance, ...]:
    old = None if before.episode is None else before.episode.rebalance
    new = None if after.episode is None else after.episode.rebalance
    return () if new is None or new is old else (new,)
