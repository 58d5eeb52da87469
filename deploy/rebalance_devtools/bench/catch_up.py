"""Measures how fast the stream reads a full log, compared with Spark reading the same log and doing nothing."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession

from rebalance_deploy import jars
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_devtools.bench import fill
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.spark.activity import pack_activity
from rebalance_streaming.spark.membership import fold_groups
from rebalance_streaming.spark.session import start_session
from rebalance_streaming.spark.source import EARLIEST, read_log
from rebalance_streaming.wire.partitioner import partition_for_group

_COMMITS, _GROUPS, _PARTITIONS = 2_000_000, 1_000, 100
_ROUNDS = 3
_TOPIC = "bench-offsets"

Query = Callable[[DataFrame], DataFrame]


def measure() -> Iterator[str]:
    """Yield the table's lines: median of several rounds, stages alternating, everything on this machine."""
    # Without the quick-start options, which make a warm broker slow.
    with EmbeddedKafka(jvm_options=("-Xmx1g",)) as broker:
        fill.create_log(broker.bootstrap, _TOPIC)
        written = fill.write(broker.bootstrap, _TOPIC, fill.commits(_COMMITS, _GROUPS, _PARTITIONS))
        written += fill.write(broker.bootstrap, _TOPIC, _group_records())
        config = StreamConfig(kafka={"bootstrap.servers": broker.bootstrap}, source_topic=_TOPIC, driver_memory="2g")
        spark = start_session(config, jars.resolve("connector"))
        try:
            yield from _table(spark, config, written)
        finally:
            spark.stop()


def _group_records() -> Iterator[tuple[int, bytes, bytes]]:
    now_ms = int(time.time() * 1000)
    for number in range(_GROUPS):
        group = f"group-{number:05d}"
        partition = partition_for_group(group, fill.LOG_PARTITIONS)
        yield partition, fill.group_key(group), fill.group_value(1, 3, now_ms)


def _table(spark: SparkSession, config: StreamConfig, written: int) -> Iterator[str]:
    two_tasks = dataclasses.replace(config, source_tasks=2)
    stages: dict[str, tuple[Query, bool]] = {
        "bare: Spark reads and drops": (lambda log: log, True),
        "activity query, 1 task (default)": (lambda log: pack_activity(log, config, {}), True),
        "activity query, 2 tasks": (lambda log: pack_activity(log, two_tasks, {}), True),
        "membership query, 1 task (default)": (lambda log: fold_groups(log, config, {}), False),
    }
    rates: dict[str, list[float]] = {stage: [] for stage in stages}
    for number in range(_ROUNDS + 1):
        for stage, (query, read_committed) in stages.items():
            rate = _rate(spark, config, query, written, read_committed=read_committed)
            # The first round only warms up the JVM and the broker's page cache.
            if number:
                rates[stage].append(rate)
    bare = median(rates["bare: Spark reads and drops"])
    yield f"{written:,} records ({_COMMITS:,} commits of {_GROUPS:,} groups x {_PARTITIONS} partitions), up to "
    yield f"{config.max_offsets_per_trigger:,} per batch, broker on the same 2 cores, median of {_ROUNDS} rounds"
    yield ""
    yield "| stage | k records/s | ratio to bare | min - max |"
    yield "|---|---:|---:|---:|"
    for stage, found in rates.items():
        yield f"| {stage} | {median(found):,.0f} | {median(found) / bare:.2f} | {min(found):,.0f} - {max(found):,.0f} |"


def _rate(spark: SparkSession, config: StreamConfig, query: Query, written: int, *, read_committed: bool) -> float:
    """Run a query over the whole log once and return thousands of records per second."""
    checkpoint = Path(tempfile.mkdtemp(prefix="rebalance-monitor-bench-"))
    log = read_log(
        spark,
        dict(config.kafka),
        {_TOPIC: dict.fromkeys(range(fill.LOG_PARTITIONS), EARLIEST)},
        read_committed=read_committed,
        max_offsets_per_trigger=config.max_offsets_per_trigger,
        with_headers=True,
    )
    writer = query(log).writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    began = time.perf_counter()
    running = writer.trigger(availableNow=True).start()
    running.awaitTermination()
    seconds = time.perf_counter() - began
    shutil.rmtree(checkpoint)
    return written / seconds / 1000
