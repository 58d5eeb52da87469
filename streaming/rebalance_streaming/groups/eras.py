"""What a group's state is still worth when its log partition was cut or made anew: a new era of the log begins.

Totals, windows and the latest rebalance stay. The rest holds as long as the group's last record may still be in the
log; one that lies at or behind the position of a new record is gone, and with it what the coordinator had stored there.
A classic group's next record describes it whole, so that only its numbering is not comparable any more. The newer kinds
are described by many records, of which those that were lost have no tombstones: what is known of members goes.
"""

from __future__ import annotations

from dataclasses import replace

from rebalance_contract import GroupType
from rebalance_streaming.groups import episodes
from rebalance_streaming.groups.epochs import HANDLERS
from rebalance_streaming.groups.model import FoldState, GroupRecord, MemberChanges

_CLASSIC_TYPES = (None, GroupType.CLASSIC, GroupType.SIMPLE)


def begin_era(state: FoldState, record: GroupRecord) -> None:
    """Prepare the given copy of a state for the first record of a higher era."""
    if not _is_last_record_gone(state, record):
        return
    if state.picture.type in _CLASSIC_TYPES and record.record_type not in HANDLERS:
        _continue_classic(state, record)
    else:
        _forget_members(state, record)


def _is_last_record_gone(state: FoldState, record: GroupRecord) -> bool:
    at = state.picture
    if at.log_offset is None:
        return False
    return at.log_partition != record.partition or record.offset <= at.log_offset


def _continue_classic(state: FoldState, record: GroupRecord) -> None:
    """Let the record complete a generation, though its number may be a known one, and count no rounds before it."""
    state.joining_since_ms, state.revoked_unassigned, state.changes, state.gone = None, False, MemberChanges(), None
    known, generation = state.last_generation, 0 if record.value is None else record.value.generation
    if known is None or not record.live or not 0 < generation <= known:
        return
    counters = episodes.count_reset(state.picture.counters)
    state.picture = replace(state.picture, generation=generation - 1, counters=counters)
    state.last_generation = generation - 1


def _forget_members(state: FoldState, record: GroupRecord) -> None:
    episodes.abort(state, record.timestamp_ms)
    if state.last_generation is not None and record.live:
        state.picture = replace(state.picture, counters=episodes.count_reset(state.picture.counters))
    state.joining_since_ms, state.revoked_unassigned, state.changes, state.gone = None, False, MemberChanges(), None
    state.last_generation, state.metadata_hash, state.topology_epoch, state.sources = None, None, None, {}
    state.picture = replace(state.picture, generation=None, assignment_epoch=None, leader=None, members=())
