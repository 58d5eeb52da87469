"""Generates a cluster on disk: a real broker's data directory with the offsets topic of many groups, by seed.

Takes a `Shape`; returns a broker that holds the log, and the truth: the offsets that every group committed, and its
lag. Commits are written by a producer with the client id of the broker's own admin tool, the only one that may write to
`__consumer_offsets`, so that their times can be in the past. Because of the group records the coordinator considers the
groups stable when it loads them, at its next start.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import shutil
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupState, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.errors import UserError
from rebalance_deploy.topics import create_topics
from rebalance_devtools.bench import fill
from rebalance_streaming.wire.partitioner import partition_for_group
from rebalance_streaming.wire.records import OFFSETS_TOPIC

#: The current generation of every group, and the member that commits.
GENERATION, MEMBER = 2, "member-0"
MEMBERS = 2
#: Minimum lag of a group in each partition: it can commit this many more times before it has caught up.
SMALLEST_LAG = 100
_LAGS = range(SMALLEST_LAG, 2 * SMALLEST_LAG)
_RECORDS = 500
_GROUPS_PER_TOPIC = 100
_SPAN_MS = 3_600_000
#: Longer than brokers allow for a client, which is not checked for records of the log. No member sends heartbeats, and
#: the groups must stay stable during the measurement.
_SESSION_TIMEOUT_MS = 86_400_000
_LOAD_SECONDS = 120
#: Increased when the same shape results in a different log or other files than before.
_FORMAT = 4

#: Log partition, key, value, time in epoch milliseconds.
Record = tuple[int, bytes, bytes, int]


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of a log. Equal shapes result in equal logs, except for the time at which they end."""

    groups: int = 5_000
    #: Number of partitions that each group reads, all of one topic.
    partitions: int = 20
    commits: int = 2_000_000
    #: Number of partitions of the offsets topic.
    source_partitions: int = 50
    seed: int = 1
    #: Whether every group ends with lag 0, instead of a lag of at least SMALLEST_LAG per partition.
    caught_up: bool = False

    def validate(self) -> list[str]:
        """Return every problem, each as one sentence; empty when all is well."""
        problems = [
            f"--{name.replace('_', '-')} must be 1 or more"
            for name, value in asdict(self).items()
            if name != "caught_up" and value < 1
        ]
        if self.rounds > _RECORDS - 2 * SMALLEST_LAG:
            problems.append(
                f"--commits must be {(_RECORDS - 2 * SMALLEST_LAG) * self.keys:,} or less for so few groups"
            )
        if self.commits < self.keys:
            problems.append(f"--commits must be {self.keys:,} or more: one for each partition of each group")
        return problems

    @property
    def keys(self) -> int:
        """Total number of partitions over all groups."""
        return self.groups * self.partitions

    @property
    def rounds(self) -> int:
        """Number of commits for each partition of each group."""
        return self.commits // max(1, self.keys)


