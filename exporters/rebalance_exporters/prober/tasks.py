"""Running something over and over: at its period while it works, more and more rarely while it fails."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from confluent_kafka import KafkaError

from rebalance_exporters.prober.metrics import ProbeMetrics

LONGEST_PAUSE_SECONDS = 30.0
_SAY_AGAIN_SECONDS = 300.0

Say = Callable[[str], None]


class Backoff:
    """Pauses between attempts, in seconds: doubled at every failure, half of each left to chance."""

    def __init__(self, first_seconds: float, chance: Callable[[], float] = random.random) -> None:
        """`chance` gives a number from 0 to below 1."""
        self._first = first_seconds
        self._chance = chance
        self._failures = 0

    def succeed(self) -> None:
        """Begin anew."""
        self._failures = 0

    def fail(self) -> float:
        """Return how long to wait after one more failure."""
        longest = min(LONGEST_PAUSE_SECONDS, self._first * 2.0 ** min(self._failures, 16))
        self._failures += 1
        return longest * (0.5 + 0.5 * self._chance())


class Complaints:
    """Counts every error and says each sentence when it is new, and again while it lasts; for several threads."""

    def __init__(self, metrics: ProbeMetrics, say: Say, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._say = say
        self._clock = clock
        self._said: dict[str, float] = {}
        self._lock = threading.Lock()

    def note(self, what: str, sentence: str) -> None:
        """Take in one error; `what` is the label it is counted under."""
        self._metrics.errors.labels(what).inc()
        now = self._clock()
        with self._lock:
            self._said = {known: at for known, at in self._said.items() if now - at < _SAY_AGAIN_SECONDS}
            if sentence in self._said:
                return
            self._said[sentence] = now
        self._say(f"probe: {sentence}")


class Task:
    """One thing that is done every so often in a thread of its own, whatever happens."""

    def __init__(
        self, what: str, period_seconds: float, cycle: Callable[[], None], metrics: ProbeMetrics, complaints: Complaints
    ) -> None:
        """`cycle` raises when nothing at all was achieved."""
        self._what = what
        self._period = period_seconds
        self._cycle = cycle
        self._metrics = metrics
        self._complaints = complaints
        self._backoff = Backoff(period_seconds)
        metrics.errors.labels(what)

    def run(self, stop: threading.Event) -> None:
        """Run cycles until told to stop."""
        while not stop.is_set():
            stop.wait(self._run_once())

    def _run_once(self) -> float:
        """Run one cycle; return how long to wait before the next."""
        started = time.monotonic()
        try:
            self._cycle()
        except Exception as error:  # a prober that ends at the first surprise would be blind ever after
            self._complaints.note(self._what, f"{self._what}: {describe(error)}")
            return self._backoff.fail()
        else:
            self._backoff.succeed()
            self._metrics.last_success.labels(self._what).set_to_current_time()
            return max(0.0, self._period - (time.monotonic() - started))
        finally:
            self._metrics.cycles.labels(self._what).inc()
            self._metrics.duration.labels(self._what).set(time.monotonic() - started)


def describe(error: BaseException) -> str:
    """Return an error as a few words."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def describe_kafka(error: KafkaError) -> str:
    """Return what librdkafka says, without the times that make each of its sentences a new one."""
    return str(error.str()).partition(" (after ")[0]
