"""Where partitions end, and where their last stable offset is: asked of the leaders, which answer per partition.

One partition without a leader, or one leader that does not answer, spoils nothing for the others. The requests are made
here: confluent-kafka's call makes a future for every partition, which at 100,000 of them costs seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
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

#: Partitions in one request: what a broker answers within a fraction of a second.
_ASKED_AT_ONCE = 10_000
_LATEST = -1
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
#: The first version that knows the last stable offset (KIP-98).
_ISOLATION = 2
#: The leader is another one, or none, since brokers were asked for it.
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

#: One topic's offsets by partition; null is an offset that was asked and is unknown.
TopicEnds = list[int | None]


@dataclass(slots=True)
class OffsetRound:
    """What one round found, by topic; `stable` was asked before `end`.

    `errors` are sentences by topic, `failures` sentences about brokers. The topics in `moved` have other leaders now.
    """

    end: dict[str, TopicEnds] = field(default_factory=dict)
    stable: dict[str, TopicEnds] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)

    @property
    def partitions(self) -> int:
        """How many partitions were asked for."""
        return sum(len(offsets) for offsets in self.end.values())


@dataclass(frozen=True, slots=True)
class _Asked:
    """The part of requests that is about one topic, by leader; kept from round to round."""

    leaders: tuple[int, ...]
    rows: dict[int, Any]


class OffsetAsker:
    """Asks for the offsets of many partitions: each leader for all of its own, side by side."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._asked: dict[str, _Asked] = {}

    def ask(self, topics: Iterable[ProbedTopic]) -> OffsetRound:
        """Return end and stable offsets of all partitions of the topics."""
        found, rows = OffsetRound(), defaultdict[int, list[Any]](list)
        for topic in topics:
            found.end[topic.name], found.stable[topic.name] = [None] * topic.partitions, [None] * topic.partitions
            for leader, row in self._rows_of(topic).items():
                if leader >= 0:
                    rows[leader].append(row)
                else:
                    found.moved.add(topic.name)
                    found.errors[topic.name] = f"a partition of topic {topic.name} has no leader"
        batches = {leader: _in_batches(each) for leader, each in rows.items()}
        # For each batch the stable offsets first: so none is ever told that lies behind an end asked earlier.
        answers = self._brokers.ask({leader: _requests(each) for leader, each in batches.items()})
        for leader, each in batches.items():
            for at, answer in enumerate(answers[leader]):
                self._take(leader, each[at // 2], answer, found.end if at % 2 else found.stable, found)
        return found

    def forget(self, topics: Iterable[str]) -> None:
        """Drop what is kept of all topics but these."""
        present = set(topics)
        self._asked = {name: asked for name, asked in self._asked.items() if name in present}

    def _rows_of(self, topic: ProbedTopic) -> dict[int, Any]:
        known = self._asked.get(topic.name)
        if known is None or known.leaders != topic.leaders:
            known = self._asked[topic.name] = _Asked(topic.leaders, _make_rows(topic))
        return known.rows

    def _take(
        self,
        leader: int,
        batch: Sequence[Any],
        answer: Answer | Exception,
        offsets: dict[str, TopicEnds],
        found: OffsetRound,
    ) -> None:
        if isinstance(answer, Exception):
            why = describe(answer)
            found.failures.append(f"broker {leader} did not tell where its partitions end ({why})")
            found.errors |= {row.name: f"offsets of topic {row.name} are unknown ({why})" for row in batch}
            found.moved.update(row.name for row in batch)
            return
        for row in answer.topics:
            known = offsets.get(row.name)
            if known is not None:
                _read(row, known, found)


def _make_rows(topic: ProbedTopic) -> dict[int, Any]:
    partitions = defaultdict(list)
    for number, leader in enumerate(topic.leaders):
        row = _PartitionRow(partition_index=number, current_leader_epoch=-1, timestamp=_LATEST)
        partitions[max(leader, -1)].append(row)
    return {leader: _TopicRow(name=topic.name, partitions=each) for leader, each in partitions.items()}


def _in_batches(rows: Iterable[Any]) -> list[list[Any]]:
    """Return rows of topics in batches; a topic that is larger than a batch has one of its own."""
    batches: list[list[Any]] = []
    count = _ASKED_AT_ONCE
    for row in rows:
        if count + len(row.partitions) > _ASKED_AT_ONCE:
            batches.append([])
            count = 0
        batches[-1].append(row)
        count += len(row.partitions)
    return batches


def _requests(batches: Iterable[list[Any]]) -> list[Any]:
    return [
        ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=batch, min_version=_ISOLATION)
        for batch in batches
        for level in (_READ_COMMITTED, _READ_UNCOMMITTED)
    ]


def _read(topic: Any, offsets: TopicEnds, found: OffsetRound) -> None:
    """Take in one topic of an answer; what was not asked is left out."""
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
