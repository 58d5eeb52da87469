"""The coordinator (catalogue §4.5): one that is stuck in a rebalance, one that moved to another broker.

Receives one group's history with its probes: the log does not tell where a group's coordinator is, nor what state it
is in between two records. Leaders are judged in `leader`, brokers that are merely slow in `brokers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from rebalance_contract import Advice, Alternative, Evidence, Member, ProbedMember, Rebalance
from rebalance_streaming.detect import inputs
from rebalance_streaming.detect.config import Thresholds
from rebalance_streaming.detect.departures import SESSION_EXPIRED, UNKNOWN, Departure, find_departures, session_of
from rebalance_streaming.detect.history import COMPLETING, PREPARING, GroupHistory, Sighting
from rebalance_streaming.detect.look import Condition, Look
from rebalance_streaming.detect.rules import brokers, leader
from rebalance_streaming.detect.verdict import (
    CERTAIN,
    LOG,
    PAGE,
    PLAUSIBLE,
    PROBES,
    STRONG,
    Verdict,
    seconds,
)
from rebalance_streaming.groups.identity import client_stem

#: Two probes further apart than this do not show one and the same state.
_BLIND_MS = 90_000
#: A failover is over at most this long before a probe sees the new coordinator (AWS quotes 2 min of client errors).
_UNSEEN_MS = 150_000
_AFTER_FAILOVER = frozenset({"departure", "replacement", "swap", "group_emptied", "leader_rejoin", "other"})
_USUAL_SESSION_MS = 45_000


def coordinator_stuck_rebalance(look: Look) -> Iterator[Verdict]:
    """The coordinator exceeds the rebalance's own time-out, which it must not (KAFKA-9752, KAFKA-12890)."""
    run = _trailing_run(look)
    limit = max((each.rebalance_timeout_ms or 0 for each in look.members), default=0)
    if len(run) < 2 or not limit or run[-1].at_ms - run[0].at_ms <= limit + look.thresholds.stuck_slack_ms:
        return
    listed = next((each.members for each in reversed(run) if each.members is not None), ())
    static = bool(listed) and all(each.group_instance_id is not None for each in listed)
    yield _stuck(look, run, limit, static=static, strangers=_are_strangers(look, listed))


def _are_strangers(look: Look, listed: Sequence[ProbedMember]) -> bool:
    """Whether somebody waits of another client: its rebalance time-out may be longer than those known."""
    known = {client_stem(each.client_id) for each in look.members}
    return any(client_stem(each.client_id) not in known for each in listed)


def _stuck(look: Look, run: list[Sighting], limit: int, *, static: bool, strangers: bool) -> Verdict:
    waited, preparing = run[-1].at_ms - run[0].at_ms, run[-1].state == PREPARING
    name = "PreparingRebalance" if preparing else "CompletingRebalance"
    dead = "only static members are listed: dead ones re-arm the barrier" if static else "not only static members wait"
    return Verdict(
        rule="coordinator_stuck_rebalance",
        variant="preparing" if preparing else "completing",
        confidence=CERTAIN if not preparing else PLAUSIBLE if static or strangers else STRONG,
        severity=PAGE,
        summary=f"The coordinator has kept the group in {name} for {seconds(waited)}; the largest rebalance time-out "
        f"is {seconds(limit)}. It is stuck.",
        started_at_ms=run[0].at_ms,
        evidence=(
            Evidence(
                PROBES, "state", f"{name} for {seconds(waited)} in {len(run)} probes", "no other state in between"
            ),
            Evidence(
                LOG, "rebalance_timeout", f"at most {seconds(limit)}", f"+ {seconds(look.thresholds.stuck_slack_ms)}"
            ),
        ),
        alternatives=(
            Alternative("stalled_member_join_barrier", "a member that stalls is removed after the time-out"),
            *((Alternative("static_member_ghost", dead),) if preparing else ()),
        ),
        missing=("the rebalance time-out of members that are new in this rebalance",) if strangers else (),
        advice=(
            Advice("operation", None, "restart the coordinating broker, or the group's members", "first aid"),
            Advice("upgrade", None, "brokers >= 2.8.1 (KAFKA-12890), at least 2.5.0 (KAFKA-9752)", "known faults"),
        ),
    )


