"""Generates the log of a large cluster: offset commits of many groups, and the groups' own records."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer

from rebalance_deploy.monitor import loopback_sources
from rebalance_deploy.settings import Sources
from rebalance_deploy.topics import create_topics
from rebalance_streaming.wire.partitioner import partition_for_group

#: Number of partitions of the offsets topic, Kafka's default.
LOG_PARTITIONS = 50
_TOPIC_ID = bytes(range(16))


def sized(value: str) -> bytes:
    """Return a string in the form of records and requests: prefixed with its length in two bytes."""
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def commit_key(group: str, topic: str, partition: int) -> bytes:
    """Return the key of an offset commit (type 1)."""
    return struct.pack(">h", 1) + sized(group) + sized(topic) + struct.pack(">i", partition)


def commit_value(offset: int, timestamp_ms: int, topic_id: bytes = _TOPIC_ID) -> bytes:
    """Return the value of an offset commit in the form of Kafka 4.3: version 4, no metadata, a topic id (16 bytes)."""
    return struct.pack(">hqibq", 4, offset, 0, 1, timestamp_ms) + b"\x01\x00\x10" + topic_id


def group_key(group: str) -> bytes:
    """Return the key of a classic group's record (type 2)."""
    return struct.pack(">h", 2) + sized(group)


def group_value(
    generation: int,
    members: int,
    timestamp_ms: int,
    partitions: int = 0,
    *,
    topic: str = "orders",
    session_timeout_ms: int = 45_000,
) -> bytes:
    """Return the value (version 3) of a stable group whose members subscribe to one topic and share its partitions."""
    value = bytearray(struct.pack(">h", 3) + sized("consumer") + struct.pack(">i", generation) + sized("range"))
    value += sized("member-0") + struct.pack(">qi", timestamp_ms, members)
    subscription = struct.pack(">hi", 0, 1) + sized(topic) + struct.pack(">i", -1)
    for number in range(members):
        assignment = _assignment(topic, range(number, partitions, members))
        value += sized(f"member-{number}") + struct.pack(">h", -1) + sized("client") + sized("/10.0.0.1")
        value += struct.pack(">iii", 300_000, session_timeout_ms, len(subscription)) + subscription
        value += struct.pack(">i", len(assignment)) + assignment
    return bytes(value)


def _assignment(topic: str, partitions: range) -> bytes:
    numbers = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    topics = struct.pack(">i", 1) + sized(topic) + numbers if partitions else struct.pack(">i", 0)
    return struct.pack(">h", 0) + topics + struct.pack(">i", -1)


def commits(
    count: int, groups: int, partitions: int, start_ms: int | None = None, per_ms: int = 1_000
) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (log partition, key, value) of commits that cycle through all groups and partitions, `per_ms` per ms.

    `start_ms` is the time of the first commit in epoch milliseconds, None for now.
    """
    keys = [
        (partition_for_group(group, LOG_PARTITIONS), commit_key(group, "orders", partition))
        for partition in range(partitions)
        for group in (f"group-{number:05d}" for number in range(groups))
    ]
    now_ms = int(time.time() * 1000) if start_ms is None else start_ms
    for number in range(count):
        log_partition, key = keys[number % len(keys)]
        yield log_partition, key, commit_value(number, now_ms + number // per_ms)


def create_log(bootstrap: str, topic: str) -> None:
    """Create a topic like the offsets topic under another name, to which every client may write."""
    create_topics(bootstrap, {topic: LOG_PARTITIONS})


def monitor_settings(bootstrap: str, topic: str, directory: str) -> Sources:
    """Return the settings of a monitor on this machine that reads such a topic, on free ports."""
    return loopback_sources(bootstrap, Path(directory), f"stream.source_topic={topic}")


def write(bootstrap: str, topic: str, records: Iterator[tuple[int, bytes, bytes]]) -> int:
    """Write records as fast as possible; return their number."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    count = 0
    for partition, key, value in records:
        while True:
            try:
                producer.produce(topic, value, key, partition)
                break
            except BufferError:
                producer.poll(0.1)
        count += 1
        if count % 10_000 == 0:
            producer.poll(0)
    producer.flush(60)
    return count
