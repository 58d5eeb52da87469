"""The application around its queries: rejected settings, the diagnosis's inputs, and stopping."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from rebalance_contract import QueryStatus
from rebalance_kafka import follower
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import BrokersUnreachableError, StreamError
from rebalance_streaming.spark import job, startup


def query(name: str, *, caught_up: bool = True, read_until_ms: int = 10, **more: Any) -> Any:
    """Return a query with the attributes that the application uses."""
    status = QueryStatus("c", name, caught_up, 1, 1, 500, read_until_ms=read_until_ms)
    return SimpleNamespace(name=name, status=status, **more)


def test_bad_settings_are_reported_at_once_and_before_anything_starts():
    """Every problem in one sentence."""
    config = StreamConfig(queries=("membership", "odd"), stall_seconds=0)
    with pytest.raises(StreamError) as error:
        job.run(config)
    for part in ("bootstrap.servers", "['odd']", "stall_seconds"):
        assert part in str(error.value)


def test_no_spark_is_started_while_brokers_are_away(monkeypatch: pytest.MonkeyPatch):
    """The reason is logged, each message once, until it continues or is stopped; a permanent error ends it."""
    monkeypatch.setattr(startup, "_AWAY_SECONDS", 0.0)
    answers: list[Exception | str] = []

    def look(*_: object) -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(startup, "_look_at_cluster", look)
    waits, said, stop = list[str | None](), list[str](), threading.Event()
    listeners = startup.Listeners(said.append, said.append, lambda _: None, waits.append)
    answers[:] = [
        BrokersUnreachableError("nobody answers"),
        BrokersUnreachableError("nobody answers"),
        BrokersUnreachableError("no leader"),
        "found",
    ]
    assert startup.await_cluster(StreamConfig(), listeners, stop) == "found"
    assert said == ["nobody answers", "no leader"]
    assert waits == ["nobody answers", "nobody answers", "no leader", None]

    answers[:] = [BrokersUnreachableError("nobody answers"), StreamError("not allowed")]
    with pytest.raises(StreamError, match="not allowed"):
        startup.await_cluster(StreamConfig(), listeners, stop)

    stop.set()
    job.run(StreamConfig(), stop=stop)


def test_nobody_follows_other_streams_where_spark_does_not_start(monkeypatch: pytest.MonkeyPatch):
    """Threads and the process that were started before Spark are stopped with it."""
    calls: list[str] = []
    ownership = SimpleNamespace(stop=lambda: calls.append("not followed"), epoch=1)
    process = SimpleNamespace(launch=lambda: calls.append("launched"), stop=lambda: calls.append("stopped"))
    monkeypatch.setattr(job, "DiagnosisProcess", lambda *_: process)
    monkeypatch.setattr(startup, "_look_at_cluster", lambda *_: SimpleNamespace(ownership=ownership))

    def refuse(*_: Any) -> None:
        raise StreamError("no JVM")

    monkeypatch.setattr(job, "start_session", refuse)
    with pytest.raises(StreamError, match="no JVM"):
        job.run(StreamConfig())
    assert calls == ["launched", "stopped", "not followed"]


def test_the_diagnosis_waits_for_both_queries():
    """The diagnosis's time is that of the slower query; it is caught up when both are."""
    slow, fast = query("membership", read_until_ms=5, caught_up=False), query("activity", read_until_ms=9)
    diagnosis = query("diagnosis", read_until_ms=100)
    inputs = job._InputStatus([slow, fast, diagnosis], StreamConfig())
    assert inputs.read(100) == (5, False)
    slow.status = query("membership", read_until_ms=11).status
    diagnosis.status = query("diagnosis", read_until_ms=110).status
    assert inputs.read(110) == (9, True)


def test_the_diagnosis_knows_what_was_published_before_its_batch_began():
    """On a busy machine a batch takes a minute, whose rows it may lack."""
    membership, activity = query("membership", read_until_ms=5), query("activity", read_until_ms=5)
    diagnosis = query("diagnosis", read_until_ms=100)
    inputs = job._InputStatus([membership, activity, diagnosis], StreamConfig())
    assert inputs.read(100) == (5, True)
    for each in (membership, activity):
        each.status = query(each.name, read_until_ms=70_000).status
    diagnosis.status = query("diagnosis", read_until_ms=60_000).status
    assert inputs.read(90_000) == (5, True)
    diagnosis.status = query("diagnosis", read_until_ms=90_000).status
    assert inputs.read(95_000) == (70_000, True)


def test_what_lies_ahead_is_not_known():
    """The clock was set back, or another host's is fast: a batch of the diagnosis that has not begun has no rows."""
    membership, activity = query("membership", read_until_ms=90_000), query("activity", read_until_ms=90_000)
    inputs = job._InputStatus([membership, activity, query("diagnosis", read_until_ms=95_000)], StreamConfig())
    assert inputs.read(10_000) == (10_000, True)


