"""The Spark application: three queries, each started, watched and started again by itself.

*membership* reads everything but offset commits, uncommitted, with a short trigger: nothing may delay a rebalance.
*activity* reads offset commits, committed only, probes and client metrics, and packs them per group: an open
transaction holds it up, by design, and holds up nothing else. *diagnosis* reads what these two publish and says why.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import rebalance_contract as contract
from rebalance_contract.bounds import MAX_ROW_BYTES
from rebalance_kafka.properties import java_properties, librdkafka_properties
from rebalance_streaming.cluster import QUIET, Cluster, LogEnds
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.diagnosis.inputs import StatusReader
from rebalance_streaming.diagnosis.process import DiagnosisError, DiagnosisProcess
from rebalance_streaming.errors import StreamError
from rebalance_streaming.spark.activity import ACTIVITY, pack_activity
from rebalance_streaming.spark.checkpoint import Baseline, open_checkpoint, query_path
from rebalance_streaming.spark.class_archive import ClassArchive
from rebalance_streaming.spark.diagnosis import DIAGNOSIS, start_diagnosis
from rebalance_streaming.spark.inputs import WatchedInputs
from rebalance_streaming.spark.membership import MEMBERSHIP, fold_groups
from rebalance_streaming.spark.progress import NEWEST, CatchUp
from rebalance_streaming.spark.session import prefer_bulk, start_session
from rebalance_streaming.spark.source import EARLIEST, read_log, rows_in_range
from rebalance_streaming.spark.spark_home import use_installed_pyspark
from rebalance_streaming.spark.supervision import SupervisedQuery, root_cause

#: What a call raises when the JVM is gone; of the first kind is also what the JVM itself answers with (Py4JJavaError).
_NO_JVM = (Py4JError, ConnectionError)
#: The queries that the diagnosis waits for.
_INPUT_QUERIES = (MEMBERSHIP, ACTIVITY)
_LOOK_SECONDS, _STATUS_SECONDS = 0.5, 2.0
#: The last statuses are worth no more: at the next start there are newer ones.
_FLUSH_SECONDS, _STOP_SLACK_SECONDS = 2.0, 5.0
#: How many rows before its end a new checkpoint begins to read a topic of probes or of client metrics at.
_PROBES_BACK, _REPORTS_BACK = 20_000, 5_000
#: A first start that has more positions of the log to read prepares its queries for many rows per batch.
_BULK_POSITIONS = 500_000
#: How many positions before a partition's end the start-up check reads: more than any run of markers.
_CHECKED_POSITIONS = 1_000

Notify = Callable[[str], None]
OnLook = Callable[[Sequence[contract.QueryStatus]], None]


@dataclass(frozen=True, slots=True)
class _Ears:
    """Who is told what: `notify` what happens, `warn` what goes wrong, `on_look` how the queries are."""

    notify: Notify
    warn: Notify
    on_look: OnLook


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What the queries read, once it is known, and how to judge it."""

    cluster: Cluster
    detect: DetectConfig
    watched: WatchedInputs
    ends: LogEnds
    properties: Mapping[str, str]
    is_first_start: bool


def run(
    config: StreamConfig,
    detect: DetectConfig | None = None,
    *,
    jars: Iterable[Path] = (),
    cache: Path | None = None,
    stop: threading.Event | None = None,
    notify: Notify = lambda _: None,
    warn: Notify | None = None,
    on_look: OnLook = lambda _: None,
) -> None:
    """Run the queries until `stop` is set, then finish the running batches.

    `cache` is a directory for what makes later starts faster; null: there is none.
    `notify` receives a line for people at every stage, `warn` one for each thing that goes wrong (null: `notify` gets
    it), `on_look` the status of all queries twice a second. Raises StreamError when the stream cannot start or breaks.
    """
    stop, ears = stop or threading.Event(), _Ears(notify, warn or notify, on_look)
    _raise_problems(config)
    cluster = Cluster(config)
    cluster_id = cluster.check_reachable()
    cluster.ensure_source()
    ends = cluster.log_ends(config.source_topic)
    cluster.check_readable(ends)
    cluster.ensure_topics(ears.warn)
    cluster.check_foreign_topics()
    notify(f"cluster {cluster_id}: {len(ends.visible)} partitions of {config.source_topic}; starting Spark")
    jars, archive = [*jars], None
    if cache is not None and config.master.startswith("local"):
        use_installed_pyspark(cache)
        archive = ClassArchive(cache, jars)
    spark = start_session(config, jars, () if archive is None else archive.options())
    try:
        found = Baseline(cluster_id, config.source_topic, dict(ends.visible))
        baseline = open_checkpoint(spark, config.checkpoint, found)
        watched = WatchedInputs(config, cluster, baseline.first_live)
        properties = java_properties(config.kafka)
        # A checkpoint whose log has not grown since it was made is as good as a new one.
        is_first_start = baseline == found
        inputs = _Inputs(cluster, detect or DetectConfig(), watched, ends, properties, is_first_start)
        check_source_delivers(spark, cluster, inputs.properties, ends)
        _run_queries(spark, config, inputs, stop, ears=ears, archive=archive)
    except Py4JJavaError:
        raise
    except _NO_JVM:
        raise StreamError(
            "Spark's JVM ended or does not answer: see what it said last, and whether the machine ran out of memory or "
            "its heap was too small (stream.driver_memory); started again, the stream goes on where it was"
        ) from None
    finally:
        with suppress(*_NO_JVM):
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
        rows, reason = 0, root_cause(str(error))
    if rows == 0:
        raise StreamError(
            f"Spark cannot read {cluster.source_topic} although partition {partition} has records before {end} "
            f"({reason}); check that nothing overrides spark.sql.streaming.kafka.useDeprecatedOffsetFetching=true "
            "and that this client may read the topic"
        )


