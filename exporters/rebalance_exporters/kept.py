"""Rebalances and findings as they are kept for the API, group by group.

Receives decoded rows of two topics; hands on immutable values. How many rebalances are kept is bounded over all groups;
findings are as many as the stream has open, and those resolved lately.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from rebalance_streaming.groups.events import (
    DURATION_BUCKETS_MS,
    KEPT_PANES,
    PANE_MS,
    Finding,
    Rebalance,
)

GroupKey = tuple[str, str]

FIRING: Final = "firing"
RESOLVED: Final = "resolved"

_GRAVITY = {"page": 0, "ticket": 1, "info": 2}


@dataclass(frozen=True, slots=True)
class KeptRebalance:
    """A rebalance as the API shows it: the JSON text as it came, and what is asked of it without reading that again.

    `completed_ms` and `duration_ms` are null while it goes on; where only bounds are known, the duration is the lower.
    `lost` has (start of a pane, partition-milliseconds without a commit in it), oldest first.
    """

    group: GroupKey
    rebalance_id: str
    reason: str
    started_ms: int
    completed_ms: int | None
    duration_ms: int | None
    lost: tuple[tuple[int, int], ...]
    text: bytes


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
    """Findings of one group, open ones and those resolved lately, and how often each (rule, severity) has fired."""

    findings: tuple[Finding, ...]
    fired: Mapping[tuple[str, str], int]

    def firing(self) -> list[Finding]:
        """Return the open ones, gravest first: by severity, causes before what follows from them, oldest first."""
        found = [each for each in self.findings if each.state == FIRING]
        return sorted(found, key=lambda each: (_GRAVITY.get(each.severity, len(_GRAVITY)), not each.primary))


def keep_rebalance(rebalance: Rebalance, text: bytes) -> KeptRebalance:
    """Return what is kept of a rebalance."""
    return KeptRebalance(
        group=(rebalance.cluster, rebalance.group),
        rebalance_id=rebalance.rebalance_id,
        reason=rebalance.reason,
        started_ms=rebalance.started_before_ms,
        completed_ms=rebalance.completed_at_ms,
        duration_ms=rebalance.duration_min_ms,
        lost=_lost_by_pane(rebalance),
        text=text,
    )


def _lost_by_pane(rebalance: Rebalance) -> tuple[tuple[int, int], ...]:
    lost: dict[int, int] = {}
    for silence in rebalance.silences:
        end = silence.resumed_at_ms
        # No window looks further back than the panes that are kept.
        begin = max(silence.last_commit_ms, rebalance.started_before_ms, end - KEPT_PANES * PANE_MS)
        while begin < end:
            pane = begin - begin % PANE_MS
            until = min(end, pane + PANE_MS)
            lost[pane] = lost.get(pane, 0) + until - begin
            begin = until
    return tuple(sorted(lost.items()))


def fold_example(examples: Examples, kept: KeptRebalance) -> Examples:
    """Take up a rebalance as an example; the same object comes back when it changes none."""
    example = Example(kept.rebalance_id, kept.started_ms, kept.completed_ms or kept.started_ms, kept.duration_ms)
    if _is_newer(example, examples.by_reason.get(kept.reason)):
        examples = replace(examples, by_reason={**examples.by_reason, kept.reason: example})
    if kept.duration_ms is not None:
        bucket = bisect_left(DURATION_BUCKETS_MS, kept.duration_ms)
        if _is_newer(example, examples.by_bucket.get(bucket)):
            examples = replace(examples, by_bucket={**examples.by_bucket, bucket: example})
    return examples


def _is_newer(example: Example, known: Example | None) -> bool:
    if known is None or example == known:
        return known is None
    return (example.started_ms, example.rebalance_id) >= (known.started_ms, known.rebalance_id)


class KeptRebalances:
    """The latest rebalances of all groups, no more than `limit`.

    Those that began first go first, in whatever order they were heard of, so that two exporters keep the same.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._groups: dict[GroupKey, dict[str, KeptRebalance]] = {}
        self._count = 0
        #: (start, group, id), the earliest first; what is no longer kept like that is passed over.
        self._earliest: list[tuple[int, GroupKey, str]] = []
        self._gone_until_ms: dict[GroupKey, int] = {}
        self.examples: dict[GroupKey, Examples] = {}

    def put(self, kept: KeptRebalance) -> None:
        """Take up a rebalance, or the newer form of one."""
        self.examples[kept.group] = fold_example(self.examples.get(kept.group, Examples()), kept)
        known = self.get(kept.group, kept.rebalance_id)
        self._groups.setdefault(kept.group, {})[kept.rebalance_id] = kept
        self._count += known is None
        if known is None or known.started_ms != kept.started_ms:
            heapq.heappush(self._earliest, (kept.started_ms, kept.group, kept.rebalance_id))
        while self._count > self._limit:
            self._drop_earliest()

    def _drop_earliest(self) -> None:
        started_ms, group, rebalance_id = heapq.heappop(self._earliest)
        gone = self.get(group, rebalance_id)
        if gone is not None and gone.started_ms == started_ms:
            ended_ms = gone.started_ms if gone.completed_ms is None else gone.completed_ms
            self._gone_until_ms[group] = max(ended_ms, self._gone_until_ms.get(group, 0))
            self.drop(group, rebalance_id)

    def drop(self, group: GroupKey, rebalance_id: str) -> None:
        """Forget one rebalance, if it is known."""
        if self._groups.get(group, {}).pop(rebalance_id, None) is not None:
            self._count -= 1
            if not self._groups[group]:
                del self._groups[group]

    def forget_group(self, group: GroupKey) -> None:
        """Forget what stands for a group that is gone; its rebalances stay to be read about."""
        self.examples.pop(group, None)
        self._gone_until_ms.pop(group, None)

    def get(self, group: GroupKey, rebalance_id: str) -> KeptRebalance | None:
        """Return one rebalance, null when it is not kept."""
        return self._groups.get(group, {}).get(rebalance_id)

    def of_group(self, group: GroupKey) -> list[KeptRebalance]:
        """Return a group's rebalances, newest first."""
        found = self._groups.get(group, {}).values()
        return sorted(found, key=lambda each: (each.started_ms, each.rebalance_id), reverse=True)

    def lost_ms(self, group: GroupKey, oldest_ms: int) -> int | None:
        """Return the partition-milliseconds lost in panes that end after a time; null when not all of that is kept."""
        if self._gone_until_ms.get(group, -1) > oldest_ms:
            return None
        spans = (span for kept in self._groups.get(group, {}).values() for span in kept.lost)
        return sum(lost for start, lost in spans if start + PANE_MS > oldest_ms)


