"""Why a member was lost: one diagnosis per departure, by mechanism.

The order of `LOSS_RULES` is the order of certainty: what the coordinator or the client says outright, then what the
liveness matrix separates, then what commits, client library and return make likely. What stays is undetermined.
"""

from __future__ import annotations

from collections.abc import Callable

from rebalance_streaming.detect.departures import FENCED, Departure
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.rules.heartbeats import (
    blocked_heartbeat,
    crash,
    frozen_or_starved,
    pause,
    starvation,
    static_absence,
    static_ghost,
    ungraceful,
    unknown_loss,
    unreachable,
)
from rebalance_streaming.detect.rules.kip848 import explain_fenced
from rebalance_streaming.detect.rules.polling import barrier_holder, poll_overrun, static_stall
from rebalance_streaming.detect.verdict import Verdict

LossRule = Callable[[Episode, Departure], Verdict | None]


def explain_loss(episode: Episode, departure: Departure) -> Verdict | None:
    """Return the diagnosis of one departure; null for one that was in order."""
    for rule in LOSS_RULES:
        verdict = rule(episode, departure)
        if verdict is not None:
            return verdict
    return None


def fenced(episode: Episode, departure: Departure) -> Verdict | None:
    """A KIP-848 member that did not give up its partitions in time."""
    return explain_fenced(episode, departure) if departure.likely == FENCED else None


LOSS_RULES: tuple[LossRule, ...] = (
    fenced,
    barrier_holder,
    static_stall,
    poll_overrun,
    starvation,
    blocked_heartbeat,
    unreachable,
    pause,
    static_absence,
    static_ghost,
    ungraceful,
    crash,
    frozen_or_starved,
    unknown_loss,
)
