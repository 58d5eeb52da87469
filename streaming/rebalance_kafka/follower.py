"""Reads topics without a consumer group, to their end or continuously.

A follower assigns itself every partition: it joins no group and commits nothing, because a tool that watches groups
must not become one of them. The end of a topic is determined from the watermarks of its partitions and from Kafka's
end-of-partition events, never from a last record: after compaction or a transaction marker the last offset has no
record.

The caller interprets the records.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message, TopicPartition

from rebalance_kafka.positions import Bounds, Place, Positions, Start, start_at_beginning
from rebalance_kafka.properties import librdkafka_properties

#: Maximum wait for a full batch.
_POLL_SECONDS = 0.2
_BATCH = 2_000
_REQUEST_SECONDS = 10.0
_LOOK_AGAIN_SECONDS = 1.0
_LOOK_FOR_GROWTH_SECONDS = 30.0
#: The same for topics that are read to their end, where the last batch is seldom full.
_BRIEFLY_SECONDS = 0.1
#: Time without progress after which reading to the end fails; longer than the election of a leader takes.
_PATIENCE_SECONDS = 30.0
#: Maximum number of partitions listed in an error.
_NAMED = 10

#: Errors that mean that the broker knows no leader of a partition at the moment: an election is under way, or the
#: client's metadata are older than an election or the topic's creation.
LEADER_IS_AWAITED = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    }
)

_log = logging.getLogger(__name__)


class UnreadError(Exception):
    """Topics could not be read to their end; the text names the partitions and says what to do."""


#: Callback for errors of the client; the topic is null if the error is not about one.
OnError = Callable[[KafkaError, str | None], None]


class Record(NamedTuple):
    """One record; `timestamp_ms` is null if the record has no timestamp."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Follower:
    """Reads topics of one cluster, in one thread at a time.

    Topics that do not exist yet, and added partitions, are picked up once they appear. Metadata are requested for all
    topics, because a request for one topic by name may create it. Partitions without a leader are read once they have
    one.
    """

    def __init__(
        self,
        kafka: Mapping[str, str],
        topics: Iterable[str],
        *,
        name: str,
        start: Start = start_at_beginning,
        on_error: OnError = lambda *_: None,
    ) -> None:
        """Create the client, which connects in the background. Raises KafkaException if it rejects its properties.

        `kafka` are settings as a user writes them. `name` distinguishes this client from others in the brokers' logs.
        """
        self._topics = tuple(dict.fromkeys(topics))
        self._on_error = on_error
        self._positions = Positions(start)
        self._missing = self._topics
        #: What the latest look found and cannot be read yet: partitions without a leader, and topics whose partitions
        #: the brokers cannot report. Null before the first look.
        self._awaited: tuple[str, ...] | None = None
        self._next_look = 0.0
        self._error: KafkaError | None = None
        properties = {
            **groupless(librdkafka_properties(kafka), name),
            "enable.partition.eof": True,
            "error_cb": lambda error: self._note(error, None),
        }
        self._consumer = Consumer(properties, logger=_log)

    @property
    def missing(self) -> tuple[str, ...]:
        """The topics that did not exist at the latest look; all of them before the first."""
        return self._missing

    @property
    def positions(self) -> Positions:
        """How far each partition was read."""
        return self._positions

    @property
    def at_end(self) -> bool:
        """Whether every existing topic has been read to its end at least once."""
        return self._awaited == () and self._positions.at_end

    @property
    def unread(self) -> tuple[str, ...]:
        """What exists and has not been read to its end yet: partitions as `topic-number`, or a whole topic."""
        return (*(self._awaited or ()), *(f"{topic}-{number}" for topic, number in self._positions.unread))

    @property
    def error(self) -> KafkaError | None:
        """The latest error of the client; reset to null when a record or an end of a partition is read."""
        return self._error

    @property
    def is_look_due(self) -> bool:
        """Whether the next poll looks for topics and partitions."""
        return time.monotonic() >= self._next_look

    def look(self, timeout_seconds: float | None = None) -> None:
        """Look for topics and partitions now. Raises KafkaException if no broker answers in time (10 s)."""
        try:
            is_complete = self._look(_REQUEST_SECONDS if timeout_seconds is None else timeout_seconds)
        except KafkaException as problem:
            if not self._positions.places:
                # Fetch the client's own errors, which are more specific than "timed out".
                self.listen()
            self._error = self._error or problem.args[0]
            self._next_look = time.monotonic() + _LOOK_AGAIN_SECONDS
            raise
        self._next_look = time.monotonic() + (_LOOK_FOR_GROWTH_SECONDS if is_complete else _LOOK_AGAIN_SECONDS)

    def poll(self, timeout_seconds: float = _POLL_SECONDS, limit: int = _BATCH) -> list[Record]:
        """Return the records that arrive in that time, at most `limit`; looks for topics and partitions when due.

        Errors are passed to `on_error`; an exception that it raises is propagated.
        """
        if self.is_look_due:
            try:
                self.look()
            except KafkaException as problem:
                self._note(problem.args[0], None)
        messages = self._consumer.consume(limit, timeout_seconds)
        return [record for message in messages if (record := self._take(message)) is not None]

    def listen(self) -> None:
        """Handle the client's pending errors while nothing is read; otherwise they pile up without limit."""
        self._consumer.poll(0)

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()

    def _look(self, timeout_seconds: float) -> bool:
        """Assign new partitions and drop those that are gone; return whether nothing is awaited any more."""
        known = self._consumer.list_topics(timeout=timeout_seconds).topics
        found = {
            (topic, number): partition.leader >= 0
            for topic in self._topics
            if topic in known and known[topic].error is None
            for number, partition in known[topic].partitions.items()
        }
        here = self._positions.places
        # Keep the partitions of a topic that cannot be described now: dropped and assigned again, they would be read
        # twice.
        found |= {place: False for place in here if place[0] in known and known[place[0]].error is not None}
        new = sorted(place for place, has_leader in found.items() if has_leader and place not in here)
        bounds = {place: self._bounds(place, timeout_seconds) for place in new}
        positions = self._positions.update(found, {place: each for place, each in bounds.items() if each is not None})
        if positions.keys() != here:
            self._consumer.assign([TopicPartition(*place, offset) for place, offset in positions.items()])
        topics = {topic for topic, _ in found}
        self._missing = tuple(topic for topic in self._topics if topic not in topics)
        self._awaited = (
            *(topic for topic in self._missing if topic in known),
            *(f"{topic}-{number}" for topic, number in sorted(found.keys() - self._positions.places)),
        )
        return not self._awaited and not self._missing

    def _bounds(self, place: Place, timeout_seconds: float) -> Bounds | None:
        """Return a partition's bounds, or null while it has no leader. Raises KafkaException for other errors."""
        try:
            marks = self._consumer.get_watermark_offsets(TopicPartition(*place), timeout=timeout_seconds)
        except KafkaException as problem:
            if problem.args[0].code() in LEADER_IS_AWAITED:
                return None
            raise
        if marks is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return Bounds(*marks)

    def _take(self, message: Message) -> Record | None:
        topic, partition, offset, error = message.topic(), message.partition(), message.offset(), message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            self._note(error, topic)
            return None
        self._error = None
        assert topic is not None, "a record, and an end, has a place"
        assert partition is not None
        assert offset is not None
        if error is not None:
            self._positions.reach_end((topic, partition), offset)
            return None
        if not self._positions.pass_record((topic, partition), offset):
            return None
        kind, at_ms = message.timestamp()
        timestamp_ms = None if kind == TIMESTAMP_NOT_AVAILABLE else at_ms
        headers: Any = message.headers() or ()
        return Record(topic, partition, offset, timestamp_ms, message.key(), message.value(), tuple(headers))

    def _note(self, error: KafkaError, topic: str | None) -> None:
        self._error = error
        self._on_error(error, topic)


