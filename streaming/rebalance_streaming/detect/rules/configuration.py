"""Timeouts that are wrong even without an incident, and members whose joins are rejected.

Receives a group's current state; reports which setting is wrong, by how much, and what it should be. A client that was
refused leaves no record in the log, so only its own reports show it. The other diagnoses of the family `configuration`
are in `assignors` and `membership`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from rebalance_contract import (
    CONNECT_PROTOCOL,
    UNSETTLED_STATES,
    USUAL_SESSION_MS,
    Advice,
    GroupType,
    Member,
    Rebalance,
    Severity,
    Subject,
    SubjectMember,
)
from rebalance_contract.client_settings import OWN_SESSION
from rebalance_contract.clients import FAILED_REBALANCES, JOIN_RATE
from rebalance_streaming.detect.advice import heartbeat_for, initial_delay_for, longer_session, poll_interval_for
from rebalance_streaming.detect.catalogue import with_trait
from rebalance_streaming.detect.episode import ExplainedDeparture
from rebalance_streaming.detect.group_view import DAY_MS, GroupView, condition
from rebalance_streaming.detect.rules.member_settings import has_assignor, sessions_of
from rebalance_streaming.detect.rules.polling import longest_reported_gap
from rebalance_streaming.detect.verdict import Verdict, subject_of
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.clients import ClientHistory
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import SESSION_EXPIRED, slot_of
from rebalance_streaming.observed.evidence import seconds
from rebalance_streaming.observed.liveness import GONE, RESTARTED

#: Kafka's windowed rates cover a minute, and heartbeats are counted late by the latency of the responses: only a
#: measured interval that is too long by this factor counts.
_RATE_AGE_MS, _RATE_SLACK = 60_000, 1.25
_EVICTIONS = 2
#: Causes of a lost session that a longer one would have outlasted.
_OUTLASTED = with_trait("outlasted")
#: A client that cannot join for this long is not just waiting for a rebalance to end.
_REJECTED_MS, _REJECTED_REPORTS = 60_000, 3
_OUTSIDE = ("init", "wait-join")


# --- Session and heartbeats ---
@condition(inputs.CLIENTS, grown=True)
def session_heartbeat_ratio(view: GroupView) -> Iterator[Verdict]:
    """Fewer than three heartbeats fit into the session: a lost one may end the membership (KIP-62)."""
    wrong = [
        (member, *found) for member in view.configured_members if (found := _heartbeat_of(view, member)) is not None
    ]
    if not wrong:
        return
    member, interval, reported = max(wrong, key=lambda each: each[1] / (each[0].session_timeout_ms or 1))
    session = member.session_timeout_ms or 0
    yield view.say(
        "session_heartbeat_ratio",
        view.stable_since_ms() or view.now_ms,
        view.subject_among([each[0] for each in wrong]),
        confidence=CERTAIN if reported else PLAUSIBLE,
        severity=Severity.TICKET if 2 * interval > session else Severity.INFO,
        member=member,
        interval=interval,
        session=session,
        share=interval / session,
        reported=reported,
        proposed=heartbeat_for(session),
    )


def _heartbeat_of(view: GroupView, member: Member) -> tuple[float, bool] | None:
    """Return (heartbeat interval in ms, whether reported) if it is too long for a member's session; else null."""
    session, client = member.session_timeout_ms, view.client_of(member)
    if not session or client is None:
        return None
    reported = client.config.heartbeat_interval_ms
    if reported is not None:
        return (reported, True) if 3 * reported > session else None
    measured = _interval_by_rate(client)
    return (measured, False) if measured is not None and 3 * measured > _RATE_SLACK * session else None


def _interval_by_rate(client: ClientHistory) -> float | None:
    """Return the shortest interval between heartbeats (ms): rebalances and starvation only lengthen it; or None."""
    reports = list(client.reports)
    if not reports or reports[-1].emitted_ms - reports[0].emitted_ms < _RATE_AGE_MS:
        return None
    rates = [
        s.heartbeat_rate for s in reports if s.heartbeat_rate and s.emitted_ms - reports[0].emitted_ms >= _RATE_AGE_MS
    ]
    counted = [(s.emitted_ms, s.heartbeat_total) for s in reports if s.heartbeat_total is not None]
    times = [at for at, _ in counted]
    for at_ms, total in counted:
        later = bisect_left(times, at_ms + _RATE_AGE_MS)
        if later < len(counted) and counted[later][1] > total:
            rates.append((counted[later][1] - total) / ((times[later] - at_ms) / 1000))
    return 1000 / max(rates) if rates else None


