"""Delivers the stream's own rows at least once and in order per key; only the latest undelivered row of a key is kept.

Brokers may be unavailable for long, reject a topic's rows until a permission is granted, or cause a fatal error of the
client. Undelivered rows wait here by key, where a newer row replaces an older one, so that at most two rows per key are
in memory, one of them in the client; nothing blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from rebalance_contract.epochs import RowWriter, writer_headers
from rebalance_kafka.backoff import Backoff
from rebalance_kafka.grants import grant, grant_producer_id

#: Limits of librdkafka's queue; further rows wait here.
_QUEUED_MESSAGES, _QUEUED_KIB = 20_000, 32_768
_CLOSE_SECONDS = 5.0
#: Back-off after a rejection, and before another producer is created; doubled until a row is delivered.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 30.0
#: An error is reported once per topic and error code, and again if it persists for this long.
_REPORT_AGAIN_SECONDS = 600.0
#: Errors for which a retry is useless.
_UNDELIVERABLE = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_RECORD,
        KafkaError._BAD_MSG,
        KafkaError._INVALID_ARG,
    }
)
#: Errors of undelivered rows of a producer that was purged or has a fatal error.
_GIVEN_UP = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._FATAL})

_Place = tuple[str, str]


class _Row(NamedTuple):
    value: bytes | None
    headers: dict[str, str | bytes | None]


@dataclass(slots=True)
class _Pause:
    """Time of the next attempt, by a monotonic clock."""

    until: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS))

    def begin(self, now: float) -> None:
        """Begin a pause unless one is active, because rows that were sent together are rejected together."""
        if now >= self.until:
            self.until = now + self.backoff.fail()


class Publisher:
    """Sends rows of (topic, key) with their writer in a header; a null value is a tombstone. Not thread-safe."""

    def __init__(
        self,
        properties: Mapping[str, str],
        say: Callable[[str], None],
        writer: RowWriter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`say` is called with problems; `writer` is the default writer of rows, null: none.

        Raises KafkaException if the client rejects its properties.
        """
        self._headers = {} if writer is None else writer_headers(writer)
        self._say, self._clock = say, clock
        self._waiting: dict[_Place, _Row] = {}
        #: At most one row per key: if a later row overtook it, the older one would replace the newer one.
        self._in_flight: dict[_Place, _Row] = {}
        self._pauses: dict[str, _Pause] = {}
        self._renewal = _Pause()
        self._is_broken = False
        self._reported_at: dict[tuple[str, int], float] = {}
        self._properties = {
            **properties,
            # A retried batch is stored only once, and never after a later one.
            "enable.idempotence": True,
            "message.timeout.ms": 0,
            "linger.ms": 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": _QUEUED_MESSAGES,
            "queue.buffering.max.kbytes": _QUEUED_KIB,
            "message.max.bytes": 2_000_000,
        }
        self._producer = Producer(self._properties)

    def put(self, topic: str, key: str, value: bytes | None, writer: RowWriter | None = None) -> None:
        """Queue a row, replacing a waiting one with the same key."""
        self._waiting[topic, key] = _Row(value, self._headers if writer is None else writer_headers(writer))

    def send(self) -> None:
        """Send waiting rows as far as the client's queue has room, without blocking."""
        self._serve()
        now = self._clock()
        if self._is_broken and not self._renew(now):
            return
        for place in [each for each in self._waiting if self._may_be_sent(each, now)]:
            row = self._waiting.pop(place)
            try:
                self._producer.produce(
                    place[0],
                    key=place[1],
                    value=row.value,
                    headers=row.headers,
                    on_delivery=partial(self._delivered, place),
                )
            except BufferError:
                self._waiting[place] = row
                return
            except KafkaException as error:
                self._refuse(place, row, error.args[0])
                if self._is_broken:
                    return
            else:
                self._in_flight[place] = row

    def waiting(self) -> int:
        """Return the number of undelivered rows."""
        return len(self._waiting) + len(self._in_flight)

    def flush(self, seconds: float) -> int:
        """Send waiting rows and wait up to `seconds` for their delivery; return the number of undelivered rows.

        Does not wait for the end of a pause.
        """
        deadline = self._clock() + seconds
        self.send()
        while self._in_flight and (left := deadline - self._clock()) > 0:
            self._serve(left)
            self.send()
        return self.waiting()

    def close(self) -> None:
        """Send waiting rows, and give up on those that are not delivered in time."""
        if left := self.flush(_CLOSE_SECONDS):
            self._say(
                f"{left} rows of the diagnosis could not be delivered; they are worked out again at the next start"
            )

    def _may_be_sent(self, place: _Place, now: float) -> bool:
        pause = self._pauses.get(place[0])
        return place not in self._in_flight and (pause is None or now >= pause.until)

    def _delivered(self, place: _Place, error: KafkaError | None, _message: Message) -> None:
        row = self._in_flight.pop(place)
        if error is not None:
            self._refuse(place, row, error)
            return
        self._pauses.pop(place[0], None)
        self._renewal = _Pause()

    def _refuse(self, place: _Place, row: _Row, error: KafkaError) -> None:
        """Keep a row for later unless a newer one waits; an undeliverable row is dropped."""
        topic, key = place
        if error.code() in _UNDELIVERABLE:
            self._report(topic, error, f"a row of {topic} with key {key[:200]} was refused: {error.str()}")
            return
        self._waiting.setdefault(place, row)
        if error.code() in _GIVEN_UP:
            self._is_broken = self._is_broken or error.code() == KafkaError._FATAL
            return
        self._pauses.setdefault(topic, _Pause()).begin(self._clock())
        self._report(
            topic, error, f"rows of {topic} are refused, and sent again later: {error.str()}{_advice([topic], error)}"
        )

    def _serve(self, seconds: float = 0.0) -> None:
        """Serve the client's delivery reports for up to `seconds`; it raises an error once if it cannot continue.

        Not with the client's `flush`, which would continue with callbacks after that error, and these crash.
        """
        try:
            self._producer.poll(seconds)
        except KafkaException as error:
            self._is_broken = True
            self._renewal.begin(self._clock())
            topics = sorted({topic for topic, _ in (*self._in_flight, *self._waiting)})
            self._report(
                "",
                error.args[0],
                "the Kafka client cannot go on, and another is made: "
                f"{error.args[0].str()}{_advice(topics, error.args[0])}",
            )

    def _renew(self, now: float) -> bool:
        """Replace a producer that cannot continue; return whether there is a working one."""
        if now < self._renewal.until:
            return False
        self._renewal.begin(now)
        # Returns the rows in its queue, so that it cannot send them any more.
        self._producer.purge()
        self._serve()
        self._waiting = {**self._in_flight, **self._waiting}
        self._in_flight.clear()
        try:
            self._producer = Producer(self._properties)
        except KafkaException as error:
            self._report("", error.args[0], f"no other Kafka client can be made: {error.args[0].str()}")
            return False
        self._is_broken = False
        return True

    def _report(self, topic: str, error: KafkaError, line: str) -> None:
        now, last = self._clock(), self._reported_at.get((topic, error.code()))
        if last is None or now - last >= _REPORT_AGAIN_SECONDS:
            self._reported_at[topic, error.code()] = now
            self._say(line)


def _advice(topics: list[str], error: KafkaError) -> str:
    """Return what to grant so that rows of these topics are taken; empty if that is not the problem."""
    if error.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return f"; {grant_producer_id(topics)}"
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return "".join(f"; {grant('Write', 'Describe', topic=topic)}" for topic in topics)
    return ""
