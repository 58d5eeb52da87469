"""The newest timestamp that Spark reports with the progress of a batch."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rebalance_devtools.bench import fill
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.spark.activity import pack_activity
from rebalance_streaming.spark.membership import PublishedRows, _address

pytestmark = pytest.mark.spark

CONFIG = StreamConfig(cluster="prod")
T0 = 1_000_000_000_000
_SCHEMA = (
    "topic string, partition int, offset long, at_ms long, key binary, value binary,"
    " headers array<struct<key: string, value: binary>>"
)


def source(spark: SparkSession, *rows: tuple[str, int, bytes, bytes]) -> DataFrame:
    """Return rows (topic, offset, key, value) as Spark's source does, each a millisecond per offset after `T0`."""
    frame = spark.createDataFrame([(topic, 7, at, T0 + at, *kept, None) for topic, at, *kept in rows], _SCHEMA)
    columns = "topic", "partition", "offset", "timestamp_millis(at_ms) timestamp", "key", "value", "headers"
    return frame.selectExpr(*columns)


def commit(at: int) -> tuple[str, int, bytes, bytes]:
    """Return an offset commit at a position of the log."""
    return CONFIG.source_topic, at, fill.commit_key("g", "orders", 0), fill.commit_value(at, T0 + at)


def group_record(at: int) -> tuple[str, int, bytes, bytes]:
    """Return a record of a group's metadata at a position of the log."""
    return CONFIG.source_topic, at, fill.group_key("g"), fill.group_value(1, 1, T0 + at)


def report(at: int) -> tuple[str, int, bytes, bytes]:
    """Return a message of another topic, of which this one has more than the log."""
    return CONFIG.metrics_topic, at, b"", b"{}"


def newest_ms(frame: DataFrame) -> int:
    """Run a batch, and return the newest timestamp that Spark reports."""
    frame.collect()
    metrics: Any = frame._jdf.queryExecution().observedMetrics()
    return int(metrics.apply("newest").getLong(0))


def test_packed_commits_have_the_time_of_the_newest_record_of_the_log(spark: SparkSession):
    """Not of the client metrics, which are read separately."""
    packed = pack_activity(source(spark, commit(3), commit(250), group_record(400), report(9_000)), CONFIG, {})
    assert packed.columns == ["key", "value"]
    assert newest_ms(packed) == T0 + 250


def test_the_membership_query_knows_how_far_the_log_is_read_from_some_commits(spark: SparkSession):
    """A calm cluster has no group record for hours; commits themselves stay in the JVM."""
    log = source(spark, group_record(10), *map(commit, range(101, 350)))
    addressed = _address(log, CONFIG, {}, PublishedRows())
    assert [row["name"] for row in addressed.collect() if row["name"] != CONFIG.source_topic] == ["g"]
    assert newest_ms(addressed) == T0 + 300
