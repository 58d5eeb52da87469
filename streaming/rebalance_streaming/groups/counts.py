"""Exact totals of records by kind and outcome, even if batches are repeated.

Stateless tasks decode; a task cannot keep totals, and a batch that is run again after a crash would be counted twice.
Therefore each task reports its counts with the position up to which they are valid, and this fold adds every part of a
partition once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from rebalance_contract import CountActivity, DecodeTotals, RecordCount, ReportCount, ReportTotals

#: Higher record types and value versions are counted together: Kafka wrote none of them, and every number would
#: become a time series of its own.
HIGHEST_COUNTED = 63


def counted_as(number: int | None) -> int | None:
    """Return the number under which a record type or value version is counted, null for those that do not exist."""
    return number if number is not None and 0 <= number <= HIGHEST_COUNTED else None


#: (era of the log, offset) up to which a partition is counted.
Position = tuple[int, int]
CountKey = tuple[str, int | None, int | None, str]


@dataclass(slots=True)
class CountTotals:
    """Totals by topic and kind, and per `topic/partition` the position up to which they are valid."""

    positions: dict[str, Position] = field(default_factory=dict)
    entries: list[tuple[str, int | None, int | None, str, int]] = field(default_factory=list)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(CountTotals)


def dump_totals(totals: CountTotals) -> bytes:
    """Serialise for the state store."""
    return _encoder.encode(totals)


def load_totals(blob: bytes) -> CountTotals:
    """Read totals back from the state store."""
    return _decoder.decode(blob)


def fold_counts(totals: CountTotals, arrived: Iterable[CountActivity]) -> CountTotals:
    """Add counts in the order of their positions; counts at or before a known position are repeated and ignored."""
    positions = dict(totals.positions)
    sums: dict[CountKey, int] = {entry[:4]: entry[4] for entry in totals.entries}
    for counts in sorted(arrived, key=lambda c: (c.topic, c.partition, c.log_era, c.last_offset)):
        place, position = f"{counts.topic}/{counts.partition}", (counts.log_era, counts.last_offset)
        if position <= positions.get(place, (0, -1)):
            continue
        positions[place] = position
        for record_type, version, outcome, count in counts.counts:
            key = (counts.topic, record_type, version, outcome)
            sums[key] = sums.get(key, 0) + count
    return CountTotals(positions=positions, entries=[(*key, count) for key, count in sums.items()])


def publish_records(cluster: str, query: str, totals: CountTotals, topic: str) -> DecodeTotals:
    """Return the totals of the watched topic in the form of the contract."""
    records = tuple(RecordCount(query, *entry[1:]) for entry in totals.entries if entry[0] == topic)
    return DecodeTotals(cluster, query, records, {k: at for k, at in totals.positions.items() if _is_of(k, topic)})


def publish_reports(cluster: str, totals: CountTotals, topic: str) -> ReportTotals:
    """Return the totals of all topics except the watched one in the form of the contract."""
    reports = tuple(ReportCount(each[0], each[3], each[4]) for each in totals.entries if each[0] != topic)
    return ReportTotals(cluster, reports, {k: at for k, at in totals.positions.items() if not _is_of(k, topic)})


def restore(records: DecodeTotals | None, reports: ReportTotals | None, topic: str) -> CountTotals:
    """Restore totals that were published earlier; null: none were."""
    totals = CountTotals()
    if records is not None:
        totals.positions |= records.positions
        totals.entries += [(topic, each.type, each.value_version, each.outcome, each.count) for each in records.records]
    if reports is not None:
        totals.positions |= reports.positions
        totals.entries += [(each.topic, None, None, each.outcome, each.count) for each in reports.reports]
    return totals


def _is_of(place: str, topic: str) -> bool:
    return place.rpartition("/")[0] == topic
