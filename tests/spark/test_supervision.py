"""Queries that fail, or hang, are restarted, each alone, with growing pauses."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rebalance_contract import QueryStatus
from rebalance_streaming.diagnosis.process import EndingError
from rebalance_streaming.errors import BrokersUnreachableError, StreamError
from rebalance_streaming.spark import supervision
from rebalance_streaming.spark.progress import QueryWatch
from rebalance_streaming.spark.supervision import (
    SupervisedQuery,
    describe_damage,
    describe_denial,
    describe_full_disk,
    root_cause,
)
from waiting import wait_for

#: Longer than any batch takes on a busy machine.
STALL_SECONDS = 600.0


def supervised(name: str, start: Callable[[], StreamingQuery], said: list[str]) -> SupervisedQuery:
    """Return a query under supervision."""
    status = QueryStatus("c", name, False, started_at_ms=1, updated_at_ms=1, trigger_ms=100)
    return SupervisedQuery(status, None, lambda _: start(), said.append, topic_prefix="own.")


def now_ms() -> int:
    """Return the current time in milliseconds."""
    return int(time.time() * 1000)


# --- A full disk ---


def test_a_full_disk_is_reported_by_its_path(monkeypatch: pytest.MonkeyPatch):
    """The full directory is named; all of them, if none seems full; other errors are unchanged."""
    free = {"/checkpoint": 4_096, "/tmp": 10**10}
    monkeypatch.setattr(supervision.shutil, "disk_usage", lambda place: SimpleNamespace(free=free[place]))
    text = "java.io.IOException: No space left on device\n\tat java.base/java.io.FileOutputStream.write"
    assert describe_full_disk(text, [*free]) == "there is no room on the disk of /checkpoint"
    state = "[CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT] Error writing state store files for provider RocksDBStateStore"
    assert describe_full_disk(state, [*free]) == "there is no room on the disk of /checkpoint"
    free["/checkpoint"] = 10**10
    assert describe_full_disk(state, [*free]) is None
    assert describe_full_disk(text, [*free]) == "there is no room on the disk of /checkpoint or /tmp"
    assert describe_full_disk("java.io.IOException: broken pipe", [*free]) is None
    assert describe_full_disk(text, []) is None


# --- A damaged checkpoint ---


@pytest.mark.parametrize(
    "text",
    [
        "Checksum error: file:/c/v4/membership/offsets/7 at 512 exp: -1860105294 got: -1725887566",
        "Checksum file not a length multiple of checksum size in file:/c/v4/membership/offsets/7 at 0 checksumpos: 8",
        "Failed to read log file file:/c/v4/membership/commits/7. Incomplete log file in the offset commit log",
        "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.  SQLSTATE: 58030",
        "[STDS_FAILED_TO_READ_OPERATOR_METADATA] Failed to read the operator metadata for checkpointLocation=file:/c",
        "[STREAMING_CHECKPOINT_MISSING_METADATA_FILE] Checkpoint location file:/c is in an inconsistent state",
        "[STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY] The checkpoint location file:/c/state should be empty on batch 0.",
        "File file:/c/v4/membership/state/0/_stateSchema/default/0_11703f66 does not exist",
    ],
)
def test_a_damaged_checkpoint_is_reported_with_what_to_do(text: str):
    """By the messages of Spark and Hadoop about changed, truncated and missing files (case 17 covers all of them)."""
    reported = describe_damage(text + "\n=== Streaming Query ===\nIdentifier: membership")
    assert reported is not None
    assert reported.startswith(text)
    assert "start it once with --rebuild --set-aside" in reported


def test_other_errors_are_no_damage():
    """A broker that is down, and an unrelated file."""
    assert describe_damage("org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node") is None
    assert describe_damage("File file:/etc/kafka/client.pem does not exist") is None


# --- Pauses ---


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The monotonic clock, set by the test."""
    steady = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(supervision, "time", SimpleNamespace(monotonic=lambda: steady.now))
    return steady


