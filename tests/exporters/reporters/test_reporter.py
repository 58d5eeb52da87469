"""The two threads of a reporter: neither delays the other."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rebalance_exporters.reporters.outbox import LARGEST_BYTES, CallTransport, FailureLog, Outbox, OutgoingReport
from rebalance_exporters.reporters.reporter import DueReport, Reporter, ReportSchedule
from waiting import wait_for

LOG = logging.getLogger("test.reporters")


class Kafka:
    """Accepts, rejects or delays reports."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.tried = 0
        self.away = False
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.closed = threading.Event()

    def send(self, report: OutgoingReport, given_up: threading.Event) -> None:
        self.tried += 1
        while not self.goes_on.wait(0.01):
            if given_up.is_set():
                raise TimeoutError("given up")
        if self.away:
            raise ConnectionError("away")
        self.got.append(report.value)

    def close(self) -> None:
        self.closed.set()


@contextmanager
def running(kafka: Kafka, capacity: int = 3, most_bytes: int = 1_000) -> Iterator[Outbox]:
    outbox = Outbox(kafka, FailureLog(LOG), capacity=capacity, most_bytes=most_bytes, retry_seconds=0.01)
    outbox.start()
    try:
        yield outbox
    finally:
        outbox.close()
        outbox.join(time.monotonic() + 60)


def put(outbox: Outbox, *names: str) -> None:
    for name in names:
        outbox.put(OutgoingReport(None, name.encode()))


def test_ticks_keep_to_their_grid():
    """A late tick does not shift the next one."""
    schedule = ReportSchedule(5.0, now=100.0)
    assert schedule.seconds_left(100.0) == 0
    assert schedule.take(100.25) == pytest.approx(0.25)
    assert schedule.seconds_left(100.5) == pytest.approx(4.5)


def test_ticks_that_a_pause_swallowed_are_left_out():
    """A pause is reported once, with its length."""
    schedule = ReportSchedule(5.0, now=100.0)
    schedule.take(100.0)
    assert schedule.take(117.0) == pytest.approx(12.0)
    assert schedule.seconds_left(117.0) == pytest.approx(3.0)


def test_reports_arrive_in_order():
    """In the order in which they were put."""
    kafka = Kafka()
    with running(kafka) as outbox:
        put(outbox, "a", "b", "c")
        wait_for(lambda: kafka.got == [b"a", b"b", b"c"], "three reports")
    assert outbox.dropped == 0


def test_a_full_outbox_loses_its_oldest_and_counts_them():
    """While Kafka delays the first one."""
    kafka = Kafka()
    kafka.goes_on.clear()
    with running(kafka) as outbox:
        put(outbox, "held")
        wait_for(lambda: kafka.tried, "the first try")
        put(outbox, "a", "b", "c", "d", "e")
        assert outbox.dropped == 2
        kafka.goes_on.set()
        wait_for(lambda: kafka.got == [b"held", b"c", b"d", b"e"], lambda: kafka.got)


@pytest.mark.parametrize("away", [False, True])
def test_large_reports_that_wait_are_bounded_together(away):
    """By their bytes; the newest is kept whatever its size, and a failed one is put back only if there is room."""
    kafka = Kafka()
    kafka.goes_on.clear()
    kafka.away = away
    with running(kafka, capacity=100, most_bytes=10) as outbox:
        put(outbox, "held")
        wait_for(lambda: kafka.tried, "the first try")
        put(outbox, "aaaaaa", "bbbb", "cc")
        assert outbox.dropped == 1
        put(outbox, "d" * 20)
        assert outbox.dropped == 3
        kafka.goes_on.set()
        wait_for(lambda: not away or outbox.dropped == 4, "the one that was held to be lost")
        kafka.away = False
        wait_for(lambda: kafka.got == [*([] if away else [b"held"]), b"d" * 20], lambda: kafka.got)


def test_what_an_outage_kept_arrives_after_it(caplog):
    """In order, and the outage was logged once."""
    kafka = Kafka()
    kafka.away = True
    with running(kafka) as outbox:
        put(outbox, "a", "b")
        wait_for(lambda: kafka.tried > 3, "some tries")
        kafka.away = False
        wait_for(lambda: kafka.got == [b"a", b"b"], lambda: kafka.got)
    (said,) = caplog.messages
    assert "reports cannot be sent" in said
    assert "ConnectionError: away" in said


def test_a_report_that_fails_while_the_outbox_is_full_is_the_one_lost():
    """It is the oldest."""
    kafka = Kafka()
    kafka.goes_on.clear()
    kafka.away = True
    with running(kafka) as outbox:
        put(outbox, "held")
        wait_for(lambda: kafka.tried, "the first try")
        put(outbox, "a", "b", "c")
        kafka.goes_on.set()
        wait_for(lambda: outbox.dropped == 1, "one lost")
        kafka.away = False
        wait_for(lambda: kafka.got == [b"a", b"b", b"c"], lambda: kafka.got)


def test_a_report_too_large_for_a_record_is_not_queued(caplog):
    """It would block all others forever."""
    kafka = Kafka()
    with running(kafka) as outbox:
        outbox.put(OutgoingReport(None, b"x" * (LARGEST_BYTES + 1)))
        put(outbox, "a")
        wait_for(lambda: kafka.got == [b"a"], lambda: kafka.got)
    assert outbox.dropped == 1
    assert "too large" in caplog.text


def test_closing_sends_what_waits():
    """The connection is closed as well."""
    kafka = Kafka()
    with running(kafka) as outbox:
        put(outbox, "a", "b")
    assert kafka.got == [b"a", b"b"]
    assert kafka.closed.is_set()