@dataclass(frozen=True)
class Truth:
    """The expected content of a log of this shape: the topic and the lag of each group."""

    shape: Shape

    @cached_property
    def lags(self) -> dict[str, tuple[int, ...]]:
        """Lag of each partition, by group."""
        chance = random.Random(self.shape.seed)  # noqa: S311  the same log for the same seed
        lags = (0,) if self.shape.caught_up else _LAGS
        return {
            group: tuple(chance.choice(lags) for _ in range(self.shape.partitions))
            for group in (f"group-{number:05d}" for number in range(self.shape.groups))
        }

    @cached_property
    def group_lags(self) -> dict[str, int]:
        """Lag by group, in records."""
        return {group: sum(lags) for group, lags in self.lags.items()}

    @cached_property
    def topics(self) -> dict[str, str]:
        """The topic that each group reads."""
        count = max(1, self.shape.groups // _GROUPS_PER_TOPIC)
        return {group: f"data-{number % count:03d}" for number, group in enumerate(self.lags)}

    def offset(self, group: str, partition: int, round_number: int) -> int:
        """Return the offset that a group commits in a round (from 0); after the last round it grows by 1 per round."""
        last = self.shape.rounds - 1
        step = (_RECORDS - 2 * SMALLEST_LAG) // self.shape.rounds if round_number < last else 1
        return _RECORDS - self.lags[group][partition] + (round_number - last) * step


@contextlib.contextmanager
def filled_broker(shape: Shape, keep: Path | None) -> Iterator[EmbeddedKafka]:
    """Start a broker on a copy of a log of this shape; yields it once its groups are loaded.

    `keep` is a directory of logs from which the log is taken, or where it is kept for next time; None keeps nothing.
    """
    with tempfile.TemporaryDirectory(prefix="rebalance-monitor-bench-") as directory:
        pristine = _pristine(shape, keep or Path(directory) / "logs")
        shutil.copytree(pristine, Path(directory) / "broker")
        with _broker(shape, Path(directory) / "broker") as broker:
            _await_groups(broker.bootstrap, shape)
            yield broker


def _broker(shape: Shape, directory: Path) -> EmbeddedKafka:
    config = {"offsets.topic.num.partitions": str(shape.source_partitions)}
    # A real cluster's brokers are warm; this one would compile its code while the measured program starts, which costs
    # a third of a core and does not pay off in so short a time.
    return EmbeddedKafka(directory, jvm_options=("-Xmx1g", "-XX:TieredStopAtLevel=1"), config=config)


def _pristine(shape: Shape, logs: Path) -> Path:
    """Return the directory of a stopped broker with a log of this shape; writes it if it does not exist."""
    name = hashlib.sha256(json.dumps([_FORMAT, asdict(shape)]).encode()).hexdigest()[:16]
    directory = logs / name
    if not directory.exists():
        unfinished = logs / f"{name}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        with _broker(shape, unfinished) as broker:
            _fill(broker.bootstrap, Truth(shape))
        unfinished.rename(directory)
    return directory


def _fill(bootstrap: str, truth: Truth) -> None:
    topics = sorted(set(truth.topics.values()))
    create_topics(bootstrap, {OFFSETS_TOPIC: truth.shape.source_partitions})
    create_topics(bootstrap, dict.fromkeys(topics, truth.shape.partitions))
    _write(bootstrap, OFFSETS_TOPIC, _log(truth, _topic_ids(bootstrap, topics), int(time.time() * 1000)))
    for topic in topics:
        now_ms = int(time.time() * 1000)
        _write(
            bootstrap, topic, ((p, b"", b"", now_ms) for p in range(truth.shape.partitions) for _ in range(_RECORDS))
        )


def _topic_ids(bootstrap: str, topics: Sequence[str]) -> dict[str, bytes]:
    """Return the id of each topic, with retries: a broker learns it a moment after the controller has created it."""
    # A failed future keeps its client alive past the broker's end; log level 0 suppresses its errors.
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + _LOAD_SECONDS
    while True:
        futures = admin.describe_topics(TopicCollection(list(topics)))
        try:
            ids = {topic: future.result(30).topic_id for topic, future in futures.items()}
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return {
                topic: struct.pack(">qq", uuid.get_most_significant_bits(), uuid.get_least_significant_bits())
                for topic, uuid in ids.items()
            }


def _log(truth: Truth, topic_ids: dict[str, bytes], end_ms: int) -> Iterator[Record]:
    """Yield the records of the log ordered by time, spread over the hour that ends at `end_ms`.

    Each group begins with two generations, of one member and of two, then commits all of its partitions in each round.
    The order of groups differs in each round, because real commits are not perfectly regular.
    """
    shape, sent = truth.shape, 0
    chance = random.Random(shape.seed)  # noqa: S311  the same log for the same seed
    places = {group: partition_for_group(group, shape.source_partitions) for group in truth.lags}
    for round_number in range(shape.rounds):
        for group in chance.sample(list(truth.topics), shape.groups):
            topic = truth.topics[group]
            at_ms = end_ms - _SPAN_MS + _SPAN_MS * sent // (shape.rounds * shape.keys)
            if round_number == 0:
                yield from _generations(group, topic, places[group], shape.partitions, at_ms)
            for partition in range(shape.partitions):
                value = fill.commit_value(truth.offset(group, partition, round_number), at_ms, topic_ids[topic])
                yield places[group], fill.commit_key(group, topic, partition), value, at_ms
            sent += shape.partitions


def _generations(group: str, topic: str, place: int, partitions: int, at_ms: int) -> Iterator[Record]:
    for generation, members in ((GENERATION - 1, 1), (GENERATION, MEMBERS)):
        value = fill.group_value(
            generation, members, at_ms, partitions, topic=topic, session_timeout_ms=_SESSION_TIMEOUT_MS
        )
        yield place, fill.group_key(group), value, at_ms


def _write(bootstrap: str, topic: str, records: Iterator[Record]) -> None:
    settings = {"linger.ms": 20, "queue.buffering.max.messages": 1_000_000, "acks": 1}
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "__admin_client", **settings})
    failures: Counter[str] = Counter()

    def note(error: Any, _message: object) -> None:
        if error is not None:
            failures[str(error)] += 1

    for number, (partition, key, value, at_ms) in enumerate(records):
        while True:
            try:
                producer.produce(topic, value, key, partition, on_delivery=note, timestamp=at_ms)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(60) or failures:
        raise UserError(f"the log could not be written: {failures or 'the broker did not take it in 60 s'}")


def _await_groups(bootstrap: str, shape: Shape) -> None:
    """Return when the coordinator has loaded all groups and considers them stable."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline, stable = time.monotonic() + _LOAD_SECONDS, 0
    while time.monotonic() < deadline:
        listing = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}, request_timeout=30).result()
        stable = len(listing.valid)
        if stable == shape.groups:
            return
        time.sleep(0.5)
    raise UserError(f"the coordinator loaded {stable:,} of {shape.groups:,} groups within {_LOAD_SECONDS} s")
