"""Exact totals of records by kind and outcome, however often a batch is repeated.

The two queries decode in stateless tasks, which cannot keep totals: a batch that is run again after a crash would be
counted twice. So each task hands on what it counted with the log positions it covers, and this fold adds every
stretch of the log once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from rebalance_streaming.groups.events import DecodeTotals, RecordCount


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """What one task counted in one log partition: each entry is (record type, value version, outcome, count)."""

    query: str
    partition: int
    last_offset: int
    counts: tuple[tuple[int | None, int | None, str, int], ...]


#: Record types and value versions above this are counted together: no Kafka wrote any, and every number would
#: become a time series of its own.
HIGHEST_COUNTED = 63


def counted_as(number: int | None) -> int | None:
    """Return under which number a record type or value version is counted, null for one that nobody wrote."""
    return number if number is not None and 0 <= number <= HIGHEST_COUNTED else None


CountKey = tuple[str, int | None, int | None, str]


@dataclass(slots=True)
class CountTotals:
    """The totals, and per (query, log partition) the position up to which they hold."""

    positions: dict[str, int] = field(default_factory=dict)
    entries: list[tuple[str, int | None, int | None, str, int]] = field(default_factory=list)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(CountTotals)


def dump_totals(totals: CountTotals) -> bytes:
    """Serialise for the state store."""
    return _encoder.encode(totals)


def load_totals(blob: bytes) -> CountTotals:
    """Read totals back from the state store."""
    return _decoder.decode(blob)


def fold_counts(totals: CountTotals, arrived: Iterable[SourceCounts]) -> CountTotals:
    """Add counts in the order of their positions; a stretch at or before a known position is a repetition."""
    positions = dict(totals.positions)
    sums: dict[CountKey, int] = {entry[:4]: entry[4] for entry in totals.entries}
    for counts in sorted(arrived, key=lambda c: (c.query, c.partition, c.last_offset)):
        place = f"{counts.query}/{counts.partition}"
        if counts.last_offset <= positions.get(place, -1):
            continue
        positions[place] = counts.last_offset
        for record_type, version, outcome, count in counts.counts:
            key = (counts.query, record_type, version, outcome)
            sums[key] = sums.get(key, 0) + count
    return CountTotals(positions=positions, entries=[(*key, count) for key, count in sums.items()])


def publish(cluster: str, totals: CountTotals) -> DecodeTotals:
    """Return the totals in the form of the output contract."""
    return DecodeTotals(cluster=cluster, records=tuple(RecordCount(*entry) for entry in totals.entries))
