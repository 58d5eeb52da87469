"""The last commits of each partition of a topic, as arrays: a large group has hundreds of partitions.

Rings are filled by `progress.py`; results computed from them are cached until the next commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rebalance_streaming.activity.offsets import UNKNOWN, Ints, filled, union, widened
from rebalance_streaming.observed.plausible import LARGEST_OFFSET
from rebalance_streaming.observed.topic_ends import TopicEnds

#: Commits kept per partition, one per pane: at least a minute with the default pane.
KEPT = 12


@dataclass(frozen=True, slots=True)
class _Advances:
    """Commits that advanced partitions of a topic: the longest time between two of one partition (ms).

    `earliest_ms` is the first of all, `latest_first_ms` the latest among the partitions' first ones; null: none.
    """

    longest_ms: int
    earliest_ms: int | None
    latest_first_ms: int | None


@dataclass(slots=True)
class CommitRings:
    """Rings of one topic: rows are commits, newest last; columns are `partitions`, sorted. -1: none yet."""

    partitions: Ints = field(default_factory=lambda: filled(0))
    times: Ints = field(default_factory=lambda: filled(KEPT, 0))
    #: Time of the first commit of the same pane, maybe by an earlier owner. Its offset is not known.
    earlier: Ints = field(default_factory=lambda: filled(KEPT, 0))
    offsets: Ints = field(default_factory=lambda: filled(KEPT, 0))
    #: When the committed offset last changed, and when it was first seen.
    advanced_ms: Ints = field(default_factory=lambda: filled(0))
    first_ms: Ints = field(default_factory=lambda: filled(0))
    #: When it was deleted by a tombstone; -1: not deleted.
    deleted_ms: Ints = field(default_factory=lambda: filled(0))
    #: Computed on demand, dropped at the next commit. Lags belong to a version of the ends.
    _advances: _Advances | None = None
    _lags: tuple[int, Ints] | None = None

    def advances(self) -> _Advances:
        """Return how far apart the remembered commits are that advanced a partition."""
        if self._advances is None:
            self._advances = _look_at_advances(self.times, self.offsets)
        return self._advances

    def lags(self, ends: TopicEnds) -> Ints:
        """Return the lag of each of `partitions`; -1 where its end is not known or nothing is committed."""
        if self._lags is None or self._lags[0] != ends.version:
            # Partitions are sorted: those that were probed come first.
            size = int(self.partitions.searchsorted(len(ends.end)))
            end = filled(len(self.partitions))
            end[:size] = np.minimum(ends.end[self.partitions[:size]], LARGEST_OFFSET)
            known = (end != UNKNOWN) & self.is_committed()
            self._lags = ends.version, np.where(known, np.maximum(0, end - self.offsets[-1]), UNKNOWN)
        return self._lags[1]

    def is_committed(self) -> npt.NDArray[np.bool_]:
        """Return, per partition, whether its offset was committed and not deleted."""
        committed: npt.NDArray[np.bool_] = (self.times[-1] != UNKNOWN) & (self.deleted_ms == UNKNOWN)
        return committed

    def is_gone(self, until_ms: int) -> bool:
        """Whether all offsets are deleted, the last one not after `until_ms`."""
        return not self.is_committed().any() and int(self.deleted_ms.max(initial=UNKNOWN)) <= until_ms

    def columns(self, numbers: Iterable[int]) -> Ints:
        """Return the column indexes of the given partitions that were ever committed, in their order."""
        wanted = np.fromiter(numbers, dtype=np.int64)
        at: Ints = np.minimum(self.partitions.searchsorted(wanted), len(self.partitions) - 1)
        return at[self.partitions[at] == wanted] if len(self.partitions) else at[:0]

    def with_partitions(self, partitions: Ints) -> CommitRings:
        """Return rings with columns for more partitions."""
        known, wider = self.partitions, union(self.partitions, partitions)
        return CommitRings(
            wider,
            widened(self.times, known, wider),
            widened(self.earlier, known, wider),
            widened(self.offsets, known, wider),
            widened(self.advanced_ms, known, wider),
            widened(self.first_ms, known, wider),
            widened(self.deleted_ms, known, wider),
        )

    def forget_answers(self) -> None:
        """Drop cached results, because the columns change."""
        self._advances = self._lags = None


def _look_at_advances(times: Ints, offsets: Ints) -> _Advances:
    """Compute how far apart the advances in a topic's rings are; a clock that goes back makes none longer."""
    moved = (times[:-1] != UNKNOWN) & (offsets[1:] > offsets[:-1])
    if not moved.any():
        return _Advances(0, None, None)
    at_ms = np.where(moved, times[1:], UNKNOWN)
    reached = np.maximum.accumulate(at_ms, axis=0)
    again = reached[:-1] != UNKNOWN
    longest = int(np.where(again, reached[1:] - reached[:-1], 0).max()) if len(reached) > 1 else 0
    columns = moved.any(axis=0)
    first = at_ms[moved.argmax(axis=0)[columns], columns]
    return _Advances(longest, int(at_ms[moved].min()), int(first.max()))
