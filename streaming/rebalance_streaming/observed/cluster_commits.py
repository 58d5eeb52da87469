"""Which groups commit, and when any of them last did: if all stand still, the cause may be the monitor itself.

Receives the times of commits by group; decides whether missing commits are significant, and which groups to judge again
once any group is known to have committed.
"""

from __future__ import annotations

#: With a single group it is impossible to tell whether the group or the monitor stands still.
_LEAST_GROUPS = 2


class ClusterCommits:
    """The commits of all groups of one cluster. Times in epoch milliseconds."""

    def __init__(self) -> None:
        self._groups: set[str] = set()
        self._last_ms = 0
        #: Groups whose standstill may be caused by the monitor, with the time when it began.
        self._held_back: dict[str, int] = {}

    def take(self, group: str, last_ms: int) -> None:
        """Note when a group last committed."""
        self._groups.add(group)
        self._last_ms = max(self._last_ms, last_ms)

    def hold_back(self, group: str, began_ms: int) -> bool:
        """Whether no group is known to have committed since this one stands still; if so, remember it."""
        behind = len(self._groups) >= _LEAST_GROUPS and self._last_ms <= began_ms
        if behind:
            self._held_back[group] = began_ms
        return behind

    def take_released(self) -> list[str]:
        """Return, once, the held-back groups whose standstill began before the latest commit of any group."""
        released = [name for name, began_ms in self._held_back.items() if self._last_ms > began_ms]
        for group in released:
            del self._held_back[group]
        return released

    def forget(self, group: str) -> None:
        """Drop a group that is gone."""
        self._held_back.pop(group, None)
        self._groups.discard(group)
