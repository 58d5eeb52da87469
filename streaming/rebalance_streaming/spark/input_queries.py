"""Starts the queries *membership* and *activity*, which read external inputs: starting offsets, sources and sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from rebalance_contract.bounds import MAX_ROW_BYTES
from rebalance_contract.epochs import WRITER_HEADER, RowWriter, encode_writer
from rebalance_streaming.brokers.cluster import Cluster, LogEnds
from rebalance_streaming.brokers.ownership import QueryOwnership
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.spark.activity import ACTIVITY, pack_activity
from rebalance_streaming.spark.checkpoint import query_path, store_inputs
from rebalance_streaming.spark.inputs import WatchedInputs
from rebalance_streaming.spark.membership import MEMBERSHIP, PublishedRows, fold_groups
from rebalance_streaming.spark.offset_log import check_batches, go_back
from rebalance_streaming.spark.source import EARLIEST, read_log

#: Number of rows before the end at which a new checkpoint starts reading probes, and client metrics.
_PROBES_BACK, _REPORTS_BACK = 20_000, 5_000

#: How many times more positions than later a batch of the activity query has at its first start on a large log. A batch
#: has rows of nearly every group, which the diagnosis reads: with large batches it reads them once.
_LARGER_BATCHES = 2.5

#: The queries whose output the diagnosis reads.
INPUT_QUERIES = (MEMBERSHIP, ACTIVITY)


@dataclass(frozen=True, slots=True)
class ReadUp:
    """The topic that must have been read before groups are known: the log or, if it may not be read, the probes."""

    topic: str
    starts: Mapping[int, int]
    ends: LogEnds

    @classmethod
    def of(cls, cluster: Cluster, config: StreamConfig) -> ReadUp:
        """Return the topic with its present start and end offsets."""
        if config.reads_log:
            ends = cluster.log_ends(config.source_topic)
            return cls(config.source_topic, ends.earliest, ends)
        ends = cluster.log_ends(config.probes_topic)
        return cls(config.probes_topic, cluster.recent_offsets(config.probes_topic, _PROBES_BACK), ends)


@dataclass(frozen=True, slots=True)
class QueryInputs:
    """Everything that is needed to start the queries, once it is known."""

    cluster: Cluster
    watched: WatchedInputs
    read: ReadUp
    properties: Mapping[str, str]
    is_first_start: bool
    ownership: QueryOwnership
    published: PublishedRows


def start_membership(spark: SparkSession, config: StreamConfig, inputs: QueryInputs) -> StreamingQuery:
    """Start the query that folds group records and probes, and return it."""
    starts = _start_of_log(config, inputs)
    inputs.watched.note_start(MEMBERSHIP, starts)
    log = read_log(
        spark,
        inputs.properties,
        starts,
        read_committed=False,
        max_offsets_per_trigger=config.max_offsets_per_trigger,
    )
    rows = fold_groups(log, config, inputs.watched.eras(MEMBERSHIP), inputs.published)
    return _start(rows, config, inputs, MEMBERSHIP)


def _start_of_log(config: StreamConfig, inputs: QueryInputs) -> dict[str, Mapping[int, int]]:
    """Return the offsets at which a new checkpoint starts reading the log (if it may be read) and probes."""
    return {
        **{topic: dict.fromkeys(inputs.cluster.log_ends(topic).visible, EARLIEST) for topic in config.log_topics},
        config.probes_topic: inputs.cluster.recent_offsets(config.probes_topic, _PROBES_BACK),
    }


def _behind_counted(inputs: QueryInputs, starts: Mapping[str, Mapping[int, int]]) -> dict[str, Mapping[int, int]]:
    """Return starts moved past the records that the activity query has counted, except in eras after the first."""
    found: dict[str, Mapping[int, int]] = {}
    for topic, partitions in starts.items():
        counted = {p: inputs.published.activity.get(f"{topic}/{p}") for p in partitions}
        if not any(counted.values()):
            found[topic] = partitions
            continue
        ends = inputs.cluster.log_ends(topic).visible
        found[topic] = {
            p: start if (at := counted[p]) is None or at[0] else min(at[1] + 1, ends.get(p, at[1] + 1))
            for p, start in partitions.items()
        }
    return found


def start_activity(spark: SparkSession, config: StreamConfig, inputs: QueryInputs, *, in_bulk: bool) -> StreamingQuery:
    """Start the query that packs commits, probes, client metrics and brokers' log lines, and return it.

    `in_bulk`: it starts on a large log and has not caught up yet.
    """
    log_starts = _behind_counted(inputs, _start_of_log(config, inputs))
    report_starts = _behind_counted(
        inputs, {topic: inputs.cluster.recent_offsets(topic, _REPORTS_BACK) for topic in config.foreign_topics}
    )
    inputs.watched.note_start(ACTIVITY, {**log_starts, **report_starts})
    log = read_log(
        spark,
        inputs.properties,
        log_starts,
        read_committed=True,
        max_offsets_per_trigger=int(config.max_offsets_per_trigger * (_LARGER_BATCHES if in_bulk else 1)),
    )
    # A separate source, so that they have their own limit: a report takes a thousand times as long as a commit.
    reports = read_log(
        spark,
        inputs.properties,
        report_starts,
        read_committed=True,
        max_offsets_per_trigger=config.max_reports_per_trigger,
        with_headers=True,
    )
    both = log.unionByName(reports, allowMissingColumns=True)
    rows = pack_activity(both, config, inputs.watched.eras(ACTIVITY))
    return _start(rows.withColumn("topic", F.lit(config.activity_topic)), config, inputs, ACTIVITY)


def prepare_checkpoint(spark: SparkSession, path: str, query: str, watched: WatchedInputs) -> None:
    """Check the checkpoint of a stopped query, store its eras, and move it to the start of unread records.

    The eras come first: a query that was moved, or has read on, must never be started again with lower ones, even if
    the status topic does not have them. Raises StreamError if the checkpoint cannot be used.
    """
    check_batches(spark, path, query)
    store_inputs(spark, path, watched.to_keep(query))
    go_back(spark, path, query, watched.unread(query))


def _start(rows: DataFrame, config: StreamConfig, inputs: QueryInputs, name: str) -> StreamingQuery:
    trigger_ms = config.activity_trigger_ms if name == ACTIVITY else config.membership_trigger_ms
    client = {f"kafka.{key}": value for key, value in inputs.properties.items()}
    header = F.struct(
        F.lit(WRITER_HEADER).alias("key"),
        F.lit(encode_writer(RowWriter(config.cluster, name, inputs.ownership.epoch))).alias("value"),
    )
    rows = rows.withColumn("headers", F.array(header))
    writer = rows.writeStream.format("kafka").queryName(name).outputMode("append").options(**client)
    # Rows are bounded (rebalance_contract.bounds); the client's own limit must not be lower.
    writer = writer.option("kafka.max.request.size", str(2 * MAX_ROW_BYTES))
    prepare_checkpoint(rows.sparkSession, config.checkpoint, name, inputs.watched)
    writer = writer.option("checkpointLocation", query_path(config.checkpoint, name))
    return writer.trigger(processingTime=f"{trigger_ms} milliseconds").start()
