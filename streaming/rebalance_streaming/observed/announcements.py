"""The deploys that somebody announced, by the groups that they are about.

Rows may be of anybody who may write to their topic, so their number is bounded.
"""

from __future__ import annotations

from rebalance_contract import AlertSilence, SilenceIndex, SilenceKind

#: Deploys that are kept; those that end first go first.
_KEPT = 2_000


class Announcements:
    """Announced deploys of any age; a row of the same id takes the place of the one before."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], AlertSilence] = {}
        self._index: SilenceIndex | None = None

    def put(self, row: AlertSilence) -> AlertSilence | None:
        """Process a deploy; a silence of another kind is passed over. Returns what was known of the deploy before."""
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
