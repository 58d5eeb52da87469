"""The activity query: packs commits, probes, client metrics and broker logs into one bounded row per group and pane.

Stateless: a task packs the rows of its batch and keeps nothing. Raw commits and reports are not passed on to readers of
the rows. Records that cannot be decoded are counted by the kind of error and dropped.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from rebalance_contract import CommitActivity, ContractError, CountActivity, Participant, encode
from rebalance_contract.bounds import MAX_FOREIGN_BYTES
from rebalance_kafka.clock import epoch_ms
from rebalance_streaming.activity.broker_logs import LogPacking
from rebalance_streaming.activity.clients import TopicFormat, pack_batch
from rebalance_streaming.activity.commits import LogColumns, LogEra, pack_commits
from rebalance_streaming.activity.counting import TaskCounts
from rebalance_streaming.activity.ordering import CommitTimes, Probed, probe_times, probed_at
from rebalance_streaming.activity.probes import unpack_probe
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.spark.progress import observe_newest
from rebalance_streaming.spark.source import is_offset_commit
from rebalance_streaming.time_zones import local_to_utc
from rebalance_streaming.wire.broker_logs.outcomes import LineOutcome
from rebalance_streaming.wire.commits import CommitBatch, KeyCache, decode_commits
from rebalance_streaming.wire.decode import Outcome

ACTIVITY = Participant.ACTIVITY.value

#: `newest_ms` is the newest timestamp that the task has read, null except in its last rows.
_ARROW_SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("newest_ms", pa.int64())])
#: Number of distinct keys cached per worker process: 10,000 groups with 100 partitions. It affects only speed.
_CACHED_KEYS = 1_000_000

Row = tuple[bytes, bytes]
Pack = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def pack_activity(log: DataFrame, config: StreamConfig, eras: Mapping[int, LogEra]) -> DataFrame:
    """Return rows (key, value) for the activity topic. `eras` has the era of each partition of the watched topic."""
    is_log = F.col("topic") == config.source_topic
    packed = (
        log.where(~is_log | is_offset_commit())
        .select(
            "topic",
            "partition",
            "offset",
            F.unix_millis("timestamp").alias("timestamp_ms"),
            "key",
            _bounded("value").alias("value"),
            F.octet_length("value").alias("size"),
            # As text: Spark measures the Arrow batch at every row, which gets slower as a column of lists grows.
            F.when(~is_log, F.to_json("headers")).alias("headers"),
        )
        .coalesce(config.source_tasks)
        .mapInArrow(_make_packer(config.without_secrets(), dict(eras)), from_arrow_schema(_ARROW_SCHEMA))
    )
    return observe_newest(packed, F.col("newest_ms")).select("key", "value")


def _bounded(name: str) -> Column:
    """Return a column with null in place of values that are too large to be passed to Python."""
    return F.when(F.octet_length(name) <= MAX_FOREIGN_BYTES, F.col(name))


def _make_packer(config: StreamConfig, eras: Mapping[int, LogEra]) -> Pack:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packer = ActivityPacker(config, eras)
        for batch in batches:
            yield _to_arrow(packer.pack(batch))
        # A task without rows gets here too; it must yield a batch, because Arrow cannot build a table from none.
        yield _to_arrow(packer.counts(), packer.newest_ms)

    return pack


class ActivityPacker:
    """Packs the Arrow batches of one task."""

    def __init__(self, config: StreamConfig, eras: Mapping[int, LogEra]) -> None:
        self._config, self._eras = config, eras
        #: The newest timestamp of the log and the probes; null before the first. The other topics are read separately.
        self.newest_ms: int | None = None
        self._tally = TaskCounts()
        self._to_utc = {each.name: local_to_utc(each.time_zone) for each in config.all_broker_log_topics}
        self._topics = {each.name: TopicFormat(each.format, each.defaults) for each in config.all_metric_topics}

    def pack(self, batch: pa.RecordBatch) -> list[Row]:
        """Return the rows of one batch."""
        topics = batch.column("topic").dictionary_encode()
        rows: list[Row] = []
        commits: pa.RecordBatch | None = None
        probes: list[tuple[str, Probed]] = []
        for code, topic in enumerate(topics.dictionary.to_pylist()):
            part = batch.filter(pc.equal(topics.indices, code))
            if topic in (self._config.source_topic, self._config.probes_topic):
                self.newest_ms = max(self.newest_ms or 0, pc.max(part.column("timestamp_ms")).as_py())
            if topic == self._config.source_topic:
                commits = part
            elif topic == self._config.probes_topic:
                probes += self._unpack_probes(part)
            elif topic in self._to_utc:
                rows += self._pack_broker_logs(topic, part)
            else:
                rows += self._pack_clients(topic, part)
        return [*self._pack_offsets(commits, probes), *rows]

    def counts(self) -> list[Row]:
        """Return the counts, one row per partition that was read."""
        return [
            (f"{topic}/{partition}".encode(), encode(self._count_row(topic, partition)))
            for topic, partition in self._tally.partitions()
        ]

    def _count_row(self, topic: str, partition: int) -> CountActivity:
        era = self._eras.get(partition) if topic == self._config.source_topic else None
        return CountActivity(
            cluster=self._config.cluster,
            topic=topic,
            partition=partition,
            last_offset=self._tally.last_offset(topic, partition),
            counts=self._tally.counts(topic, partition),
            log_era=0 if era is None else era.number,
        )

    def _pack_offsets(self, commits: pa.RecordBatch | None, probes: list[tuple[str, Probed]]) -> list[Row]:
        """Return rows of commits and of probes, in the order of their times: lag is measured when a probe is read."""
        probed_ms: defaultdict[str, list[int]] = defaultdict(list)
        probe_times((row for _, row in probes), probed_ms)
        times = CommitTimes()
        packed = () if commits is None else self._pack_commits(commits, probed_ms)
        rows = [(times.of(row), 0, _commit_row(row)) for row in packed]
        rows += [(probed_at(row), 1, (key.encode(), encode(row))) for key, row in probes]
        return [row for _, _, row in sorted(rows, key=itemgetter(0, 1))]

    def _pack_commits(self, part: pa.RecordBatch, probed_ms: Mapping[str, Sequence[int]]) -> Iterator[CommitActivity]:
        log = LogColumns(*(_numbers(part, name) for name in ("partition", "offset", "timestamp_ms")))
        commits = decode_commits(part.column("key"), part.column("value"), _key_cache())
        self._count_commits(commits, log)
        return pack_commits(commits, log, self._config.cluster, self._config.pane_ms, self._eras, probed_ms=probed_ms)

    def _count_commits(self, commits: CommitBatch, log: LogColumns) -> None:
        """Count rows per (log partition, record type, value version, outcome).

        The four are packed into one integer per row, because sorting integers is ten times faster than sorting rows.
        """
        parts = [column.astype(np.int64) for column in (commits.record_type, commits.value_version, commits.outcome)]
        kind = ((log.partition.astype(np.int64) << 16 | parts[0] & 0xFFFF) << 16 | parts[1] & 0xFFFF) << 8 | parts[2]
        _, first, slot, sizes = np.unique(kind, return_index=True, return_inverse=True, return_counts=True)
        newest = np.zeros(len(sizes), dtype=np.int64)
        newest[slot] = log.offset
        for row, count, last in zip(first.tolist(), sizes.tolist(), newest.tolist(), strict=True):
            record_type, version, outcome = (int(part[row]) for part in parts)
            name = Outcome(outcome).name.lower()
            self._tally.add(
                self._config.source_topic, int(log.partition[row]), last, (record_type, version, name), count
            )

    def _unpack_probes(self, part: pa.RecordBatch) -> list[tuple[str, Probed]]:
        """Return the rows of probes with their keys."""
        rows: list[tuple[str, Probed]] = []
        topic, now_ms = self._config.probes_topic, epoch_ms()
        for partition, offset, timestamp_ms, value, size in _tuples(
            part, "partition", "offset", "timestamp_ms", "value", "size"
        ):
            try:
                found, outcome = list(unpack_probe(value or b"", self._config.cluster, timestamp_ms, now_ms)), "decoded"
            except ContractError:
                found, outcome = [], "corrupt" if value is not None else "empty" if size is None else "too_large"
            self._tally.add(topic, partition, offset, (None, None, outcome))
            rows += found
        return rows

    def _pack_clients(self, topic: str, part: pa.RecordBatch) -> list[Row]:
        rows: list[Row] = []
        for partition in pc.unique(part.column("partition")).to_pylist():
            own = part.filter(pc.equal(part.column("partition"), partition))
            last = int(_numbers(own, "offset").max())
            large = pc.greater(own.column("size"), MAX_FOREIGN_BYTES).fill_null(False)
            if count := pc.sum(large).as_py():
                self._tally.add(topic, partition, last, (None, None, "too_large"), count)
            packed = pack_batch(
                own.filter(pc.invert(large)),
                self._topics,
                cluster=self._config.cluster,
                pane_ms=self._config.pane_ms,
                now_ms=epoch_ms(),
            )
            for (_, outcome), count in packed.counts.items():
                self._tally.add(topic, partition, last, (None, None, outcome), count)
            rows += [(key.encode(errors="replace"), encode(row)) for key, row in packed.rows]
        return rows

    def _pack_broker_logs(self, topic: str, part: pa.RecordBatch) -> list[Row]:
        """Return packed log lines of coordinators; counts lines, and records without any line."""
        packing = LogPacking(self._config.cluster, self._config.pane_ms, epoch_ms())
        columns = ("partition", "offset", "timestamp_ms", "value", "size")
        for partition, offset, timestamp_ms, value, size in _tuples(part, *columns):
            before = packing.counts.copy()
            if value is None and size is not None:
                packing.counts[LineOutcome.TOO_LARGE] += 1
            else:
                packing.take(value, timestamp_ms, self._to_utc[topic])
            for outcome, count in (packing.counts - before).items():
                self._tally.add(topic, partition, offset, (None, None, str(outcome)), count)
        return [(row.group.encode(errors="replace"), encode(row)) for row in packing.rows()]


def _commit_row(row: CommitActivity) -> Row:
    return row.group.encode(), encode(row)


def _numbers(batch: pa.RecordBatch, name: str) -> Any:
    return batch.column(name).to_numpy(zero_copy_only=False)


def _tuples(batch: pa.RecordBatch, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)


@functools.cache
def _key_cache() -> KeyCache:
    """Return this worker process's cache of keys: Spark reuses workers, and the keys of a live stream repeat."""
    return KeyCache(_CACHED_KEYS)


def _to_arrow(rows: list[Row], newest_ms: int | None = None) -> pa.RecordBatch:
    arrays = [pa.array([row[i] for row in rows], type=pa.binary()) for i in range(2)]
    return pa.RecordBatch.from_arrays([*arrays, pa.array([newest_ms] * len(rows), pa.int64())], schema=_ARROW_SCHEMA)
