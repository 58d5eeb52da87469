"""Announced deploys, by the groups that they concern.

Anybody with write access to the topic can add rows, so their number is bounded.
"""

from __future__ import annotations

from rebalance_contract import AlertSilence, SilenceIndex, SilenceKind

#: Maximum number of deploys kept; the ones that end first are dropped first.
_KEPT = 2_000


class Announcements:
    """Announced deploys of any age; a row replaces an earlier one with the same id."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], AlertSilence] = {}
        self._index: SilenceIndex | None = None

    def put(self, row: AlertSilence) -> AlertSilence | None:
        """Process a deploy; ignore a silence of another kind. Return the earlier row of this id, or null."""
        name = row.cluster, row.silence_id
        known = self._known.get(name)
        if row.kind != SilenceKind.DEPLOY:
            return known
        self._known[name], self._index = row, None
        if len(self._known) > _KEPT:
            del self._known[min(self._known, key=lambda each: (self._known[each].ends_at_ms, each))]
        return known

    def of(self, cluster: str, group: str) -> tuple[AlertSilence, ...]:
        """Return the deploys of a group, the earliest first."""
        if self._index is None:
            self._index = SilenceIndex.of(self._known.values())
        return self._index.covering(cluster, group)
