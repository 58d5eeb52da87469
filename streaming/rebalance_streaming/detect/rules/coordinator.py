"""The coordinator (catalogue §4.5): one that is stuck in a rebalance, one that moved to another broker.

Receives one group's history with its probes: the log does not tell where a group's coordinator is, nor what state it
is in between two records. Leaders are judged in `leader`, brokers that are merely slow in `brokers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rebalance_contract import Member, ProbedMember, Rebalance
from rebalance_streaming.detect import inputs
from rebalance_streaming.detect.advice import USUAL_SESSION_MS
from rebalance_streaming.detect.config import Thresholds
from rebalance_streaming.detect.departures import SESSION_EXPIRED, UNKNOWN, Departure, find_departures, session_of
from rebalance_streaming.detect.history import COMPLETING, PREPARING, GroupHistory, Sighting
from rebalance_streaming.detect.look import Condition, Look
from rebalance_streaming.detect.rules import brokers, leader
from rebalance_streaming.detect.verdict import CERTAIN, PLAUSIBLE, STRONG, Verdict
from rebalance_streaming.detect.wording import say
from rebalance_streaming.groups.identity import client_stem

#: Two probes further apart than this do not show one and the same state.
_BLIND_MS = 90_000
#: A failover is over at most this long before a probe sees the new coordinator (AWS quotes 2 min of client errors).
_UNSEEN_MS = 150_000
_AFTER_FAILOVER = frozenset({"departure", "replacement", "swap", "group_emptied", "leader_rejoin", "other"})


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
    preparing = run[-1].state == PREPARING
    return say(
        "coordinator_stuck_rebalance",
        run[0].at_ms,
        confidence=CERTAIN if not preparing else PLAUSIBLE if static or strangers else STRONG,
        variant="preparing" if preparing else "completing",
        state="PreparingRebalance" if preparing else "CompletingRebalance",
        waited=run[-1].at_ms - run[0].at_ms,
        probes=len(run),
        limit=limit,
        static=static,
        strangers=strangers,
        preparing=preparing,
        limits=look.thresholds,
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
    for before, after in [*pairwise(look.history.coordinators)][-1:]:
        if not look.is_within(after.at_ms, look.thresholds.resolve_after_ms):
            return
        reach = after.at_ms + _longest_session(look.members) + look.thresholds.failover_window_ms
        near = look.history.since_ms(_answered_ms(look.history, after.at_ms))
        if not any(each.started_before_ms <= reach for each in near):
            yield say("coordinator_failover.harmless", after.at_ms, before=before.broker, after=after.broker)


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
    session = _longest_session(rebalance.members_before)
    moves = [
        (before, after)
        for before, after in pairwise(history.coordinators)
        if _answered_ms(history, after.at_ms)
        <= rebalance.started_before_ms
        <= after.at_ms + session + thresholds.failover_window_ms
    ]
    if not moves:
        return None
    ended_ms = rebalance.completed_at_ms or rebalance.started_before_ms
    lost = find_departures(history, rebalance, {}, ended_ms) if departures is None else departures
    classes = {each.likely for each in lost}
    if classes and not classes & {SESSION_EXPIRED, UNKNOWN}:
        return None
    (before, after), sure = moves[-1], not classes or SESSION_EXPIRED in classes
    return say(
        "coordinator_failover.cause",
        after.at_ms,
        confidence=STRONG if sure else PLAUSIBLE,
        rebalance_ids=(rebalance.rebalance_id,),
        before=before.broker,
        after=after.broker,
        later=max(0, rebalance.started_before_ms - after.at_ms),
        sure=sure,
        session=session,
        proposed=max(USUAL_SESSION_MS, session),
    )


CONDITIONS: tuple[Condition, ...] = (
    *leader.CONDITIONS,
    Condition(coordinator_stuck_rebalance, inputs.STATES),
    Condition(coordinator_failover, inputs.STATES),
    *brokers.CONDITIONS,
)
