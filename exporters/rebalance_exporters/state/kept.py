"""Rebalances and findings as kept for the API, by group.

Receives decoded rows of two topics; returns immutable values. The number of kept rebalances is bounded over all groups;
the kept findings are those that the stream has open and those resolved recently.
"""

from __future__ import annotations

import heapq
import zlib
from bisect import bisect_left
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rebalance_contract import (
    DURATION_BUCKETS_MS,
    AlertSilence,
    Finding,
    FindingState,
    Rebalance,
    RebalanceImpact,
    decode,
    encode,
)
from rebalance_contract.api import reading_order
from rebalance_exporters.state.rows import RefusedError, expect_room
from rebalance_exporters.text.rebalances import describe_rebalance

GroupKey = tuple[str, str]

#: JSON whitespace, which may follow an object.
_BLANKS = b" \t\r\n"
#: Maximum bytes of text, before compression, of all rebalances, and of all waiting impacts.
_KEPT_BYTES = 256 * 1024 * 1024
#: Limits on impacts and causes, which may be read before their rebalance or outlast it: how many per kept rebalance,
#: and how many more than kept rebalances. All topics are written in about the same order.
_WAITING_PER_KEPT, _WAITING_MORE = 10, 20_000
#: Limits on findings, far beyond what rules can find: in total, per group, and kinds counted per group.
_MAX_FINDINGS, _MAX_OF_GROUP, _MAX_KINDS = 50_000, 1_000, 500
#: The fastest level: it compresses a row of 3 kB to a quarter in about 30 microseconds.
_PACKED_LEVEL = 1
#: Maximum number of reasons with an example per group; the contract has fewer.
_MAX_REASONS = 32


class PackedText(NamedTuple):
    """A compressed JSON text; `size` is its length in bytes before compression."""

    packed: bytes
    size: int

    @classmethod
    def of(cls, text: bytes) -> PackedText:
        """Return a text compressed; equal texts are equal when compressed."""
        return cls(zlib.compress(text, _PACKED_LEVEL), len(text))

    def unpack(self) -> bytes:
        """Return the text."""
        return zlib.decompress(self.packed)


class KeptImpact(NamedTuple):
    """The cost of a rebalance: the JSON text as received, and the time that partitions were without commits."""

    text: PackedText
    lost_partition_ms: int


@dataclass(frozen=True, slots=True)
class KeptRebalance:
    """A rebalance as the API shows it: the JSON text as received, and the fields needed without decompressing it.

    `completed_ms` and `duration_ms` are null while it is in progress; if only bounds are known, the duration is the
    lower one. `impact` is null until the diagnosis reports it.
    """

    group: GroupKey
    rebalance_id: str
    reason: str
    started_ms: int
    completed_ms: int | None
    duration_ms: int | None
    text: PackedText
    impact: KeptImpact | None = None

    def document(self, deploys: Sequence[AlertSilence] = ()) -> bytes:
        """Return it with `impact`, `deploys` and `text` as one JSON object, including fields unknown to this version.

        `deploys` are those announced for its time.
        """
        fields = self.text.unpack().rstrip(_BLANKS)[:-1]
        impact = b"null" if self.impact is None else self.impact.text.unpack()
        text = encode(describe_rebalance(*self.read(), deploys))
        return b'%s,"impact":%s,"deploys":%s,"text":%s}' % (fields, impact, encode(deploys), text)

    def read(self) -> tuple[Rebalance, RebalanceImpact | None]:
        """Return the rebalance and its cost as rows of the contract; the cost is null if none was reported."""
        impact = None if self.impact is None else decode(self.impact.text.unpack(), RebalanceImpact)
        return decode(self.text.unpack(), Rebalance), impact

    @property
    def size(self) -> int:
        """Bytes of text before compression."""
        return self.text.size + (0 if self.impact is None else self.impact.text.size)


@dataclass(frozen=True, slots=True)
class Example:
    """A rebalance used as an exemplar; `duration_ms` as in KeptRebalance."""

    rebalance_id: str
    started_ms: int
    at_ms: int
    duration_ms: int | None


@dataclass(frozen=True, slots=True)
class Examples:
    """The latest rebalance of one group by reason, and by the index of its duration's bucket in DURATION_BUCKETS_MS."""

    by_reason: Mapping[str, Example] = field(default_factory=dict)
    by_bucket: Mapping[int, Example] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupFindings:
    """Findings of one group, open or recently resolved, and how often each (rule, severity) began to fire.

    A finding that was present when reading began counts 0.
    """

    findings: tuple[Finding, ...]
    fired: Mapping[tuple[str, str], int]

    def firing(self) -> list[Finding]:
        """Return the open findings, the most important first."""
        return sorted((each for each in self.findings if each.state == FindingState.FIRING), key=reading_order)


def keep_rebalance(rebalance: Rebalance, text: bytes) -> KeptRebalance:
    """Return the kept form of a rebalance."""
    return KeptRebalance(
        group=(rebalance.cluster, rebalance.group),
        rebalance_id=rebalance.rebalance_id,
        reason=rebalance.reason,
        started_ms=rebalance.started_before_ms,
        completed_ms=rebalance.completed_at_ms,
        duration_ms=rebalance.duration_min_ms,
        text=PackedText.of(text),
    )


