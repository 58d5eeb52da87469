"""The prober's own metrics, served on its own port; every series is about the prober, none about a group."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector

from rebalance_exporters.prober.health import ProbeHealth

_PREFIX = "kafka_rebalance_monitor_probe"
_WHAT = ("what",)


class ProbeMetrics:
    """Metrics of the tasks; `what` is a task's name (groups, offsets, committed, zookeeper, interests, publish).

    Errors also have `brokers`: attempts at the prober's start that no broker answered.
    """

    def __init__(self) -> None:
        self.health = ProbeHealth()
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        ready = Gauge(
            f"{_PREFIX}_ready", "1 while every task gets its answers; /-/ready says why not.", registry=self.registry
        )
        ready.set_function(lambda: float(self.health.unready() is None))
        self.cycles = Counter(
            f"{_PREFIX}_cycles", "Rounds of requests that ended, successful or not.", _WHAT, registry=self.registry
        )
        self.errors = Counter(
            f"{_PREFIX}_errors",
            "Requests that were not answered, or probes not published; `brokers`: at the start, no broker answered. "
            "The prober's output says why.",
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
            "Partitions whose offsets the last round requested, and new ones since.",
            registry=self.registry,
        )
        self.published = Counter(
            f"{_PREFIX}_published", "Probes handed to Kafka and acknowledged.", registry=self.registry
        )
