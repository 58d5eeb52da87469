"""A bounded log of changes, with one entry per item, at its latest change.

Receives the names of changed items; returns those changed after a given version. It has no clock and stores no rows:
callers look up the present state of each named item.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

#: Far more changes than a client misses between two reads; a client that missed more reloads everything.
KEPT_CHANGES = 20_000

Kind = Literal["group", "rebalance", "finding"]


class ChangedItem(NamedTuple):
    """An item that can change. `name` distinguishes the rebalances (by id) and findings (by key) of one group."""

    kind: Kind
    cluster: str
    group: str
    name: str = ""


class ChangeLog:
    """A log of changes by version. Not thread-safe: its owner must hold a lock."""

    def __init__(self, keep: int = KEPT_CHANGES) -> None:
        self._keep = keep
        self._versions: dict[ChangedItem, int] = {}
        self._horizon = 0
        self.version = 0

    def note(self, item: ChangedItem) -> None:
        """Record a change, in place of an earlier one of the same item."""
        self._versions.pop(item, None)
        self.version += 1
        self._versions[item] = self.version
        if len(self._versions) > self._keep:
            oldest = next(iter(self._versions))
            self._horizon = self._versions.pop(oldest)

    def since(self, version: int) -> list[tuple[int, ChangedItem]] | None:
        """Return the changes after `version`, oldest first, or null if the log does not cover that version."""
        if not self._horizon <= version <= self.version:
            return None
        found = []
        for item, changed in reversed(self._versions.items()):
            if changed <= version:
                break
            found.append((changed, item))
        return found[::-1]
