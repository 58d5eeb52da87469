"""Groups that count epochs: KIP-848 consumer groups, share groups (KIP-932) and streams groups (KIP-1071).

Their whole history is in the log. A group epoch (types 3, 11, 17) is raised when a new assignment is needed, which is
the exact start of a rebalance; the target assignment (6, 12, 20) is computed for an epoch; every member (8, 14, 22)
then moves to it on its own. The group's state is a function of these records (Kafka:
ConsumerGroup.maybeUpdateGroupState). The cause of a new epoch is in the records since the previous one: member records
(5, 10, 19), their tombstones, a resolved pattern (16).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rebalance_contract import (
    KEPT_REPLACEMENTS,
    Generation,
    GroupSnapshot,
    GroupState,
    GroupType,
    Member,
    MemberState,
    Partitions,
    RebalanceReason,
    Replacement,
)
from rebalance_streaming.groups import episodes
from rebalance_streaming.groups.classic import member_change
from rebalance_streaming.groups.identity import pair_members
from rebalance_streaming.groups.model import (
    FoldDraft,
    GroupRecord,
    MemberChanges,
    RemovedGroup,
    Step,
    by_id,
    id_of,
    member_of,
)
from rebalance_streaming.groups.topic_names import learn_only_topic, name_topics
from rebalance_streaming.wire.kafka_json import uuid_text

#: The member epoch of a static member that left and announced its return (Kafka: LEAVE_GROUP_STATIC_MEMBER_EPOCH).
_AWAY_EPOCH = -2
_MEMBER_STATES = {0: MemberState.STABLE, 1: MemberState.UNREVOKED, 2: MemberState.UNRELEASED}
_STREAMS_MEMBER_STATES = {1: MemberState.STABLE, 2: MemberState.UNREVOKED, 3: MemberState.UNRELEASED}


@dataclass(frozen=True, slots=True)
class _Kind:
    type: GroupType
    member_states: Mapping[int, MemberState]


CONSUMER = _Kind(GroupType.CONSUMER, _MEMBER_STATES)
SHARE = _Kind(GroupType.SHARE, _MEMBER_STATES)
STREAMS = _Kind(GroupType.STREAMS, _STREAMS_MEMBER_STATES)

Handler = Callable[[FoldDraft, GroupRecord, _Kind], None]


def fold_epochs(draft: FoldDraft, record: GroupRecord) -> None:
    """Apply a record of one of these kinds to a draft."""
    kind, handler = HANDLERS[record.record_type]
    _take_over(draft, record, kind)
    handler(draft, record, kind)
    if kind is not STREAMS:
        learn_only_topic(draft, record.member_id)
    if draft.snapshot.generation is None:
        return
    draft.snapshot = replace(draft.snapshot, state=_group_state(draft, kind))
    if record.live:
        _end_if_converged(draft, record)


def _take_over(draft: FoldDraft, record: GroupRecord, kind: _Kind) -> None:
    """Continue the state of a classic group that was converted in this batch (spec: policy of KIP-848)."""
    gone = draft.gone
    if gone is None or record.value is None or (gone.converted and gone.timestamp_ms == record.timestamp_ms):
        return
    if not record.live or gone.type != GroupType.CLASSIC or gone.timestamp_ms != record.timestamp_ms:
        draft.gone = None
        return
    counters = replace(draft.snapshot.counters, conversions=draft.snapshot.counters.conversions + 1)
    draft.snapshot = replace(draft.snapshot, type=kind.type, counters=counters)
    if gone.members:
        draft.snapshot = replace(
            draft.snapshot, state=GroupState.STABLE, generation=gone.generation, members=gone.members
        )
        # The rest of the batch must still know that its first epoch equals the classic generation.
        draft.gone = replace(gone, converted=True)
        episodes.resume(draft)
    else:
        draft.gone = None


def _on_member(draft: FoldDraft, record: GroupRecord, kind: _Kind) -> None:
    member_id = record.member_id or ""
    known = member_of(draft.snapshot.members, member_id)
    if record.value is None:
        if known is not None:
            _remove(draft, record, known)
        return
    described = _describe(known, member_id, record.value, kind)
    if known is None or not known.client_id:
        _arrive(draft, described, record.timestamp_ms)
    elif (known.topics, known.topic_regex) != (described.topics, described.topic_regex):
        changes = draft.changes
        draft.changes = replace(
            changes, subscriptions=(*changes.subscriptions, member_id), first=changes.first or member_id
        )
    elif known.rack_id != described.rack_id:
        draft.changes = replace(draft.changes, racks=(*draft.changes.racks, member_id))
    _put(draft, described)


def _describe(known: Member | None, member_id: str, value: Any, kind: _Kind) -> Member:
    classic = getattr(value, "classic_member_metadata", None)
    timeout = getattr(value, "rebalance_timeout_ms", -1)
    return replace(
        known or Member(member_id, "", ""),
        client_id=value.client_id,
        host=value.client_host.removeprefix("/"),
        group_instance_id=getattr(value, "instance_id", None),
        rack_id=value.rack_id or None,
        session_timeout_ms=classic.session_timeout_ms if classic else None,
        rebalance_timeout_ms=timeout if timeout >= 0 else None,
        topics=() if kind is STREAMS else tuple(sorted(value.subscribed_topic_names)),
        topic_regex=getattr(value, "subscribed_topic_regex", None) or None,
    )


def _arrive(draft: FoldDraft, member: Member, at_ms: int) -> None:
    """Note a new member; one with the instance id of a member just removed is the same member, restarted."""
    changes = draft.changes
    instance = member.group_instance_id
    same = [old for old in changes.departed if instance and old.group_instance_id == instance]
    if instance and same:
        counters, old = draft.snapshot.counters, same[-1]
        replaced = Replacement(at_ms, instance, old.member_id, member.member_id, old.host, member.host)
        draft.snapshot = replace(
            draft.snapshot,
            counters=replace(counters, members_replaced=counters.members_replaced + 1),
            replacements=(*draft.snapshot.replacements, replaced)[-KEPT_REPLACEMENTS:],
        )
        draft.changes = replace(changes, departed=tuple(old for old in changes.departed if old not in same))
        return
    draft.changes = replace(
        changes, arrived=(*changes.arrived, member.member_id), first=changes.first or member.member_id
    )


def _remove(draft: FoldDraft, record: GroupRecord, member: Member) -> None:
    draft.snapshot = replace(
        draft.snapshot, members=tuple(each for each in draft.snapshot.members if each is not member)
    )
    changes = draft.changes
    if member.member_id in changes.arrived:
        draft.changes = replace(changes, arrived=tuple(each for each in changes.arrived if each != member.member_id))
        return
    fenced = (*changes.fenced, member.member_id) if _was_fenced(member, record.timestamp_ms) else changes.fenced
    draft.changes = replace(
        changes, departed=(*changes.departed, member), fenced=fenced, first=changes.first or member.member_id
    )


def _was_fenced(member: Member, at_ms: int) -> bool:
    """Whether a member was removed because it did not give up partitions within its rebalance timeout."""
    limit, since = member.rebalance_timeout_ms, member.state_since_ms
    return member.state == MemberState.UNREVOKED and limit is not None and since is not None and at_ms - since >= limit


def _on_current(draft: FoldDraft, record: GroupRecord, kind: _Kind) -> None:
    """Process a member's current assignment and state. Its tombstone follows the member's own, which removes it."""
    if record.value is None:
        return
    value, member_id = record.value, record.member_id or ""
    known = member_of(draft.snapshot.members, member_id) or Member(member_id, "", "")
    away = value.member_epoch == _AWAY_EPOCH
    member_state = MemberState.AWAY if away else kind.member_states.get(value.state, f"unknown ({value.state})")
    same = known.state == member_state
    _put(
        draft,
        replace(
            known,
            epoch=value.member_epoch,
            state=member_state,
            state_since_ms=known.state_since_ms if same else record.timestamp_ms,
            partitions=_assigned(draft, value, kind),
            pending_revocation=_pending(draft, value, kind),
        ),
    )


def _assigned(draft: FoldDraft, value: Any, kind: _Kind) -> Partitions:
    return _tasks(draft, value.active_tasks) if kind is STREAMS else _topics(draft, value.assigned_partitions)


def _pending(draft: FoldDraft, value: Any, kind: _Kind) -> Partitions | None:
    if kind is SHARE:
        return None
    if kind is STREAMS:
        return _tasks(draft, value.active_tasks_pending_revocation) or None
    return _topics(draft, value.partitions_pending_revocation) or None


def _on_target_member(draft: FoldDraft, record: GroupRecord, kind: _Kind) -> None:
    known = member_of(draft.snapshot.members, record.member_id or "")
    if known is None and record.value is not None:
        known = Member(record.member_id or "", "", "")
    if known is None or record.value is None:
        return
    value = record.value
    _put(
        draft,
        replace(
            known,
            target=_tasks(draft, value.active_tasks) if kind is STREAMS else _topics(draft, value.topic_partitions),
        ),
    )


def _on_target(draft: FoldDraft, record: GroupRecord, _kind: _Kind) -> None:
    if record.value is None:
        return
    epoch, before = record.value.assignment_epoch, draft.snapshot.assignment_epoch
    draft.snapshot = replace(draft.snapshot, assignment_epoch=epoch)
    if not record.live or draft.snapshot.generation is None or epoch == before or _converting(draft, record, epoch):
        return
    episodes.assign(draft, record, epoch, _unassigned_before(draft, epoch))


def _converting(draft: FoldDraft, record: GroupRecord, epoch: int) -> bool:
    gone = draft.gone
    if gone is None or not gone.converted:
        return False
    return gone.timestamp_ms == record.timestamp_ms and gone.generation == epoch


def _unassigned_before(draft: FoldDraft, epoch: int) -> int:
    """Return how many earlier epochs of the ongoing rebalance never got a target."""
    latest = draft.ongoing
    if latest is None:
        return 0
    named = latest.rebalance.generations
    later = sum(each.generation >= epoch and each.assigned_at_ms is None for each in named)
    return latest.left_out_unassigned + episodes.unassigned(named) - later


def _on_metadata(draft: FoldDraft, record: GroupRecord, kind: _Kind) -> None:
    if record.value is None:
        _forget(draft, record, kind)
        return
    epoch, known, metadata_hash = record.value.epoch, draft.snapshot.generation, record.value.metadata_hash
    former_hash, draft.metadata_hash = draft.metadata_hash, metadata_hash
    draft.snapshot = replace(draft.snapshot, type=kind.type, protocol_type=None, leader=None, generation=epoch)
    converting = _converting(draft, record, epoch) and not draft.changes.arrived
    if record.live and epoch != known and not converting:
        _step(draft, record, hash_changed=former_hash != metadata_hash or metadata_hash == 0)
    draft.changes, draft.last_generation = MemberChanges(), epoch


def _step(draft: FoldDraft, record: GroupRecord, *, hash_changed: bool) -> None:
    """Process a new group epoch, the beginning of a rebalance."""
    if draft.last_generation is not None and record.value.epoch < draft.last_generation:
        draft.snapshot = replace(draft.snapshot, counters=episodes.count_reset(draft.snapshot.counters))
    changes = draft.changes
    arrived = [member for member in draft.snapshot.members if member.member_id in changes.arrived]
    before = by_id((*(m for m in draft.snapshot.members if m.member_id not in changes.arrived), *changes.departed))
    # The same id in both: the member left and came back (librdkafka after a poll overrun).
    returned = tuple((m.member_id, m.member_id) for m in changes.departed if m.member_id in changes.arrived)
    replaced = returned or pair_members(changes.departed, arrived)
    generation = Generation(
        generation=record.value.epoch,
        reason=_reason(draft, changes, before, arrived, replaced, hash_changed=hash_changed),
        started_at_ms=record.timestamp_ms,
        joined=changes.arrived,
        left=tuple(member.member_id for member in changes.departed),
        replaced=replaced,
        fenced=changes.fenced,
    )
    step = Step(
        generation=generation,
        started_after_ms=record.timestamp_ms,
        started_before_ms=record.timestamp_ms,
        known_ms=record.timestamp_ms,
        members_before=before,
        members_after=draft.snapshot.members,
        merge_within_ms=episodes.MERGE_WITHIN_MS,
        offender=changes.first,
    )
    episodes.begin(draft, record, step)


def _reason(
    draft: FoldDraft,
    changes: MemberChanges,
    before: tuple[Member, ...],
    arrived: list[Member],
    replaced: tuple[tuple[str, str], ...],
    *,
    hash_changed: bool,
) -> str:
    if not draft.snapshot.members:
        return RebalanceReason.GROUP_EMPTIED
    if arrived and not before:
        return RebalanceReason.FIRST_JOIN
    by_members = member_change(changes.departed, arrived, replaced)
    return by_members or _reason_without_member_change(changes, hash_changed=hash_changed)


def _reason_without_member_change(changes: MemberChanges, *, hash_changed: bool) -> str:
    if changes.subscriptions or "regex" in changes.others:
        return RebalanceReason.SUBSCRIPTION_CHANGE
    if changes.racks:
        return RebalanceReason.RACK_CHANGE
    if "topology" in changes.others:
        return RebalanceReason.STREAMS_INTERNAL
    return RebalanceReason.TOPIC_METADATA_CHANGE if hash_changed else RebalanceReason.OTHER


def _forget(draft: FoldDraft, record: GroupRecord, kind: _Kind) -> None:
    snapshot = draft.snapshot
    if snapshot.type != kind.type:
        return
    episodes.abort(draft, record.timestamp_ms)
    members = by_id((*snapshot.members, *draft.changes.departed))
    draft.gone = RemovedGroup(kind.type, record.timestamp_ms, snapshot.generation, members)
    draft.changes, draft.metadata_hash, draft.topology_epoch, draft.sources = MemberChanges(), None, None, {}
    draft.snapshot = replace(
        draft.snapshot, state=GroupState.DELETED, generation=None, assignment_epoch=None, leader=None, members=()
    )


def _on_topics(draft: FoldDraft, record: GroupRecord, _kind: _Kind) -> None:
    """Learn topic names from types 4, 9 and 15."""
    if record.value is None:
        return
    topics = record.value.initialized_topics if record.record_type == _SHARE_STATE else record.value.topics
    name_topics(draft, {uuid_text(each.topic_id): each.topic_name for each in topics})
    if record.record_type == _SHARE_STATE:
        _note_other(draft, "share_state")


def _on_regex(draft: FoldDraft, _record: GroupRecord, _kind: _Kind) -> None:
    _note_other(draft, "regex")


def _on_topology(draft: FoldDraft, record: GroupRecord, _kind: _Kind) -> None:
    if record.value is not None:
        draft.topology_epoch = record.value.epoch
        # Topics of a pattern are not in the record.
        draft.sources = {
            each.subtopology_id: (*each.source_topics, *(topic.name for topic in each.repartition_source_topics))
            for each in record.value.subtopologies
            if not each.source_topic_regex
        }
        members = tuple(_read_by(each, draft.sources) for each in draft.snapshot.members)
        draft.snapshot = replace(draft.snapshot, members=members)
        _note_other(draft, "topology")


def _note_other(draft: FoldDraft, change: str) -> None:
    # Once: some are repeated many times, and no group epoch, which clears them, may follow.
    if change not in draft.changes.others:
        draft.changes = replace(draft.changes, others=(*draft.changes.others, change))


def _group_state(draft: FoldDraft, kind: _Kind) -> str:
    """Derive the group's state as the coordinator does."""
    snapshot = draft.snapshot
    if not snapshot.members:
        return GroupState.EMPTY
    if kind is SHARE:
        return GroupState.STABLE
    return GroupState.STABLE if _converged(snapshot) else _moving_state(snapshot)


