"""Delivers the stream's own rows: each at least once, those of a key in order, the latest instead of all.

Brokers may be away for long, refuse a topic's rows until somebody grants a permission, or leave a client behind that
cannot go on. What could not be delivered waits here by its key, where a newer row replaces an older one, so that
waiting costs no more than two rows per key, of which the client has one; nothing blocks.
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
from rebalance_kafka.grants import grant

#: What librdkafka may hold; the rest waits here.
_QUEUED_MESSAGES, _QUEUED_KIB = 20_000, 32_768
_CLOSE_SECONDS = 5.0
#: Pauses after a refusal, and before another producer is made: each twice the one before until something is delivered.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 30.0
#: A failure is reported once per topic and error, and again if it persists for this long.
_REPORT_AGAIN_SECONDS = 600.0
#: Sent again, a row would be refused again.
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
#: What became of the rows of a producer that was given up, or cannot go on.
_GIVEN_UP = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._FATAL})

_Place = tuple[str, str]


class _Row(NamedTuple):
    value: bytes | None
    headers: dict[str, str | bytes | None]


@dataclass(slots=True)
class _Pause:
    """Until when nothing is tried, by a steady clock."""

    until: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS))

    def begin(self, now: float) -> None:
        """Begin a pause, unless one is on: what was sent together is refused together."""
        if now >= self.until:
            self.until = now + self.backoff.fail()


class Publisher:
    """Sends rows of (topic, key), each under its writer's name; a null value is a tombstone. For one thread."""

    def __init__(
        self,
        properties: Mapping[str, str],
        say: Callable[[str], None],
        writer: RowWriter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`say` is called with what goes wrong; `writer` is that of rows that are put without one, null: there is none.

        Raises KafkaException when the client refuses its properties.
        """
        self._headers = {} if writer is None else writer_headers(writer)
        self._say, self._clock = say, clock
        self._waiting: dict[_Place, _Row] = {}
        #: Of a key one row at a time: a later one that overtook it would be replaced by it.
        self._in_flight: dict[_Place, _Row] = {}
        self._pauses: dict[str, _Pause] = {}
        self._renewal = _Pause()
        self._is_broken = False
        self._reported_at: dict[tuple[str, int], float] = {}
        self._properties = {
            **properties,
            # A retried batch is stored once, and never behind a later one.
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
        """Hand over a row; it takes the place of one of its key that still waits."""
        self._waiting[topic, key] = _Row(value, self._headers if writer is None else writer_headers(writer))

    def send(self) -> None:
        """Send what waits, as far as there is room; returns at once."""
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
        """Return how many rows have not been delivered."""
        return len(self._waiting) + len(self._in_flight)

    def flush(self, seconds: float) -> int:
        """Send what waits and let brokers take it, for so long at most; returns how many rows they did not take.

        Nobody waits for the end of a pause.
        """
        deadline = self._clock() + seconds
        self.send()
        while self._in_flight and (left := deadline - self._clock()) > 0:
            self._serve(left)
            self.send()
        return self.waiting()

    def close(self) -> None:
        """Send what waits, and give up on what brokers do not take in time."""
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
        """Keep a row for later unless a newer one waits; one that nobody can deliver is dropped."""
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
            topic, error, f"rows of {topic} are refused, and sent again later: {error.str()}{_advice(topic, error)}"
        )

    def _serve(self, seconds: float = 0.0) -> None:
        """Let the client report what became of rows, in so long at most; it may raise, once, that it cannot go on.

        Its `flush` would go on with callbacks after that, which fail within the interpreter.
        """
        try:
            self._producer.poll(seconds)
        except KafkaException as error:
            self._is_broken = True
            self._renewal.begin(self._clock())
            self._report(
                "", error.args[0], f"the Kafka client cannot go on, and another is made: {error.args[0].str()}"
            )

    def _renew(self, now: float) -> bool:
        """Make another producer in the place of one that cannot go on; return whether there is one."""
        if now < self._renewal.until:
            return False
        self._renewal.begin(now)
        # Hands back what it holds, so that nothing of it is sent any more.
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


def _advice(topic: str, error: KafkaError) -> str:
    if error.code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return ""
    return f"; {grant('Write', 'Describe', topic=topic)}"
