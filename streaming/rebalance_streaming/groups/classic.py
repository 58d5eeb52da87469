"""Classic groups: the meaning of type-2 records.

The broker writes one when the leader's SyncGroup arrives (a finished rebalance), when the last member is gone, when a
static member is replaced by its restarted self (same generation) and, on the Java coordinator, when a group is created
(generation 0) or converted from the KIP-848 protocol (generation = group epoch). It raises the generation at the end of
every join phase but stores only generations that got an assignment, so a gap is an aborted round. (Kafka:
GroupMetadataManager, ClassicGroup.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rebalance_contract import (
    CONNECT_PROTOCOL,
    CONSUMER_PROTOCOL,
    KEPT_REPLACEMENTS,
    STREAMS_ASSIGNOR,
    Generation,
    GroupSnapshot,
    GroupState,
    GroupType,
    Member,
    Partitions,
    RebalanceReason,
    Replacement,
)
from rebalance_streaming.groups import episodes
from rebalance_streaming.groups.identity import pair_members
from rebalance_streaming.groups.model import (
    FoldDraft,
    GroupRecord,
    MemberChanges,
    ProbedStates,
    RemovedGroup,
    Step,
    by_id,
    difference,
)
from rebalance_streaming.wire.assignment import (
    Assignment,
    Opaque,
    Subscription,
    Versioned,
    decode_assignment,
    decode_subscription,
    decode_worker_state,
    read_subscription,
)
from rebalance_streaming.wire.records import GroupMetadataMember, GroupMetadataValue

#: How long to wait for a cooperative assignor's second round when no member has a longer rebalance timeout.
LOG_FOLLOW_UP_WITHIN_MS = 30_000


def fold_classic(draft: FoldDraft, record: GroupRecord) -> None:
    """Apply a type-2 record to a draft."""
    value: GroupMetadataValue | None = record.value
    if value is None:
        _forget(draft, record)
    elif _is_conversion(draft, record, value):
        _convert(draft, record, value)
    elif not record.live:
        _adopt(draft, value)
    elif value.generation == 0 and not value.members:
        _open_group(draft, record, value)
    elif value.generation == draft.snapshot.generation:
        _replace_members(draft, record, value)
    else:
        _step(draft, record, value)


def _forget(draft: FoldDraft, record: GroupRecord) -> None:
    """Empty the snapshot of a deleted group; its totals are kept in case it returns."""
    if draft.snapshot.type not in (None, GroupType.CLASSIC, GroupType.SIMPLE):
        return  # a tombstone from the group's former time as a classic group, kept by compaction
    snapshot = draft.snapshot
    episodes.abort(draft, record.timestamp_ms)
    draft.gone = RemovedGroup(GroupType.CLASSIC, record.timestamp_ms, snapshot.generation, snapshot.members)
    draft.joining_since_ms, draft.revoked_unassigned, draft.changes = None, False, MemberChanges()
    draft.snapshot = replace(
        draft.snapshot,
        state=GroupState.DELETED,
        generation=None,
        protocol=None,
        leader=None,
        members=(),
        assignment_epoch=None,
    )


def _is_conversion(draft: FoldDraft, record: GroupRecord, value: GroupMetadataValue) -> bool:
    """Whether this record is the second half of a conversion from KIP-848; tombstones are the first half."""
    gone = draft.gone
    return (
        record.live
        and gone is not None
        and gone.type != GroupType.CLASSIC
        and gone.timestamp_ms == record.timestamp_ms
        and (value.generation in (gone.generation, 0))
    )


def _convert(draft: FoldDraft, record: GroupRecord, value: GroupMetadataValue) -> None:
    """Continue as a classic group. A rebalance among the remaining members follows at once."""
    gone, known = draft.gone, draft.last_generation
    _adopt(draft, value)
    counters = replace(draft.snapshot.counters, conversions=draft.snapshot.counters.conversions + 1)
    draft.snapshot = replace(draft.snapshot, counters=counters)
    draft.joining_since_ms = record.timestamp_ms
    if gone is not None and value.members:
        left, _ = difference(gone.members, draft.snapshot.members)
        draft.changes = MemberChanges(departed=tuple(left), first=left[0].member_id if len(left) == 1 else None)
        episodes.resume(draft)
    elif known:
        draft.snapshot = replace(draft.snapshot, counters=episodes.count_reset(counters))


def _adopt(draft: FoldDraft, value: GroupMetadataValue) -> None:
    """Take the record as the present snapshot, without counting how it came about."""
    draft.snapshot = replace(
        draft.snapshot,
        type=GroupType.CLASSIC,
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        generation=value.generation,
        assignment_epoch=None,
        leader=value.leader,
        members=read_members(value),
        rebalancing_since_ms=None,
    )
    draft.joining_since_ms = None
    draft.revoked_unassigned = leaves_revoked_unassigned(value)
    draft.gone, draft.changes = None, MemberChanges()
    draft.last_generation = value.generation


def _open_group(draft: FoldDraft, record: GroupRecord, value: GroupMetadataValue) -> None:
    """Process the creation marker of the Java coordinator: the first join phase begins here."""
    came_back = bool(draft.last_generation)
    since = value.current_state_timestamp
    _adopt(draft, value)
    draft.joining_since_ms = since if since >= 0 else record.timestamp_ms
    if came_back:
        draft.snapshot = replace(draft.snapshot, counters=episodes.count_reset(draft.snapshot.counters))


def _replace_members(draft: FoldDraft, record: GroupRecord, value: GroupMetadataValue) -> None:
    """Process a record of the same generation: a static member has a new id (KIP-345), or the record was repeated."""
    before, joining, due = draft.snapshot.members, draft.joining_since_ms, draft.revoked_unassigned
    _adopt(draft, value)
    left, joined = difference(before, draft.snapshot.members)
    replaced = replacements(left, joined, record.timestamp_ms)
    counters = draft.snapshot.counters
    draft.snapshot = replace(
        draft.snapshot,
        counters=replace(counters, members_replaced=counters.members_replaced + len(pair_members(left, joined))),
        replacements=(*draft.snapshot.replacements, *replaced)[-KEPT_REPLACEMENTS:],
    )
    draft.joining_since_ms, draft.revoked_unassigned = joining, due


def replacements(left: Sequence[Member], joined: Sequence[Member], at_ms: int) -> list[Replacement]:
    """Return the static members that have a new id, among those that left and joined (KIP-345)."""
    gone, come = {each.member_id: each for each in left}, {each.member_id: each for each in joined}
    return [
        Replacement(at_ms, instance, old, new, gone[old].host, come[new].host)
        for old, new in pair_members(left, joined)
        if (instance := come[new].group_instance_id) is not None
    ]


def _step(draft: FoldDraft, record: GroupRecord, value: GroupMetadataValue) -> None:
    """Process the generation this record completes, and the earlier ones that were aborted."""
    before = draft.snapshot
    members_before = by_id((*before.members, *draft.changes.departed))
    first_departed, due, joining = draft.changes.first, draft.revoked_unassigned, draft.joining_since_ms
    aborted = _aborted(draft.last_generation, before.generation, value.generation)
    if draft.last_generation is not None and value.generation < draft.last_generation:
        draft.snapshot = replace(before, counters=episodes.count_reset(before.counters))
    known = draft.last_generation
    _adopt(draft, value)
    draft.last_generation = known
    join_ended_ms = value.current_state_timestamp if value.current_state_timestamp >= 0 else None
    left, joined = difference(members_before, draft.snapshot.members)
    replaced = pair_members(left, joined)
    reason = _reason(members_before, draft.snapshot, due=due, left=left, joined=joined, replaced=replaced)
    latest = record.timestamp_ms if join_ended_ms is None else min(join_ended_ms, record.timestamp_ms)
    # Not before the previous record, when the group was in another state; not after the barrier's release.
    started_after, started_before = _start_bounds(draft.sighting, before.updated_at_ms, latest)
    draft.sighting = replace(draft.sighting, settled_ms=None, rebalancing_ms=None)
    generation = Generation(
        generation=value.generation,
        reason=reason,
        started_at_ms=joining,
        join_ended_at_ms=join_ended_ms,
        joined=tuple(member.member_id for member in joined),
        left=tuple(member.member_id for member in left),
        replaced=replaced,
    )
    step = Step(
        generation=generation,
        started_after_ms=started_after if joining is None else joining,
        started_before_ms=started_before if joining is None else joining,
        known_ms=latest if joining is None else joining,
        members_before=members_before,
        members_after=draft.snapshot.members,
        merge_within_ms=_merge_within_ms(reason, draft.snapshot.members),
        offender=first_departed or _offender(before, reason, left, joined, draft.snapshot.members),
    )
    episodes.begin(draft, record, step)
    episodes.assign(draft, record, value.generation, aborted)
    episodes.complete(draft, record)
    draft.last_generation = value.generation


def _start_bounds(sighting: ProbedStates, not_before_ms: int | None, not_after_ms: int) -> tuple[int | None, int]:
    """Narrow the bounds that the log gives for a start by the states that probes saw since the last record."""
    settled, rebalancing = sighting.settled_ms, sighting.rebalancing_ms
    earliest, latest = not_before_ms, not_after_ms
    if rebalancing is not None and (earliest is None or earliest < rebalancing) and rebalancing < latest:
        latest = rebalancing
    if settled is not None and settled <= latest and (earliest is None or earliest < settled):
        earliest = settled
    return earliest, latest


def _aborted(last: int | None, present: int | None, generation: int) -> int:
    """Return the number of rounds without a stored assignment between the known generation and this one.

    A group without a known generation is new or was deleted (everything older was read first), and a group's first
    generation is 1. A generation below the known one means that the coordinator started over; the gap is unknown then.
    """
    if present is None and last is not None and generation > last:
        return 0  # deleted and recreated with higher generations: the tombstone was no new beginning
    return max(0, generation - (present or 0) - 1)


def _merge_within_ms(reason: str, members: Sequence[Member]) -> int:
    if reason != RebalanceReason.COOPERATIVE_FOLLOWUP:
        return episodes.MERGE_WITHIN_MS
    return max([LOG_FOLLOW_UP_WITHIN_MS, *(m.rebalance_timeout_ms for m in members if m.rebalance_timeout_ms)])


def _reason(
    before: Sequence[Member],
    after: GroupSnapshot,
    *,
    due: bool,
    left: Sequence[Member],
    joined: Sequence[Member],
    replaced: Sequence[tuple[str, str]],
) -> str:
    """Classify what started the rebalance by what it changed; the first match wins."""
    if not after.members:
        return RebalanceReason.GROUP_EMPTIED
    if not before:
        return RebalanceReason.FIRST_JOIN
    return member_change(left, joined, replaced) or _reason_without_member_change(before, after, due=due)


def member_change(left: Sequence[Member], joined: Sequence[Member], replaced: Sequence[tuple[str, str]]) -> str | None:
    """Return the reason if members left or joined, else null."""
    if left and joined:
        return RebalanceReason.REPLACEMENT if len(replaced) == len(left) == len(joined) else RebalanceReason.SWAP
    if joined:
        return RebalanceReason.JOIN
    return RebalanceReason.DEPARTURE if left else None


def _reason_without_member_change(before: Sequence[Member], after: GroupSnapshot, *, due: bool) -> str:
    former = {member.member_id: member for member in before}
    pairs = [(former[member.member_id], member) for member in after.members]
    if any(old.topics != new.topics for old, new in pairs):
        return RebalanceReason.SUBSCRIPTION_CHANGE
    if due:
        return RebalanceReason.COOPERATIVE_FOLLOWUP
    if partition_counts(before) != partition_counts(after.members):
        return RebalanceReason.TOPIC_METADATA_CHANGE
    if any(old.rack_id != new.rack_id for old, new in pairs):
        return RebalanceReason.RACK_CHANGE
    if after.protocol_type == CONNECT_PROTOCOL:
        return RebalanceReason.CONNECT_INTERNAL
    # With unchanged members only the leader's JoinGroup starts a rebalance (Kafka: classicGroupJoinExistingMember).
    return RebalanceReason.STREAMS_INTERNAL if after.protocol == STREAMS_ASSIGNOR else RebalanceReason.LEADER_REJOIN


def partition_counts(members: Sequence[Member]) -> dict[str, int]:
    """Return the total number of partitions of each topic that members have."""
    counts: dict[str, int] = {}
    for member in members:
        for topic, partitions in (member.partitions or {}).items():
            counts[topic] = counts.get(topic, 0) + len(partitions)
    return counts


def _offender(
    before: GroupSnapshot, reason: str, left: Sequence[Member], joined: Sequence[Member], after: Sequence[Member]
) -> str | None:
    """Return the one member that started the rebalance, null if there are several candidates."""
    gone_or_come = left or joined
    if gone_or_come:
        return gone_or_come[0].member_id if len(gone_or_come) == 1 else None
    if reason == RebalanceReason.SUBSCRIPTION_CHANGE:
        former = {member.member_id: member.topics for member in before.members}
        changed = [member.member_id for member in after if former.get(member.member_id) != member.topics]
        return changed[0] if len(changed) == 1 else None
    return before.leader if reason == RebalanceReason.LEADER_REJOIN else None


# --- Members ---


def read_members(value: GroupMetadataValue) -> tuple[Member, ...]:
    """Return the members of a group record, sorted by id."""
    if value.protocol_type == CONNECT_PROTOCOL:
        return by_id(_read_worker(member) for member in value.members)
    consumer = value.protocol_type == CONSUMER_PROTOCOL
    return by_id(_read_member(member, consumer=consumer) for member in value.members)


def _read_worker(member: GroupMetadataMember) -> Member:
    state = decode_worker_state(member.subscription)
    offset = None if isinstance(state, Opaque) else state.config_offset
    return replace(_read_member(member, consumer=False), config_offset=offset)


def _read_member(member: GroupMetadataMember, *, consumer: bool) -> Member:
    read = read_subscription(member.subscription) if consumer else None
    version, subscription = (read.version, read.data) if isinstance(read, Versioned) else (None, None)
    data = subscription.user_data if subscription else None
    return Member(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host.removeprefix("/"),
        group_instance_id=member.group_instance_id,
        rack_id=(subscription.rack_id or None) if subscription else None,
        session_timeout_ms=member.session_timeout,
        rebalance_timeout_ms=member.rebalance_timeout if member.rebalance_timeout >= 0 else None,
        topics=tuple(sorted(subscription.topics)) if subscription else (),
        partitions=_partitions(member.assignment) if consumer else None,
        subscription_version=version,
        user_data_bytes=None if data is None else len(data),
    )


def _partitions(assignment: bytes) -> Partitions | None:
    decoded = decode_assignment(assignment)
    if not isinstance(decoded, Assignment):
        return None
    return {each.topic: sorted(each.partitions) for each in decoded.assigned_partitions}


def leaves_revoked_unassigned(value: GroupMetadataValue) -> bool:
    """Whether members gave up partitions in this generation that nobody got yet (first of KIP-429's two rounds).

    Eager members send no owned partitions, so this is never true for them.
    """
    if value.protocol_type != CONSUMER_PROTOCOL:
        return False
    owned: set[tuple[str, int]] = set()
    given: set[tuple[str, int]] = set()
    for member in value.members:
        subscription, assignment = decode_subscription(member.subscription), decode_assignment(member.assignment)
        if isinstance(subscription, Subscription):
            owned |= {(each.topic, p) for each in subscription.owned_partitions for p in each.partitions}
        if isinstance(assignment, Assignment):
            given |= {(each.topic, p) for each in assignment.assigned_partitions for p in each.partitions}
    return bool(owned - given)
