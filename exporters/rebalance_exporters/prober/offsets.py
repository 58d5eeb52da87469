"""Where partitions end, and where their last stable offset is: asked of the leaders through confluent-kafka.

It asks all leaders side by side and answers per partition, so that one partition without a leader spoils nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from rebalance_exporters.prober.brokers import REQUEST_SECONDS
from rebalance_exporters.prober.publish import PartitionKey

_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_ASKED_AT_ONCE = 2_000
#: A round that takes longer leaves the rest to the next one, which begins with it.
ROUND_SECONDS = 15.0


@dataclass(slots=True)
class OffsetRound:
    """What one round found; null is an offset that was asked and is unknown. `errors` are by topic."""

    end: dict[PartitionKey, int | None] = field(default_factory=dict)
    stable: dict[PartitionKey, int | None] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


class OffsetAsker:
    """Asks for the offsets of many partitions."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._next: PartitionKey = ("", 0)

    def ask(self, partitions: Sequence[PartitionKey]) -> OffsetRound:
        """Return end and stable offsets of as many of the partitions as a round has time for, in turn."""
        found = OffsetRound()
        ordered = sorted(partitions)
        first = next((at for at, key in enumerate(ordered) if key >= self._next), 0)
        ordered = ordered[first:] + ordered[:first]
        deadline = time.monotonic() + ROUND_SECONDS
        self._next = ("", 0)
        for at in range(0, len(ordered), _ASKED_AT_ONCE):
            if time.monotonic() > deadline:
                self._next = ordered[at]
                break
            self._ask_batch(ordered[at : at + _ASKED_AT_ONCE], found)
        return found

    def _ask_batch(self, partitions: Sequence[PartitionKey], found: OffsetRound) -> None:
        # The stable offsets first: so one is never published that lies behind an end asked earlier.
        asked = {TopicPartition(*key): _LATEST for key in partitions}
        for level, offsets in (
            (IsolationLevel.READ_COMMITTED, found.stable),
            (IsolationLevel.READ_UNCOMMITTED, found.end),
        ):
            futures = self._admin.list_offsets(asked, isolation_level=level, request_timeout=REQUEST_SECONDS)
            for partition, future in futures.items():
                key = (partition.topic, partition.partition)
                try:
                    offset = future.result().offset
                    offsets[key] = offset if offset >= 0 else None
                except KafkaException as error:
                    offsets[key] = None
                    found.errors[partition.topic] = _sentence(partition.topic, error.args[0])


def _sentence(topic: str, error: KafkaError) -> str:
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return (
            f"offsets of topic {topic} may not be asked; grant it: "
            f"kafka-acls --add --operation Describe --topic {topic} --allow-principal User:..."
        )
    return f"offsets of topic {topic} are unknown ({error.str()})"
