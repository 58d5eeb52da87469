"""Settings of the stream: one frozen dataclass, defaults beside the fields, units in the names.

Where a value comes from (flag, environment, file) is the launcher's business.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from rebalance_contract import QUERIES, CountedFrom, topics
from rebalance_contract.settings import (
    HEALTH_TEXT,
    READS_LOG,
    READS_LOG_TEXT,
    WEB_CONFIG_TEXT,
    bootstrap_problems,
    cluster_problems,
    listen_problems,
    setting,
    table,
)
from rebalance_kafka.checks import java_problems, librdkafka_problems
from rebalance_streaming.time_zones import is_time_zone
from rebalance_streaming.wire.records import OFFSETS_TOPIC


@dataclass(frozen=True, slots=True)
class MetricTopic:
    """A further topic of client metrics. `format` pins what its messages are; null: told by each message.

    `defaults` gives identity fields (`group_id`, `host`, …) that its messages lack.
    """

    name: str
    format: str | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokerLogTopic:
    """A topic of lines of brokers' logs. `time_zone` is that of the times in them that do not say it."""

    name: str
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """How the Spark application reads, works and writes."""

    kafka: Mapping[str, str] = table(
        "Client properties under librdkafka's names; the Spark source and sink get the same translated, and "
        "what stands behind `java.`."
    )
    cluster: str = setting(
        "default", "Name of the watched cluster: a label of every series, part of every key; without `/`."
    )
    source_topic: str = setting(OFFSETS_TOPIC, "The log that is read.")
    reads_log: bool = setting(READS_LOG, READS_LOG_TEXT)
    topic_prefix: str = setting(
        "rebalance-monitor.", "What stands before `groups`, `rebalances` and the other names of the monitor's topics."
    )
    checkpoint: str = setting(
        "rebalance-monitor-checkpoint",
        "Path or URI every executor can reach; a local path without scheme means this machine.",
    )
    rebuild: str = setting(
        "",
        "A word of your choice, such as a date. With one that the checkpoint does not remember, the stream does what "
        "`--rebuild --set-aside` does; later starts with the same word go on from there. Empty: nothing is rebuilt.",
    )
    topic_replication_factor: int = setting(
        -1, "Replication factor of topics the monitor creates; -1 leaves it to the broker's default."
    )
    membership_trigger_ms: int = setting(500, "How often the query of group records looks for new ones.")
    activity_trigger_ms: int = setting(
        1_000, "How often the query of commits, probes and client metrics looks for new ones."
    )
    diagnosis_trigger_ms: int = setting(500, "How often the diagnosis looks at what is new.")
    diagnosis_lookback_minutes: float = setting(
        15.0, "How far back the diagnosis reads packed activity when it starts."
    )
    diagnosis_lookback_rows: int = setting(
        100_000, "Rows of activity read at most per partition when the diagnosis starts, the newest ones."
    )
    stall_seconds: float = setting(
        600.0, "A batch that is not over after this long is ended, and its query started again."
    )
    read_committed_groups: str = setting(
        "",
        "Groups whose consumers read committed records only, as a regular expression: their lag ends at the "
        "last stable offset. No protocol tells which ones do.",
    )
    metric_topics: tuple[MetricTopic | str, ...] = setting(
        (), "Topics of client metrics beside the monitor's own, by name or with their format and defaults."
    )
    broker_log_topics: tuple[BrokerLogTopic | str, ...] = setting(
        (),
        "Topics of lines of the watched brokers' own logs, by name or with their `time_zone`; none are read "
        "without it. `rebalance-monitor.broker-logs` is made if it is missing.",
    )
    pane_ms: int = setting(5_000, "Width of a commit summary; the sliding windows are multiples of it.")
    max_offsets_per_trigger: int = setting(
        1_000_000,
        "Log positions read at most per batch while catching up. Bounds how long a batch takes: a million, some 7 s.",
    )
    max_reports_per_trigger: int = setting(
        5_000,
        "Messages of client metrics and of brokers' logs read at most per batch: a backlog of theirs, however "
        "large, holds up commits for no longer than so many take.",
    )
    source_tasks: int = setting(
        1, "Python tasks that read and decode per query. More than 1 helps catching up, costs latency when live."
    )
    shuffle_partitions: int = setting(1, "Fixed when a checkpoint is made: Spark ignores a later change.")
    forget_groups_after_hours: float = setting(
        24.0, "How long a deleted group's totals are kept, should it come back; then its state is dropped."
    )
    queries: tuple[str, ...] = setting(
        QUERIES, "The queries this process runs; a big cluster spreads them over machines."
    )
    master: str = setting(
        "local[2,4]",
        "Spark master, by default two cores and up to four attempts of a task; empty leaves it, and the "
        "memory, to `spark-submit`.",
    )
    driver_memory: str = setting("700m", "Heap of the Spark driver, which in local mode is all of it.")
    extra_jars: tuple[str, ...] = setting(
        (), "Further jars for Spark, such as a cloud's login module; under `spark-submit` they come with `--jars`."
    )
    stop_timeout_seconds: float = setting(
        15.0,
        "How long a stop waits for the running batch; one that is cut is run again at the next start. All of "
        "a stop takes at most 27 s more.",
    )
    listen_host: str = setting(
        "0.0.0.0",  # noqa: S104  Prometheus scrapes from another machine
        "Where the stream's own pages are served.",
    )
    listen_port: int = setting(
        9644, "Port of `/-/healthy`, `/-/ready` and the stream's own `/metrics`; 0 takes any free one."
    )
    web_config_file: str = setting("", WEB_CONFIG_TEXT)
    health_without_password: bool = setting(False, HEALTH_TEXT)

    @property
    def counted_from(self) -> CountedFrom:
        """What groups' totals rest on."""
        return CountedFrom.LOG if self.reads_log else CountedFrom.PROBES

    @property
    def log_topics(self) -> tuple[str, ...]:
        """The watched log, unless nobody may read it."""
        return (self.source_topic,) if self.reads_log else ()

    @property
    def groups_topic(self) -> str:
        """Compacted topic of group snapshots."""
        return topics.GROUPS.full_name(self.topic_prefix)

    @property
    def rebalances_topic(self) -> str:
        """Topic of rebalances."""
        return topics.REBALANCES.full_name(self.topic_prefix)

    @property
    def activity_topic(self) -> str:
        """Topic of what groups did, packed."""
        return topics.ACTIVITY.full_name(self.topic_prefix)

    @property
    def probes_topic(self) -> str:
        """Topic of what the prober asked the brokers."""
        return topics.PROBES.full_name(self.topic_prefix)

    @property
    def metrics_topic(self) -> str:
        """Topic that the reporters write client metrics to."""
        return topics.CLIENT_METRICS.full_name(self.topic_prefix)

    @property
    def findings_topic(self) -> str:
        """Topic of findings."""
        return topics.FINDINGS.full_name(self.topic_prefix)

    @property
    def all_metric_topics(self) -> tuple[MetricTopic, ...]:
        """Every topic that client metrics are read from."""
        others = (MetricTopic(each) if isinstance(each, str) else each for each in self.metric_topics)
        return (MetricTopic(self.metrics_topic), *others)

    @property
    def all_broker_log_topics(self) -> tuple[BrokerLogTopic, ...]:
        """Every topic that lines of brokers' logs are read from."""
        return tuple(BrokerLogTopic(each) if isinstance(each, str) else each for each in self.broker_log_topics)

    @property
    def foreign_topics(self) -> tuple[str, ...]:
        """Names of the topics that others than the monitor write to: client metrics and brokers' logs."""
        return tuple(each.name for each in self.all_metric_topics) + tuple(
            each.name for each in self.all_broker_log_topics
        )

    @property
    def status_topic(self) -> str:
        """Compacted topic of the monitor's own health."""
        return topics.STATUS.full_name(self.topic_prefix)

    @property
    def silences_topic(self) -> str:
        """Topic of silences and announced deploys."""
        return topics.SILENCES.full_name(self.topic_prefix)

    def without_secrets(self) -> StreamConfig:
        """Return the settings that workers get, which need no credentials."""
        return replace(self, kafka={})

    def validate(self) -> list[str]:
        """Return every problem of these settings as a sentence; none means usable."""
        problems = [*bootstrap_problems(self.kafka), *librdkafka_problems(self.kafka), *java_problems(self.kafka)]
        problems += [
            f"stream.extra_jars names {jar}, which is no file: check the path"
            for jar in self.extra_jars
            if not Path(jar).is_file()
        ]
        problems += [*listen_problems("stream", self.listen_host, self.listen_port), *cluster_problems(self.cluster)]
        for name in (
            "membership_trigger_ms",
            "activity_trigger_ms",
            "diagnosis_trigger_ms",
            "diagnosis_lookback_rows",
            "max_offsets_per_trigger",
            "max_reports_per_trigger",
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
        unknown = sorted(set(self.queries) - set(QUERIES))
        if unknown or not self.queries:
            problems.append(f"stream.queries must name some of {', '.join(QUERIES)}, got {unknown or 'none'}")
        try:
            re.compile(self.read_committed_groups)
        except re.error as error:
            problems.append(f"stream.read_committed_groups is no regular expression: {error}")
        problems += self._topic_problems()
        if not self.stall_seconds > 0:
            problems.append(f"stream.stall_seconds must be above 0, got {self.stall_seconds}")
        if self.pane_ms < 1_000 or 60_000 % self.pane_ms:
            problems.append(f"stream.pane_ms must divide a minute and be at least 1000, got {self.pane_ms}")
        return problems

    def _topic_problems(self) -> list[str]:
        taken = {self.source_topic, self.probes_topic, *(each.name for each in self.all_metric_topics)}
        problems = []
        for each in self.all_broker_log_topics:
            if each.name in taken:
                problems.append(f"stream.broker_log_topics names {each.name}, which is read as something else already")
            if not is_time_zone(each.time_zone):
                problems.append(
                    f"stream.broker_log_topics has the time zone {each.time_zone!r} for {each.name}, which is none: "
                    "give a name such as Europe/Berlin"
                )
        return problems
