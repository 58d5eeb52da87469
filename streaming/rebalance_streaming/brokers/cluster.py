"""Direct requests of the stream to the brokers: topics, offsets and permissions, checked before Spark starts.

Spark's own errors for an unreachable broker, a missing topic or a missing permission come minutes late or not at all;
these come within seconds and say what to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._metadata import TopicMetadata
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from rebalance_contract.topics import OPTIONAL_TOPICS, TOPICS, Topic
from rebalance_kafka.follower import LEADER_IS_AWAITED, groupless
from rebalance_kafka.grants import grant
from rebalance_kafka.properties import librdkafka_properties
from rebalance_kafka.reachability import UNREACHABLE, NoAnswerError, Reachability
from rebalance_streaming.brokers.log_watch import Ends, TopicState
from rebalance_streaming.brokers.topic_settings import check_topic
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import BrokersUnreachableError, StreamError
from rebalance_streaming.wire.records import OFFSETS_TOPIC

REQUEST_SECONDS = 10.0
#: Shorter time-out for requests that are repeated every few seconds.
_LOOK_SECONDS = 4.0
#: Time that brokers may take to propagate a new topic.
_NEWS_SECONDS = 3.0
#: Topic id returned by brokers older than 2.8: sixteen zero bytes.
_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"

#: librdkafka repeats connection failures on stderr every second; relevant ones are raised as errors instead.
QUIET = {"log_level": "0"}

_EARLIEST: OffsetSpec = OffsetSpec.earliest()
_LATEST: OffsetSpec = OffsetSpec.latest()
#: librdkafka returns _NOENT if no partition of a topic has a leader.
_NO_LEADER_YET = LEADER_IS_AWAITED | {KafkaError._NOENT}
_DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Start and end offsets of a topic's partitions at one time; there is at least one partition.

    `visible` is the end for read-uncommitted readers, `stable` the end for read-committed readers.
    """

    earliest: dict[int, int]
    visible: dict[int, int]
    stable: dict[int, int]


@dataclass(frozen=True, slots=True)
class _Described:
    """A topic as brokers describe it, without the ends of its partitions, and the partitions with a leader."""

    state: TopicState
    led: tuple[int, ...]


