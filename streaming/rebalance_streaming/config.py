"""Settings of the stream: one frozen dataclass, defaults beside the fields, units in the names.

Where a value comes from (flag, environment, file) is the launcher's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MetricTopic:
    """A further topic of client metrics. `format` pins what its messages are; null: told by each message.

    `defaults` gives identity fields (`group_id`, `host`, …) that its messages lack.
    """

    name: str
    format: str | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """How the Spark application reads, works and writes."""

    #: Client properties under librdkafka's names; the Spark source and sink get the same translated.
    kafka: Mapping[str, str] = field(default_factory=dict)
    #: Name of the watched cluster: a label of every series, part of every key; without `/`.
    cluster: str = "default"
    #: The log that is read.
    source_topic: str = "__consumer_offsets"
    #: What stands before `groups`, `rebalances` and the other names of the monitor's topics.
    topic_prefix: str = "rebalance-monitor."
    #: Path or URI every executor can reach; a local path without scheme means this machine.
    checkpoint: str = "rebalance-monitor-checkpoint"
    #: Replication factor of topics the monitor creates; -1 leaves it to the broker's default.
    topic_replication_factor: int = -1
    #: How often the query of group records looks for new ones.
    membership_trigger_ms: int = 500
    #: How often the query of commits looks for new ones.
    commits_trigger_ms: int = 5_000
    #: How often the diagnosis looks at what is new.
    diagnosis_trigger_ms: int = 1_000
    #: How far back the diagnosis reads commits, probes and client metrics when it starts.
    diagnosis_lookback_minutes: float = 60.0
    #: Topics of client metrics beside the monitor's own, by name or with their format and defaults.
    metric_topics: tuple[MetricTopic | str, ...] = ()
    #: Width of a commit summary; the sliding windows are multiples of it.
    pane_ms: int = 5_000
    #: Log positions read at most per batch while catching up. Bounds memory: about 1 kB of heap per 1,000.
    max_offsets_per_trigger: int = 1_000_000
    #: Python tasks that read and decode per query. More than 1 helps catching up, costs latency when live.
    source_tasks: int = 1
    #: Fixed when a checkpoint is made: Spark ignores a later change.
    shuffle_partitions: int = 1
    #: How long a deleted group's totals are kept, should it come back; then its state is dropped.
    forget_groups_after_hours: float = 24.0
    #: Spark master; empty leaves it, and the memory, to `spark-submit`.
    master: str = "local[2]"
    #: Heap of the Spark driver, which in local mode is all of it.
    driver_memory: str = "1g"
    #: How long a graceful stop waits for the running batch.
    stop_timeout_seconds: float = 30.0

    @property
    def groups_topic(self) -> str:
        """Compacted topic of group snapshots."""
        return f"{self.topic_prefix}groups"

    @property
    def rebalances_topic(self) -> str:
        """Topic of rebalances."""
        return f"{self.topic_prefix}rebalances"

    @property
    def commits_topic(self) -> str:
        """Topic of commit summaries."""
        return f"{self.topic_prefix}commits"

    @property
    def probes_topic(self) -> str:
        """Topic of what the prober asked the brokers."""
        return f"{self.topic_prefix}probes"

    @property
    def metrics_topic(self) -> str:
        """Topic that the reporters write client metrics to."""
        return f"{self.topic_prefix}client-metrics"

    @property
    def findings_topic(self) -> str:
        """Topic of findings."""
        return f"{self.topic_prefix}findings"

    @property
    def heartbeats_topic(self) -> str:
        """Compacted topic of heartbeat timing per group."""
        return f"{self.topic_prefix}heartbeats"

    @property
    def all_metric_topics(self) -> tuple[MetricTopic, ...]:
        """Every topic that client metrics are read from."""
        others = (MetricTopic(each) if isinstance(each, str) else each for each in self.metric_topics)
        return (MetricTopic(self.metrics_topic), *others)

    @property
    def status_topic(self) -> str:
        """Compacted topic of the monitor's own health."""
        return f"{self.topic_prefix}status"

    def validate(self) -> list[str]:
        """Return every problem of these settings as a sentence; none means usable."""
        problems = []
        if not self.kafka.get("bootstrap.servers"):
            problems.append("kafka.bootstrap.servers is not set; pass --bootstrap-server HOST:PORT")
        if not self.cluster or "/" in self.cluster:
            problems.append(f"cluster must be a name without '/', got {self.cluster!r}")
        for name in (
            "membership_trigger_ms",
            "commits_trigger_ms",
            "diagnosis_trigger_ms",
            "max_offsets_per_trigger",
            "source_tasks",
            "shuffle_partitions",
        ):
            if getattr(self, name) < 1:
                problems.append(f"stream.{name} must be at least 1, got {getattr(self, name)}")
        if not self.forget_groups_after_hours > 0:
            problems.append(f"stream.forget_groups_after_hours must be above 0, got {self.forget_groups_after_hours}")
        if not self.diagnosis_lookback_minutes >= 0:
            problems.append(
                f"stream.diagnosis_lookback_minutes must not be negative, got {self.diagnosis_lookback_minutes}"
            )
        if self.pane_ms < 1_000 or 60_000 % self.pane_ms:
            problems.append(f"stream.pane_ms must divide a minute and be at least 1000, got {self.pane_ms}")
        return problems
