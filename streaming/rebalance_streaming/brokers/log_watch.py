"""Detects lost records, truncation, recreation and growth of a query's inputs; pure, one comparison per check.

A log may lose records before they are read (retention, an administrator), be truncated below the read position (an
unclean election), be recreated, and get more partitions. Spark's source continues silently in each of these cases. So
the launcher fetches the start and end offsets of the partitions every few seconds (`Cluster.fetch_topic_states`), and
this module compares them with the previous check and with the query's positions. The result are incidents: each has a
sentence, and is added to totals that persist across restarts.

An offset identifies a record only together with the partition's *era*, which starts at 0 and is incremented whenever
the partition is truncated below the read position, or recreated. Folds treat a record of a higher era as new,
regardless of its offset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from rebalance_contract import LogTotals, WatchedPartition, WatchedTopic
from rebalance_contract.display import listed


class IncidentKind(StrEnum):
    """The kinds of incidents of an input."""

    PARTITIONS_ADDED = "partitions_added"
    PARTITIONS_UNREAD = "partitions_unread"
    PARTITIONS_REMOVED = "partitions_removed"
    SKIPPED = "skipped"
    REWOUND = "rewound"
    RECREATED = "recreated"


#: Partition -> the position that the query reads next.
Positions = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Ends:
    """The first available position of a partition, and the one that the next record will get."""

    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class TopicState:
    """The state of a topic at one time. `partition_count` is 0 if it does not exist; `topic_id`: null if not reported.

    `ends` has only partitions whose ends were reported: one without a leader is left out and not compared.
    """

    partition_count: int
    ends: Mapping[int, Ends]
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident that affects partitions of one topic.

    `count` counts log positions for SKIPPED and REWOUND (read, then truncated), and partitions for the other kinds.
    """

    query: str
    topic: str
    kind: IncidentKind
    partitions: tuple[int, ...]
    count: int

    @property
    def sentence(self) -> str:
        """Description of the incident and its consequence for the query."""
        return _SENTENCES[self.kind].format(
            query=self.query, topic=self.topic, count=self.count, places=_places(self.partitions)
        )


_SENTENCES: dict[IncidentKind, str] = {
    IncidentKind.PARTITIONS_ADDED: (
        "{topic} has {count} more partitions ({places}), which the {query} query does not read yet"
    ),
    IncidentKind.PARTITIONS_UNREAD: (
        "the {query} query was started without {count} partitions of {topic} ({places}): the broker that was asked did "
        "not know them yet"
    ),
    IncidentKind.PARTITIONS_REMOVED: (
        "{topic} has lost {count} partitions ({places}): it was deleted, or recreated with fewer"
    ),
    IncidentKind.SKIPPED: (
        "{topic} lost {count} positions before the {query} query had read them ({places}): retention, or "
        "somebody who deleted records, was faster, or the query went on behind them after the log was cut"
    ),
    IncidentKind.REWOUND: (
        "{topic} was cut, and {count} positions that the {query} query had read are gone ({places}): an "
        "election took a replica that lacked them, or the topic was recreated"
    ),
    IncidentKind.RECREATED: "{topic}, which the {query} query reads, was deleted and recreated ({places})",
}


def _places(partitions: tuple[int, ...], shown: int = 5) -> str:
    numbers = listed([*map(str, partitions[:shown])], len(partitions))
    return f"{'partition' if len(partitions) == 1 else 'partitions'} {numbers}"


@dataclass(frozen=True, slots=True)
class Unread:
    """Records of a new era, from position `begin` on, that a query started in the previous era has to read.

    `stood_at` is the query's position when they were first seen, if it was beyond their end: if the query is still
    there, it has read none of them. Null: its position was lower, and it may have read some under the old era.
    """

    begin: int
    stood_at: int | None


@dataclass(frozen=True, slots=True)
class TopicWatch:
    """One input: its totals, the ends last seen, and the partitions missing from the previous check.

    `partitions` are those of the totals by number, `unread` the unread records of truncated or recreated partitions.
    """

    totals: WatchedTopic
    partitions: Mapping[int, WatchedPartition] = field(default_factory=dict)
    ends: Mapping[int, Ends] = field(default_factory=dict)
    missing: frozenset[int] = frozenset()
    unread: Mapping[int, Unread] = field(default_factory=dict)

    def era(self, partition: int) -> int:
        """Return how often a partition was truncated or recreated."""
        return self.partitions.get(partition, WatchedPartition(partition)).era


@dataclass(frozen=True, slots=True)
class LogWatch:
    """The inputs of one query."""

    query: str
    topics: Mapping[str, TopicWatch] = field(default_factory=dict)

    def eras(self, topic: str) -> dict[int, int]:
        """Return the eras of a topic's partitions, without those in their first era, 0."""
        watch = self.topics.get(topic)
        return {} if watch is None else {p: each.era for p, each in watch.partitions.items() if each.era}

    def unread(self) -> dict[str, dict[int, Unread]]:
        """Return, by topic and partition, the records of a new era that the query has to read under that era."""
        return {topic: dict(watch.unread) for topic, watch in self.topics.items() if watch.unread}

    def publish(self, cluster: str, now_ms: int) -> LogTotals:
        """Return the totals as a row of the contract."""
        return LogTotals(cluster, self.query, now_ms, tuple(_publish(each) for each in self.topics.values()))


