"""Gaps between the commits of a partition: for how long nobody made progress on it.

Most clients commit every few seconds while they own a partition, whether there are records or not. A gap is unusual
when it is much longer than the two before it, so that a client that commits once a minute has none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from rebalance_contract import CommitActivity, CommitGap, TopicCommits
from rebalance_streaming.activity.offsets import FEW, Ints, places, union, widened

#: One and a half times the usual commit interval of 5 s.
SHORTEST_MS = 7_500
#: Gaps kept per group.
KEPT_GAPS = 5_000
#: How much longer than usual a gap must be. With commits at random times, one gap in ten is.
_UNUSUAL = 2.5
_NEVER = -1


@dataclass(slots=True)
class _Rhythm:
    """Commit times of one topic: sorted partitions, time of the last commit, the gap before it and the previous gap.

    Times and gaps are in ms; -1 where not known.
    """

    partitions: Ints
    last_ms: Ints
    gap_ms: Ints
    gap_before_ms: Ints


class CommitRhythm:
    """Remembers when each partition of one group was last committed, and the last two gaps.

    The first two commits of a partition end no unusual gap, because its rhythm is not known yet.
    """

    def __init__(self) -> None:
        self._topics: dict[str, _Rhythm] = {}

    def take(self, row: CommitActivity) -> list[CommitGap]:
        """Process packed commits in log order; return the unusual gaps that ended with them."""
        found: list[CommitGap] = []
        for name, commits in row.topics.items():
            ended = self._take_topic(name, commits)
            if not row.is_history:
                found += [CommitGap(name, *each) for each in ended]
        return found

    def forget_others(self, topics: Collection[str], until_ms: int) -> None:
        """Forget topics that are not in `topics` and whose last commit is not after `until_ms`."""
        self._topics = {
            name: known
            for name, known in self._topics.items()
            if name in topics or int(known.last_ms.max(initial=_NEVER)) > until_ms
        }

    def _take_topic(self, name: str, commits: TopicCommits) -> list[tuple[int, int, int]]:
        """Return (partition, last commit, resumed at) of unusual gaps."""
        partitions = np.asarray(commits.partitions, dtype=np.int64)
        known = self._topics.get(name) or _Rhythm(*np.empty((4, 0), dtype=np.int64))
        at = places(known.partitions, partitions)
        if at is None:
            known = self._topics[name] = _with_room(known, partitions)
            at = known.partitions.searchsorted(partitions)
        return _take_few(known, at, commits) if len(partitions) <= FEW else _take_many(known, at, commits)


class EndedGaps:
    """Gaps that wait for the rows of the rebalances they overlap, which another query writes.

    A gap belongs to the latest of these. Totals of lost time never decrease: a gap that was counted for an earlier
    rebalance first would be counted twice.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, list[CommitGap]] = {}

    def add(self, group: str, gaps: list[CommitGap]) -> None:
        """Keep gaps of a group until they are taken; of very many, the oldest are dropped."""
        if gaps:
            waiting = self._waiting.setdefault(group, [])
            waiting += gaps
            del waiting[:-KEPT_GAPS]

    def take(self, until_ms: int | None) -> Iterator[tuple[str, list[CommitGap]]]:
        """Remove and yield, by group, the gaps that ended by a time; null: all."""
        for group, gaps in list(self._waiting.items()):
            ended = [each for each in gaps if until_ms is None or each.resumed_at_ms <= until_ms]
            if len(ended) == len(gaps):
                del self._waiting[group]
            elif ended:
                self._waiting[group] = [each for each in gaps if until_ms is not None and each.resumed_at_ms > until_ms]
            if ended:
                yield group, ended

    def forget_group(self, group: str) -> None:
        """Drop a group that is gone."""
        self._waiting.pop(group, None)


def _take_few(known: _Rhythm, at: Ints, commits: TopicCommits) -> list[tuple[int, int, int]]:
    ended: list[tuple[int, int, int]] = []
    rows = zip(
        at.tolist(),
        commits.partitions,
        commits.offsets,
        commits.first_at_ms,
        commits.committed_at_ms,
        commits.commits,
        strict=True,
    )
    for place, partition, offset, first, last, records in rows:
        if offset is None:
            continue
        before, gap_1, gap_2 = int(known.last_ms[place]), int(known.gap_ms[place]), int(known.gap_before_ms[place])
        gap = _NEVER if before == _NEVER else max(0, first - before)
        usual = gap_1 if gap_2 == _NEVER else min(gap_1, gap_2)
        if gap >= SHORTEST_MS and gap_1 != _NEVER and gap >= _UNUSUAL * usual:
            ended.append((partition, before, first))
        # Average distance between the commits of one row; not known if the coordinator's clock went back between them.
        inside = (last - first) // (records - 1) if records > 1 and last >= first else gap
        known.last_ms[place] = max(last, before)
        known.gap_before_ms[place] = inside if records > 2 else gap if records > 1 else gap_1
        known.gap_ms[place] = inside
    return ended


def _take_many(known: _Rhythm, at: Ints, commits: TopicCommits) -> list[tuple[int, int, int]]:
    columns = (commits.first_at_ms, commits.committed_at_ms, commits.commits)
    first, last, records = (np.asarray(each, dtype=np.int64) for each in columns)
    if None in commits.offsets:
        kept = np.array([offset is not None for offset in commits.offsets], dtype=np.bool_)
        at, first, last, records = at[kept], first[kept], last[kept], records[kept]
    before, gap_1, gap_2 = known.last_ms[at], known.gap_ms[at], known.gap_before_ms[at]
    gap = np.where(before == _NEVER, _NEVER, np.maximum(0, first - before))
    usual = np.where(gap_2 == _NEVER, gap_1, np.minimum(gap_1, gap_2))
    unusual = np.flatnonzero((gap >= SHORTEST_MS) & (gap_1 != _NEVER) & (gap >= _UNUSUAL * usual))
    # Average distance between the commits of one row; not known if the coordinator's clock went back between them.
    inside = np.where((records > 1) & (last >= first), (last - first) // np.maximum(1, records - 1), gap)
    known.last_ms[at] = np.maximum(last, before)
    known.gap_before_ms[at] = np.where(records > 2, inside, np.where(records > 1, gap, gap_1))
    known.gap_ms[at] = inside
    ended = known.partitions[at[unusual]]
    rows = zip(ended.tolist(), before[unusual].tolist(), first[unusual].tolist(), strict=True)
    return list(rows)


def _with_room(known: _Rhythm, partitions: Ints) -> _Rhythm:
    wider = union(known.partitions, partitions)
    columns = (known.last_ms, known.gap_ms, known.gap_before_ms)
    return _Rhythm(wider, *(widened(each, known.partitions, wider) for each in columns))
