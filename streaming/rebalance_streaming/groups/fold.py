"""Fold a group's records into its history: `fold(state, record) -> (state, rebalances)`.

Pure: no clock, no Spark. Records of one group arrive in log order, possibly again after a restart; a record at or
before the position already folded changes nothing. Positions are compared within an era of the log partition only: in a
log that was cut or recreated the same offset belongs to another record. A record of a higher era is new, one of a lower
era a repetition.
"""

from __future__ import annotations

from dataclasses import replace

from rebalance_contract import Rebalance
from rebalance_streaming.groups import episodes
from rebalance_streaming.groups.classic import fold_classic
from rebalance_streaming.groups.epochs import HANDLERS, fold_epochs
from rebalance_streaming.groups.eras import begin_era
from rebalance_streaming.groups.model import FoldDraft, FoldState, GroupRecord
from rebalance_streaming.wire.decode import DecodedRecord, Outcome

_GROUP_METADATA = 2

#: Record types that `fold` processes: all records of groups except their offsets.
FOLDED_TYPES = frozenset({_GROUP_METADATA, *HANDLERS})


def group_of(record: DecodedRecord) -> str | None:
    """Return the group of a record; null for records that are not folded."""
    if record.record_type not in FOLDED_TYPES or record.outcome not in (Outcome.DECODED, Outcome.TOMBSTONE):
        return None
    group: str = record.key.group if record.record_type == _GROUP_METADATA else record.key.group_id
    return group


def fold(state: FoldState, record: GroupRecord) -> tuple[FoldState, tuple[Rebalance, ...]]:
    """Apply one record. Return the new state and the rebalance that it began, continued or ended, if any."""
    if _is_repetition(state, record):
        return state, ()
    draft = FoldDraft.of(state)
    _settle_if_due(draft, record)
    if record.log_era > state.snapshot.log_era:
        begin_era(draft, record)
    if record.record_type == _GROUP_METADATA:
        fold_classic(draft, record)
    else:
        fold_epochs(draft, record)
    _move_to(draft, record)
    after = draft.state()
    return after, episodes.changed_rebalance(state, after)


def _settle_if_due(draft: FoldDraft, record: GroupRecord) -> None:
    """Settle the latest rebalance if readers have by the time of this record: a later generation does not change it."""
    due = draft.snapshot.settlement
    if due is not None and record.timestamp_ms >= due.at_ms:
        episodes.settle(draft)


def _is_repetition(state: FoldState, record: GroupRecord) -> bool:
    at = state.snapshot
    if at.log_offset is None or at.log_partition != record.partition:
        return False
    return (record.log_era, record.offset) <= (at.log_era, at.log_offset)


def _move_to(draft: FoldDraft, record: GroupRecord) -> None:
    """Move the log position and times to the record."""
    seen = draft.snapshot.first_seen_ms
    draft.snapshot = replace(
        draft.snapshot,
        first_seen_ms=record.timestamp_ms if seen is None else seen,
        log_era=record.log_era,
        updated_at_ms=record.timestamp_ms,
        log_partition=record.partition,
        log_offset=record.offset,
        settlement=episodes.settlement_of(draft.episode),
    )
