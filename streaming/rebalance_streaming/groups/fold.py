"""Fold a group's records into what happened: `fold(state, record) -> (state, rebalances)`.

Pure: no clock, no Spark. Records of one group arrive in log order, possibly again after a restart; a record at or
before the position already folded changes nothing.

What a type-2 record means (Kafka: GroupMetadataManager, ClassicGroup): the broker writes one when the leader's
SyncGroup arrives (a finished rebalance), when the last member is gone, when a static member is replaced by its
restarted self (same generation) and, on the Java coordinator, when a group is created (generation 0). It raises the
generation at the end of every join phase but stores only those that got an assignment, so a gap is an aborted round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rebalance_streaming.groups.events import Counters, Member, Rebalance
from rebalance_streaming.groups.identity import pair_members
from rebalance_streaming.groups.model import GroupRecord, GroupState, leaves_revoked_unassigned, read_members
from rebalance_streaming.wire.records import GroupMetadataValue

STABLE, EMPTY, DELETED = "Stable", "Empty", "Deleted"


def fold(state: GroupState, record: GroupRecord) -> tuple[GroupState, tuple[Rebalance, ...]]:
    """Apply one record. Returns the new state and the rebalance it completed, if any."""
    if _is_repetition(state, record):
        return state, ()
    if record.value is None:
        return _at(record, _forget(state)), ()
    if not record.live:
        return _at(record, _adopt(state, record, record.value)), ()
    if record.value.generation == 0 and not record.value.members:
        return _at(record, _open_group(state, record, record.value)), ()
    if record.value.generation == state.picture.generation:
        return _at(record, _replace_members(state, record, record.value)), ()
    return _step(state, record, record.value)


def _is_repetition(state: GroupState, record: GroupRecord) -> bool:
    at = state.picture
    return at.log_offset is not None and at.log_partition == record.partition and record.offset <= at.log_offset


def _at(record: GroupRecord, state: GroupState) -> GroupState:
    """Move the state's log position and times to the record."""
    seen = state.picture.first_seen_ms
    picture = replace(
        state.picture,
        first_seen_ms=record.timestamp_ms if seen is None else seen,
        updated_at_ms=record.timestamp_ms,
        log_partition=record.partition,
        log_offset=record.offset,
    )
    return replace(state, picture=picture)


def _forget(state: GroupState) -> GroupState:
    """Empty the picture of a deleted group; its totals stay, should it return."""
    picture = replace(state.picture, state=DELETED, generation=None, protocol=None, leader=None, members=())
    return GroupState(picture=picture)


def _adopt(state: GroupState, record: GroupRecord, value: GroupMetadataValue) -> GroupState:
    """Take the record as the present picture, without counting how it came about."""
    picture = replace(
        state.picture,
        type="classic",
        state=STABLE if value.members else EMPTY,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        generation=value.generation,
        leader=value.leader,
        members=read_members(value),
    )
    return GroupState(picture=picture, revoked_unassigned=leaves_revoked_unassigned(value))


def _open_group(state: GroupState, record: GroupRecord, value: GroupMetadataValue) -> GroupState:
    """Note the creation marker of the Java coordinator: the first join phase begins here."""
    since = value.current_state_timestamp
    return replace(_adopt(state, record, value), joining_since_ms=since if since >= 0 else record.timestamp_ms)


def _replace_members(state: GroupState, record: GroupRecord, value: GroupMetadataValue) -> GroupState:
    """Same generation again: a static member came back under a new id (KIP-345), or the record was repeated."""
    adopted = _adopt(state, record, value)
    left, joined = _difference(state.picture.members, adopted.picture.members)
    replaced = pair_members(left, joined)
    counters = state.picture.counters
    counters = replace(counters, members_replaced=counters.members_replaced + len(replaced))
    return replace(
        adopted,
        picture=replace(adopted.picture, counters=counters),
        revoked_unassigned=state.revoked_unassigned,
    )


def _step(
    state: GroupState, record: GroupRecord, value: GroupMetadataValue
) -> tuple[GroupState, tuple[Rebalance, ...]]:
    """Count the generations between the known one and this, and describe the rebalance that ended here."""
    adopted = _at(record, _adopt(state, record, value))
    rebalance = _describe(state, adopted, record, value)
    counters = _count(state.picture.counters, rebalance)
    picture = replace(
        adopted.picture,
        counters=counters,
        last_rebalance_ms=record.timestamp_ms,
        last_rebalance_id=rebalance.rebalance_id,
    )
    return replace(adopted, picture=picture), (rebalance,)


