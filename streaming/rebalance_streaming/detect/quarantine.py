"""What is set aside because it raised: a rule for one group, a row. The rest goes on.

Rows and rules meet values that nobody foresaw. The detector's driver reads `counts`, and `on_quarantine` is called each
time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

#: Receives the stage, the group and what was raised.
OnQuarantine = Callable[[str, str, Exception], None]

#: For how long a rule that raised is not asked of that group: what it stumbled over may be gone by then.
SET_ASIDE_MS = 3_600_000


class Quarantine:
    """Calls what may raise. `counts` is by stage (a rule's or a step's name) and reason (the exception's class)."""

    def __init__(self, on_quarantine: OnQuarantine | None = None) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._report = on_quarantine
        self._until_ms: dict[tuple[str, str, str], int] = {}

    def ask(self, stage: str, group: str, now_ms: int, act: Callable[[], _T], otherwise: _T, *, about: str = "") -> _T:
        """Return what a call returns; `otherwise` if it raises, which is counted and reported.

        After that it is not called again for a while, `about` the same thing if one is named.
        """
        if self.is_aside(stage, group, now_ms, about):
            return otherwise
        try:
            return act()
        except Exception as error:
            self.put_aside(stage, group, now_ms, error, about)
            return otherwise

    def is_aside(self, stage: str, group: str, now_ms: int, about: str = "") -> bool:
        """Whether something that raised is not to be asked yet."""
        return bool(self._until_ms) and self._until_ms.get((group, stage, about), now_ms) > now_ms

    def put_aside(self, stage: str, group: str, now_ms: int, error: Exception, about: str = "") -> None:
        """Count and report what raised; it is not to be asked for a while."""
        self.put(stage, group, error)
        # In the order of their ends: a rebalance that cannot be explained is named once, and there is always a next.
        while self._until_ms and next(iter(self._until_ms.values())) <= now_ms:
            del self._until_ms[next(iter(self._until_ms))]
        self._until_ms.pop((group, stage, about), None)
        self._until_ms[group, stage, about] = now_ms + SET_ASIDE_MS

    def put(self, stage: str, group: str, error: Exception) -> None:
        """Count what was set aside, and report it."""
        self.counts[stage, type(error).__name__] += 1
        if self._report is not None:
            self._report(stage, group, error)

    def forget(self, group: str) -> None:
        """Drop what is remembered of a group; counts stay."""
        for each in [each for each in self._until_ms if each[0] == group]:
            del self._until_ms[each]
