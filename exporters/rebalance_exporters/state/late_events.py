"""Events whose records carry a wrong time, counted over all groups.

Receives the totals that snapshots of groups carry; hands on sums by cluster that never fall: a group that is forgotten
takes nothing away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rebalance_contract import GroupSnapshot

_READ: Mapping[str, Callable[[GroupSnapshot], int]] = {
    "late": lambda group: group.windows.late,
    "future": lambda group: group.windows.future,
}
#: Far more clusters than one exporter shows; whoever may write to the topics may name any.
_MAX_CLUSTERS = 1_000


class LateEvents:
    """Sums by (cluster, kind) since the reading began; `kind` is late or future."""

    def __init__(self) -> None:
        self.totals: dict[tuple[str, str], int] = {}

    def note(self, before: GroupSnapshot | None, now: GroupSnapshot, *, is_new: bool) -> None:
        """Process the newer snapshot of a group, of which none was known where `before` is null.

        One that is not `is_new` was there when the reading began: it is where counting begins.
        """
        for kind, read in _READ.items():
            key = now.cluster, kind
            if key in self.totals or len(self.totals) < len(_READ) * _MAX_CLUSTERS:
                rise = _rise(0 if before is None else read(before), read(now)) if is_new else 0
                self.totals[key] = self.totals.get(key, 0) + rise


def _rise(before: int, now: int) -> int:
    """Return by how much a total rose; one that is lower began anew."""
    return now - before if now >= before else now
