"""A log of group records written by the test itself, in a topic of its own, so that its content is known.

Groups are distributed over its partitions; each record is one generation. The monitor is configured to read this topic.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from e2e.rig import Rig, running_rig
from rebalance_deploy.counts import Counted
from rebalance_devtools.bench import fill
from waiting import wait_for

WATCHED, PARTITIONS = "watched-log", 4
#: The largest batch that the topic accepts: much more than any default.
LARGEST_BYTES = 12_000_000
_SETTINGS = {"cleanup.policy": "delete", "max.message.bytes": str(LARGEST_BYTES)}
_CREATED_SECONDS = 30
_COUNTED_SECONDS = 180.0

#: Partition, key, value.
Record = tuple[int, bytes, bytes]


def create(bootstrap: str, replicas: list[list[int]] | None = None, **settings: str) -> None:
    """Create the watched topic; `replicas` lists the brokers of each partition, by default any one each."""
    # The client must outlive its futures.
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    config = {**_SETTINGS, **settings}
    if replicas is None:
        topic = NewTopic(WATCHED, PARTITIONS, 1, config=config)
    else:
        topic = NewTopic(WATCHED, len(replicas), replica_assignment=replicas, config=config)
    admin.create_topics([topic])[WATCHED].result(_CREATED_SECONDS)


@contextmanager
def running_log(directory: Path, *flags: str, **broker_settings: str) -> Iterator[WrittenLog]:
    """Start a broker with an empty watched log, and a monitor for it."""
    source = f"stream.source_topic={WATCHED}"
    with running_rig(directory, source, *flags, prepare=create, **broker_settings) as rig:
        yield WrittenLog(rig.broker.bootstrap, rig)


class WrittenLog:
    """The log, its monitor, and what was written."""

    def __init__(self, bootstrap: str, rig: Rig, partitions: int = PARTITIONS) -> None:
        self.bootstrap, self.rig = bootstrap, rig
        self.generations: Counter[str] = Counter()
        self._partitions = partitions

    def partition_of(self, group: str) -> int:
        """Return the partition of a group's records."""
        return zlib.crc32(group.encode()) % self._partitions

    def generation(self, group: str, members: int = 2, partition: int | None = None) -> Record:
        """Return the record of the next generation of a group."""
        self.generations[group] += 1
        value = fill.group_value(self.generations[group], members, now_ms(), members)
        return self.partition_of(group) if partition is None else partition, fill.group_key(group), value

    def write_generations(self, group: str, count: int = 1) -> None:
        """Let a group make generations."""
        self.write(self.generation(group) for _ in range(count))

    def write(self, records: Iterable[Record], topic: str = WATCHED, at_ms: int = 0) -> None:
        """Write records with this timestamp (0: now), and return when the broker has them."""
        settings = {
            "bootstrap.servers": self.bootstrap,
            "linger.ms": 5,
            "message.max.bytes": LARGEST_BYTES,
            "queue.buffering.max.messages": 2_000_000,
            "log_level": 0,
        }
        producer, refused = Producer(settings), list[object]()
        for partition, key, value in records:
            producer.produce(
                topic,
                value,
                key,
                partition,
                on_delivery=lambda error, _: error and refused.append(error),
                timestamp=at_ms,
            )
            producer.poll(0)
        assert producer.flush(120) == 0
        assert not refused, refused[:3]

    def await_generations(self, *groups: str) -> None:
        """Wait until /metrics shows that these groups completed each of their generations."""
        wanted = {group: Counted(n, n, 0) for group, n in self.generations.items() if group in groups}

        def said() -> dict[str, Counted | None]:
            counts = self.rig.counts()
            return {group: counts.get(group) for group in wanted}

        wait_for(lambda: said() == wanted, lambda: f"{wanted}, not {said()}", _COUNTED_SECONDS, every=0.5)


def large_group(group: str, members: int, topics: int) -> Record:
    """Return the first generation of a group in which each member subscribes to and owns a partition of every topic."""
    names = [f"a-topic-with-a-name-of-usual-length-{number:04d}" for number in range(topics)]
    subscription = struct.pack(">hi", 0, topics) + b"".join(map(_text, names)) + struct.pack(">i", -1)
    value = bytearray(struct.pack(">h", 3) + _text("consumer") + struct.pack(">i", 1) + _text("range"))
    value += _text("member-0") + struct.pack(">qi", now_ms(), members)
    for number in range(members):
        own = b"".join(_text(name) + struct.pack(">ii", 1, number) for name in names)
        assignment = struct.pack(">hi", 0, topics) + own + struct.pack(">i", -1)
        value += _text(f"member-{number}") + struct.pack(">h", -1) + _text("client") + _text("/10.0.0.1")
        value += struct.pack(">iii", 300_000, 45_000, len(subscription)) + subscription
        value += struct.pack(">i", len(assignment)) + assignment
    return zlib.crc32(group.encode()) % PARTITIONS, fill.group_key(group), bytes(value)


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def now_ms() -> int:
    """Return the current time in milliseconds."""
    return int(time.time() * 1000)
