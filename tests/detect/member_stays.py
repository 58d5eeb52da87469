"""Clients that come and go, given as the stays in which each was a member, and patterns evaluated on them."""

from __future__ import annotations

from typing import Any

from detect.standing_histories import departed
from detect.views import view_of
from histories import (
    MINUTE,
    SECOND,
    T0,
    Event,
    history,
    joined,
    lost,
    member,
    snapshot,
)
from rebalance_streaming.detect.episode import ExplainedDeparture
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.departures import SESSION_EXPIRED

START_MS = T0 + 20 * MINUTE
A = member("a-1", [0, 1])
Story = tuple[list[Event], list[ExplainedDeparture]]


def who(found: Verdict) -> list[str | None]:
    """Return the ids of the members that a verdict is about."""
    return [each.member_id for each in found.subject.members]


def judged(rule: Any, story: Story, now_ms: int, **changes: Any) -> list[Verdict]:
    """Return the verdict of a pattern on a story at a time."""
    events, past = story
    return list(rule(view_of(history(snapshot(T0, A), *events), now_ms, past=tuple(past), **changes)))


def lives(
    *stays: tuple[float, float],
    likely: str = SESSION_EXPIRED,
    rule: str = "member_crash",
    name: str = "b",
    others: bool = False,
    **changes: Any,
) -> Story:
    """Return the story of a client from its stays: (joined at, gone at) in seconds; it returns with the next stay.

    `others`: each stay is that of another client.
    """
    events: list[Event] = []
    past: list[ExplainedDeparture] = []
    members = [
        member(f"{name}{number if others else ''}-{number}", [2], **changes.get("member", {}))
        for number in range(1, len(stays) + 1)
    ]
    fields = {key: value for key, value in changes.items() if key != "member"}
    for number, (came_s, left_s) in enumerate(stays):
        came_ms, left_ms = (START_MS + round(at * SECOND) for at in (came_s, left_s))
        events += [joined(came_ms - 3_000, members[number], [A]), lost(left_ms, members[number], [A, members[number]])]
        back = {}
        if number + 1 < len(stays) and not others:
            back = {"back_as": members[number + 1], "back_ms": START_MS + round(stays[number + 1][0] * SECOND)}
        past.append(departed(left_ms, members[number], likely, rule=rule, **{**fields, **back}))
    return events, past
