"""The Spark application: three queries, started, watched and stopped as one.

*membership* reads everything but offset commits, uncommitted, with a short trigger: nothing may delay a rebalance.
*commits* reads offset commits, committed only, and packs them per group: an open transaction holds it up, by design,
and holds up nothing else. *diagnosis* reads what these two publish, probes and client metrics, and says why.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from rebalance_streaming.cluster import QUIET, Cluster, LogEnds, java_properties
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.errors import StreamError
from rebalance_streaming.groups import events
from rebalance_streaming.spark.checkpoint import Baseline, open_checkpoint, query_path
from rebalance_streaming.spark.commit_summaries import summarise_commits
from rebalance_streaming.spark.diagnosis import Diagnosis, Output, read_open_findings, start_diagnosis
from rebalance_streaming.spark.envelopes import to_envelopes
from rebalance_streaming.spark.progress import NEWEST, CatchUp, ProgressListener
from rebalance_streaming.spark.session import start_session
from rebalance_streaming.spark.source import EARLIEST, read_log, rows_in_range
from rebalance_streaming.spark.stateful import fold_groups

MEMBERSHIP, COMMITS = "membership", "commits"
_HEARTBEAT_SECONDS = 2.0
#: How many positions before a partition's end the start-up check reads: more than any run of markers.
_CHECKED_POSITIONS = 1_000
#: Spark gives the Python process that plans a stateful query 10 s to start, which no setting changes
#: (PythonWorkerFactory); a machine that is busy may need longer.
_SLOW_START = "Python worker failed to connect back"
_START_ATTEMPTS, _START_SECONDS = 5, 120.0

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What the queries read, once it is known, and how to judge it."""

    cluster: Cluster
    detect: DetectConfig
    baseline: Baseline
    ends: LogEnds
    properties: Mapping[str, str]


def run(
    config: StreamConfig,
    detect: DetectConfig | None = None,
    *,
    jars: Iterable[Path] = (),
    stop: threading.Event | None = None,
    notify: Notify = lambda _: None,
) -> None:
    """Run the queries until `stop` is set, then finish the running batches.

    `notify` receives a line for people at every stage. Raises StreamError when the stream cannot start or breaks.
    """
    stop = stop or threading.Event()
    _raise_problems(config)
    cluster = Cluster(config)
    cluster_id = cluster.check_reachable()
    cluster.ensure_source()
    ends = cluster.log_ends(config.source_topic)
    cluster.check_readable(ends)
    cluster.ensure_topics()
    cluster.check_metric_topics()
    commits_ends, probes_ends = cluster.log_ends(config.commits_topic), cluster.log_ends(config.probes_topic)
    notify(f"cluster {cluster_id}: {len(ends.visible)} partitions of {config.source_topic}; starting Spark")
    spark = start_session(config, jars)
    try:
        found = Baseline(
            cluster_id,
            config.source_topic,
            dict(ends.visible),
            dict(commits_ends.visible),
            dict(probes_ends.visible),
        )
        baseline = open_checkpoint(spark, config.checkpoint, found)
        inputs = _Inputs(cluster, detect or DetectConfig(), baseline, ends, java_properties(config.kafka))
        check_source_delivers(spark, cluster, inputs.properties, ends)
        _run_queries(spark, config, inputs, stop, notify)
    finally:
        spark.stop()


def _raise_problems(config: StreamConfig) -> None:
    problems = config.validate()
    if problems:
        raise StreamError("; ".join(problems))


def check_source_delivers(spark: SparkSession, cluster: Cluster, properties: Mapping[str, str], ends: LogEnds) -> None:
    """Make sure that Spark's source returns rows for a log that has some.

    Raises StreamError when it does not: the source fails silently for internal topics, and a monitor that sees
    nothing looks exactly like a calm cluster.
    """
    partition = max(ends.visible, key=lambda p: ends.visible[p] - ends.earliest[p])
    end = ends.visible[partition]
    positions = range(max(ends.earliest[partition], end - _CHECKED_POSITIONS), end)
    if not cluster.has_record(partition, positions):
        return
    try:
        rows, reason = rows_in_range(spark, properties, cluster.source_topic, partition, positions), "no rows"
    except (Py4JJavaError, PySparkException) as error:
        rows, reason = 0, _root_cause(str(error))
    if rows == 0:
        raise StreamError(
            f"Spark cannot read {cluster.source_topic} although partition {partition} has records before {end} "
            f"({reason}); check that nothing overrides spark.sql.streaming.kafka.useDeprecatedOffsetFetching=true "
            "and that this client may read the topic"
        )


def _run_queries(
    spark: SparkSession, config: StreamConfig, inputs: _Inputs, stop: threading.Event, notify: Notify
) -> None:
    producer = Producer({**config.kafka, **QUIET, "linger.ms": 50})
    listener = ProgressListener(_publisher(producer, config), _now_ms)
    spark.streams.addListener(listener)
    listener.watch(_initial_status(config, MEMBERSHIP), CatchUp(config.source_topic, inputs.ends.visible))
    listener.watch(_initial_status(config, COMMITS), CatchUp(config.source_topic, inputs.ends.stable))
    diagnosis = Diagnosis(config, inputs.detect, _row_publisher(producer, notify))
    diagnosis.restore(read_open_findings(config))
    # One after the other: each first batch starts Python processes and wants the whole machine.
    queries = [_start_patiently(lambda: _start_membership(spark, config, inputs), stop)]
    queries.append(_start_commits(spark, config, inputs))
    queries.append(start_diagnosis(spark, inputs.cluster, config, inputs.properties, diagnosis))
    notify("all queries run; reading the log up")
    try:
        _watch(queries, listener, diagnosis, stop, notify)
    finally:
        _stop_gracefully(queries, config.stop_timeout_seconds)
        spark.streams.removeListener(listener)
        producer.flush(5)


