"""Committed offsets of each partition of a group, and their times: a short ring of commits per partition.

Receives commit summaries and the topics whose ends were probed; answers the questions of rules about a member's
partitions: when was the last commit before a moment, is there a rhythm, how long does a record take. Arrays per topic,
because a large group has hundreds of partitions and each one is updated every few seconds. Ends of topics are kept
once for all groups (`topic_ends.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from rebalance_contract import CommitActivity, OffsetActivity, Partitions, TopicCommits
from rebalance_streaming.activity.offsets import FEW, UNKNOWN, Ints, as_array, filled, places
from rebalance_streaming.groups.partitions import Place, partition_name
from rebalance_streaming.observed.commit_rings import KEPT, CommitRings
from rebalance_streaming.observed.plausible import LARGEST_OFFSET, MOST_TOPICS
from rebalance_streaming.observed.topic_ends import END_SPACING_MS, ClusterEnds, SeenEnds, TopicEnds

#: Commits of one request reach the log within milliseconds of each other.
_SAME_REQUEST_MS = 50
#: A committed offset jumps ahead if its step is longer than this many records and this many times its longest step.
_SMALLEST_JUMP, _UNUSUAL_STEP = 1_000, 10
_KEPT_JUMPS = 200
_NOWHERE = filled(0)


@dataclass(slots=True)
class _ProbedTopic:
    """Since when a group's probes report the ends of a topic (epoch ms), and the version of the latest ends.

    Earlier ends, from probes of other groups, are not evidence of this group's past.
    """

    since_ms: int
    version: int


@dataclass(frozen=True, slots=True)
class Position:
    """Present state of one partition; null where unknown.

    `committed_ms` is the time of the last commit, `advanced_ms` of the last one that changed the offset (epoch ms).
    """

    topic: str
    partition: int
    committed: int | None
    end: int | None
    stable_end: int | None
    committed_ms: int | None
    advanced_ms: int | None

    @property
    def lag(self) -> int | None:
        """Records between committed offset and end; null where one is unknown."""
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)

    @property
    def name(self) -> str:
        """The partition as Kafka prints it."""
        return partition_name(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Flow:
    """Records per second into and out of a group's partitions over the same period, and the present lag."""

    produced: float
    consumed: float
    lag: int
    partitions: int


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Commits of a set of partitions before some moment.

    `last_ms`: time of the last one. `gap_ms`: the usual distance, null with fewer than three commits. `pulse`: offsets
    were committed again without having moved, which only clients do that commit inside their poll loop.
    """

    last_ms: int | None
    gap_ms: int | None
    pulse: bool
    commits: int


@dataclass(frozen=True, slots=True)
class Jump:
    """A committed offset that went back, or ahead by far more than its usual step, or differs from a forgotten one.

    A commit overtaken by the deletion of records is a jump too. `deleted_ms`: when the coordinator had forgotten the
    previous offset; null: it had not. `start`: the partition's first offset at that time if it was above the previous
    one, so that the records between them had been deleted; else null.
    """

    topic: str
    partition: int
    at_ms: int
    before: int
    after: int
    deleted_ms: int | None = None
    start: int | None = None


class Progress:
    """Commits of one group, and the ends of the topics that were probed for it.

    `ends` are those of the cluster; `keeps_ends`: add probed ends to them.
    """

    def __init__(self, ends: ClusterEnds | None = None, *, keeps_ends: bool = True) -> None:
        self._topics: dict[str, CommitRings] = {}
        self._ends, self._keeps_ends = ClusterEnds() if ends is None else ends, keeps_ends
        self._probed: dict[str, _ProbedTopic] = {}
        #: By partition of the log: era and offset up to which rows of commits were processed.
        self._read_to: dict[int, tuple[int, int]] = {}
        self.first_commit_ms: int | None = None
        self.last_commit_ms: int | None = None
        self.jumps: list[Jump] = []

    def take_commits(self, summary: CommitActivity) -> None:
        """Process a summary; a repeated one changes nothing."""
        at = (summary.log_era, summary.last_log_offset)
        if at <= self._read_to.get(summary.log_partition, (0, UNKNOWN)):
            return
        self._read_to[summary.log_partition] = at
        for name, commits in summary.topics.items():
            self._take_topic(name, commits, summary.pane_ms)
            newest = max(commits.committed_at_ms)
            self.last_commit_ms = max(newest, self.last_commit_ms or newest)
            self.first_commit_ms = min(self.first_commit_ms or newest, *commits.committed_at_ms)

    def _take_topic(self, name: str, commits: TopicCommits, pane_ms: int) -> None:
        partitions = np.asarray(commits.partitions, dtype=np.int64)
        topic = self._topics.get(name) or CommitRings()
        at = places(topic.partitions, partitions)
        if at is None:
            topic = self._topics[name] = topic.with_partitions(partitions)
            at = topic.partitions.searchsorted(partitions)
        topic.forget_answers()
        if len(partitions) <= FEW:
            self._take_few(name, topic, at, commits, pane_ms)
        else:
            self._take_many(name, topic, at, commits, pane_ms)
        del self.jumps[:-_KEPT_JUMPS]

    def _take_few(self, name: str, topic: CommitRings, at: Ints, commits: TopicCommits, pane_ms: int) -> None:
        times, starts = (commits.committed_at_ms, commits.first_at_ms), self._starts(name)
        for place, partition, offset, at_ms, from_ms in zip(
            at.tolist(), commits.partitions, commits.offsets, *times, strict=True
        ):
            deleted_ms = _known(topic.deleted_ms[place])
            topic.deleted_ms[place] = UNKNOWN if offset is not None else at_ms
            if offset is None:
                continue
            bounded = min(offset, LARGEST_OFFSET)
            before = int(topic.offsets[-1, place])
            start = int(starts[partition]) if partition < len(starts) else UNKNOWN
            overtaken = before < start <= bounded
            ahead = overtaken or (deleted_ms is not None and bounded > before)
            if before != UNKNOWN and (bounded < before or ahead or _is_jump_ahead(topic.offsets[:, place], bounded)):
                began = start if overtaken else None
                self.jumps.append(Jump(name, partition, at_ms, before, bounded, deleted_ms, began))
            if bounded != before:
                topic.advanced_ms[place] = at_ms
            if topic.first_ms[place] == UNKNOWN:
                topic.first_ms[place] = at_ms
            if topic.times[-1, place] // pane_ms == at_ms // pane_ms:
                # The rest of a pane whose beginning came with an earlier batch.
                topic.times[-1, place], topic.offsets[-1, place] = at_ms, bounded
                continue
            for ring, newest in ((topic.times, at_ms), (topic.earlier, from_ms), (topic.offsets, bounded)):
                ring[:-1, place] = ring[1:, place]
                ring[-1, place] = newest

    def _take_many(self, name: str, topic: CommitRings, at: Ints, commits: TopicCommits, pane_ms: int) -> None:
        times, earlier = (np.asarray(each, dtype=np.int64) for each in (commits.committed_at_ms, commits.first_at_ms))
        offsets, kept = _bounded(as_array(commits.offsets)), at
        deleted_before = topic.deleted_ms[kept]
        topic.deleted_ms[at] = UNKNOWN
        if None in commits.offsets:
            deleted = np.array([offset is None for offset in commits.offsets])
            topic.deleted_ms[at[deleted]] = times[deleted]
            kept, deleted_before = at[~deleted], deleted_before[~deleted]
            times, earlier, offsets = times[~deleted], earlier[~deleted], offsets[~deleted]
        moved = topic.offsets[-1, kept] != offsets
        self._note_jumps(name, topic, kept, (times, offsets, deleted_before))
        topic.advanced_ms[kept] = np.where(moved, times, topic.advanced_ms[kept])
        topic.first_ms[kept] = np.where(topic.first_ms[kept] == UNKNOWN, times, topic.first_ms[kept])
        is_new = topic.times[-1, kept] // pane_ms != times // pane_ms
        moving = kept[is_new]
        # Moving whole rows takes a tenth of the time of moving selected columns.
        columns = slice(None) if len(moving) == len(topic.partitions) else moving
        for ring in (topic.times, topic.earlier, topic.offsets):
            ring[:-1, columns] = ring[1:, columns]
        topic.earlier[-1, moving] = earlier[is_new]
        topic.times[-1, kept], topic.offsets[-1, kept] = times, offsets

    def _note_jumps(self, name: str, topic: CommitRings, kept: Ints, committed: tuple[Ints, Ints, Ints]) -> None:
        """Note jumps of columns; `committed` are times, offsets, and deletion times of previous offsets (-1: not)."""
        times, offsets, deleted_ms = committed
        third, second, before = topic.offsets[-3:, kept]
        step = offsets - before
        start = _at(self._starts(name), topic.partitions[kept])
        overtaken = (before < start) & (start <= offsets)
        # After a forgotten offset, members commit from wherever they began.
        sure = (before != UNKNOWN) & (overtaken | (step < 0) | ((deleted_ms != UNKNOWN) & (step > 0)))
        # A jump is many times longer than every earlier step, including the last one: few need the full check.
        ahead = (third != UNKNOWN) & (step > _SMALLEST_JUMP) & (step > _UNUSUAL_STEP * np.abs(before - second))
        for i in np.flatnonzero(sure | ahead).tolist():
            if sure[i] or _is_jump_ahead(topic.offsets[:, kept[i]], int(offsets[i])):
                place, deleted = int(topic.partitions[kept[i]]), _known(deleted_ms[i])
                began = int(start[i]) if overtaken[i] else None
                self.jumps.append(Jump(name, place, int(times[i]), int(before[i]), int(offsets[i]), deleted, began))

    def _starts(self, name: str) -> Ints:
        """Return the first offsets of a topic's partitions; -1, or a shorter array, where they are not known."""
        known = self._ends.get(name)
        return _NOWHERE if known is None else known.start

    def take_offsets(self, row: OffsetActivity) -> bool:
        """Note probed ends; return whether any differs from those last probed for the group."""
        if self._keeps_ends:
            self._ends.take(row)
        moved = False
        for ends in (row.ends, row.stable_ends):
            for name, offsets in ends.items():
                if offsets.partitions:
                    moved = self._note_probed(name, row.probed_at_ms) or moved
        return moved

    def _note_probed(self, name: str, at_ms: int) -> bool:
        known, probed = self._ends.get(name), self._probed.get(name)
        if known is None or (probed is None and len(self._probed) >= MOST_TOPICS):
            return False
        if probed is None:
            self._probed[name] = _ProbedTopic(at_ms, known.version)
            known.hold_newest()
            return True
        moved, probed.version = probed.version != known.version, known.version
        return moved

    def forget_gone(self, until_ms: int) -> None:
        """Forget topics whose offsets were all deleted by `until_ms`, and those whose ends are no longer probed."""
        self._topics = {name: topic for name, topic in self._topics.items() if not topic.is_gone(until_ms)}
        self._probed = {name: probed for name, probed in self._probed.items() if name in self._ends}

    # --- Questions ---

    def partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of each probed topic."""
        counts = ((name, self.partition_count(name)) for name in self._probed)
        return {name: count for name, count in counts if count is not None}

    def partition_count(self, topic: str) -> int | None:
        """Return the number of partitions of a topic; null when it was not probed."""
        known = self._ends_of(topic)
        return None if known is None else known.partitions

    def _ends_of(self, name: str) -> TopicEnds | None:
        """Return the ends of a topic that was probed for the group; null where it was not, or no end is known."""
        known = self._ends.get(name) if name in self._probed else None
        return known if known is not None and known.partitions else None

    def positions(self) -> Iterator[Position]:
        """Yield every partition that was ever committed and is not deleted."""
        for name, topic in self._topics.items():
            for place in np.flatnonzero(topic.is_committed()).tolist():
                yield self._position(name, topic, place)

    def lagging(self, records: float = 0) -> Iterator[Position]:
        """Yield committed partitions with more lag than `records`, where ends are known."""
        for name, topic, lags in self._lags():
            for place in np.flatnonzero(lags > records).tolist():
                yield self._position(name, topic, place)

    def _lags(self) -> Iterator[tuple[str, CommitRings, Ints]]:
        """Yield topics that are committed and probed, with the lag of each of their partitions; -1: not known."""
        for name, topic in self._topics.items():
            ends = self._ends_of(name)
            if ends is not None:
                yield name, topic, topic.lags(ends)

    def falls_behind(self, since_ms: int) -> Iterator[Position]:
        """Yield committed partitions with lag whose committed offset has not moved since `since_ms`."""
        for name, topic, lags in self._lags():
            for place in np.flatnonzero((lags > 0) & (topic.advanced_ms <= since_ms)).tolist():
                yield self._position(name, topic, place)

    def next_to_fall_behind(self, since_ms: int) -> int | None:
        """Return the earliest advance after `since_ms` of a partition that has lag; null when there is none."""
        found = []
        for _, topic, lags in self._lags():
            after = topic.advanced_ms[(lags > 0) & (topic.advanced_ms > since_ms)]
            if len(after):
                found.append(int(after.min()))
        return min(found, default=None)

    def flow(self, apart_ms: int) -> Flow | None:
        """Return the flow into and out of all committed partitions; null unless all their ends are known.

        It is measured between a partition's last commit and the latest one that is at least `apart_ms` older, where
        ends are known.
        """
        flow = Flow(0.0, 0.0, 0, 0)
        for name, topic in self._topics.items():
            committed = topic.is_committed()
            if not committed.any():
                continue
            ends = self._ends_of(name)
            lags = None if ends is None else topic.lags(ends)[committed]
            if ends is None or lags is None or (lags == UNKNOWN).any():
                return None
            seen = SeenEnds(ends.recent, self._probed[name].since_ms)
            produced, consumed = _rates(topic, seen, np.flatnonzero(committed), apart_ms)
            flow = Flow(
                flow.produced + produced,
                flow.consumed + consumed,
                flow.lag + int(lags.sum()),
                flow.partitions + len(lags),
            )
        return flow

    def position(self, name: str, partition: int) -> Position:
        """Return one partition; fields that are not known are null."""
        topic = self._topics.get(name) or CommitRings()
        for place in topic.columns([partition]).tolist():
            if topic.times[-1, place] != UNKNOWN:
                return self._position(name, topic, place)
        end, stable = self._end(name, partition)
        return Position(name, partition, None, end, stable, None, None)

    def _position(self, name: str, topic: CommitRings, place: int) -> Position:
        partition = int(topic.partitions[place])
        end, stable = self._end(name, partition)
        return Position(
            name,
            partition,
            int(topic.offsets[-1, place]),
            end,
            stable,
            int(topic.times[-1, place]),
            int(topic.advanced_ms[place]),
        )

    def _end(self, name: str, partition: int) -> tuple[int | None, int | None]:
        known = self._ends_of(name)
        if known is None or partition >= len(known.end):
            return None, None
        # Sums over partitions must fit 64 bits.
        end, stable = (min(int(each[partition]), LARGEST_OFFSET) for each in (known.end, known.stable))
        return _known(end), _known(stable)

    def end_at(self, name: str, partition: int, at_ms: int) -> int | None:
        """Return a partition's end offset as last probed before a moment; null when it was not."""
        seen = self._seen(name)
        return None if seen is None else seen.at(seen.place_of(at_ms) - 1, partition)

    def estimated_end_at(self, name: str, partition: int, at_ms: int) -> int | None:
        """Return a partition's end offset at a moment, interpolated between probes.

        Shortly before the first probe it is extrapolated from the first two; null for earlier moments.
        """
        seen = self._seen(name)
        if seen is None:
            return None
        times, place = seen.series.times, seen.place_of(at_ms)
        if place == seen.first and len(times) > place + 1 and times[place] - at_ms <= END_SPACING_MS:
            place += 1
        before, after = seen.at(place - 1, partition), seen.at(place, partition)
        if before is None or after is None or after <= before:
            return before
        share = (at_ms - times[place - 1]) / (times[place] - times[place - 1])
        return before + int((after - before) * share)

    def _seen(self, name: str) -> SeenEnds | None:
        """Return a topic's ends since they were first probed for the group; null where they were not."""
        known = self._ends_of(name)
        return None if known is None else SeenEnds(known.recent, self._probed[name].since_ms)

    def first_end(self, name: str, partition: int) -> int | None:
        """Return a partition's oldest end offset that is remembered."""
        seen = self._seen(name)
        return None if seen is None else next(iter(seen.of_partition(partition, seen.first)), None)

    def end_growth(self, name: str, partition: int, since_ms: int) -> int | None:
        """Return how many records a partition got since a moment; null if it was not probed twice since then."""
        seen = self._seen(name)
        inside = [] if seen is None else seen.of_partition(partition, seen.since(since_ms))
        return inside[-1] - inside[0] if len(inside) > 1 else None

    def first_probe_ms(self, name: str, since_ms: int) -> int | None:
        """Return when a topic's ends were first probed since a moment; null when they were not."""
        seen = self._seen(name)
        return None if seen is None else seen.time_of(seen.since(since_ms))

    def ends_since(self) -> int | None:
        """Return the time since which end offsets are known; null when none are."""
        seen = (self._seen(name) for name in self._probed)
        times = (each.time_of(each.first) for each in seen if each is not None)
        return min((time for time in times if time is not None), default=None)

    def total_lag(self) -> int | None:
        """Return the lag over all partitions with both offsets known; null when there is none."""
        total, found = 0, False
        for _, _, lags in self._lags():
            known = lags[lags != UNKNOWN]
            found, total = found or bool(len(known)), total + int(known.sum())
        return total if found else None

    def rhythm(self, partitions: Partitions, before_ms: int) -> Rhythm:
        """Return how these partitions were committed before a moment."""
        times, last_ms, pulse = set[int](), UNKNOWN, False
        for name, numbers in partitions.items():
            rows, offsets, earlier = self._rings(name, numbers)
            inside = (rows != UNKNOWN) & (rows <= before_ms)
            times.update(rows[inside].tolist())
            last_ms = max(last_ms, int(earlier[earlier <= before_ms].max(initial=UNKNOWN)))
            again = inside[1:] & inside[:-1] & (offsets[1:] == offsets[:-1])
            pulse = pulse or bool(again.any())
        ordered = sorted(times)
        instants = [t for i, t in enumerate(ordered) if i == 0 or t - ordered[i - 1] > _SAME_REQUEST_MS]
        gaps = np.diff(instants[-KEPT:])
        last_ms = max([last_ms, *ordered[-1:]])
        return Rhythm(
            None if last_ms == UNKNOWN else last_ms,
            int(np.median(gaps)) if len(gaps) > 1 else None,
            pulse,
            len(instants),
        )

    def longest_gap_bound_ms(self, partitions: Partitions) -> int:
        """Return an upper bound of `longest_gap_ms` for any partitions of the same topics.

        A gap ends with a commit of a partition that did not advance during the gap: either that is a gap of this
        partition too, or nothing earlier is remembered of it and the gap began with another partition's commit.
        """
        known = [self._topics[name].advances() for name in partitions if name in self._topics]
        earliest = min((each.earliest_ms for each in known if each.earliest_ms is not None), default=0)
        first = max((each.latest_first_ms for each in known if each.latest_first_ms is not None), default=0)
        return max([first - earliest, *(each.longest_ms for each in known)])

    def longest_gap_ms(self, partitions: Partitions) -> int | None:
        """Return the longest time between two commits that advanced one of these partitions; null: there are no two."""
        moves: set[int] = set()
        for name, numbers in partitions.items():
            rows, offsets, _ = self._rings(name, numbers)
            moves.update(rows[1:][(rows[:-1] != UNKNOWN) & (np.diff(offsets, axis=0) > 0)].tolist())
        gaps = (b - a for a, b in itertools.pairwise(sorted(moves)))
        return max((gap for gap in gaps if gap > _SAME_REQUEST_MS), default=None)

    def commit_gaps(self, partitions: Partitions) -> list[tuple[int, int]]:
        """Return the periods without a commit of these partitions between remembered commits, in order.

        The first and the last commit of a pane are known; the time between them does not count as a gap.
        """
        spans: set[tuple[int, int]] = set()
        for name, numbers in partitions.items():
            last, _, first = self._rings(name, numbers)
            known = last != UNKNOWN
            spans.update(zip(first[known].tolist(), last[known].tolist(), strict=True))
        gaps: list[tuple[int, int]] = []
        until_ms: int | None = None
        for first_ms, last_ms in sorted(spans):
            if until_ms is not None and first_ms - until_ms > _SAME_REQUEST_MS:
                gaps.append((until_ms, first_ms))
            until_ms = max(last_ms, until_ms or last_ms)
        return gaps

    def commits_between(self, partitions: Partitions, from_ms: int, to_ms: int) -> int:
        """Return how many remembered commits these partitions have in a period."""
        count = 0
        for name, numbers in partitions.items():
            rows, _, _ = self._rings(name, numbers)
            count += int(((rows > from_ms) & (rows <= to_ms)).sum())
        return count

    def committed_before(self, place: Place, at_ms: int) -> tuple[int, int] | None:
        """Return (time, offset) of a partition's last remembered commit up to a moment; null when none is."""
        rows, offsets, _ = (ring.ravel() for ring in self._rings(place[0], [place[1]]))
        inside = np.flatnonzero((rows != UNKNOWN) & (rows <= at_ms))
        return (int(rows[inside[-1]]), int(offsets[inside[-1]])) if len(inside) else None

    def deleted(self) -> list[tuple[str, int, int]]:
        """Return (topic, partition, time) of committed offsets that were deleted and not committed again."""
        return [
            (name, int(topic.partitions[place]), int(topic.deleted_ms[place]))
            for name, topic in self._topics.items()
            for place in np.flatnonzero(topic.deleted_ms != UNKNOWN).tolist()
        ]

    def _rings(self, name: str, numbers: Iterable[int]) -> tuple[Ints, Ints, Ints]:
        topic = self._topics.get(name) or CommitRings()
        columns = topic.columns(numbers)
        return topic.times[:, columns], topic.offsets[:, columns], topic.earlier[:, columns]


