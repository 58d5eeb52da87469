"""Which groups commit, and when any did last: a standstill of all of them may be the monitor's own.

Receives the times of commits, group by group; answers whether missing commits mean anything, and which groups are to be
judged again once some group is known to have committed since.
"""

from __future__ import annotations

#: With a single group it cannot be known whether it, or the monitor, stands still.
_LEAST_GROUPS = 2


class ClusterCommits:
    """The commits of all groups of one cluster. Times in epoch milliseconds."""

    def __init__(self) -> None:
        self._groups: set[str] = set()
        self._last_ms = 0
        #: Groups whose standstill may be the monitor's own, with when it began.
        self._held_back: dict[str, int] = {}

    def take(self, group: str, last_ms: int) -> None:
        """Note when a group committed last."""
        self._groups.add(group)
        self._last_ms = max(self._last_ms, last_ms)

    def hold_back(self, group: str, began_ms: int) -> bool:
        """Whether no group at all is known to have committed since a group stands still; then it is remembered."""
        behind = len(self._groups) >= _LEAST_GROUPS and self._last_ms <= began_ms
        if behind:
            self._held_back[group] = began_ms
        return behind

    def take_released(self) -> list[str]:
        """Return, once, the groups held back since whose standstill some group has committed."""
        released = [name for name, began_ms in self._held_back.items() if self._last_ms > began_ms]
        for group in released:
            del self._held_back[group]
        return released

    def forget(self, group: str) -> None:
        """Drop a group that is gone."""
        self._held_back.pop(group, None)
        self._groups.discard(group)