@condition(inputs.CLIENTS, grown=True)
def session_timeout_too_short(view: GroupView) -> Iterator[Verdict]:
    """Members are lost that were only slow for a short time: the session is shorter than usual pauses (KIP-735)."""
    evicted, limit = _evicted_for_a_moment(view), view.thresholds.session_timeout_ms
    short = [
        each
        for each in view.configured_members
        if each.session_timeout_ms is not None and each.session_timeout_ms < limit
    ]
    if len(evicted) >= _EVICTIONS and not (short and _may_starve(evicted)):
        yield _lost_for_a_moment(view, evicted)
    elif short:
        yield _short_by_setting(view, short)


def _may_starve(evicted: list[ExplainedDeparture]) -> bool:
    """Whether clients without reports were lost whose heartbeats may starve, which a longer session would only hide."""
    return any(each.departure.liveness is None and each.departure.client.may_starve is not False for each in evicted)


def _evicted_for_a_moment(view: GroupView) -> list[ExplainedDeparture]:
    """Return the session expiries that a longer session avoids: the members were back within two sessions."""
    found = []
    for past in view.recent_past(DAY_MS):
        departure = past.departure
        is_short = departure.likely == SESSION_EXPIRED and departure.session_ms < USUAL_SESSION_MS
        if not is_short or past.rule not in _OUTLASTED or departure.liveness in (GONE, RESTARTED):
            continue
        away_ms = view.away_ms(past)
        if away_ms is not None and away_ms <= 2 * departure.session_ms:
            found.append(past)
    return found


def _lost_for_a_moment(view: GroupView, evicted: list[ExplainedDeparture]) -> Verdict:
    last, starving = evicted[-1].departure, _may_starve(evicted)
    slots = {slot_of(each.member) for each in evicted}
    blind = {each.member.host or "the member" for each in evicted if each.departure.liveness is None}
    return view.say(
        "session_timeout_too_short.evictions",
        evicted[0].left_ms,
        subject_of(last.member) if len(slots) == 1 else Subject(),
        confidence=HINT if starving else PLAUSIBLE if blind else STRONG,
        severity=Severity.INFO if starving else Severity.TICKET,
        evidence=last.evidence,
        missing=tuple(f"client metrics of {host}" for host in sorted(blind)),
        advice=_longer_session(view, last.member),
        rebalance_ids=tuple(dict.fromkeys(each.rebalance_id for each in evicted)),
        times=len(evicted),
        slots=len(slots),
        session=last.session_ms,
        twice=2 * last.session_ms,
        usual=USUAL_SESSION_MS,
    )


def _short_by_setting(view: GroupView, short: list[Member]) -> Verdict:
    member = min(short, key=lambda each: each.session_timeout_ms or 0)
    return view.say(
        "session_timeout_too_short.setting",
        view.stable_since_ms() or view.now_ms,
        view.subject_among(short),
        advice=_longer_session(view, member),
        members=short,
        session=member.session_timeout_ms or 0,
    )


def _longer_session(view: GroupView, member: Member) -> tuple[Advice, ...]:
    (session,) = sessions_of(view.history, [member])
    return longer_session(session, with_requests=True)


# --- Rebalance timeout ---
@condition(inputs.CLIENTS, grown=True)
def rebalance_timeout_excessive(view: GroupView) -> Iterator[Verdict]:
    """A member that stalls blocks the group for the largest rebalance timeout (fasten-project/fasten#183)."""
    timeouts = [(each.rebalance_timeout_ms or 0, each) for each in view.configured_members]
    limit = view.thresholds.rebalance_timeout_ms
    wrong = [(timeout, each) for timeout, each in timeouts if timeout > limit]
    if not wrong:
        return
    snapshot, (longest, worst) = view.history.snapshot, max(wrong, key=lambda each: each[0])
    gap = longest_reported_gap(view, worst)
    connect = snapshot is not None and snapshot.protocol_type == CONNECT_PROTOCOL
    yield view.say(
        "rebalance_timeout_excessive",
        view.stable_since_ms() or view.now_ms,
        view.subject_among([each for _, each in wrong]),
        member=worst,
        longest=longest,
        others=max((timeout for timeout, _ in timeouts if timeout <= limit), default=None),
        count=len(wrong),
        limit=limit,
        setting="rebalance.timeout.ms" if connect else "max.poll.interval.ms",
        proposed=_shorter_wait(view, worst, longest, gap),
    )


def _shorter_wait(view: GroupView, member: Member, now_ms: int, gap_ms: float | None) -> int | str:
    """Return a sufficient rebalance timeout (ms) for a member, or how to reach one below its current timeout.

    librdkafka accepts none below its session timeout.
    """
    if gap_ms is None:
        return "twice the longest batch, at least 60000"
    (session,) = sessions_of(view.history, [member])
    bound = session.bound is not None and session.bound.setting == "max.poll.interval.ms"
    proposed = max(poll_interval_for(gap_ms), session.now_ms if bound else 0)
    if proposed < now_ms:
        return proposed
    return f"twice the longest batch, once batches are shorter: one took {seconds(gap_ms)}"


# --- Members that come one by one, or are not let in ---


