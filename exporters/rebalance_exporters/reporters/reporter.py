"""The thread that makes a report at every interval, independently of the application.

Receives a function that composes a report; hands reports to the outbox. Every report has this thread's delay: a thread
that only sleeps is late only if the whole process was held up. So it does nothing that waits.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from rebalance_exporters.reporters.polls import wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rebalance_exporters.reporters.outbox import FailureLog, Outbox, OutgoingReport

DEFAULT_TOPIC = "rebalance-monitor.client-metrics"
DEFAULT_INTERVAL_SECONDS = 5.0
#: Maximum time that the reporter adds to a consumer's `close`, in seconds.
CLOSE_SECONDS = 0.8


class DueReport(NamedTuple):
    """One due report. `late_ms` is its delay after the due time; `closing` marks the last report of a consumer."""

    seq: int
    emitted_ms: int
    interval_ms: int
    late_ms: int
    dropped: int
    closing: bool

    def fields(self) -> dict[str, Any]:
        """Return the fields that describe the report itself."""
        fields = {
            "emitted_ms": self.emitted_ms,
            "seq": self.seq,
            "interval_ms": self.interval_ms,
            "tick_late_ms": self.late_ms,
            "dropped": self.dropped,
        }
        return dict(fields, closing=True) if self.closing else fields


class ReportSchedule:
    """Due times on a fixed grid, in seconds of any clock. Missed ones are skipped."""

    def __init__(self, interval_seconds: float, now: float) -> None:
        """Start with a report that is due at once."""
        self._interval = interval_seconds
        self._due = now

    def seconds_left(self, now: float) -> float:
        """Return the number of seconds until the next report is due."""
        return max(0.0, self._due - now)

    def take(self, now: float) -> float:
        """Return how many seconds late the due report is, and schedule the next one."""
        late = max(0.0, now - self._due)
        self._due += self._interval * (1 + late // self._interval)
        return late


def check_interval(interval_seconds: float) -> None:
    """Raise ValueError if the interval is not a positive number."""
    if not interval_seconds > 0:
        raise ValueError(f"interval_seconds is {interval_seconds}: it must be above 0")


class Reporter:
    """Reports until closed. `compose` returns the report for a tick, or null if the consumer is gone."""

    def __init__(
        self,
        compose: Callable[[DueReport], OutgoingReport | None],
        outbox: Outbox,
        failures: FailureLog,
        interval_seconds: float = DEFAULT_INTERVAL_SECONDS,
    ) -> None:
        """Create the threads without starting them. Raises ValueError if the interval is not a positive number."""
        check_interval(interval_seconds)
        self._compose = compose
        self._outbox = outbox
        self._failures = failures
        self._interval = interval_seconds
        self._seq = 0
        self._stop = threading.Event()
        self._says_goodbye = False
        self._thread = threading.Thread(target=self._run, name="rebalance-monitor-reporter", daemon=True)

    def start(self) -> None:
        """Start both threads. Never raises: if no thread can be started, the consumer runs without reports."""
        try:
            self._outbox.start()
            self._thread.start()
        except RuntimeError as error:
            self._failures.note("reporting cannot start", error)
            self._outbox.close()

    def announce_close(self) -> None:
        """Send a last report, marked as such; called before the consumer closes. Waits until the report is composed."""
        self._says_goodbye = True
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(CLOSE_SECONDS / 2)

    def await_end(self) -> None:
        """Wait briefly for the reports being sent; called after the consumer closed."""
        self._outbox.close()
        self._outbox.join(time.monotonic() + CLOSE_SECONDS / 2)

    def abandon(self) -> None:
        """Stop without a last report, after the consumer was dropped without being closed. Returns at once."""
        self._stop.set()

    def _run(self) -> None:
        schedule = ReportSchedule(self._interval, time.monotonic())
        while not self._stop.wait(schedule.seconds_left(time.monotonic())):
            self._report(schedule.take(time.monotonic()))
        if self._says_goodbye:
            self._report(0.0, closing=True)
        self._outbox.close()

    def _report(self, late_seconds: float, *, closing: bool = False) -> None:
        late_ms, interval_ms = round(late_seconds * 1000), round(self._interval * 1000)
        tick = DueReport(self._seq, wall_ms(), interval_ms, late_ms, self._outbox.dropped, closing)
        self._seq += 1
        try:
            report = self._compose(tick)
            if report is None:
                self._stop.set()
            else:
                self._outbox.put(report)
        except Exception as error:
            self._failures.note("a report cannot be made", error)
