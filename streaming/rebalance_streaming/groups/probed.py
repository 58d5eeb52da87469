"""Groups whose log cannot be read: folds the reports of probes into the same rebalances.

A probe is a coordinator's answer: the group's state, its members, who has which partition; for KIP-848, share and
streams groups the epoch as well. A rebalance is counted if a state is unsettled, or if members, assignments or the
epoch differ from the previous probe. Several between two probes count as one, and those that leave everything unchanged
are not seen, so all counts are *at least*. A rebalance is counted at its first settled probe, when its reason is
known.

A classic group's generation is in no answer (Kafka: DescribeGroupsResponse.json), so these rebalances have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rebalance_contract import (
    CONSUMER_PROTOCOL,
    COORDINATED_TYPES,
    SETTLED_STATES,
    STATES_OF,
    STREAMS_ASSIGNOR,
    CountedFrom,
    GroupState,
    GroupType,
    Member,
    Probe,
    ProbedMember,
    Rebalance,
    RebalanceOutcome,
    RebalanceReason,
    read_state,
)
from rebalance_contract.groups import KEPT_REPLACEMENTS
from rebalance_streaming.groups import episodes, windows
from rebalance_streaming.groups.classic import member_change, partition_counts, replacements
from rebalance_streaming.groups.episodes import MERGE_WITHIN_MS, changed_rebalance, settlement_of, timed
from rebalance_streaming.groups.identity import pair_members
from rebalance_streaming.groups.model import FoldDraft, FoldState, LatestRebalance, by_id, difference
from rebalance_streaming.groups.partitions import Place, places
from rebalance_streaming.groups.probing import note_surroundings, observe

#: An end is noticed one period late (`probe.period_seconds`, 2 s by default): extends the time to merge rebalances.
_LATE_MS = 2_000
#: How long to wait for a cooperative assignor's second round: it is bounded by max.poll.interval.ms, which no answer
#: contains; this is its default. (KIP-429: it begins when the members that give partitions up have done so.)
PROBED_FOLLOW_UP_WITHIN_MS = 300_000
#: Parts of the names of assignors that revoke partitions in one round and assign them in the next.
_COOPERATIVE = ("cooperative", STREAMS_ASSIGNOR)

_STATES = {kind: frozenset(STATES_OF[kind]) for kind in (GroupType.CLASSIC, *COORDINATED_TYPES)}


@dataclass(frozen=True, slots=True)
class _ProbedGroup:
    """State of a group in one probe. `members`, `epoch` and `protocol` are null where they were not reported."""

    at_ms: int
    type: str
    state: str
    members: tuple[Member, ...] | None
    epoch: int | None
    protocol: str | None
    settled_at_ms: int | None
    is_new: bool

    @property
    def is_settled(self) -> bool:
        return self.state in SETTLED_STATES


def take_probe(state: FoldState, probe: Probe, *, reads_log: bool) -> tuple[FoldState, tuple[Rebalance, ...]]:
    """Process a probe: it complements the log or, if the log is not read, is the only source."""
    return observe(state, probe) if reads_log else fold_probe(state, probe)


def fold_probe(state: FoldState, probe: Probe) -> tuple[FoldState, tuple[Rebalance, ...]]:
    """Process a probe of a group whose log is not read. Return the new state and the rebalances that changed.

    A probe that is not later than the last one changes nothing; this includes repeated ones.
    """
    if state.sighting.probed_ms is not None and probe.probed_at_ms <= state.sighting.probed_ms:
        return state, ()
    draft, at_ms = FoldDraft.of(state), probe.probed_at_ms
    due = state.snapshot.settlement
    if due is not None and at_ms >= due.at_ms:
        episodes.settle(draft)
    note_surroundings(draft, probe)
    probed = _read(probe, state)
    if probed is not None:
        _take(draft, probed)
        draft.snapshot = replace(draft.snapshot, counted_from=CountedFrom.PROBES)
    draft.snapshot = replace(draft.snapshot, settlement=settlement_of(draft.episode))
    if draft.snapshot != state.snapshot and draft.snapshot.state is not None:
        first_ms = state.snapshot.first_seen_ms
        draft.snapshot = replace(
            draft.snapshot, first_seen_ms=at_ms if first_ms is None else first_ms, updated_at_ms=at_ms
        )
    old = None if state.episode is None else state.episode.rebalance
    # Each probe creates the ongoing rebalance again, most often unchanged.
    return draft.state(), tuple(each for each in changed_rebalance(state, draft) if each != old)


def _read(probe: Probe, state: FoldState) -> _ProbedGroup | None:
    """Return the group's part of a probe; null if it has no state, or one that is not of this type of group."""
    name = read_state(probe.state) if isinstance(probe.state, str) else None
    kind = probe.type if isinstance(probe.type, str) else state.snapshot.type or GroupType.CLASSIC
    known = _STATES.get(GroupType(kind)) if kind in _STATES else None
    if name is None or known is None or name not in {*known, GroupState.DEAD}:
        return None
    return _ProbedGroup(
        at_ms=probe.probed_at_ms,
        type=kind,
        state=name,
        members=_members(probe.members, state.snapshot.members) if isinstance(probe.members, tuple) else None,
        epoch=probe.group_epoch if isinstance(probe.group_epoch, int) else None,
        protocol=probe.protocol if isinstance(probe.protocol, str) else None,
        settled_at_ms=probe.settled_at_ms if isinstance(probe.settled_at_ms, int) else None,
        is_new=isinstance(probe.unlisted_at_ms, int),
    )