def _moving_state(snapshot: GroupSnapshot) -> str:
    behind = snapshot.assignment_epoch is None or (snapshot.generation or 0) > snapshot.assignment_epoch
    return GroupState.ASSIGNING if behind else GroupState.RECONCILING


def _converged(snapshot: GroupSnapshot) -> bool:
    target = snapshot.assignment_epoch
    if target is None or (snapshot.generation or 0) > target:
        return False
    return all(member.state == MemberState.STABLE and member.epoch == target for member in snapshot.members)


def _end_if_converged(draft: FoldDraft, record: GroupRecord) -> None:
    snapshot = draft.snapshot
    # Within the records of one operation nothing is settled: its group epoch comes last.
    if draft.changes.departed or draft.changes.arrived:
        return
    if not snapshot.members:
        if snapshot.generation != snapshot.assignment_epoch and snapshot.generation is not None:
            # An empty group gets no target, so its epoch is complete.
            _complete_empty_epoch(draft, record, snapshot.generation)
        episodes.complete(draft, record)
    elif draft.ongoing is not None and _converged(snapshot):
        episodes.complete(draft, record)


def _complete_empty_epoch(draft: FoldDraft, record: GroupRecord, epoch: int) -> None:
    if draft.ongoing is None:
        return
    last = draft.ongoing.rebalance.generations[-1]
    if last.generation == epoch and last.assigned_at_ms is None:
        episodes.assign(draft, record, epoch, _unassigned_before(draft, epoch))


