"""Reads the stream's topics to learn which topics groups use. It assigns itself partitions and joins no group.

`…groups` and `…lag` are compacted and read from their beginning: together they name the topics of every group that has
members or ever committed. `…activity` only adds what is new, so it is read from now on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from rebalance_contract import ContractError
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.prober.interests import Interests
from rebalance_exporters.prober.tasks import Complaints, describe, describe_kafka
from rebalance_kafka.properties import librdkafka_properties

_BATCH = 2_000
#: So long a batch is waited for that is not full, and so long a new interest may take to be known.
_POLL_SECONDS = 0.2
#: A call ends after so long even if there is more to read.
_READ_SECONDS = 1.0
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
        self._groups_topic, self._lag_topic = config.groups_topic, config.lag_topic
        self._activity_topic = config.activity_topic
        self._positions: dict[tuple[str, int], int] = {}
        self._next_look = 0.0
        self._is_first_look = True
        properties: dict[str, object] = {
            "client.id": "rebalance-monitor-probe",
            "group.id": "rebalance-monitor-probe",  # the client insists on one; nothing ever joins or commits
            "log_level": 2,
            **librdkafka_properties(config.kafka),
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
        deadline = time.monotonic() + _READ_SECONDS
        while self._positions and time.monotonic() < deadline:
            messages = self._consumer.consume(_BATCH, timeout=_POLL_SECONDS)
            self._take(messages)
            if len(messages) < _BATCH:
                break

    def _look_for_topics(self) -> float:
        """Assign what is there; return after how many seconds to look again."""
        # All topics, because asking for one by name may create it where brokers do so.
        known = self._consumer.list_topics(timeout=_REQUEST_SECONDS).topics
        wanted = (self._groups_topic, self._lag_topic, self._activity_topic)
        present = {name: list(known[name].partitions) for name in wanted if name in known}
        keys = [(name, partition) for name, partitions in present.items() for partition in partitions]
        if set(keys) != self._positions.keys():
            begins = self._find_begins(present)
            positions = {key: self._positions.get(key, begins.get(key, OFFSET_BEGINNING)) for key in keys}
            self._consumer.assign([TopicPartition(*key, offset) for key, offset in positions.items()])
            self._positions = positions
        self._is_first_look = False
        return _LOOK_FOR_GROWTH_SECONDS if len(present) == len(wanted) else _LOOK_AGAIN_SECONDS

    def _find_begins(self, present: Mapping[str, list[int]]) -> dict[tuple[str, int], int]:
        """Return where reading begins, of partitions that are not read from their beginning.

        What was in the activity topic before the prober came is in the lag topic. That is not so yet while the lag
        topic is empty, nor for partitions made since: they are read from their beginning.
        """
        if not self._is_first_look or not any(self._ends(self._lag_topic, present).values()):
            return {}
        return self._ends(self._activity_topic, present)

    def _ends(self, topic: str, present: Mapping[str, list[int]]) -> dict[tuple[str, int], int]:
        """Return where a topic's partitions end; 0 is one that is empty."""
        ends = {}
        for number in present.get(topic, ()):
            low, high = self._consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_REQUEST_SECONDS)
            ends[topic, number] = 0 if low == high else high
        return ends

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
            self._apply(topic, message)

    def _apply(self, topic: str, message: Message) -> None:
        """Take in one row; one that cannot be is counted, and said of once per topic, so that the rest is read."""
        try:
            if topic == self._groups_topic:
                self._interests.apply_group(message.key(), message.value())
            elif topic == self._lag_topic:
                self._interests.apply_lag(message.key(), message.value())
            else:
                self._interests.apply_activity(message.value(), time.time_ns() // 1_000_000)
        except ContractError as problem:
            self._set_aside(topic, str(problem))
        except Exception as problem:  # whatever a row makes of the decoder, it is one row
            self._set_aside(topic, describe(problem))

    def _set_aside(self, topic: str, problem: str) -> None:
        sentence = f"a row of {topic} is not understood, is the stream newer? {problem}"
        self._complaints.note(_WHAT, sentence, about=f"rows of {topic}")

    def _note_error(self, error: KafkaError) -> None:
        self._complaints.note(_WHAT, f"reading the stream's topics: {describe_kafka(error)}")