def groupless(librdkafka: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the properties of a consumer with manual assignment, which never joins a group or commits."""
    return {
        "client.id": f"rebalance-monitor-{name}",
        "group.id": f"rebalance-monitor-{name}",  # required by the client
        "log_level": 2,  # further messages arrive as errors too, and repeat without end while a broker is away
        **librdkafka,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # Used if a requested offset no longer exists, because of retention or because the topic was recreated.
        "auto.offset.reset": "earliest",
    }


def read_to_end(kafka: Mapping[str, str], topics: Iterable[str], *, name: str) -> Iterator[Record]:
    """Yield the records of topics up to their present ends; a topic that does not exist has no records.

    Raises KafkaException if no broker answers, and UnreadError if there is no progress for 30 s before the end is
    reached: the records yielded so far are then incomplete.
    """
    with closing(Follower(kafka, topics, name=name)) as follower:
        follower.look()
        left, heard = len(follower.unread), time.monotonic()
        while not follower.at_end:
            records = follower.poll(_BRIEFLY_SECONDS)
            yield from records
            before, left = left, len(follower.unread)
            if records or left < before:
                # Taken after the yield, so that the caller's own time does not count as a time without progress.
                heard = time.monotonic()
            elif time.monotonic() - heard >= _PATIENCE_SECONDS:
                raise UnreadError(_say_unread(follower))


def _say_unread(follower: Follower) -> str:
    unread, error = follower.unread, follower.error
    named = ", ".join(unread[:_NAMED]) + (f" and {len(unread) - _NAMED} more" if len(unread) > _NAMED else "")
    reason = "" if error is None else f" ({error.str()})"
    return (
        f"{named} could not be read to the end: nothing came for {_PATIENCE_SECONDS:.0f} s{reason}; check that every "
        "partition has a leader (kafka-topics --describe --unavailable-partitions) and that this client may read it"
    )


def keep_latest(records: Iterable[Record]) -> dict[tuple[str, bytes], bytes]:
    """Return the last value of each (topic, key) of compacted topics, without tombstones."""
    latest: dict[tuple[str, bytes], bytes] = {}
    for record in records:
        place = record.topic, record.key or b""
        if record.value is None:
            latest.pop(place, None)
        else:
            latest[place] = record.value
    return latest
