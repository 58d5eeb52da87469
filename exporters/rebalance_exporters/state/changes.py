"""What changed since when: a bounded log in which each item stands once, at its latest change.

Receives the names of items that changed; hands on those after a given version. It knows no clock and no row: who asks
looks up the present state of what is named.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

#: More than a client that reads at all ever misses between two looks; who missed more loads everything again.
KEPT_CHANGES = 20_000

Kind = Literal["group", "rebalance", "finding"]


class ChangedItem(NamedTuple):
    """What can change. `name` distinguishes the rebalances (by id) and findings (by key) of one group."""

    kind: Kind
    cluster: str
    group: str
    name: str = ""


class ChangeLog:
    """Not safe for several threads: its owner locks."""

    def __init__(self, keep: int = KEPT_CHANGES) -> None:
        self._keep = keep
        self._versions: dict[ChangedItem, int] = {}
        self._horizon = 0
        self.version = 0

    def note(self, item: ChangedItem) -> None:
        """Put a change down; an earlier one of the same item is forgotten."""
        self._versions.pop(item, None)
        self.version += 1
        self._versions[item] = self.version
        if len(self._versions) > self._keep:
            oldest = next(iter(self._versions))
            self._horizon = self._versions.pop(oldest)

    def since(self, version: int) -> list[tuple[int, ChangedItem]] | None:
        """Return what changed after `version`, oldest first; null when that is longer ago than is remembered."""
        if not self._horizon <= version <= self.version:
            return None
        found = []
        for item, changed in reversed(self._versions.items()):
            if changed <= version:
                break
            found.append((changed, item))
        return found[::-1]