def _run_queries(
    spark: SparkSession,
    config: StreamConfig,
    inputs: _Inputs,
    stop: threading.Event,
    *,
    ears: _Ears,
    archive: ClassArchive | None,
) -> None:
    producer = Producer({**librdkafka_properties(config.kafka), **QUIET, "linger.ms": 50, "enable.idempotence": True})
    process = DiagnosisProcess(config, inputs.detect, ears.warn)
    queries = _queries(spark, config, inputs, process, ears.warn)

    def archive_classes() -> None:
        if archive is not None:
            threading.Thread(target=archive.write, args=(spark,), name="class-archive", daemon=True).start()

    ears.notify("reading the log up")
    inputs.watched.start()
    try:
        to = _Publishing(config, producer, ears)
        _watch(queries, process, inputs.watched, to, stop, on_caught_up=archive_classes)
    finally:
        inputs.watched.stop()
        _stop_gracefully(queries, config.stop_timeout_seconds)
        process.stop()
        producer.flush(_FLUSH_SECONDS)


def _queries(
    spark: SparkSession, config: StreamConfig, inputs: _Inputs, process: DiagnosisProcess, warn: Notify
) -> list[SupervisedQuery]:
    ends = inputs.ends
    every: dict[str, tuple[int, CatchUp | None, Callable[[], StreamingQuery]]] = {
        # First what the prober waits for.
        ACTIVITY: (
            config.activity_trigger_ms,
            CatchUp(config.source_topic, ends.earliest, ends.stable),
            lambda: _start_activity(spark, config, inputs),
        ),
        MEMBERSHIP: (
            config.membership_trigger_ms,
            CatchUp(config.source_topic, ends.earliest, ends.visible),
            lambda: _start_membership(spark, config, inputs),
        ),
        DIAGNOSIS: (
            config.diagnosis_trigger_ms,
            None,
            lambda: start_diagnosis(spark, inputs.cluster, config, inputs.properties, process),
        ),
    }
    return [
        SupervisedQuery(
            _initial_status(config, name, trigger_ms, catch_up),
            catch_up,
            _prepared(spark, start),
            warn,
            in_bulk=inputs.is_first_start and catch_up is not None and catch_up.wanted > _BULK_POSITIONS,
        )
        for name, (trigger_ms, catch_up, start) in every.items()
        if name in config.queries
    ]


def _prepared(spark: SparkSession, start: Callable[[], StreamingQuery]) -> Callable[[bool], StreamingQuery]:
    def start_prepared(in_bulk: bool) -> StreamingQuery:
        prefer_bulk(spark, in_bulk=in_bulk)
        return start()

    return start_prepared


@dataclass(frozen=True, slots=True)
class _Publishing:
    """Where the health of the queries goes."""

    config: StreamConfig
    producer: Producer
    ears: _Ears

    def publish(self, status: contract.QueryStatus | contract.LogTotals) -> None:
        """Queue a status; a full queue means the broker is away, and the next status replaces this one anyway."""
        with suppress(BufferError):
            key = f"{self.config.cluster}/{status.kind}/{status.query}"
            self.producer.produce(self.config.status_topic, key=key, value=contract.encode(status))
        self.producer.poll(0)


def _watch(
    queries: list[SupervisedQuery],
    process: DiagnosisProcess,
    watched: WatchedInputs,
    to: _Publishing,
    stop: threading.Event,
    *,
    on_caught_up: Callable[[], None],
) -> None:
    config = to.config
    inputs = _InputStatus(queries, config)
    announced, published = False, 0.0
    threading.Thread(target=_tick, args=(inputs, process, stop), name="diagnosis-clock", daemon=True).start()
    while not stop.wait(_LOOK_SECONDS):
        now_ms = _now_ms()
        for query in queries:
            query.tend(now_ms, config.stall_seconds)
        watched.look(queries, to.ears.warn)
        for totals in watched.changed_totals(now_ms):
            to.publish(totals)
        to.ears.on_look([query.status for query in queries])
        _, caught_up = inputs.read()
        if time.monotonic() - published >= _STATUS_SECONDS:
            published = time.monotonic()
            for query in queries:
                to.publish(query.status)
        if not announced and caught_up:
            announced = True
            to.ears.notify("caught up with the log")
            on_caught_up()


