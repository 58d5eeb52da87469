"""Rebalances and findings as they are kept for the API, group by group.

Receives decoded rows of two topics; hands on immutable values. How many rebalances are kept is bounded over all groups;
findings are as many as the stream has open, and those resolved lately.
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

#: JSON's own blanks, which may follow an object.
_BLANKS = b" \t\r\n"
#: The most text, before it is packed, of rebalances, and of impacts that wait for theirs, whatever their number.
_KEPT_BYTES = 256 * 1024 * 1024
#: What belongs to rebalances and may be read before them, or stays when they have gone: how much per rebalance that is
#: kept, and how much more than rebalances at most. All topics are written in about the same order.
_WAITING_PER_KEPT, _WAITING_MORE = 10, 20_000
#: Bounds of what is open at once, far beyond what rules can find.
_MAX_FINDINGS, _MAX_OF_GROUP, _MAX_KINDS = 50_000, 1_000, 500
#: The fastest: a row of 3 kB takes a quarter of its bytes then, and some 30 microseconds.
_PACKED_LEVEL = 1
#: Reasons of rebalances that are counted separately per group; the contract has fewer.
_MAX_REASONS = 32


class PackedText(NamedTuple):
    """A JSON text in fewer bytes, and how many it has."""

    packed: bytes
    size: int

    @classmethod
    def of(cls, text: bytes) -> PackedText:
        """Pack a text; equal ones are equal when packed."""
        return cls(zlib.compress(text, _PACKED_LEVEL), len(text))

    def unpack(self) -> bytes:
        """Return the text."""
        return zlib.decompress(self.packed)


class KeptImpact(NamedTuple):
    """What a rebalance cost: the JSON text as it came, and the time that partitions were without commits."""

    text: PackedText
    lost_partition_ms: int


@dataclass(frozen=True, slots=True)
class KeptRebalance:
    """A rebalance as the API shows it: the JSON text as it came, and what is asked of it without unpacking that.

    `completed_ms` and `duration_ms` are null while it goes on; where only bounds are known, the duration is the lower.
    `impact` is null while the diagnosis has reported none.
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
        """Return it with `impact`, `deploys` and `text` as one JSON object, fields unknown to this version included.

        `deploys` are those that were announced for its time.
        """
        fields = self.text.unpack().rstrip(_BLANKS)[:-1]
        impact = b"null" if self.impact is None else self.impact.text.unpack()
        text = encode(describe_rebalance(*self.read(), deploys))
        return b'%s,"impact":%s,"deploys":%s,"text":%s}' % (fields, impact, encode(deploys), text)

    def read(self) -> tuple[Rebalance, RebalanceImpact | None]:
        """Return it, and what it cost, as rows of the contract."""
        impact = None if self.impact is None else decode(self.impact.text.unpack(), RebalanceImpact)
        return decode(self.text.unpack(), Rebalance), impact

    @property
    def size(self) -> int:
        """Bytes of text, unpacked."""
        return self.text.size + (0 if self.impact is None else self.impact.text.size)


@dataclass(frozen=True, slots=True)
class Example:
    """A rebalance that stands for others: an exemplar. `duration_ms` as in KeptRebalance."""

    rebalance_id: str
    started_ms: int
    at_ms: int
    duration_ms: int | None


@dataclass(frozen=True, slots=True)
class Examples:
    """The latest rebalance of one group by reason, and by place of its duration among DURATION_BUCKETS_MS."""

    by_reason: Mapping[str, Example] = field(default_factory=dict)
    by_bucket: Mapping[int, Example] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupFindings:
    """Findings of one group, open ones and those resolved lately, and how often each (rule, severity) began to fire.

    A finding that was there when the reading began counts 0.
    """

    findings: tuple[Finding, ...]
    fired: Mapping[tuple[str, str], int]

    def firing(self) -> list[Finding]:
        """Return the open ones, the one to read first at the beginning."""
        return sorted((each for each in self.findings if each.state == FindingState.FIRING), key=reading_order)


def keep_rebalance(rebalance: Rebalance, text: bytes) -> KeptRebalance:
    """Return what is kept of a rebalance."""
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
    """Return what is kept of what a rebalance cost."""
    return KeptImpact(PackedText.of(text), impact.lost_partition_ms)


def fold_example(examples: Examples, kept: KeptRebalance) -> Examples:
    """Process a rebalance as an example; the same object comes back when it changes none."""
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
    """Return how many impacts, or causes, there is room for beside so many rebalances."""
    return min(_WAITING_PER_KEPT * rebalances, rebalances + _WAITING_MORE)


