"""How long to wait after attempts that failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Pauses between attempts, in seconds: the first one, after each failure in a row twice as long, up to the longest.

    `chance` gives a number from 0 to below 1 to which half of each pause is left, so that many that fail together do
    not try again together; null leaves nothing to chance.
    """

    first_seconds: float
    longest_seconds: float
    chance: Callable[[], float] | None = None
    _next_seconds: float = field(init=False)

    def __post_init__(self) -> None:
        self.succeed()

    def succeed(self) -> None:
        """Begin anew."""
        self._next_seconds = min(self.first_seconds, self.longest_seconds)

    def fail(self) -> float:
        """Return how long to wait after one more failure."""
        seconds = self._next_seconds
        self._next_seconds = min(2 * seconds, self.longest_seconds)
        return seconds if self.chance is None else seconds * (0.5 + 0.5 * self.chance())