def _describe(before: GroupState, after: GroupState, record: GroupRecord, value: GroupMetadataValue) -> Rebalance:
    left, joined = _difference(before.picture.members, after.picture.members)
    replaced = pair_members(left, joined)
    join_ended_ms = value.current_state_timestamp if value.current_state_timestamp >= 0 else None
    started_after_ms, started_before_ms = _start_bounds(before, record, join_ended_ms)
    return Rebalance(
        cluster=after.picture.cluster,
        group=after.picture.group,
        # The position of the completing record: the same at every replay, and unlike a generation never reused.
        rebalance_id=f"{record.partition}-{record.offset}",
        reason=_reason(before, after, left, joined, replaced),
        generation_from=before.picture.generation,
        generation_to=value.generation,
        generations_aborted=_aborted(before, value.generation),
        started_after_ms=started_after_ms,
        started_before_ms=started_before_ms,
        join_ended_at_ms=join_ended_ms,
        completed_at_ms=record.timestamp_ms,
        sync_ms=None if join_ended_ms is None else max(0, record.timestamp_ms - join_ended_ms),
        duration_min_ms=max(0, record.timestamp_ms - started_before_ms),
        duration_max_ms=None if started_after_ms is None else max(0, record.timestamp_ms - started_after_ms),
        protocol=value.protocol,
        leader=value.leader,
        members_before=before.picture.members,
        members_after=after.picture.members,
        joined=tuple(member.member_id for member in joined),
        left=tuple(member.member_id for member in left),
        replaced=replaced,
    )


def _difference(before: Sequence[Member], after: Sequence[Member]) -> tuple[list[Member], list[Member]]:
    """Return (left, joined) by member id."""
    old, new = {m.member_id for m in before}, {m.member_id for m in after}
    return [m for m in before if m.member_id not in new], [m for m in after if m.member_id not in old]


def _aborted(before: GroupState, generation: int) -> int:
    """Rounds that ended without a stored assignment between the known generation and this one.

    A group without a known generation is new (everything older was read first), and a group's first generation
    is 1. A generation below the known one means the coordinator started over: nothing can be said of the gap.
    """
    known = before.picture.generation or 0
    return max(0, generation - known - 1)


def _start_bounds(before: GroupState, record: GroupRecord, join_ended_ms: int | None) -> tuple[int | None, int]:
    """Between which times the join phase began: (not before, not after).

    Not before the previous record, which the broker wrote in another state; not after the barrier's release.
    """
    latest = record.timestamp_ms if join_ended_ms is None else min(join_ended_ms, record.timestamp_ms)
    if before.joining_since_ms is not None:
        return before.joining_since_ms, before.joining_since_ms
    return before.picture.updated_at_ms, latest


def _reason(
    before: GroupState,
    after: GroupState,
    left: Sequence[Member],
    joined: Sequence[Member],
    replaced: Sequence[tuple[str, str]],
) -> str:
    """Classify what started the rebalance by what it changed; the first match wins."""
    if not after.picture.members:
        return "group_emptied"
    if not before.picture.members:
        return "first_join"
    if left and joined:
        return "replacement" if len(replaced) == len(left) == len(joined) else "swap"
    if joined:
        return "join"
    if left:
        return "departure"
    return _reason_without_member_change(before, after)


def _reason_without_member_change(before: GroupState, after: GroupState) -> str:
    topics_before = {member.member_id: member.topics for member in before.picture.members}
    if any(topics_before[member.member_id] != member.topics for member in after.picture.members):
        return "subscription_change"
    if before.revoked_unassigned:
        return "cooperative_followup"
    # With unchanged members only the leader's JoinGroup starts a rebalance (Kafka: classicGroupJoinExistingMember).
    return "leader_rejoin"


def _count(counters: Counters, rebalance: Rebalance) -> Counters:
    by_reason = {**counters.rebalances, rebalance.reason: counters.rebalances.get(rebalance.reason, 0) + 1}
    returned = len(rebalance.replaced)
    return Counters(
        rebalances=by_reason,
        generations_completed=counters.generations_completed + 1,
        generations_aborted=counters.generations_aborted + rebalance.generations_aborted,
        members_joined=counters.members_joined + len(rebalance.joined) - returned,
        members_left=counters.members_left + len(rebalance.left) - returned,
        members_replaced=counters.members_replaced + returned,
    )
