"""Topics as described by brokers: partitions, ids by name and names by id. Also creates the probes topic."""

from __future__ import annotations

import binascii
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka.errors import TopicAuthorizationFailedError, for_code
from kafka.protocol.metadata import MetadataRequest

from rebalance_contract.topics import PROBES
from rebalance_exporters.prober.brokers import REQUEST_SECONDS, Brokers
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.prober.tasks import describe
from rebalance_kafka.grants import grant

#: Interval at which topics are described again: partitions are added, and a recreated topic has another id.
ASK_AGAIN_SECONDS = 30.0
_ASKED_AT_ONCE = 500
_ID_LENGTH = 22


@dataclass(frozen=True, slots=True)
class ProbedTopic:
    """One topic; `id` (Kafka's 22 characters) is null from brokers older than 2.8, `error` null if there is none.

    `leaders` has a broker's id for each partition, below 0 if there is no leader. `is_denied`: the error is a missing
    permission.
    """

    name: str
    leaders: tuple[int, ...] = ()
    id: str | None = None
    error: str | None = None
    is_denied: bool = False

    @property
    def partitions(self) -> int:
        """Number of partitions; 0 if the topic does not exist or may not be described."""
        return len(self.leaders)


def topic_id_text(topic_id: uuid.UUID) -> str:
    """Return a topic id as Kafka prints it: URL-safe base64 without padding."""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def parse_topic_id(text: str) -> uuid.UUID | None:
    """Return a text as a topic id, null if it cannot be one. A topic's name can look like an id."""
    if len(text) != _ID_LENGTH:
        return None
    try:
        return uuid.UUID(bytes=urlsafe_b64decode(text + "=="))
    except (ValueError, binascii.Error):
        return None


class TopicRegistry:
    """What is known of the topics that groups use."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._topics: dict[str, ProbedTopic] = {}
        self._names: dict[str, str] = {}
        self._asked_at = float("-inf")
        self.errors: tuple[str, ...] = ()

    def refresh(self, wanted: Collection[str], now: float) -> None:
        """Request topics that are not known yet, and all topics when the last full request is long ago.

        `now` is in seconds of a steady clock.
        """
        if now - self._asked_at >= ASK_AGAIN_SECONDS:
            self._asked_at = now
            asked = set(wanted)
            self._topics = {name: topic for name, topic in self._topics.items() if name in asked}
            self._names = {text: name for text, name in self._names.items() if text in asked}
            self._learn(asked)
        else:
            self.learn(wanted)

    def learn(self, wanted: Collection[str]) -> None:
        """Request the topics that are not known yet."""
        self._learn(set(wanted) - self._topics.keys() - self._names.keys())

    def _learn(self, asked: set[str]) -> None:
        if not asked:
            return
        failures: list[str] = []
        found = self._ask([_topic_request(name=name) for name in sorted(asked)], failures)
        self._topics |= {topic.name: topic for topic in found}
        self._resolve([name for name in sorted(asked) if self._is_missing(name)], failures)
        self.errors = tuple(failures)

    def doubt(self, names: Iterable[str]) -> None:
        """Have topics requested again at the next refresh, because their leaders have changed."""
        doubtful = set(names)
        self._topics = {name: topic for name, topic in self._topics.items() if name not in doubtful}
        self._names = {text: name for text, name in self._names.items() if name not in doubtful}

    def resolve(self, name: str) -> ProbedTopic | None:
        """Return a topic by its name, or by its id if the stream has only the id; null if not known."""
        return self._topics.get(self._names.get(name, name))

    def _is_missing(self, name: str) -> bool:
        topic = self._topics.get(name)
        return topic is not None and topic.partitions == 0

    def _resolve(self, texts: Iterable[str], failures: list[str]) -> None:
        """Find the names of texts that may be ids. Brokers take either names or ids in one request."""
        ids = [(text, topic_id) for text in texts if (topic_id := parse_topic_id(text)) is not None]
        found = self._ask([_topic_request(topic_id=topic_id) for _, topic_id in ids], failures)
        for topic in found:
            if topic.id is not None and topic.name:
                self._topics[topic.name] = topic
                self._names[topic.id] = topic.name

    def _ask(self, topics: list[Any], failures: list[str]) -> list[ProbedTopic]:
        batches = [topics[at : at + _ASKED_AT_ONCE] for at in range(0, len(topics), _ASKED_AT_ONCE)]
        requests = [MetadataRequest(topics=batch, allow_auto_topic_creation=False) for batch in batches]
        if not requests:
            return []
        found = []
        for answer in self._brokers.ask({None: requests})[None]:
            if isinstance(answer, Exception):
                failures.append(f"no broker described the topics ({describe(answer)})")
            else:
                found += [read_topic(row) for row in answer.topics]
        return found


def _topic_request(name: str | None = None, topic_id: uuid.UUID | None = None) -> Any:
    return MetadataRequest.MetadataRequestTopic(name=name, topic_id=topic_id)


def read_topic(row: Any) -> ProbedTopic:
    """Return one topic of a metadata answer."""
    topic_id = getattr(row, "topic_id", None)
    return ProbedTopic(
        name=row.name or "",
        leaders=_leaders(row.partitions),
        id=topic_id_text(topic_id) if topic_id else None,
        error=_topic_error(row.name or "", row.error_code),
        is_denied=row.error_code == TopicAuthorizationFailedError.errno,
    )


def _leaders(partitions: Sequence[Any]) -> tuple[int, ...]:
    # Ordered by partition number; numbers outside the range are ignored.
    leaders = [-1] * len(partitions)
    for row in partitions:
        if 0 <= row.partition_index < len(leaders):
            leaders[row.partition_index] = row.leader_id
    return tuple(leaders)


def _topic_error(name: str, code: int) -> str | None:
    if code == 0:
        return None
    error = for_code(code)
    if error is TopicAuthorizationFailedError:
        return f"topic {name} may not be described, so its offsets are unknown; {grant('Describe', topic=name)}"
    return f"topic {name} cannot be described ({error.__name__})"


def ensure_probes_topic(admin: AdminClient, brokers: Brokers, config: ProbeConfig) -> str | None:
    """Create the probes topic unless it exists; on failure return a sentence on how to create it by hand, else null."""
    topic = NewTopic(
        config.probes_topic,
        num_partitions=PROBES.partitions,
        replication_factor=config.topic_replication_factor,
        config=dict(PROBES.settings),
    )
    try:
        admin.create_topics([topic], request_timeout=REQUEST_SECONDS)[config.probes_topic].result()
    except KafkaException as error:
        cause: KafkaError = error.args[0]
        if cause.code() == KafkaError.TOPIC_ALREADY_EXISTS or _exists(brokers, config.probes_topic):
            return None
        return (
            f"topic {config.probes_topic} is missing and could not be created ({cause.str()}); create it: "
            f"{PROBES.create_command(config.topic_prefix)}"
        )
    return None


def _exists(brokers: Brokers, name: str) -> bool:
    registry = TopicRegistry(brokers)
    registry.refresh([name], now=0.0)
    topic = registry.resolve(name)
    return topic is not None and topic.partitions > 0