def _rates(topic: CommitRings, seen: SeenEnds, columns: Ints, apart_ms: int) -> tuple[float, float]:
    """Return records per second (produced, committed) of some columns between two commits whose ends are known."""
    times, offsets = topic.times[:, columns], topic.offsets[:, columns]
    earlier = (times != UNKNOWN) & (times <= times[-1] - apart_ms)
    # The last commit in log order.
    place = len(times) - 1 - earlier[::-1].argmax(axis=0)
    partitions, each = topic.partitions[columns], np.arange(len(columns))
    before_ms = times[place, each]
    first, last = seen.at_times(partitions, before_ms), seen.at_times(partitions, times[-1])
    known = np.flatnonzero(earlier.any(axis=0) & (first != UNKNOWN) & (last != UNKNOWN))
    seconds = (times[-1] - before_ms)[known] / 1000
    produced = (last - first)[known] / seconds
    consumed = (offsets[-1] - offsets[place, each])[known] / seconds
    return float(produced.sum()), float(consumed.sum())


def _is_jump_ahead(ring: Ints, offset: int) -> bool:
    """Whether an offset lies ahead of a partition's remembered ones by far more than their usual steps."""
    step = offset - int(ring[-1])
    if step <= _SMALLEST_JUMP or ring[-3] == UNKNOWN:
        return False
    # While the ring is not full, the whole remembered distance counts as a step too.
    known: list[int] = np.where(ring == UNKNOWN, ring[-1], ring).tolist()
    usual = max(abs(later - earlier) for earlier, later in itertools.pairwise(known))
    return step > _UNUSUAL_STEP * max(1, usual)


def _at(offsets: Ints, partitions: Ints) -> Ints:
    """Return the offsets of partitions, -1 for those beyond the array."""
    if not len(offsets):
        return filled(len(partitions))
    inside = partitions < len(offsets)
    return np.where(inside, offsets[np.where(inside, partitions, 0)], UNKNOWN)


def _bounded(offsets: Ints) -> Ints:
    """Return offsets capped for storage: clients may commit any number, and sums over partitions must fit 64 bits."""
    return np.minimum(offsets, LARGEST_OFFSET)


def _known(offset: int | np.int64) -> int | None:
    return None if offset == UNKNOWN else int(offset)
