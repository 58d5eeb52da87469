"""Measures how long Spark alone takes to start and to read a log with two queries that drop every row.

The settings, the jars, the JVM's options and its archive of classes are those of the stream. This is a lower bound for
every program that reads the log with two Spark queries.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rebalance_deploy import jars
from rebalance_deploy.errors import UserError
from rebalance_devtools.bench.process_trees import CpuMeter, CpuUse, MemoryUse, PeakMemory
from rebalance_kafka.properties import java_properties
from rebalance_streaming.brokers.cluster import Cluster
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.spark.class_archive import ClassArchive
from rebalance_streaming.spark.session import prefer_bulk, start_session
from rebalance_streaming.spark.source import EARLIEST, read_log
from rebalance_streaming.spark.spark_home import use_installed_pyspark

_READ = "read"


@dataclass(frozen=True, slots=True)
class BareRead:
    """Time from the start of the process until both queries had read everything, and the resources used."""

    seconds: float
    cpu: CpuUse
    memory: MemoryUse


def measure(bootstrap: str, broker: int) -> BareRead:
    """Read the log of a broker once; `broker` is its process id. Raises UserError if Spark fails."""
    began = time.monotonic()
    command = [sys.executable, "-m", __name__, bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        roots: Mapping[str, int] = {"stream": process.pid}
        meter = CpuMeter(roots, broker)
        with PeakMemory(roots) as memory:
            said = process.stdout.readline().strip() if process.stdout is not None else ""
            seconds, cpu = time.monotonic() - began, meter.read()
        process.communicate()
    if said != _READ:
        raise UserError(f"Spark did not read the log: its process ended with exit code {process.returncode}")
    return BareRead(seconds, cpu, memory.peak)


def lines(found: BareRead) -> Iterator[str]:
    """Yield the result as a sentence."""
    yield (
        f"Spark alone, two queries that read the same log and drop it: {found.seconds:,.1f} s,"
        f" {found.cpu.total:,.1f} s of processor time and {found.cpu.broker:,.1f} s of the broker's,"
        f" {found.memory.total:,.0f} MiB; else on this machine {found.cpu.others / found.cpu.seconds:.1%} of a core."
    )


def _read(bootstrap: str) -> None:
    config = StreamConfig(kafka={"bootstrap.servers": bootstrap})
    ends, connector, cache = (
        Cluster(config).log_ends(config.source_topic),
        jars.resolve("connector"),
        jars.cache_directory(),
    )
    use_installed_pyspark(cache)
    spark = start_session(config, connector, ClassArchive(cache, connector).options())
    prefer_bulk(spark, in_bulk=True)
    start = {config.source_topic: dict.fromkeys(ends.visible, EARLIEST)}
    with tempfile.TemporaryDirectory(prefix="rebalance-monitor-bench-") as directory:
        queries = [
            read_log(
                spark,
                java_properties(config.kafka),
                start,
                read_committed=read_committed,
                max_offsets_per_trigger=config.max_offsets_per_trigger,
            )
            .writeStream.format("noop")
            .option("checkpointLocation", str(Path(directory) / str(read_committed)))
            .trigger(availableNow=True)
            .start()
            for read_committed in (True, False)
        ]
        for query in queries:
            query.awaitTermination()
        sys.stdout.write(f"{_READ}\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    _read(sys.argv[1])
