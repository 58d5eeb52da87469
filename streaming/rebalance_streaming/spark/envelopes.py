"""From the log's rows to envelopes keyed by group: the stateless front of the membership query.

Receives every row that is not an offset commit, from the commits topic what the other query says beside, and probes.
Hands on one envelope per group record that decodes, one per probe, and one per log partition with what was counted. A
record that cannot be used is counted by its outcome and goes no further.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rebalance_streaming.config import StreamConfig
from rebalance_streaming.groups import counts, notices
from rebalance_streaming.groups.fold import FOLDED_TYPES, GROUP_METADATA
from rebalance_streaming.wire.decode import Outcome, decode_record

#: Who an envelope is for: a group, or the monitor's own bookkeeping.
GROUP_SCOPE, MONITOR_SCOPE = "group", "monitor"
RECORDS = "records"

SCHEMA = (
    "scope string, name string, type int, partition int, offset long, timestamp_ms long, live boolean, "
    "key binary, value binary"
)
_ARROW_SCHEMA = pa.schema(
    [
        ("scope", pa.string()),
        ("name", pa.string()),
        ("type", pa.int32()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("live", pa.bool_()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)

#: In place of a record type: the envelope holds a probe, or a notice of another query.
PROBE, NOTICE = -1, -2
_OFFSET_COMMIT_PREFIXES = (b"\x00\x00", b"\x00\x01")

_LOG, _NOTICES, _PROBES = "log", "notices", "probes"

# Who it is for and its name, record type, log partition and offset, timestamp, whether live, key and value.
Envelope = tuple[str, str, int | None, int, int, int, bool, bytes | None, bytes | None]


def is_offset_commit() -> Column:
    """Whether a row's key says offset commit (types 0 and 1), decided without leaving the JVM.

    False, never null, for keys that are missing or too short: those belong to the membership query, which counts them.
    """
    record_type = F.substring(F.coalesce(F.col("key"), F.lit(b"")), 1, 2)
    return record_type.isin(*_OFFSET_COMMIT_PREFIXES)


def _tells_of_group() -> Column:
    """Whether a probe has anything for the fold: most bring offsets only, which are not worth a touched group."""
    return F.col("value").cast("string").rlike('"(state|topic_ids)":')


def to_envelopes(log: DataFrame, config: StreamConfig, baseline: dict[int, int]) -> DataFrame:
    """Decode, count and address the rows of the membership query. `baseline`: first live offset per partition."""
    topic = F.col("topic")
    origin = (
        F.when((topic == config.source_topic) & ~is_offset_commit(), _LOG)
        .when((topic == config.commits_topic) & F.col("key").isNull(), _NOTICES)
        .when((topic == config.probes_topic) & _tells_of_group(), _PROBES)
    )
    return (
        log.withColumn("origin", origin)
        .where(F.col("origin").isNotNull())
        .select(
            "origin",
            "partition",
            "offset",
            F.unix_millis("timestamp").alias("timestamp_ms"),
            "key",
            "value",
        )
        .coalesce(config.source_tasks)
        .mapInArrow(_make_decoder(baseline), SCHEMA)
    )


def _make_decoder(
    baseline: dict[int, int],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally = SourceTally("membership")
        for batch in batches:
            columns = (batch.column(i).to_pylist() for i in range(batch.num_columns))
            yield _to_arrow([e for row in zip(*columns, strict=True) for e in _address(row, baseline, tally)])
        # A task without rows still runs this far; Arrow refuses to build a batch from nothing at all.
        yield _to_arrow([_count_envelope(each) for each in tally.results()])

    return decode


def _address(
    row: tuple[str, int, int, int, bytes | None, bytes | None], baseline: dict[int, int], tally: SourceTally
) -> Iterable[Envelope]:
    origin, partition, offset, timestamp_ms, key, value = row
    if origin == _PROBES:
        at = (partition, offset, timestamp_ms)
        return [] if key is None else [(GROUP_SCOPE, key.decode(errors="replace"), PROBE, *at, True, None, value)]
    if origin == _NOTICES:
        return _address_notice(partition, offset, timestamp_ms, value or b"")
    record = decode_record(key, value)
    tally.add(partition, offset, (record.record_type, record.value_version, record.outcome))
    if record.record_type not in FOLDED_TYPES or record.outcome not in (Outcome.DECODED, Outcome.TOMBSTONE):
        return []
    live = offset >= baseline.get(partition, 0)
    group = record.key.group if record.record_type == GROUP_METADATA else record.key.group_id
    return [(GROUP_SCOPE, group, record.record_type, partition, offset, timestamp_ms, live, key, value)]


def _address_notice(partition: int, offset: int, timestamp_ms: int, text: bytes) -> list[Envelope]:
    """Pass on what another query says under a null key: to each group its part, and counts to the bookkeeping."""
    at = (partition, offset, timestamp_ms)
    try:
        notice = notices.load(text)
    except msgspec.MsgspecError:
        return []  # somebody else's message
    if isinstance(notice, notices.Counted):
        return [(MONITOR_SCOPE, RECORDS, NOTICE, *at, True, None, text)]
    parts = notices.by_group(notice)
    return [(GROUP_SCOPE, group, NOTICE, *at, True, None, notices.dump(part)) for group, part in parts]


def _count_envelope(each: counts.SourceCounts) -> Envelope:
    text = notices.dump(notices.Counted(each))
    return (MONITOR_SCOPE, RECORDS, NOTICE, each.partition, each.last_offset, 0, True, None, text)


def _to_arrow(envelopes: list[Envelope]) -> pa.RecordBatch:
    columns = zip(*envelopes, strict=True) if envelopes else ([] for _ in _ARROW_SCHEMA)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, _ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW_SCHEMA)


class SourceTally:
    """Counts records by kind and outcome per log partition, for one task of one query."""

    def __init__(self, query: str) -> None:
        self._query = query
        self._counts: dict[int, Counter[tuple[int | None, int | None, str]]] = {}
        self._last_offsets: dict[int, int] = {}

    def add(
        self, partition: int, last_offset: int, kind: tuple[int | None, int | None, Outcome], count: int = 1
    ) -> None:
        """Count records of a (type, value version, outcome) up to and including a log position."""
        record_type, version, outcome = kind
        known = (counts.counted_as(record_type), counts.counted_as(version), outcome.name.lower())
        self._counts.setdefault(partition, Counter())[known] += count
        self._last_offsets[partition] = max(last_offset, self._last_offsets.get(partition, -1))

    def results(self) -> list[counts.SourceCounts]:
        """Return what was counted, one value per log partition."""
        return [
            counts.SourceCounts(
                query=self._query,
                partition=partition,
                last_offset=self._last_offsets[partition],
                counts=tuple((*kind, count) for kind, count in kinds.items()),
            )
            for partition, kinds in self._counts.items()
        ]
