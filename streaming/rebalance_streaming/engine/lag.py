"""Lag of groups, in records and in time, from packed commits and probed end offsets.

Receives rows of the activity topic in any order; keeps one array per topic. Does not read the clock.

Records: a partition's lag is its end offset less the committed offset. For groups that read committed records only, the
end is the last stable offset. Lag is never negative: a commit newer than the last probe shows that the end has moved
on.

Time: how long the oldest unread record has been there. Probes leave a history of a partition's end offsets; the next
unread record was written between the last sample at or below the committed offset and the sample after it. The younger
of the two gives a lower bound of the lag, the older an upper bound; their distance is the error. Samples thin out with
age, so the error stays about an eighth of the lag, or one probe interval. A record older than all samples has a lower
bound only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rebalance_contract import (
    PANE_MS,
    WINDOWS_MS,
    CommitActivity,
    GroupLag,
    GroupWindow,
    OffsetActivity,
    TopicCommits,
    TopicLag,
)
from rebalance_streaming.activity.offsets import UNKNOWN, Ints, filled
from rebalance_streaming.engine.ends import OldestUnread, lags_of, older, oldest_unread
from rebalance_streaming.engine.panes import PaneNumbers, PaneRing
from rebalance_streaming.engine.positions import TopicPositions, forget_released, is_as_published, learn_committed, move
from rebalance_streaming.groups.windows import believed
from rebalance_streaming.observed.topic_ends import ClusterEnds

#: End of a row of commits: partition of the log, its era, offset.
Position = tuple[int, int, int]

#: A topic that nobody reads any more is kept at least this long, as a group may come back; a start reads as much.
_UNREAD_MS = 900_000


@dataclass(frozen=True, slots=True)
class LagWindow:
    """One sliding window: `commits` counted, largest `lag_max`, and its `lag_slope` in records per second.

    The last two are null while there was no measurement in the window, the slope below two of them.
    """

    commits: int
    lag_max: int | None
    lag_slope: float | None


@dataclass(slots=True)
class _EarlierPositions:
    """Positions of a group while rows from before a start are read: the ones of that time, or the published ones.

    `last_commit_ms` and `until_ms` are when the group had last committed, and when its lag was last published.
    """

    topics: dict[str, TopicPositions]
    last_commit_ms: int
    until_ms: int
    is_read: bool = False

    def cover(self, at_ms: int) -> bool:
        """Whether these were the positions at a time: a commit was read, or the group had not committed since."""
        return self.is_read or at_ms > self.last_commit_ms


@dataclass(slots=True)
class _Group:
    """One group: positions by topic, totals, and its panes by number: commits, largest lag, last lag and its time.

    `read_to` is the newest row of commits that was processed, `counted_to` the last one counted by an earlier run.
    `probed` are the topics for which a probe reported the ends, or that there are none (0), with the version of the
    ends. `held_ms` is when a coordinator was last asked which offsets it holds. `earlier` is set while rows are read
    again that an earlier run had counted.
    """

    topics: dict[str, TopicPositions] = field(default_factory=dict)
    read_to: Position | None = None
    counted_to: Position | None = None
    total_commits: int = 0
    first_commit_ms: int | None = None
    last_commit_ms: int | None = None
    probed: dict[str, int] = field(default_factory=dict)
    commits: PaneRing = field(default_factory=PaneRing)
    lag_max: PaneRing = field(default_factory=PaneRing)
    lag_seen: PaneRing = field(default_factory=PaneRing)
    seen_ms: PaneRing = field(default_factory=PaneRing)
    held_ms: int = 0
    earlier: _EarlierPositions | None = None


class LagTable:
    """All groups of one cluster. `reads_committed` returns whether the consumers of a group read committed only.

    `ends` are the end offsets of all topics, which others may read.
    """

    def __init__(self, reads_committed: Callable[[str], bool] = lambda _: False) -> None:
        self._reads_committed = reads_committed
        self.ends = ClusterEnds(self._committed_topics)
        self._groups: dict[str, _Group] = {}
        #: Topics of groups that were forgotten since the last check, and between the two last checks.
        self._left: set[str] = set()
        self._left_before: set[str] = set()
        self._looked_ms = 0

    def take_commits(self, row: CommitActivity, at_ms: int | None = None) -> bool:
        """Process packed commits; return false for a repeated row, which changes nothing.

        `at_ms`: when the row was written (epoch ms; null: not known). A pane too far after it counts as of that time:
        a clock that is ahead must not make all later panes look old.
        """
        group = self._groups.setdefault(row.group, _Group())
        at = (row.log_partition, row.log_era, row.last_log_offset)
        if _is_at_or_before(at, group.read_to):
            return False
        group.read_to = at
        # At a start, rows that an earlier run counted are read again: windows need them, totals and positions do not.
        if _is_at_or_before(at, group.counted_to):
            _read_again(group, row, is_last=at == group.counted_to)
        else:
            group.earlier = None
            for name, commits in row.topics.items():
                _count_commits(group, name, commits)
        for start_ms, count in row.pane_counts:
            pane = (start_ms if at_ms is None else believed(start_ms, at_ms)) // PANE_MS
            group.commits[pane] = (group.commits[pane] or 0) + count
        return True

    def take_offsets(self, row: OffsetActivity) -> bool:
        """Process probed offsets; return whether any is new, or newly known to be missing.

        A probe that is older than the last one changes nothing.
        """
        group = self._groups.setdefault(row.group, _Group())
        is_news = False
        if group.earlier is not None and row.probed_at_ms > group.earlier.until_ms:
            group.earlier = None
        if (row.committed or row.is_all_committed) and row.probed_at_ms >= group.held_ms:
            if row.is_all_committed and row.probed_at_ms > group.held_ms:
                # A probe comes in several rows: an offset is gone if the whole previous probe did not contain it.
                is_news = forget_released(group.topics, group.held_ms)
            group.held_ms = row.probed_at_ms
            for topic, committed in row.committed.items():
                is_news = learn_committed(group.topics, topic, committed, row.probed_at_ms) or is_news
        self.ends.take(row)
        for topic in {*row.ends, *row.stable_ends}:
            # Another group's probe may have reported the same ends before: they are new once to each group.
            ends = self.ends.get(topic)
            version = 0 if ends is None else ends.version
            is_news = is_news or group.probed.get(topic) != version
            group.probed[topic] = version
        return is_news

    def restore(self, row: GroupLag) -> None:
        """Restore what an earlier run published; a group that is already known is left unchanged."""
        if row.group in self._groups:
            return
        group = _Group(
            total_commits=row.commits,
            first_commit_ms=row.first_commit_ms,
            last_commit_ms=row.last_commit_ms,
            held_ms=row.at_ms,
        )
        if row.log_partition is not None and row.last_log_offset is not None:
            group.counted_to = (row.log_partition, row.log_era, row.last_log_offset)
        for name, topic in row.topics.items():
            if topic.partitions:
                group.topics[name] = TopicPositions(
                    np.asarray(topic.partitions, dtype=np.int64),
                    np.asarray(topic.committed, dtype=np.int64),
                    filled(len(topic.partitions)),
                    np.full(len(topic.partitions), row.at_ms, dtype=np.int64),
                )
        group.earlier = _EarlierPositions(dict(group.topics), row.last_commit_ms or 0, row.at_ms)
        self._groups[row.group] = group

    def measure(self, group: str, now_ms: int) -> int | None:
        """Return a group's lag in records, null while no end is known, and add it to the windows.

        While earlier rows are read again it is also null until one of them shows the group's position at that time.
        """
        known = self._groups.get(group)
        if known is None or (known.earlier is not None and not known.earlier.cover(now_ms)):
            return None
        topics = known.topics if known.earlier is None else known.earlier.topics
        ends_of = [(at, ends) for name, at in topics.items() if (ends := self.ends.get(name)) is not None]
        lags = [lags_of(at, ends, stable=self._reads_committed(group)) for at, ends in ends_of]
        if not lags:
            return None
        total = sum(int(each[each != UNKNOWN].sum()) for each in lags)
        pane = now_ms // PANE_MS
        known.lag_max[pane] = max(total, known.lag_max[pane] or 0)
        known.lag_seen[pane], known.seen_ms[pane] = total, now_ms
        return total

    def lag(
        self, group: str, now_ms: int, cluster: str = "", windows: dict[str, GroupWindow] | None = None
    ) -> GroupLag | None:
        """Return a group's lag with the ends known now; null for a group that has never committed.

        A group whose offsets were all deleted keeps its totals.
        """
        known = self._groups.get(group)
        if known is None or not (known.topics or known.total_commits):
            return None
        stable = self._reads_committed(group)
        topics: dict[str, TopicLag] = {}
        oldest = OldestUnread(None, 0, False)
        for name, positions in known.topics.items():
            ends = self.ends.get(name)
            lags = lags_of(positions, ends, stable=stable)
            topics[name] = _topic_lag(positions, lags)
            if ends is not None:
                oldest = older(oldest, oldest_unread(positions, ends, lags))
        totals = [topic.total for topic in topics.values() if topic.total is not None]
        is_behind = known.read_to is None or _is_at_or_before(known.read_to, known.counted_to)
        partition, era, offset = (known.counted_to if is_behind else known.read_to) or (None, 0, None)
        return GroupLag(
            cluster=cluster,
            group=group,
            at_ms=now_ms,
            total=sum(totals) if totals else None,
            topics=topics,
            oldest_unread_ms=oldest.at_ms,
            oldest_unread_error_ms=oldest.error_ms,
            oldest_unread_is_bound=oldest.is_bound,
            commits=known.total_commits,
            first_commit_ms=known.first_commit_ms,
            last_commit_ms=known.last_commit_ms,
            log_partition=partition,
            last_log_offset=offset,
            log_era=era,
            windows=windows or {},
        )

    def awaits_ends(self, group: str) -> bool:
        """Whether the group has committed to a topic for which no probe has reported anything yet."""
        known = self._groups.get(group)
        return known is not None and any(name not in known.probed and name not in self.ends for name in known.topics)

    def has_positions(self, group: str) -> bool:
        """Whether an offset of the group is committed, or held by its coordinator."""
        known = self._groups.get(group)
        return known is not None and bool(known.topics)

    def is_committed_to(self, group: str, since_ms: int) -> bool:
        """Whether the group has committed offsets, the newest of them from after a time.

        Deleting a group deletes its offsets, which counts as a commit too.
        """
        known = self._groups.get(group)
        return known is not None and bool(known.topics) and (known.last_commit_ms or 0) > since_ms

    def groups(self) -> list[str]:
        """Return the groups that have committed or have been probed with offsets."""
        return list(self._groups)

    def windows(self, group: str, now_ms: int) -> dict[str, LagWindow]:
        """Return the group's sliding windows that end at `now_ms`, by name."""
        known = self._groups.get(group, _Group())
        rings = [each.items() for each in (known.commits, known.lag_max, known.lag_seen, known.seen_ms)]
        return {name: _window(*rings, now_ms=now_ms, length_ms=length) for name, length in WINDOWS_MS.items()}

    def pane_times(self, group: str) -> list[int]:
        """Return when the panes of the group that have a value began, in no order."""
        known = self._groups.get(group, _Group())
        return [pane * PANE_MS for pane in {*known.commits.panes(), *known.lag_seen.panes()}]

    def forget_group(self, group: str) -> None:
        """Drop a group that is gone."""
        known = self._groups.pop(group, None)
        if known is not None:
            self._left.update(known.probed, known.topics)

    def topics_of(self, group: str) -> frozenset[str]:
        """Return the topics with committed offsets of the group; forget other probed topics that are gone."""
        known = self._groups.get(group)
        if known is None:
            return frozenset()
        known.probed = {
            name: version for name, version in known.probed.items() if name in self.ends or name in known.topics
        }
        return frozenset(known.topics)

    def forget_unread(self, now_ms: int) -> None:
        """Every 15 minutes, forget the ends of topics that are gone or that only forgotten groups read."""
        if now_ms - self._looked_ms < _UNREAD_MS:
            return
        self.ends.forget_unprobed()
        unread, self._left_before, self._left, self._looked_ms = self._left_before, self._left, set(), now_ms
        for group in self._groups.values() if unread else ():
            unread.difference_update(group.probed, group.topics)
        for topic in unread:
            self.ends.forget(topic)

    def turn_back(self, now_ms: int) -> None:
        """Adapt to a clock that was set back to `now_ms` (epoch ms)."""
        self._looked_ms = min(self._looked_ms, now_ms)

    def _committed_topics(self) -> set[str]:
        return {name for group in self._groups.values() for name in group.topics}


