"""The reader: receives the stream's topics from Kafka in a thread of its own, hands rows to the view.

It assigns itself every partition and reads from the beginning at each start: it joins no consumer group and commits
nothing, because the exporter of a tool that watches groups must not become one of them. Where a topic ends is
known from the watermarks and from Kafka's end-of-partition events, never from a last record: compaction and
transaction markers leave ends without one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message, TopicPartition

from rebalance_exporters.config import ExportConfig
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.health import ReadProgress
from rebalance_exporters.view import TOPICS, Row, View
from rebalance_kafka.properties import librdkafka_properties

_BATCH = 2_000
# Also the longest a row waits here: consume() returns when the batch is full or this has passed.
_POLL_SECONDS = 0.2
_REQUEST_SECONDS = 10.0
_LOOK_AGAIN_SECONDS = 1.0
_LOOK_FOR_GROWTH_SECONDS = 30.0
_EXPIRE_SECONDS = 10.0
_REPEAT_LOG_SECONDS = 30.0

_log = logging.getLogger(__name__)

_PartitionKey = tuple[str, int]


@dataclass(slots=True)
class _Reading:
    """One partition: where it began, the end that was found then, the next offset to read."""

    start: int
    end: int
    position: int
    loaded: bool


class TopicReader:
    """Fills a view until it is stopped."""

    def __init__(self, config: ExportConfig, view: View, clock_ms: Callable[[], int]) -> None:
        """Make the Kafka client; raises ExporterError when it refuses its properties."""
        self._view = view
        self._clock_ms = clock_ms
        self._topics = {config.topic_prefix + topic: topic for topic in TOPICS}
        self._servers = config.kafka.get("bootstrap.servers", "")
        self._readings: dict[_PartitionKey, _Reading] = {}
        self._missing: tuple[str, ...] = tuple(self._topics)
        self._kafka_error: str | None = None
        self._kafka_errors = 0
        self._logged: dict[int, float] = {}
        self._failure: str | None = None
        self._stopping = threading.Event()
        self._progress = ReadProgress(missing_topics=())
        self._thread = threading.Thread(target=self._run, name="topic-reader", daemon=True)
        self._consumer = self._make_consumer(config)

    @property
    def progress(self) -> ReadProgress:
        """How far the reading is; replaced as a whole, so any thread may look."""
        return self._progress

    def check_reachable(self, timeout_seconds: float = _REQUEST_SECONDS) -> None:
        """Ask the brokers for their topics once; raises ExporterError when none answers in time."""
        try:
            self._consumer.list_topics(timeout=timeout_seconds)
        except KafkaException as error:
            self._consumer.poll(0)  # hands out what the client thinks of it, which says more than "timed out"
            reason = self._kafka_error or _describe(error)
            raise ExporterError(
                f"no Kafka broker answered at {self._servers} within {timeout_seconds:g} s ({reason}): "
                "check kafka.bootstrap.servers and the security settings"
            ) from error

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End the reading and close the client; safe to call whether or not it was started."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=2 * _REQUEST_SECONDS)
        else:
            self._consumer.close()

    def _make_consumer(self, config: ExportConfig) -> Consumer:
        properties: dict[str, object] = {
            "client.id": "rebalance-monitor-export",
            "group.id": "rebalance-monitor-export",  # the client insists on one; nothing ever joins or commits
            "log_level": 2,  # what it would log besides comes to error_cb too, without end while a broker is away
            **librdkafka_properties(config.kafka),
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "error_cb": self._note_error,
        }
        try:
            return Consumer(properties, logger=_log)
        except KafkaException as error:
            raise ExporterError(f"the Kafka client refuses its properties: {_describe(error)}") from error

    def _run(self) -> None:
        try:
            self._read()
        except Exception as error:
            # Whatever it was, the page must say so: a dead thread behind healthy pages would be a blind monitor.
            _log.exception("the reader stopped")
            self._failure = f"{type(error).__name__}: {error}"
            self._publish()
        finally:
            self._consumer.close()

    def _read(self) -> None:
        next_look = next_expiry = 0.0
        while not self._stopping.is_set():
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + self._look_for_topics()
            self._take(self._consumer.consume(_BATCH, timeout=_POLL_SECONDS))
            if time.monotonic() >= next_expiry:
                next_expiry = time.monotonic() + _EXPIRE_SECONDS
                self._view.forget_expired(self._clock_ms())
            self._publish()

    def _look_for_topics(self) -> float:
        """Assign what is new and let go of what is gone; return after how many seconds to look again."""
        try:
            # All topics, because asking for one by name may create it where brokers do so.
            known = self._consumer.list_topics(timeout=_REQUEST_SECONDS).topics
            present = {
                (name, partition)
                for name in self._topics
                if name in known and known[name].error is None
                for partition in known[name].partitions
            }
            if present != self._readings.keys():
                self._assign(present)
        except KafkaException as error:
            self._note_error(error.args[0])
            return _LOOK_AGAIN_SECONDS
        found = {name for name, _ in present}
        self._missing = tuple(name for name in self._topics if name not in found)
        return _LOOK_AGAIN_SECONDS if self._missing else _LOOK_FOR_GROWTH_SECONDS

    def _assign(self, present: set[_PartitionKey]) -> None:
        readings = {key: self._readings.get(key) or self._begin(key) for key in sorted(present)}
        self._consumer.assign([TopicPartition(*key, reading.position) for key, reading in readings.items()])
        self._readings = readings

    def _begin(self, key: _PartitionKey) -> _Reading:
        """Find where a partition begins and where it ends now."""
        marks = self._consumer.get_watermark_offsets(TopicPartition(*key), timeout=_REQUEST_SECONDS)
        if marks is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        start, end = marks
        return _Reading(start=start, end=end, position=start, loaded=start >= end)

    def _take(self, messages: Iterable[Message]) -> None:
        rows, now_ms = [], self._clock_ms()
        for message in messages:
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                self._note_error(error)
                continue
            self._kafka_error = None
            topic = self._advance(message, at_end=error is not None)
            if error is None and topic is not None:
                rows.append(Row(topic, message.key(), message.value(), _written_ms(message, now_ms)))
        if rows:
            self._view.apply(rows)

    def _advance(self, message: Message, *, at_end: bool) -> str | None:
        """Move a partition on; return the topic's short name, null for a partition that was let go."""
        name, partition, offset = message.topic(), message.partition(), message.offset()
        if name is None or partition is None or offset is None:
            return None
        reading = self._readings.get((name, partition))
        if reading is None:
            return None
        reading.position = offset if at_end else offset + 1
        reading.loaded = reading.loaded or at_end or reading.position >= reading.end
        return self._topics[name]

    def _note_error(self, error: KafkaError) -> None:
        self._kafka_errors += 1
        self._kafka_error = error.str()
        if time.monotonic() - self._logged.get(error.code(), -_REPEAT_LOG_SECONDS) >= _REPEAT_LOG_SECONDS:
            self._logged[error.code()] = time.monotonic()
            _log.warning("Kafka: %s", error.str())

    def _publish(self) -> None:
        readings = self._readings.values()
        self._progress = ReadProgress(
            missing_topics=self._missing,
            read=sum(min(reading.position, reading.end) - reading.start for reading in readings),
            wanted=sum(reading.end - reading.start for reading in readings),
            loaded=not self._missing and all(reading.loaded for reading in readings),
            kafka_error=self._kafka_error,
            kafka_errors=self._kafka_errors,
            failure=self._failure,
        )


def _written_ms(message: Message, now_ms: int) -> int | None:
    """Return when a record was written; its writer's clock may be ahead, which must not outlast the record."""
    kind, at_ms = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE else min(at_ms, now_ms)


def _describe(error: KafkaException) -> str:
    cause = error.args[0]
    return cause.str() if isinstance(cause, KafkaError) else str(cause)
