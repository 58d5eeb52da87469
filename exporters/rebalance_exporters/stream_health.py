"""The stream's health on its own pages: which of its queries run, and how far they are.

Receives the status of each query as the stream publishes it; returns sentences and metrics. The exporter reports the
same from the status topic, but not while the stream cannot write to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rebalance_contract import QueryStatus
from rebalance_exporters.state.health import describe_long_batch

_PREFIX = "kafka_rebalance_monitor_stream_"
#: Without a look at its queries for this long, the stream hangs. It looks twice a second, but starting three queries
#: while brokers are away takes minutes.
_HUNG_SECONDS = 300.0
#: The same for the start: starting Spark takes a minute on a small machine.
_HUNG_START_SECONDS = 900.0


class StreamHealth(Collector):
    """Whether the stream works and has caught up with the log; thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds and never goes back."""
        self._clock = clock
        self._statuses: tuple[QueryStatus, ...] = ()
        self._started = clock()
        self._looked: float | None = None
        self._awaited: str | None = None
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.registry.register(self)

    def look(self, statuses: Sequence[QueryStatus]) -> None:
        """Note the present status of the queries; called repeatedly while the stream works."""
        self._statuses, self._looked = tuple(statuses), self._clock()

    def wait_for(self, awaited: str | None) -> None:
        """Note what the start waits for; null: it continues."""
        self._awaited, self._started = awaited, self._clock()

    def unhealthy(self) -> str | None:
        """Return why the stream must be restarted, or null. It restarts failed queries itself."""
        if self._awaited is not None:
            return None
        if self._looked is None:
            starting_seconds = self._clock() - self._started
            return f"starting for {starting_seconds:.0f} s" if starting_seconds > _HUNG_START_SECONDS else None
        silent_seconds = self._clock() - self._looked
        if silent_seconds <= _HUNG_SECONDS:
            return None
        return f"nobody has looked after the queries for {silent_seconds:.0f} s: see the end of the stream's log"

    def unready(self) -> str | None:
        """Return what the stream waits for: a query that is not running or caught up, or ends no batch; else null."""
        if self._looked is None:
            return self._awaited or "starting"
        for status in self._statuses:
            if status.error is not None:
                return f"the {status.query} query does not run: {status.error}"
            if status.is_stalled:
                return f"a batch of the {status.query} query makes no progress"
        for status in self._statuses:
            if not status.caught_up:
                long = describe_long_batch(status)
                return (
                    f"the {status.query} query reads the log up: "
                    f"{status.read_records:,} of {status.wanted_records:,} records" + (f"; {long}" if long else "")
                )
        return next(filter(None, map(describe_long_batch, self._statuses)), None) or self.unhealthy()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        ready = GaugeMetricFamily(
            f"{_PREFIX}ready",
            "1 while all queries of this process run, have read up the log and end batches; /-/ready says why not.",
        )
        ready.add_metric([], float(self.unready() is None))
        yield ready
        labels = ("cluster", "query")
        running = GaugeMetricFamily(f"{_PREFIX}query_running", "1 while the query runs and progresses.", labels=labels)
        caught_up = GaugeMetricFamily(
            f"{_PREFIX}query_caught_up", "1 once the query has read what was in the log at its start.", labels=labels
        )
        restarts = CounterMetricFamily(
            f"{_PREFIX}query_restarts",
            "How often the query was started again since this process started.",
            labels=labels,
        )
        last_batch = GaugeMetricFamily(
            f"{_PREFIX}query_last_batch_timestamp_seconds",
            "When the query last ended a batch or found nothing to read, in seconds since 1970. Alert on its age.",
            labels=labels,
        )
        for status in self._statuses:
            values = (status.cluster, status.query)
            running.add_metric(values, float(status.error is None and not status.is_stalled))
            caught_up.add_metric(values, float(status.caught_up))
            restarts.add_metric(values, status.restarts)
            if status.last_batch_at_ms is not None:
                last_batch.add_metric(values, status.last_batch_at_ms / 1000)
        yield from (running, caught_up, restarts, last_batch)
