"""Settings of the stream: one frozen dataclass, defaults beside the fields, units in the names.

The launcher reads the values from flags, the environment or a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
    """An additional topic of client metrics. `format` is the format of its messages; null: detected for each message.

    `defaults` has identity fields (`group_id`, `host`, …) that its messages lack.
    """

    name: str
    format: str | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokerLogTopic:
    """A topic of broker log lines. `time_zone` applies to times in them without a zone."""

    name: str
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """Settings of the Spark application."""

    kafka: Mapping[str, str] = table(
        "Client properties under librdkafka's names; the Spark source and sink get the same translated, and "
        "what stands behind `java.`."
    )
    cluster: str = setting(
        "default",
        "Name of the watched cluster. It is a label of every series and part of every key; `/` is not allowed.",
    )
    source_topic: str = setting(OFFSETS_TOPIC, "Topic that is watched for group records and offset commits.")
    reads_log: bool = setting(READS_LOG, READS_LOG_TEXT)
    topic_prefix: str = setting(
        "rebalance-monitor.", "Prefix of the names of the monitor's topics (`groups`, `rebalances` and so on)."
    )
    checkpoint: str = setting(
        "rebalance-monitor-checkpoint",
        "Directory of the checkpoint: a path, or a URI that all executors can reach. A path without a scheme is local "
        "to the machine.",
    )
    rebuild: str = setting(
        "",
        "A value of your choice, such as a date. If the checkpoint has not recorded this value, the stream does what "
        "`--rebuild --set-aside` does and records it. Later starts with the same value continue from the new "
        "checkpoint. Empty: no rebuild.",
    )
    topic_replication_factor: int = setting(
        -1, "Replication factor of the topics that the monitor creates; -1 uses the broker's default."
    )
    membership_trigger_ms: int = setting(500, "Trigger interval of the query that reads group records.")
    activity_trigger_ms: int = setting(
        1_000, "Trigger interval of the query that reads offset commits, probes and client metrics."
    )
    diagnosis_trigger_ms: int = setting(500, "Trigger interval of the diagnosis.")
    diagnosis_lookback_minutes: float = setting(
        15.0, "How far back the diagnosis reads the activity topic when it starts."
    )
    diagnosis_lookback_rows: int = setting(
        100_000,
        "Maximum number of rows per partition of the activity topic, the newest ones, read when the diagnosis starts.",
    )
    stall_seconds: float = setting(
        600.0, "A batch that takes longer than this is cancelled, and its query is restarted."
    )
    read_committed_groups: str = setting(
        "",
        "Regular expression for groups whose consumers use `isolation.level=read_committed`. Their lag is measured up "
        "to the last stable offset. The protocol does not reveal the isolation level.",
    )
    metric_topics: tuple[MetricTopic | str, ...] = setting(
        (), "Further topics of client metrics: names, or tables of `name`, `format` and `defaults`."
    )
    broker_log_topics: tuple[BrokerLogTopic | str, ...] = setting(
        (),
        "Topics with log lines of the watched brokers: names, or tables of `name` and `time_zone`. Empty: no broker "
        "logs are read. `rebalance-monitor.broker-logs` is created if it does not exist.",
    )
    pane_ms: int = setting(5_000, "Width of the panes that commits are summarized in; must divide a minute.")
    max_offsets_per_trigger: int = setting(
        1_000_000,
        "Maximum number of log positions per batch while catching up. It bounds the duration of a batch: a million "
        "take about 7 s. When the activity query reads a large log for the first time, a batch is 2.5 times as large.",
    )
    max_reports_per_trigger: int = setting(
        5_000,
        "Maximum number of messages of client metrics and brokers' logs per batch, so that a backlog of them does not "
        "delay commits for longer than that number takes.",
    )
    source_tasks: int = setting(
        1,
        "Number of Python tasks that read and decode, per query. More than 1 catches up faster but adds latency when "
        "live.",
    )
    shuffle_partitions: int = setting(
        1, "Number of shuffle partitions. It is fixed when a checkpoint is created; Spark ignores later changes."
    )
    forget_groups_after_hours: float = setting(
        24.0, "How long the totals of a deleted group are kept in case it comes back. Then its state is dropped."
    )
    queries: tuple[str, ...] = setting(
        QUERIES, "The queries that this process runs. For a large cluster they can run on different machines."
    )
    master: str = setting(
        "local[2,4]",
        "Spark master; the default uses two cores and up to four attempts per task. Empty: `spark-submit` sets the "
        "master and the driver's memory.",
    )
    driver_memory: str = setting(
        "700m", "Heap size of the Spark driver. In local mode it is the heap of the whole application."
    )
    extra_jars: tuple[str, ...] = setting(
        (),
        "Additional jars for Spark, such as a cloud's login module. With `spark-submit` pass them with `--jars` "
        "instead.",
    )
    stop_timeout_seconds: float = setting(
        15.0,
        "How long a stop waits for the running batch. A batch that is interrupted runs again at the next start. The "
        "whole stop takes at most 27 s longer than this.",
    )
    listen_host: str = setting(
        "0.0.0.0",  # noqa: S104  Prometheus scrapes from another machine
        "Address on which the stream serves its own endpoints.",
    )
    listen_port: int = setting(
        9644, "Port of `/-/healthy`, `/-/ready` and the stream's own `/metrics`; 0 picks a free port."
    )
    web_config_file: str = setting("", WEB_CONFIG_TEXT)
    health_without_password: bool = setting(False, HEALTH_TEXT)

    @property
    def counted_from(self) -> CountedFrom:
        """The source of groups' totals."""
        return CountedFrom.LOG if self.reads_log else CountedFrom.PROBES

    @property
    def log_topics(self) -> tuple[str, ...]:
        """The watched log; empty if it is not read."""
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
        """Topic of packed activity of groups."""
        return topics.ACTIVITY.full_name(self.topic_prefix)

    @property
    def probes_topic(self) -> str:
        """Topic of the prober's answers from brokers."""
        return topics.PROBES.full_name(self.topic_prefix)

    @property
    def metrics_topic(self) -> str:
        """Topic to which the reporters write client metrics."""
        return topics.CLIENT_METRICS.full_name(self.topic_prefix)

    @property
    def findings_topic(self) -> str:
        """Topic of findings."""
        return topics.FINDINGS.full_name(self.topic_prefix)

    @property
    def all_metric_topics(self) -> tuple[MetricTopic, ...]:
        """Every topic from which client metrics are read."""
        others = (MetricTopic(each) if isinstance(each, str) else each for each in self.metric_topics)
        return (MetricTopic(self.metrics_topic), *others)

    @property
    def all_broker_log_topics(self) -> tuple[BrokerLogTopic, ...]:
        """Every topic from which broker log lines are read."""
        return tuple(BrokerLogTopic(each) if isinstance(each, str) else each for each in self.broker_log_topics)

    @property
    def foreign_topics(self) -> tuple[str, ...]:
        """Names of the topics with external writers: client metrics and broker logs."""
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
        """Return the settings for workers, which need no credentials."""
        return replace(self, kafka={})

    def validate(self) -> list[str]:
        """Return every problem of these settings as a sentence; an empty list means valid."""
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
        metrics, logs = (
            {each.name: None for each in found} for found in (self.all_metric_topics, self.all_broker_log_topics)
        )
        problems = self._taken_problems("metric_topics", metrics, topics.CLIENT_METRICS, "clients")
        problems += self._taken_problems("broker_log_topics", logs, topics.BROKER_LOGS, "brokers' log shippers")
        problems += [
            f"stream.broker_log_topics names {name}, which stream.metric_topics names, too: take it out of one of them"
            for name in sorted(logs.keys() & metrics.keys() - {self.metrics_topic})
        ]
        for each in self.all_broker_log_topics:
            if not is_time_zone(each.time_zone):
                problems.append(
                    f"stream.broker_log_topics has the time zone {each.time_zone!r} for {each.name}, which is none: "
                    "give a name such as Europe/Berlin"
                )
        return problems

    def _taken_problems(self, setting: str, names: Iterable[str], allowed: topics.Topic, writers: str) -> list[str]:
        """Return a sentence for each name that is the watched log, or a topic of the monitor other than `allowed`.

        Such a topic would be read as something else, and rows that the stream writes to it would be read again.
        """
        every = (*topics.TOPICS, *topics.OPTIONAL_TOPICS)
        taken = {each.full_name(self.topic_prefix): "a topic of the monitor" for each in every if each != allowed}
        taken[self.source_topic] = "the watched log"
        return [
            f"stream.{setting} names {name}, which is {taken[name]}: take it out, and name only topics to which "
            f"{writers} write"
            for name in names
            if name in taken
        ]
