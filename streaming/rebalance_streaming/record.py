"""The flight recorder: writes every record of the monitored topics as a JSON line that `replay` reads.

It reads like the stream does: what groups write uncommitted, offset commits only once their transaction is. It joins
no consumer group. Lines stand in order of arrival; of one partition, commits among themselves and all other
records among themselves are in the order of their offsets.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from rebalance_kafka.properties import librdkafka_properties
from rebalance_streaming.errors import StreamError

_OFFSET_COMMIT_PREFIXES = (b"\x00\x00", b"\x00\x01")
_REQUEST_SECONDS = 10.0
_BATCH = 2_000


def record(
    kafka: Mapping[str, str],
    offsets_topic: str,
    other_topics: Iterable[str],
    *,
    from_beginning: bool,
    to_end: bool,
    stop: threading.Event,
) -> Iterator[bytes]:
    """Yield one JSON line per record until `stop` is set or, with `to_end`, the ends found at the start are reached.

    Topics in `other_topics` that do not exist are left out. Raises StreamError when the cluster cannot be read.
    """
    groups = _Reading(kafka, (offsets_topic, *other_topics), from_beginning, committed=False)
    commits = _Reading(kafka, (offsets_topic,), from_beginning, committed=True)
    try:
        if not groups.covers(offsets_topic):
            raise StreamError(f"there is no topic {offsets_topic} on this cluster yet: no group has ever committed")
        yield from _alternate(groups, commits, offsets_topic, to_end=to_end, stop=stop)
    finally:
        groups.close()
        commits.close()


def _alternate(
    groups: _Reading, commits: _Reading, offsets_topic: str, *, to_end: bool, stop: threading.Event
) -> Iterator[bytes]:
    while not stop.is_set() and not (to_end and groups.at_end and commits.at_end):
        for message in groups.poll():
            if message.topic() != offsets_topic or not _is_commit(message):
                yield _line(message)
        for message in commits.poll():
            if _is_commit(message):
                yield _line(message)


class _Reading:
    """A consumer over all partitions of some topics, and how much of what was there at the start it has seen."""

    def __init__(
        self, kafka: Mapping[str, str], topics: Iterable[str], from_beginning: bool, *, committed: bool
    ) -> None:
        isolation = "read_committed" if committed else "read_uncommitted"
        settings: dict[str, Any] = {
            "group.id": "rebalance-monitor-record",  # the client insists on one; nothing joins or commits
            "log_level": 0,
            **librdkafka_properties(kafka),
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
        try:
            self._consumer = Consumer(settings)
            known = self._consumer.list_topics(timeout=_REQUEST_SECONDS).topics
            places = [(topic, p) for topic in topics if topic in known for p in known[topic].partitions]
            self._topics = {topic for topic, _ in places}
            starts = [TopicPartition(topic, p, self._start(topic, p, from_beginning)) for topic, p in places]
            self._unfinished = {(topic, p) for topic, p in places}
            self._consumer.assign(starts)
        except KafkaException as error:
            servers = kafka.get("bootstrap.servers", "")
            raise StreamError(f"cannot read from {servers}: {error.args[0].str()}") from None

    @property
    def at_end(self) -> bool:
        """Whether every partition's end was reached once."""
        return not self._unfinished

    def covers(self, topic: str) -> bool:
        """Whether the topic exists."""
        return topic in self._topics

    def poll(self) -> list[Message]:
        """Return what has arrived. Raises StreamError for what does not pass by itself."""
        delivered = []
        for message in self._consumer.consume(_BATCH, timeout=0.1):
            error = message.error()
            if error is None:
                delivered.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._unfinished.discard((message.topic() or "", message.partition() or 0))
            elif not error.retriable():
                raise StreamError(f"cannot read {message.topic()}: {error.str()}")
        return delivered

    def close(self) -> None:
        """Release the connections."""
        self._consumer.close()

    def _start(self, topic: str, partition: int, from_beginning: bool) -> int:
        low, high = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_REQUEST_SECONDS)
        return low if from_beginning else high


def _is_commit(message: Message) -> bool:
    key = message.key()
    return key is not None and key[:2] in _OFFSET_COMMIT_PREFIXES


def _line(message: Message) -> bytes:
    key, value = message.key(), message.value()
    return msgspec.json.encode(
        {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp_ms": message.timestamp()[1],
            "received_at_ms": int(time.time() * 1000),
            "key_hex": None if key is None else key.hex(),
            "value_hex": None if value is None else value.hex(),
            "headers": _headers(message),
        }
    )


def _headers(message: Message) -> list[tuple[str, str | None]]:
    headers: Any = message.headers() or []
    return [(name, None if value is None else value.hex()) for name, value in headers]
