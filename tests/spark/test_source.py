"""Spark's Kafka source on an internal topic: the two traps, on a real broker."""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from coordinators import commit_offsets
from e2e.rig import read_topic
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_streaming.brokers.cluster import Cluster
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import StreamError
from rebalance_streaming.spark.source import EARLIEST, read_log
from rebalance_streaming.spark.startup import check_source_delivers
from rebalance_streaming.wire.records import OFFSETS_TOPIC

pytestmark = [pytest.mark.spark, pytest.mark.broker]

_FLAG = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"


@pytest.fixture(scope="module")
def config(broker: EmbeddedKafka) -> StreamConfig:
    """A cluster with commits of one group in its log."""
    settings = StreamConfig(kafka={"bootstrap.servers": broker.bootstrap})
    Cluster(settings).ensure_source()
    commit_offsets(broker.bootstrap, f"source-{uuid.uuid4()}", {(OFFSETS_TOPIC, 0): 1})
    return settings


def rows_of(spark: SparkSession, config: StreamConfig, directory: Path) -> int:
    """Return how many rows of the current log the streaming source delivers."""
    log = read_log(
        spark,
        config.kafka,
        {OFFSETS_TOPIC: dict.fromkeys(Cluster(config).log_ends(OFFSETS_TOPIC).visible, EARLIEST)},
        read_committed=False,
        max_offsets_per_trigger=1_000_000,
    )
    name = f"rows_{uuid.uuid4().hex}"
    writer = log.writeStream.format("memory").queryName(name).option("checkpointLocation", str(directory))
    writer.trigger(availableNow=True).start().awaitTermination()
    return spark.table(name).count()


@contextmanager
def without_the_flag(spark: SparkSession) -> Iterator[None]:
    """Run with Spark's default way to look up offsets."""
    spark.conf.set(_FLAG, "false")
    try:
        yield
    finally:
        spark.conf.set(_FLAG, "true")


def test_rows_of_the_offsets_topic_arrive(spark: SparkSession, config: StreamConfig, tmp_path: Path):
    """With the options of the stream's session the source delivers the content of the internal topic."""
    assert rows_of(spark, config, tmp_path) > 0


def test_the_source_leaves_no_group_behind(spark: SparkSession, config: StreamConfig, tmp_path: Path):
    """Reading with assigned partitions joins no consumer group, so it adds nothing to the watched log."""
    rows_of(spark, config, tmp_path)
    admin = AdminClient({**config.kafka, "log_level": 0})
    groups = {group.group_id for group in admin.list_consumer_groups().result().valid}
    assert not {group for group in groups if "spark" in group}
    keys = {key for key, _ in read_topic(config.kafka["bootstrap.servers"], OFFSETS_TOPIC)}
    assert keys
    assert not [key for key in keys if key and re.search(rb"spark-(kafka|executor)", key)]


def test_without_the_flag_the_source_finds_no_partition(spark: SparkSession, config: StreamConfig, tmp_path: Path):
    """The trap still exists: if Spark fixes it, the flag and the start-up check can be removed.

    With "earliest" it silently returns nothing; with positions, as in the stream, it fails.
    """
    with without_the_flag(spark):
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", config.kafka["bootstrap.servers"])
        assert reader.option("assign", f'{{"{OFFSETS_TOPIC}": [0, 1]}}').load().count() == 0
        with pytest.raises(StreamingQueryException, match="Assigned: Set"):
            rows_of(spark, config, tmp_path)


def test_the_start_up_check_notices_a_source_without_rows(spark: SparkSession, config: StreamConfig):
    """A monitor without input looks like a calm cluster, so it refuses to start and gives the reason."""
    cluster = Cluster(config)
    ends = cluster.log_ends(OFFSETS_TOPIC)
    check_source_delivers(spark, cluster, config.kafka, ends)
    with without_the_flag(spark), pytest.raises(StreamError, match="useDeprecatedOffsetFetching=true"):
        check_source_delivers(spark, cluster, config.kafka, ends)
