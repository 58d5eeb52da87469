"""The time at which rules are evaluated, and the time until which their answers hold."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor


@dataclass(slots=True, eq=False)
class JudgingTime:
    """The current time as rules compare with it; it collects when the results of these comparisons change.

    `now_ms`: epoch ms. `due_ms`: the earliest later time at which an answer may change by time alone, null if there is
    none. The caller of a rule takes `due_ms` afterwards: until then the rule need not be evaluated again unless one of
    its inputs changes.
    """

    now_ms: int
    due_ms: int | None = None

    def note_due(self, at_ms: int) -> None:
        """Note a time at which the answer may change; the earliest one is kept."""
        if self.due_ms is None or at_ms < self.due_ms:
            self.due_ms = at_ms

    def take_due(self) -> int | None:
        """Return `due_ms` and clear it for the next rule."""
        due_ms, self.due_ms = self.due_ms, None
        return due_ms

    def lasted(self, since_ms: int, for_ms: float) -> bool:
        """Whether something that began at `since_ms` has lasted for at least `for_ms`."""
        until_ms = since_ms + for_ms
        if self.now_ms >= until_ms:
            return True
        self.note_due(ceil(until_ms))
        return False

    def outlasted(self, since_ms: int, for_ms: float) -> bool:
        """Whether something that began at `since_ms` has lasted for longer than `for_ms`."""
        return self.lasted(since_ms, floor(for_ms) + 1)

    def is_within(self, at_ms: int, window_ms: float) -> bool:
        """Whether a time is inside a window that ends now."""
        return not self.outlasted(at_ms, window_ms)