def _start_patiently(start: Callable[[], StreamingQuery], stop: threading.Event) -> StreamingQuery:
    """Start a stateful query and wait for its first batch; start it again where its Python process was too slow."""
    for _ in range(_START_ATTEMPTS - 1):
        query = start()
        deadline = time.monotonic() + _START_SECONDS
        while query.isActive and not _is_under_way(query) and time.monotonic() < deadline and not stop.wait(0.1):
            pass
        if query.isActive or _SLOW_START not in str(query.exception()):
            return query
    return start()


def _is_under_way(query: StreamingQuery) -> bool:
    return query.lastProgress is not None or query.status["message"].startswith("Waiting")


def _watch(
    queries: list[StreamingQuery],
    listener: ProgressListener,
    diagnosis: Diagnosis,
    stop: threading.Event,
    notify: Notify,
) -> None:
    announced = False
    while not stop.wait(_HEARTBEAT_SECONDS):
        listener.heartbeat()
        diagnosis.tick(_now_ms(), caught_up=listener.caught_up(), read_until_ms=listener.read_until_ms())
        for query in queries:
            if not query.isActive:
                raise StreamError(_why_it_ended(query))
        if not announced and listener.caught_up():
            announced = True
            notify("caught up with the log")


def _why_it_ended(query: StreamingQuery) -> str:
    error: StreamingQueryException | None = query.exception()
    reason = "without an error" if error is None else _root_cause(str(error))
    return f"the {query.name} query ended: {reason}; it resumes where it was when started again"


def _root_cause(text: str) -> str:
    """Return the line of a Spark error that says what happened, not the ones that say where."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith(("at ", "==="))]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or ["unknown"])[-1 if causes else 0][:500]


def _stop_gracefully(queries: list[StreamingQuery], timeout_seconds: float) -> None:
    """Stop each query between two batches if it gets there in time; a cut batch is run again at the next start."""
    deadline = time.monotonic() + timeout_seconds
    for query in queries:
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(0.02)
        query.stop()


def _start_membership(spark: SparkSession, config: StreamConfig, inputs: _Inputs) -> StreamingQuery:
    start = {
        config.source_topic: dict.fromkeys(inputs.ends.visible, EARLIEST),
        config.commits_topic: dict(inputs.baseline.commits_start),
        config.probes_topic: dict(inputs.baseline.probes_start),
    }
    log = read_log(
        spark,
        inputs.properties,
        start,
        read_committed=False,
        max_offsets_per_trigger=config.max_offsets_per_trigger,
    )
    envelopes = to_envelopes(_observe_newest(log), config, dict(inputs.baseline.first_live))
    return _start(fold_groups(envelopes, config), config, inputs, MEMBERSHIP, config.membership_trigger_ms)


def _start_commits(spark: SparkSession, config: StreamConfig, inputs: _Inputs) -> StreamingQuery:
    log = read_log(
        spark,
        inputs.properties,
        {config.source_topic: dict.fromkeys(inputs.ends.visible, EARLIEST)},
        read_committed=True,
        max_offsets_per_trigger=config.max_offsets_per_trigger,
    )
    rows = summarise_commits(_observe_newest(log), config).withColumn("topic", F.lit(config.commits_topic))
    return _start(rows, config, inputs, COMMITS, config.commits_trigger_ms)


def _observe_newest(log: DataFrame) -> DataFrame:
    return log.observe(NEWEST, F.max(F.unix_millis("timestamp")).alias(NEWEST))


def _start(rows: DataFrame, config: StreamConfig, inputs: _Inputs, name: str, trigger_ms: int) -> StreamingQuery:
    client = {f"kafka.{key}": value for key, value in inputs.properties.items()}
    writer = rows.writeStream.format("kafka").queryName(name).outputMode("append").options(**client)
    writer = writer.option("checkpointLocation", query_path(config.checkpoint, name))
    return writer.trigger(processingTime=f"{trigger_ms} milliseconds").start()


def _initial_status(config: StreamConfig, query: str) -> events.QueryStatus:
    now = _now_ms()
    trigger_ms = config.membership_trigger_ms if query == MEMBERSHIP else config.commits_trigger_ms
    return events.QueryStatus(config.cluster, query, False, started_at_ms=now, updated_at_ms=now, trigger_ms=trigger_ms)


def _publisher(producer: Producer, config: StreamConfig) -> Callable[[events.QueryStatus], None]:
    def publish(status: events.QueryStatus) -> None:
        # A full queue means the broker is away: the next status replaces this one anyway.
        with suppress(BufferError):
            key = f"{config.cluster}/query/{status.query}"
            producer.produce(config.status_topic, key=key, value=events.encode(status))
        producer.poll(0)

    return publish


def _row_publisher(producer: Producer, notify: Callable[[str], None]) -> Callable[[Output], None]:
    def publish(row: Output) -> None:
        topic, key, value = row
        while True:
            try:
                producer.produce(topic, key=key, value=value)
            except BufferError:
                producer.poll(0.1)
                continue
            except KafkaException as error:
                # The stream outlives a row that no broker would take.
                notify(f"a row of {topic} with key {key} was left out: {error}")
            producer.poll(0)
            return

    return publish


def _now_ms() -> int:
    return int(time.time() * 1000)