def test_pauses_grow_up_to_a_minute(clock: SimpleNamespace):
    """A query that cannot start is tried again after 1, 2, 4 … 60 s; its status has the failures and the reason."""
    tried: list[float] = []

    def fail() -> StreamingQuery:
        tried.append(clock.now)
        raise StreamError("the topic is gone")

    said: list[str] = []
    query = supervised("membership", fail, said)
    while clock.now < 1_400:
        query.tend(0, STALL_SECONDS)
        clock.now += 0.5
    pauses = [later - earlier for earlier, later in itertools.pairwise(tried)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
    assert (query.status.restarts, query.status.error) == (len(tried), "the topic is gone")
    assert said[0] == "the membership query ended: the topic is gone; it is restarted in 1 s"


def test_of_a_query_that_is_started_later_no_position_is_reported(clock: SimpleNamespace):
    """Its inputs may change before: where it continues is known from its checkpoint, and once it has started."""

    def fail() -> StreamingQuery:
        query.watch.positions = {"log": {0: 100}}
        raise StreamError("the topic is gone")

    query = supervised("membership", fail, [])
    query.tend(0, STALL_SECONDS)
    assert query.watch.positions == {}
    query.watch.positions = {"log": {0: 100}}
    query.renew()
    assert query.watch.positions == {}


def test_brokers_that_are_away_at_a_start_end_nothing(clock: SimpleNamespace):
    """A query requests the bounds of its partitions from them."""

    def fail() -> StreamingQuery:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "no broker is there"))

    said: list[str] = []
    query = supervised("activity", fail, said)
    query.tend(0, STALL_SECONDS)
    assert query.status.error == "Kafka does not say what it starts from: no broker is there"
    assert len(said) == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (BrokersUnreachableError("no broker reports the partitions of log"), "no broker reports the partitions of log"),
        (KeyError(5), "it cannot be started (KeyError: 5); please report this"),
        (OSError(12, "Cannot allocate memory"), "it cannot be started (OSError: [Errno 12] Cannot allocate memory)"),
    ],
)
def test_no_error_of_a_start_ends_the_other_queries(clock: SimpleNamespace, error: Exception, reason: str):
    """It is reported and tried again, whatever it is."""
    starts: list[Exception] = [error]
    running: Any = SimpleNamespace(isActive=True, exception=lambda: None)

    def start() -> StreamingQuery:
        if starts:
            raise starts.pop()
        query: StreamingQuery = running
        return query

    said: list[str] = []
    query = supervised("diagnosis", start, said)
    query.tend(0, STALL_SECONDS)
    assert (query.status.error or "").startswith(reason)
    assert len(said) == 1
    clock.now += 1
    query.tend(0, STALL_SECONDS)
    assert (query.status.error, query.status.restarts) == (None, 1)


def test_a_start_that_a_stop_interrupts_is_no_failure(clock: SimpleNamespace):
    """Nothing is said, because the query is not started again."""

    def end() -> StreamingQuery:
        raise EndingError

    said: list[str] = []
    query = supervised("diagnosis", end, said)
    query.tend(0, STALL_SECONDS)
    assert (query.status.restarts, query.status.error, said) == (0, None, [])
    assert query.is_between_batches()


def test_a_jvm_that_is_gone_ends_the_stream(clock: SimpleNamespace):
    """No query can be started any more."""

    def refuse() -> StreamingQuery:
        raise ConnectionRefusedError

    with pytest.raises(ConnectionRefusedError):
        supervised("membership", refuse, []).tend(0, STALL_SECONDS)


def test_a_query_that_recovered_is_tried_soon_again(clock: SimpleNamespace):
    """After a long successful run the first pause is short again."""
    runs: list[Any] = []

    def start() -> StreamingQuery:
        runs.append(SimpleNamespace(isActive=True, exception=lambda: None))
        query: StreamingQuery = runs[-1]
        return query

    query = supervised("membership", start, [])
    for _ in range(5):
        query.tend(0, STALL_SECONDS)
        runs[-1].isActive = False
        query.tend(0, STALL_SECONDS)
        clock.now += 60
    query.tend(0, STALL_SECONDS)
    clock.now += 600
    runs[-1].isActive = False
    count = len(runs)
    query.tend(0, STALL_SECONDS)
    clock.now += 1
    query.tend(0, STALL_SECONDS)
    assert len(runs) == count + 1
    assert query.status.error is None


def test_a_query_that_read_the_log_up_is_started_anew_for_few_rows(monkeypatch: pytest.MonkeyPatch):
    """Once, and between two batches."""
    started: list[bool] = []
    query_status = {"isTriggerActive": True}

    def start(in_bulk: bool) -> Any:
        started.append(in_bulk)
        return SimpleNamespace(isActive=True, status=query_status, stop=lambda: None)

    status = QueryStatus("c", "activity", False, started_at_ms=1, updated_at_ms=1, trigger_ms=100)
    query = SupervisedQuery(status, None, start, lambda _: None, topic_prefix="own.", in_bulk=True)
    monkeypatch.setattr(QueryWatch, "look", lambda *_: None)
    for caught_up, is_busy in [(False, False), (True, True), (True, False), (True, False), (True, False)]:
        query.watch.status = replace(query.status, caught_up=caught_up)
        query_status["isTriggerActive"] = is_busy
        query.tend(0, STALL_SECONDS)
    assert started == [True, False]
    assert query.status.restarts == 0


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("a\n\tat x\nCaused by: b\n\tat y\nCaused by: c\n\tat z", "c"),
        ("one line", "one line"),
        (
            'x: Traceback (most recent call last):\n  File "a"\n    b()\nKeyError: 5\n SQLSTATE: 39000\n\tat z',
            "KeyError: 5",
        ),
        ("=== Streaming Query ===\nwhat it was\n\tat x", "what it was"),
        ("", "unknown"),
        ("x" * 10_000, "x" * 500),
    ],
)
def test_an_error_is_reported_by_its_cause(text: str, cause: str):
    """One line, not the stack."""
    assert root_cause(text) == cause


