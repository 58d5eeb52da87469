"""One number per pane of the last 15 minutes, from which sliding windows are computed.

A ring buffer indexed by pane number, because a group has four of them, and there may be ten thousand groups.
"""

from __future__ import annotations

import numpy as np

from rebalance_contract import KEPT_PANES
from rebalance_streaming.activity.offsets import UNKNOWN, Ints, filled

#: Panes, and the number of each.
PaneNumbers = tuple[Ints, Ints]

_LARGEST = 2**63 - 1
_NOTHING = filled(0)


class PaneRing:
    """Numbers of 0 or more by pane; panes that are 15 minutes older than the newest are dropped."""

    __slots__ = ("_newest", "_values")

    def __init__(self) -> None:
        self._newest = UNKNOWN
        #: Indexed by pane number modulo the size; null until the first one is set.
        self._values: Ints | None = None

    def __getitem__(self, pane: int) -> int | None:
        """Return the number of a pane; null where there is none."""
        if self._values is None or not self._newest - KEPT_PANES < pane <= self._newest:
            return None
        value = int(self._values[pane % KEPT_PANES])
        return None if value == UNKNOWN else value

    def __setitem__(self, pane: int, value: int) -> None:
        """Set the number of a pane; a pane that is too old is ignored."""
        if self._values is None:
            self._values, self._newest = filled(KEPT_PANES), pane
        if pane <= self._newest - KEPT_PANES:
            return
        for passed in range(max(self._newest, pane - KEPT_PANES) + 1, pane + 1):
            self._values[passed % KEPT_PANES] = UNKNOWN
        self._newest = max(self._newest, pane)
        self._values[pane % KEPT_PANES] = min(value, _LARGEST)

    def panes(self) -> list[int]:
        """Return the panes that have a number, oldest first."""
        found: list[int] = self.items()[0].tolist()
        return found

    def items(self) -> PaneNumbers:
        """Return the panes that have a number, oldest first, and their numbers."""
        if self._values is None:
            return _NOTHING, _NOTHING
        first = max(0, self._newest - KEPT_PANES + 1)
        panes = np.arange(first, self._newest + 1, dtype=np.int64)
        values = self._values[panes % KEPT_PANES]
        known = values != UNKNOWN
        return panes[known], values[known]
