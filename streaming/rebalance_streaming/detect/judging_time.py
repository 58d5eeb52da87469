"""The moment at which rules are asked, and until when their answers hold."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor


@dataclass(slots=True, eq=False)
class JudgingTime:
    """The present as rules compare times with it; it collects when the answers that they got change.

    `now_ms`: epoch ms. `due_ms`: the earliest later moment at which an answer may become another one by the time
    alone, null while there is none. It is a part of what rules look at. The caller of a rule takes
    `due_ms` from it afterwards: the rule need not be asked before that unless something it looks at changes.
    """

    now_ms: int
    due_ms: int | None = None

    def note_due(self, at_ms: int) -> None:
        """Take up a moment at which the answer may be another one; the earliest counts."""
        if self.due_ms is None or at_ms < self.due_ms:
            self.due_ms = at_ms

    def take_due(self) -> int | None:
        """Return `due_ms` and forget it: the next rule has its own."""
        due_ms, self.due_ms = self.due_ms, None
        return due_ms

    def lasted(self, since_ms: int, for_ms: float) -> bool:
        """Whether something that began then has lasted so long by now."""
        until_ms = since_ms + for_ms
        if self.now_ms >= until_ms:
            return True
        self.note_due(ceil(until_ms))
        return False

    def outlasted(self, since_ms: int, for_ms: float) -> bool:
        """Whether something that began then has lasted longer than this by now."""
        return self.lasted(since_ms, floor(for_ms) + 1)

    def is_within(self, at_ms: int, window_ms: float) -> bool:
        """Whether a moment is inside a window that ends now."""
        return not self.outlasted(at_ms, window_ms)
