"""Kafka topics as streaming DataFrames, avoiding two pitfalls of Spark's source.

First, internal topics are read as empty unless `useDeprecatedOffsetFetching` is set (see session.py). Second, with that
flag and `subscribe`, the driver joins a consumer group of its own in every batch and so writes to the topic that it
watches. `assign` joins no group, but requires a list of the partitions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from rebalance_streaming.wire.records import OFFSET_COMMIT_PREFIXES

#: topic -> partition -> position; -2 is the earliest available one.
StartingOffsets = Mapping[str, Mapping[int, int]]

EARLIEST = -2

SPEED = {
    # A task that reaches the end of its partition would otherwise wait 500 ms behind its own pipelined fetch, and with
    # 50 partitions a live batch takes seconds on an idle machine.
    "kafka.fetch.max.wait.ms": "0",
    "kafka.max.poll.records": "5000",
    "kafka.max.partition.fetch.bytes": "262144",
    # Each query has a client per partition; their metrics are not used, and registering them takes a second at a start.
    "kafka.auto.include.jmx.reporter": "false",
    "kafka.enable.metrics.push": "false",
}


def is_offset_commit() -> Column:
    """Return a column: whether a row's key is that of an offset commit (types 0 and 1), evaluated within the JVM.

    False, never null, for missing and too short keys: those belong to the membership query, which counts them.
    """
    record_type = F.substring(F.coalesce(F.col("key"), F.lit(b"")), 1, 2)
    return record_type.isin(*OFFSET_COMMIT_PREFIXES)


def read_log(
    spark: SparkSession,
    java_properties: Mapping[str, str],
    starting_offsets: StartingOffsets,
    *,
    read_committed: bool,
    max_offsets_per_trigger: int,
    with_headers: bool = False,
) -> DataFrame:
    """Return the source's columns: key, value, topic, partition, offset, timestamp, timestampType; optionally headers.

    The partitions are those of `starting_offsets`; its positions apply only if the checkpoint has none.
    """
    reader = spark.readStream.format("kafka").options(**source_options(java_properties, starting_offsets))
    return (
        reader.option("startingOffsets", _as_json(starting_offsets))
        .option("maxOffsetsPerTrigger", max_offsets_per_trigger)
        .option("includeHeaders", str(with_headers).lower())
        .option("kafka.isolation.level", "read_committed" if read_committed else "read_uncommitted")
        .load()
    )


def source_options(java_properties: Mapping[str, str], starting_offsets: StartingOffsets) -> dict[str, str]:
    """Return the options that the streaming read and the start-up check share."""
    partitions = {topic: sorted(offsets) for topic, offsets in starting_offsets.items()}
    client = {f"kafka.{name}": value for name, value in java_properties.items()}
    # Retention or an administrator may have deleted the records at the checkpoint's positions; the monitor must start
    # nevertheless.
    return {**client, **SPEED, "assign": json.dumps(partitions), "failOnDataLoss": "false"}


def _as_json(offsets: StartingOffsets) -> str:
    return json.dumps({topic: {str(p): at for p, at in each.items()} for topic, each in offsets.items()})


def delivers_rows(
    spark: SparkSession, java_properties: Mapping[str, str], topic: str, partition: int, positions: range
) -> bool:
    """Return whether Spark's source delivers any row for a range of positions, read as a batch."""
    at_start: StartingOffsets = {topic: {partition: positions.start}}
    reader = spark.read.format("kafka").options(**source_options(java_properties, at_start))
    reader = reader.option("startingOffsets", _as_json(at_start))
    reader = reader.option("endingOffsets", _as_json({topic: {partition: positions.stop}}))
    return bool(reader.load().select("offset").head(1))
