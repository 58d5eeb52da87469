"""The diagnosis query: passes groups, rebalances, packed activity and announced deploys to the diagnosis process.

A cause may lie outside the affected group, so a single process judges all groups. The query has no checkpoint: at its
start it reads a bounded part of the recent past again, and judges it once everything is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from rebalance_contract import Participant
from rebalance_contract.epochs import WRITER_HEADER
from rebalance_streaming.brokers.cluster import Cluster
from rebalance_streaming.brokers.row_fetcher import RowFetcher
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.diagnosis.process import DiagnosisError, DiagnosisProcess
from rebalance_streaming.engine.rows import DIAGNOSED
from rebalance_streaming.errors import StreamError
from rebalance_streaming.spark.row_batches import LARGEST_BYTES, ROWS_AT_ONCE, collectable, rows_in_time
from rebalance_streaming.spark.source import StartingOffsets, read_log

DIAGNOSIS = Participant.DIAGNOSIS.value


def start_diagnosis(
    spark: SparkSession,
    cluster: Cluster,
    config: StreamConfig,
    properties: Mapping[str, str],
    process: DiagnosisProcess,
    *,
    on_starts: Callable[[StartingOffsets], None],
    is_ending: Callable[[], bool],
) -> StreamingQuery:
    """Start the process and return the query that feeds it.

    `on_starts` receives the offsets from which the query reads, `is_ending` says whether the application is stopping,
    which may interrupt the start (EndingError) and the running batch.
    """
    since_ms = _lookback_start(config)
    start = _starting_offsets(cluster, config, since_ms)
    on_starts(start)
    process.start(since_ms, is_ending)
    log = read_log(
        spark, properties, start, read_committed=False, max_offsets_per_trigger=ROWS_AT_ONCE, with_headers=True
    )
    names = {each.full_name(config.topic_prefix): each.name for each in DIAGNOSED}

    def take_batch(batch: DataFrame, _batch_id: int) -> None:
        try:
            with RowFetcher(config) as fetcher:
                process.take(rows_in_time(collectable(batch).toArrow(), names, fetcher.fetch))
        except (Py4JError, PySparkException, DiagnosisError, StreamError):
            # The rows of an interrupted batch are not lost: the next start reads the recent past again.
            if not is_ending():
                raise

    # Larger rows were not written by the monitor, and would have to be held in memory.
    fitting = log.where(F.col("value").isNull() | (F.octet_length("value") <= LARGEST_BYTES))
    writer_headers = F.filter("headers", lambda header: header["key"] == WRITER_HEADER)
    rows = fitting.select(
        "topic",
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("at_ms"),
        "key",
        "value",
        F.get(writer_headers, F.lit(0))["value"].alias("writer"),
    )
    writer = rows.writeStream.queryName(DIAGNOSIS).foreachBatch(take_batch)
    return writer.trigger(processingTime=f"{config.diagnosis_trigger_ms} milliseconds").start()


def _starting_offsets(cluster: Cluster, config: StreamConfig, since_ms: int) -> StartingOffsets:
    """Return offsets from which to read all groups, and the recent past of other topics up to the configured rows.

    Deploys may be announced long before they begin, so all of them are read.
    """
    found: dict[str, Mapping[int, int]] = {config.groups_topic: cluster.log_ends(config.groups_topic).earliest}
    day_ms = since_ms - 86_400_000
    since = {config.rebalances_topic: day_ms, config.activity_topic: since_ms, config.silences_topic: 0}
    for topic, from_ms in since.items():
        ends = cluster.log_ends(topic).visible
        begin = cluster.offsets_at(topic, from_ms, ends)
        found[topic] = {p: max(at, ends[p] - config.diagnosis_lookback_rows) for p, at in begin.items()}
    return found


def _lookback_start(config: StreamConfig) -> int:
    return int(time.time() * 1000 - config.diagnosis_lookback_minutes * 60_000)
