"""The coordinator moved to another broker, or was loaded again: with rebalances, or without.

Receives one group's history: probes name the broker that coordinates it, and brokers' logs show when one loaded it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rebalance_contract import Member, RebalanceReason
from rebalance_streaming.detect.advice import session_for_failover
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.group_view import GroupView, condition
from rebalance_streaming.detect.rules.member_settings import sessions_of
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.detect.wording import say
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.confidence import PLAUSIBLE, STRONG
from rebalance_streaming.observed.coordinator_moves import CoordinatorMove, find_moves
from rebalance_streaming.observed.departures import SESSION_EXPIRED, UNKNOWN, session_of

_MINUTE_MS = 60_000
#: A broker that loses a group and regains it this often is unhealthy; once may be a restart.
OFTEN = 2
_AFTER_FAILOVER = frozenset(
    {
        RebalanceReason.DEPARTURE,
        RebalanceReason.REPLACEMENT,
        RebalanceReason.SWAP,
        RebalanceReason.GROUP_EMPTIED,
        RebalanceReason.LEADER_REJOIN,
        RebalanceReason.OTHER,
    }
)


@condition(inputs.STATES)
def coordinator_failover(view: GroupView) -> Iterator[Verdict]:
    """The group's coordinator moved to another broker without causing a rebalance, as intended."""
    for move in find_moves(view.history)[-1:]:
        lost_again = move.is_back and len(regained(view)) >= OFTEN
        if lost_again or not view.time.is_within(move.at_ms, view.thresholds.resolve_after_ms):
            return
        reach = move.at_ms + _longest_session(view.members) + view.thresholds.failover_window_ms
        since = view.history.since_ms(move.from_ms)
        near = [each.rebalance_id for each in since if each.started_before_ms <= reach]
        causes = {view.causes.get(each) for each in near}
        if None not in causes and "coordinator_failover" not in causes:
            yield view.say(
                "coordinator_failover.other_cause" if near else "coordinator_failover.harmless",
                move.at_ms,
                rebalance_ids=tuple(near),
                named=move.is_named,
                before=move.before if move.is_named else None,
                after=move.after,
                loaded=move.loaded_ms is not None,
            )


def regained(view: GroupView) -> list[CoordinatorMove]:
    """Return the recent moves, within `resolve_after_ms`, by which brokers regained the group."""
    moves = (each for each in find_moves(view.history) if each.is_back)
    return [each for each in moves if view.time.is_within(each.at_ms, view.thresholds.resolve_after_ms)]


def moved_lately(view: GroupView) -> int:
    """Return how often the coordinator moved so recently that clients' one-minute maxima still include it."""
    shown_ms = view.thresholds.failover_window_ms + 2 * _MINUTE_MS
    return sum(view.time.is_within(each.at_ms, shown_ms) for each in find_moves(view.history))


def _longest_session(members: Sequence[Member]) -> int:
    return max((session_of(each) for each in members), default=0)


def find_failover(episode: Episode) -> Verdict | None:
    """Return the failover that caused a rebalance, because clients did not find the new coordinator in time.

    Null if the coordinator did not move shortly before, or if the rebalance has a cause of its own: members that came,
    left in order or stopped polling, or topics that changed.
    """
    rebalance = episode.rebalance
    if rebalance.reason not in _AFTER_FAILOVER:
        return None
    session = _longest_session(rebalance.members_before)
    reach = session + episode.thresholds.failover_window_ms
    began_ms = rebalance.started_before_ms
    moves = [each for each in find_moves(episode.history) if each.from_ms <= began_ms <= each.at_ms + reach]
    if not moves:
        return None
    classes = {each.likely for each in episode.departures}
    if classes and not classes & {SESSION_EXPIRED, UNKNOWN}:
        return None
    move, sure = moves[-1], not classes or SESSION_EXPIRED in classes
    return say(
        "coordinator_failover.cause",
        move.at_ms,
        confidence=STRONG if sure else PLAUSIBLE,
        rebalance_ids=(rebalance.rebalance_id,),
        named=move.is_named,
        before=move.before if move.is_named else None,
        after=move.after,
        loaded=move.loaded_ms is not None,
        later=max(0, began_ms - move.at_ms),
        sure=sure,
        advice=session_for_failover(sessions_of(episode.history, rebalance.members_before, rebalance.type)),
    )
