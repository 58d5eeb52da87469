"""The membership query: group records and probed states in, groups and rebalances out.

Receives every row of the log that is not an offset commit, and probes. A stateless front decodes them and addresses
each to its group; the state of a group is one blob, and groups share buckets, because Spark's cost is per touched key.
A record, a probe or a group that fails is set aside and counted; the rest of the batch goes on.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from rebalance_contract import (
    ContractError,
    CountActivity,
    GroupSnapshot,
    GroupState,
    Party,
    Probe,
    ProbeActivity,
    QuarantineCount,
    QuarantineTotals,
    Rebalance,
    encode,
)
from rebalance_contract.bounds import encode_group, encode_rebalance
from rebalance_streaming.activity.commits import LogEra
from rebalance_streaming.activity.counting import Tally
from rebalance_streaming.activity.probes import unpack_probe
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.groups import counts
from rebalance_streaming.groups.fold import FOLDED_TYPES, GROUP_METADATA, fold
from rebalance_streaming.groups.model import FoldState, GroupRecord, dump_state, load_state, new_state
from rebalance_streaming.groups.probing import observe
from rebalance_streaming.spark.source import is_offset_commit
from rebalance_streaming.wire.decode import Outcome, decode_record
from rebalance_streaming.wire.partitioner import partition_for_group

MEMBERSHIP = Party.MEMBERSHIP.value
#: Keys of Spark's state: groups are spread over so many. More would touch more keys per batch, fewer spread less work.
BUCKETS = 32
#: In place of a bucket: the query's own totals.
TOTALS = -1

#: In place of a record type: the envelope holds a probe, or what a task counted.
PROBE, COUNTS = -1, -2

SCHEMA = "bucket int, name string, type int, partition int, offset long, timestamp_ms long, key binary, value binary"
_ARROW_SCHEMA = pa.schema(
    [
        ("bucket", pa.int32()),
        ("name", pa.string()),
        ("type", pa.int32()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
OUTPUT_SCHEMA = "topic string, key binary, value binary"

#: As in SCHEMA.
Envelope = tuple[int, str, int, int, int, int, bytes | None, bytes | None]
#: Topic, key, and value; null is a tombstone.
Output = tuple[str, str, bytes | None]


def fold_groups(log: DataFrame, config: StreamConfig, eras: Mapping[int, LogEra]) -> DataFrame:
    """Fold the rows of the log and of the probes topic into rows for the output topics (topic, key, value)."""
    return (
        _to_envelopes(log, config, eras)
        .groupBy("bucket")
        .transformWithState(
            statefulProcessor=GroupProcessor(config.without_secrets(), dict(eras)),
            outputStructType=OUTPUT_SCHEMA,
            outputMode="append",
            # Without timers Spark runs no batch when there is nothing to read.
            timeMode="None",
        )
    )


def _to_envelopes(log: DataFrame, config: StreamConfig, eras: Mapping[int, LogEra]) -> DataFrame:
    is_log = F.col("topic") == config.source_topic
    # Most probes bring offsets only, which are not worth a touched group.
    tells_of_group = F.col("value").cast("string").rlike('"(state|topic_ids|coordinator_id)":')
    return (
        log.where((is_log & ~is_offset_commit()) | (~is_log & tells_of_group))
        .select("topic", "partition", "offset", F.unix_millis("timestamp").alias("timestamp_ms"), "key", "value")
        .coalesce(config.source_tasks)
        .mapInArrow(_make_decoder(config.without_secrets(), dict(eras)), SCHEMA)
    )


def _make_decoder(
    config: StreamConfig, eras: Mapping[int, LogEra]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally = Tally()
        for batch in batches:
            columns = (batch.column(i).to_pylist() for i in range(batch.num_columns))
            rows = zip(*columns, strict=True)
            yield _to_arrow([each for row in rows for each in _address(row, config, tally)])
        # A task without rows still runs this far; Arrow refuses to build a batch from nothing at all.
        yield _to_arrow([_count_envelope(config, eras, tally, *place) for place in tally.partitions()])

    return decode


def _address(
    row: tuple[str, int, int, int, bytes | None, bytes | None], config: StreamConfig, tally: Tally
) -> Iterable[Envelope]:
    topic, partition, offset, timestamp_ms, key, value = row
    if topic == config.probes_topic:
        return _address_probe(partition, offset, timestamp_ms, value or b"", config.cluster)
    record = decode_record(key, value)
    kind = (record.record_type, record.value_version, record.outcome.name.lower())
    tally.add(topic, partition, offset, kind)
    if record.record_type not in FOLDED_TYPES or record.outcome not in (Outcome.DECODED, Outcome.TOMBSTONE):
        return ()
    group = record.key.group if record.record_type == GROUP_METADATA else record.key.group_id
    return ((_bucket_of(group), group, record.record_type, partition, offset, timestamp_ms, key, value),)


def _address_probe(partition: int, offset: int, timestamp_ms: int, value: bytes, cluster: str) -> Iterable[Envelope]:
    """Pass on the part of a probe that is about the group; the activity query counts probes that are none."""
    try:
        parts = list(unpack_probe(value, cluster, timestamp_ms))
    except ContractError:
        return ()
    return tuple(
        (_bucket_of(group), group, PROBE, partition, offset, timestamp_ms, None, encode(part.probe))
        for group, part in parts
        if isinstance(part, ProbeActivity)
    )


def _bucket_of(group: str) -> int:
    return partition_for_group(group, BUCKETS)


def _count_envelope(
    config: StreamConfig, eras: Mapping[int, LogEra], tally: Tally, topic: str, partition: int
) -> Envelope:
    last, era = tally.last_offset(topic, partition), eras.get(partition)
    counted = CountActivity(
        config.cluster, topic, partition, last, tally.counts(topic, partition), 0 if era is None else era.number
    )
    return (TOTALS, topic, COUNTS, partition, last, 0, None, encode(counted))


def _to_arrow(envelopes: list[Envelope]) -> pa.RecordBatch:
    columns = zip(*envelopes, strict=True) if envelopes else ([] for _ in _ARROW_SCHEMA)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, _ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW_SCHEMA)


class GroupProcessor(StatefulProcessor):
    """The thin adapter between Spark's state and the pure folds: one call per touched bucket and batch.

    A bucket maps group names to the groups' states, and keeps beside them what is to be forgotten and what was set
    aside; the bucket `TOTALS` keeps its totals there.
    """

    def __init__(self, config: StreamConfig, eras: Mapping[int, LogEra]) -> None:
        self._config, self._eras = config, eras

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state; called once per task."""
        self._groups = handle.getMapState("groups", "name string", "blob binary")
        self._own = handle.getValueState("own", "blob binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Fold one bucket's envelopes of this batch; `rows` is an iterator of Row."""
        (bucket,) = key
        outputs = self._fold_counts(rows) if bucket == TOTALS else self._fold_bucket(bucket, rows)
        return iter([Row(topic=topic, key=name.encode(), value=value) for topic, name, value in outputs])

    def close(self) -> None:
        """Nothing to release."""

    def _fold_bucket(self, bucket: int, rows: Iterable[Row]) -> list[Output]:
        by_group: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            by_group[row["name"]].append(row)
        kept = self._own.get()
        own = _Bucket() if kept is None else _bucket_decoder.decode(bytes(kept[0]))
        after = _Bucket(list(own.deleted), dict(own.quarantined))
        outputs: list[Output] = []
        for group, of_group in by_group.items():
            try:
                state, told = self._fold_group(group, of_group, after)
            except Exception as error:
                # Its state cannot be read or written: it stays as it is, and the other groups go on.
                after.set_aside("group", error)
                continue
            outputs += told
            if state is not None and state.picture.state == GroupState.DELETED:
                after.deleted.append((state.picture.updated_at_ms or 0, group))
        outputs += self._forget(after)
        if after.quarantined != own.quarantined:
            outputs.append(self._quarantine_row(bucket, after))
        if after != own:
            self._own.update((_encoder.encode(after),))
        return outputs

    def _fold_group(self, group: str, rows: list[Row], bucket: _Bucket) -> tuple[FoldState | None, list[Output]]:
        """Fold one group's envelopes; returns its state, null for one of which there still is nothing to know."""
        kept = self._groups.getValue((group,))
        before = new_state(self._config.cluster, group) if kept is None else load_state(bytes(kept[0]))
        # Spark hands on a key's rows in no particular order; the log's order is what they mean.
        rows.sort(key=lambda row: (row["type"] == PROBE, row["partition"], row["offset"]))
        state = before
        changed: dict[str, Rebalance] = {}
        for row in rows:
            try:
                each = self._to_input(row)
                state, rebalances = observe(state, each) if isinstance(each, Probe) else fold(state, each)
            except Exception as error:
                # A record that nobody foresaw changes nothing.
                bucket.set_aside("probe" if row["type"] == PROBE else "record", error)
                continue
            changed |= {one.rebalance_id: one for one in rebalances}
        if kept is None and state == before:
            return None, []
        self._groups.updateValue((group,), (dump_state(state),))
        outputs = [self._rebalance_row(one) for one in changed.values()]
        if state.picture != before.picture:
            outputs.append(self._group_row(state.picture))
        return state, outputs

    def _to_input(self, row: Row) -> GroupRecord | Probe:
        if row["type"] == PROBE:
            return msgspec.json.decode(bytes(row["value"]), type=Probe)
        value = None if row["value"] is None else bytes(row["value"])
        record, era = decode_record(bytes(row["key"]), value), self._eras.get(row["partition"])
        return GroupRecord(
            partition=row["partition"],
            offset=row["offset"],
            timestamp_ms=row["timestamp_ms"],
            live=era is None or row["offset"] >= era.first_live,
            value=record.value,
            record_type=row["type"],
            member_id=getattr(record.key, "member_id", None),
            received_at_ms=_now_ms(),
            log_era=0 if era is None else era.number,
        )

    def _group_row(self, picture: GroupSnapshot) -> Output:
        return self._config.groups_topic, f"{picture.cluster}/{picture.group}", encode_group(picture)

    def _rebalance_row(self, each: Rebalance) -> Output:
        key = f"{each.cluster}/{each.group}/{each.rebalance_id}"
        return self._config.rebalances_topic, key, encode_rebalance(each)

    def _quarantine_row(self, number: int, bucket: _Bucket) -> Output:
        told = tuple(
            QuarantineCount(stage, reason, count)
            for kind, count in sorted(bucket.quarantined.items())
            for stage, _, reason in [kind.partition("/")]
        )
        row = QuarantineTotals(self._config.cluster, MEMBERSHIP, number, told)
        return self._config.status_topic, f"{self._config.cluster}/quarantine/{MEMBERSHIP}/{number}", encode(row)

    def _forget(self, bucket: _Bucket) -> list[Output]:
        """Drop what was deleted long enough ago and did not come back.

        It happens when its bucket is touched: a cluster in which nothing happens has nothing to forget.
        """
        horizon_ms = _now_ms() - int(self._config.forget_groups_after_hours * 3_600_000)
        due = [group for at_ms, group in bucket.deleted if at_ms <= horizon_ms]
        bucket.deleted = [each for each in bucket.deleted if each[0] > horizon_ms]
        outputs: list[Output] = []
        for group in due:
            found = self._groups.getValue((group,))
            picture = None if found is None else load_state(bytes(found[0])).picture
            if (
                picture is not None
                and picture.state == GroupState.DELETED
                and (picture.updated_at_ms or 0) <= horizon_ms
            ):
                self._groups.removeKey((group,))
                outputs.append((self._config.groups_topic, f"{self._config.cluster}/{group}", None))
        return outputs

    def _fold_counts(self, rows: Iterable[Row]) -> list[Output]:
        kept, config = self._own.get(), self._config
        totals = counts.CountTotals() if kept is None else counts.load_totals(bytes(kept[0]))
        totals = counts.fold_counts(
            totals, [msgspec.json.decode(bytes(row["value"]), type=CountActivity) for row in rows]
        )
        self._own.update((counts.dump_totals(totals),))
        published = counts.publish_records(config.cluster, MEMBERSHIP, totals, config.source_topic)
        return [(config.status_topic, f"{config.cluster}/records/{MEMBERSHIP}", encode(published))]


class _Bucket(msgspec.Struct):
    """What a bucket keeps beside its groups: (when, which) of groups deleted, and what was set aside, by kind."""

    deleted: list[tuple[int, str]] = []
    quarantined: dict[str, int] = {}

    def set_aside(self, stage: str, error: Exception) -> None:
        """Count something that failed."""
        kind = f"{stage}/{type(error).__name__}"
        self.quarantined[kind] = self.quarantined.get(kind, 0) + 1


_encoder = msgspec.msgpack.Encoder()
_bucket_decoder = msgspec.msgpack.Decoder(_Bucket)


def _now_ms() -> int:
    return int(time.time() * 1000)
