"""The Spark application: three queries, each started, supervised and restarted independently.

*membership* reads everything but offset commits (read-uncommitted) with a short trigger, so that rebalances are not
delayed. *activity* reads offset commits (read-committed), probes and client metrics, and packs them per group: an open
transaction delays this query only, by design. *diagnosis* reads the output of these two and determines causes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import rebalance_contract as contract
from rebalance_contract.epochs import RowWriter
from rebalance_kafka.clock import epoch_ms
from rebalance_kafka.properties import librdkafka_properties
from rebalance_streaming.background import repeat_until
from rebalance_streaming.brokers.cluster import QUIET
from rebalance_streaming.brokers.ownership import QueryOwnership
from rebalance_streaming.brokers.publisher import Publisher
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.diagnosis.horizon import ReadHorizon
from rebalance_streaming.diagnosis.inputs import StatusReader
from rebalance_streaming.diagnosis.process import DiagnosisError, DiagnosisProcess
from rebalance_streaming.errors import StreamError
from rebalance_streaming.spark.activity import ACTIVITY
from rebalance_streaming.spark.checkpoint import read_inputs
from rebalance_streaming.spark.class_archive import ClassArchive
from rebalance_streaming.spark.diagnosis import DIAGNOSIS, start_diagnosis
from rebalance_streaming.spark.input_queries import INPUT_QUERIES, QueryInputs, start_activity, start_membership
from rebalance_streaming.spark.membership import MEMBERSHIP
from rebalance_streaming.spark.offset_log import positions
from rebalance_streaming.spark.progress import CatchUp
from rebalance_streaming.spark.rebuilding import OnRead
from rebalance_streaming.spark.session import places_of, prefer_bulk, start_session
from rebalance_streaming.spark.spark_home import use_installed_pyspark
from rebalance_streaming.spark.startup import AskedRebuild, Listeners, Notify, OnLook, OnWait, await_cluster, prepare
from rebalance_streaming.spark.supervision import SupervisedQuery, stop_between_batches

#: Errors of a call if the JVM is gone; Py4JError is also the base of errors that the JVM returns (Py4JJavaError).
_NO_JVM = (Py4JError, ConnectionError)
_LOOK_SECONDS, _STATUS_SECONDS = 0.5, 2.0
#: Time limits at a stop. The last statuses are not worth a longer wait, as the next start publishes newer ones.
_FLUSH_SECONDS, _STOP_SLACK_SECONDS = 2.0, 5.0
#: Time limit for stopping a superseded stream: the other stream waits for it, and readers ignore its running batches.
_SUPERSEDED_STOP_SECONDS = 2.0
#: A first start with more positions of the log to read starts its queries in bulk mode (many rows per batch).
_BULK_POSITIONS = 500_000


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
    on_wait: OnWait = lambda _: None,
    on_read: OnRead = lambda *_: None,
    rebuild: bool = False,
    may_set_aside: bool = False,
) -> None:
    """Run the queries until `stop` is set, then finish the running batches.

    `rebuild` creates a new checkpoint from the published rows; `may_set_aside` allows it to rename an existing one.
    `cache` is a directory for files that make later starts faster; null: none.
    `notify` receives a line of text at every stage, `warn` one for each problem (null: `notify` receives it), `on_look`
    the status of all queries twice a second, `on_wait` why no broker answers yet, and null once one does, `on_read` the
    number of positions of the published topics that a rebuild has read, and their total number. Raises StreamError if
    the stream cannot start or fails.
    """
    stop, listeners = stop or threading.Event(), Listeners(notify, warn or notify, on_look, on_wait, on_read)
    found = await_cluster(config, listeners, stop)
    if found is None:
        return
    process = DiagnosisProcess(config, detect or DetectConfig(), found.ownership.epoch, listeners.warn)
    try:
        # Process and producer take up to a second until they can be used, which passes while Spark starts.
        if DIAGNOSIS in config.queries:
            process.launch()
        publisher = Publisher({**librdkafka_properties(config.kafka), **QUIET}, listeners.warn)
        to = _Publishing(config, publisher, listeners, found.ownership.epoch)
        with _session(config, [*jars], cache, listeners.warn) as (spark, archive):
            asked = AskedRebuild(rebuild, may_set_aside, stop)
            inputs = prepare(spark, config, found, listeners, asked=asked)
            _run_queries(spark, inputs, to, process, stop, archive=archive)
    except Py4JJavaError:
        raise
    except StreamError:
        # An error caused by a stop during the start is not a failure.
        if not stop.is_set():
            raise
    except _NO_JVM:
        raise StreamError(
            "Spark's JVM ended or does not answer: see its last output, and whether the machine ran out of memory or "
            "its heap was too small (stream.driver_memory); after a restart the stream continues where it stopped"
        ) from None
    finally:
        process.stop()
        found.ownership.stop()


@contextmanager
def _session(
    config: StreamConfig, jars: Sequence[Path], cache: Path | None, warn: Notify
) -> Iterator[tuple[SparkSession, ClassArchive | None]]:
    """Run Spark while the block runs; yield the session and the class archive, null without a cache or local master."""
    archive = None
    if cache is not None and config.master.startswith("local"):
        use_installed_pyspark(cache)
        archive = ClassArchive(cache, jars, warn)
    spark = start_session(config, jars, () if archive is None else archive.options())
    try:
        yield spark, archive
    finally:
        with suppress(*_NO_JVM):
            spark.stop()


def _run_queries(
    spark: SparkSession,
    inputs: QueryInputs,
    to: _Publishing,
    process: DiagnosisProcess,
    stop: threading.Event,
    *,
    archive: ClassArchive | None,
) -> None:
    config, listeners, ownership = to.config, to.listeners, inputs.ownership
    queries = _queries(
        spark, config, inputs, process, listeners.warn, is_ending=lambda: stop.is_set() or ownership.is_lost()
    )

    def archive_classes() -> None:
        if archive is not None:
            archive.write_later(spark, stop)

    with _publishing_statuses(queries, to):
        if ownership.await_handover(stop):
            listeners.notify("took over from another stream")
        _resume(spark, config, inputs, to)
        listeners.notify(f"reading {'the log' if config.reads_log else 'probes'} up")
        inputs.watched.start(listeners.warn)
        try:
            _watch(queries, process, inputs, to, stop, on_caught_up=archive_classes)
        finally:
            inputs.watched.stop()
            is_lost = ownership.is_lost()
            _stop_gracefully(queries, _SUPERSEDED_STOP_SECONDS if is_lost else config.stop_timeout_seconds)
            if is_lost:
                # Readers would ignore its undelivered rows, and the other stream waits for its end.
                process.end_now()
            process.stop()
            to.flush()


def _resume(spark: SparkSession, config: StreamConfig, inputs: QueryInputs, to: _Publishing) -> None:
    """Check for changes of the inputs since the checkpoint was written, and publish them before queries continue."""
    here = [name for name in INPUT_QUERIES if name in config.queries]
    kept = [read_inputs(spark, config.checkpoint, name, to.listeners.warn) for name in here]
    inputs.watched.raise_eras(each for each in kept if each is not None)
    inputs.watched.resume({name: positions(spark, config.checkpoint, name) for name in here}, to.listeners.warn)
    to.publish_totals(inputs.watched.changed_totals(epoch_ms()))


def _queries(
    spark: SparkSession,
    config: StreamConfig,
    inputs: QueryInputs,
    process: DiagnosisProcess,
    warn: Notify,
    *,
    is_ending: Callable[[], bool],
) -> list[SupervisedQuery]:
    read = inputs.read
    every: dict[str, tuple[int, CatchUp | None, Callable[[bool], StreamingQuery]]] = {
        # First, because the prober waits for its output.
        ACTIVITY: (
            config.activity_trigger_ms,
            CatchUp(read.topic, read.starts, read.ends.stable),
            lambda in_bulk: start_activity(spark, config, inputs, in_bulk=in_bulk),
        ),
        MEMBERSHIP: (
            config.membership_trigger_ms,
            CatchUp(read.topic, read.starts, read.ends.visible),
            lambda _: start_membership(spark, config, inputs),
        ),
        DIAGNOSIS: (
            config.diagnosis_trigger_ms,
            None,
            lambda _: start_diagnosis(
                spark,
                inputs.cluster,
                config,
                inputs.properties,
                process,
                on_starts=partial(inputs.watched.note_start, DIAGNOSIS),
                is_ending=is_ending,
            ),
        ),
    }
    return [
        SupervisedQuery(
            _initial_status(config, name, trigger_ms, catch_up, inputs.ownership),
            catch_up,
            _prepared(spark, start),
            warn,
            topic_prefix=config.topic_prefix,
            in_bulk=inputs.is_first_start and catch_up is not None and catch_up.wanted > _BULK_POSITIONS,
            places=places_of(config, spark.conf.get("spark.local.dir", None)),
        )
        for name, (trigger_ms, catch_up, start) in every.items()
        if name in config.queries
    ]


def _prepared(spark: SparkSession, start: Callable[[bool], StreamingQuery]) -> Callable[[bool], StreamingQuery]:
    def start_prepared(in_bulk: bool) -> StreamingQuery:
        prefer_bulk(spark, in_bulk=in_bulk)
        return start(in_bulk)

    return start_prepared


@dataclass(frozen=True, slots=True)
class _Publishing:
    """Publishes the health of the queries, in the epoch of this process. Thread-safe."""

    config: StreamConfig
    publisher: Publisher
    listeners: Listeners
    epoch: int
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def publish(self, status: contract.QueryStatus | contract.LogTotals) -> None:
        """Send a status; while brokers are unavailable, a query's next status replaces it."""
        writer = RowWriter(self.config.cluster, status.query, self.epoch)
        with self._lock:
            self.publisher.put(self.config.status_topic, contract.status_key(status), contract.encode(status), writer)
            self.publisher.send()

    def flush(self) -> None:
        """Wait up to 2 s for the delivery of what was published."""
        with self._lock:
            self.publisher.flush(_FLUSH_SECONDS)

    def publish_totals(self, rows: Sequence[contract.LogTotals]) -> None:
        """Publish eras before a query is started with them.

        If brokers do not take them in time, the checkpoint has them all the same (`prepare_checkpoint`).
        """
        for row in rows:
            self.publish(row)
        if rows:
            self.flush()


