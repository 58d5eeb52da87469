"""Lag of groups, in offsets and in time, from commit summaries and probed end offsets.

Receives rows of the commits and probes topics in any order; keeps one array per topic. Knows no clock but the one
given. Everything is per cluster: one table per cluster.

Offsets: a partition's lag is its end offset less the committed offset; the end of what a read-committed consumer may
read (the last stable offset) counts for groups that read so. It is never negative: a commit newer than the last probe
says that the end has moved on.

Time: how long the oldest unread record has been there. Probes leave a history of when a partition's end was where; the
next unread record was written between the last sample at or below the committed offset and the one after it. The
younger of the two bounds the lag from below, the older from above; their distance is the error. Samples thin out with
age, so the error stays about an eighth of the lag, or one probe interval. A record older than all samples has a lower
bound only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt

from rebalance_streaming.groups.events import KEPT_PANES, PANE_MS, CommitSummary, Probe, TopicCommits
from rebalance_streaming.groups.windows import WINDOWS_MS

Ints = npt.NDArray[np.int64]

#: Stands for "not known" in arrays of offsets and times.
UNKNOWN = -1
#: Samples of end offsets are kept this far apart at least, and an eighth of their age.
_SAMPLE_MS, _SAMPLE_SHARE = 5_000, 8
_OLDEST_SAMPLE_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class TopicLag:
    """Lag of a group on one topic, as parallel tuples over its committed partitions, in records."""

    partitions: tuple[int, ...]
    lags: tuple[int, ...]

    @property
    def total(self) -> int:
        """Sum over the partitions."""
        return sum(self.lags)


@dataclass(frozen=True, slots=True)
class LagWindow:
    """One sliding window: `commits` counted, largest `lag_max`, and its `lag_slope` in records per second.

    The last two are null while there was no probe of the group in the window, the slope below two of them.
    """

    commits: int
    lag_max: int | None
    lag_slope: float | None


@dataclass(frozen=True, slots=True)
class GroupLag:
    """Lag of one group at `at_ms`. A topic without known end offsets is left out.

    `time_ms` lies at most `time_error_ms` above the true time lag; with `time_is_minimum` the true one may be any
    longer. `last_commit_ms` is the coordinator's time of the newest commit.
    """

    at_ms: int
    topics: dict[str, TopicLag]
    time_ms: int
    time_error_ms: int
    time_is_minimum: bool
    last_commit_ms: int | None

    @property
    def total(self) -> int:
        """Sum over all topics."""
        return sum(topic.total for topic in self.topics.values())


@dataclass(slots=True)
class _Ends:
    """End offsets of one topic by partition, and what they were at earlier times (rows, oldest first)."""

    end: Ints
    stable: Ints
    probed_ms: int
    times: list[int] = field(default_factory=list)
    samples: list[Ints] = field(default_factory=list)


@dataclass(slots=True)
class _Positions:
    """What a group has committed on one topic: arrays by place in `partitions`, sorted."""

    partitions: Ints
    committed: Ints
    committed_ms: Ints


@dataclass(slots=True)
class _Rings:
    """Panes of a group by number: commits counted, largest lag, and lag last seen with its time."""

    commits: dict[int, int] = field(default_factory=dict)
    lag_max: dict[int, int] = field(default_factory=dict)
    lag_seen: dict[int, tuple[int, int]] = field(default_factory=dict)


class LagTable:
    """All groups of one cluster. `reads_committed` says of a group whether its consumers read committed only."""

    def __init__(self, reads_committed: Callable[[str], bool] = lambda _: False) -> None:
        self._reads_committed = reads_committed
        self._ends: dict[str, _Ends] = {}
        self._positions: dict[str, dict[str, _Positions]] = {}
        self._last_log_offset: dict[str, tuple[int, int]] = {}
        self._rings: dict[str, _Rings] = {}

    def commit(self, summary: CommitSummary) -> None:
        """Take up a commit summary; a repetition or one from further back in the log changes nothing."""
        at = (summary.log_partition, summary.last_log_offset)
        last = self._last_log_offset.get(summary.group)
        if last is not None and last[0] == at[0] and at[1] <= last[1]:
            return
        self._last_log_offset[summary.group] = at
        topics = self._positions.setdefault(summary.group, {})
        for name, commits in summary.topics.items():
            positions = _with_commits(topics.get(name), commits)
            if len(positions.partitions):
                topics[name] = positions
            else:
                topics.pop(name, None)
        ring = self._rings.setdefault(summary.group, _Rings())
        pane = summary.pane_start_ms // PANE_MS
        ring.commits[pane] = ring.commits.get(pane, 0) + sum(sum(each.commits) for each in summary.topics.values())
        _forget_old(ring.commits)

    def probe(self, probe: Probe) -> GroupLag | None:
        """Take up a probe; returns the group's lag as of then, null when the probe has no offsets."""
        if probe.committed_offsets is not msgspec.UNSET:
            self._see_committed(probe.group, probe.committed_offsets)
        if probe.end_offsets is msgspec.UNSET:
            return None
        stable = {} if probe.stable_offsets is msgspec.UNSET else probe.stable_offsets
        for topic, ends in probe.end_offsets.items():
            self._see_ends(topic, ends, stable.get(topic, {}), probe.probed_at_ms)
        return self.measure(probe.group, probe.probed_at_ms)

    def measure(self, group: str, now_ms: int) -> GroupLag | None:
        """Return a group's lag as `lag` does, and take it into the windows."""
        lag = self.lag(group, now_ms)
        if lag is not None:
            ring, pane = self._rings.setdefault(group, _Rings()), now_ms // PANE_MS
            ring.lag_max[pane] = max(lag.total, ring.lag_max.get(pane, 0))
            ring.lag_seen[pane] = (now_ms, lag.total)
            _forget_old(ring.lag_max)
            _forget_old(ring.lag_seen)
        return lag

    def lag(self, group: str, now_ms: int) -> GroupLag | None:
        """Return a group's lag with the ends known now; null for a group without commits or known end offsets."""
        topics: dict[str, TopicLag] = {}
        time_ms, error_ms, is_minimum = 0, 0, False
        last_commit_ms = UNKNOWN
        for name, positions in self._positions.get(group, {}).items():
            last_commit_ms = max(last_commit_ms, int(positions.committed_ms.max()))
            ends = self._ends.get(name)
            if ends is None:
                continue
            lags = _lags(positions, ends, stable=self._reads_committed(group))
            known = lags != UNKNOWN
            topics[name] = TopicLag(tuple(positions.partitions[known].tolist()), tuple(lags[known].tolist()))
            late, late_error, minimum = _time_lag(positions, ends, lags, now_ms)
            if late > time_ms:
                time_ms, error_ms, is_minimum = late, late_error, minimum
        if not topics:
            return None
        return GroupLag(now_ms, topics, time_ms, error_ms, is_minimum, None if last_commit_ms < 0 else last_commit_ms)

    def groups(self) -> list[str]:
        """Return the groups that have committed or have been probed with offsets."""
        return list(self._rings)

    def windows(self, group: str, now_ms: int) -> dict[str, LagWindow]:
        """Return the group's sliding windows that end at `now_ms`, by name."""
        ring = self._rings.get(group, _Rings())
        return {name: _window(ring, now_ms, length) for name, length in WINDOWS_MS.items()}

    def forget_group(self, group: str) -> None:
        """Drop a group that is gone."""
        for table in (self._positions, self._last_log_offset, self._rings):
            table.pop(group, None)

    def forget_topic(self, topic: str) -> None:
        """Drop the end offsets of a topic that is gone."""
        self._ends.pop(topic, None)

    def _see_committed(self, group: str, committed: Mapping[str, Mapping[str, int | None]]) -> None:
        """Learn offsets of partitions of which no commit was read; a commit that was read is newer, or the same."""
        topics = self._positions.setdefault(group, {})
        for topic, offsets in committed.items():
            known = topics.get(topic)
            have = set() if known is None else set(known.partitions.tolist())
            new = {int(p): offset for p, offset in offsets.items() if int(p) not in have and offset is not None}
            if new:
                places = list(new)
                row = TopicCommits(places, list(new.values()), [UNKNOWN] * len(places), [], [])
                topics[topic] = _with_commits(known, row)

    def _see_ends(
        self, topic: str, ends: Mapping[str, int | None], stable: Mapping[str, int | None], at_ms: int
    ) -> None:
        known = self._ends.get(topic)
        if known is None:
            known = self._ends[topic] = _Ends(_filled(0), _filled(0), at_ms)
        size = max([len(known.end), *(int(p) + 1 for p in ends)])
        known.end, known.stable = _grown(known.end, size), _grown(known.stable, size)
        before = known.end.copy()
        for name, offset in ends.items():
            known.end[int(name)] = UNKNOWN if offset is None else offset
        for name, offset in stable.items():
            known.stable[int(name)] = UNKNOWN if offset is None else offset
        if np.any((known.end < before) & (known.end != UNKNOWN)):
            # Ends only grow: the topic was deleted and made anew, and its past is another topic's.
            known.times, known.samples = [], []
        known.probed_ms = max(at_ms, known.probed_ms)
        _sample(known, at_ms)