# --- A missing permission ---

_ABORTED = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure
org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2998)
Caused by: org.apache.kafka.common.KafkaException: Cannot execute transactional method because we are in an error state
\tat org.apache.kafka.clients.producer.internals.TransactionManager.maybeFailWithError(TransactionManager.java:1100)
Caused by: org.apache.kafka.common.errors.{}
"""


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (
            "ClusterAuthorizationException: Cluster authorization failed.",
            "Cluster authorization failed; this user may write to no topic; grant it: kafka-acls --bootstrap-server "
            "HOST:PORT --add --operation Write --operation Describe --topic own. --resource-pattern-type prefixed "
            "--allow-principal User:...; brokers before 2.8 also need --operation IdempotentWrite --cluster",
        ),
        (
            "TopicAuthorizationException: Not authorized to access topics: [own.groups]",
            "Not authorized to access topics: [own.groups]; grant it: kafka-acls --bootstrap-server HOST:PORT --add "
            "--operation Read --operation Write --topic own. --resource-pattern-type prefixed "
            "--allow-principal User:...",
        ),
    ],
)
def test_a_missing_permission_is_reported_with_what_to_grant(error: str, advice: str):
    """The Java client's error does not name the permission, and sometimes no topic either."""
    text = _ABORTED.format(error)
    assert describe_denial(text, "own.") == f"org.apache.kafka.common.errors.{error.partition(' ')[0]} {advice}"


@pytest.mark.parametrize(
    "error",
    ["TopicAuthorizationException: Not authorized to access topics: [orders]", "TimeoutException: no answer"],
)
def test_other_errors_have_no_such_advice(error: str):
    """Nor has a topic that is not the monitor's."""
    assert describe_denial(_ABORTED.format(error), "own.") is None


# --- With Spark ---


@pytest.fixture
def running(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., StreamingQuery]]:
    """Start queries that read a row every 0.1 s, and pass each batch to a function or each row to a worker."""

    def start(name: str, take: Callable[[DataFrame, int], None]) -> StreamingQuery:
        rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
        writer = rows.writeStream.queryName(name).foreachBatch(take)
        return writer.trigger(processingTime="100 milliseconds").start()

    yield start
    for query in spark.streams.active:
        query.stop()


@pytest.mark.spark
def test_a_query_that_fails_takes_no_other_with_it(running: Callable[..., StreamingQuery]):
    """One fails in each batch and is restarted each time; the other, started before, continues all the while."""
    batches: list[int] = []
    said: list[str] = []

    def fail(_batch: DataFrame, _number: int) -> None:
        raise ValueError("this batch cannot be")

    sick = supervised("sick", lambda: running("sick", fail), said)
    well = supervised("well", lambda: running("well", lambda _, number: batches.append(number)), said)

    def tended() -> bool:
        for query in (sick, well):
            query.tend(now_ms(), STALL_SECONDS)
        return sick.status.restarts >= 3 and len(batches) > 5

    wait_for(tended, lambda: f"three restarts, not {said}", 300)
    assert (well.status.restarts, well.status.error) == (0, None)
    assert {line.partition("; it is restarted in ")[0] for line in said} == {
        "the sick query ended: ValueError: this batch cannot be"
    }
    seen = len(batches)
    wait_for(lambda: len(batches) > seen, "the other query to go on")
    for query in (sick, well):
        query.stop_now()


@pytest.mark.spark
def test_a_batch_that_makes_no_progress_is_ended(spark: SparkSession, tmp_path: Path):
    """A Python worker hangs, once; the query reports it, is stopped from outside, restarted, and continues."""
    hung = tmp_path / "hung"
    said: list[str] = []
    states: list[bool] = []

    def hang_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import threading  # noqa: PLC0415

        for batch in batches:
            if batch.num_rows and not hung.exists():
                hung.touch()
                threading.Event().wait()
            yield batch

    def start() -> StreamingQuery:
        rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load().coalesce(1)
        writer = rows.mapInArrow(hang_once, "timestamp timestamp, value long").writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.queryName("hanging").trigger(processingTime="100 milliseconds").start()

    query = supervised("hanging", start, said)

    def tended() -> bool:
        # Before and after it hangs, a batch may take as long as the machine needs.
        query.tend(now_ms(), 1.0 if hung.exists() and not query.status.restarts else STALL_SECONDS)
        states.append(query.status.is_stalled)
        return query.status.restarts >= 1 and query.status.input_rows > 0 and not query.status.is_stalled

    wait_for(tended, lambda: f"the query to get on, not {query.status}: {said}", 300)
    assert any(states)
    assert any("a batch made no progress for 1 s" in line for line in said)
    query.stop_now()
