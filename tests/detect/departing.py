"""A group of two members, one of which leaves: departures, and rebalances that lost them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from detect.standing_histories import departed
from histories import (
    MINUTE,
    SECOND,
    T0,
    Event,
    history,
    member,
    rebalance,
)
from rebalance_contract import Member, Rebalance
from rebalance_streaming.detect.episode import Episode, EpisodeContext, make_episode
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.departures import SESSION_EXPIRED, Departure

LOST_MS = T0 + 20 * MINUTE
A, B = member("a-1", [0, 1]), member("b-1", [2, 3])
STATIC = replace(B, group_instance_id="i")


def gone(
    who: Member = B,
    likely: str = SESSION_EXPIRED,
    *,
    at_ms: int = LOST_MS,
    rule: str = "member_crash",
    back_s: float | None = None,
    **changes: Any,
) -> Departure:
    """Return how a member left; `back_s` is the number of seconds until it rejoined."""
    if back_s is not None:
        changes |= {"back_as": replace(who, member_id="b-2"), "back_ms": at_ms + round(back_s * SECOND)}
    return departed(at_ms, who, likely, rule=rule, **changes).departure


def episode(of: Rebalance, *events: Event, now_ms: int = LOST_MS + MINUTE, **known: Any) -> Episode:
    """Return the verdict on a rebalance after these events; `known` are the fields of an `EpisodeContext`."""
    return make_episode(history(*events, of), of, Thresholds(), JudgingTime(now_ms), EpisodeContext(**known))


def losing(*departures: Departure, events: tuple[Event, ...] = (), after_s: int = 60, **known: Any) -> Episode:
    """Return a rebalance that lost these members, seen some time later."""
    of = rebalance(LOST_MS, [A, *(each.member for each in departures)], [A])
    found = episode(of, *events, now_ms=LOST_MS + after_s * SECOND, **known)
    return replace(found, departures=departures)


def said(found: Verdict | None) -> tuple[str, float] | None:
    """Return the rule and confidence of a verdict."""
    return None if found is None else (found.rule, found.confidence)


def who(found: Verdict) -> list[str | None]:
    """Return the ids of the members that a verdict is about."""
    return [each.member_id for each in found.subject.members]