class KeptFindings:
    """All findings by their key in the topic, group by group."""

    def __init__(self) -> None:
        self._findings: dict[GroupKey, dict[str, Finding]] = {}
        self._groups: dict[str, GroupKey] = {}
        self.by_group: dict[GroupKey, GroupFindings] = {}

    def put(self, key: str, finding: Finding) -> None:
        """Take up a finding; it counts as fired when it was not firing before."""
        group = (finding.cluster, finding.group)
        of_group = self._findings.setdefault(group, {})
        known = of_group.get(key)
        of_group[key] = finding
        self._groups[key] = group
        fires = finding.state == FIRING and (known is None or known.state != FIRING)
        self._put_together(group, (finding.rule, finding.severity) if fires else None)

    def drop(self, key: str) -> Finding | None:
        """Forget a finding; returns it if it was known."""
        group = self._groups.pop(key, None)
        if group is None:
            return None
        gone = self._findings[group].pop(key)
        self._put_together(group)
        return gone

    def get(self, group: GroupKey, key: str) -> Finding | None:
        """Return one finding, null when it is not known."""
        return self._findings.get(group, {}).get(key)

    def resolved_before(self, horizon_ms: int) -> list[str]:
        """Return the keys of findings that were resolved at or before a time."""
        return [
            key
            for of_group in self._findings.values()
            for key, finding in of_group.items()
            if finding.resolved_at_ms is not None and finding.resolved_at_ms <= horizon_ms
        ]

    def forget_group(self, group: GroupKey) -> None:
        """Forget a group that is gone, its totals included."""
        for key in self._findings.pop(group, {}):
            del self._groups[key]
        self.by_group.pop(group, None)

    def _put_together(self, group: GroupKey, fired: tuple[str, str] | None = None) -> None:
        before = self.by_group.get(group)
        counts = dict(before.fired) if before else {}
        if fired is not None:
            counts[fired] = counts.get(fired, 0) + 1
        ordered = sorted(self._findings[group].values(), key=lambda each: (each.started_at_ms, each.finding_id))
        self.by_group[group] = GroupFindings(tuple(ordered), counts)
