"""Which groups nobody is to be called for, and which rebalances somebody announced.

Receives rows of the silences topic; hands on what covers a group at a time. Rows may be of anybody who may write
there, so their number is bounded, and their text counts among all that is held.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from rebalance_contract import AlertSilence, Finding, FindingState, SilenceIndex, SilenceKind, silence_problems
from rebalance_contract.silences import WILDCARD
from rebalance_exporters.state.kept import GroupFindings, GroupKey
from rebalance_exporters.state.rows import RefusedError, Weights

#: Silences that are kept; those that end first go first, in whatever order they were read.
MAX_SILENCES = 2_000

#: Under which they are weighed.
_KIND = "silence"

_Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Silences:
    """All silences that are known, found by group; never changed."""

    by_name: Mapping[_Name, AlertSilence] = field(default_factory=dict)
    _index: SilenceIndex = field(default_factory=SilenceIndex)

    @classmethod
    def of(cls, by_name: Mapping[_Name, AlertSilence]) -> Silences:
        """Put silences in order, by (cluster, silence id)."""
        return cls(dict(by_name), SilenceIndex.of(by_name.values()))

    def in_force(self, key: GroupKey, now_ms: int) -> AlertSilence | None:
        """Return the silence that holds a group's alerts back now, else the deploy that is announced for now.

        Of several it is the one that lasts longest.
        """
        found = [each for each in self._index.covering(*key) if each.is_in_force(now_ms)]
        return max(found, key=lambda each: (each.holds_alerts, each.ends_at_ms, each.silence_id), default=None)

    def deploys(self, key: GroupKey, from_ms: int, until_ms: int) -> tuple[AlertSilence, ...]:
        """Return the deploys of a group that were announced for a time, the earliest first."""
        known = (each for each in self._index.covering(*key) if each.kind == SilenceKind.DEPLOY)
        return tuple(each for each in known if each.overlaps(from_ms, until_ms))


class KeptSilences:
    """The silences as they are read, and which have begun or ended since somebody looked."""

    def __init__(self, weights: Weights) -> None:
        """`weights` is what they, and whatever else is held, weigh."""
        self._weights = weights
        self._by_name: dict[_Name, AlertSilence] = {}
        self._now: Silences | None = None
        self._looked_ms = 0

    @property
    def now(self) -> Silences:
        """All of them, the same object for as long as none changed."""
        if self._now is None:
            self._now = Silences.of(self._by_name)
        return self._now

    def put(self, silence: AlertSilence, size: int) -> AlertSilence | None:
        """Process a silence, or its newer form, of so many bytes. Returns the one before.

        Raises RefusedError for one that is none, or for which there is no room.
        """
        problem = next(silence_problems(silence), None)
        if problem is not None:
            raise RefusedError("contract", f"a silence of {silence.cluster!r}: {problem}")
        name = (silence.cluster, silence.silence_id)
        known = self._by_name.get(name)
        self._weights.put((_KIND, name), size)
        self._by_name[name] = silence
        if len(self._by_name) > MAX_SILENCES:
            self.drop(*min(self._by_name, key=lambda each: (self._by_name[each].ends_at_ms, each)))
        self._now = None
        return known

    def drop(self, cluster: str, silence_id: str) -> AlertSilence | None:
        """Forget a silence; returns it if it was known."""
        self._now = None
        self._weights.drop((_KIND, (cluster, silence_id)))
        return self._by_name.pop((cluster, silence_id), None)

    def turned(self, now_ms: int) -> list[AlertSilence]:
        """Return the silences that began or ended since this was asked last; its first answer is none."""
        before_ms, self._looked_ms = self._looked_ms or now_ms, now_ms
        return [each for each in self._by_name.values() if each.is_in_force(before_ms) != each.is_in_force(now_ms)]


def covered(silence: AlertSilence, groups: Collection[GroupKey]) -> Iterator[GroupKey]:
    """Yield those of the groups that a silence is about.

    As `AlertSilence.is_about` has it, in one step a group: there may be 50 names, and tens of thousands of groups.
    """
    exact = frozenset(name for name in silence.groups if not name.endswith(WILDCARD))
    beginnings = tuple(name.removesuffix(WILDCARD) for name in silence.groups if name.endswith(WILDCARD))
    of_cluster = (key for key in groups if key[0] == silence.cluster)
    return (key for key in of_cluster if key[1] in exact or key[1].startswith(beginnings))


class Muted:
    """What is said of findings to whoever calls people: of a silenced group, that none fires.

    The same object comes back for the same findings, so that they are written once.
    """

    def __init__(self) -> None:
        self._muted: dict[GroupKey, tuple[GroupFindings, GroupFindings]] = {}

    def findings(self, key: GroupKey, found: GroupFindings, silence: AlertSilence | None) -> GroupFindings:
        """Return the findings as they are to be reported."""
        if silence is None or not silence.holds_alerts:
            self._muted.pop(key, None)
            return found
        known = self._muted.get(key)
        if known is None or known[0] is not found:
            known = self._muted[key] = found, GroupFindings(tuple(map(_at_rest, found.findings)), found.fired)
        return known[1]

    def forget(self, present: Mapping[GroupKey, object]) -> None:
        """Forget all groups but those present."""
        for key in self._muted.keys() - present.keys():
            del self._muted[key]


def _at_rest(finding: Finding) -> Finding:
    return replace(finding, state=FindingState.RESOLVED)
