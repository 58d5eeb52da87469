"""Time that a group spent in each state, from the snapshots that the stream publishes.

Receives states with the time from which they count, in the order of the group's log; returns totals. The stream's
contract has no such totals, so a state that began and ended between two snapshots is missed, and each exporter counts
from its own start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StateTimes:
    """Milliseconds in each past state, and the present state with its start; time in a null state is not counted."""

    state: str | None
    since_ms: int
    ended_ms: Mapping[str, int] = field(default_factory=dict)


def fold_state(times: StateTimes | None, state: str | None, at_ms: int) -> StateTimes:
    """Return the times updated with a state that counts from `at_ms`; the same object while the state lasts.

    A time before the previous one counts as the previous one: the clocks of two brokers may differ.
    """
    if times is None:
        return StateTimes(state, at_ms)
    if times.state == state:
        return times
    at_ms = max(at_ms, times.since_ms)
    ended = dict(times.ended_ms)
    if times.state is not None:
        ended[times.state] = ended.get(times.state, 0) + at_ms - times.since_ms
    return StateTimes(state, at_ms, ended)


def seconds_by_state(times: StateTimes, now_ms: int) -> dict[str, float]:
    """Return the seconds spent in each state up to now, including the present one."""
    spent = dict(times.ended_ms)
    if times.state is not None:
        spent[times.state] = spent.get(times.state, 0) + max(0, now_ms - times.since_ms)
    return {state: milliseconds / 1000 for state, milliseconds in spent.items()}