def test_a_process_with_the_diagnosis_alone_waits_for_brokers(monkeypatch: pytest.MonkeyPatch):
    """While they do not answer, nothing is known of the queries elsewhere, which is said at once."""
    monkeypatch.setattr(follower, "_REQUEST_SECONDS", 0.01)
    said, stop = list[str](), threading.Event()
    config = StreamConfig(kafka={"bootstrap.servers": "127.0.0.1:1"}, queries=("diagnosis",))
    inputs = job._InputStatus([query("diagnosis")], config)
    inputs.follow(stop, said.append)
    began = time.monotonic()
    assert inputs.read(10) == (0, False)
    assert time.monotonic() - began < 5
    stop.set()
    assert said == []


def test_a_process_without_the_diagnosis_waits_for_its_own_query_only():
    """The progress of queries elsewhere is not read, and no time passes for a diagnosis that does not run here."""
    config = StreamConfig(queries=("membership",))
    assert job._InputStatus([query("membership")], config).read(10) == (0, True)


def test_statuses_are_published_while_a_query_is_started_or_stopped(monkeypatch: pytest.MonkeyPatch):
    """That may take minutes; other processes take a stream that is silent for 5 s for ended."""
    monkeypatch.setattr(job, "_STATUS_SECONDS", 0.001)
    published, stop = threading.Semaphore(0), threading.Event()
    heard, flushed = list[str](), list[float]()

    def is_heard() -> bool:
        for _ in range(published._value + 2):
            assert published.acquire(timeout=60)
        heard.append("again")
        return True

    class Queue:
        """A publisher that notices calls of two threads at the same time."""

        def __init__(self) -> None:
            self.used = threading.Lock()

        def put(self, topic: str, key: str, *_: Any) -> None:
            assert self.used.acquire(blocking=False)
            assert (topic, key) == (config.status_topic, "default/query/membership")

        def send(self) -> None:
            self.used.release()
            published.release()

        def flush(self, seconds: float) -> None:
            with self.used:
                flushed.append(seconds)

    def start(*_: Any) -> None:
        is_heard()
        stop.set()

    config = StreamConfig(queries=("membership",))
    slow = query("membership", tend=start, is_between_batches=is_heard, stop_now=lambda: None)
    slow.status = replace(slow.status, cluster=config.cluster)
    monkeypatch.setattr(job, "_queries", lambda *_, **__: [slow])
    monkeypatch.setattr(job, "_resume", lambda *_: None)
    watched = SimpleNamespace(
        start=lambda _: None, stop=lambda: None, look=lambda *_: None, changed_totals=lambda _: []
    )
    ownership = SimpleNamespace(check=lambda: None, is_lost=lambda: False, await_handover=lambda _: is_heard())
    process = SimpleNamespace(await_rows=stop.wait, tick=lambda *_, **__: None, stop=lambda: None)
    publisher: Any = Queue()
    to = job._Publishing(config, publisher, startup.Listeners(heard.append, heard.append, lambda _: None), 1)
    inputs: Any = SimpleNamespace(ownership=ownership, watched=watched)
    anything: Any = None
    parts: Any = process
    job._run_queries(anything, inputs, to, parts, stop, archive=None)
    assert heard.count("again") == 3
    assert len(flushed) == 2


def test_queries_are_stopped_between_two_batches():
    """A batch that ends in time is not interrupted."""
    stopped: list[bool] = []
    looks = iter([False, False, True])
    slow = query("membership", is_between_batches=lambda: next(looks), stop_now=lambda: stopped.append(True))
    job._stop_gracefully([slow], 30)
    assert stopped == [True]
    assert next(looks, None) is None


@pytest.mark.waits
def test_a_batch_that_does_not_end_is_cut(monkeypatch: pytest.MonkeyPatch):
    """At the time limit; a query whose stop hangs delays neither the others nor the exit."""
    monkeypatch.setattr(job, "_STOP_SLACK_SECONDS", 0.5)
    stopped, released = threading.Event(), threading.Event()
    endless = query("membership", is_between_batches=lambda: False, stop_now=stopped.set)
    hanging = query("activity", is_between_batches=lambda: False, stop_now=released.wait)
    # It would not return if it waited for the second one.
    job._stop_gracefully([endless, hanging], 0.1)
    assert stopped.wait(60)
    released.set()


def test_a_query_without_its_jvm_is_stopped_already():
    """It cannot be known whether it is between two batches; the others are stopped nevertheless."""
    stopped: list[bool] = []

    def refuse() -> bool:
        raise ConnectionRefusedError

    gone = query("membership", is_between_batches=refuse, stop_now=lambda: None)
    well = query("activity", is_between_batches=lambda: True, stop_now=lambda: stopped.append(True))
    job._stop_gracefully([gone, well], 30)
    assert stopped == [True]