@contextmanager
def _publishing_statuses(queries: Sequence[SupervisedQuery], to: _Publishing) -> Iterator[None]:
    """Publish the statuses of the queries once, and then every two seconds while the block runs.

    In a thread of its own: starting or stopping a query, and requests while brokers are unavailable, take longer than
    the 5 s after which other processes would take this one for ended.
    """
    ended = threading.Event()

    def publish() -> None:
        for query in queries:
            to.publish(query.status)

    def wait_and_publish() -> None:
        if not ended.wait(_STATUS_SECONDS):
            publish()

    publish()
    to.flush()
    publishing = ended, wait_and_publish, "publishing the statuses of the queries", to.listeners.warn
    thread = threading.Thread(target=repeat_until, args=publishing, name="statuses", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_FLUSH_SECONDS)


def _watch(
    queries: list[SupervisedQuery],
    process: DiagnosisProcess,
    of: QueryInputs,
    to: _Publishing,
    stop: threading.Event,
    *,
    on_caught_up: Callable[[], None],
) -> None:
    config, watched = to.config, of.watched
    inputs = _InputStatus(queries, config)
    inputs.follow(stop, to.listeners.warn)
    announced = False
    ticking = stop, partial(_tick, inputs, process), "the clock of the diagnosis", to.listeners.warn
    threading.Thread(target=repeat_until, args=ticking, name="diagnosis-clock", daemon=True).start()
    while not stop.is_set():
        of.ownership.check()
        now_ms = epoch_ms()
        for query in queries:
            query.tend(now_ms, config.stall_seconds)
        watched.look(queries, to.listeners.warn)
        to.publish_totals(watched.changed_totals(now_ms))
        to.listeners.on_look([query.status for query in queries])
        # By the time of now: starting or stopping a query may have taken a while.
        _, caught_up = inputs.read(epoch_ms())
        if not announced and caught_up:
            announced = True
            to.listeners.notify(f"caught up with {'the log' if config.reads_log else 'probes'}")
            on_caught_up()
        stop.wait(_LOOK_SECONDS)


