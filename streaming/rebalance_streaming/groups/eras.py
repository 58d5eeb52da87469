"""Which parts of a group's state stay valid when its log partition was cut or recreated, which begins a new era.

Totals, windows and the latest rebalance stay. The rest is valid as long as the group's last record may still be in the
log; if its position is at or above that of a new record, it is gone, and with it what the coordinator had stored there.
The next record of a classic group describes it completely, so only its generations can no longer be compared. The newer
kinds are described by many records, and lost ones have no tombstones: what is known of members is dropped.
"""

from __future__ import annotations

from dataclasses import replace

from rebalance_contract import GroupType
from rebalance_streaming.groups import episodes
from rebalance_streaming.groups.epochs import HANDLERS
from rebalance_streaming.groups.model import FoldDraft, GroupRecord, MemberChanges

_CLASSIC_TYPES = (None, GroupType.CLASSIC, GroupType.SIMPLE)


def begin_era(draft: FoldDraft, record: GroupRecord) -> None:
    """Prepare a draft for the first record of a higher era."""
    if not _is_last_record_gone(draft, record):
        return
    if draft.snapshot.type in _CLASSIC_TYPES and record.record_type not in HANDLERS:
        _continue_classic(draft, record)
    else:
        _forget_members(draft, record)


def _is_last_record_gone(draft: FoldDraft, record: GroupRecord) -> bool:
    at = draft.snapshot
    if at.log_offset is None:
        return False
    return at.log_partition != record.partition or record.offset <= at.log_offset


def _continue_classic(draft: FoldDraft, record: GroupRecord) -> None:
    """Let the record complete a generation, even if its number is a known one, and count no aborted rounds before."""
    draft.joining_since_ms, draft.revoked_unassigned, draft.changes, draft.gone = None, False, MemberChanges(), None
    known, generation = draft.last_generation, 0 if record.value is None else record.value.generation
    if known is None or not record.live or not 0 < generation <= known:
        return
    counters = episodes.count_reset(draft.snapshot.counters)
    draft.snapshot = replace(draft.snapshot, generation=generation - 1, counters=counters)
    draft.last_generation = generation - 1


def _forget_members(draft: FoldDraft, record: GroupRecord) -> None:
    episodes.abort(draft, record.timestamp_ms)
    if draft.last_generation is not None and record.live:
        draft.snapshot = replace(draft.snapshot, counters=episodes.count_reset(draft.snapshot.counters))
    draft.joining_since_ms, draft.revoked_unassigned, draft.changes, draft.gone = None, False, MemberChanges(), None
    draft.last_generation, draft.metadata_hash, draft.topology_epoch, draft.sources = None, None, None, {}
    draft.snapshot = replace(draft.snapshot, generation=None, assignment_epoch=None, leader=None, members=())
