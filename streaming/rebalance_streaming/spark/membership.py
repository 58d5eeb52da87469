"""The membership query: folds group records and probed states into groups and rebalances.

It reads every row of the log that is not an offset commit, and probes; only probes if the log may not be read. A
stateless first stage counts them and adds the name and bucket of the group to each, by which Spark shuffles them. The
state of a group is one blob, and groups share buckets, because Spark's cost is per touched key. A record, probe or
group that fails is quarantined and counted; the rest of the batch is processed.
"""

from __future__ import annotations

import heapq
import itertools
import zlib
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Annotated, Any, NamedTuple, get_type_hints

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from rebalance_contract import (
    ContractError,
    CountActivity,
    GroupSnapshot,
    GroupState,
    Participant,
    Probe,
    ProbeActivity,
    QuarantineCount,
    QuarantineTotals,
    Rebalance,
    encode,
    group_key,
    rebalance_key,
    status_key,
)
from rebalance_contract.bounds import encode_group, encode_rebalance
from rebalance_kafka.clock import epoch_ms
from rebalance_streaming.activity.commits import LogEra
from rebalance_streaming.activity.counting import TaskCounts
from rebalance_streaming.activity.probes import unpack_probe
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.groups import counts
from rebalance_streaming.groups.fold import fold, group_of
from rebalance_streaming.groups.model import (
    UNREADABLE,
    FoldState,
    GroupRecord,
    dump_state,
    load_state,
    new_state,
)
from rebalance_streaming.groups.probed import take_probe
from rebalance_streaming.spark.progress import observe_newest
from rebalance_streaming.spark.source import is_offset_commit
from rebalance_streaming.wire.decode import decode_record
from rebalance_streaming.wire.partitioner import partition_for_group

MEMBERSHIP = Participant.MEMBERSHIP.value
#: Number of keys of Spark's state over which groups are spread. More would touch more keys per batch, fewer would
#: distribute the work less evenly.
BUCKETS = 32
#: Bucket number of the query's own totals.
TOTALS = -1

_Int = Annotated[int, pa.int32()]
_Long = Annotated[int, pa.int64()]
_Text = Annotated[str, pa.string()]
_Binary = Annotated[bytes | None, pa.binary()]


class AddressedRow(NamedTuple):
    """A row of Spark's source, preceded by the bucket and the name of its group, annotated with Arrow types.

    Rows of the probes topic are split into one for each group. Rows of the bucket `TOTALS` have the counts of each task
    for the partitions that it read.
    """

    bucket: _Int
    name: _Text
    topic: _Text
    partition: _Int
    offset: _Long
    timestamp_ms: _Long
    key: _Binary = None
    value: _Binary = None


ARROW_SCHEMA = pa.schema(
    [(name, kind.__metadata__[0]) for name, kind in get_type_hints(AddressedRow, include_extras=True).items()]
)
#: The columns read from Spark's source.
SOURCE_COLUMNS = AddressedRow._fields[AddressedRow._fields.index("topic") :]
OUTPUT_SCHEMA = "topic string, key binary, value binary"

#: Of so many positions of the log, the time of one is looked at if it is a commit.
_COMMITS_PER_TIME = 100

#: Topic of a row whose only purpose is to touch its bucket.
TOUCH = ""
#: Local property with the batch id of a task (MicroBatchExecution.BATCH_ID_KEY).
_BATCH_ID = "streaming.sql.batchId"

#: Topic, key, and value; null is a tombstone.
Output = tuple[str, str, bytes | None]


class PublishedBucket(msgspec.Struct):
    """The published rows of a bucket: (group, state) pairs, and numbers of quarantined items by kind."""

    groups: list[tuple[str, bytes]] = []
    quarantined: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class PublishedRows:
    """Rows published by the queries of another checkpoint, packed by bucket, and totals, to start a new one from.

    `activity` has, by `topic/partition`, the position up to which the activity query has counted. `counted` has those
    of the totals with which the membership query began: its first batches read these records again, also if it has
    been restarted in between and gets no rows.
    """

    buckets: Mapping[int, bytes] = field(default_factory=dict)
    group_count: int = 0
    totals: counts.CountTotals = field(default_factory=counts.CountTotals)
    activity: Mapping[str, counts.Position] = field(default_factory=dict)
    counted: Mapping[str, counts.Position] = field(default_factory=dict)

    def without(self, queries: Container[str]) -> PublishedRows:
        """Return the rows for other queries than these, which have their own state already."""
        left = PublishedRows(activity=self.activity, counted=self.counted) if MEMBERSHIP in queries else self
        return replace(left, activity={}) if Participant.ACTIVITY.value in queries else left