def _read_again(group: _Group, row: CommitActivity, *, is_last: bool) -> None:
    """Update the earlier positions from a row that an earlier run had counted; the last row completes them."""
    if group.earlier is None:
        return
    group.earlier.is_read = True
    for name, commits in row.topics.items():
        move(group.earlier.topics, name, commits)
    if is_last:
        group.topics |= {
            name: at for name, at in group.earlier.topics.items() if is_as_published(at, group.topics.get(name))
        }
        group.earlier = None


def _count_commits(group: _Group, topic: str, commits: TopicCommits) -> None:
    move(group.topics, topic, commits)
    group.total_commits += sum(commits.commits)
    newest, first = max(commits.committed_at_ms), min(commits.first_at_ms)
    group.last_commit_ms = max(newest, group.last_commit_ms or newest)
    group.first_commit_ms = min(first, group.first_commit_ms or first)


def _is_at_or_before(at: Position, known: Position | None) -> bool:
    """Whether a row ends no later than another; rows of different log partitions have no order."""
    return known is not None and known[0] == at[0] and at <= known


def _topic_lag(positions: TopicPositions, lags: Ints) -> TopicLag:
    known = lags != UNKNOWN
    by_partition: list[int | None] = lags.tolist()
    if not known.all():
        by_partition = [None if lag == UNKNOWN else lag for lag in by_partition]
    total = int(lags[known].sum()) if known.any() else None
    return TopicLag(positions.partitions.tolist(), positions.committed.tolist(), by_partition, total)


