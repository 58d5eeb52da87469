"""The coordinator moved to another broker, or was loaded anew: with rebalances, or without.

Receives one group's history: probes name the broker that coordinates it, and brokers' logs tell when one loaded it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rebalance_contract import Member, RebalanceReason
from rebalance_streaming.detect.advice import session_for_failover
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.group_view import Condition, GroupView
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rules.member_settings import sessions_of
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.detect.wording import say
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.confidence import PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import SESSION_EXPIRED, UNKNOWN, session_of
from rebalance_streaming.observed.history import GroupHistory

#: A failover is over at most this long before a probe sees the new coordinator (AWS quotes 2 min of client errors).
_UNSEEN_MS = 150_000
_MINUTE_MS = 60_000
#: A broker that loses a group and has it again so often is not well; once it may have been started again.
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


@dataclass(frozen=True, slots=True)
class Move:
    """A coordinator took over between `from_ms` and `at_ms`, and wrote so at `loaded_ms`; null: not known.

    `before` and `after` are brokers; `is_back`: it is the same one, which had lost the group and has it again.
    """

    from_ms: int
    at_ms: int
    before: int | None = None
    after: int | None = None
    loaded_ms: int | None = None

    @property
    def is_back(self) -> bool:
        """Whether a broker has again what it had before."""
        return self.before is not None and self.before == self.after

    @property
    def is_named(self) -> bool:
        """Whether it is known to have gone from one broker to another."""
        return self.before is not None and self.after is not None and not self.is_back


def _moves(history: GroupHistory) -> list[Move]:
    """Return when coordinators took over, oldest first: as probes saw it, to the moment where a broker's log tells."""
    seen = [
        Move(_answered_ms(history, after.at_ms), after.at_ms, before.broker, after.broker)
        for before, after in pairwise(history.coordinators)
    ]
    for load in history.coordinator_log.loads():
        place = bisect_left(seen, load.at_ms, key=lambda each: each.at_ms)
        same = seen[place] if place < len(seen) and seen[place].from_ms <= load.at_ms else None
        if same is None:
            seen.insert(place, Move(load.at_ms, load.at_ms, load.before, load.broker, load.at_ms))
        elif same.loaded_ms is None:
            seen[place] = replace(same, from_ms=load.at_ms, loaded_ms=load.at_ms)
    return seen


def _answered_ms(history: GroupHistory, moved_ms: int) -> int:
    """Return when the former coordinator answered last: the failover came after that."""
    answers = (each.at_ms for each in history.sightings if each.state is not None and each.at_ms < moved_ms)
    return max((moved_ms - _UNSEEN_MS, *answers))


def coordinator_failover(look: GroupView, time: JudgingTime) -> Iterator[Verdict]:
    """The group's coordinator moved to another broker, and no rebalance came of it: as it should be."""
    for move in _moves(look.history)[-1:]:
        lost_again = move.is_back and len(regained(look, time)) >= OFTEN
        if lost_again or not time.is_within(move.at_ms, look.thresholds.resolve_after_ms):
            return
        reach = move.at_ms + _longest_session(look.members) + look.thresholds.failover_window_ms
        since = look.history.since_ms(move.from_ms)
        near = [each.rebalance_id for each in since if each.started_before_ms <= reach]
        causes = {look.causes.get(each) for each in near}
        if None not in causes and "coordinator_failover" not in causes:
            yield say(
                "coordinator_failover.beside" if near else "coordinator_failover.harmless",
                move.at_ms,
                rebalance_ids=tuple(near),
                named=move.is_named,
                before=move.before if move.is_named else None,
                after=move.after,
                loaded=move.loaded_ms is not None,
            )


def regained(look: GroupView, time: JudgingTime) -> list[Move]:
    """Return when brokers had again what they had lost, within the time that findings stand."""
    moves = (each for each in _moves(look.history) if each.is_back)
    return [each for each in moves if time.is_within(each.at_ms, look.thresholds.resolve_after_ms)]


def moved_lately(look: GroupView, time: JudgingTime) -> int:
    """Return how often the coordinator moved so lately that clients' one-minute maxima still show it."""
    shown_ms = look.thresholds.failover_window_ms + 2 * _MINUTE_MS
    return sum(time.is_within(each.at_ms, shown_ms) for each in _moves(look.history))


def _longest_session(members: Sequence[Member]) -> int:
    return max((session_of(each) for each in members), default=0)


def find_failover(episode: Episode) -> Verdict | None:
    """Return the failover that a rebalance followed, because clients did not find the new coordinator in time.

    Null when the coordinator did not move shortly before it, or when the rebalance has a reason of its own: members
    that came, left in order or stopped polling, or topics that changed.
    """
    rebalance = episode.rebalance
    if rebalance.reason not in _AFTER_FAILOVER:
        return None
    session = _longest_session(rebalance.members_before)
    reach = session + episode.thresholds.failover_window_ms
    began_ms = rebalance.started_before_ms
    moves = [each for each in _moves(episode.history) if each.from_ms <= began_ms <= each.at_ms + reach]
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


CONDITIONS: tuple[Condition, ...] = (Condition(coordinator_failover, inputs.STATES),)