def _tick(inputs: _InputStatus, process: DiagnosisProcess, stop: threading.Event) -> None:
    """Tell the diagnosis the time, in a thread of its own: it may answer late, and no query is to wait for it.

    What follows from rows is published with the next tick, so one comes as soon as a batch was handed over.
    """
    while not stop.is_set():
        process.await_rows(_LOOK_SECONDS)
        read_until_ms, caught_up = inputs.read()
        with suppress(DiagnosisError):
            # Its query notices the end of the process, says so, and starts it again.
            process.tick(_now_ms(), read_until_ms, caught_up=caught_up)


class _InputStatus:
    """Up to when the inputs of the diagnosis have been read: by this process, or by others that run their queries."""

    def __init__(self, queries: list[SupervisedQuery], config: StreamConfig) -> None:
        # What the diagnosis itself has not read yet is not known to it either.
        self._here = {each.name: each for each in queries}
        missing = [name for name in _INPUT_QUERIES if name not in self._here]
        self._elsewhere = StatusReader(config, missing) if missing and DIAGNOSIS in config.queries else None

    def read(self) -> tuple[int, bool]:
        """Return (time before which everything has been read, whether the log has been read up)."""
        known = [each.status for each in self._here.values()]
        if self._elsewhere is not None:
            known += self._elsewhere.read()
        if self._elsewhere is not None and not {each.query for each in known} >= set(_INPUT_QUERIES):
            return 0, False
        return min(each.read_until_ms for each in known), all(each.caught_up for each in known)


def _stop_gracefully(queries: list[SupervisedQuery], timeout_seconds: float) -> None:
    """Stop each query between two batches if it gets there in time; a cut batch is run again at the next start."""
    deadline = time.monotonic() + timeout_seconds
    # A stop that brokers hold up must not hold up the process: it is left to end with it.
    threads = [threading.Thread(target=_stop_one, args=(each, deadline), daemon=True) for each in queries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.1, deadline + _STOP_SLACK_SECONDS - time.monotonic()))


def _stop_one(query: SupervisedQuery, deadline: float) -> None:
    with suppress(*_NO_JVM):
        while time.monotonic() < deadline and not query.is_between_batches():
            time.sleep(0.02)
        query.stop_now()


def _start_membership(spark: SparkSession, config: StreamConfig, inputs: _Inputs) -> StreamingQuery:
    start = {
        config.source_topic: dict.fromkeys(inputs.cluster.log_ends(config.source_topic).visible, EARLIEST),
        config.probes_topic: inputs.cluster.recent_offsets(config.probes_topic, _PROBES_BACK),
    }
    log = read_log(
        spark,
        inputs.properties,
        start,
        read_committed=False,
        max_offsets_per_trigger=config.max_offsets_per_trigger,
    )
    rows = fold_groups(_observe_newest(log), config, inputs.watched.eras(MEMBERSHIP))
    return _start(rows, config, inputs, MEMBERSHIP)


def _start_activity(spark: SparkSession, config: StreamConfig, inputs: _Inputs) -> StreamingQuery:
    start: dict[str, Mapping[int, int]] = {
        config.source_topic: dict.fromkeys(inputs.cluster.log_ends(config.source_topic).visible, EARLIEST),
        config.probes_topic: inputs.cluster.recent_offsets(config.probes_topic, _PROBES_BACK),
    }
    for topic in config.foreign_topics:
        start[topic] = inputs.cluster.recent_offsets(topic, _REPORTS_BACK)
    log = read_log(
        spark,
        inputs.properties,
        start,
        read_committed=True,
        max_offsets_per_trigger=config.max_offsets_per_trigger,
        with_headers=True,
    )
    rows = pack_activity(_observe_newest(log), config, inputs.watched.eras(ACTIVITY))
    return _start(rows.withColumn("topic", F.lit(config.activity_topic)), config, inputs, ACTIVITY)


def _observe_newest(log: DataFrame) -> DataFrame:
    return log.observe(NEWEST, F.max(F.unix_millis("timestamp")).alias(NEWEST))


def _start(rows: DataFrame, config: StreamConfig, inputs: _Inputs, name: str) -> StreamingQuery:
    trigger_ms = config.activity_trigger_ms if name == ACTIVITY else config.membership_trigger_ms
    client = {f"kafka.{key}": value for key, value in inputs.properties.items()}
    writer = rows.writeStream.format("kafka").queryName(name).outputMode("append").options(**client)
    # Rows are bounded (rebalance_contract.bounds); the client's own limit must not be the smaller one.
    writer = writer.option("kafka.max.request.size", str(2 * MAX_ROW_BYTES))
    writer = writer.option("checkpointLocation", query_path(config.checkpoint, name))
    return writer.trigger(processingTime=f"{trigger_ms} milliseconds").start()


def _initial_status(
    config: StreamConfig, query: str, trigger_ms: int, catch_up: CatchUp | None
) -> contract.QueryStatus:
    now = _now_ms()
    return contract.QueryStatus(
        config.cluster,
        query,
        False,
        started_at_ms=now,
        updated_at_ms=now,
        trigger_ms=trigger_ms,
        wanted_records=0 if catch_up is None else catch_up.wanted,
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