@condition(grown=True)
def initial_delay_too_short(view: GroupView) -> Iterator[Verdict]:
    """A forming group rebalanced for every member that joined (group.initial.rebalance.delay.ms, KIP-134)."""
    window = view.thresholds.formation_window_ms
    recent = view.recent(window + view.thresholds.resolve_after_ms)
    firsts = [
        each for each in recent if each.type == GroupType.CLASSIC and not each.members_before and each.members_after
    ]
    if not firsts:
        return
    first = firsts[-1]
    forming = [each for each in recent if 0 <= each.started_before_ms - first.started_before_ms <= window]
    times = _arrival_times(forming, first.started_before_ms + window)
    if times is None or len(times) < view.thresholds.formation_generations:
        return
    spread = times[-1] - times[0]
    yield view.say(
        "initial_delay_too_short",
        forming[0].started_before_ms,
        rebalance_ids=tuple(each.rebalance_id for each in forming),
        generations=len(times),
        spread=spread,
        proposed=initial_delay_for(spread),
    )


def _arrival_times(forming: list[Rebalance], until_ms: int) -> list[int] | None:
    """Return when each generation with newcomers was complete (epoch ms); null if a member left meanwhile."""
    times = []
    for generation in (g for each in forming for g in each.generations):
        at_ms = generation.join_ended_at_ms or generation.assigned_at_ms
        if at_ms is not None and at_ms > until_ms:
            break
        if generation.left:
            return None
        if generation.joined and at_ms is not None:
            times += [at_ms] * (1 + generation.aborted_before)
    return times


@condition(inputs.REPORTED | inputs.STATES)
def join_rejected(view: GroupView) -> Iterator[Verdict]:
    """A client tries to join and never becomes a member: the broker refuses it (KIP-62, KIP-345, KIP-389)."""
    if not _lets_members_in(view):
        return
    matched = {id(client): member for member in view.members if (client := view.client_of(member)) is not None}
    nameless = {each.client_id for each in view.members} - {each.client_id for each in matched.values()}
    for client in view.history.clients:
        if id(client) not in matched and client.client_id not in nameless and _is_kept_out(view, client):
            yield _rejected(view, client)


def _lets_members_in(view: GroupView) -> bool:
    """Whether the group has been stable for long enough for a client to join."""
    snapshot, since = view.history.snapshot, view.stable_since_ms()
    if snapshot is None or snapshot.rebalancing_since_ms is not None or since is None:
        return False
    unsettled = next((each for each in reversed(view.history.sightings) if each.state in UNSETTLED_STATES), None)
    busy = unsettled is not None and view.time.is_within(unsettled.at_ms, _REJECTED_MS)
    return not busy and view.time.lasted(since, _REJECTED_MS)


def _is_kept_out(view: GroupView, client: ClientHistory) -> bool:
    """Whether all recent reports show attempts to join and none shows partitions."""
    if not view.is_reporting(client) or client.group_id not in (None, view.history.group):
        return False
    if client.member_id is not None and any(each.member_id == client.member_id for each in view.members):
        return False
    seen = [each for each in client.reports if each.emitted_ms >= view.now_ms - _REJECTED_MS]
    if len(seen) < _REJECTED_REPORTS or seen[-1].emitted_ms - seen[0].emitted_ms < _REJECTED_MS // 2:
        return False
    if any(each.assigned for each in seen) or all(each.assigned is None and each.join_state is None for each in seen):
        return False
    failed = [each.values[FAILED_REBALANCES] for each in seen if FAILED_REBALANCES in each.values]
    tries = any((each.values.get(JOIN_RATE) or 0) > 0 for each in seen)
    outside = all(each.join_state in _OUTSIDE for each in seen)
    return tries or outside or (len(failed) > 1 and failed[-1] > failed[0])


def _rejected(view: GroupView, client: ClientHistory) -> Verdict:
    session = client.config.session_timeout_ms
    is_taken = session is None or OWN_SESSION.shortest_ms <= session <= OWN_SESSION.longest_ms
    refused = None if is_taken else session
    seen = [each for each in client.reports if each.emitted_ms >= view.now_ms - _REJECTED_MS]
    return view.say(
        "join_rejected.joining",
        seen[0].emitted_ms,
        Subject((SubjectMember(client.member_id, client.client_id, client.host, client.instance_id),)),
        confidence=PLAUSIBLE if refused is None else STRONG,
        severity=Severity.PAGE if not view.members and view.progress.total_lag() else Severity.TICKET,
        variant=None if refused is None else "session_out_of_range",
        client=client.client_id or "A client",
        host=client.host or "unknown host",
        instance=client.instance_id,
        state=seen[-1].join_state or f"{seen[-1].assigned or 0:.0f} partitions assigned",
        lasted=seen[-1].emitted_ms - seen[0].emitted_ms,
        refused=refused,
        usual=USUAL_SESSION_MS,
        by_assignor=refused is None and has_assignor(view.history),
    )