# --- Members and topics ---


# A group of thousands of members writes thousands of records at once, so the cost per record must not grow with the
# number of members: the members of a snapshot are sorted by id.


def _put(draft: FoldDraft, member: Member) -> None:
    members = draft.snapshot.members
    at = bisect_left(members, member.member_id, key=id_of)
    is_known = at < len(members) and members[at].member_id == member.member_id
    draft.snapshot = replace(draft.snapshot, members=(*members[:at], member, *members[at + is_known :]))


def _topics(draft: FoldDraft, topics: Iterable[Any]) -> Partitions:
    named: Partitions = {}
    for each in topics:
        topic_id = uuid_text(each.topic_id)
        named[draft.topic_names.get(topic_id, topic_id)] = sorted(each.partitions)
    return named


def _tasks(draft: FoldDraft, tasks: Iterable[Any]) -> Partitions:
    return _as_read({each.subtopology_id: sorted(each.partitions) for each in tasks}, draft.sources)


def _as_read(tasks: Partitions, sources: Mapping[str, Sequence[str]]) -> Partitions:
    """Return tasks as the partitions that they read; tasks of a subtopology without known topics keep its id.

    Task 0_2 reads partition 2 of each source topic of subtopology 0 that has one (KIP-1071: the number of tasks is that
    of the partitions of its largest source topic). No topic is read by two subtopologies.
    """
    return {topic: numbers for name, numbers in tasks.items() for topic in sources.get(name) or (name,)}


