"""Lag of a group and age of its oldest unread record, from the present and earlier end offsets of a topic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rebalance_streaming.activity.offsets import UNKNOWN, Ints, filled
from rebalance_streaming.engine.positions import TopicPositions
from rebalance_streaming.observed.topic_ends import TopicEnds


def lags_of(positions: TopicPositions, ends: TopicEnds | None, *, stable: bool) -> Ints:
    """Return the lag per committed partition, -1 where its end offset is not known."""
    if ends is None:
        return filled(len(positions.partitions))
    source = ends.stable if stable else ends.end
    # A commit may name a partition up to 2^31 - 1 that does not exist. Partitions are sorted: existing ones come
    # first.
    known = int(positions.partitions.searchsorted(len(source)))
    end = filled(len(positions.partitions))
    end[:known] = source[positions.partitions[:known]]
    return np.where(end == UNKNOWN, UNKNOWN, np.maximum(0, end - positions.committed))


@dataclass(frozen=True, slots=True)
class OldestUnread:
    """Earliest time at which the oldest unread record was written, null without one; `is_bound`: it may be older."""

    at_ms: int | None
    error_ms: int
    is_bound: bool


def older(one: OldestUnread, other: OldestUnread) -> OldestUnread:
    """Return the older of two; one without a time counts as younger."""
    if one.at_ms is None or other.at_ms is None:
        return other if one.at_ms is None else one
    return one if one.at_ms <= other.at_ms else other


def oldest_unread(positions: TopicPositions, ends: TopicEnds, lags: Ints) -> OldestUnread:
    """Return when the topic's oldest unread record was written."""
    times = np.array(ends.day.times)
    behind = np.flatnonzero(lags > 0)
    if not len(behind) or not len(times):
        return OldestUnread(None, 0, False)
    # A partition that a sample does not contain yet was empty then: -1 is at or below every offset, as 0 is.
    covered = (ends.day.of_partitions(positions.partitions[behind]) <= positions.committed[behind]).sum(axis=0)
    written_after = times[np.maximum(covered - 1, 0)]
    worst = int(written_after.argmin())
    after_ms, place = int(written_after[worst]), int(covered[worst])
    if place == 0:
        return OldestUnread(after_ms, 0, True)
    return OldestUnread(after_ms, int(times[min(place, len(times) - 1)]) - after_ms, False)
