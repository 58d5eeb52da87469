"""A group that loses one of its two members: what it did before, the loss, and what is said of it."""

from __future__ import annotations

from typing import Any

from detect.looks import asked
from histories import (
    MINUTE,
    SECOND,
    T0,
    Event,
    history,
    joined,
    lost,
    member,
    pulse,
)
from rebalance_contract import Member, Rebalance
from rebalance_streaming.detect.episode import Episode, EpisodeContext, look_at
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rules.losses import explain_loss
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.detect.verdict import Verdict

LOST_MS = T0 + 20 * MINUTE
STAYS = member("a-1", [0, 1])
B, AGAIN = member("b-1", [2, 3]), member("b-2", [2, 3])


def episode(
    rebalance: Rebalance, *events: Event, now_ms: int = LOST_MS + MINUTE, known: EpisodeContext | None = None
) -> Episode:
    """Look at a rebalance after these events."""
    return look_at(history(*events, rebalance), rebalance, Thresholds(), JudgingTime(now_ms), known or EpisodeContext())


def explained(rebalance: Rebalance, *events: Event, **changes: Any) -> Verdict | None:
    """Return what is said of the one member that a rebalance lost."""
    of = episode(rebalance, *events, **changes)
    (departure,) = of.departures
    return asked(explain_loss, of, departure)


def said(verdict: Verdict | None) -> tuple[str, float] | None:
    return None if verdict is None else (verdict.rule, verdict.confidence)


def silent(who: Member = B, silence_s: float = 12.0) -> list[Event]:
    """Let a member that commits every five seconds fall silent so long before it is lost."""
    last_ms = LOST_MS - round(silence_s * SECOND)
    return list(pulse(last_ms - MINUTE, last_ms + 1, [2, 3]))


def left(who: Member = B, **changes: Any) -> Rebalance:
    return lost(LOST_MS, who, [STAYS, who], **changes)


def back(who: Member = AGAIN, after_ms: int = MINUTE) -> Rebalance:
    """Let a member join later."""
    return joined(LOST_MS + after_ms, who, [STAYS])