def keep_impact(impact: RebalanceImpact, text: bytes) -> KeptImpact:
    """Return the kept form of a rebalance's cost."""
    return KeptImpact(PackedText.of(text), impact.lost_partition_ms)


def fold_example(examples: Examples, kept: KeptRebalance) -> Examples:
    """Return the examples updated with a rebalance; the same object if nothing changed."""
    example = Example(kept.rebalance_id, kept.started_ms, kept.completed_ms or kept.started_ms, kept.duration_ms)
    known = examples.by_reason
    if (kept.reason in known or len(known) < _MAX_REASONS) and _is_newer(example, known.get(kept.reason)):
        examples = replace(examples, by_reason={**known, kept.reason: example})
    if kept.duration_ms is not None:
        bucket = bisect_left(DURATION_BUCKETS_MS, kept.duration_ms)
        if _is_newer(example, examples.by_bucket.get(bucket)):
            examples = replace(examples, by_bucket={**examples.by_bucket, bucket: example})
    return examples


def _is_newer(example: Example, known: Example | None) -> bool:
    if known is None or example == known:
        return known is None
    return (example.started_ms, example.rebalance_id) >= (known.started_ms, known.rebalance_id)


def room_beside(rebalances: int) -> int:
    """Return the maximum number of impacts, or of causes, for a maximum number of rebalances."""
    return min(_WAITING_PER_KEPT * rebalances, rebalances + _WAITING_MORE)


class WaitingImpacts:
    """Impacts read before their rebalance, or after it was dropped; those read first are dropped first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._impacts: dict[tuple[GroupKey, str], KeptImpact] = {}
        self._bytes = 0

    def put(self, group: GroupKey, rebalance_id: str, impact: KeptImpact) -> None:
        """Store the cost of a rebalance, or a newer version of it."""
        self.take(group, rebalance_id)
        self._impacts[group, rebalance_id] = impact
        self._bytes += impact.text.size
        while len(self._impacts) > self._limit or self._bytes > _KEPT_BYTES:
            self.take(*next(iter(self._impacts)))

    def take(self, group: GroupKey, rebalance_id: str) -> KeptImpact | None:
        """Remove and return the cost of a rebalance, or return null if none is waiting."""
        impact = self._impacts.pop((group, rebalance_id), None)
        self._bytes -= 0 if impact is None else impact.text.size
        return impact


class KeptRebalances:
    """The latest rebalances of all groups, at most `limit`, each with its cost.

    Those that began first are dropped first, in whatever order they were read, so that two exporters keep the same.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._groups: dict[GroupKey, dict[str, KeptRebalance]] = {}
        self._count = 0
        self._bytes = 0
        #: Heap of (start, group, id), the earliest first; outdated entries are skipped.
        self._earliest: list[tuple[int, GroupKey, str]] = []
        self._waiting = WaitingImpacts(room_beside(limit))
        self.examples: dict[GroupKey, Examples] = {}
        #: Latest start of the rebalances dropped for lack of room; null: none was dropped.
        self.dropped_until_ms: int | None = None

    def put(self, kept: KeptRebalance) -> None:
        """Store a rebalance, or a newer version of one, which keeps its reported cost."""
        self.examples[kept.group] = fold_example(self.examples.get(kept.group, Examples()), kept)
        known = self.get(kept.group, kept.rebalance_id)
        waiting = self._waiting.take(kept.group, kept.rebalance_id) if known is None else known.impact
        self._set(replace(kept, impact=waiting))
        if known is None or known.started_ms != kept.started_ms:
            heapq.heappush(self._earliest, (kept.started_ms, kept.group, kept.rebalance_id))
        if len(self._earliest) > 2 * self._count + self._limit:
            self._tidy()
        while self._count > self._limit or self._bytes > _KEPT_BYTES:
            self._drop_earliest()

    def put_impact(self, group: GroupKey, rebalance_id: str, impact: KeptImpact) -> bool:
        """Store the cost of a rebalance; return whether this changed a kept rebalance."""
        known = self.get(group, rebalance_id)
        if known is None:
            self._waiting.put(group, rebalance_id, impact)
        elif known.impact != impact:
            self._set(replace(known, impact=impact))
            return True
        return False

    def drop_impact(self, group: GroupKey, rebalance_id: str) -> None:
        """Forget the cost of a rebalance."""
        self._waiting.take(group, rebalance_id)
        known = self.get(group, rebalance_id)
        if known is not None:
            self._set(replace(known, impact=None))

    def _set(self, kept: KeptRebalance) -> None:
        known = self.get(kept.group, kept.rebalance_id)
        self._groups.setdefault(kept.group, {})[kept.rebalance_id] = kept
        self._count += known is None
        self._bytes += kept.size - (0 if known is None else known.size)

    def _tidy(self) -> None:
        """Remove outdated heap entries: a rebalance whose start keeps changing must not fill the memory."""
        self._earliest = [(each.started_ms, each.group, each.rebalance_id) for each in self.all()]
        heapq.heapify(self._earliest)

    def _drop_earliest(self) -> None:
        started_ms, group, rebalance_id = heapq.heappop(self._earliest)
        gone = self.get(group, rebalance_id)
        if gone is not None and gone.started_ms == started_ms:
            self.drop(group, rebalance_id)
            self.dropped_until_ms = max(started_ms, self.dropped_until_ms or started_ms)

    def drop(self, group: GroupKey, rebalance_id: str) -> None:
        """Forget one rebalance, if it is known."""
        gone = self._groups.get(group, {}).pop(rebalance_id, None)
        if gone is not None:
            self._count -= 1
            self._bytes -= gone.size
            if not self._groups[group]:
                del self._groups[group]

    def forget_group(self, group: GroupKey) -> None:
        """Forget the examples of a group that is gone; its rebalances are kept."""
        self.examples.pop(group, None)

    def forget_examples(self, groups: Container[GroupKey]) -> None:
        """Forget the examples of groups that are neither known nor have kept rebalances."""
        for group in [each for each in self.examples if each not in groups and each not in self._groups]:
            del self.examples[group]

    def get(self, group: GroupKey, rebalance_id: str) -> KeptRebalance | None:
        """Return one rebalance, or null if it is not kept."""
        return self._groups.get(group, {}).get(rebalance_id)

    def groups(self) -> list[GroupKey]:
        """Return the groups that have rebalances."""
        return list(self._groups)

    def all(self) -> list[KeptRebalance]:
        """Return the rebalances of all groups, in no particular order."""
        return [each for of_group in self._groups.values() for each in of_group.values()]

    def of_group(self, group: GroupKey) -> list[KeptRebalance]:
        """Return a group's rebalances, newest first."""
        found = self._groups.get(group, {}).values()
        return sorted(found, key=lambda each: (each.started_ms, each.rebalance_id), reverse=True)


