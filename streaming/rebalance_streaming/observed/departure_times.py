"""When a member left, when it joined, and how long it had been silent: from the log, commits, probes and brokers' logs.

Receives a group's history, a rebalance and a member that is gone after it; returns a departure without a class.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from rebalance_contract import (
    Evidence,
    EvidenceSource,
    Generation,
    GroupState,
    GroupType,
    Member,
    Rebalance,
    RebalanceReason,
)
from rebalance_streaming.observed.barriers import SAME_MS
from rebalance_streaming.observed.coordinator_log import LoggedExit
from rebalance_streaming.observed.departures import COMMIT_GAP_MS, Departure, session_of
from rebalance_streaming.observed.evidence import observe, seconds
from rebalance_streaming.observed.fingerprints import Fingerprint
from rebalance_streaming.observed.history import GroupHistory
from rebalance_streaming.observed.progress import Rhythm

#: How long before the barrier's release a departure happened, if nothing else bounds it: the others have to notice it
#: (a heartbeat) and to rejoin.
NOTICE_MS, _NOTICE_SLACK_MS = 1_500, 4_000
#: Maximum distance between a line of the coordinator and the records of its rebalance.
_WRITTEN_SLACK_MS = 2_500
#: Maximum time between the join that began a rebalance and its first sign, if nothing else bounds it.
_JOIN_MS = 10_000


def measure(history: GroupHistory, rebalance: Rebalance, member: Member, fingerprint: Fingerprint) -> Departure:
    """Return when a member left and how long it had been silent, without the reason."""
    in_barrier = _was_awaited(history, rebalance, member)
    alive_ms = _committed_at(history, rebalance, member)
    from_ms, to_ms, latest_ms = (
        max(each, alive_ms or each) for each in _when(history, rebalance, member, in_barrier=in_barrier)
    )
    joined_ms, came_ms = _joined_at(history, rebalance, member), _came_at(history, rebalance, member)
    rhythm, lag = _rhythm(history, rebalance, member, to_ms), _lag_at(history, member, to_ms)
    silence, due = _silence(rhythm, lag, joined_ms, from_ms, to_ms)
    return Departure(
        member,
        fingerprint,
        from_ms,
        to_ms,
        latest_ms,
        joined_ms,
        _renewed_at(history, rebalance, member),
        None if came_ms is None else latest_ms - came_ms,
        rhythm,
        lag,
        _arriving(history, member, to_ms),
        silence,
        due,
        in_barrier,
    )


def _committed_at(history: GroupHistory, rebalance: Rebalance, member: Member) -> int | None:
    """Return when a classic member last committed before the others were released; null if that is not known.

    Until then nobody else had its partitions, so it was still there. Its partitions between two rounds are not known.
    """
    generation, _, released = _lost_in(rebalance, member)
    if rebalance.type != GroupType.CLASSIC or rebalance.is_at_least or generation is not rebalance.rounds[0]:
        return None
    return history.progress.rhythm(member.partitions or {}, released).last_ms


def _was_awaited(history: GroupHistory, rebalance: Rebalance, member: Member) -> bool:
    """Whether probes listed the member while the group prepared: if so, it was removed, or left, inside the barrier."""
    generation, earliest, released = _lost_in(rebalance, member)
    if earliest is None or generation.join_ended_at_ms is None:
        return False
    return any(
        each.state == GroupState.PREPARING_REBALANCE
        and each.members is not None
        and any(listed.member_id == member.member_id for listed in each.members)
        for each in history.sightings_between(earliest, released)
    )


def _lost_in(rebalance: Rebalance, member: Member) -> tuple[Generation, int | None, int]:
    """Return the generation in which a member left, its earliest time, and when its join barrier was released."""
    order = rebalance.rounds
    place = next((i for i, each in enumerate(order) if member.member_id in each.left), 0)
    generation = order[place]
    begun = rebalance.started_before_ms
    if place:
        begun = generation.join_ended_at_ms or generation.started_at_ms or generation.assigned_at_ms or begun
    earliest = order[place - 1].assigned_at_ms if place else rebalance.started_after_ms
    return generation, earliest, generation.join_ended_at_ms or begun


def _when(history: GroupHistory, rebalance: Rebalance, member: Member, *, in_barrier: bool) -> tuple[int, int, int]:
    """Return the earliest and latest likely time at which a member left, and when it had left for certain."""
    generation, earliest, released = _lost_in(rebalance, member)
    begun = released if generation in rebalance.generations[1:] else rebalance.started_before_ms
    if rebalance.is_at_least and not in_barrier:
        return begun if earliest is None else earliest, begun, begun
    if rebalance.type != GroupType.CLASSIC or (generation.reason == RebalanceReason.GROUP_EMPTIED and not in_barrier):
        return begun, begun, begun
    listed_ms, missed_ms = _listed(history, member, earliest or 0, released)
    if in_barrier:
        # The first probe that no longer lists it gives the end; without one, it left when the others were released.
        return (listed_ms or 0, missed_ms, missed_ms) if missed_ms is not None else (released - 200, released, released)
    if generation.joined and not _others_left(generation, member):
        # A newcomer waited for it: the barrier ends when it is out, unless a probe already missed it.
        return (released, released, released) if missed_ms is None else (listed_ms or begun, missed_ms, missed_ms)
    latest = begun if begun < released else max(released - NOTICE_MS, earliest or 0)
    # Others notice within a heartbeat; if they took longer, another member held them up.
    noticed_ms = released - _NOTICE_SLACK_MS if released - latest < _NOTICE_SLACK_MS else 0
    from_ms = min(latest, max(earliest or 0, latest - _NOTICE_SLACK_MS, noticed_ms, listed_ms or 0))
    # A departure that began a rebalance had happened when a probe saw the rebalance.
    bound_ms = latest + SAME_MS if begun < released and not generation.joined else released
    return from_ms, latest, bound_ms if missed_ms is None else min(bound_ms, missed_ms)


def _listed(history: GroupHistory, member: Member, from_ms: int, to_ms: int) -> tuple[int | None, int | None]:
    """Return when a probe last listed a member, and when one first no longer did; null: none."""
    seen = [each for each in history.sightings_between(from_ms, to_ms) if each.members is not None]
    listed = [any(m.member_id == member.member_id for m in each.members or ()) for each in seen]
    last = max((place for place, there in enumerate(listed) if there), default=-1)
    later = seen[last + 1 :]
    missed = later[0].at_ms + SAME_MS if later and (last >= 0 or from_ms > 0) else None
    return (seen[last].at_ms - SAME_MS if last >= 0 else None), missed


def _others_left(generation: Generation, member: Member) -> bool:
    return any(name != member.member_id for name in generation.left)


def _came_at(history: GroupHistory, rebalance: Rebalance, member: Member) -> int | None:
    """Return the earliest time at which a member can have joined the group; null when that is not known."""
    name = member.member_id
    lost, _, _ = _lost_in(rebalance, member)
    for of in reversed([*history.until(rebalance), rebalance]):
        earlier = [*itertools.takewhile(lambda each: each is not lost, of.generations)]
        place = next((i for i, each in enumerate(earlier) if name in each.joined), None)
        if place is not None:
            began_ms = max(of.started_after_ms or 0, of.started_before_ms - _JOIN_MS)
            return earlier[place - 1].assigned_at_ms if place else began_ms
    return None


def _joined_at(history: GroupHistory, rebalance: Rebalance, member: Member) -> int | None:
    """Return when a member got the partitions it had before a rebalance; null when that is not known."""
    lost, _, _ = _lost_in(rebalance, member)
    for generation in itertools.takewhile(lambda each: each is not lost, rebalance.generations):
        if member.member_id in generation.joined:
            return generation.assigned_at_ms
    before = history.before(rebalance)
    if before is None or before.completed_at_ms is None:
        return None
    known = {each.member_id for each in before.members_before}
    return before.completed_at_ms if member.member_id not in known or before.type == GroupType.CLASSIC else None


def _renewed_at(history: GroupHistory, rebalance: Rebalance, member: Member) -> int | None:
    """Return when the last join barrier that a member came through was released; null when that is not known.

    The release restarts the sessions of all members (GroupCoordinator.onCompleteJoin, later
    GroupMetadataManager.completeClassicGroupJoin).
    """
    if rebalance.type != GroupType.CLASSIC:
        return None
    lost, _, _ = _lost_in(rebalance, member)
    through = [*itertools.takewhile(lambda each: each is not lost, rebalance.generations)]
    before = history.before(rebalance)
    if not through and before is not None and before.type == GroupType.CLASSIC:
        through = [*before.generations]
    return through[-1].join_ended_at_ms if through else None


def _rhythm(history: GroupHistory, rebalance: Rebalance, member: Member, to_ms: int) -> Rhythm:
    """Return a member's commit rhythm, completed by that of the others: members of one group run one program."""
    own = history.progress.rhythm(member.partitions or {}, to_ms)
    if own.pulse and own.gap_ms is not None:
        return own
    others = [
        history.progress.rhythm(each.partitions or {}, to_ms)
        for each in rebalance.members_before[:20]
        if each.topics == member.topics and each.member_id != member.member_id
    ]
    gaps = [each.gap_ms for each in others if each.gap_ms is not None]
    pulse = own.pulse or any(each.pulse for each in others)
    return replace(own, pulse=pulse, gap_ms=own.gap_ms or min(gaps, default=None))