class Cluster:
    """Requests to the brokers of the watched cluster."""

    def __init__(self, config: StreamConfig) -> None:
        self._config = config
        self._client = {**librdkafka_properties(config.kafka), **QUIET}
        self._admin = AdminClient(self._client)

    def check_reachable(self) -> str:
        """Return the cluster's id.

        Raises BrokersUnreachableError if no broker answers, StreamError if they reject the client.
        """
        try:
            return Reachability(self._config.kafka, "start").ask()
        except NoAnswerError as error:
            raise (StreamError if error.is_lasting else BrokersUnreachableError)(str(error)) from None

    def ensure_source(self) -> None:
        """Ensure that the watched topic exists; let the broker create the offsets topic. Raises StreamError.

        A cluster that never had a consumer group has no offsets topic; a look-up of any group's coordinator creates it.
        """
        topic = self._config.source_topic
        if topic == OFFSETS_TOPIC and self._partitions(topic) == 0:
            self._look_up_coordinator()
        if self._partitions(topic) == 0:
            raise StreamError(
                f"topic {topic} does not exist on this cluster, or this client may not describe it; "
                "check stream.source_topic and grant DESCRIBE and READ on it"
            )

    def _partitions(self, topic: str) -> int:
        metadata = self._list_topics(topic).get(topic)
        return 0 if metadata is None or metadata.error is not None else len(metadata.partitions)

    def _list_topics(self, *topic: str) -> dict[str, TopicMetadata]:
        try:
            return self._admin.list_topics(*topic, timeout=REQUEST_SECONDS).topics
        except KafkaException as error:
            raise BrokersUnreachableError(f"no broker reports which topics there are ({_text(error)})") from None

    def _look_up_coordinator(self) -> None:
        consumer = Consumer(groupless(self._client, "start"))
        try:
            # A request for committed offsets looks up the coordinator and stores nothing.
            consumer.committed([TopicPartition(self._config.groups_topic, 0)], timeout=REQUEST_SECONDS)
        except KafkaException:
            # The next look-up of the topic reports the problem with a better text.
            pass
        finally:
            consumer.close()

    @property
    def source_topic(self) -> str:
        """The watched topic."""
        return self._config.source_topic

    def check_readable(self, ends: LogEnds) -> None:
        """Fetch once from the watched topic. Raises StreamError if this client may not read it."""
        partition = max(ends.visible, key=lambda p: ends.visible[p])
        message = self._fetch_one(partition, ends.earliest[partition])
        error = None if message is None else message.error()
        if error is not None and error.code() in _DENIED:
            raise StreamError(
                f"reading {self.source_topic} is not allowed for this client; "
                f"{grant('Read', 'Describe', topic=self.source_topic)}; "
                "where nobody may have that, --set sources.log=false goes by probes alone"
            )

    def has_record(self, partition: int, positions: range) -> bool:
        """Whether a range of the watched topic contains a record; compaction and transactions leave gaps."""
        if not positions:
            return False
        message = self._fetch_one(partition, positions.start)
        return message is not None and message.error() is None and (message.offset() or 0) < positions.stop

    def _fetch_one(self, partition: int, offset: int) -> Message | None:
        consumer = Consumer({**groupless(self._client, "start"), "enable.partition.eof": True})
        try:
            consumer.assign([TopicPartition(self.source_topic, partition, offset)])
            return consumer.poll(REQUEST_SECONDS)
        finally:
            consumer.close()

    def log_ends(self, topic: str) -> LogEnds:
        """Return the present start and end offsets of a topic's partitions.

        Raises BrokersUnreachableError if no partition is reported: a broker that has just started, or that has not
        learned of a new topic yet, does not know the topic.
        """
        partitions = [TopicPartition(topic, p) for p in range(self._partitions(topic))]
        if not partitions:
            raise BrokersUnreachableError(
                f"no broker reports the partitions of {topic}; brokers that have just started know them seconds later: "
                "if that stays so, check that the topic exists and grant DESCRIBE on it"
            )
        return LogEnds(
            earliest=self._offsets(partitions, _EARLIEST, IsolationLevel.READ_UNCOMMITTED),
            visible=self._offsets(partitions, _LATEST, IsolationLevel.READ_UNCOMMITTED),
            stable=self._offsets(partitions, _LATEST, IsolationLevel.READ_COMMITTED),
        )

    def _offsets(self, partitions: list[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel) -> dict[int, int]:
        """Return offsets by partition; -1 if there is no record at or after a requested time."""
        deadline = time.monotonic() + REQUEST_SECONDS
        while True:
            asked = self._admin.list_offsets(
                dict.fromkeys(partitions, spec), isolation_level=isolation, request_timeout=REQUEST_SECONDS
            )
            try:
                found = {at.partition: int(future.result().offset) for at, future in asked.items()}
                if OFFSET_INVALID not in found.values():
                    return found
                reason, may_come = "a partition has no leader", True
            except KafkaException as error:
                code = error.args[0].code()
                reason, may_come = _text(error), code in _NO_LEADER_YET or code in UNREACHABLE
            # A topic that has just been created has no leader yet.
            if not may_come or time.monotonic() >= deadline:
                raise (BrokersUnreachableError if may_come else StreamError)(
                    f"cannot look up the ends of {partitions[0].topic} ({reason}); grant DESCRIBE on it "
                    "and check that every partition has a leader"
                )
            time.sleep(0.1)

    def offsets_at(self, topic: str, time_ms: int, ends: Mapping[int, int]) -> dict[int, int]:
        """Return the first position at or after a time of each partition in `ends`; its end if there is none."""
        partitions = [TopicPartition(topic, p) for p in ends]
        found = self._offsets(partitions, OffsetSpec.for_timestamp(time_ms), IsolationLevel.READ_UNCOMMITTED)
        return {partition: offset if offset >= 0 else ends[partition] for partition, offset in found.items()}

    def fetch_topic_states(self, topics: Collection[str]) -> dict[str, TopicState]:
        """Return the present states of topics, with three requests for all of them together.

        Topics without an answer (no broker, no permission) are left out, and so are the ends of partitions without a
        leader. Never raises: the brokers may be unavailable while the stream runs.
        """
        if not topics:
            return {}
        found = {name: each for name, each in self._describe_again(topics).items() if each is not None}
        # For a partition without an available leader, librdkafka retries without a pause until the request times out.
        places = [TopicPartition(name, p) for name, each in found.items() for p in each.led]
        earliest = self._ends_now(places, _EARLIEST)
        latest = self._ends_now([each for each in places if (each.topic, each.partition) in earliest], _LATEST)
        ends: dict[str, dict[int, Ends]] = {name: {} for name in found}
        for (name, partition), end in latest.items():
            ends[name][partition] = Ends(earliest[name, partition], end)
        return {name: replace(each.state, ends=ends[name]) for name, each in found.items()}

    def _describe_again(self, topics: Collection[str]) -> dict[str, _Described | None]:
        """Return descriptions of topics, with a new client if no topic could be described.

        librdkafka sends the request to the last known controller. If that broker is gone, it reconnects without a pause
        until the request times out, and again for each further request, for up to five minutes. A new client first
        requests metadata from any broker.
        """
        found = self._describe(topics, _LOOK_SECONDS)
        if not any(found.values()):
            self._admin = AdminClient(self._client)
            found = self._describe(topics, _LOOK_SECONDS)
        return found

    def _describe(self, topics: Collection[str], seconds: float) -> dict[str, _Described | None]:
        described = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=seconds)
        return {name: _described(future) for name, future in described.items()}

    def _ends_now(self, places: list[TopicPartition], spec: OffsetSpec) -> dict[tuple[str, int], int]:
        if not places:
            return {}
        asked = self._admin.list_offsets(
            dict.fromkeys(places, spec),
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=_LOOK_SECONDS,
        )
        ends = {(at.topic, at.partition): _offset_of(future) for at, future in asked.items()}
        return {place: offset for place, offset in ends.items() if offset is not None}

    def recent_offsets(self, topic: str, rows: int) -> dict[int, int]:
        """Return each partition's position `rows` before its end, or its first one if it has fewer."""
        ends = self.log_ends(topic)
        return {p: max(ends.earliest[p], end - rows) for p, end in ends.visible.items()}

    def check_foreign_topics(self) -> None:
        """Ensure that all topics with external writers exist. Raises StreamError naming the first missing one."""
        named = [("metric_topics", each.name) for each in self._config.all_metric_topics]
        named += [("broker_log_topics", each.name) for each in self._config.all_broker_log_topics]
        for setting, topic in named:
            if not self._appears(topic):
                raise StreamError(
                    f"topic {topic} of stream.{setting} does not exist, or this client may not describe it; "
                    "create it, grant DESCRIBE and READ on it, or take it out"
                )

    def _appears(self, topic: str) -> bool:
        """Return whether a topic exists; retries, because some brokers learn of a new topic later than others."""
        deadline = time.monotonic() + _NEWS_SECONDS
        # Not with list_topics: a metadata request for a topic by name creates it on brokers with auto-creation.
        while (found := self._describe([topic], REQUEST_SECONDS)[topic]) is None or found.state.partition_count == 0:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def ensure_topics(self, notify: Callable[[str], None] = lambda _: None) -> None:
        """Create the monitor's topics that are missing, and check the settings of those that exist.

        `notify` receives a sentence on each wrong setting. Raises StreamError naming the topics to create manually, or
        the settings to fix if rows would be lost.
        """
        existing = self._list_topics()
        own = own_topics(self._config)
        self._check_settings({name: topic for name, topic in own.items() if name in existing}, notify)
        missing = [self._new_topic(name, topic) for name, topic in own.items() if name not in existing]
        if missing:
            self._create(missing, own)

    def _check_settings(self, own: Mapping[str, Topic], notify: Callable[[str], None]) -> None:
        found, failures = self._describe_settings(own)
        if failures:
            error = next(iter(failures.values()))
            notify(
                f"the settings of {', '.join(sorted(failures))} cannot be checked ({_text(error)}); to have that done, "
                f"{grant('DescribeConfigs', topic=self._config.topic_prefix, is_prefix=True)}"
            )
        wrong = [each for name, settings in found.items() if (each := check_topic(name, own[name], settings))]
        for each in wrong:
            if not each.is_fatal:
                notify(each.sentence)
        fatal = [each.sentence for each in wrong if each.is_fatal]
        if fatal:
            raise StreamError("; ".join(fatal))

    def _describe_settings(self, names: Iterable[str]) -> tuple[dict[str, dict[str, str]], dict[str, KafkaException]]:
        """Return the settings of topics by name, and the errors for topics whose settings could not be described."""
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        if not resources:
            return {}, {}
        found: dict[str, dict[str, str]] = {}
        failures: dict[str, KafkaException] = {}
        for resource, future in self._admin.describe_configs(resources, request_timeout=REQUEST_SECONDS).items():
            try:
                settings = future.result()
                found[resource.name] = {
                    name: entry.value for name, entry in settings.items() if entry.value is not None
                }
            except KafkaException as error:
                failures[resource.name] = error
        return found, failures

    def _create(self, missing: list[NewTopic], own: Mapping[str, Topic]) -> None:
        created: dict[str, Future[Any]] = self._admin.create_topics(missing, request_timeout=REQUEST_SECONDS)
        for topic in missing:
            error = _failure(created[topic.topic])
            if error is not None and error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                command = own[topic.topic].create_command(self._config.topic_prefix)
                raise (BrokersUnreachableError if error.code() in UNREACHABLE else StreamError)(
                    f"topic {topic.topic} is missing and could not be created ({error.str()}); create it: {command}"
                )
        self._await_topics({topic.topic for topic in missing})

    def _await_topics(self, names: set[str]) -> None:
        """Wait up to 10 s until brokers report new topics, which other processes may have created."""
        deadline = time.monotonic() + REQUEST_SECONDS
        while time.monotonic() < deadline:
            known = self._list_topics()
            if all(name in known and known[name].partitions for name in names):
                return
            time.sleep(0.1)

    def _new_topic(self, name: str, topic: Topic) -> NewTopic:
        return NewTopic(
            name,
            num_partitions=topic.partitions,
            replication_factor=self._config.topic_replication_factor,
            config=dict(topic.settings),
        )


