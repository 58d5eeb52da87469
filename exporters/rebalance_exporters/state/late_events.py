"""Counts of events whose records carry a wrong time, over all groups.

Receives the totals in snapshots of groups; returns sums by cluster that never decrease, even when a group is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rebalance_contract import GroupSnapshot

_READ: Mapping[str, Callable[[GroupSnapshot], int]] = {
    "late": lambda group: group.windows.late,
    "future": lambda group: group.windows.future,
}
#: Maximum number of clusters, far more than one exporter shows: rows may name any.
_MAX_CLUSTERS = 1_000


class LateEvents:
    """Sums by (cluster, kind) since reading began; `kind` is late or future."""

    def __init__(self) -> None:
        self.totals: dict[tuple[str, str], int] = {}

    def note(self, before: GroupSnapshot | None, now: GroupSnapshot, *, is_new: bool) -> None:
        """Add what a group's totals rose by since its previous snapshot; `before` is null if there was none.

        A snapshot that is not `is_new` was present when reading began and adds nothing: counting begins with it.
        """
        for kind, read in _READ.items():
            key = now.cluster, kind
            if key in self.totals or len(self.totals) < len(_READ) * _MAX_CLUSTERS:
                rise = _rise(0 if before is None else read(before), read(now)) if is_new else 0
                self.totals[key] = self.totals.get(key, 0) + rise


def _rise(before: int, now: int) -> int:
    """Return by how much a total rose; a lower one started again from 0."""
    return now - before if now >= before else now
