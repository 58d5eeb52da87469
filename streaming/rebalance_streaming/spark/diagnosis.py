"""The diagnosis query: the monitor's own topics and client metrics in, findings and heartbeat timing out.

A cause may lie outside the group that suffers, so one process, the driver, looks at all of them. It keeps no
checkpoint: when it starts, it reads the recent past again, judges it by the records' own time, and takes up the
findings that were open. Nothing is published before the other two queries have read the log up.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from rebalance_streaming.cluster import QUIET, REQUEST_SECONDS, Cluster
from rebalance_streaming.config import MetricTopic, StreamConfig
from rebalance_streaming.detect.book import topic_key
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.detect.detector import Detector
from rebalance_streaming.groups import events, notices
from rebalance_streaming.spark.source import EARLIEST, StartingOffsets, source_options, starting_options
from rebalance_streaming.wire.metrics.errors import UndecodableError
from rebalance_streaming.wire.metrics.formats import decode_metrics

DIAGNOSIS = "diagnosis"
_TIMING_MS = 10_000
_TOTALS_MS = 5_000
_PER_NOTICE = 100

_N = TypeVar("_N")

#: Topic, key, and value; null is a tombstone.
Output = tuple[str, str | None, bytes | None]
Publish = Callable[[Output], None]


@dataclass(frozen=True, slots=True)
class _Row:
    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Mapping[str, bytes | None]


class Diagnosis:
    """Feeds one detector from micro-batches and publishes what changes. Safe to use from several threads."""

    def __init__(self, config: StreamConfig, detect: DetectConfig, publish: Publish) -> None:
        self._config, self._publish = config, publish
        # What is older was judged by an earlier run, which knew its commits and probes.
        self._detector = Detector(config.cluster, detect, _lookback_start(config))
        self._metric_topics = {each.name: each for each in config.all_metric_topics}
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._unpublished: dict[str, events.Finding] = {}
        self._timed_ms = self._counted_ms = 0
        # What an earlier run left is complete up to now.
        self._read_until_ms = int(time.time() * 1000)
        self._published_totals: tuple[events.ReportCount, ...] = ()

    def restore(self, findings: Iterator[events.Finding]) -> None:
        """Take up findings that an earlier run left open."""
        for finding in findings:
            if finding.cluster == self._config.cluster:
                self._detector.book.restore(finding)

    def take_batch(self, batch: DataFrame, _batch_id: int) -> None:
        """Take up a micro-batch: rows of all topics in the order of their times."""
        rows = sorted(_rows(batch.coalesce(1).toArrow()), key=lambda row: row.timestamp_ms)
        with self._lock:
            for row in rows:
                self._take(row)

    def tick(self, now_ms: int, *, caught_up: bool, read_until_ms: int | None = None) -> None:
        """Judge what is due; publish it, unless the log is still being read up.

        `read_until_ms`: up to when the other queries have read the log. What did not come by then did not happen; of
        what was not read yet nothing can be said, so time stands still for the rules while those queries are behind.
        """
        with self._lock:
            self._read_until_ms = max(self._read_until_ms, now_ms if read_until_ms is None else read_until_ms)
            self._judge(now_ms)
            if not caught_up:
                return
            for key, finding in self._unpublished.items():
                self._publish((self._config.findings_topic, key, events.encode(finding)))
            self._unpublished.clear()
            # What a whole cluster suffers at once must fit into messages.
            for lags in _in_batches(self._detector.lags()):
                self._tell(notices.Lagging(lags))
            for left in _in_batches(self._detector.timed_out()):
                self._tell(notices.Left(left))
            if now_ms - self._timed_ms >= _TIMING_MS:
                self._timed_ms = now_ms
                self._publish_timing(now_ms)
            if now_ms - self._counted_ms >= _TOTALS_MS:
                self._counted_ms = now_ms
                self._publish_totals()

    def _tell(self, notice: notices.Notice) -> None:
        """Let the folds know."""
        self._publish((self._config.commits_topic, None, notices.dump(notice)))

    def _take(self, row: _Row) -> None:
        self._judge(row.timestamp_ms)
        try:
            self._dispatch(row)
        except events.ContractError:
            # Somebody else's message in one of the monitor's topics tells nothing.
            return

    def _dispatch(self, row: _Row) -> None:
        config, value = self._config, row.value
        if row.topic in self._metric_topics:
            self._take_metrics(row, self._metric_topics[row.topic])
        elif row.topic == config.groups_topic:
            cluster, _, group = (row.key or b"").decode(errors="replace").partition("/")
            if value is None:
                if cluster == config.cluster:
                    self._detector.forget_group(group)
            else:
                self._detector.take_group(events.decode(value, events.GroupSnapshot))
        elif value is None or row.key is None:
            return
        elif row.topic == config.rebalances_topic:
            self._detector.take_rebalance(events.decode(value, events.Rebalance))
        elif row.topic == config.commits_topic:
            self._detector.take_commits(events.decode(value, events.CommitSummary))
        elif row.topic == config.probes_topic:
            self._detector.take_probe(events.decode(value, events.Probe))

    def _take_metrics(self, row: _Row, topic: MetricTopic) -> None:
        try:
            reports = decode_metrics(
                row.key, row.value, row.timestamp_ms, row.headers, pinned=topic.format, defaults=topic.defaults
            )
        except UndecodableError as error:
            self._counts[topic.name, str(error.reason)] += 1
            return
        self._counts[topic.name, "decoded"] += 1
        for report in reports:
            self._detector.take_report(report)

    def _judge(self, now_ms: int) -> None:
        now_ms = min(now_ms, self._read_until_ms)
        found = [*self._detector.advance(now_ms), *self._detector.disturbances(), *self._detector.withdrawn()]
        for finding in found:
            self._unpublished[topic_key(finding)] = finding

    def _publish_timing(self, now_ms: int) -> None:
        for timing in self._detector.timings(now_ms):
            key = f"{timing.cluster}/{timing.group}"
            self._publish((self._config.heartbeats_topic, key, events.encode(timing)))

    def _publish_totals(self) -> None:
        totals = tuple(events.ReportCount(*kind, count) for kind, count in sorted(self._counts.items()))
        if totals != self._published_totals:
            self._published_totals = totals
            value = events.encode(events.ReportTotals(self._config.cluster, totals))
            self._publish((self._config.status_topic, f"{self._config.cluster}/client_metrics", value))


def _rows(table: pa.Table) -> Iterator[_Row]:
    columns = (table.column(name).to_pylist() for name in ("topic", "key", "value", "timestamp_ms", "headers"))
    for topic, key, value, timestamp_ms, headers in zip(*columns, strict=True):
        yield _Row(topic, key, value, timestamp_ms, {each["key"]: each["value"] for each in headers or ()})


def start_diagnosis(
    spark: SparkSession,
    cluster: Cluster,
    config: StreamConfig,
    properties: Mapping[str, str],
    diagnosis: Diagnosis,
) -> StreamingQuery:
    """Start reading the topics that tell of groups into a diagnosis."""
    start = _starting_offsets(cluster, config)
    log = (
        spark.readStream.format("kafka")
        .options(**source_options(properties, start), **starting_options(start))
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", config.max_offsets_per_trigger // 10)
        .load()
    )
    rows = log.select("topic", "key", "value", F.unix_millis("timestamp").alias("timestamp_ms"), "headers")
    writer = rows.writeStream.queryName(DIAGNOSIS).foreachBatch(diagnosis.take_batch)
    return writer.trigger(processingTime=f"{config.diagnosis_trigger_ms} milliseconds").start()


def _starting_offsets(cluster: Cluster, config: StreamConfig) -> StartingOffsets:
    """Begin with all pictures and rebalances kept, and the recent past of everything else."""
    since_ms = _lookback_start(config)
    whole = (config.groups_topic, config.rebalances_topic)
    recent = (config.commits_topic, config.probes_topic, *(each.name for each in config.all_metric_topics))
    found = {topic: dict.fromkeys(cluster.offsets_at(topic, since_ms), EARLIEST) for topic in whole}
    return {**found, **{topic: cluster.offsets_at(topic, since_ms) for topic in recent}}


def _in_batches(news: tuple[_N, ...]) -> Iterator[tuple[_N, ...]]:
    return (news[start : start + _PER_NOTICE] for start in range(0, len(news), _PER_NOTICE))


def _lookback_start(config: StreamConfig) -> int:
    return int(time.time() * 1000 - config.diagnosis_lookback_minutes * 60_000)


def read_open_findings(config: StreamConfig) -> Iterator[events.Finding]:
    """Yield the latest version of every finding that is open, as an earlier run published it."""
    settings: dict[str, Any] = {**config.kafka, **QUIET}
    consumer = Consumer({**settings, "group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True})
    latest: dict[bytes, bytes] = {}
    try:
        partitions = consumer.list_topics(config.findings_topic, timeout=REQUEST_SECONDS).topics[config.findings_topic]
        left = set(partitions.partitions)
        consumer.assign([TopicPartition(config.findings_topic, partition, 0) for partition in left])
        while left:
            message = consumer.poll(REQUEST_SECONDS)
            if message is None:
                break
            if message.error():
                left.discard(message.partition() or 0)
            elif message.key() is not None and message.value() is not None:
                latest[message.key() or b""] = message.value() or b""
    finally:
        consumer.close()
    for text in latest.values():
        try:
            finding = events.decode(text, events.Finding)
        except events.ContractError:
            continue
        if finding.state == "firing":
            yield finding
