"""A member that leaves a group of two: the loss is seen ten minutes after the beginning."""

from __future__ import annotations

from typing import Any

from histories import MINUTE, T0, Event, history, lost, member
from rebalance_contract import Member, Rebalance
from rebalance_streaming.observed.departed_members import find_departures
from rebalance_streaming.observed.departures import Departure

#: The departing member, and one that stays.
B = member("b-1", [2, 3])
STAYS = member("a-1", [0, 1])
LOST_MS = T0 + 10 * MINUTE


def judged(gone: Rebalance, *events: Event, now_ms: int = LOST_MS + MINUTE) -> Departure:
    """Return the one departure of a rebalance."""
    (found,) = find_departures(history(*events, gone), gone, {}, now_ms)
    return found


def left(who: Member = B, **changes: Any) -> Rebalance:
    """Make the rebalance in which the departing member leaves the other one."""
    return lost(LOST_MS, who, [STAYS, who], **changes)
