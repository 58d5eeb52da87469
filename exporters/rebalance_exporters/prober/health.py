"""Health and readiness of the prober, derived from the rounds of its tasks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

#: Minimum age, in seconds, at which a missing answer or a missing end of a round is reported.
_UNANSWERED_SECONDS, _HUNG_SECONDS = 60.0, 300.0
_UNANSWERED_ROUNDS, _HUNG_ROUNDS = 3, 10


@dataclass(slots=True)
class _Rounds:
    period_seconds: float
    ended: float
    answered: float | None = None


class ProbeHealth:
    """Records when each task last ended a round and last got answers; thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create without tasks. `clock` returns seconds and never goes back."""
        self._clock = clock
        self._tasks: dict[str, _Rounds] = {}
        self._awaited: str | None = None

    def wait_for(self, awaited: str) -> None:
        """Note why no task can start yet."""
        self._awaited = awaited

    def expect(self, what: str, period_seconds: float) -> None:
        """Start watching a task."""
        self._tasks[what] = _Rounds(period_seconds, self._clock())

    def note(self, what: str, *, answered: bool) -> None:
        """Note that a round of a task has ended."""
        rounds, now = self._tasks[what], self._clock()
        rounds.ended = now
        if answered:
            rounds.answered = now

    def unhealthy(self) -> str | None:
        """Return why the prober must be restarted: a task hangs. Null if none does.

        Without brokers the rounds of a task still end, in errors.
        """
        for what, rounds in tuple(self._tasks.items()):
            silent = self._clock() - rounds.ended
            if silent > max(_HUNG_SECONDS, _HUNG_ROUNDS * rounds.period_seconds):
                return f"{what}: no round ended for {silent:.0f} s"
        return None

    def unready(self) -> str | None:
        """Return which answers are missing, null if none are."""
        if not self._tasks:
            return self._awaited or "starting: asking the brokers"
        for what, rounds in tuple(self._tasks.items()):
            if rounds.answered is None:
                return f"{what}: no answer yet"
            age = self._clock() - rounds.answered
            if age > max(_UNANSWERED_SECONDS, _UNANSWERED_ROUNDS * rounds.period_seconds):
                return f"{what}: no answer for {age:.0f} s; the prober's log says why"
        return None