def take_up(totals: LogTotals) -> LogWatch:
    """Return a watch that continues from the last published totals."""
    watches = {
        each.topic: TopicWatch(replace(each, partitions=()), {one.partition: one for one in each.partitions})
        for each in totals.topics
    }
    return LogWatch(totals.query, watches)


def _publish(watch: TopicWatch) -> WatchedTopic:
    partitions = (each for _, each in sorted(watch.partitions.items()))
    return replace(
        watch.totals, partitions=tuple(each for each in partitions if each != WatchedPartition(each.partition))
    )


def compare(
    watch: LogWatch,
    states: Mapping[str, TopicState],
    positions: Mapping[str, Positions],
    reached: Mapping[str, Positions] = MappingProxyType({}),
    started: Mapping[str, int] = MappingProxyType({}),
) -> tuple[LogWatch, tuple[Incident, ...]]:
    """Compare the states of the inputs with the previous ones; return the updated watch, and the incidents.

    `positions` are the query's: the next one to read per topic and partition, noted *before* the states, so that none
    can lie beyond an end unless the log was truncated. At a start they are the positions from which the query
    continues; a partition that it never read has none. `reached` are its highest positions since the previous check:
    after a truncation the query's position may decrease before the next check. `started` are the numbers of partitions
    by topic with which the query was started; a topic that is not in it is read completely, or has been reported. A
    topic that is not in `states` had no answer and is not compared.
    """
    topics, found = dict(watch.topics), list[Incident]()
    for topic, state in states.items():
        topics[topic], incidents = _compare_topic(
            watch.query,
            watch.topics.get(topic) or _first(topic, state),
            state,
            _QueryProgress(positions.get(topic, {}), reached.get(topic, {}), started.get(topic)),
        )
        found += incidents
    return replace(watch, topics=topics), tuple(found)


def _first(topic: str, state: TopicState) -> TopicWatch:
    return TopicWatch(WatchedTopic(topic, state.partition_count, state.topic_id))


@dataclass(frozen=True, slots=True)
class _QueryProgress:
    """A query's positions in a topic, and its highest positions since the previous check.

    `started_with` is the number of partitions with which it was started; null: not to be compared.
    """

    positions: Positions
    reached: Positions
    started_with: int | None


def _compare_topic(
    query: str, before: TopicWatch, state: TopicState, progress: _QueryProgress
) -> tuple[TopicWatch, list[Incident]]:
    incidents = _IncidentCounts(query, before.totals.topic)
    counted = _compare_counts(before, state, progress.started_with, incidents)
    known_id = before.totals.topic_id
    if known_id is not None and state.topic_id not in (None, known_id):
        partitions, ends = _recreated(before, state, progress.positions, incidents), state.ends
    else:
        partitions, ends = _compare_ends(before, state, progress, incidents), {**before.ends, **state.ends}
    found = incidents.all()
    totals = replace(_add(counted.totals, found), topic_id=state.topic_id or known_id)
    unread = _unread(before, partitions, state, progress)
    return replace(counted, totals=totals, partitions=partitions, ends=ends, unread=unread), found


def _unread(
    before: TopicWatch, after: Mapping[int, WatchedPartition], state: TopicState, progress: _QueryProgress
) -> dict[int, Unread]:
    """Return, by partition, the records of a new era that the query has to read, and its position if beyond the end."""
    found: dict[int, Unread] = {}
    for partition, each in after.items():
        if each.awaited_from is None:
            continue
        stood_at = before.unread[partition].stood_at if partition in before.unread else None
        position, ends = progress.positions.get(partition, 0), state.ends.get(partition)
        if stood_at is None and ends is not None and position > ends.latest:
            stood_at = position
        found[partition] = Unread(each.awaited_from, stood_at)
    return found


class _IncidentCounts:
    """Merges findings about single partitions into one incident per kind."""

    def __init__(self, query: str, topic: str) -> None:
        self._query, self._topic = query, topic
        self._by_kind: dict[IncidentKind, Counter[int]] = {}

    def add(self, kind: IncidentKind, partition: int, count: int) -> None:
        self._by_kind.setdefault(kind, Counter())[partition] += count

    def all(self) -> list[Incident]:
        return [
            Incident(self._query, self._topic, kind, tuple(sorted(counts)), counts.total())
            for kind, counts in self._by_kind.items()
        ]


