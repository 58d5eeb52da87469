"""Whether the inputs of a query are still what it has read: pure, one comparison per check of the brokers.

A log loses records before they are read (retention, an administrator), is cut below what was read (an unclean
election), is recreated, and grows. Spark's source goes on after each of these without a word, or never notices. So
every few seconds the launcher fetches where the partitions begin and end (`Cluster.fetch_topic_states`), and this
module compares that with the check before and with the query's positions. What it finds are incidents: each has a
sentence, and is added to totals that outlive a restart.

An offset names a record only together with the partition's *era*: it begins at 0 and goes up by 1 whenever the
partition is cut below what was read, or recreated. Folds take a record of a higher era for new, whatever its offset.
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
    """What can befall an input."""

    PARTITIONS_ADDED = "partitions_added"
    PARTITIONS_REMOVED = "partitions_removed"
    SKIPPED = "skipped"
    REWOUND = "rewound"
    RECREATED = "recreated"


#: Partition -> the next position that the query reads.
Positions = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Ends:
    """The first position kept in a partition, and the one that the next record will get."""

    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic at one moment. `partition_count` is 0 when it does not exist; `topic_id` is null where none is reported.

    `ends` has the partitions whose ends were answered: one without a leader is left out, and is not compared.
    """

    partition_count: int
    ends: Mapping[int, Ends]
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that befell partitions of one topic.

    `count` is of log positions where some were skipped, or read and cut; of partitions otherwise.
    """

    query: str
    topic: str
    kind: IncidentKind
    partitions: tuple[int, ...]
    count: int

    @property
    def sentence(self) -> str:
        """What happened, and what it means for the query."""
        return _SENTENCES[self.kind].format(
            query=self.query, topic=self.topic, count=self.count, places=_places(self.partitions)
        )


_SENTENCES: dict[IncidentKind, str] = {
    IncidentKind.PARTITIONS_ADDED: (
        "{topic} has {count} more partitions ({places}), which the {query} query does not read yet"
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
    """Records of a new era, from position `begin` on, which a query that was started in the one before has to read.

    `stood_at` is where it was when they were first seen, if that is behind their end: a query that is there still has
    read none of them. Null: it was elsewhere, and may have read some as of the old era.
    """

    begin: int
    stood_at: int | None


@dataclass(frozen=True, slots=True)
class TopicWatch:
    """One input: its totals, what was seen last, and the partitions that were missing from the check before.

    `partitions` has those of the totals by number, `unread` what the query has to read of those cut or recreated.
    """

    totals: WatchedTopic
    partitions: Mapping[int, WatchedPartition] = field(default_factory=dict)
    ends: Mapping[int, Ends] = field(default_factory=dict)
    missing: frozenset[int] = frozenset()
    unread: Mapping[int, Unread] = field(default_factory=dict)

    def era(self, partition: int) -> int:
        """Return how often a partition was cut or recreated."""
        return self.partitions.get(partition, WatchedPartition(partition)).era


@dataclass(frozen=True, slots=True)
class LogWatch:
    """The inputs of one query."""

    query: str
    topics: Mapping[str, TopicWatch] = field(default_factory=dict)

    def eras(self, topic: str) -> dict[int, int]:
        """Return the eras of a topic's partitions that are not in their first one, 0."""
        watch = self.topics.get(topic)
        return {} if watch is None else {p: each.era for p, each in watch.partitions.items() if each.era}

    def unread(self) -> dict[str, dict[int, Unread]]:
        """Return, by topic and partition, the records of a new era that the query has to read, and has not as such."""
        return {topic: dict(watch.unread) for topic, watch in self.topics.items() if watch.unread}

    def publish(self, cluster: str, now_ms: int) -> LogTotals:
        """Return the totals in the form of the output contract."""
        return LogTotals(cluster, self.query, now_ms, tuple(_publish(each) for each in self.topics.values()))


def take_up(totals: LogTotals) -> LogWatch:
    """Go on from the totals that were published last."""
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
) -> tuple[LogWatch, tuple[Incident, ...]]:
    """Compare the states of the inputs with those before; returns the watch to go on with, and what happened.

    `positions` are the query's: the next one to read per topic and partition, noted *before* the states, so that
    none can lie behind an end unless the log was cut. At a start they are those that the query goes on from; a
    partition that it never read has none. `reached` are the highest that it had since the check before: when the
    log is cut the query may come down before the next check. A topic that is not in `states` had no answer, which
    says nothing.
    """
    topics, found = dict(watch.topics), list[Incident]()
    for topic, state in states.items():
        topics[topic], incidents = _compare_topic(
            watch.query,
            watch.topics.get(topic) or _first(topic, state),
            state,
            _Read(positions.get(topic, {}), reached.get(topic, {})),
        )
        found += incidents
    return replace(watch, topics=topics), tuple(found)


def _first(topic: str, state: TopicState) -> TopicWatch:
    return TopicWatch(WatchedTopic(topic, state.partition_count, state.topic_id))


