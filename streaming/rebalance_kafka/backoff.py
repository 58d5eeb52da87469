"""Exponential back-off after failed attempts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Exponential back-off: pauses between attempts in seconds, doubled after each failure in a row up to a maximum.

    `chance` returns a random number in [0, 1) that scales half of each pause (jitter), so that processes that fail at
    the same time do not retry at the same time; null: no jitter.
    """

    first_seconds: float
    longest_seconds: float
    chance: Callable[[], float] | None = None
    _next_seconds: float = field(init=False)

    def __post_init__(self) -> None:
        self.succeed()

    def succeed(self) -> None:
        """Reset the pause after a success."""
        self._next_seconds = min(self.first_seconds, self.longest_seconds)

    def fail(self) -> float:
        """Return the pause after another failure, in seconds."""
        seconds = self._next_seconds
        self._next_seconds = min(2 * seconds, self.longest_seconds)
        return seconds if self.chance is None else seconds * (0.5 + 0.5 * self.chance())
