"""Runs tasks repeatedly: at their period while they work, with back-off while they fail."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import KafkaError

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.prober.metrics import ProbeMetrics
from rebalance_kafka.backoff import Backoff

_LONGEST_PAUSE_SECONDS = 30.0
_SAY_AGAIN_SECONDS = 300.0
_GATHER_SECONDS = 0.1
_LOOK_FOR_STOP_SECONDS = 0.5

Say = Callable[[str], None]


class ErrorLog:
    """Counts every error; prints each sentence when it is new, and again while it lasts. Thread-safe."""

    def __init__(self, metrics: ProbeMetrics, say: Say, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._say = say
        self._clock = clock
        self._said: dict[str, float] = {}
        self._lock = threading.Lock()

    def note(self, what: str, sentence: str, about: str | None = None) -> None:
        """Count one error under the label `what`, and print its sentence if it is news.

        Sentences with the same meaning in different words share an `about`; only one of them is printed.
        """
        self._metrics.errors.labels(what).inc()
        if self._is_news(about or sentence):
            self._say(f"probe: {sentence}")

    def _is_news(self, about: str) -> bool:
        now = self._clock()
        with self._lock:
            # The oldest come first, so that each call only checks those that expire, even with a thousand topics in
            # error.
            while self._said and now - next(iter(self._said.values())) >= _SAY_AGAIN_SECONDS:
                del self._said[next(iter(self._said))]
            if about in self._said:
                return False
            self._said[about] = now
            return True


@dataclass(frozen=True, slots=True)
class EarlyCycle:
    """Work that does not wait for the task's next turn: done soon after `event` is set, which is then cleared."""

    event: threading.Event
    cycle: Callable[[], None]


class Task:
    """Work that is done periodically in a separate thread; errors do not end it."""

    def __init__(
        self,
        what: str,
        period_seconds: float,
        cycle: Callable[[], None],
        metrics: ProbeMetrics,
        error_log: ErrorLog,
        *,
        early_cycle: EarlyCycle | None = None,
    ) -> None:
        """Create without running. `cycle` raises if nothing at all was achieved."""
        self._what = what
        self._period = period_seconds
        self._cycle = cycle
        self._metrics = metrics
        self._error_log = error_log
        self._early_cycle = early_cycle
        self._backoff = Backoff(period_seconds, _LONGEST_PAUSE_SECONDS, random.random)
        metrics.errors.labels(what)
        metrics.health.expect(what, period_seconds)

    def run(self, stop: threading.Event) -> None:
        """Run cycles until stopped."""
        while not stop.is_set():
            started = time.monotonic()
            if self._run_once(self._cycle):
                self._backoff.succeed()
                self._await(stop, started + self._period)
            else:
                stop.wait(self._backoff.fail())

    def _await(self, stop: threading.Event, until: float) -> None:
        """Wait for the next turn; do the work of `early_cycle` meanwhile."""
        while not stop.is_set() and (left := until - time.monotonic()) > 0:
            if self._early_cycle is None:
                stop.wait(left)
            elif self._early_cycle.event.wait(min(left, _LOOK_FOR_STOP_SECONDS)):
                # Events seldom come alone.
                stop.wait(_GATHER_SECONDS)
                self._early_cycle.event.clear()
                self._run_once(self._early_cycle.cycle)

    def _run_once(self, cycle: Callable[[], None]) -> bool:
        """Run one cycle; return whether it worked."""
        started, answered = time.monotonic(), False
        try:
            cycle()
            answered = True
        except ExporterError as error:
            self._error_log.note(self._what, f"{self._what}: {error}")
        except Exception as error:  # the prober must survive unexpected errors
            self._error_log.note(self._what, f"{self._what}: {describe(error)}")
        else:
            self._metrics.last_success.labels(self._what).set_to_current_time()
        finally:
            self._metrics.health.note(self._what, answered=answered)
            self._metrics.cycles.labels(self._what).inc()
            self._metrics.duration.labels(self._what).set(time.monotonic() - started)
        return answered


def describe(error: BaseException) -> str:
    """Return an error as a few words."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def describe_kafka(error: KafkaError) -> str:
    """Return librdkafka's message without its times, which would make every message a new one."""
    return str(error.str()).partition(" (after ")[0]
