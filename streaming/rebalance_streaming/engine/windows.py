"""When a group's rows of lag and windows are due: after an event, and when time alone changes them."""

from __future__ import annotations

import heapq
from collections.abc import Collection

from rebalance_contract import PANE_MS, WINDOWS_MS
from rebalance_contract.turns import next_turn

#: Minimum interval between two rows of a group.
_SPACING_MS = 1_000
#: Windows of a group that is rebalancing are brought up to date this often.
_MOVING_MS = 5_000
#: The shortest window is updated when something leaves it. In the longer ones some pane or other ends all the time, so
#: they slide in steps of a minute.
_SLIDING_MS = 60_000
_SHORTEST_MS, _LONGEST_MS = min(WINDOWS_MS.values()), max(WINDOWS_MS.values())


class Schedule:
    """Groups whose rows are due. Times in epoch milliseconds."""

    def __init__(self) -> None:
        self._due: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        self._published: dict[str, int] = {}

    def touch(self, group: str, now_ms: int) -> None:
        """Note that something happened to a group."""
        self._plan(group, max(now_ms, self._published.get(group, 0) + _SPACING_MS))

    def published(self, group: str, now_ms: int, *, counted_ms: Collection[int], is_moving: bool) -> None:
        """Note that a group's row was published at `now_ms`.

        `counted_ms`: times of the panes that the group's windows count; a pane counts while its time is inside.
        """
        self._published[group] = now_ms
        if is_moving:
            self._plan(group, now_ms + _MOVING_MS)
        leaving = [at_ms + _SHORTEST_MS for at_ms in counted_ms if at_ms + _SHORTEST_MS > now_ms]
        if leaving:
            self._plan(group, next_turn(group, min(leaving), PANE_MS))
        if counted_ms and max(counted_ms) + _LONGEST_MS > now_ms:
            self._plan(group, next_turn(group, now_ms, _SLIDING_MS))

    def take_due(self, now_ms: int) -> list[str]:
        """Return, once, the groups whose rows are due."""
        found: list[str] = []
        while self._heap and self._heap[0][0] <= now_ms:
            due_ms, group = heapq.heappop(self._heap)
            if self._due.get(group) == due_ms:
                del self._due[group]
                found.append(group)
        return found

    def turn_back(self, now_ms: int) -> None:
        """Adapt to a clock that was set back to `now_ms`: what was planned for a later time is due within a minute."""
        self._published = {group: min(at_ms, now_ms) for group, at_ms in self._published.items()}
        for group in [group for group, due_ms in self._due.items() if due_ms > now_ms]:
            self._plan(group, next_turn(group, now_ms, _SLIDING_MS))

    def forget(self, group: str) -> None:
        """Drop a group that is gone."""
        self._due.pop(group, None)
        self._published.pop(group, None)

    def _plan(self, group: str, due_ms: int) -> None:
        known = self._due.get(group)
        if known is None or due_ms < known:
            self._due[group] = due_ms
            heapq.heappush(self._heap, (due_ms, group))
