"""Reads the stream's topics to learn which topics groups use. It assigns itself partitions and joins no group."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.prober.interests import Interests
from rebalance_exporters.prober.tasks import Complaints, describe_kafka
from rebalance_streaming.groups.events import ContractError

_BATCH = 2_000
_POLL_SECONDS = 0.5
_REQUEST_SECONDS = 5.0
_LOOK_AGAIN_SECONDS = 2.0
_LOOK_FOR_GROWTH_SECONDS = 30.0
_WHAT = "interests"

_log = logging.getLogger(__name__)


class InterestReader:
    """Fills `interests`; one call of `read` after another, from one thread."""

    def __init__(self, config: ProbeConfig, interests: Interests, complaints: Complaints) -> None:
        """Make the Kafka client. Raises ExporterError when it refuses its properties."""
        self._interests = interests
        self._complaints = complaints
        self._lookback_ms = int(1000 * config.commits_lookback_seconds)
        self._groups_topic, self._commits_topic = config.groups_topic, config.commits_topic
        self._positions: dict[tuple[str, int], int] = {}
        self._next_look = 0.0
        properties: dict[str, object] = {
            "client.id": "rebalance-monitor-probe",
            "group.id": "rebalance-monitor-probe",  # the client insists on one; nothing ever joins or commits
            "log_level": 2,
            **config.kafka,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "error_cb": self._note_error,
        }
        try:
            self._consumer = Consumer(properties, logger=_log)
        except KafkaException as error:
            raise ExporterError(f"the Kafka client refuses its properties: {error.args[0].str()}") from error

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()

    def read(self) -> None:
        """Take in what there is to read now; returns within about a second. Raises KafkaException."""
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + self._look_for_topics()
        if self._positions:
            self._take(self._consumer.consume(_BATCH, timeout=_POLL_SECONDS))

    def _look_for_topics(self) -> float:
        """Assign what is there; return after how many seconds to look again."""
        # All topics, because asking for one by name may create it where brokers do so.
        known = self._consumer.list_topics(timeout=_REQUEST_SECONDS).topics
        names = [name for name in (self._groups_topic, self._commits_topic) if name in known]
        present = [(name, partition) for name in names for partition in known[name].partitions]
        if set(present) != self._positions.keys():
            positions = {key: self._positions.get(key, self._begin(*key)) for key in present}
            self._consumer.assign([TopicPartition(*key, offset) for key, offset in positions.items()])
            self._positions = positions
        return _LOOK_FOR_GROWTH_SECONDS if len(names) == 2 else _LOOK_AGAIN_SECONDS

    def _begin(self, topic: str, partition: int) -> int:
        if topic == self._groups_topic:
            return OFFSET_BEGINNING
        since = TopicPartition(topic, partition, time.time_ns() // 1_000_000 - self._lookback_ms)
        (found,) = self._consumer.offsets_for_times([since], timeout=_REQUEST_SECONDS)
        return found.offset if found.offset >= 0 else OFFSET_END

    def _take(self, messages: Iterable[Message]) -> None:
        for message in messages:
            error = message.error()
            if error is not None:
                self._note_error(error)
                continue
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None, "a record without error has a place"
            assert partition is not None
            assert offset is not None
            self._positions[topic, partition] = offset + 1
            try:
                self._apply(topic, message)
            except ContractError as problem:
                self._complaints.note(_WHAT, f"a row of {topic} is not understood, is the stream newer? {problem}")

    def _apply(self, topic: str, message: Message) -> None:
        if topic == self._groups_topic:
            self._interests.apply_group(message.key(), message.value())
        else:
            self._interests.apply_commits(message.value())

    def _note_error(self, error: KafkaError) -> None:
        self._complaints.note(_WHAT, f"reading the stream's topics: {describe_kafka(error)}")