def _read_by(member: Member, sources: Mapping[str, Sequence[str]]) -> Member:
    def read(partitions: Partitions | None) -> Partitions | None:
        return None if partitions is None else _as_read(partitions, sources)

    return replace(
        member,
        partitions=read(member.partitions),
        target=read(member.target),
        pending_revocation=read(member.pending_revocation),
    )


_SHARE_STATE = 15

HANDLERS: dict[int, tuple[_Kind, Handler]] = {
    3: (CONSUMER, _on_metadata),
    4: (CONSUMER, _on_topics),
    5: (CONSUMER, _on_member),
    6: (CONSUMER, _on_target),
    7: (CONSUMER, _on_target_member),
    8: (CONSUMER, _on_current),
    16: (CONSUMER, _on_regex),
    9: (SHARE, _on_topics),
    10: (SHARE, _on_member),
    11: (SHARE, _on_metadata),
    12: (SHARE, _on_target),
    13: (SHARE, _on_target_member),
    14: (SHARE, _on_current),
    15: (SHARE, _on_topics),
    17: (STREAMS, _on_metadata),
    19: (STREAMS, _on_member),
    20: (STREAMS, _on_target),
    21: (STREAMS, _on_target_member),
    22: (STREAMS, _on_current),
    23: (STREAMS, _on_topology),
}
