"""The Spark session and the settings without which this application does not work or is not fast."""

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

#: Half of the processor time of a start goes into compiling code that runs once, and a heap of this size needs no
#: collector with threads and tables of its own. It grows only where little is free after a full collection: else it
#: takes all it may have, of which a log of 5,000 groups needs a third. Without the last one Spark goes on when a
#: thread that others wait for ended for lack of memory, and its batch never does.
_SMALL_JVM = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xms200m",
    "-XX:MinHeapFreeRatio=15",
    "-XX:MaxHeapFreeRatio=25",
    "-XX:MaxDirectMemorySize=256m",
    "-XX:+ExitOnOutOfMemoryError",
)
#: Whether code is generated for projections. The Kafka source makes one per partition and batch: generating code for it
#: costs more than a live batch's few rows take (115 of 286 ms of processor time with 50 partitions), and without it a
#: million rows take 6 s more.
_CODE_GENERATION = "spark.sql.codegen.factoryMode"
#: The module that Python workers are forked from. Spark's own makes each of them import everything: 0.7 s of processor
#: time and 55 MiB instead of 0.1 s and 36 MiB.
WORKERS_PARENT = "spark.python.daemon.module"
_LOCAL_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def session_options(config: StreamConfig) -> dict[str, str]:
    """Return the options every query of the application needs, whoever starts the session."""
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
        # One Arrow batch is one round of numpy work: small ones waste it, unlimited ones are not bounded.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        # An idle query reports this often that it looked and found nothing.
        "spark.sql.streaming.noDataProgressEventInterval": "1000",
        # Spark sets it for some kinds of Python tasks only, and starts a parent of workers, with workers of its own,
        # for each environment.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        # One Kafka client per query and partition: with 50 partitions, two queries have more than Spark's 64, and each
        # batch would make and close most of them.
        "spark.kafka.consumer.cache.capacity": "2048",
        # Without a limit, stopping a batch that does not heed it would hold up whoever looks after all queries.
        "spark.sql.streaming.stopTimeout": "30s",
        # Spark's own pattern knows neither a private key in PEM nor a login module.
        "spark.redaction.regex": r"(?i)secret|password|token|access[.]?key|jaas|keystore[.]key",
    }
    if is_local(config.checkpoint):
        # The default manager forks dozens of processes per batch on a local disk.
        options["spark.sql.streaming.checkpointFileManagerClass"] = _LOCAL_CHECKPOINTS
    return options


def prefer_bulk(spark: SparkSession, *, in_bulk: bool) -> None:
    """Make queries that are started after this fast with many rows per batch, or with few."""
    spark.conf.set(_CODE_GENERATION, "FALLBACK" if in_bulk else "NO_CODEGEN")


def _own_process_options(config: StreamConfig, jars: Sequence[Path], jvm_options: Iterable[str]) -> dict[str, str]:
    """Return what only matters when this process starts Spark itself; `spark-submit` has its own."""
    if not config.master:
        return _jars(jars, "spark.jars", ",")
    log_settings = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"
    if config.master.startswith("local"):
        # Nobody but this machine has to reach the driver.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # No executor has to be sent the jars: Spark would copy them for each run.
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
    """Whether a checkpoint path lies on this machine's own file system."""
    return "://" not in checkpoint or checkpoint.startswith("file:")


def places_of(config: StreamConfig, local_directories: str | None) -> tuple[str, ...]:
    """Return the directories of this machine to which queries write: the checkpoint, and Spark's."""
    checkpoint = (config.checkpoint.removeprefix("file:"),) if is_local(config.checkpoint) else ()
    own = os.environ.get("SPARK_LOCAL_DIRS") or local_directories or tempfile.gettempdir()
    return (*checkpoint, *own.split(","))


def start_session(config: StreamConfig, jars: Iterable[Path] = (), jvm_options: Iterable[str] = ()) -> SparkSession:
    """Start Spark in this process or, with an empty `master`, join what `spark-submit` started.

    `jars` are the Kafka connector and what it needs; under `spark-submit --jars` there are none to add. `jvm_options`
    go to a JVM that is started here.
    """
    # Workers otherwise start whatever `python3` is first on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = {**session_options(config), **_own_process_options(config, [*jars], jvm_options)}
    if config.master:
        _start_jvm(options)
    builder = SparkSession.builder.appName("rebalance-monitor")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # The driver's JVM runs already, whoever started it.
    jvm: Any = session._jvm
    for name, value in java_system_properties(config.kafka).items():
        jvm.java.lang.System.setProperty(name, value)
    return session


def _start_jvm(options: Mapping[str, str]) -> None:
    """Start Spark's JVM in a process session of its own, unless one runs already.

    A SIGTERM to this process's group, as supervisors and shells send it, would end the JVM in the middle of a batch.
    The JVM ends when this process does, however that happens: it reads the end of its standard input.
    """
    if SparkContext._gateway is None:
        # RocksDB allocates from many threads; an arena each would be memory that nobody gives back.
        os.environ.setdefault("MALLOC_ARENA_MAX", "2")
        conf = SparkConf(loadDefaults=False).setAll(list(options.items()))
        with logging_pipe() as output:
            started = {"start_new_session": True, "stdout": output, "stderr": output}
            SparkContext._ensure_initialized(gateway=launch_gateway(conf, started))