def _trailing_run(look: Look) -> list[Sighting]:
    """Return the latest probes that all saw the same unsettled state, with no record and no blind spot in between."""
    run: list[Sighting] = []
    picture = look.history.picture
    recorded_ms = (picture.updated_at_ms if picture else None) or 0
    for each in reversed(look.history.sightings):
        if each.state is None:
            continue
        near = not run or (run[0].at_ms - each.at_ms <= _BLIND_MS and each.state == run[0].state)
        if each.state not in (PREPARING, COMPLETING) or not near or each.at_ms < recorded_ms:
            break
        run.insert(0, each)
    return run if run and look.is_within(run[-1].at_ms, _BLIND_MS) else []


def coordinator_failover(look: Look) -> Iterator[Verdict]:
    """The group's coordinator moved to another broker, and the group did not notice: as it should be (F14)."""
    for after in list(look.history.coordinators)[1:][-1:]:
        if not look.is_within(after.at_ms, look.thresholds.resolve_after_ms):
            return
        reach = after.at_ms + _longest_session(look.members) + look.thresholds.failover_window_ms
        near = look.history.since_ms(_answered_ms(look.history, after.at_ms))
        if not any(each.started_before_ms <= reach for each in near):
            yield _moved(look.history, "The group did not rebalance.", CERTAIN, after.at_ms)


def _answered_ms(history: GroupHistory, moved_ms: int) -> int:
    """Return when the former coordinator answered last: the failover came after that."""
    answers = (each.at_ms for each in history.sightings if each.state is not None and each.at_ms < moved_ms)
    return max((moved_ms - _UNSEEN_MS, *answers))


def _longest_session(members: Sequence[Member]) -> int:
    return max((session_of(each) for each in members), default=0)


def find_failover(
    history: GroupHistory,
    rebalance: Rebalance,
    thresholds: Thresholds,
    departures: Sequence[Departure] | None = None,
) -> Verdict | None:
    """Return the failover that a rebalance followed, because clients did not find the new coordinator in time (F14).

    Null when the coordinator did not move shortly before it, or when the rebalance has a reason of its own: members
    that came, left in order or stopped polling, or topics that changed. `departures` are those of the rebalance where
    they have been found already; null: they are looked for, as of the rebalance's end.
    """
    if rebalance.reason not in _AFTER_FAILOVER:
        return None
    reach = _longest_session(rebalance.members_before) + thresholds.failover_window_ms
    moves = [
        each
        for each in list(history.coordinators)[1:]
        if _answered_ms(history, each.at_ms) <= rebalance.started_before_ms <= each.at_ms + reach
    ]
    if not moves:
        return None
    ended_ms = rebalance.completed_at_ms or rebalance.started_before_ms
    lost = find_departures(history, rebalance, {}, ended_ms) if departures is None else departures
    classes = {each.likely for each in lost}
    if classes and not classes & {SESSION_EXPIRED, UNKNOWN}:
        return None
    later = seconds(max(0, rebalance.started_before_ms - moves[-1].at_ms))
    sure = not classes or SESSION_EXPIRED in classes
    return replace(
        _moved(history, f"The group rebalanced {later} later.", STRONG if sure else PLAUSIBLE, moves[-1].at_ms),
        alternatives=(Alternative("network_partition", "the coordinator itself moved"),),
        missing=() if sure else ("client metrics: whether heartbeats failed",),
        advice=_outlast_it(rebalance),
        rebalance_ids=(rebalance.rebalance_id,),
    )


def _moved(history: GroupHistory, effect: str, confidence: float, at_ms: int) -> Verdict:
    before, after = next((a, b) for a, b in pairwise(history.coordinators) if b.at_ms == at_ms)
    return Verdict(
        rule="coordinator_failover",
        confidence=confidence,
        summary=f"The group's coordinator moved from broker {before.broker} to broker {after.broker}. {effect}",
        started_at_ms=at_ms,
        evidence=(
            Evidence(
                PROBES,
                "coordinator",
                f"broker {before.broker} -> {after.broker}",
                "another broker leads the group's offsets partition",
            ),
        ),
    )


def _outlast_it(rebalance: Rebalance) -> tuple[Advice, ...]:
    session = _longest_session(rebalance.members_before)
    proposed = str(max(_USUAL_SESSION_MS, session))
    return (
        Advice("session.timeout.ms", str(session), proposed, "max(45000, time a broker takes to restart)"),
        Advice("operation", None, "controlled shutdown of brokers, one at a time", "-"),
    )


CONDITIONS: tuple[Condition, ...] = (
    *leader.CONDITIONS,
    Condition(coordinator_stuck_rebalance, inputs.STATES),
    Condition(coordinator_failover, inputs.STATES),
    *brokers.CONDITIONS,
)