def test_closing_does_not_wait_for_a_kafka_that_is_away():
    """A send in progress is abandoned at the deadline, and the thread ends."""
    kafka = Kafka()
    kafka.goes_on.clear()
    outbox = Outbox(kafka, FailureLog(LOG))
    outbox.start()
    put(outbox, "a")
    wait_for(lambda: kafka.tried, "the first try")
    outbox.close()
    outbox.join(time.monotonic() + 0.05)
    assert kafka.closed.wait(60)
    assert kafka.got == []


def test_a_function_of_the_user_gets_topic_key_and_value():
    """Instead of a producer."""
    got: list[tuple[str, bytes | None, bytes]] = []
    CallTransport(lambda *parts: got.append(parts), "t").send(OutgoingReport(b"k", b"v"), threading.Event())
    assert got == [("t", b"k", b"v")]


def test_a_complaint_is_said_once_per_kind(caplog):
    """The second error of the same type in the same task is not logged; that of another task or type is."""
    failures = FailureLog(LOG)
    failures.note("sending", ValueError("one"))
    failures.note("sending", ValueError("two"))
    failures.note("sending", KeyError("three"))
    failures.note("making", ValueError("four"))
    assert [message.rsplit(": ", 1)[1] for message in caplog.messages] == ["one", "'three'", "four"]


class Made:
    """Makes reports that contain their tick, or fails."""

    def __init__(self) -> None:
        self.ticks: list[DueReport] = []
        self.fails_at: int | None = None
        self.ends_at: int | None = None

    def __call__(self, tick: DueReport) -> OutgoingReport | None:
        self.ticks.append(tick)
        if tick.seq == self.fails_at:
            raise RuntimeError("no report")
        return None if tick.seq == self.ends_at else OutgoingReport(None, str(tick.seq).encode())


@contextmanager
def reporting(made: Made, kafka: Kafka, interval_seconds: float = 0.02) -> Iterator[Reporter]:
    failures = FailureLog(LOG)
    reporter = Reporter(made, Outbox(kafka, failures, retry_seconds=0.01), failures, interval_seconds)
    reporter.start()
    try:
        yield reporter
    finally:
        reporter.announce_close()
        reporter.await_end()


def test_reports_come_at_once_and_then_every_interval():
    """Counted from 0, each with its interval."""
    made, kafka = Made(), Kafka()
    with reporting(made, kafka):
        wait_for(lambda: len(kafka.got) > 3, "four reports")
    assert kafka.got[:4] == [b"0", b"1", b"2", b"3"]
    assert {tick.interval_ms for tick in made.ticks} == {20}


def test_reports_go_on_while_kafka_holds_one():
    """The reporting thread does not wait, so its delays show the process alone; lost reports are counted."""
    made, kafka = Made(), Kafka()
    kafka.goes_on.clear()
    failures = FailureLog(LOG)
    outbox = Outbox(kafka, failures, capacity=2)
    reporter = Reporter(made, outbox, failures, 0.02)
    reporter.start()
    wait_for(lambda: len(made.ticks) > 5, "six reports")
    wait_for(lambda: made.ticks[-1].dropped > 1, "losses")
    kafka.goes_on.set()
    reporter.announce_close()
    reporter.await_end()


@pytest.mark.waits
def test_a_pause_of_the_process_shows_as_lateness():
    """Making a report delays the thread itself in this test."""
    made, kafka = Made(), Kafka()

    def slowly(tick: DueReport) -> OutgoingReport | None:
        if tick.seq == 1:
            time.sleep(0.3)
        return made(tick)

    failures = FailureLog(LOG)
    reporter = Reporter(slowly, Outbox(kafka, failures), failures, 0.05)
    reporter.start()
    wait_for(lambda: any(tick.late_ms < made.ticks[2].late_ms for tick in made.ticks[3:]), lambda: made.ticks)
    reporter.announce_close()
    reporter.await_end()
    assert 200 <= made.ticks[2].late_ms <= 30_000


def test_a_report_that_cannot_be_made_leaves_a_gap(caplog):
    """It is logged once, its number stays unused, and the next one is made."""
    made, kafka = Made(), Kafka()
    made.fails_at = 1
    with reporting(made, kafka):
        wait_for(lambda: b"2" in kafka.got, "the report after")
    assert b"1" not in kafka.got
    assert caplog.text.count("a report cannot be made") == 1


def test_closing_makes_one_last_report():
    """It is marked as the last, and both threads end after it."""
    made, kafka = Made(), Kafka()
    with reporting(made, kafka, interval_seconds=3600):
        wait_for(lambda: kafka.got, "the first report")
    assert [tick.closing for tick in made.ticks] == [False, True]
    assert kafka.got == [b"0", b"1"]
    assert kafka.closed.wait(60)


def test_reporting_ends_when_there_is_nothing_to_report_on():
    """For example of a consumer that was garbage collected."""
    made, kafka = Made(), Kafka()
    made.ends_at = 2
    with reporting(made, kafka):
        assert kafka.closed.wait(60)
        assert len(made.ticks) == 3


@pytest.mark.parametrize("interval_seconds", [0, -1, float("nan")])
def test_an_interval_must_be_positive(interval_seconds):
    """The error is raised where it is set."""
    with pytest.raises(ValueError, match="must be above 0"):
        Reporter(Made(), Outbox(Kafka(), FailureLog(LOG)), FailureLog(LOG), interval_seconds)
