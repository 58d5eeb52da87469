"""The Spark application: three queries, each started, watched and started again by itself.

*membership* reads everything but offset commits, uncommitted, with a short trigger: nothing may delay a rebalance.
*activity* reads offset commits, committed only, probes and client metrics, and packs them per group: an open
transaction holds it up, by design, and holds up nothing else. *diagnosis* reads what these two publish and says why.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import rebalance_contract as contract
from rebalance_contract.epochs import RowWriter
from rebalance_kafka.clock import epoch_ms
from rebalance_kafka.properties import librdkafka_properties
from rebalance_streaming.cluster import QUIET
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.diagnosis.horizon import ReadHorizon
from rebalance_streaming.diagnosis.inputs import StatusReader
from rebalance_streaming.diagnosis.process import DiagnosisError, DiagnosisProcess
from rebalance_streaming.errors import StreamError
from rebalance_streaming.ownership import QueryOwnership
from rebalance_streaming.publisher import Publisher
from rebalance_streaming.spark.activity import ACTIVITY
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

#: What a call raises when the JVM is gone; of the first kind is also what the JVM itself answers with (Py4JJavaError).
_NO_JVM = (Py4JError, ConnectionError)
_LOOK_SECONDS, _STATUS_SECONDS = 0.5, 2.0
#: The last statuses are worth no more: at the next start there are newer ones.
_FLUSH_SECONDS, _STOP_SLACK_SECONDS = 2.0, 5.0
#: The other stream waits for the end of a superseded one, whose running batches count for nobody.
_SUPERSEDED_STOP_SECONDS = 2.0
#: A first start that has more positions of the log to read prepares its queries for many rows per batch.
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

    `rebuild` begins a new checkpoint with what was published; `may_set_aside` lets it move one that is there.
    `cache` is a directory for what makes later starts faster; null: there is none.
    `notify` receives a line for people at every stage, `warn` one for each thing that goes wrong (null: `notify` gets
    it), `on_look` the status of all queries twice a second, `on_wait` why no broker answers yet, and null once one
    does, `on_read` how many positions of the published topics a rebuild has read, and of how many. Raises StreamError
    when the stream cannot start or breaks.
    """
    stop, listeners = stop or threading.Event(), Listeners(notify, warn or notify, on_look, on_wait, on_read)
    found = await_cluster(config, listeners, stop)
    if found is None:
        return
    try:
        with _session(config, [*jars], cache) as (spark, archive):
            asked = AskedRebuild(rebuild, may_set_aside, stop)
            inputs = prepare(spark, config, detect or DetectConfig(), found, listeners, asked=asked)
            _run_queries(spark, config, inputs, stop, listeners=listeners, archive=archive)
    except Py4JJavaError:
        raise
    except StreamError:
        # A stop that cuts a start short is no failure.
        if not stop.is_set():
            raise
    except _NO_JVM:
        raise StreamError(
            "Spark's JVM ended or does not answer: see its last output, and whether the machine ran out of memory or "
            "its heap was too small (stream.driver_memory); after a restart the stream continues where it stopped"
        ) from None
    finally:
        found.ownership.stop()


@contextmanager
def _session(
    config: StreamConfig, jars: Sequence[Path], cache: Path | None
) -> Iterator[tuple[SparkSession, ClassArchive | None]]:
    """Run Spark while the block runs, with the archive of classes that this machine has or is to have."""
    archive = None
    if cache is not None and config.master.startswith("local"):
        use_installed_pyspark(cache)
        archive = ClassArchive(cache, jars)
    spark = start_session(config, jars, () if archive is None else archive.options())
    try:
        yield spark, archive
    finally:
        with suppress(*_NO_JVM):
            spark.stop()


def _run_queries(
    spark: SparkSession,
    config: StreamConfig,
    inputs: QueryInputs,
    stop: threading.Event,
    *,
    listeners: Listeners,
    archive: ClassArchive | None,
) -> None:
    publisher = Publisher({**librdkafka_properties(config.kafka), **QUIET}, listeners.warn)
    ownership = inputs.ownership
    process = DiagnosisProcess(config, inputs.detect, ownership.epoch, listeners.warn)
    queries = _queries(
        spark, config, inputs, process, listeners.warn, is_ending=lambda: stop.is_set() or ownership.is_lost()
    )

    def archive_classes() -> None:
        if archive is not None:
            archive.write_later(spark, stop)

    to = _Publishing(config, publisher, listeners, ownership.epoch)
    for query in queries:
        to.publish(query.status)
    publisher.flush(_FLUSH_SECONDS)
    if ownership.await_handover(stop):
        listeners.notify("took over from another stream")
    _resume(spark, config, inputs, to)
    listeners.notify(f"reading {'the log' if config.reads_log else 'probes'} up")
    inputs.watched.start()
    try:
        _watch(queries, process, inputs, to, stop, on_caught_up=archive_classes)
    finally:
        inputs.watched.stop()
        is_lost = ownership.is_lost()
        _stop_gracefully(queries, _SUPERSEDED_STOP_SECONDS if is_lost else config.stop_timeout_seconds)
        if is_lost:
            # Nobody reads what it has not delivered yet, and the other stream waits for its end.
            process.end_now()
        process.stop()
        publisher.flush(_FLUSH_SECONDS)