class KeptFindings:
    """All findings, by group and key in the topic."""

    def __init__(self) -> None:
        self._findings: dict[GroupKey, dict[str, Finding]] = {}
        self._groups: dict[str, GroupKey] = {}
        self.by_group: dict[GroupKey, GroupFindings] = {}

    def expect_room(self, key: str, group: GroupKey) -> None:
        """Raise RefusedError if there are too many findings, or the key is that of another group's finding."""
        if self._groups.get(key, group) != group:
            raise RefusedError("key", f"the key {key[:200]!r} is that of another group's finding")
        expect_room(self._groups, key, _MAX_FINDINGS)
        expect_room(self._findings.get(group, {}), key, _MAX_OF_GROUP)
        expect_room(self.by_group, group, _MAX_FINDINGS)

    def put(self, key: str, finding: Finding, *, is_new: bool) -> None:
        """Store a finding for which there is room; it counts as fired if it was not firing before.

        One that is not `is_new` was present when reading began and counts 0: another exporter has counted it.
        """
        group = (finding.cluster, finding.group)
        of_group = self._findings.setdefault(group, {})
        known = of_group.get(key)
        of_group[key] = finding
        self._groups[key] = group
        begins = finding.state == FindingState.FIRING and (known is None or known.state != FindingState.FIRING)
        kind = (finding.rule, finding.severity)
        self._put_together(group, {kind: int(is_new)} if begins or not is_new else {})

    def drop(self, key: str) -> Finding | None:
        """Forget a finding and return it, or null if it was not known."""
        group = self._groups.pop(key, None)
        if group is None:
            return None
        gone = self._findings[group].pop(key)
        self._put_together(group, {})
        return gone

    def get(self, group: GroupKey, key: str) -> Finding | None:
        """Return one finding, or null if it is not known."""
        return self._findings.get(group, {}).get(key)

    def resolved(self) -> list[tuple[str, int]]:
        """Return the keys of resolved findings, and when each was resolved, in epoch milliseconds."""
        return [
            (key, finding.updated_at_ms if finding.resolved_at_ms is None else finding.resolved_at_ms)
            for of_group in self._findings.values()
            for key, finding in of_group.items()
            if finding.resolved_at_ms is not None or finding.state != FindingState.FIRING
        ]

    def forget_group(self, group: GroupKey) -> None:
        """Forget a group that is gone, including its totals."""
        for key in self._findings.pop(group, {}):
            del self._groups[key]
        self.by_group.pop(group, None)

    def _put_together(self, group: GroupKey, fired: Mapping[tuple[str, str], int]) -> None:
        before = self.by_group.get(group)
        counts = dict(before.fired) if before else {}
        for kind, times in fired.items():
            if kind in counts or len(counts) < _MAX_KINDS:
                counts[kind] = counts.get(kind, 0) + times
        ordered = sorted(self._findings[group].values(), key=lambda each: (each.started_at_ms, each.finding_id))
        self.by_group[group] = GroupFindings(tuple(ordered), counts)
