"""Silences, which hold back the alerts of groups, and announced deploys.

Receives rows of the silences topic; returns those that cover a group at a time. Anyone with write access to the topic
may have written them, so their number is bounded, and their text counts towards the limit of all kept text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from rebalance_contract import AlertSilence, Finding, FindingState, SilenceIndex, SilenceKind, silence_problems
from rebalance_contract.silences import WILDCARD
from rebalance_exporters.state.kept import GroupFindings, GroupKey
from rebalance_exporters.state.rows import KeptBytes, RefusedError

#: Maximum number of kept silences; those that end first are dropped first, in whatever order they were read.
MAX_SILENCES = 2_000

#: Prefix of their keys in KeptBytes.
_KIND = "silence"

_Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Silences:
    """All known silences, indexed by group; immutable."""

    by_name: Mapping[_Name, AlertSilence] = field(default_factory=dict)
    _index: SilenceIndex = field(default_factory=SilenceIndex)

    @classmethod
    def of(cls, by_name: Mapping[_Name, AlertSilence]) -> Silences:
        """Return an index of silences, given by (cluster, silence id)."""
        return cls(dict(by_name), SilenceIndex.of(by_name.values()))

    def in_force(self, key: GroupKey, now_ms: int) -> AlertSilence | None:
        """Return the silence that holds back a group's alerts now, else the deploy announced for now, else null.

        Of several it is the one that ends last.
        """
        found = [each for each in self._index.covering(*key) if each.is_in_force(now_ms)]
        return max(found, key=lambda each: (each.holds_alerts, each.ends_at_ms, each.silence_id), default=None)

    def deploys(self, key: GroupKey, from_ms: int, until_ms: int) -> tuple[AlertSilence, ...]:
        """Return the announced deploys of a group that overlap a period, the earliest first."""
        known = (each for each in self._index.covering(*key) if each.kind == SilenceKind.DEPLOY)
        return tuple(each for each in known if each.overlaps(from_ms, until_ms))


class KeptSilences:
    """The silences read so far, and which of them began or ended since the last check."""

    def __init__(self, kept_bytes: KeptBytes) -> None:
        """`kept_bytes` counts everything that the view keeps."""
        self._kept_bytes = kept_bytes
        self._by_name: dict[_Name, AlertSilence] = {}
        self._now: Silences | None = None
        self._looked_ms = 0

    @property
    def now(self) -> Silences:
        """All silences; the same object as long as none changes."""
        if self._now is None:
            self._now = Silences.of(self._by_name)
        return self._now

    def put(self, silence: AlertSilence, size: int) -> AlertSilence | None:
        """Store a silence of `size` bytes, or its newer version; return the previous version, or null.

        Raises RefusedError for an invalid silence, or if there is no room.
        """
        problem = next(silence_problems(silence), None)
        if problem is not None:
            raise RefusedError("contract", f"a silence of {silence.cluster!r}: {problem}")
        name = (silence.cluster, silence.silence_id)
        known = self._by_name.get(name)
        self._kept_bytes.put((_KIND, name), size)
        self._by_name[name] = silence
        if len(self._by_name) > MAX_SILENCES:
            self.drop(*min(self._by_name, key=lambda each: (self._by_name[each].ends_at_ms, each)))
        self._now = None
        return known

    def drop(self, cluster: str, silence_id: str) -> AlertSilence | None:
        """Forget a silence and return it, or null if it was not known."""
        self._now = None
        self._kept_bytes.drop((_KIND, (cluster, silence_id)))
        return self._by_name.pop((cluster, silence_id), None)

    def turned(self, now_ms: int) -> list[AlertSilence]:
        """Return the silences that began or ended since the last call; none at the first call."""
        before_ms, self._looked_ms = self._looked_ms or now_ms, now_ms
        return [each for each in self._by_name.values() if each.is_in_force(before_ms) != each.is_in_force(now_ms)]


def covered(silence: AlertSilence, groups: Collection[GroupKey]) -> Iterator[GroupKey]:
    """Yield those of the groups that a silence covers.

    Same result as `AlertSilence.is_about` in one step per group: there may be 50 names and tens of thousands of groups.
    """
    exact = frozenset(name for name in silence.groups if not name.endswith(WILDCARD))
    beginnings = tuple(name.removesuffix(WILDCARD) for name in silence.groups if name.endswith(WILDCARD))
    of_cluster = (key for key in groups if key[0] == silence.cluster)
    return (key for key in of_cluster if key[1] in exact or key[1].startswith(beginnings))


class SilencedFindings:
    """Findings as reported to alerting: none of a silenced group fires.

    Returns the same object for the same findings, so that they are rendered once.
    """

    def __init__(self) -> None:
        self._silenced_findings: dict[GroupKey, tuple[GroupFindings, GroupFindings]] = {}

    def findings(self, key: GroupKey, found: GroupFindings, silence: AlertSilence | None) -> GroupFindings:
        """Return the findings to report."""
        if silence is None or not silence.holds_alerts:
            self._silenced_findings.pop(key, None)
            return found
        known = self._silenced_findings.get(key)
        if known is None or known[0] is not found:
            known = self._silenced_findings[key] = (
                found,
                GroupFindings(tuple(map(_at_rest, found.findings)), found.fired),
            )
        return known[1]

    def forget(self, present: Mapping[GroupKey, object]) -> None:
        """Forget all groups but those present."""
        for key in self._silenced_findings.keys() - present.keys():
            del self._silenced_findings[key]


def _at_rest(finding: Finding) -> Finding:
    return replace(finding, state=FindingState.RESOLVED)
