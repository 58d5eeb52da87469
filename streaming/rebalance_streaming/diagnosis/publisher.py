"""Delivers the diagnosis' rows: each at least once, those of a key in order, the latest instead of all.

Brokers may be away for long. What could not be sent waits here by its key, where a newer row replaces an older one, so
that waiting costs no more than one row per key; nothing blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from rebalance_contract.epochs import RowWriter, writer_headers

#: What librdkafka may hold; the rest waits here.
_QUEUED_MESSAGES, _QUEUED_KIB = 20_000, 32_768
_FLUSH_SECONDS = 5.0


class Publisher:
    """Sends rows of (topic, key), each under its writer's name; a null value is a tombstone."""

    def __init__(self, properties: Mapping[str, str], writer: RowWriter, say: Callable[[str], None]) -> None:
        self._headers = writer_headers(writer)
        self._say = say
        self._waiting: dict[tuple[str, str], bytes | None] = {}
        self._refused: set[tuple[str, str]] = set()
        self._producer = Producer(
            {
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
        )

    def put(self, topic: str, key: str, value: bytes | None) -> None:
        """Hand over a row; it takes the place of one of its key that still waits."""
        self._waiting[topic, key] = value

    def send(self) -> None:
        """Send what waits, as far as there is room; returns at once."""
        self._producer.poll(0)
        for place in list(self._waiting):
            try:
                self._producer.produce(
                    place[0],
                    key=place[1],
                    value=self._waiting[place],
                    headers=self._headers,
                    on_delivery=self._delivered,
                )
            except BufferError:
                return
            except KafkaException as error:
                self._refuse(place, error.args[0])
            del self._waiting[place]

    def waiting(self) -> int:
        """Return how many rows have not been delivered."""
        return len(self._waiting) + len(self._producer)

    def close(self) -> None:
        """Send what waits, and give up on what brokers do not take in time."""
        self.send()
        left = self._producer.flush(_FLUSH_SECONDS) + len(self._waiting)
        if left:
            self._say(
                f"{left} rows of the diagnosis could not be delivered; they are worked out again at the next start"
            )

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refuse((message.topic() or "", (message.key() or b"").decode(errors="replace")), error)

    def _refuse(self, place: tuple[str, str], error: KafkaError) -> None:
        if place not in self._refused:
            self._refused.add(place)
            self._say(f"a row of {place[0]} with key {place[1][:200]} was refused: {error.str()}")
