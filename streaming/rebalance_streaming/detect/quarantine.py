"""Isolates errors: if a rule raises for a group, or a row cannot be processed, only that one is set aside.

Errors come from unforeseen values in rows. The detector's driver reads `counts`, and `on_quarantine` is called for each
error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

#: Receives the stage, the group and the exception.
OnQuarantine = Callable[[str, str, Exception], None]

#: For how long a rule that raised is not evaluated for that group; the value that caused the error may be gone then.
QUARANTINE_MS = 3_600_000


class Quarantine:
    """Calls functions that may raise. `counts` is by stage (name of a rule or step) and reason (exception class)."""

    def __init__(self, on_quarantine: OnQuarantine | None = None) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._report = on_quarantine
        self._until_ms: dict[tuple[str, str, str], int] = {}

    def ask(self, stage: str, group: str, now_ms: int, act: Callable[[], _T], otherwise: _T, *, about: str = "") -> _T:
        """Return the result of a call, or `otherwise` if it raises; the error is counted and reported.

        After an error, calls of this stage for this group and `about` return `otherwise` for `QUARANTINE_MS`.
        """
        if self.is_quarantined(stage, group, now_ms, about):
            return otherwise
        try:
            return act()
        except Exception as error:
            self.add(stage, group, now_ms, error, about)
            return otherwise

    def is_quarantined(self, stage: str, group: str, now_ms: int, about: str = "") -> bool:
        """Whether a call that raised is still quarantined."""
        return bool(self._until_ms) and self._until_ms.get((group, stage, about), now_ms) > now_ms

    def quarantined_until_ms(self, stage: str, group: str, about: str = "") -> int | None:
        """Return until when a call that raised is quarantined (epoch ms), or None."""
        return self._until_ms.get((group, stage, about))

    def add(self, stage: str, group: str, now_ms: int, error: Exception, about: str = "") -> None:
        """Count and report an error, and quarantine the call for `QUARANTINE_MS`."""
        self.report(stage, group, error)
        # Entries are in the order of their ends. Drop expired ones: each rebalance has its own, so they would pile up.
        while self._until_ms and next(iter(self._until_ms.values())) <= now_ms:
            del self._until_ms[next(iter(self._until_ms))]
        self._until_ms.pop((group, stage, about), None)
        self._until_ms[group, stage, about] = now_ms + QUARANTINE_MS

    def turn_back(self, now_ms: int) -> None:
        """Adapt to a clock that was set back to `now_ms` (epoch ms): no call is quarantined for longer than usual."""
        latest_ms = now_ms + QUARANTINE_MS
        self._until_ms = {each: min(until_ms, latest_ms) for each, until_ms in self._until_ms.items()}

    def report(self, stage: str, group: str, error: Exception) -> None:
        """Count and report an error."""
        self.counts[stage, type(error).__name__] += 1
        if self._report is not None:
            self._report(stage, group, error)

    def forget(self, group: str) -> None:
        """Drop the entries of a group; its counts stay."""
        for each in [each for each in self._until_ms if each[0] == group]:
            del self._until_ms[each]
