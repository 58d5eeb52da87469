"""Running something over and over: at its period while it works, more and more rarely while it fails."""

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


class Complaints:
    """Counts every error and says each sentence when it is new, and again while it lasts; for several threads."""

    def __init__(self, metrics: ProbeMetrics, say: Say, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._say = say
        self._clock = clock
        self._said: dict[str, float] = {}
        self._lock = threading.Lock()

    def note(self, what: str, sentence: str, about: str | None = None) -> None:
        """Count one error; `what` is the label it is counted under.

        Sentences that say the same in different words share an `about`; of those one is said.
        """
        self._metrics.errors.labels(what).inc()
        if self._is_news(about or sentence):
            self._say(f"probe: {sentence}")

    def _is_news(self, about: str) -> bool:
        now = self._clock()
        with self._lock:
            # In the order in which they were said, so that a thousand topics in error cost a step each.
            while self._said and now - next(iter(self._said.values())) >= _SAY_AGAIN_SECONDS:
                del self._said[next(iter(self._said))]
            if about in self._said:
                return False
            self._said[about] = now
            return True


@dataclass(frozen=True, slots=True)
class Wake:
    """Something that is not to wait for a task's next turn: done soon after `event` was set, which is cleared."""

    event: threading.Event
    cycle: Callable[[], None]


class Task:
    """One thing that is done every so often in a thread of its own, whatever happens."""

    def __init__(
        self,
        what: str,
        period_seconds: float,
        cycle: Callable[[], None],
        metrics: ProbeMetrics,
        complaints: Complaints,
        *,
        wake: Wake | None = None,
    ) -> None:
        """`cycle` raises when nothing at all was achieved."""
        self._what = what
        self._period = period_seconds
        self._cycle = cycle
        self._metrics = metrics
        self._complaints = complaints
        self._wake = wake
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
        """Wait for the next turn; what must not wait for it is done meanwhile."""
        while not stop.is_set() and (left := until - time.monotonic()) > 0:
            if self._wake is None:
                stop.wait(left)
            elif self._wake.event.wait(min(left, _LOOK_FOR_STOP_SECONDS)):
                # What woke it seldom comes alone.
                stop.wait(_GATHER_SECONDS)
                self._wake.event.clear()
                self._run_once(self._wake.cycle)

    def _run_once(self, cycle: Callable[[], None]) -> bool:
        """Run one cycle; whether it worked."""
        started, answered = time.monotonic(), False
        try:
            cycle()
            answered = True
        except ExporterError as error:
            self._complaints.note(self._what, f"{self._what}: {error}")
        except Exception as error:  # a prober that ends at the first surprise would be blind ever after
            self._complaints.note(self._what, f"{self._what}: {describe(error)}")
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
    """Return what librdkafka says, without the times that make each of its sentences a new one."""
    return str(error.str()).partition(" (after ")[0]