def _resume(spark: SparkSession, config: StreamConfig, inputs: QueryInputs, to: _Publishing) -> None:
    """Find out what befell the inputs since the checkpoint was written, and publish it before a query goes on there."""
    here = [name for name in INPUT_QUERIES if name in config.queries]
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
    every: dict[str, tuple[int, CatchUp | None, Callable[[], StreamingQuery]]] = {
        # First what the prober waits for.
        ACTIVITY: (
            config.activity_trigger_ms,
            CatchUp(read.topic, read.starts, read.ends.stable),
            lambda: start_activity(spark, config, inputs),
        ),
        MEMBERSHIP: (
            config.membership_trigger_ms,
            CatchUp(read.topic, read.starts, read.ends.visible),
            lambda: start_membership(spark, config, inputs),
        ),
        DIAGNOSIS: (
            config.diagnosis_trigger_ms,
            None,
            lambda: start_diagnosis(spark, inputs.cluster, config, inputs.properties, process, is_ending=is_ending),
        ),
    }
    return [
        SupervisedQuery(
            _initial_status(config, name, trigger_ms, catch_up, inputs.ownership),
            catch_up,
            _prepared(spark, start),
            warn,
            in_bulk=inputs.is_first_start and catch_up is not None and catch_up.wanted > _BULK_POSITIONS,
            places=places_of(config, spark.conf.get("spark.local.dir", None)),
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
    """Where the health of the queries goes, in the epoch of this process."""

    config: StreamConfig
    publisher: Publisher
    listeners: Listeners
    epoch: int

    def publish(self, status: contract.QueryStatus | contract.LogTotals) -> None:
        """Send a status; while brokers are away the next one of the query replaces it."""
        writer = RowWriter(self.config.cluster, status.query, self.epoch)
        self.publisher.put(self.config.status_topic, contract.status_key(status), contract.encode(status), writer)
        self.publisher.send()

    def publish_totals(self, rows: Sequence[contract.LogTotals]) -> None:
        """Publish eras before a query is started with them: at the next start they are known from here only."""
        for row in rows:
            self.publish(row)
        if rows:
            self.publisher.flush(_FLUSH_SECONDS)


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
    announced, published = False, 0.0
    threading.Thread(target=_tick, args=(inputs, process, stop), name="diagnosis-clock", daemon=True).start()
    while not stop.wait(_LOOK_SECONDS):
        of.ownership.check()
        now_ms = epoch_ms()
        for query in queries:
            query.tend(now_ms, config.stall_seconds)
        watched.look(queries, to.listeners.warn)
        to.publish_totals(watched.changed_totals(now_ms))
        to.listeners.on_look([query.status for query in queries])
        _, caught_up = inputs.read(now_ms)
        if time.monotonic() - published >= _STATUS_SECONDS:
            published = time.monotonic()
            for query in queries:
                to.publish(query.status)
        if not announced and caught_up:
            announced = True
            to.listeners.notify(f"caught up with {'the log' if config.reads_log else 'probes'}")
            on_caught_up()


def _tick(inputs: _InputStatus, process: DiagnosisProcess, stop: threading.Event) -> None:
    """Pass the time on to the diagnosis, in a thread of its own: it may answer late, and no query is to wait for it.

    What follows from rows is published with the next tick, so one comes as soon as a batch was handed over.
    """
    while not stop.is_set():
        process.await_rows(_LOOK_SECONDS)
        now_ms = epoch_ms()
        read_until_ms, caught_up = inputs.read(now_ms)
        with suppress(DiagnosisError):
            # Its query notices the end of the process, says so, and starts it again.
            process.tick(now_ms, read_until_ms, caught_up=caught_up)


class _InputStatus:
    """Up to when the inputs of the diagnosis have been read: by this process, or by others that run their queries.

    Safe to use from several threads.
    """

    def __init__(self, queries: list[SupervisedQuery], config: StreamConfig) -> None:
        self._here = {each.name: each for each in queries}
        missing = [name for name in INPUT_QUERIES if name not in self._here]
        self._elsewhere = StatusReader(config, missing) if missing and DIAGNOSIS in config.queries else None
        self._horizon = ReadHorizon()
        self._lock = threading.Lock()

    def read(self, now_ms: int) -> tuple[int, bool]:
        """Return (time before which the diagnosis knows everything, whether the log has been read up)."""
        known = [each.status for each in self._here.values()]
        if self._elsewhere is not None:
            known += self._elsewhere.read()
        inputs = [each for each in known if each.query != DIAGNOSIS]
        if {each.query for each in inputs} < set(INPUT_QUERIES):
            return 0, self._elsewhere is None and all(each.caught_up for each in known)
        began_ms = next((each.read_until_ms for each in known if each.query == DIAGNOSIS), now_ms)
        with self._lock:
            for each in inputs:
                self._horizon.note(each.query, each.read_until_ms, now_ms)
            return self._horizon.until(began_ms), all(each.caught_up for each in known)


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
