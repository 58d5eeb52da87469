"""Counts the records that one task reads, per partition of each input topic, by type, value version and outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rebalance_streaming.groups.counts import counted_as

Kind = tuple[int | None, int | None, str]
Place = tuple[str, int]


class TaskCounts:
    """Counts of one task. A partition's counts include records up to and including its last offset."""

    def __init__(self) -> None:
        self._counts: dict[Place, Counter[Kind]] = {}
        self._last_offsets: dict[Place, int] = {}

    def add(self, topic: str, partition: int, last_offset: int, kind: Kind, count: int = 1) -> None:
        """Count records of a (type, value version, outcome) up to and including a position."""
        record_type, version, outcome = kind
        known = (counted_as(record_type), counted_as(version), outcome)
        place = (topic, partition)
        self._counts.setdefault(place, Counter())[known] += count
        self._last_offsets[place] = max(last_offset, self._last_offsets.get(place, -1))

    def partitions(self) -> Iterator[Place]:
        """Return an iterator over (topic, partition) of all partitions with counts."""
        return iter(self._counts)

    def last_offset(self, topic: str, partition: int) -> int:
        """Return the offset up to which a partition was counted."""
        return self._last_offsets[topic, partition]

    def counts(self, topic: str, partition: int) -> tuple[tuple[int | None, int | None, str, int], ...]:
        """Return (type, value version, outcome, count) of one partition."""
        return tuple((*kind, count) for kind, count in self._counts[topic, partition].items())