@dataclass(frozen=True, slots=True)
class _Read:
    """How far a query is in a topic, and the highest positions it had since the check before."""

    positions: Positions
    reached: Positions


def _compare_topic(query: str, before: TopicWatch, state: TopicState, read: _Read) -> tuple[TopicWatch, list[Incident]]:
    incidents = _Found(query, before.totals.topic)
    counted = _compare_counts(before, state, incidents)
    known_id = before.totals.topic_id
    if known_id is not None and state.topic_id not in (None, known_id):
        partitions, ends = _recreated(before, state, read.positions, incidents), state.ends
    else:
        partitions, ends = _compare_ends(before, state, read, incidents), {**before.ends, **state.ends}
    found = incidents.all()
    totals = replace(_add(counted.totals, found), topic_id=state.topic_id or known_id)
    unread = _unread(before, partitions, state, read)
    return replace(counted, totals=totals, partitions=partitions, ends=ends, unread=unread), found


def _unread(
    before: TopicWatch, after: Mapping[int, WatchedPartition], state: TopicState, read: _Read
) -> dict[int, Unread]:
    """Note where the query is in each partition whose new era it has to read: null unless behind the end there is."""
    found: dict[int, Unread] = {}
    for partition, each in after.items():
        if each.awaited_from is None:
            continue
        stood_at = before.unread[partition].stood_at if partition in before.unread else None
        position, ends = read.positions.get(partition, 0), state.ends.get(partition)
        if stood_at is None and ends is not None and position > ends.latest:
            stood_at = position
        found[partition] = Unread(each.awaited_from, stood_at)
    return found


class _Found:
    """Gathers what befell single partitions into one incident per kind."""

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


def _compare_counts(before: TopicWatch, state: TopicState, found: _Found) -> TopicWatch:
    """Note partitions that came, and those that are missing twice in a row.

    Once means little: a broker that has just started reports fewer topics than there are.
    """
    known, now = before.totals.partition_count, state.partition_count
    for partition in range(known, now):
        found.add(IncidentKind.PARTITIONS_ADDED, partition, 1)
    gone = frozenset(range(now, known))
    if gone <= before.missing:
        for partition in gone:
            found.add(IncidentKind.PARTITIONS_REMOVED, partition, 1)
        known = now
    return replace(before, totals=replace(before.totals, partition_count=max(known, now)), missing=gone)


def _recreated(
    before: TopicWatch, state: TopicState, positions: Positions, found: _Found
) -> dict[int, WatchedPartition]:
    """Begin a new era in every partition, wherever the ends are now: none of the records is one that was read."""
    partitions = dict(before.partitions)
    for partition in range(state.partition_count):
        # One that is new and has no leader yet begins at 0.
        earliest = state.ends.get(partition, Ends(0, 0)).earliest
        found.add(IncidentKind.RECREATED, partition, 1)
        # What the new topic has lost already is not counted: nobody knows whether it was ever read.
        awaited_from = earliest if positions.get(partition, 0) > 0 else None
        partitions[partition] = WatchedPartition(partition, before.era(partition) + 1, earliest, awaited_from)
    return partitions


def _compare_ends(before: TopicWatch, state: TopicState, read: _Read, found: _Found) -> dict[int, WatchedPartition]:
    partitions = dict(before.partitions)
    for partition, ends in state.ends.items():
        known = partitions.get(partition, WatchedPartition(partition))
        position = read.positions.get(partition)
        # A cut that is known already explains where the query was.
        reached = read.reached.get(partition, 0) if known.awaited_from is None else 0
        was = _Was(before.ends[partition].latest if partition in before.ends else 0, position, reached)
        if known.awaited_from is not None and position is not None and position <= ends.latest:
            # A query that was not moved back comes down to the end that there is by then, with an empty batch: it never
            # reads what lies before that.
            if position > known.awaited_from:
                found.add(IncidentKind.SKIPPED, partition, position - known.awaited_from)
            known = replace(known, awaited_from=None)
        partitions[partition] = _compare_partition(known, was, ends, found)
    return partitions


@dataclass(frozen=True, slots=True)
class _Was:
    """Where a partition ended at the check before (0: not known), and where the query is in it and has been since."""

    end: int
    position: int | None
    reached: int


def _compare_partition(known: WatchedPartition, was: _Was, now: Ends, found: _Found) -> WatchedPartition:
    position, is_awaited = was.position, known.awaited_from is not None
    read_to = 0 if position is None or is_awaited else position
    # The end falls only when the log is cut. A running batch may have read what its query's position does not show yet,
    # so that an end that fell begins a new era even where the position lies before it.
    if now.latest < max(read_to, was.reached, was.end):
        has_come_down = position is not None and position < was.reached
        cut_at = min(read_to, now.latest) if has_come_down else now.latest
        found.add(IncidentKind.REWOUND, known.partition, max(0, max(read_to, was.reached) - cut_at))
        # What a query reads after it came down, before it is started with the new era, it takes for repetitions.
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
    """Add incidents to the totals; a rewind counts once per partition, a recreated topic once."""
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
