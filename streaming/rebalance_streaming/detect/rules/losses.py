"""Why a member was lost: selects among the candidate causes of one departure.

Candidates that are impossible, by arithmetic or because the process lived, are ruled out first and stay as alternatives
with the reason. Of the others, the first in `LOSS_RULES` that is more than a hint is reported. The order is by how
directly causes are known: from the coordinator's log or the client's own reason, then from the liveness matrix, then
from commits, client library and return. Without any of them the loss is undetermined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from rebalance_contract import Alternative
from rebalance_streaming.detect.catalogue import with_trait
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.rules.ended_processes import crash, static_absence, static_ghost, ungraceful
from rebalance_streaming.detect.rules.heartbeats import (
    blocked_heartbeat,
    frozen_or_starved,
    pause,
    refused,
    starvation,
    unknown_loss,
    unreachable,
)
from rebalance_streaming.detect.rules.kip848 import fenced
from rebalance_streaming.detect.rules.known_exits import left_but_runs_on, removed, unsynced
from rebalance_streaming.detect.rules.polling import barrier_holder, poll_overrun, static_stall
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.confidence import HINT
from rebalance_streaming.observed.departures import (
    CLEAN,
    FENCED,
    POLL_TIMEOUT,
    REMOVED_BY_ADMIN,
    SESSION_EXPIRED,
    UNKNOWN,
    UNSYNCED,
    Departure,
)

LossRule = Callable[[Episode, Departure], Verdict | None]


#: By class of departure: the causes that are impossible if the departure cannot have that class.
_RESTS_ON = {
    SESSION_EXPIRED: ("member_crash", "ungraceful_shutdown", "heartbeat_starvation", "process_pause"),
    POLL_TIMEOUT: ("poll_overrun", "static_stalled_member"),
}
#: Causes known from reports after the departure, regardless of how the member left.
_KNOWN_AFTERWARDS = ("join_rejected",)
#: Deaths of a process.
_DEATHS = with_trait("death")
_MOST_IMPOSSIBLE = 3


def explain_loss(episode: Episode, departure: Departure) -> Verdict | None:
    """Return the verdict on one departure; null if it was in order."""
    struck = {each.rule: each for each in _impossible(departure)}
    asked = (rule for rule, classes in LOSS_RULES if not classes or departure.likely in classes)
    said = [verdict for rule in asked if (verdict := rule(episode, departure)) is not None]
    possible = [each for each in said if each.rule not in struck]
    if not possible:
        return None
    best = next((each for each in possible if each.confidence > HINT), possible[0])
    kept = [each for each in best.alternatives if each.rule not in struck]
    impossible = [each for name, each in struck.items() if name != best.rule][:_MOST_IMPOSSIBLE]
    # A cause of an expired session is at most as sure as the expiry, unless it is known from later reports.
    rests = departure.likely == SESSION_EXPIRED and best.rule not in _KNOWN_AFTERWARDS
    limit = departure.confidence if rests else best.confidence
    return replace(best, confidence=min(best.confidence, limit), alternatives=(*kept, *impossible))


def _impossible(departure: Departure) -> Iterator[Alternative]:
    """Yield the impossible causes with the reason."""
    # A static member that does not poll does not leave: its coordinator logs an expired session.
    kept = "static_stalled_member" if departure.logged is not None and departure.likely == SESSION_EXPIRED else ""
    for of_class, why in departure.struck:
        for rule in _RESTS_ON.get(of_class, ()):
            if rule != kept:
                yield Alternative(rule, why, impossible=True)
    if departure.process_survived:
        for rule in sorted(_DEATHS):
            yield Alternative(rule, "the same process reported before and after", impossible=True)


#: The causes, the most directly known first, with the classes of departures that each may explain; none: any class.
LOSS_RULES: tuple[tuple[LossRule, tuple[str, ...]], ...] = (
    (fenced, (FENCED,)),
    (removed, (REMOVED_BY_ADMIN,)),
    (unsynced, (UNSYNCED,)),
    (left_but_runs_on, (CLEAN,)),
    (barrier_holder, ()),
    (static_stall, ()),
    (poll_overrun, (POLL_TIMEOUT,)),
    (starvation, (SESSION_EXPIRED,)),
    (blocked_heartbeat, (SESSION_EXPIRED,)),
    (unreachable, (SESSION_EXPIRED,)),
    (pause, (SESSION_EXPIRED,)),
    (refused, (SESSION_EXPIRED, UNKNOWN)),
    (static_absence, (SESSION_EXPIRED,)),
    (static_ghost, (SESSION_EXPIRED,)),
    (ungraceful, ()),
    (crash, (SESSION_EXPIRED,)),
    (frozen_or_starved, (SESSION_EXPIRED,)),
    (unknown_loss, (UNKNOWN,)),
)