def _members(probed: Iterable[ProbedMember], known: Sequence[Member]) -> tuple[Member, ...]:
    """Return members as reported; a member without reported partitions keeps those it had.

    Brokers before 4.0 report no assignment while a group rebalances (Kafka: ClassicGroup.describe).
    """
    had = {each.member_id: each.partitions for each in known}
    return by_id(
        Member(
            member_id=each.member_id,
            client_id=each.client_id,
            host=each.host.removeprefix("/"),
            group_instance_id=each.group_instance_id,
            partitions=had.get(each.member_id) if each.partitions is None else each.partitions,
            epoch=each.member_epoch,
        )
        for each in probed
    )


def _take(draft: FoldDraft, probed: _ProbedGroup) -> None:
    if probed.state == GroupState.DEAD:
        _forget(draft, probed)
        return
    is_first = draft.snapshot.state is None
    if not probed.is_settled:
        _see_unrest(draft, probed, is_first=is_first)
    elif draft.ongoing is not None:
        _complete(draft, probed, draft.ongoing)
    elif is_first and not probed.is_new:
        _adopt(draft, probed)
    elif _differs(draft, probed):
        _complete(draft, probed, _begin(draft, probed, probed.at_ms))
    else:
        _replace_members(draft, probed)
        _adopt(draft, probed)


# --- Unsettled ---


def _see_unrest(draft: FoldDraft, probed: _ProbedGroup, *, is_first: bool) -> None:
    episode = draft.ongoing
    if episode is None:
        if is_first and not probed.is_new and probed.members is not None:
            # The earlier members are not known, so take the present ones.
            draft.snapshot = replace(draft.snapshot, members=probed.members)
        episode = _begin(draft, probed, probed.at_ms)
    if probed.members is not None:
        episode = replace(episode, rebalance=episodes.with_members(episode.rebalance, probed.members))
    draft.episode = episode
    since = draft.sighting.rebalancing_ms or probed.at_ms
    draft.sighting = replace(draft.sighting, rebalancing_ms=since, still_ms=probed.at_ms)
    draft.snapshot = replace(
        draft.snapshot, type=probed.type, state=probed.state, rebalancing_since_ms=episode.rebalance.started_before_ms
    )


def _begin(draft: FoldDraft, probed: _ProbedGroup, began_ms: int) -> LatestRebalance:
    """Add a rebalance that a probe shows to the one that just ended, or as a new one; return it."""
    former = draft.episode
    if former is not None and _continues(former.rebalance, draft, began_ms):
        draft.episode = episode = replace(former, rebalance=episodes.reopened(former.rebalance))
        return episode
    episodes.settle(draft)
    snapshot, settled_ms = draft.snapshot, _settled_ms(draft, probed)
    draft.episode = episode = LatestRebalance(
        Rebalance(
            cluster=snapshot.cluster,
            group=snapshot.group,
            rebalance_id=f"probe-{began_ms}",
            type=probed.type,
            reason=RebalanceReason.OTHER,
            outcome=RebalanceOutcome.ONGOING,
            generation_from=snapshot.generation,
            generation_to=probed.epoch,
            generations=(),
            generations_aborted=0,
            started_after_ms=settled_ms,
            started_before_ms=began_ms,
            join_ended_at_ms=None,
            completed_at_ms=None,
            sync_ms=None,
            duration_min_ms=None,
            duration_max_ms=None,
            protocol=probed.protocol or snapshot.protocol,
            leader=None,
            members_before=snapshot.members,
            members_after=snapshot.members,
            joined=(),
            left=(),
            counted_from=CountedFrom.PROBES,
        ),
        spread_until_ms=began_ms,
        counted=False,
    )
    draft.snapshot = replace(snapshot, last_rebalance_ms=began_ms, last_rebalance_id=f"probe-{began_ms}")
    return episode


