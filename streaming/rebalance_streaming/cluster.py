"""What the stream asks the brokers itself, before Spark starts: what there is to read, and whether it may.

Spark's own errors for an unreachable broker, a missing topic or a missing permission come minutes late or not at all;
these come within seconds and say what to do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import StreamError

REQUEST_SECONDS = 10.0
OFFSETS_TOPIC = "__consumer_offsets"

#: librdkafka repeats connection failures on stderr every second; what matters of them is raised instead.
QUIET = {"log_level": "0"}

_UNREACHABLE = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE)
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_NO_LEADER_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
_DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Where a topic's partitions begin and end at one moment.

    `visible` is the end for read-uncommitted readers, `stable` the one for read-committed readers.
    """

    earliest: dict[int, int]
    visible: dict[int, int]
    stable: dict[int, int]


class Cluster:
    """The brokers as the stream's launcher sees them."""

    def __init__(self, config: StreamConfig) -> None:
        self._config = config
        self._client: dict[str, Any] = {**config.kafka, **QUIET}
        self._admin = AdminClient(self._client)

    def check_reachable(self) -> str:
        """Return the cluster's id. Raises StreamError when no broker answers."""
        servers = self._config.kafka["bootstrap.servers"]
        try:
            metadata = self._admin.list_topics(timeout=REQUEST_SECONDS)
        except KafkaException as error:
            raise StreamError(
                f"no Kafka broker answers at {servers} ({_text(error)}); "
                "check --bootstrap-server, the network and the kafka.* security settings"
            ) from None
        return str(metadata.cluster_id)

    def ensure_source(self) -> int:
        """Return the number of partitions of the watched topic, asking the broker to create the offsets topic.

        A cluster that never had a consumer group has no offsets topic; looking up any group's coordinator makes it.
        """
        topic = self._config.source_topic
        if topic == OFFSETS_TOPIC and self._partitions(topic) == 0:
            self._look_up_coordinator()
        partitions = self._partitions(topic)
        if partitions == 0:
            raise StreamError(
                f"topic {topic} does not exist on this cluster, or this client may not describe it; "
                "check stream.source_topic and grant DESCRIBE and READ on it"
            )
        return partitions

    def _partitions(self, topic: str) -> int:
        metadata = self._admin.list_topics(topic, timeout=REQUEST_SECONDS).topics.get(topic)
        return 0 if metadata is None or metadata.error is not None else len(metadata.partitions)

    def _look_up_coordinator(self) -> None:
        consumer = Consumer({**self._client, "group.id": "rebalance-monitor-start", "enable.auto.commit": False})
        try:
            # Asking for a group's offsets finds its coordinator; it stores nothing.
            consumer.committed([TopicPartition(self._config.groups_topic, 0)], timeout=REQUEST_SECONDS)
        except KafkaException:
            # Whatever is wrong shows again, with a better text, when the topic is looked up next.
            pass
        finally:
            consumer.close()

    @property
    def source_topic(self) -> str:
        """The watched topic."""
        return self._config.source_topic

    def check_readable(self, ends: LogEnds) -> None:
        """Fetch once from the watched topic. Raises StreamError when reading it is not allowed."""
        partition = max(ends.visible, key=lambda p: ends.visible[p])
        message = self._fetch_one(partition, ends.earliest[partition])
        error = None if message is None else message.error()
        if error is not None and error.code() in _DENIED:
            raise StreamError(
                f"reading {self.source_topic} is not allowed for this client; grant it: kafka-acls --add --operation "
                f"Read --operation Describe --topic {self.source_topic} --allow-principal User:..."
            )

    def has_record(self, partition: int, positions: range) -> bool:
        """Whether a record lies in a range of the watched topic: compaction and transactions leave holes."""
        if not positions:
            return False
        message = self._fetch_one(partition, positions.start)
        return message is not None and message.error() is None and (message.offset() or 0) < positions.stop

    def _fetch_one(self, partition: int, offset: int) -> Message | None:
        settings = {"group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer({**self._client, **settings})
        try:
            consumer.assign([TopicPartition(self.source_topic, partition, offset)])
            return consumer.poll(REQUEST_SECONDS)
        finally:
            consumer.close()

    def log_ends(self, topic: str) -> LogEnds:
        """Return where a topic's partitions begin and end now."""
        partitions = [TopicPartition(topic, p) for p in range(self._partitions(topic))]
        return LogEnds(
            earliest=self._offsets(partitions, _EARLIEST, IsolationLevel.READ_UNCOMMITTED),
            visible=self._offsets(partitions, _LATEST, IsolationLevel.READ_UNCOMMITTED),
            stable=self._offsets(partitions, _LATEST, IsolationLevel.READ_COMMITTED),
        )

    def _offsets(self, partitions: list[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel) -> dict[int, int]:
        deadline = time.monotonic() + REQUEST_SECONDS
        while True:
            asked = self._admin.list_offsets(
                dict.fromkeys(partitions, spec), isolation_level=isolation, request_timeout=REQUEST_SECONDS
            )
            try:
                return {at.partition: future.result().offset for at, future in asked.items()}
            except KafkaException as error:
                # A topic made a moment ago has no leader yet.
                if time.monotonic() < deadline and error.args[0].code() in _NO_LEADER_YET:
                    time.sleep(0.1)
                    continue
                raise StreamError(
                    f"cannot look up the ends of {partitions[0].topic} ({_text(error)}); grant DESCRIBE on it "
                    "and check that every partition has a leader"
                ) from None

    def offsets_at(self, topic: str, time_ms: int) -> dict[int, int]:
        """Return each partition's first position at or after a time; its end where there is none."""
        partitions = [TopicPartition(topic, p) for p in range(self._partitions(topic))]
        found = self._offsets(partitions, OffsetSpec.for_timestamp(time_ms), IsolationLevel.READ_UNCOMMITTED)
        ends = self._offsets(partitions, _LATEST, IsolationLevel.READ_UNCOMMITTED)
        return {partition: offset if offset >= 0 else ends[partition] for partition, offset in found.items()}

    def check_metric_topics(self) -> None:
        """Make sure that every topic of client metrics exists. Raises StreamError naming the first that does not."""
        for topic in self._config.all_metric_topics:
            if self._partitions(topic.name) == 0:
                raise StreamError(
                    f"topic {topic.name} of stream.metric_topics does not exist, or this client may not describe it; "
                    "create it, grant DESCRIBE and READ on it, or take it out"
                )

    def ensure_topics(self) -> None:
        """Create the monitor's topics that are missing. Raises StreamError naming what to create by hand."""
        existing = self._admin.list_topics(timeout=REQUEST_SECONDS).topics
        policies = output_topics(self._config)
        missing = [self._new_topic(name, policy) for name, policy in policies.items() if name not in existing]
        if not missing:
            return
        created: dict[str, Future[Any]] = self._admin.create_topics(missing, request_timeout=REQUEST_SECONDS)
        for topic in missing:
            error = _failure(created[topic.topic])
            if error is not None and error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                settings = " ".join(f"--config {name}={value}" for name, value in policies[topic.topic].items())
                raise StreamError(
                    f"topic {topic.topic} is missing and could not be created ({error.str()}); create it: kafka-topics "
                    f"--create --topic {topic.topic} --partitions 1 {settings}"
                )
        self._await_topics({topic.topic for topic in missing})

    def _await_topics(self, names: set[str]) -> None:
        """Wait until brokers tell of topics made a moment ago; a little patience, for others may have made them."""
        deadline = time.monotonic() + REQUEST_SECONDS
        while time.monotonic() < deadline:
            known = self._admin.list_topics(timeout=REQUEST_SECONDS).topics
            if all(name in known and known[name].partitions for name in names):
                return
            time.sleep(0.1)

    def _new_topic(self, name: str, policy: dict[str, str]) -> NewTopic:
        return NewTopic(name, num_partitions=1, replication_factor=self._config.topic_replication_factor, config=policy)


def _failure(future: Future[Any]) -> KafkaError | None:
    error = future.exception()
    return error.args[0] if isinstance(error, KafkaException) else None


def _text(error: KafkaException) -> str:
    kafka_error: KafkaError = error.args[0]
    return "time-out" if kafka_error.code() in _UNREACHABLE else str(kafka_error.str())


def output_topics(config: StreamConfig) -> dict[str, dict[str, str]]:
    """Return the topics the stream writes, with the clean-up policy each needs."""
    day, month = str(86_400_000), str(30 * 86_400_000)
    return {
        config.groups_topic: {"cleanup.policy": "compact"},
        config.rebalances_topic: {"cleanup.policy": "compact,delete", "retention.ms": month},
        config.findings_topic: {"cleanup.policy": "compact,delete", "retention.ms": month},
        config.heartbeats_topic: {"cleanup.policy": "compact,delete", "retention.ms": day},
        config.commits_topic: {"cleanup.policy": "delete", "retention.ms": day},
        config.probes_topic: {"cleanup.policy": "delete", "retention.ms": day},
        config.metrics_topic: {"cleanup.policy": "delete", "retention.ms": day},
        config.status_topic: {"cleanup.policy": "compact"},
    }


def java_properties(kafka: Mapping[str, str]) -> dict[str, str]:
    """Translate client properties from librdkafka's names to those of the Java client inside Spark.

    Most are the same; credentials and PEM files are not.
    """
    passed = {k: v for k, v in kafka.items() if k not in _LIBRDKAFKA_ONLY}
    mechanism = kafka.get("sasl.mechanism") or kafka.get("sasl.mechanisms")
    if mechanism:
        passed["sasl.mechanism"] = mechanism
    if "sasl.username" in kafka:
        passed["sasl.jaas.config"] = _jaas(mechanism or "PLAIN", kafka["sasl.username"], kafka["sasl.password"])
    if "ssl.ca.location" in kafka:
        passed |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": kafka["ssl.ca.location"]}
    return passed


_LIBRDKAFKA_ONLY = frozenset({"sasl.mechanisms", "sasl.username", "sasl.password", "ssl.ca.location", "log_level"})


def _jaas(mechanism: str, username: str, password: str) -> str:
    module = "scram.ScramLoginModule" if mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
    quoted = [value.replace("\\", "\\\\").replace('"', '\\"') for value in (username, password)]
    return f'org.apache.kafka.common.security.{module} required username="{quoted[0]}" password="{quoted[1]}";'
