"""Where topics end, now and at earlier times, and what that says of a group's position: records behind, and since when.

Receives probed end offsets; keeps an array per topic, and samples of it that thin out with age.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rebalance_streaming.activity.offsets import UNKNOWN, Ints, filled
from rebalance_streaming.engine.positions import TopicPositions

#: Samples of end offsets are kept this far apart at least, and an eighth of their age.
_SAMPLE_MS, _SAMPLE_SHARE = 5_000, 8
_OLDEST_SAMPLE_MS = 24 * 3_600_000
_NO_TIMES, _NO_SAMPLES = np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=np.int64)


@dataclass(slots=True)
class TopicEnds:
    """End offsets of one topic by partition, and what they were at earlier times (rows of `samples`, oldest first).

    `version` grows whenever one of them changes.
    """

    end: Ints
    stable: Ints
    probed_ms: int
    version: int = 1
    times: Ints = field(default_factory=lambda: _NO_TIMES)
    samples: Ints = field(default_factory=lambda: _NO_SAMPLES)


def lags_of(positions: TopicPositions, ends: TopicEnds | None, *, stable: bool) -> Ints:
    """Return the lag per committed partition, -1 where its end is not known."""
    if ends is None:
        return filled(len(positions.partitions))
    source = ends.stable if stable else ends.end
    # A commit may name a partition up to 2^31 - 1 that does not exist. Partitions are sorted: the first ones do.
    known = int(positions.partitions.searchsorted(len(source)))
    end = filled(len(positions.partitions))
    end[:known] = source[positions.partitions[:known]]
    return np.where(end == UNKNOWN, UNKNOWN, np.maximum(0, end - positions.committed))


@dataclass(frozen=True, slots=True)
class Oldest:
    """When the oldest unread record was written at the earliest, null without any; `is_bound`: or any earlier."""

    at_ms: int | None
    error_ms: int
    is_bound: bool


def older(one: Oldest, other: Oldest) -> Oldest:
    """Return the older of two; one without a time is younger than all."""
    if one.at_ms is None or other.at_ms is None:
        return other if one.at_ms is None else one
    return one if one.at_ms <= other.at_ms else other


def oldest_unread(positions: TopicPositions, ends: TopicEnds, lags: Ints) -> Oldest:
    """Return when the topic's oldest unread record was written."""
    times = ends.times
    behind = np.flatnonzero(lags > 0)
    if not len(behind) or not len(times):
        return Oldest(None, 0, False)
    # A partition that no sample knows yet had nothing in it then: -1 is at or below every offset, as 0 is.
    covered = (ends.samples[:, positions.partitions[behind]] <= positions.committed[behind]).sum(axis=0)
    written_after = times[np.maximum(covered - 1, 0)]
    worst = int(written_after.argmin())
    after_ms, place = int(written_after[worst]), int(covered[worst])
    if place == 0:
        return Oldest(after_ms, 0, True)
    return Oldest(after_ms, int(times[min(place, len(times) - 1)]) - after_ms, False)


def sample(ends: TopicEnds, at_ms: int) -> None:
    """Add the present ends to the history and thin it: neighbours stay an eighth of their age apart."""
    times: list[int] = ends.times.tolist()
    if not times:
        ends.times, ends.samples = np.array([at_ms], dtype=np.int64), ends.end[np.newaxis].copy()
        return
    if at_ms < times[-1]:
        return
    if at_ms - times[-1] < _SAMPLE_MS // 2:
        ends.times[-1], ends.samples[-1] = at_ms, ends.end
        return
    times.append(at_ms)
    keep: list[int] = []
    for i in range(len(times)):
        last = i == len(times) - 1
        spacing = max(_SAMPLE_MS, (at_ms - times[i]) // _SAMPLE_SHARE)
        gap_if_dropped = times[i + 1] - times[keep[-1]] if keep and not last else None
        if gap_if_dropped is None or gap_if_dropped > spacing:
            keep.append(i)
    keep = [i for i in keep if at_ms - times[i] <= _OLDEST_SAMPLE_MS]
    ends.times = np.array([times[i] for i in keep], dtype=np.int64)
    ends.samples = np.concatenate((ends.samples, ends.end[np.newaxis]))[keep]