def _with_commits(known: _Positions | None, commits: TopicCommits) -> _Positions:
    """Return the positions with a pane's last commits; a deleted offset removes its partition."""
    new = np.asarray(commits.partitions, dtype=np.int64)
    offsets = np.array([UNKNOWN if o is None else o for o in commits.offsets], dtype=np.int64)
    times = np.asarray(commits.committed_at_ms, dtype=np.int64)
    if known is None or np.array_equal(known.partitions, new):
        merged = _Positions(new, offsets, times)
    else:
        kept = ~np.isin(known.partitions, new)
        merged = _Positions(
            np.concatenate((known.partitions[kept], new)),
            np.concatenate((known.committed[kept], offsets)),
            np.concatenate((known.committed_ms[kept], times)),
        )
    order = np.argsort(merged.partitions, kind="stable")
    order = order[merged.committed[order] != UNKNOWN]
    return _Positions(merged.partitions[order], merged.committed[order], merged.committed_ms[order])


def _lags(positions: _Positions, ends: _Ends, *, stable: bool) -> Ints:
    """Return the lag per committed partition, -1 where its end is not known."""
    source = ends.stable if stable else ends.end
    inside = positions.partitions < len(source)
    end = np.full(len(positions.partitions), UNKNOWN, dtype=np.int64)
    end[inside] = source[positions.partitions[inside]]
    return np.where(end == UNKNOWN, UNKNOWN, np.maximum(0, end - positions.committed))