def _tick(inputs: _InputStatus, process: DiagnosisProcess) -> None:
    """Send a clock tick to the diagnosis, in a thread of its own, so that queries do not wait for a slow answer.

    Results are published with the next tick, so a tick follows as soon as a batch has been passed on.
    """
    process.await_rows(_LOOK_SECONDS)
    now_ms = epoch_ms()
    read_until_ms, caught_up = inputs.read(now_ms)
    with suppress(DiagnosisError):
        # The query reports the end of the process and restarts it.
        process.tick(now_ms, read_until_ms, caught_up=caught_up)


class _InputStatus:
    """The time up to which the inputs of the diagnosis have been read, by this process or by others with their queries.

    Thread-safe.
    """

    def __init__(self, queries: list[SupervisedQuery], config: StreamConfig) -> None:
        self._here = {each.name: each for each in queries}
        missing = [name for name in INPUT_QUERIES if name not in self._here]
        self._elsewhere = StatusReader(config, missing) if missing and DIAGNOSIS in config.queries else None
        self._horizon = ReadHorizon()
        self._lock = threading.Lock()

    def follow(self, stop: threading.Event, warn: Notify) -> None:
        """Start following the queries of other processes, if there are any, until `stop` is set."""
        if self._elsewhere is not None:
            self._elsewhere.follow(stop, warn)

    def read(self, now_ms: int) -> tuple[int, bool]:
        """Return (time up to which the diagnosis knows everything, whether the queries have caught up)."""
        known = [each.status for each in self._here.values()]
        if self._elsewhere is not None:
            known += self._elsewhere.read()
        caught_up = all(each.caught_up for each in known)
        inputs = [each for each in known if each.query != DIAGNOSIS]
        if {each.query for each in inputs} < set(INPUT_QUERIES):
            return 0, caught_up and self._elsewhere is None
        began_ms = next((min(each.read_until_ms, now_ms) for each in known if each.query == DIAGNOSIS), now_ms)
        with self._lock:
            for each in inputs:
                # It lies ahead if the clock here was set back, or that of another host is fast.
                self._horizon.note(each.query, min(each.read_until_ms, now_ms), now_ms)
            return self._horizon.until(began_ms), caught_up


def _stop_gracefully(queries: list[SupervisedQuery], timeout_seconds: float) -> None:
    """Stop each query between two batches if possible in time; an interrupted batch is repeated at the next start."""
    deadline = time.monotonic() + timeout_seconds
    # Daemon threads, so that a stop that is blocked by brokers does not block the end of the process.
    threads = [threading.Thread(target=_stop_one, args=(each, deadline), daemon=True) for each in queries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.1, deadline + _STOP_SLACK_SECONDS - time.monotonic()))


def _stop_one(query: SupervisedQuery, deadline: float) -> None:
    with suppress(*_NO_JVM):
        stop_between_batches(query, deadline)


def _initial_status(
    config: StreamConfig, query: str, trigger_ms: int, catch_up: CatchUp | None, ownership: QueryOwnership
) -> contract.QueryStatus:
    now = epoch_ms()
    return contract.QueryStatus(
        config.cluster,
        query,
        False,
        started_at_ms=now,
        updated_at_ms=now,
        trigger_ms=trigger_ms,
        wanted_records=0 if catch_up is None else catch_up.wanted,
        counted_from=config.counted_from,
        epoch=ownership.epoch,
        host=ownership.host,
        pid=ownership.pid,
    )
