"""When partitions were not committed: gaps between commits, found where commits pass by, told only when they end.

Feeding every commit into a group's state costs too much (design §3); a gap is rare, and its two ends are all that a
rebalance needs to know what it cost and how long a member had been silent before. The first commit after a gap tells
of it, so a partition that nobody reads again has none yet. A commit that was due and is missing and one that was not
due look alike: clients that commit changes only are silent on an idle topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rebalance_streaming.groups.commits import LogColumns
from rebalance_streaming.groups.events import Rebalance, Silence
from rebalance_streaming.groups.model import GroupState
from rebalance_streaming.wire.commits import CommitBatch, KeyTable
from rebalance_streaming.wire.decode import Outcome

Ints = npt.NDArray[np.int64]

#: Half as long again as the usual commit interval of 5 s.
SHORTEST_MS = 7_500
#: How much longer than usual; of commits that come at random one in ten gaps is.
_UNUSUAL = 2.5
_NEVER = -1


@dataclass(frozen=True, slots=True)
class GroupSilences:
    """Gaps of one group that ended."""

    group: str
    silences: tuple[Silence, ...]


class CommitRhythm:
    """Remembers when each partition of each group was last committed, and the two gaps before; lives with its process.

    A partition's first two commits tell no gap: its rhythm is not known yet.
    """

    def __init__(self) -> None:
        self._table: KeyTable | None = None
        # Rows: time of the last commit, the gap before it, and the one before that, in ms.
        self._known: Ints = np.empty((3, 0), dtype=np.int64)

    def take(self, batch: CommitBatch, log: LogColumns) -> list[GroupSilences]:
        """Take up decoded commits in log order; returns the unusual gaps that ended with them."""
        self._make_room(batch.keys)
        rows = np.flatnonzero((batch.key_code >= 0) & (batch.outcome == Outcome.DECODED))
        key = batch.key_code[rows].astype(np.int64)
        order = np.argsort(key, kind="stable")
        key, time = key[order], log.timestamp_ms[rows][order]
        last_ms, last_gap, gap_before = self._known[:, key]
        before = _shifted(key, time, last_ms)
        gap = np.where(before == _NEVER, _NEVER, np.maximum(0, time - before))
        gap_1 = _shifted(key, gap, last_gap)
        gap_2 = _shifted(key, gap_1, gap_before)
        usual = np.where(gap_2 == _NEVER, gap_1, np.minimum(gap_1, gap_2))
        # Assigning to a repeated index keeps the last value.
        self._known[:, key] = time, gap, gap_1
        found = np.flatnonzero((gap >= SHORTEST_MS) & (gap_1 != _NEVER) & (gap >= _UNUSUAL * usual))
        return _by_group(batch.keys, key[found], before[found], time[found])

    def _make_room(self, table: KeyTable) -> None:
        if table is not self._table:
            self._table, self._known = table, np.empty((3, 0), dtype=np.int64)
        missing, size = len(table) - self._known.shape[1], self._known.shape[1]
        if missing > 0:
            # Twice the size, so that a stream of new keys does not copy the whole each time.
            grown = np.full((3, max(missing, size)), _NEVER, dtype=np.int64)
            self._known = np.concatenate((self._known, grown), axis=1)


def _shifted(key: Ints, values: Ints, first: Ints) -> Ints:
    """Return for each row the value of the row before it of the same key; for a key's first row that of `first`."""
    shifted = first.copy()
    same = np.flatnonzero(key[1:] == key[:-1]) + 1
    shifted[same] = values[same - 1]
    return shifted


def _by_group(table: KeyTable, key: Ints, before: Ints, after: Ints) -> list[GroupSilences]:
    groups: dict[str, list[Silence]] = {}
    for code, last_ms, next_ms in zip(key.tolist(), before.tolist(), after.tolist(), strict=True):
        place = table.key(code)
        groups.setdefault(place.group, []).append(Silence(place.topic, place.partition, last_ms, next_ms))
    return [GroupSilences(group, tuple(silences)) for group, silences in groups.items()]


def note_silences(state: GroupState, silences: Iterable[Silence]) -> tuple[GroupState, tuple[Rebalance, ...]]:
    """Add gaps to the latest rebalance where they overlap it, each partition once; returns it if it changed."""
    if state.episode is None:
        return state, ()
    rebalance = state.episode.rebalance
    known = {(each.topic, each.partition) for each in rebalance.silences}
    new = [
        each
        for each in silences
        if (each.topic, each.partition) not in known
        and each.resumed_at_ms > rebalance.started_before_ms
        and (rebalance.completed_at_ms is None or each.last_commit_ms <= rebalance.completed_at_ms)
    ]
    if not new:
        return state, ()
    lost_ms = sum(each.resumed_at_ms - max(each.last_commit_ms, rebalance.started_before_ms) for each in new)
    rebalance = replace(
        rebalance,
        silences=tuple(sorted((*rebalance.silences, *new), key=lambda each: (each.topic, each.partition))),
        lost_partition_ms=rebalance.lost_partition_ms + lost_ms,
    )
    counters = state.picture.counters
    after = copy(state)
    after.episode = replace(state.episode, rebalance=rebalance)
    after.picture = replace(
        state.picture, counters=replace(counters, lost_partition_ms=counters.lost_partition_ms + lost_ms)
    )
    return after, (rebalance,)
