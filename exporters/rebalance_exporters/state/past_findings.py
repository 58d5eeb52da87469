"""Resolved findings that have expired, kept for those who look back: they name the causes of rebalances still kept.

They are kept as they were published and decoded when asked for. No series and no list of the present has them.
"""

from __future__ import annotations

from rebalance_contract import Finding, decode, encode
from rebalance_exporters.state.kept import GroupKey

#: Limits on the kept findings, of all groups and of one; those that expired first are dropped first.
_MOST, _MOST_OF_GROUP = 5_000, 200


class PastFindings:
    """Expired findings by group and key in the topic."""

    def __init__(self) -> None:
        self._groups: dict[str, GroupKey] = {}
        self._texts: dict[GroupKey, dict[str, bytes]] = {}

    def put(self, key: str, finding: Finding) -> None:
        """Keep a finding; one that explains no rebalance is left out."""
        if not finding.rebalance_ids:
            return
        group = (finding.cluster, finding.group)
        self.drop(key)
        self._groups[key] = group
        of_group = self._texts.setdefault(group, {})
        of_group[key] = encode(finding)
        if len(of_group) > _MOST_OF_GROUP:
            self.drop(next(iter(of_group)))
        if len(self._groups) > _MOST:
            self.drop(next(iter(self._groups)))

    def drop(self, key: str) -> None:
        """Forget a finding, if it is known."""
        group = self._groups.pop(key, None)
        if group is not None:
            del self._texts[group][key]
            if not self._texts[group]:
                del self._texts[group]

    def of(self, group: GroupKey) -> list[Finding]:
        """Return a group's expired findings, those that expired first before the others."""
        return [decode(text, Finding) for text in self._texts.get(group, {}).values()]
