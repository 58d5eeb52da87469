"""Requests start, end and last stable offsets from the partitions' leaders, which answer per partition.

A partition without a leader, or a leader that does not answer, does not affect the others. The requests are made here:
confluent-kafka's call makes a future for every partition, which takes seconds for 100,000 of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.errors import (
    FencedLeaderEpochError,
    KafkaStorageError,
    LeaderNotAvailableError,
    NotLeaderForPartitionError,
    TopicAuthorizationFailedError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.protocol.consumer import ListOffsetsRequest

from rebalance_exporters.prober.brokers import Answer, Brokers
from rebalance_exporters.prober.tasks import describe
from rebalance_exporters.prober.topics import ProbedTopic
from rebalance_kafka.grants import grant

#: Maximum number of partitions in one request: a broker answers it within a fraction of a second.
_ASKED_AT_ONCE = 10_000
_LATEST, _EARLIEST = -1, -2
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
#: First version with the last stable offset (KIP-98).
_ISOLATION = 2
#: Errors after which the leader has changed, or there is none, since the metadata was read.
_MOVED = (
    FencedLeaderEpochError,
    KafkaStorageError,
    LeaderNotAvailableError,
    NotLeaderForPartitionError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
)

_TopicRow: type[Any] = ListOffsetsRequest.ListOffsetsTopic
_PartitionRow: type[Any] = _TopicRow.ListOffsetsPartition

#: One topic's offsets by partition; null is an offset that was requested and is unknown.
PartitionOffsets = list[int | None]


@dataclass(slots=True)
class OffsetRound:
    """Results of one round by topic; `stable` was requested before `end`. `start` has only topics that were due for it.

    `errors` are sentences by topic, `failures` sentences about brokers. The topics in `moved` have other leaders now.
    """

    end: dict[str, PartitionOffsets] = field(default_factory=dict)
    stable: dict[str, PartitionOffsets] = field(default_factory=dict)
    start: dict[str, PartitionOffsets] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)

    @property
    def partitions(self) -> int:
        """Number of partitions whose end offsets were requested."""
        return sum(len(offsets) for offsets in self.end.values())


@dataclass(frozen=True, slots=True)
class _Asked:
    """One topic's part of requests, by leader; kept from round to round."""

    leaders: tuple[int, ...]
    rows: dict[int, Any]


@dataclass(frozen=True, slots=True)
class _Request:
    """One request to one leader: topics with partitions, the isolation level, and where to store the offsets."""

    batch: list[Any]
    isolation: int
    offsets: dict[str, PartitionOffsets]

    def to_kafka(self) -> Any:
        """Return the request in kafka-python's form."""
        return ListOffsetsRequest(
            replica_id=-1, isolation_level=self.isolation, topics=self.batch, min_version=_ISOLATION
        )