def _lag_at(history: GroupHistory, member: Member, at_ms: int) -> int | None:
    lags = []
    for topic, numbers in (member.partitions or {}).items():
        for p in numbers:
            end, committed = (
                history.progress.estimated_end_at(topic, p, at_ms),
                history.progress.committed_before((topic, p), at_ms),
            )
            # An end before the committed offset is outdated and ignored.
            if end is not None and committed is not None and end >= committed[1]:
                lags.append(end - committed[1])
    return sum(lags) if lags else None


def _arriving(history: GroupHistory, member: Member, to_ms: int) -> int | None:
    """Return how many records came in while the member was silent: an idle client has nothing to be busy with."""
    from_ms, progress = to_ms - session_of(member), history.progress
    grown = [
        late - early
        for topic, numbers in (member.partitions or {}).items()
        for p in numbers
        if (early := progress.estimated_end_at(topic, p, from_ms) or progress.first_end(topic, p)) is not None
        and (late := progress.estimated_end_at(topic, p, to_ms)) is not None
    ]
    return sum(grown) if grown else None


def _silence(
    rhythm: Rhythm, lag: int | None, joined_ms: int | None, from_ms: int, to_ms: int
) -> tuple[int | None, bool]:
    """Return for how long a due commit was missing, and whether it was certainly due.

    Commits from before the member joined were made by another one.
    """
    if rhythm.last_ms is None or (joined_ms is not None and rhythm.last_ms < joined_ms):
        return None, False
    silence = max(0, (from_ms + to_ms) // 2 - rhythm.last_ms)
    if rhythm.pulse or (lag or 0) > 0:
        return silence, True
    if silence <= 2 * (rhythm.gap_ms or COMMIT_GAP_MS) or (lag is None and rhythm.gap_ms is not None):
        return silence, False
    return None, False


def logged_exit(history: GroupHistory, rebalance: Rebalance, member: Member) -> LoggedExit | None:
    """Return how a member left around a rebalance, as the coordinator logged it; null without its lines."""
    if history.coordinator_log.is_empty():
        return None
    from_ms = None if rebalance.started_after_ms is None else rebalance.started_after_ms - _WRITTEN_SLACK_MS
    until_ms = rebalance.started_before_ms if rebalance.completed_at_ms is None else rebalance.completed_at_ms
    return history.coordinator_log.exit_of(member.member_id, from_ms, until_ms + _WRITTEN_SLACK_MS)


def at_exit(of: Departure, exit_: LoggedExit | None) -> Departure:
    """Return a departure at the time that the coordinator logged, with its silence measured up to then."""
    if exit_ is None or of.logged is not None:
        return of
    moved_ms = exit_.at_ms - (of.from_ms + of.to_ms) // 2
    silence = None if of.silence_ms is None else max(0, of.silence_ms + moved_ms)
    at_ms = exit_.at_ms
    return replace(
        of, logged=exit_, from_ms=at_ms, to_ms=at_ms, latest_ms=at_ms, silence_ms=silence, in_barrier=exit_.in_barrier
    )


def awaited_evidence(history: GroupHistory, rebalance: Rebalance, departure: Departure) -> Evidence:
    """Return the evidence that probes listed a member while the others waited for it."""
    end, name = departure.to_ms, departure.member.member_id
    times = [
        each.at_ms
        for each in history.sightings_between(rebalance.started_after_ms or 0, end)
        if each.members is not None and any(m.member_id == name for m in each.members)
    ]
    text = f"listed until {seconds(max(0, end - times[-1]))} before the others were released" if times else "not seen"
    span = (times[0] if times else None, end)
    return observe(EvidenceSource.PROBES, "members", text, "awaited in the join barrier", span=span)