def pack_bucket(bucket: PublishedBucket) -> bytes:
    """Return a bucket serialised for the executors."""
    return zlib.compress(_encoder.encode(bucket), level=1)


def fold_groups(
    log: DataFrame, config: StreamConfig, eras: Mapping[int, LogEra], published: PublishedRows | None = None
) -> DataFrame:
    """Return rows (topic, key, value) for the output topics, folded from the rows of the log and of the probes topic.

    `published` is the initial content of state that does not exist yet; null: none.
    """
    published = published or PublishedRows()
    return (
        _address(log, config, eras, published)
        .groupBy("bucket")
        .transformWithState(
            statefulProcessor=GroupProcessor(config.without_secrets(), dict(eras), published),
            outputStructType=OUTPUT_SCHEMA,
            outputMode="append",
            # Without timers Spark runs no batch if there is nothing to read.
            timeMode="None",
        )
    )


def _address(log: DataFrame, config: StreamConfig, eras: Mapping[int, LogEra], published: PublishedRows) -> DataFrame:
    is_log = F.col("topic") == config.source_topic
    # Most probes contain only offsets, for which no group needs to be touched.
    describes_group = F.col("value").cast("string").rlike('"(state|topic_ids|coordinator_id)":')
    wanted = (is_log & ~is_offset_commit()) | (~is_log & describes_group)
    # Commits count only for the time up to which the log has been read; some of them are enough for that.
    some = is_log & (F.col("offset") % _COMMITS_PER_TIME == 0)
    return (
        observe_newest(log.where(wanted | some), F.unix_millis("timestamp"))
        .where(wanted)
        .withColumn("timestamp_ms", F.unix_millis("timestamp"))
        .select(*SOURCE_COLUMNS)
        .coalesce(config.source_tasks)
        .mapInArrow(_make_addressing(config.without_secrets(), dict(eras), published), from_arrow_schema(ARROW_SCHEMA))
    )