def _settled_ms(draft: FoldDraft, probed: _ProbedGroup) -> int | None:
    """Return the last time before a probe at which the group is known to have been settled; null if not known."""
    times = [
        each for each in (draft.sighting.settled_ms, probed.settled_at_ms) if each is not None and each < probed.at_ms
    ]
    return max(times, default=None)


def _continues(rebalance: Rebalance, draft: FoldDraft, began_ms: int) -> bool:
    ended_ms = rebalance.completed_at_ms
    if ended_ms is None or rebalance.outcome != RebalanceOutcome.COMPLETED:
        return False
    within_ms = PROBED_FOLLOW_UP_WITHIN_MS if draft.revoked_unassigned else MERGE_WITHIN_MS + _LATE_MS
    return began_ms - ended_ms <= within_ms


# --- Settled ---


def _complete(draft: FoldDraft, probed: _ProbedGroup, episode: LatestRebalance) -> None:
    """End the ongoing rebalance: this probe is the first that saw the group settled."""
    before = draft.snapshot.members
    due, still_ms = draft.revoked_unassigned, draft.sighting.still_ms
    members = before if probed.members is None else probed.members
    left, joined = difference(before, members)
    _adopt(draft, probed)
    rebalance = episodes.with_members(episode.rebalance, members)
    began_ms = rebalance.started_before_ms
    lasted_ms = max(0, began_ms if still_ms is None else still_ms)
    rebalance = replace(
        rebalance,
        reason=rebalance.reason if episode.counted else _reason(rebalance, due=due),
        outcome=RebalanceOutcome.COMPLETED,
        generation_to=probed.epoch or rebalance.generation_to,
        protocol=probed.protocol or rebalance.protocol,
        completed_at_ms=probed.at_ms,
        first_offender=rebalance.first_offender or _only([*rebalance.left]) or _only([*rebalance.joined]),
    )
    wandered = episodes.wandered_in(episode.wandered, rebalance)
    rebalance = replace(timed(rebalance, lasted_ms), moves=episodes.moves_of(rebalance, wandered))
    if not episode.counted:
        episodes.count_rebalance(draft, rebalance.reason, began_ms, probed.at_ms)
    episodes.count_members(draft, len(joined), len(left), len(pair_members(left, joined)))
    panes = windows.add_rebalancing(draft.snapshot.windows, episode.spread_until_ms, lasted_ms, probed.at_ms)
    draft.snapshot = replace(draft.snapshot, windows=panes, last_rebalance_ms=probed.at_ms)
    draft.episode = replace(
        episode,
        rebalance=rebalance,
        wandered=wandered,
        spread_until_ms=max(lasted_ms, episode.spread_until_ms),
        counted=True,
    )
    draft.revoked_unassigned = _gave_up_unassigned(rebalance)


def _only(names: Sequence[str]) -> str | None:
    return names[0] if len(names) == 1 else None


def _reason(rebalance: Rebalance, *, due: bool) -> str:
    """Classify what started a rebalance by what it changed; the first match wins, as for groups with a log.

    No answer contains subscriptions, so topics may have been added or removed unnoticed.
    """
    before, after = rebalance.members_before, rebalance.members_after
    if not after:
        return RebalanceReason.GROUP_EMPTIED if before else RebalanceReason.OTHER
    if not before:
        return RebalanceReason.FIRST_JOIN
    left, joined = difference(before, after)
    change = member_change(left, joined, rebalance.replaced)
    if change is not None:
        return change
    if due:
        return RebalanceReason.COOPERATIVE_FOLLOWUP
    had, has = partition_counts(before), partition_counts(after)
    grew = had.keys() == has.keys() and all(has[topic] >= count for topic, count in had.items()) and had != has
    return RebalanceReason.TOPIC_METADATA_CHANGE if grew and not _pending(rebalance) else RebalanceReason.OTHER


