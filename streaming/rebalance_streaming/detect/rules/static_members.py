"""Static members (KIP-345) that came back too late, are gone for good, or stand still (catalogue §4.4).

Receives a group as it stands. A static member says no good-bye: the broker keeps its place, and its partitions, until
its session ends, so what is wrong with one shows late or not at all. What is wrong with their names is judged in
`static_names`.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_contract import Member, Subject
from rebalance_streaming.detect import inputs
from rebalance_streaming.detect.advice import LONGEST_SESSION_MS, session_for_absence
from rebalance_streaming.detect.barriers import Barrier, longest_barrier
from rebalance_streaming.detect.departures import SESSION_EXPIRED, session_of
from rebalance_streaming.detect.episode import Past
from rebalance_streaming.detect.history import partition_names, places
from rebalance_streaming.detect.look import DAY_MS, Condition, Look
from rebalance_streaming.detect.rules.standing import (
    came_back_ms,
    client_of,
    is_harmed,
    is_reporting,
    positions_of,
    recent_past,
)
from rebalance_streaming.detect.rules.static_names import instance_subject
from rebalance_streaming.detect.verdict import HINT, PAGE, PLAUSIBLE, STRONG, TICKET, Verdict, subject_of
from rebalance_streaming.detect.wording import say

#: The earliest that a member without commits is asked about, while the others go on.
_SILENT_MS = 60_000
#: A join barrier that ended by its own time-out, allowing for the clocks.
_WHOLE_BARRIER = 0.9
_SLACK_MS = 10_000


# --- Away for longer than the session ---


def static_session_too_short(look: Look) -> Iterator[Verdict]:
    """A static member was away for longer than its session, so that its restart cost two rebalances (KIP-345)."""
    absences: dict[str, list[tuple[int, Past]]] = {}
    for past in recent_past(look, DAY_MS):
        away = _absence(look, past)
        if away is not None and past.member.group_instance_id is not None:
            absences.setdefault(past.member.group_instance_id, []).append((away, past))
    for instance, several in sorted(absences.items()):
        longest, _ = max(several, key=lambda each: each[0])
        present = next((each for each in look.members if each.group_instance_id == instance), None)
        # Raised since then: the advice was taken.
        if present is None or session_of(present) < longest:
            yield _too_short(look, instance, longest, [past for _, past in several])


def _absence(look: Look, past: Past) -> int | None:
    """Return how long a static member was away that expired and returned, in milliseconds; null for all others.

    Of one that was not seen to expire nothing tells whether it was away or stood still.
    """
    departure = past.departure
    explained = past.rule in ("poll_overrun", "static_stalled_member", "stalled_member_join_barrier")
    if explained or departure.likely != SESSION_EXPIRED or _is_stall(past):
        return None
    back_ms = came_back_ms(look, past)
    if past.member.group_instance_id is None or back_ms is None or back_ms <= past.left_ms:
        return None
    away = back_ms - (departure.rhythm.last_ms or past.left_ms - departure.session_ms)
    away = min(away, back_ms - past.left_ms + departure.session_ms + _SLACK_MS)
    return away if departure.session_ms < away <= LONGEST_SESSION_MS else None


def _too_short(look: Look, instance: str, longest: int, several: list[Past]) -> Verdict:
    last = several[-1].departure
    longer = session_for_absence(last.session_ms, longest, of_client=last.member.session_timeout_ms is not None)
    return say(
        "static_session_too_short.often",
        several[0].left_ms,
        instance_subject(look, instance),
        confidence=STRONG if last.confidence >= STRONG else PLAUSIBLE,
        evidence=last.evidence,
        advice=(longer,),
        rebalance_ids=tuple(dict.fromkeys(each.rebalance_id for each in several)),
        instance=instance,
        times=len(several),
        longest=longest,
        session=last.session_ms,
    )


# --- Gone for good ---


def static_member_ghost(look: Look) -> Iterator[Verdict]:
    """A static instance is gone for good; nobody reads its partitions until its session ends (KIP-345)."""
    if look.is_young:
        return
    yield from (verdict for each in look.members if (verdict := _gone_unseen(look, each)) is not None)
    horizon = look.thresholds.stay_ms + look.thresholds.resolve_after_ms
    for past in recent_past(look, horizon):
        expired = past.departure.likely == SESSION_EXPIRED and not _is_stall(past)
        waited = look.lasted(past.left_ms, look.thresholds.stay_ms)
        if past.member.group_instance_id is not None and expired and waited and came_back_ms(look, past) is None:
            yield _gone_for_good(past)


def _gone_unseen(look: Look, member: Member) -> Verdict | None:
    """Judge a static member that is still listed: silent with work to do, while the others go on."""
    silent = _silence_with_work(look, member)
    client = None if silent is None else client_of(look, member)
    if silent is None or (client is not None and is_reporting(look, client)):
        return None
    session = session_of(member)
    harmed = session > look.thresholds.stalled_ms and is_harmed(look, [member.partitions])
    return say(
        "static_member_ghost.unseen",
        look.now_ms - silent,
        _with_partitions(member),
        confidence=STRONG if client is not None else HINT,
        severity=PAGE if harmed else TICKET,
        member=member,
        host=member.host or "the member",
        silent=silent,
        session=session,
        reported=client is not None,
    )


def _with_partitions(member: Member) -> Subject:
    return subject_of(member, partitions=partition_names(member.partitions)[:20])


def _silence_with_work(look: Look, member: Member) -> int | None:
    """Return for how long a static member has committed nothing although it had work and the others went on."""
    if member.group_instance_id is None or not member.partitions:
        return None
    progress, stable_ms = look.history.progress, look.stable_since_ms()
    rhythm = progress.rhythm(member.partitions, look.now_ms)
    since = max(rhythm.last_ms or 0, stable_ms or 0)
    if rhythm.last_ms is None or not look.lasted(since, max(_SILENT_MS, 3 * (rhythm.gap_ms or 0))):
        return None
    positions = positions_of(look, member.partitions)
    working = any(p.lag and (progress.end_growth(p.topic, p.partition, since) or 0) > 0 for p in positions)
    others = any(
        progress.commits_between(each.partitions or {}, since + _SILENT_MS // 2, look.now_ms)
        for each in look.members
        if each.member_id != member.member_id
    )
    return look.now_ms - since if working and others else None


def _gone_for_good(past: Past) -> Verdict:
    session = past.departure.session_ms
    return say(
        "static_member_ghost.gone",
        past.left_ms - session,
        subject_of(past.member),
        confidence=past.departure.confidence,
        evidence=past.departure.evidence,
        rebalance_ids=(past.rebalance_id,),
        member=past.member,
        session=session,
    )


# --- Alive, but not polling ---


def static_stalled_member(look: Look) -> Iterator[Verdict]:
    """A static member that stops polling keeps its partitions until max.poll.interval plus its session (KIP-345)."""
    if look.is_young:
        return
    static = [member for member in look.members if member.group_instance_id is not None]
    barrier = _barrier_that_ran_out(look) if static else None
    for member in static:
        verdict = _stalled_by_report(look, member)
        if verdict is None and barrier is not None:
            verdict = _stalled_by_barrier(look, member, barrier)
        if verdict is not None:
            yield verdict


def _is_stall(past: Past) -> bool:
    """Whether a static member was silent for its poll interval and its session: it stood still before it was lost."""
    silence, poll = past.departure.silence_ms, past.departure.poll_ms
    return silence is not None and poll is not None and silence >= poll + past.departure.session_ms - _SLACK_MS


def _stalled_by_report(look: Look, member: Member) -> Verdict | None:
    client, limit = client_of(look, member), member.rebalance_timeout_ms
    latest = None if client is None else client.latest()
    age = None if latest is None else latest.poll_age_ms
    if client is None or latest is None or age is None or limit is None:
        return None
    if age < limit or not is_reporting(look, client):
        return None
    return _stalled(look, member, round(latest.emitted_ms - age), poll_age=age)


def _barrier_that_ran_out(look: Look) -> Barrier | None:
    """Return the longest barrier of the latest rebalance if it ended by its time-out."""
    latest = look.history.latest()
    barrier = None if latest is None else longest_barrier(look.history, latest)
    limit = max((each.rebalance_timeout_ms or 0 for each in look.members), default=0)
    ran_out = barrier is not None and limit > 0 and barrier.waited_ms >= _WHOLE_BARRIER * limit
    return barrier if ran_out else None


def _stalled_by_barrier(look: Look, member: Member, barrier: Barrier) -> Verdict | None:
    """Judge a static member for which a barrier ran into its time-out, and that has not committed since."""
    progress = look.history.progress
    known = any(each.member_id == member.member_id for each in barrier.stayed)
    committed = progress.commits_between(member.partitions or {}, barrier.from_ms, look.now_ms)
    waiting = any(position.lag for position in positions_of(look, member.partitions))
    others = {place for each in look.members if each is not member for place in places(each.partitions)}
    went_on = any((progress.position(*place).committed_ms or 0) > barrier.released_ms for place in others)
    if not known or committed or not waiting or not went_on:
        return None
    return _stalled(look, member, barrier.from_ms, barrier_ms=barrier.waited_ms)


def _stalled(
    look: Look, member: Member, since_ms: int, *, poll_age: float | None = None, barrier_ms: int | None = None
) -> Verdict:
    poll, session = member.rebalance_timeout_ms or 0, session_of(member)
    return say(
        "static_stalled_member.present",
        since_ms,
        _with_partitions(member),
        confidence=PLAUSIBLE if poll_age is None else STRONG,
        severity=PAGE if is_harmed(look, [member.partitions]) else TICKET,
        member=member,
        host=member.host or "the member",
        kept=poll + session,
        poll_age=poll_age,
        barrier=barrier_ms,
        reported=poll_age is not None,
        limit=poll,
        session=session,
        proposed="twice the longest batch",
    )


CONDITIONS: tuple[Condition, ...] = (
    Condition(static_session_too_short),
    Condition(static_member_ghost, inputs.COMMITS | inputs.ENDS | inputs.CLIENTS),
    Condition(static_stalled_member, inputs.COMMITS | inputs.ENDS | inputs.CLIENTS),
)
