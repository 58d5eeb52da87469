"""The Spark session, with the settings that this application needs to work and to be fast."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from rebalance_kafka.properties import java_system_properties
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.spark.jvm_output import logging_pipe

#: JVM options for a small heap. Without the first, half of the processor time of a start is spent on compiling code
#: that runs once. A heap of this size needs no collector with its own threads and tables. Its part for new objects
#: would grow by 80 MiB, for the same processor time. The room for compiled code is the default of a JVM with both
#: compilers: when most of the 48 MiB for the first one alone is used, after about a minute, the JVM drops code that it
#: soon compiles again, which takes all processors for some seconds. The free ratios let the heap grow only if little is
#: free after a full collection; otherwise it would take its maximum, of which a log of 5,000 groups needs a third.
#: Without the last option Spark continues after a thread has died of an OutOfMemoryError, and a batch that waits for
#: that thread never ends.
_SMALL_JVM = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xms200m",
    "-XX:MaxNewSize=64m",
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:MinHeapFreeRatio=15",
    "-XX:MaxHeapFreeRatio=25",
    "-XX:MaxDirectMemorySize=256m",
    "-XX:+ExitOnOutOfMemoryError",
)
#: Whether code is generated for projections. The Kafka source creates one per partition and batch: generating code for
#: it costs more than it saves for the few rows of a live batch (115 of 286 ms of processor time with 50 partitions),
#: but without it a million rows take 6 s more.
_CODE_GENERATION = "spark.sql.codegen.factoryMode"
#: Setting of the module from which Python workers are forked. With Spark's own module each worker imports everything:
#: 0.7 s of processor time and 55 MiB instead of 0.1 s and 36 MiB.
WORKERS_PARENT = "spark.python.daemon.module"
_LOCAL_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def session_options(config: StreamConfig) -> dict[str, str]:
    """Return the options that every query of the application needs, in any kind of session."""
    options = {
        # With its default admin-based look-up the Kafka source finds no partition of an internal topic and returns
        # no rows, silently.
        "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
        "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "128",
        # Lets a nullable field be added to the state schema later without a new checkpoint.
        "spark.sql.streaming.stateStore.encodingFormat": "avro",
        "spark.sql.shuffle.partitions": str(config.shuffle_partitions),
        # Each Arrow batch has a fixed cost in numpy, so it must not be small, and must be bounded.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        # Interval in milliseconds at which an idle query reports that it found no records.
        "spark.sql.streaming.noDataProgressEventInterval": "1000",
        # Spark sets it only for some kinds of Python tasks, and starts a separate daemon with its own workers for each
        # environment.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        # There is one Kafka client per query and partition: with 50 partitions, two queries exceed Spark's default of
        # 64, and each batch would create and close most of them.
        "spark.kafka.consumer.cache.capacity": "2048",
        # Without a limit, stopping a batch that does not react would block the supervision of all queries.
        "spark.sql.streaming.stopTimeout": "30s",
        # Spark's default pattern does not cover private keys in PEM and login modules.
        "spark.redaction.regex": r"(?i)secret|password|token|access[.]?key|jaas|keystore[.]key",
    }
    if is_local(config.checkpoint):
        # The default manager forks dozens of processes per batch on a local disk.
        options["spark.sql.streaming.checkpointFileManagerClass"] = _LOCAL_CHECKPOINTS
    return options


def prefer_bulk(spark: SparkSession, *, in_bulk: bool) -> None:
    """Optimise queries that are started from now on for many rows per batch, or for few."""
    spark.conf.set(_CODE_GENERATION, "FALLBACK" if in_bulk else "NO_CODEGEN")


def _own_process_options(config: StreamConfig, jars: Sequence[Path], jvm_options: Iterable[str]) -> dict[str, str]:
    """Return the options for a Spark started by this process; `spark-submit` sets its own."""
    if not config.master:
        return _jars(jars, "spark.jars", ",")
    log_settings = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"
    if config.master.startswith("local"):
        # Only this machine has to reach the driver.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # The jars need not be sent to executors; with spark.jars Spark would copy them for each run.
        connector = _jars(jars, "spark.driver.extraClassPath", os.pathsep)
    else:
        connector = _jars(jars, "spark.jars", ",")
    return {
        "spark.master": config.master,
        "spark.driver.memory": config.driver_memory,
        WORKERS_PARENT: "rebalance_streaming.spark.worker_daemon",
        "spark.driver.extraJavaOptions": " ".join((log_settings, *_SMALL_JVM, *jvm_options)),
        **connector,
        **_executor_options(config),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _jars(jars: Iterable[Path], name: str, separator: str) -> dict[str, str]:
    paths = separator.join(str(jar) for jar in jars)
    return {name: paths} if paths else {}


def _executor_options(config: StreamConfig) -> dict[str, str]:
    options = " ".join(f"-D{name}={value}" for name, value in java_system_properties(config.kafka).items())
    return {"spark.executor.extraJavaOptions": options} if options else {}


def is_local(checkpoint: str) -> bool:
    """Whether a checkpoint path is on this machine's file system."""
    return "://" not in checkpoint or checkpoint.startswith("file:")


def places_of(config: StreamConfig, local_directories: str | None) -> tuple[str, ...]:
    """Return the local directories to which queries write: the checkpoint, and Spark's local directories."""
    checkpoint = (config.checkpoint.removeprefix("file:"),) if is_local(config.checkpoint) else ()
    own = os.environ.get("SPARK_LOCAL_DIRS") or local_directories or tempfile.gettempdir()
    return (*checkpoint, *own.split(","))


def start_session(config: StreamConfig, jars: Iterable[Path] = (), jvm_options: Iterable[str] = ()) -> SparkSession:
    """Start Spark and return its session or, with an empty `master`, return the one that `spark-submit` started.

    `jars` are the Kafka connector and its dependencies; empty with `spark-submit --jars`. `jvm_options` are passed to a
    JVM that is started here.
    """
    # Otherwise workers use the first `python3` on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = {**session_options(config), **_own_process_options(config, [*jars], jvm_options)}
    if config.master:
        _start_jvm(options)
    builder = SparkSession.builder.appName("rebalance-monitor")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # The driver's JVM is already running, so its system properties must be set here.
    jvm: Any = session._jvm
    for name, value in java_system_properties(config.kafka).items():
        jvm.java.lang.System.setProperty(name, value)
    return session


def _start_jvm(options: Mapping[str, str]) -> None:
    """Start Spark's JVM in a process session of its own, unless one is already running.

    Otherwise a SIGTERM to this process's group, as sent by supervisors and shells, would end the JVM in the middle of a
    batch. The JVM always ends with this process, because it sees the end of its standard input.
    """
    if SparkContext._gateway is None:
        # RocksDB allocates from many threads; with an arena for each, memory would not be released.
        os.environ.setdefault("MALLOC_ARENA_MAX", "2")
        conf = SparkConf(loadDefaults=False).setAll(list(options.items()))
        with logging_pipe() as output:
            started = {"start_new_session": True, "stdout": output, "stderr": output}
            SparkContext._ensure_initialized(gateway=launch_gateway(conf, started))
