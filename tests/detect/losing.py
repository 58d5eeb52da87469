"""A group that loses one of its two members: the events before, the loss, and the verdict on it."""

from __future__ import annotations

from typing import Any

from detect.departing import LOST_MS, B, episode
from histories import (
    MINUTE,
    SECOND,
    Event,
    joined,
    lost,
    member,
    pulse,
)
from rebalance_contract import Member, Rebalance
from rebalance_streaming.detect.rules.losses import explain_loss
from rebalance_streaming.detect.verdict import Verdict

STAYS = member("a-1", [0, 1])
AGAIN = member("b-2", [2, 3])


def explained(rebalance: Rebalance, *events: Event, **changes: Any) -> Verdict | None:
    """Return the verdict on the one member that a rebalance lost."""
    of = episode(rebalance, *events, **changes)
    (departure,) = of.departures
    return explain_loss(of, departure)


def silent(who: Member = B, silence_s: float = 12.0) -> list[Event]:
    """Let a member that commits every five seconds fall silent this long before it is lost."""
    last_ms = LOST_MS - round(silence_s * SECOND)
    return list(pulse(last_ms - MINUTE, last_ms + 1, [2, 3]))


def left(who: Member = B, **changes: Any) -> Rebalance:
    return lost(LOST_MS, who, [STAYS, who], **changes)


def back(who: Member = AGAIN, after_ms: int = MINUTE) -> Rebalance:
    """Let a member rejoin later."""
    return joined(LOST_MS + after_ms, who, [STAYS])
