"""Fetches single rows of the monitor's topics by their positions.

For rows that are too large to be collected with all others of a batch: a client of this process reads them one after
the other, whereas Spark would hold all of them in the driver's JVM.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from rebalance_kafka.follower import groupless
from rebalance_kafka.properties import librdkafka_properties
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import BrokersUnreachableError

#: Time without a message after which a fetch fails.
_SILENT_SECONDS = 10.0
#: Limit of what the client reads ahead, and of the wait of a broker for more rows, during which it does not answer a
#: request for another partition.
_AHEAD_KIB, _WAIT_MS = 8_192, 10

#: Topic, partition, offset.
Place = tuple[str, int, int]


class RowFetcher:
    """Fetches rows with one client, which is created when it is needed first; a context manager closes it."""

    def __init__(self, config: StreamConfig) -> None:
        self._config = config
        self._consumer: Consumer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def fetch(self, places: Iterable[Place]) -> dict[Place, bytes]:
        """Return the values at these places; rows that compaction or retention has removed are left out.

        Raises BrokersUnreachableError if nothing is received for 10 s.
        """
        wanted: dict[tuple[str, int], set[int]] = {}
        for topic, partition, offset in places:
            wanted.setdefault((topic, partition), set()).add(offset)
        return self._read(wanted) if wanted else {}

    def _read(self, wanted: Mapping[tuple[str, int], set[int]]) -> dict[Place, bytes]:
        """Read all partitions at once, each from the first of its offsets to the last; return the values at them."""
        consumer, found = self._client(), dict[Place, bytes]()
        left = {of: max(offsets) for of, offsets in wanted.items()}
        consumer.assign([TopicPartition(*of, min(offsets)) for of, offsets in wanted.items()])
        deadline = time.monotonic() + _SILENT_SECONDS
        while left and (message := consumer.poll(max(0.0, deadline - time.monotonic()))) is not None:
            error, topic, partition, offset = message.error(), message.topic(), message.partition(), message.offset()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                continue
            if topic is None or partition is None or offset is None or (topic, partition) not in left:
                continue
            deadline = time.monotonic() + _SILENT_SECONDS
            value, last = message.value(), left[topic, partition]
            if error is None and value is not None and offset in wanted[topic, partition]:
                found[topic, partition, offset] = value
            # The end of a partition is the position after its last row, which may be gone.
            if offset > last or (error is None and offset == last):
                del left[topic, partition]
                consumer.incremental_unassign([TopicPartition(topic, partition)])
        consumer.unassign()
        if left:
            names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(left))
            raise BrokersUnreachableError(
                f"rows of {names} cannot be read; check that every partition has a leader and grant READ on the topic"
            )
        return found

    def _client(self) -> Consumer:
        if self._consumer is None:
            try:
                self._consumer = Consumer(
                    {
                        **groupless(librdkafka_properties(self._config.kafka), "large-rows"),
                        "enable.partition.eof": True,
                        "isolation.level": "read_uncommitted",
                        "queued.max.messages.kbytes": _AHEAD_KIB,
                        "fetch.wait.max.ms": _WAIT_MS,
                    }
                )
            except KafkaException as error:
                raise BrokersUnreachableError(f"no Kafka client can be made: {error.args[0].str()}") from None
        return self._consumer