class OffsetAsker:
    """Requests the offsets of many partitions: from each leader those of all its own, in parallel.

    Start offsets are requested only every `starts_seconds`, because they only move when records are deleted; in the
    next round again if no leader reported one.
    """

    def __init__(self, brokers: Brokers, starts_seconds: float) -> None:
        self._brokers = brokers
        self._starts_seconds = starts_seconds
        self._asked: dict[str, _Asked] = {}
        #: When the start offsets of each topic were last requested, in seconds of the monotonic clock.
        self._starts_asked: dict[str, float] = {}

    def ask(self, topics: Iterable[ProbedTopic], now: float) -> OffsetRound:
        """Return end and stable offsets of all partitions of the topics, and their start offsets if due."""
        found, requests = OffsetRound(), defaultdict[int, list[_Request]](list)
        topics = list(topics)
        rows = [self._rows_of(topic) for topic in topics]
        for topic, by_leader in zip(topics, rows, strict=True):
            found.end[topic.name], found.stable[topic.name] = _unknown(topic), _unknown(topic)
            if -1 in by_leader:
                found.moved.add(topic.name)
                found.errors[topic.name] = f"a partition of topic {topic.name} has no leader"
        # The stable offsets of a batch come first, so that none is beyond an end offset requested earlier.
        for leader, batches in _by_leader(rows).items():
            for batch in batches:
                requests[leader].append(_Request(batch, _READ_COMMITTED, found.stable))
                requests[leader].append(_Request(batch, _READ_UNCOMMITTED, found.end))
        due = [topic for topic in topics if self._take_turn(topic.name, now)]
        found.start.update((topic.name, _unknown(topic)) for topic in due)
        for leader, batches in _by_leader(_make_rows(topic, _EARLIEST) for topic in due).items():
            requests[leader] += [_Request(batch, _READ_UNCOMMITTED, found.start) for batch in batches]
        answers = self._brokers.ask({leader: [each.to_kafka() for each in asked] for leader, asked in requests.items()})
        for leader, asked in requests.items():
            for request, answer in zip(asked, answers[leader], strict=True):
                _take(leader, request, answer, found)
        for name, offsets in found.start.items():
            if all(offset is None for offset in offsets):
                del self._starts_asked[name]
        return found

    def _take_turn(self, topic: str, now: float) -> bool:
        """Return whether a topic's start offsets are due; if so they count as requested."""
        asked = self._starts_asked.get(topic)
        if asked is not None and now - asked < self._starts_seconds:
            return False
        self._starts_asked[topic] = now
        return True

    def forget(self, topics: Iterable[str]) -> None:
        """Forget all topics except these."""
        present = set(topics)
        self._asked = {name: asked for name, asked in self._asked.items() if name in present}
        self._starts_asked = {name: asked for name, asked in self._starts_asked.items() if name in present}

    def ask_starts_now(self, topics: Iterable[str]) -> None:
        """Have the start offsets of topics requested in the next round, however recently they were."""
        for name in topics:
            self._starts_asked.pop(name, None)

    def _rows_of(self, topic: ProbedTopic) -> dict[int, Any]:
        known = self._asked.get(topic.name)
        if known is None or known.leaders != topic.leaders:
            known = self._asked[topic.name] = _Asked(topic.leaders, _make_rows(topic, _LATEST))
        return known.rows


def _unknown(topic: ProbedTopic) -> PartitionOffsets:
    return [None] * topic.partitions


def _take(leader: int, request: _Request, answer: Answer | Exception, found: OffsetRound) -> None:
    """Note what a broker answered to one request."""
    if isinstance(answer, Exception):
        why = describe(answer)
        found.failures.append(f"broker {leader} did not report where its partitions begin and end ({why})")
        found.errors |= {row.name: f"offsets of topic {row.name} are unknown ({why})" for row in request.batch}
        found.moved.update(row.name for row in request.batch)
        return
    for row in answer.topics:
        known = request.offsets.get(row.name)
        if known is not None:
            _read(row, known, found)


def _make_rows(topic: ProbedTopic, timestamp: int) -> dict[int, Any]:
    """Return a topic's part of requests by leader, -1 for partitions without one."""
    partitions = defaultdict(list)
    for number, leader in enumerate(topic.leaders):
        row = _PartitionRow(partition_index=number, current_leader_epoch=-1, timestamp=timestamp)
        partitions[max(leader, -1)].append(row)
    return {leader: _TopicRow(name=topic.name, partitions=each) for leader, each in partitions.items()}


def _by_leader(topics: Iterable[Mapping[int, Any]]) -> dict[int, list[list[Any]]]:
    """Return rows of topics in batches, by leader."""
    rows = defaultdict[int, list[Any]](list)
    for each in topics:
        for leader, row in each.items():
            if leader >= 0:
                rows[leader].append(row)
    return {leader: _in_batches(each) for leader, each in rows.items()}


def _in_batches(rows: Iterable[Any]) -> list[list[Any]]:
    """Return rows of topics in batches; a topic that is larger than a batch gets its own."""
    batches: list[list[Any]] = []
    count = _ASKED_AT_ONCE
    for row in rows:
        if count + len(row.partitions) > _ASKED_AT_ONCE:
            batches.append([])
            count = 0
        batches[-1].append(row)
        count += len(row.partitions)
    return batches


def _read(topic: Any, offsets: PartitionOffsets, found: OffsetRound) -> None:
    """Process one topic of an answer; partitions that were not requested are ignored."""
    for row in topic.partitions:
        if row.error_code:
            error = for_code(row.error_code)
            found.errors[topic.name] = _sentence(topic.name, error)
            if error in _MOVED:
                found.moved.add(topic.name)
        elif row.offset >= 0 and 0 <= row.partition_index < len(offsets):
            offsets[row.partition_index] = row.offset


def _sentence(topic: str, error: type[Exception]) -> str:
    if error is TopicAuthorizationFailedError:
        return f"offsets of topic {topic} may not be asked; {grant('Describe', topic=topic)}"
    return f"offsets of topic {topic} are unknown ({error.__name__})"