class WaitingImpacts:
    """Impacts that were read before their rebalance, or after it had to go; those that came first go first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._impacts: dict[tuple[GroupKey, str], KeptImpact] = {}
        self._bytes = 0

    def put(self, group: GroupKey, rebalance_id: str, impact: KeptImpact) -> None:
        """Process the cost of a rebalance, or a newer version of it."""
        self.take(group, rebalance_id)
        self._impacts[group, rebalance_id] = impact
        self._bytes += impact.text.size
        while len(self._impacts) > self._limit or self._bytes > _KEPT_BYTES:
            self.take(*next(iter(self._impacts)))

    def take(self, group: GroupKey, rebalance_id: str) -> KeptImpact | None:
        """Hand out what a rebalance cost, and forget it here; null when nothing waits."""
        impact = self._impacts.pop((group, rebalance_id), None)
        self._bytes -= 0 if impact is None else impact.text.size
        return impact


class KeptRebalances:
    """The latest rebalances of all groups, no more than `limit`, and what each cost.

    Those that began first go first, in whatever order they were heard of, so that two exporters keep the same.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._groups: dict[GroupKey, dict[str, KeptRebalance]] = {}
        self._count = 0
        self._bytes = 0
        #: (start, group, id), the earliest first; what is no longer kept like that is passed over.
        self._earliest: list[tuple[int, GroupKey, str]] = []
        self._waiting = WaitingImpacts(room_beside(limit))
        self.examples: dict[GroupKey, Examples] = {}
        #: When the latest rebalance began that had to go for want of room; null: none had to.
        self.dropped_until_ms: int | None = None

    def put(self, kept: KeptRebalance) -> None:
        """Process a rebalance, or a newer version of one, which leaves its cost as it was reported."""
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
        """Process the cost of a rebalance; returns whether that changed one that is kept."""
        known = self.get(group, rebalance_id)
        if known is None:
            self._waiting.put(group, rebalance_id, impact)
        elif known.impact != impact:
            self._set(replace(known, impact=impact))
            return True
        return False

    def drop_impact(self, group: GroupKey, rebalance_id: str) -> None:
        """Forget what a rebalance cost."""
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
        """Forget former starts: one rebalance whose start changes again and again must not fill the memory."""
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
        """Forget what stands for a group that is gone; its rebalances stay to be read about."""
        self.examples.pop(group, None)

    def forget_examples(self, groups: Container[GroupKey]) -> None:
        """Forget what stands for groups that are neither known nor have rebalances to be read about."""
        for group in [each for each in self.examples if each not in groups and each not in self._groups]:
            del self.examples[group]

    def get(self, group: GroupKey, rebalance_id: str) -> KeptRebalance | None:
        """Return one rebalance, null when it is not kept."""
        return self._groups.get(group, {}).get(rebalance_id)

    def all(self) -> list[KeptRebalance]:
        """Return the rebalances of all groups, in no order."""
        return [each for of_group in self._groups.values() for each in of_group.values()]

    def of_group(self, group: GroupKey) -> list[KeptRebalance]:
        """Return a group's rebalances, newest first."""
        found = self._groups.get(group, {}).values()
        return sorted(found, key=lambda each: (each.started_ms, each.rebalance_id), reverse=True)


class KeptFindings:
    """All findings by their key in the topic, group by group."""

    def __init__(self) -> None:
        self._findings: dict[GroupKey, dict[str, Finding]] = {}
        self._groups: dict[str, GroupKey] = {}
        self.by_group: dict[GroupKey, GroupFindings] = {}

    def put(self, key: str, finding: Finding, *, is_new: bool) -> None:
        """Process a finding; it counts as fired when it was not firing before. Raises RefusedError for too many.

        One that is not `is_new` was there when the reading began, and counts 0: another exporter has counted it.
        """
        group = (finding.cluster, finding.group)
        if self._groups.get(key, group) != group:
            raise RefusedError("key", f"the key {key[:200]!r} is that of another group's finding")
        expect_room(self._groups, key, _MAX_FINDINGS)
        expect_room(self._findings.get(group, {}), key, _MAX_OF_GROUP)
        expect_room(self.by_group, group, _MAX_FINDINGS)
        of_group = self._findings.setdefault(group, {})
        known = of_group.get(key)
        of_group[key] = finding
        self._groups[key] = group
        begins = finding.state == FindingState.FIRING and (known is None or known.state != FindingState.FIRING)
        kind = (finding.rule, finding.severity)
        self._put_together(group, {kind: int(is_new)} if begins or not is_new else {})

    def drop(self, key: str) -> Finding | None:
        """Forget a finding; returns it if it was known."""
        group = self._groups.pop(key, None)
        if group is None:
            return None
        gone = self._findings[group].pop(key)
        self._put_together(group, {})
        return gone

    def get(self, group: GroupKey, key: str) -> Finding | None:
        """Return one finding, null when it is not known."""
        return self._findings.get(group, {}).get(key)

    def resolved(self) -> list[tuple[str, int]]:
        """Return the keys of findings that are resolved, and since when."""
        return [
            (key, finding.updated_at_ms if finding.resolved_at_ms is None else finding.resolved_at_ms)
            for of_group in self._findings.values()
            for key, finding in of_group.items()
            if finding.resolved_at_ms is not None or finding.state != FindingState.FIRING
        ]

    def forget_group(self, group: GroupKey) -> None:
        """Forget a group that is gone, its totals included."""
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