def _time_lag(positions: _Positions, ends: _Ends, lags: Ints, now_ms: int) -> tuple[int, int, bool]:
    """Return (upper bound, error, whether it is only a lower bound) of the topic's largest time lag in ms."""
    behind = lags > 0
    if not behind.any() or not ends.samples:
        return 0, 0, False
    partitions, committed = positions.partitions[behind], positions.committed[behind]
    history = np.stack([_grown(sample, len(ends.end))[partitions] for sample in ends.samples])
    # A partition that no sample knows yet had nothing in it then.
    covered = (np.where(history == UNKNOWN, 0, history) <= committed).sum(axis=0)
    times = np.asarray(ends.times, dtype=np.int64)
    oldest = covered == 0
    written_after = np.where(oldest, times[0], times[np.maximum(covered - 1, 0)])
    written_before = np.where(oldest, times[0], times[np.minimum(covered, len(times) - 1)])
    late = np.maximum(0, now_ms - written_after)
    worst = int(late.argmax())
    return int(late[worst]), int(written_before[worst] - written_after[worst]), bool(oldest[worst])


def _sample(ends: _Ends, at_ms: int) -> None:
    """Add the present ends to the history and thin it: neighbours stay an eighth of their age apart."""
    if ends.times and at_ms < ends.times[-1]:
        return
    if ends.times and at_ms - ends.times[-1] < _SAMPLE_MS // 2:
        ends.times[-1], ends.samples[-1] = at_ms, ends.end.copy()
        return
    ends.times.append(at_ms)
    ends.samples.append(ends.end.copy())
    keep: list[int] = []
    for i in range(len(ends.times)):
        last = i == len(ends.times) - 1
        spacing = max(_SAMPLE_MS, (at_ms - ends.times[i]) // _SAMPLE_SHARE)
        gap_if_dropped = ends.times[i + 1] - ends.times[keep[-1]] if keep and not last else None
        if gap_if_dropped is None or gap_if_dropped > spacing:
            keep.append(i)
    keep = [i for i in keep if at_ms - ends.times[i] <= _OLDEST_SAMPLE_MS]
    ends.times, ends.samples = [ends.times[i] for i in keep], [ends.samples[i] for i in keep]


def _window(ring: _Rings, now_ms: int, length_ms: int) -> LagWindow:
    oldest = (now_ms - length_ms) // PANE_MS
    seen = [value for pane, value in ring.lag_seen.items() if pane > oldest]
    return LagWindow(
        commits=sum(count for pane, count in ring.commits.items() if pane > oldest),
        lag_max=max((lag for pane, lag in ring.lag_max.items() if pane > oldest), default=None),
        lag_slope=_slope(seen),
    )


def _slope(seen: list[tuple[int, int]]) -> float | None:
    """Return the least-squares slope of (time in ms, lag) in records per second."""
    if len(seen) < 2:
        return None
    times, lags = (np.array(column, dtype=np.float64) for column in zip(*seen, strict=True))
    times = (times - times.mean()) / 1000
    spread = float((times * times).sum())
    return float((times * (lags - lags.mean())).sum() / spread) if spread > 0 else None


def _forget_old(panes: dict[int, int] | dict[int, tuple[int, int]]) -> None:
    newest = max(panes)
    for pane in [pane for pane in panes if pane <= newest - KEPT_PANES]:
        del panes[pane]


def _filled(size: int) -> Ints:
    return np.full(size, UNKNOWN, dtype=np.int64)


def _grown(array: Ints, size: int) -> Ints:
    return array if len(array) >= size else np.concatenate((array, _filled(size - len(array))))
