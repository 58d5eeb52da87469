"""The driver's handle on the diagnosis process: starts it, sends rows to it, detects when it hangs, and stops it.

If rows hang or kill the process, they are sent one at a time after its next start. The row that causes it is thus
found, and left out from then on.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.diagnosis.frames import Done, Failed, Frame, InputRow, Rows, Start, Tick, receive, send

#: Time-outs of start and end; the end includes up to 5 s for delivering the last rows.
_START_SECONDS, _END_SECONDS = 120.0, 7.0
#: Time-out of an answer; a part of a batch normally takes a fraction of a second.
_ANSWER_SECONDS = 120.0
#: Interval at which a start looks whether the stream is ending.
_LOOK_SECONDS = 0.5
#: Number of rows per frame: enough to make the cost of a frame negligible, few enough to keep suspects few. A frame
#: with more bytes takes no further row: both processes hold it several times.
_ROWS_AT_ONCE, _FRAME_BYTES = 500, 4_000_000
_WORKER = "rebalance_streaming.diagnosis.worker"
_NAMED_POISON = ("row", "hung or ended the process")

Place = tuple[str, int, int]


class DiagnosisError(Exception):
    """The diagnosis process ended or hangs; the text says which."""


class EndingError(Exception):
    """The stream is ending, so the start of the process was interrupted."""


class DiagnosisProcess:
    """Manages one diagnosis process at a time. Thread-safe."""

    def __init__(
        self,
        config: StreamConfig,
        detect: DetectConfig,
        epoch: int,
        say: Callable[[str], None],
        *,
        worker: str = _WORKER,
    ) -> None:
        self._config, self._detect, self._epoch, self._say, self._worker = config, detect, epoch, say, worker
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        #: A process that has been launched, but not started.
        self._launched: tuple[subprocess.Popen[bytes], socket.socket] | None = None
        self._suspects: set[Place] = set()
        self._poison: set[Place] = set()
        self._answer_seconds = min(_ANSWER_SECONDS, config.stall_seconds)
        self._taken_ms: int | None = None
        self._has_taken = threading.Event()
        self.waiting = 0

    def launch(self) -> None:
        """Launch the process that the next `start` uses, because its imports take most of a second."""
        # If that fails, `start` tries again and reports it.
        with self._lock, contextlib.suppress(DiagnosisError):
            if self._launched is None:
                self._launched = self._spawn()

    def start(self, judge_from_ms: int, is_ending: Callable[[], bool] = lambda: False) -> None:
        """Start or restart the process, and wait until it has restored published rows.

        Raises DiagnosisError if it cannot start, and EndingError as soon as `is_ending` returns true.
        """
        with self._lock:
            self._end()
            if self._launched is not None and self._launched[0].poll() is not None:
                self._drop_launched()
            self._process, self._connection = self._launched or self._spawn()
            self._launched = None
            aside = ((*_NAMED_POISON, len(self._poison)),) if self._poison else ()
            start = Start(self._config, self._detect, judge_from_ms, self._epoch, aside)
            self._call(start, _START_SECONDS, is_ending)

    def _spawn(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        try:
            ours, theirs = socket.socketpair()
            with theirs, contextlib.ExitStack() as on_error:
                on_error.enter_context(ours)
                process = self._launch_with(theirs.fileno())
                on_error.pop_all()
        except OSError as error:
            # No memory, or too many processes or open files.
            raise DiagnosisError(f"its process cannot be started ({error.strerror})") from None
        return process, ours

    def _launch_with(self, connection: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", self._worker, str(connection)]
        # librdkafka allocates from many threads; with an arena for each, memory would not be released.
        environment = {"MALLOC_ARENA_MAX": "2", **os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        return subprocess.Popen(command, pass_fds=[connection], env=environment)

    def take(self, rows: Iterable[InputRow]) -> None:
        """Send rows in the order of their times. Raises DiagnosisError if the process hangs or ends."""
        has_taken = False
        try:
            for part in self._parts(rows):
                with self._lock:
                    self._taken_ms = part[0].at_ms
                    self._take(part)
                has_taken = True
        finally:
            self._taken_ms = None
        if has_taken:
            self._has_taken.set()

    def await_rows(self, timeout_seconds: float) -> None:
        """Wait until rows have been sent since the last call, or until the time-out."""
        self._has_taken.wait(timeout_seconds)
        self._has_taken.clear()

    def _take(self, part: tuple[InputRow, ...]) -> None:
        if self._connection is None:
            raise DiagnosisError("its process ended")
        try:
            self._call(Rows(part), self._answer_seconds)
        except DiagnosisError:
            self._suspect(part)
            raise
        self._suspects.difference_update(map(_place, part))

    def tick(self, now_ms: int, read_until_ms: int, *, caught_up: bool) -> None:
        """Send a clock tick, if necessary between two parts of a batch. Raises DiagnosisError like `take`.

        During a batch `read_until_ms` is limited to the time of the part being sent, as later rows are still to come.
        """
        with self._lock:
            if self._connection is not None:
                read_until_ms = read_until_ms if self._taken_ms is None else min(read_until_ms, self._taken_ms)
                self._call(Tick(now_ms, read_until_ms, caught_up), self._answer_seconds)

    def end_now(self) -> None:
        """Kill the process; its undelivered rows are lost, which is fine for a superseded stream."""
        if (process := self._process) is not None:
            process.kill()

    def stop(self) -> None:
        """Let the process deliver its rows, and stop it; kill it if it hangs."""
        if self._lock.acquire(timeout=_END_SECONDS):
            try:
                self._end()
                self._drop_launched()
            finally:
                self._lock.release()
        elif (process := self._process) is not None:
            # A thread that waits for its answer gets an error.
            process.kill()

    def _parts(self, rows: Iterable[InputRow]) -> Iterator[tuple[InputRow, ...]]:
        part, size = list[InputRow](), 0
        for row in rows:
            place = _place(row)
            if place in self._poison:
                continue
            if place in self._suspects:
                if part:
                    yield tuple(part)
                    part, size = [], 0
                yield (row,)
                continue
            part.append(row)
            size += len(row.value or b"")
            if len(part) == _ROWS_AT_ONCE or size >= _FRAME_BYTES:
                yield tuple(part)
                part, size = [], 0
        if part:
            yield tuple(part)

    def _suspect(self, part: tuple[InputRow, ...]) -> None:
        if len(part) == 1:
            self._poison.add(_place(part[0]))
            self._say(
                f"row {part[0].offset} of {part[0].topic}-{part[0].partition} is left out: "
                "the diagnosis hangs or ends on it"
            )
        else:
            self._suspects.update(map(_place, part))

    def _call(self, frame: Frame, timeout_seconds: float, is_ending: Callable[[], bool] | None = None) -> None:
        assert self._connection is not None
        self._connection.settimeout(timeout_seconds)
        try:
            send(self._connection, frame)
            if is_ending is not None:
                _await_answer(self._connection, timeout_seconds, is_ending)
            answer = receive(self._connection)
        except EndingError:
            self._kill()
            raise
        except TimeoutError:
            self._kill()
            raise DiagnosisError(f"no answer for {timeout_seconds:g} s, so its process was ended") from None
        except OSError as error:
            self._kill()
            raise DiagnosisError(f"its process is gone ({error.strerror})") from None
        if isinstance(answer, Failed):
            self._kill()
            raise DiagnosisError(answer.reason)
        if not isinstance(answer, Done):
            self._kill()
            raise DiagnosisError("its process ended")
        self.waiting = answer.waiting
        for line in answer.said:
            self._say(line)

    def _end(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)
            deadline = time.monotonic() + _END_SECONDS
            if self._process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(max(0.0, deadline - time.monotonic()))
        self._kill()

    def _drop_launched(self) -> None:
        if self._launched is not None:
            _kill(*self._launched)
            self._launched = None

    def _kill(self) -> None:
        if self._process is not None and self._connection is not None:
            _kill(self._process, self._connection)
        self._process = self._connection = None


def _await_answer(connection: socket.socket, timeout_seconds: float, is_ending: Callable[[], bool]) -> None:
    """Wait until there is something to receive. Raises TimeoutError, or EndingError once `is_ending` returns true."""
    deadline = time.monotonic() + timeout_seconds
    connection.settimeout(_LOOK_SECONDS)
    while not is_ending():
        try:
            connection.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            if time.monotonic() >= deadline:
                raise
        else:
            connection.settimeout(timeout_seconds)
            return
    raise EndingError


def _kill(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
    connection.close()


def _place(row: InputRow) -> Place:
    return row.topic, row.partition, row.offset
