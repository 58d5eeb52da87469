"""Time-outs that are wrong without any incident (catalogue §4.4, and `poll_overrun_risk` of §4.2).

Receives a group as it stands; says which setting is wrong, by how much, and what it should be. What else is in
that section is judged in `joining` and `assignors`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator

from rebalance_contract import (
    Advice,
    Alternative,
    Evidence,
    Member,
    Subject,
)
from rebalance_streaming.detect import inputs
from rebalance_streaming.detect.catalogue import with_trait
from rebalance_streaming.detect.clients import ClientHistory
from rebalance_streaming.detect.departures import SESSION_EXPIRED, slot_of
from rebalance_streaming.detect.episode import Past
from rebalance_streaming.detect.fingerprints import fingerprint
from rebalance_streaming.detect.liveness import GONE, RESTARTED
from rebalance_streaming.detect.look import DAY_MS, Condition, Look
from rebalance_streaming.detect.rules import assignors, joining, poll_risk
from rebalance_streaming.detect.rules.standing import (
    CONNECT_PROTOCOL,
    came_back_ms,
    client_of,
    names_of,
    recent_past,
    subject_among,
)
from rebalance_streaming.detect.verdict import (
    CERTAIN,
    CLIENT_METRICS,
    HINT,
    INFO,
    LOG,
    PLAUSIBLE,
    STRONG,
    TICKET,
    Verdict,
    name_of,
    seconds,
    subject_of,
)

_USUAL_SESSION_MS, _USUAL_HEARTBEAT_MS = 45_000, 3_000
#: The brokers' default of group.max.session.timeout.ms.
_HIGHEST_SESSION_MS = 1_800_000
#: Kafka's windowed rates cover a minute, and count late by the answers' travel time: only a clear excess counts.
_RATE_AGE_MS, _RATE_SLACK = 60_000, 1.25
#: A longer request time-out is not meant for heartbeats (kafka-python's is 305 s).
_LONGEST_REQUEST_MS = 60_000
_EVICTIONS = 2
#: Causes of a lost session that a longer one would have outlasted.
_OUTLASTED = with_trait("outlasted")


# --- Session and heartbeats ---


def session_heartbeat_ratio(look: Look) -> Iterator[Verdict]:
    """Fewer than three heartbeats fit into the session: one that is lost may cost the membership (KIP-62; story C)."""
    if look.is_young:
        return
    wrong = [(member, *found) for member in look.members if (found := _heartbeat_of(look, member)) is not None]
    if not wrong:
        return
    member, interval, told = max(wrong, key=lambda each: each[1] / (each[0].session_timeout_ms or 1))
    session = member.session_timeout_ms or 0
    yield Verdict(
        rule="session_heartbeat_ratio",
        confidence=CERTAIN if told else PLAUSIBLE,
        severity=TICKET if 2 * interval > session else INFO,
        summary=f"{name_of(member)} sends a heartbeat every {seconds(interval)} with a session of {seconds(session)}; "
        "three must fit into it, or one that is lost may cost the membership.",
        started_at_ms=look.stable_since_ms() or look.now_ms,
        subject=subject_among(look, [each[0] for each in wrong]),
        evidence=(
            Evidence(
                CLIENT_METRICS, "heartbeat interval", seconds(interval), "configured" if told else "1 / heartbeat rate"
            ),
            Evidence(LOG, "session_timeout", seconds(session), f"heartbeat interval is {interval / session:.2f} of it"),
        ),
        missing=() if told else ("heartbeat.interval.ms, which this client does not report",),
        advice=(
            Advice(
                "heartbeat.interval.ms",
                str(round(interval)),
                str(min(_USUAL_HEARTBEAT_MS, session // 3)),
                "min(3000, S / 3)",
            ),
        ),
    )


def _heartbeat_of(look: Look, member: Member) -> tuple[float, bool] | None:
    """Return (heartbeat interval in ms, whether it was told) of a member whose interval is too long for its session."""
    session, client = member.session_timeout_ms, client_of(look, member)
    if not session or client is None:
        return None
    told = client.config.heartbeat_interval_ms
    if told is not None:
        return (told, True) if 3 * told > session else None
    measured = _interval_by_rate(client)
    return (measured, False) if measured is not None and 3 * measured > _RATE_SLACK * session else None


def _interval_by_rate(client: ClientHistory) -> float | None:
    """Return the shortest interval between heartbeats seen: rebalances and starvation only make it longer."""
    sights = list(client.sights)
    if not sights or sights[-1].emitted_ms - sights[0].emitted_ms < _RATE_AGE_MS:
        return None
    rates = [
        s.heartbeat_rate for s in sights if s.heartbeat_rate and s.emitted_ms - sights[0].emitted_ms >= _RATE_AGE_MS
    ]
    counted = [(s.emitted_ms, s.heartbeat_total) for s in sights if s.heartbeat_total is not None]
    times = [at for at, _ in counted]
    for at_ms, total in counted:
        later = bisect_left(times, at_ms + _RATE_AGE_MS)
        if later < len(counted) and counted[later][1] > total:
            rates.append((counted[later][1] - total) / ((times[later] - at_ms) / 1000))
    return 1000 / max(rates) if rates else None


def session_timeout_too_short(look: Look) -> Iterator[Verdict]:
    """Members are lost that were only slow for a moment: the session is shorter than usual pauses (KIP-735)."""
    if look.is_young:
        return
    evicted, limit = _evicted_for_a_moment(look), look.thresholds.session_timeout_ms
    short = [each for each in look.members if each.session_timeout_ms is not None and each.session_timeout_ms < limit]
    if len(evicted) >= _EVICTIONS and not (short and _may_starve(evicted)):
        yield _lost_for_a_moment(look, evicted)
    elif short:
        yield _short_by_setting(look, short)


def _may_starve(evicted: list[Past]) -> bool:
    """Whether clients were lost unseen whose heartbeats may fail by themselves, which a longer session only hides."""
    return any(each.departure.liveness is None and each.departure.client.may_starve is not False for each in evicted)


def _evicted_for_a_moment(look: Look) -> list[Past]:
    """Return departures by session expiry, of members that were back within two sessions, that a longer one saves."""
    found = []
    for past in recent_past(look, DAY_MS):
        departure = past.departure
        if (
            departure.likely != SESSION_EXPIRED
            or past.rule not in _OUTLASTED
            or departure.session_ms >= _USUAL_SESSION_MS
        ):
            continue
        back_ms = came_back_ms(look, past)
        if departure.liveness not in (GONE, RESTARTED) and back_ms is not None:
            found += [past] if back_ms - past.left_ms <= 2 * departure.session_ms else []
    return found


def _lost_for_a_moment(look: Look, evicted: list[Past]) -> Verdict:
    last = evicted[-1].departure
    slots = {slot_of(each.member) for each in evicted}
    blind = [each for each in evicted if each.departure.liveness is None]
    starving = Alternative(
        "heartbeat_starvation", "several members at random" if len(slots) > 1 else "not seen to starve"
    )
    return Verdict(
        rule="session_timeout_too_short",
        variant="evictions",
        confidence=HINT if _may_starve(evicted) else PLAUSIBLE if blind else STRONG,
        severity=INFO if _may_starve(evicted) else TICKET,
        summary=f"{len(evicted)} times in a day a member was removed after {seconds(last.session_ms)} without a "
        f"heartbeat and was back within {seconds(2 * last.session_ms)}: the session is too short for its pauses.",
        started_at_ms=evicted[0].left_ms,
        subject=subject_of(last.member) if len(slots) == 1 else Subject(),
        evidence=(
            Evidence(
                LOG, "departures", f"{len(evicted)} in 24 h of {len(slots)} members", "session expired, back within 2 S"
            ),
            Evidence(LOG, "session_timeout", seconds(last.session_ms), f"below {seconds(_USUAL_SESSION_MS)}"),
            *last.evidence,
        ),
        alternatives=(starving, Alternative("member_crash", "back too soon for a new process")),
        missing=tuple(sorted({f"client metrics of {each.member.host or 'the member'}" for each in blind})),
        advice=(_longer_session(look, last.member),),
        rebalance_ids=tuple(dict.fromkeys(each.rebalance_id for each in evicted)),
    )


def _short_by_setting(look: Look, short: list[Member]) -> Verdict:
    member = min(short, key=lambda each: each.session_timeout_ms or 0)
    session = member.session_timeout_ms or 0
    return Verdict(
        rule="session_timeout_too_short",
        variant="setting",
        confidence=CERTAIN,
        severity=INFO,
        summary=f"{names_of(short)}: a session of only {seconds(session)}; a short pause, or a slow network, "
        "removes members.",
        started_at_ms=look.stable_since_ms() or look.now_ms,
        subject=subject_among(look, short),
        evidence=(
            Evidence(LOG, "session_timeout", seconds(session), f"below {seconds(look.thresholds.session_timeout_ms)}"),
        ),
        advice=(_longer_session(look, member),),
    )


def _longer_session(look: Look, member: Member) -> Advice:
    client = client_of(look, member)
    heartbeat = fingerprint(member, client).heartbeat_ms
    request = client.config.request_timeout_ms if client else None
    if request is None or request > _LONGEST_REQUEST_MS:
        request = 0
    proposed = min(_HIGHEST_SESSION_MS, max(3 * heartbeat, request + heartbeat, _USUAL_SESSION_MS))
    name = (
        "session.timeout.ms" if member.session_timeout_ms is not None else "consumer.session.timeout.ms (of the group)"
    )
    return Advice(
        name,
        None if member.session_timeout_ms is None else str(member.session_timeout_ms),
        str(proposed),
        "max(3 x heartbeat interval, request.timeout.ms + heartbeat interval, 45000)",
    )


# --- Rebalance time-out ---


def rebalance_timeout_excessive(look: Look) -> Iterator[Verdict]:
    """One member that stalls freezes the group for the largest rebalance time-out (fasten-project/fasten#183)."""
    if look.is_young:
        return
    limit = look.thresholds.rebalance_timeout_ms
    wrong = [
        each for each in look.members if each.rebalance_timeout_ms is not None and each.rebalance_timeout_ms > limit
    ]
    if not wrong:
        return
    worst = max(wrong, key=lambda each: each.rebalance_timeout_ms or 0)
    longest = worst.rebalance_timeout_ms or 0
    others = f", the others up to {seconds(_longest_of(look, wrong))}" if len(wrong) < len(look.members) else ""
    yield Verdict(
        rule="rebalance_timeout_excessive",
        confidence=CERTAIN,
        summary=f"{name_of(worst)} allows a rebalance {seconds(longest)}{others}: one member that stalls can hold up "
        "the whole group for that long.",
        started_at_ms=look.stable_since_ms() or look.now_ms,
        subject=subject_among(look, wrong),
        evidence=(
            Evidence(
                LOG, "rebalance_timeout", f"{seconds(longest)} in {len(wrong)} members", f"above {seconds(limit)}"
            ),
        ),
        advice=(_shorter_timeout(look, worst),),
    )


def _longest_of(look: Look, without: list[Member]) -> int:
    return max((each.rebalance_timeout_ms or 0 for each in look.members if each not in without), default=0)


def _shorter_timeout(look: Look, member: Member) -> Advice:
    picture = look.history.picture
    connect = picture is not None and picture.protocol_type == CONNECT_PROTOCOL
    gap = poll_risk.longest_told_gap(look, member)
    proposed = "twice the longest batch, at least 60000"
    if gap is not None:
        proposed = str(max(60_000, 1_000 * math.ceil(2 * gap / 1_000)))
    return Advice(
        "rebalance.timeout.ms" if connect else "max.poll.interval.ms",
        str(member.rebalance_timeout_ms),
        proposed,
        "max(60000, 2 x longest time between two polls)",
    )


CONDITIONS: tuple[Condition, ...] = (
    Condition(session_heartbeat_ratio, inputs.CLIENTS),
    Condition(session_timeout_too_short, inputs.CLIENTS),
    Condition(rebalance_timeout_excessive, inputs.CLIENTS),
    *joining.CONDITIONS,
    *poll_risk.CONDITIONS,
    *assignors.CONDITIONS,
)