def _described(future: Future[Any]) -> _Described | None:
    """Return the description of a topic; null if the request failed."""
    try:
        topic = future.result()
    except KafkaException as error:
        is_missing = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        return _Described(TopicState(0, {}), ()) if is_missing else None
    topic_id = str(topic.topic_id)
    state = TopicState(len(topic.partitions), {}, None if topic_id == _NO_TOPIC_ID else topic_id)
    return _Described(state, tuple(each.id for each in topic.partitions if each.leader is not None))


def _offset_of(future: Future[Any]) -> int | None:
    """Return an offset; null on an error, and for OFFSET_INVALID, which librdkafka returns without a leader."""
    try:
        offset = int(future.result().offset)
    except KafkaException:
        return None
    return None if offset == OFFSET_INVALID else offset


def _failure(future: Future[Any]) -> KafkaError | None:
    error = future.exception()
    return error.args[0] if isinstance(error, KafkaException) else None


def _text(error: KafkaException) -> str:
    kafka_error: KafkaError = error.args[0]
    return "timeout" if kafka_error.code() in UNREACHABLE else str(kafka_error.str())


def own_topics(config: StreamConfig) -> dict[str, Topic]:
    """Return the monitor's topics by their names in this deployment; optional ones only if a setting names them."""
    own = {each.full_name(config.topic_prefix): each for each in (*TOPICS, *OPTIONAL_TOPICS)}
    unasked = {each.full_name(config.topic_prefix) for each in OPTIONAL_TOPICS}
    unasked -= {each.name for each in config.all_broker_log_topics}
    return {name: topic for name, topic in own.items() if name not in unasked}
