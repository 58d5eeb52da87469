"""The prober's own metrics, on a port of their own; every series is about the prober, none about a group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from rebalance_exporters.errors import ExporterError

_PREFIX = "kafka_rebalance_monitor_probe"
_WHAT = ("what",)


class ProbeMetrics:
    """Counts what the tasks do; `what` is a task's name (groups, offsets, committed, zookeeper, interests, publish)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.cycles = Counter(
            f"{_PREFIX}_cycles", "Rounds of asking that ended, well or not.", _WHAT, registry=self.registry
        )
        self.errors = Counter(
            f"{_PREFIX}_errors",
            "Questions that were not answered, or probes not published. The prober's output says why.",
            _WHAT,
            registry=self.registry,
        )
        self.duration = Gauge(
            f"{_PREFIX}_duration_seconds",
            "How long the last round took. Longer than its period: rebalances that short are missed.",
            _WHAT,
            registry=self.registry,
        )
        self.last_success = Gauge(
            f"{_PREFIX}_last_success_timestamp_seconds",
            "When a round last got answers, in seconds since 1970. Alert on its age.",
            _WHAT,
            registry=self.registry,
        )
        self.groups = Gauge(f"{_PREFIX}_groups", "Groups the coordinators list.", registry=self.registry)
        self.partitions = Gauge(
            f"{_PREFIX}_partitions",
            "Partitions whose offsets the last round asked, and those new since.",
            registry=self.registry,
        )
        self.published = Counter(
            f"{_PREFIX}_published", "Probes handed to Kafka and acknowledged.", registry=self.registry
        )

    @contextmanager
    def serving(self, host: str, port: int) -> Iterator[int]:
        """Serve them while the block runs; gives the port. Raises ExporterError when it cannot be had."""
        try:
            server, thread = start_http_server(port, host, self.registry)
        except OSError as error:
            raise ExporterError(
                f"cannot listen on {host} port {port} ({error.strerror}): "
                "stop what uses it, or choose another probe.listen_port"
            ) from error
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