def _window(
    commits: PaneNumbers,
    lag_max: PaneNumbers,
    lag_seen: PaneNumbers,
    seen_ms: PaneNumbers,
    *,
    now_ms: int,
    length_ms: int,
) -> LagWindow:
    oldest = (now_ms - length_ms) // PANE_MS
    # The last lag measured before the window still applies when it begins.
    panes, lags = lag_seen
    before = lags[panes <= oldest][-1:]
    seen = zip(_after(oldest, seen_ms).tolist(), _after(oldest, lag_seen).tolist(), strict=True)
    return LagWindow(
        commits=int(_after(oldest, commits).sum()),
        lag_max=max([*_after(oldest, lag_max).tolist(), *before.tolist()], default=None),
        lag_slope=_slope(list(seen)),
    )


def _after(pane: int, ring: PaneNumbers) -> Ints:
    panes, numbers = ring
    return numbers[panes > pane]


def _slope(seen: list[tuple[int, int]]) -> float | None:
    """Return the least-squares slope of (time in ms, lag) in records per second."""
    if len(seen) < 2:
        return None
    # In plain Python: there are few values, and every row of lag needs three of these.
    times = [at_ms / 1000 for at_ms, _ in seen]
    middle, usual = sum(times) / len(seen), sum(lag for _, lag in seen) / len(seen)
    spread = sum((at - middle) ** 2 for at in times)
    together = sum((at - middle) * (lag - usual) for at, (_, lag) in zip(times, seen, strict=True))
    return together / spread if spread > 0 else None