def _make_addressing(
    config: StreamConfig, eras: Mapping[int, LogEra], published: PublishedRows | None = None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    published = published or PublishedRows()
    touched, counted = sorted(published.buckets), _counted_before(config, eras, published)
    if published.totals.positions:
        touched.append(TOTALS)

    def address(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally = TaskCounts()
        for batch in batches:
            is_probe = pc.equal(batch.column("topic"), config.probes_topic)
            log = batch.filter(pc.invert(is_probe))
            yield _address_records(log, tally, counted)
            yield _to_arrow(_address_probes(batch.filter(is_probe), config.cluster))
        # A task without rows gets here too; it must yield a batch, because Arrow cannot build a table from none.
        yield _to_arrow(_count_row(config, eras, tally, *place) for place in tally.partitions())
        if touched and _is_first_batch():
            yield _to_arrow(AddressedRow(bucket, TOUCH, TOUCH, 0, 0, 0) for bucket in touched)

    return address


def _counted_before(config: StreamConfig, eras: Mapping[int, LogEra], published: PublishedRows) -> dict[int, int]:
    """Return, by partition of the log, the offset up to which records are included in the published totals."""
    positions = {**published.counted, **published.totals.positions}
    places = {p: positions.get(f"{config.source_topic}/{p}") for p in eras}
    return {p: at[1] for p, at in places.items() if at is not None and at[0] == eras[p].number}


def _is_first_batch() -> bool:
    """Return whether the running task belongs to the first batch of a query, in which its state is created."""
    context = TaskContext.get()
    return context is None or context.getLocalProperty(_BATCH_ID) == "0"


def _address_records(log: pa.RecordBatch, tally: TaskCounts, counted: Mapping[int, int]) -> pa.RecordBatch:
    """Count rows of the log, and return those of groups with bucket and group prepended."""
    columns = (log.column(name).to_pylist() for name in ("topic", "partition", "offset", "key", "value"))
    groups: list[str | None] = []
    for topic, partition, offset, key, value in zip(*columns, strict=True):
        record = decode_record(key, value)
        if offset > counted.get(partition, -1):
            tally.add(topic, partition, offset, (record.record_type, record.value_version, record.outcome.name.lower()))
        groups.append(group_of(record))
    names = pa.array(groups, pa.string())
    kept, known = log.filter(names.is_valid()), names.drop_null()
    buckets = pa.array(map(bucket_of, known.to_pylist()), pa.int32())
    return pa.RecordBatch.from_arrays([buckets, known, *kept.columns], schema=ARROW_SCHEMA)


def _address_probes(probes: pa.RecordBatch, cluster: str) -> Iterator[AddressedRow]:
    """Yield the parts of probes that describe a group; the activity query counts invalid probes."""
    now_ms = epoch_ms()
    for row in probes.to_pylist():
        try:
            parts = list(unpack_probe(row["value"] or b"", cluster, row["timestamp_ms"], now_ms))
        except ContractError:
            continue
        place = (row["topic"], row["partition"], row["offset"], row["timestamp_ms"])
        for group, part in parts:
            if isinstance(part, ProbeActivity):
                yield AddressedRow(bucket_of(group), group, *place, value=encode(part.probe))


def bucket_of(group: str) -> int:
    """Return the bucket of a group, which is its key in Spark's state."""
    return partition_for_group(group, BUCKETS)


def _count_row(
    config: StreamConfig, eras: Mapping[int, LogEra], tally: TaskCounts, topic: str, partition: int
) -> AddressedRow:
    last, era = tally.last_offset(topic, partition), eras.get(partition)
    counted = CountActivity(
        config.cluster, topic, partition, last, tally.counts(topic, partition), 0 if era is None else era.number
    )
    return AddressedRow(TOTALS, topic, topic, partition, last, 0, value=encode(counted))


def _to_arrow(rows: Iterable[AddressedRow]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row._asdict() for row in rows], ARROW_SCHEMA)


class GroupProcessor(StatefulProcessor):
    """The adapter between Spark's state and the pure folds: one call per touched bucket and batch.

    A bucket maps group names to the groups' states; a separate value has its deleted groups and quarantine counts. In
    the bucket `TOTALS` that value has the totals.
    """

    def __init__(
        self, config: StreamConfig, eras: Mapping[int, LogEra], published: PublishedRows | None = None
    ) -> None:
        self._config, self._eras, self._published = config, eras, published or PublishedRows()

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state; called once per task."""
        self._groups = handle.getMapState("groups", "name string", "blob binary")
        self._own = handle.getValueState("own", "blob binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Fold one bucket's rows of this batch and return output rows; `rows` is an iterator of Row."""
        (bucket,) = key
        outputs = self._fold_counts(rows) if bucket == TOTALS else self._fold_bucket(bucket, rows)
        return iter([Row(topic=topic, key=name.encode(), value=value) for topic, name, value in outputs])

    def close(self) -> None:
        """Do nothing; there are no resources to release."""

    def _fold_bucket(self, bucket: int, rows: Iterable[Row]) -> list[Output]:
        by_group: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            if row["topic"] != TOUCH:
                by_group[row["name"]].append(row)
        kept = self._own.get()
        own = _Bucket() if kept is None else _bucket_decoder.decode(bytes(kept[0]))
        after = self._take_up(bucket) if kept is None else own.copy()
        outputs: list[Output] = []
        for group, of_group in by_group.items():
            outputs += self._fold_group(group, of_group, after)
        after.deleted = _latest_deleted(after.deleted)
        outputs += self._forget(after)
        if after.quarantined != own.quarantined:
            outputs.append(self._quarantine_row(bucket, after))
        if kept is None or after != own:
            # Always write a first value: without it, the published rows would be loaded again and replace the state.
            self._own.update((_encoder.encode(after),))
        return outputs

    def _take_up(self, bucket: int) -> _Bucket:
        """Store the published states of a bucket that has none yet, and return its data; done once per bucket."""
        packed = self._published.buckets.get(bucket)
        if packed is None:
            return _Bucket()
        published = msgspec.msgpack.decode(zlib.decompress(packed), type=PublishedBucket)
        snapshots = {}
        for group, blob in published.groups:
            self._groups.updateValue((group,), (blob,))
            snapshots[group] = load_state(blob).snapshot
        return _Bucket(
            [(each.updated_at_ms or 0, group) for group, each in snapshots.items() if each.state == GroupState.DELETED],
            dict(published.quarantined),
            frozenset(group for group, each in snapshots.items() if each.log_offset is not None),
        )

    def _fold_group(self, group: str, rows: list[Row], bucket: _Bucket) -> list[Output]:
        """Fold one group's rows, store its state and return the output rows.

        A state that cannot be read or serialised is left unchanged, and the group is quarantined. An error of Spark's
        state store is not the group's: it fails the task, and Spark repeats the task with the same rows.
        """
        kept = self._groups.getValue((group,))
        try:
            folded = self._fold_rows(group, None if kept is None else bytes(kept[0]), rows, bucket)
        except MemoryError:
            raise
        except Exception as error:
            bucket.count_error("group", error)
            return []
        if folded is None:
            return []
        state, blob, outputs = folded
        self._groups.updateValue((group,), (blob,))
        if state.snapshot.state == GroupState.DELETED:
            bucket.deleted.append((state.snapshot.updated_at_ms or 0, group))
        return outputs

    def _fold_rows(
        self, group: str, kept: bytes | None, rows: list[Row], bucket: _Bucket
    ) -> tuple[FoldState, bytes, list[Output]] | None:
        """Fold one group's rows into its serialised state `kept` (null: it has none yet).

        Returns the new state, the same serialised, and the output rows; null if nothing is known of the group yet. Does
        not call Spark, so that whatever it raises, except MemoryError, is due to the group.
        """
        before = new_state(self._config.cluster, group) if kept is None else load_state(kept)
        state = before
        changed: dict[str, Rebalance] = {}
        is_rebuilt = group in bucket.rebuilt
        for row in self._in_order(rows):
            try:
                each = self._to_input(row, is_rebuilt=is_rebuilt)
                if isinstance(each, Probe):
                    state, rebalances = take_probe(state, each, reads_log=self._config.reads_log)
                else:
                    state, rebalances = fold(state, each)
            except MemoryError:
                raise
            except Exception as error:
                # A record that cannot be folded changes nothing.
                bucket.count_error("probe" if self._is_probe(row) else "record", error)
                continue
            changed |= {one.rebalance_id: one for one in rebalances}
        if kept is None and state == before:
            return None
        outputs = [self._rebalance_row(one) for one in changed.values()]
        if state.snapshot != before.snapshot:
            outputs.append(self._group_row(state.snapshot))
        return state, dump_state(state), outputs

    def _in_order(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield a group's rows, which Spark passes in any order: records in the order of the log, probes at their time.

        What a probe says about a rebalance counts only until the next one. Times in a log may go back; places do not.
        """
        by_place = sorted(rows, key=lambda row: (self._is_probe(row), row["partition"], row["offset"]))
        records = [row for row in by_place if not self._is_probe(row)]
        times = itertools.accumulate((row["timestamp_ms"] for row in records), max)
        probes = [(row["timestamp_ms"], row) for row in by_place[len(records) :]]
        probes.sort(key=itemgetter(0))
        for _, row in heapq.merge(zip(times, records, strict=True), probes, key=itemgetter(0)):
            yield row

    def _is_probe(self, row: Row) -> bool:
        return bool(row["topic"] == self._config.probes_topic)

    def _to_input(self, row: Row, *, is_rebuilt: bool) -> GroupRecord | Probe:
        if self._is_probe(row):
            return msgspec.json.decode(bytes(row["value"]), type=Probe)
        value = None if row["value"] is None else bytes(row["value"])
        record, era = decode_record(bytes(row["key"]), value), self._eras.get(row["partition"])
        assert record.record_type is not None  # it has a group
        return GroupRecord(
            partition=row["partition"],
            offset=row["offset"],
            timestamp_ms=row["timestamp_ms"],
            # The fold skips records that the published row of a rebuilt group includes; all later ones are live.
            live=is_rebuilt or era is None or row["offset"] >= era.first_live,
            value=record.value,
            record_type=record.record_type,
            member_id=getattr(record.key, "member_id", None),
            received_at_ms=epoch_ms(),
            log_era=0 if era is None else era.number,
        )

    def _group_row(self, snapshot: GroupSnapshot) -> Output:
        return self._config.groups_topic, group_key(snapshot.cluster, snapshot.group), encode_group(snapshot)

    def _rebalance_row(self, each: Rebalance) -> Output:
        key = rebalance_key(each.cluster, each.group, each.rebalance_id)
        return self._config.rebalances_topic, key, encode_rebalance(each)

    def _quarantine_row(self, number: int, bucket: _Bucket) -> Output:
        counts = tuple(
            QuarantineCount(stage, reason, count)
            for kind, count in sorted(bucket.quarantined.items())
            for stage, _, reason in [kind.partition("/")]
        )
        row = QuarantineTotals(self._config.cluster, MEMBERSHIP, number, counts)
        return self._config.status_topic, status_key(row), encode(row)

    def _forget(self, bucket: _Bucket) -> list[Output]:
        """Drop groups that were deleted long enough ago and not created again; return tombstones for them.

        This happens only when the bucket is touched; an idle cluster need not forget groups.
        """
        now_ms = epoch_ms()
        horizon_ms = now_ms - int(self._config.forget_groups_after_hours * 3_600_000)
        due = [group for at_ms, group in bucket.deleted if at_ms <= horizon_ms]
        bucket.deleted = [each for each in bucket.deleted if each[0] > horizon_ms]
        outputs: list[Output] = []
        for group in due:
            found = self._groups.getValue((group,))
            try:
                snapshot = None if found is None else load_state(bytes(found[0])).snapshot
            except UNREADABLE as error:
                # As for records of such a group: leave the unreadable state unchanged, for a version that can read it.
                # It is tried again after the same time.
                bucket.count_error("group", error)
                bucket.deleted.append((now_ms, group))
                continue
            if (
                snapshot is not None
                and snapshot.state == GroupState.DELETED
                and (snapshot.updated_at_ms or 0) <= horizon_ms
            ):
                self._groups.removeKey((group,))
                outputs.append((self._config.groups_topic, group_key(self._config.cluster, group), None))
        return outputs

    def _fold_counts(self, rows: Iterable[Row]) -> list[Output]:
        kept, config = self._own.get(), self._config
        totals = self._published.totals if kept is None else counts.load_totals(bytes(kept[0]))
        counted = [row["value"] for row in rows if row["topic"] != TOUCH]
        totals = counts.fold_counts(
            totals, [msgspec.json.decode(bytes(value), type=CountActivity) for value in counted]
        )
        self._own.update((counts.dump_totals(totals),))
        published = counts.publish_records(config.cluster, MEMBERSHIP, totals, config.source_topic)
        return [(config.status_topic, status_key(published), encode(published))]


class _Bucket(msgspec.Struct):
    """Data of a bucket besides its groups: (time, group) of deleted groups, each once, and quarantine counts by kind.

    `rebuilt` are the groups whose state was initialised from published rows.
    """

    deleted: list[tuple[int, str]] = []
    quarantined: dict[str, int] = {}
    rebuilt: frozenset[str] = frozenset()

    def copy(self) -> _Bucket:
        """Return a copy that can be modified."""
        return _Bucket(list(self.deleted), dict(self.quarantined), self.rebuilt)

    def count_error(self, stage: str, error: Exception) -> None:
        """Count an error by stage and type."""
        kind = f"{stage}/{type(error).__name__}"
        self.quarantined[kind] = self.quarantined.get(kind, 0) + 1


def _latest_deleted(deleted: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the latest time of each group; values that earlier versions stored have groups several times."""
    latest: dict[str, int] = {}
    for at_ms, group in deleted:
        latest[group] = max(at_ms, latest.get(group, at_ms))
    return [(at_ms, group) for group, at_ms in latest.items()]


_encoder = msgspec.msgpack.Encoder()
_bucket_decoder = msgspec.msgpack.Decoder(_Bucket)
