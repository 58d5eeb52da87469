"""Queue of outgoing reports: bounded, with the one thread that may wait for Kafka.

Receives finished reports from the reporting thread, which never waits; hands them to a transport. While Kafka is
unavailable the queue keeps the newest reports and counts those dropped. Reports that arrive late carry their original
time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

#: Five minutes of reports at the default interval.
CAPACITY = 60
#: Brokers refuse records above 1 MB by default.
LARGEST_BYTES = 900_000
#: Limit of all queued reports together; few consumers have reports of more than 60 kB.
MOST_BYTES = 4_000_000
_RETRY_SECONDS = 1.0


class OutgoingReport(NamedTuple):
    """A report as it goes into a record."""

    key: bytes | None
    value: bytes


class Transport(Protocol):
    """Delivers reports to the topic."""

    def send(self, report: OutgoingReport, given_up: threading.Event) -> None:
        """Return when the report is delivered, raise if it is not; may wait until `given_up` is set."""

    def close(self) -> None:
        """Release connections."""


class CallTransport:
    """Hands reports to a function of the user: `send(topic, key, value)`."""

    def __init__(self, send: Callable[[str, bytes | None, bytes], None], topic: str) -> None:
        self._send = send
        self._topic = topic

    def send(self, report: OutgoingReport, _given_up: threading.Event) -> None:
        """Call the function; an exception means that the report is not delivered."""
        self._send(self._topic, report.key, report.value)

    def close(self) -> None:
        """Do nothing; the function belongs to the user."""


class FailureLog:
    """Logs each kind of failure once, so that a lasting failure does not fill the program's log."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: set[tuple[str, str]] = set()

    def note(self, what: str, reason: BaseException | str) -> None:
        """Log a failure unless its kind was logged before: the same `what` with the same type of exception."""
        kind = (what, type(reason).__name__)
        if kind not in self._said:
            self._said.add(kind)
            said = reason if isinstance(reason, str) else f"{kind[1]}: {reason}"
            self._log.warning("%s (said once; the consumer itself is not affected): %s", what, said)


class Outbox:
    """The queue and its thread. When full, it drops its oldest report; `dropped` counts these."""

    def __init__(
        self,
        transport: Transport,
        failures: FailureLog,
        *,
        capacity: int = CAPACITY,
        most_bytes: int = MOST_BYTES,
        retry_seconds: float = _RETRY_SECONDS,
    ) -> None:
        """Create the queue. Reports that could not be delivered are retried every `retry_seconds` while there is room.

        There is room for `capacity` reports of `most_bytes` together, and always for the newest report.
        """
        self.dropped = 0
        self._transport = transport
        self._failures = failures
        self._capacity = capacity
        self._most_bytes = most_bytes
        self._retry_seconds = retry_seconds
        self._waiting: deque[OutgoingReport] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._given_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rebalance-monitor-outbox", daemon=True)

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def put(self, report: OutgoingReport) -> None:
        """Queue a report; never waits."""
        if len(report.value) > LARGEST_BYTES:
            self.dropped += 1
            self._failures.note("a report is too large to be sent", f"it has {len(report.value)} bytes")
            return
        with self._changed:
            self._waiting.append(report)
            self._waiting_bytes += len(report.value)
            while len(self._waiting) > 1 and not self._has_room():
                self._pop()
                self.dropped += 1
            self._changed.notify()

    def close(self) -> None:
        """Send the queued reports up to the first failure, then end. Returns at once."""
        self._closing.set()
        with self._changed:
            self._changed.notify()

    def join(self, deadline: float) -> None:
        """Wait for the thread to end until `deadline` on the monotonic clock, then cancel the delivery in progress."""
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(max(0.0, deadline - time.monotonic()))
        self._given_up.set()

    def _run(self) -> None:
        while (report := self._take()) is not None:
            try:
                self._transport.send(report, self._given_up)
            except Exception as error:
                self._failures.note("reports cannot be sent", error)
                self._put_back(report)
                if self._closing.wait(self._retry_seconds):
                    break
        try:
            self._transport.close()
        except Exception as error:
            self._failures.note("the reports' connection did not close", error)

    def _take(self) -> OutgoingReport | None:
        """Wait for a report; return null when closing and the queue is empty."""
        with self._changed:
            while not self._waiting and not self._closing.is_set():
                self._changed.wait()
            return self._pop() if self._waiting else None

    def _put_back(self, report: OutgoingReport) -> None:
        with self._changed:
            self._waiting.appendleft(report)
            self._waiting_bytes += len(report.value)
            if len(self._waiting) > 1 and not self._has_room():
                self._pop()
                self.dropped += 1

    def _has_room(self) -> bool:
        return len(self._waiting) <= self._capacity and self._waiting_bytes <= self._most_bytes

    def _pop(self) -> OutgoingReport:
        report = self._waiting.popleft()
        self._waiting_bytes -= len(report.value)
        return report
