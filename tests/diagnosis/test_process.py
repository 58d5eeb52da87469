"""The driver's handle on the diagnosis process, with real processes that exit or hang on certain rows."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.diagnosis import process
from rebalance_streaming.diagnosis.frames import Frame, InputRow, Rows
from rebalance_streaming.diagnosis.process import DiagnosisError, DiagnosisProcess
from waiting import is_alive, wait_for

pytestmark = pytest.mark.processes

#: Time-outs for rows that hang, and for all others, so that a process without processor time is not taken for hung.
STALL_SECONDS = 1.0
LONG_SECONDS = 120.0


class HurriedProcess(DiagnosisProcess):
    """Waits for an answer as usual, but only briefly if rows make the process hang."""

    def _call(self, frame: Frame, timeout_seconds: float, is_ending: Callable[[], bool] | None = None) -> None:
        hangs = isinstance(frame, Rows) and any(row.value == b"hang" for row in frame.rows)
        super()._call(frame, STALL_SECONDS if hangs else timeout_seconds, is_ending)


class Driver:
    """A handle on a process, and all of its messages."""

    def __init__(
        self,
        worker: str = "diagnosis.odd_worker",
        stall_seconds: float = LONG_SECONDS,
        kind: type[DiagnosisProcess] = DiagnosisProcess,
    ) -> None:
        self.said: list[str] = []
        config = StreamConfig(stall_seconds=stall_seconds)
        self.process = kind(config, DetectConfig(), 1, self.said.append, worker=worker)
        self._next = 0

    def rows(self, *values: bytes) -> list[InputRow]:
        """Return rows of these values, each with an offset of its own."""
        first, self._next = self._next, self._next + len(values)
        return [InputRow("activity", 0, first + i, first + i, b"g", value) for i, value in enumerate(values)]

    def take_all(self, rows: list[InputRow]) -> None:
        """Act like a supervised query: restart and read the same rows until they are taken."""
        for _ in range(10):
            try:
                self.process.take(rows)
            except DiagnosisError:
                self.process.start(0)
            else:
                return
        raise AssertionError(f"not taken: {self.said}")

    def taken(self) -> list[str]:
        """Return the values taken since the last start of the process."""
        last = max(i for i, line in enumerate(self.said) if line.startswith("started"))
        lines = [line.removeprefix("took ") for line in self.said[last:] if line.startswith("took ")]
        return [value for line in lines for value in line.split(",")]

    def pid(self) -> int:
        """Return the pid of the last started process."""
        return int([line for line in self.said if line.startswith("started")][-1].split()[1])


@pytest.fixture
def driver() -> Iterator[Driver]:
    """A driver with a running process."""
    made = Driver()
    made.process.start(0)
    yield made
    made.process.stop()


@pytest.fixture
def hurried_driver() -> Iterator[Driver]:
    """A driver that uses a short time-out for rows that hang."""
    made = Driver(kind=HurriedProcess)
    made.process.start(0)
    yield made
    made.process.stop()


def take_and_fail(driver: Driver, value: bytes) -> None:
    """Send a row that ends the process."""
    with pytest.raises(DiagnosisError):
        driver.process.take(driver.rows(value))


def test_rows_and_ticks_are_answered(driver: Driver):
    """Rows arrive in order, the time is passed on, and messages of the process are received."""
    driver.process.take(driver.rows(b"a", b"b"))
    driver.process.tick(3, 2, caught_up=True)
    assert driver.said[1:] == ["took a,b", "ticked 3 2 True"]
    assert driver.process.waiting == 1


def test_a_tick_need_not_wait_when_rows_were_handed_over(driver: Driver):
    """The results of rows are published with the next tick, which is sent at once, and once."""
    reported = threading.Thread(target=driver.process.await_rows, args=(LONG_SECONDS,))
    reported.start()
    driver.process.take(driver.rows(b"a"))
    reported.join(LONG_SECONDS / 2)
    assert not reported.is_alive()
    again = threading.Thread(target=driver.process.await_rows, args=(LONG_SECONDS,), daemon=True)
    again.start()
    driver.process.take([])
    again.join(0.1)
    assert again.is_alive()
    driver.process.take(driver.rows(b"b"))
    again.join(LONG_SECONDS / 2)
    assert not again.is_alive()


def test_a_large_batch_is_sent_in_parts(driver: Driver):
    """No row is lost between two frames."""
    values = [str(i).encode() for i in range(1_234)]
    driver.process.take(driver.rows(*values))
    assert driver.taken() == [value.decode() for value in values]
    assert sum(line.startswith("took") for line in driver.said) == 3


def test_a_process_that_is_killed_is_noticed_and_started_anew(driver: Driver):
    """The next call fails; a start creates another process, which takes rows as before."""
    first = driver.pid()
    os.kill(first, signal.SIGKILL)
    with pytest.raises(DiagnosisError):
        driver.process.take(driver.rows(b"a"))
    driver.process.start(7)
    assert driver.pid() != first
    driver.process.take(driver.rows(b"b"))
    assert driver.taken() == ["b"]
    assert " 7 " in driver.said[-2]


def test_the_end_of_the_process_is_noticed_by_a_tick_too(driver: Driver):
    """A quiet cluster sends no rows; after a failed tick further ones do nothing until the next start."""
    os.kill(driver.pid(), signal.SIGKILL)
    with pytest.raises(DiagnosisError):
        driver.process.tick(1, 1, caught_up=True)
    driver.process.tick(2, 2, caught_up=True)
    take_and_fail(driver, b"a")


def test_a_process_that_hangs_is_ended():
    """It does not answer within the time-out of a batch, so it is killed."""
    driver = Driver(stall_seconds=STALL_SECONDS)
    driver.process.start(0)
    pid = driver.pid()
    with pytest.raises(DiagnosisError, match=f"no answer for {STALL_SECONDS:g} s"):
        driver.process.take(driver.rows(b"hang"))
    assert not is_alive(pid)


@pytest.mark.parametrize("poison", [b"kill", b"hang"])
def test_a_row_that_ends_or_hangs_the_process_is_found_and_left_out(hurried_driver: Driver, poison: bytes):
    """All other rows are taken, the row is named, and the next process is told the number of rows left out."""
    rows = hurried_driver.rows(*(b"r%d" % i for i in range(20)), poison, *(b"s%d" % i for i in range(20)))
    hurried_driver.take_all(rows)
    assert hurried_driver.taken() == [f"r{i}" for i in range(20)] + [f"s{i}" for i in range(20)]
    (named,) = (line for line in hurried_driver.said if "is left out" in line)
    assert named.startswith("row 20 of activity-0 ")
    hurried_driver.process.start(0)
    assert "('row', 'hung or ended the process', 1)" in hurried_driver.said[-1]


def test_rows_that_are_suspected_are_taken_once_they_prove_harmless(hurried_driver: Driver):
    """If a process is killed from outside while it takes rows, none of them is left out."""
    rows = hurried_driver.rows(b"hang", *(b"r%d" % i for i in range(3)))
    with pytest.raises(DiagnosisError):
        hurried_driver.process.take(rows)
    hurried_driver.process.start(0)
    harmless = [InputRow(*(row.topic, row.partition, row.offset, row.at_ms, row.key), b"r") for row in rows]
    hurried_driver.process.take(harmless)
    assert hurried_driver.taken() == ["r"] * 4
    hurried_driver.process.take(harmless)
    assert hurried_driver.said[-1] == "took r,r,r,r"


def test_ticks_come_between_the_parts_of_a_batch(driver: Driver):
    """Rows and ticks of two threads are never mixed in one frame: all rows are taken, and every tick is answered."""
    rows = driver.rows(*(b"r%d" % i for i in range(1_200)))
    taking = threading.Thread(target=driver.process.take, args=(rows,))
    taking.start()
    for second in range(20):
        driver.process.tick(second, second, caught_up=True)
    taking.join(LONG_SECONDS)
    assert not taking.is_alive()
    assert len(driver.taken()) == len(rows)


def test_a_stop_ends_the_process():
    """The process sees the end of the connection and exits; a second stop does nothing."""
    driver = Driver()
    driver.process.start(0)
    pid = driver.pid()
    driver.process.stop()
    driver.process.stop()
    assert not is_alive(pid)


def test_a_process_that_was_launched_is_the_one_that_starts():
    """Once; ticks before the start are not for it. One that is never started ends with a stop."""
    driver = Driver()
    driver.process.launch()
    driver.process.launch()
    launched = launched_pid(driver)
    driver.process.tick(1, 1, caught_up=False)
    driver.process.start(0)
    assert driver.pid() == launched
    driver.process.start(0)
    assert driver.pid() != launched
    assert not is_alive(launched)
    driver.process.launch()
    launched = launched_pid(driver)
    driver.process.stop()
    assert not is_alive(launched)


def launched_pid(driver: Driver) -> int:
    """Return the pid of the process that waits for its start."""
    assert driver.process._launched is not None
    return driver.process._launched[0].pid


def test_a_stop_does_not_wait_for_a_process_that_hangs(monkeypatch: pytest.MonkeyPatch):
    """The calling thread gets an error that the process has ended."""
    monkeypatch.setattr(process, "_END_SECONDS", 0.1)
    driver, reported = Driver(stall_seconds=600), list[BaseException]()
    driver.process.start(0)

    def feed() -> None:
        try:
            driver.process.take(driver.rows(b"hang"))
        except DiagnosisError as error:
            reported.append(error)

    feeding = threading.Thread(target=feed)
    feeding.start()
    wait_for(driver.process._lock.locked, "it to be fed")
    driver.process.stop()
    feeding.join(LONG_SECONDS)
    assert len(reported) == 1
    assert not is_alive(driver.pid())


def test_a_process_that_cannot_start_is_said():
    """For any reason, the error is one that the supervision handles."""
    with pytest.raises(DiagnosisError, match="its process"):
        Driver(worker="no_such_module").process.start(0)


def test_a_machine_without_room_for_a_process_is_said(monkeypatch: pytest.MonkeyPatch):
    """A launch in advance may fail; the start reports it, as an error that the supervision handles."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(process.subprocess, "Popen", refuse)
    driver = Driver()
    driver.process.launch()
    with pytest.raises(DiagnosisError, match="its process cannot be started \\(Cannot allocate memory\\)"):
        driver.process.start(0)


def test_a_process_that_says_why_it_cannot_start_is_quoted():
    """The supervision reports its message, and no process remains."""
    driver = Driver(worker="diagnosis.unable_worker")
    with pytest.raises(DiagnosisError, match="status-0 could not be read"):
        driver.process.start(0)
    take_and_fail(driver, b"a")