def _gave_up_unassigned(rebalance: Rebalance) -> bool:
    """Whether a cooperative group's members gave up partitions that nobody has yet: a second round is due (KIP-429)."""
    if rebalance.type != GroupType.CLASSIC or not any(word in (rebalance.protocol or "") for word in _COOPERATIVE):
        return False
    return bool(_pending(rebalance))


def _pending(rebalance: Rebalance) -> set[Place]:
    """Return the partitions that had an owner before and have none now."""
    return _places(rebalance.members_before) - _places(rebalance.members_after)


def _places(members: Iterable[Member]) -> set[Place]:
    return {place for each in members for place in places(each.partitions)}


def _differs(draft: FoldDraft, probed: _ProbedGroup) -> bool:
    """Whether a settled group differs from the previous probe, so that it rebalanced in between.

    A group epoch is raised for every rebalance, and for no other reason (KIP-848). A static member that came back under
    a new member id caused none (KIP-345).
    """
    known = draft.snapshot
    if probed.epoch is not None and known.generation is not None and known.type == probed.type:
        return probed.epoch != known.generation
    return probed.members is not None and _assignment(known.members) != _assignment(probed.members)


def _assignment(members: Iterable[Member]) -> dict[str, dict[str, list[int]]]:
    """Return each member's partitions, by the identity that stays: its instance id if it has one."""
    return {each.group_instance_id or each.member_id: _without_empty(each) for each in members}


def _without_empty(member: Member) -> dict[str, list[int]]:
    return {topic: numbers for topic, numbers in (member.partitions or {}).items() if numbers}


def _replace_members(draft: FoldDraft, probed: _ProbedGroup) -> None:
    """Note static members that came back under a new id without a rebalance (KIP-345)."""
    if probed.members is None:
        return
    left, joined = difference(draft.snapshot.members, probed.members)
    found = replacements(left, joined, probed.at_ms)
    if found:
        episodes.count_members(draft, len(found), len(found), len(found))
        kept = (*draft.snapshot.replacements, *found)[-KEPT_REPLACEMENTS:]
        draft.snapshot = replace(draft.snapshot, replacements=kept)


def _adopt(draft: FoldDraft, probed: _ProbedGroup) -> None:
    """Take a settled probe as the present snapshot."""
    snapshot = draft.snapshot
    converted = snapshot.type in _STATES and snapshot.type != probed.type and bool(snapshot.members)
    counters = replace(snapshot.counters, conversions=snapshot.counters.conversions + converted)
    is_consumer = (
        probed.type == GroupType.CLASSIC
        and probed.protocol is not None
        and bool(partition_counts(probed.members or ()))
    )
    draft.snapshot = replace(
        snapshot,
        type=probed.type,
        state=probed.state,
        protocol_type=CONSUMER_PROTOCOL if is_consumer else snapshot.protocol_type,
        protocol=probed.protocol or snapshot.protocol,
        generation=probed.epoch if probed.epoch is not None or converted else snapshot.generation,
        members=snapshot.members if probed.members is None else probed.members,
        rebalancing_since_ms=None,
        counters=counters,
    )
    draft.sighting = replace(draft.sighting, settled_ms=probed.at_ms, rebalancing_ms=None, still_ms=None)


def _forget(draft: FoldDraft, probed: _ProbedGroup) -> None:
    """Empty the snapshot of a group that its coordinator no longer knows; its totals are kept in case it returns."""
    draft.snapshot = replace(draft.snapshot, members=())
    episodes.abort(draft, probed.at_ms)
    if draft.episode is not None and not draft.episode.counted:
        episodes.count_rebalance(draft, draft.episode.rebalance.reason, probed.at_ms, probed.at_ms)
        draft.episode = replace(draft.episode, counted=True)
    draft.revoked_unassigned = False
    draft.sighting = replace(draft.sighting, settled_ms=probed.at_ms, rebalancing_ms=None, still_ms=None)
    draft.snapshot = replace(
        draft.snapshot, state=GroupState.DELETED, generation=None, protocol=None, members=(), rebalancing_since_ms=None
    )
