"""How members come and go: restarts that static membership would make cheaper, and autoscalers.

Receives a group's current state and past departures. Faults of static members are judged in `static_members`.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_contract import UNDETERMINED, Rebalance, RebalanceReason
from rebalance_streaming.detect.advice import session_for_absence
from rebalance_streaming.detect.catalogue import with_trait
from rebalance_streaming.detect.group_view import DAY_MS, GroupView, condition
from rebalance_streaming.detect.rules.member_settings import may_be_named, sessions_of
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.confidence import PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import CLEAN, slot_of

_WEEK_MS = 7 * DAY_MS
_RESTARTS = with_trait("restart")
#: A number of members that lasts for less than this is an intermediate value.
_PLATEAU_MS = 15_000
#: Causes that change the number of members without an autoscaler.
_OTHER_HANDS = with_trait("resizes")
#: Minimum share of the departures that must be in order, and of the arrivals that count as new instances.
_MOSTLY = 0.8


# --- Restarts ---


@condition(grown=True)
def static_membership_missing(view: GroupView) -> Iterator[Verdict]:
    """Restarts cost many rebalances that static membership would avoid: every instance is back soon (KIP-345)."""
    if not view.members or any(each.group_instance_id for each in view.members):
        return
    restarts = [each for each in view.recent(_WEEK_MS) if _is_restart(view, each)]
    # `may_be_named` checks every client, so it comes last.
    if len(restarts) <= view.thresholds.static_restarts_per_week or not may_be_named(view.history, view.members):
        return
    ids = tuple(each.rebalance_id for each in restarts)
    left = [each for each in view.past if each.rebalance_id in set(ids)]
    absences = [view.away_ms(each) for each in left]
    known = [each for each in absences if each is not None and each <= view.thresholds.deploy_per_member_ms]
    if not left or len(known) < len(absences):
        return
    longest = max(known)
    shortest = min(sessions_of(view.history, view.members), key=lambda each: each.now_ms)
    longer = session_for_absence(shortest, longest)
    yield view.say(
        "static_membership_missing",
        restarts[0].started_before_ms,
        rebalance_ids=ids,
        restarts=len(restarts),
        longest=longest,
        longer=longer[0] if longer else None,
    )


def _is_restart(view: GroupView, rebalance: Rebalance) -> bool:
    cause = view.causes.get(rebalance.rebalance_id, UNDETERMINED)
    return cause in _RESTARTS or (cause == UNDETERMINED and rebalance.reason == RebalanceReason.REPLACEMENT)


# --- Scaling ---


@condition(grown=True)
def autoscaler_flapping(view: GroupView) -> Iterator[Verdict]:
    """The number of members oscillates: an autoscaler reacts to its own rebalances (kedacore/keda#1556)."""
    window = view.thresholds.autoscaler_window_ms
    moves = [each for each in view.recent(window) if view.causes.get(each.rebalance_id) not in _OTHER_HANDS]
    turns = _turns(view, moves)
    if len(turns) - 2 < view.thresholds.autoscaler_turns:
        return
    came = {m.member_id: m for each in moves for m in each.members_after if m.member_id in each.joined}
    ids = {each.rebalance_id for each in moves}
    left = [each for each in view.recent_past(window) if each.rebalance_id in ids]
    brief = [each for each in left if each.member.member_id in came]
    clean = sum(each.departure.likely == CLEAN for each in left)
    # In a deploy the old members leave; an autoscaler removes members that it added.
    if not left or len(brief) < view.thresholds.autoscaler_turns // 2 or clean < _MOSTLY * len(left):
        return
    known = {slot_of(each) for each in (*moves[0].members_before, *(each.member for each in left))}
    hosts = {each.host for each in moves[0].members_before}
    fresh = sum(slot_of(each) not in known or each.host not in hosts for each in came.values())
    anew = fresh >= _MOSTLY * len(came)
    yield view.say(
        "autoscaler_flapping",
        moves[0].started_before_ms,
        confidence=STRONG if anew else PLAUSIBLE,
        rebalance_ids=tuple(each.rebalance_id for each in moves),
        route=" -> ".join(map(str, turns)),
        changes=len(turns) - 2,
        left=len(left),
        fresh=fresh,
        came=len(came),
        anew=anew,
    )


def _turns(view: GroupView, moves: list[Rebalance]) -> list[int]:
    """Return the first, last and extreme numbers of members, without those shorter than `_PLATEAU_MS`."""
    if not moves:
        return []
    counts = [len(moves[0].members_before)]
    for each, later in zip(moves, [*moves[1:], None], strict=True):
        began = each.last_known_ms
        if view.time.lasted(began, _PLATEAU_MS) if later is None else later.started_before_ms - began >= _PLATEAU_MS:
            counts.append(len(each.members_after))
    counts = [each for i, each in enumerate(counts) if i == 0 or each != counts[i - 1]]
    inner = [b for a, b, c in zip(counts, counts[1:], counts[2:], strict=False) if (b - a) * (c - b) < 0]
    return [counts[0], *inner, counts[-1]]