def _compare_counts(
    before: TopicWatch, state: TopicState, started_with: int | None, found: _IncidentCounts
) -> TopicWatch:
    """Report added partitions, and those missing in two checks in a row; return the updated watch.

    A single check is not enough, because a broker that has just started reports too few topics. For the same reason a
    query may have been started with fewer partitions than are known, and these are reported too.
    """
    known, now = before.totals.partition_count, state.partition_count
    for partition in range(known if started_with is None else started_with, min(known, now)):
        found.add(IncidentKind.PARTITIONS_UNREAD, partition, 1)
    for partition in range(known, now):
        found.add(IncidentKind.PARTITIONS_ADDED, partition, 1)
    gone = frozenset(range(now, known))
    if gone <= before.missing:
        for partition in gone:
            found.add(IncidentKind.PARTITIONS_REMOVED, partition, 1)
        known = now
    return replace(before, totals=replace(before.totals, partition_count=max(known, now)), missing=gone)


def _recreated(
    before: TopicWatch, state: TopicState, positions: Positions, found: _IncidentCounts
) -> dict[int, WatchedPartition]:
    """Return all partitions in a new era, regardless of their ends, because none of the records has been read."""
    partitions = dict(before.partitions)
    for partition in range(state.partition_count):
        # A new partition without a leader starts at 0.
        earliest = state.ends.get(partition, Ends(0, 0)).earliest
        found.add(IncidentKind.RECREATED, partition, 1)
        # Records that the new topic has already lost are not counted, as it is not known whether they were read.
        was_awaited = partition in partitions and partitions[partition].awaited_from is not None
        awaited_from = earliest if was_awaited or positions.get(partition, 0) > 0 else None
        partitions[partition] = WatchedPartition(partition, before.era(partition) + 1, earliest, awaited_from)
    return partitions


def _compare_ends(
    before: TopicWatch, state: TopicState, progress: _QueryProgress, found: _IncidentCounts
) -> dict[int, WatchedPartition]:
    partitions = dict(before.partitions)
    for partition, ends in state.ends.items():
        known = partitions.get(partition, WatchedPartition(partition))
        position = progress.positions.get(partition)
        # A known truncation explains an earlier, higher position.
        reached = progress.reached.get(partition, 0) if known.awaited_from is None else 0
        last = _LastCheck(before.ends[partition].latest if partition in before.ends else 0, position, reached)
        if known.awaited_from is not None and position is not None and position <= ends.latest:
            # A query that was not moved back continues, after an empty batch, from the end at that time, and never
            # reads the records before it.
            if position > known.awaited_from:
                found.add(IncidentKind.SKIPPED, partition, position - known.awaited_from)
            known = replace(known, awaited_from=None)
        partitions[partition] = _compare_partition(known, last, ends, found)
    return partitions


@dataclass(frozen=True, slots=True)
class _LastCheck:
    """A partition's end at the previous check (0: not known), the query's position, and its highest one since then."""

    end: int
    position: int | None
    reached: int


def _compare_partition(
    known: WatchedPartition, last: _LastCheck, now: Ends, found: _IncidentCounts
) -> WatchedPartition:
    position, is_awaited = last.position, known.awaited_from is not None
    read_to = 0 if position is None or is_awaited else position
    # The end decreases only if the log is truncated. A running batch may have read beyond the query's position, so a
    # lower end begins a new era even if the position is below it.
    if now.latest < max(read_to, last.reached, last.end):
        has_come_down = position is not None and position < last.reached
        cut_at = min(read_to, now.latest) if has_come_down else now.latest
        found.add(IncidentKind.REWOUND, known.partition, max(0, max(read_to, last.reached) - cut_at))
        # After its position has decreased, the query takes the records that it reads for duplicates until it is
        # restarted with the new era.
        unread = [cut_at] if has_come_down or read_to > now.latest else []
        unread += [] if known.awaited_from is None else [min(known.awaited_from, now.latest)]
        awaited_from = min(unread, default=None)
        return WatchedPartition(known.partition, known.era + 1, now.earliest, awaited_from)
    counted_to = max(read_to, known.skipped_to)
    if position is not None and not is_awaited and now.earliest > counted_to:
        found.add(IncidentKind.SKIPPED, known.partition, now.earliest - counted_to)
        return replace(known, skipped_to=now.earliest)
    return known


def _add(totals: WatchedTopic, incidents: Sequence[Incident]) -> WatchedTopic:
    """Return the totals with incidents added; a rewind counts once per partition, a recreation once per topic."""
    count: dict[IncidentKind, int] = {each.kind: each.count for each in incidents}
    return replace(
        totals,
        added_partitions=totals.added_partitions + count.get(IncidentKind.PARTITIONS_ADDED, 0),
        removed_partitions=totals.removed_partitions + count.get(IncidentKind.PARTITIONS_REMOVED, 0),
        skipped_records=totals.skipped_records + count.get(IncidentKind.SKIPPED, 0),
        lost_positions=totals.lost_positions + count.get(IncidentKind.REWOUND, 0),
        rewinds=totals.rewinds + sum(len(each.partitions) for each in incidents if each.kind == IncidentKind.REWOUND),
        recreations=totals.recreations + (IncidentKind.RECREATED in count),
    )
