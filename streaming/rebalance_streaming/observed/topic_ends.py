"""First and end offsets of a cluster's topics, with a history of the ends, stored once for all groups.

Receives probed offsets; used by lag and by the rules of every group that reads the topic.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from rebalance_contract import OffsetActivity, TopicOffsets
from rebalance_streaming.activity.offsets import UNKNOWN, Ints, filled, grown, put
from rebalance_streaming.observed.offset_series import OffsetSeries
from rebalance_streaming.observed.plausible import LARGEST_OFFSET, may_grow

#: Recent ends kept per topic, and their minimum distance.
_KEPT_RECENT, END_SPACING_MS = 90, 10_000
#: Ends that are held for new groups are kept in addition, for the time that the others span, and up to a number.
_RECENT_MS, _MOST_RECENT = (_KEPT_RECENT - 2) * END_SPACING_MS, 2 * _KEPT_RECENT
#: Samples of the last day are at least this far apart, and at least an eighth of their age.
_SAMPLE_MS, _SAMPLE_SHARE = 5_000, 8
_OLDEST_SAMPLE_MS = 24 * 3_600_000
#: Maximum number of topics whose ends are kept although no group is known to use them.
_MOST_UNUSED_TOPICS = 20_000
_NOTHING = TopicOffsets([], [])
#: Ends, stable ends and first offsets of one topic.
_Probed = tuple[TopicOffsets, TopicOffsets, TopicOffsets]


@dataclass(slots=True)
class TopicEnds:
    """End offsets of one topic by partition, -1 where unknown, and what they were at earlier times.

    `start` is the offset of the oldest record of a partition, as last probed; it may have moved on since. `recent` has
    the last 15 minutes or more at short intervals; `day` has samples that thin out with age, of this topic only: when a
    topic is deleted and recreated, they start again. `end` is replaced, never changed in place. `partitions` is the
    number of partitions with probed ends. `version` changes with every change, and is unique among all topics.
    `held_ms` is when the topic was last probed for a group for the first time: the ends of that time are kept as they
    were.
    """

    end: Ints
    stable: Ints
    start: Ints
    probed_ms: int
    recent: OffsetSeries
    day: OffsetSeries
    version: int
    partitions: int = 0
    held_ms: int = UNKNOWN

    @classmethod
    def of(cls, size: int, version: int) -> TopicEnds:
        """Return the ends of a topic with this number of partitions, of which nothing is known."""
        offsets = filled(size), filled(size), filled(size)
        return cls(*offsets, UNKNOWN, OffsetSeries(size), OffsetSeries(size), version)

    def hold_newest(self) -> None:
        """Hold the newest of the recent ends, because a new group knows the ends from this time on."""
        if self.recent.times:
            self.held_ms = self.recent.times[-1]

    def _grow(self, size: int) -> None:
        self.end, self.stable, self.start = (grown(each, size) for each in (self.end, self.stable, self.start))
        self.recent.grow(size)
        self.day.grow(size)

    def take(self, probed: _Probed, size: int, at_ms: int) -> bool:
        """Process what a probe reported of the topic's first `size` partitions; return whether any end is new."""
        ends, stable, start = probed
        is_grown = size > len(self.end)
        if is_grown:
            self._grow(size)
        self.probed_ms = at_ms
        has_new_stable, _ = put(self.stable, stable)
        put(self.start, start)
        if not ends.partitions:
            return is_grown or has_new_stable
        self.partitions = max(self.partitions, 1 + max(ends.partitions))
        end = self.end.copy()
        has_new_end, is_lower = put(end, ends)
        if has_new_end:
            self.end = end
        if is_lower:
            # Ends only grow: the topic was deleted and recreated, and its history is another topic's.
            self.day = OffsetSeries(len(end))
            self.start.fill(UNKNOWN)
        self._note_recent(at_ms, is_new=has_new_end or is_grown)
        _note_sample(self.day, self.end, at_ms, is_new=has_new_end or is_grown)
        return is_grown or has_new_stable or has_new_end

    def _note_recent(self, at_ms: int, *, is_new: bool) -> None:
        """Add the present ends; replace the newest until they are far enough from the previous ones."""
        times = self.recent.times
        # Sums over partitions must fit 64 bits.
        end = np.minimum(self.end, LARGEST_OFFSET) if is_new else self.end
        is_close = len(times) > 1 and times[-1] - times[-2] < END_SPACING_MS and times[-1] != self.held_ms
        # A round of probes reports the same moment for each group that reads the topic.
        if is_close or (times and times[-1] == at_ms):
            self.recent.replace_newest(at_ms, end, is_new=is_new)
            return
        self.recent.append(at_ms, end, is_new=is_new)
        while len(times) > _KEPT_RECENT and (len(times) > _MOST_RECENT or times[-1] - times[1] >= _RECENT_MS):
            self.recent.drop(0)


@dataclass(slots=True)
class ClusterEnds:
    """The ends of all topics by name. `used` returns the topics that are in use; others are kept up to a number."""

    used: Callable[[], Collection[str]] = tuple
    _topics: dict[str, TopicEnds] = field(default_factory=dict)
    _most: int = _MOST_UNUSED_TOPICS
    _versions: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __len__(self) -> int:
        """Return how many topics are known."""
        return len(self._topics)

    def __contains__(self, topic: str) -> bool:
        """Whether anything is known of a topic."""
        return topic in self._topics

    def get(self, topic: str) -> TopicEnds | None:
        """Return the ends of a topic; null where no probe has reported any."""
        return self._topics.get(topic)

    def take(self, row: OffsetActivity) -> None:
        """Process probed offsets; ignore those of topics for which newer ones are known."""
        for topic in {*row.ends, *row.stable_ends, *row.starts}:
            ends, stable, start = (each.get(topic, _NOTHING) for each in (row.ends, row.stable_ends, row.starts))
            self._take_topic(topic, (ends, stable, start), row.probed_at_ms)

    def _take_topic(self, topic: str, probed: _Probed, at_ms: int) -> None:
        partitions = [number for each in probed for number in each.partitions]
        if not partitions:
            return
        known = self._topics.get(topic)
        if known is not None and at_ms < known.probed_ms:
            # From another prober, or from a backlog: older ends would look like a topic that was recreated.
            return
        if not may_grow(0 if known is None else len(known.end), partitions):
            return
        size = 1 + max(partitions)
        if known is None:
            self._make_room()
            known = self._topics[topic] = TopicEnds.of(size, next(self._versions))
        if known.take(probed, size, at_ms):
            known.version = next(self._versions)

    def _make_room(self) -> None:
        """Forget unused topics when there are too many, because probes may name any number of topics.

        A topic that is used later is probed again within minutes.
        """
        if len(self._topics) < self._most:
            return
        self.keep(self.used())
        self._most = len(self._topics) + _MOST_UNUSED_TOPICS

    def keep(self, topics: Collection[str]) -> None:
        """Forget all other topics."""
        self._topics = {name: ends for name, ends in self._topics.items() if name in topics}

    def forget(self, topic: str) -> None:
        """Forget a topic."""
        self._topics.pop(topic, None)

    def forget_unprobed(self) -> None:
        """Forget topics that were not probed for a day while others were: they were deleted.

        A group that lives on may have read thousands of deleted topics.
        """
        newest_ms = max((each.probed_ms for each in self._topics.values()), default=0)
        for name in [name for name, each in self._topics.items() if newest_ms - each.probed_ms > _OLDEST_SAMPLE_MS]:
            del self._topics[name]


class SeenEnds:
    """The ends of a topic as probed for one group: from the row `first` on."""

    __slots__ = ("first", "series")

    def __init__(self, series: OffsetSeries, since_ms: int) -> None:
        self.series, self.first = series, bisect_left(series.times, since_ms)

    def since(self, at_ms: int) -> int:
        """Return the index of the first row at or after a moment."""
        return max(self.first, bisect_left(self.series.times, at_ms))

    def place_of(self, at_ms: int) -> int:
        """Return the index of the first row after a moment."""
        return max(self.first, bisect_right(self.series.times, at_ms))

    def time_of(self, place: int) -> int | None:
        """Return the time of a row; null if there is no such row."""
        return self.series.times[place] if place < len(self.series.times) else None

    def at(self, place: int, partition: int) -> int | None:
        """Return a partition's end offset in a row; null where it is not known."""
        if not self.first <= place < len(self.series.times) or partition >= self.series.partitions:
            return None
        end = self.series.at(place, partition)
        return None if end == UNKNOWN else end

    def of_partition(self, partition: int, first: int) -> list[int]:
        """Return a partition's known end offsets from a row on."""
        if partition >= self.series.partitions:
            return []
        return [end for end in self.series.of_partition(partition, first) if end != UNKNOWN]

    def at_times(self, partitions: Ints, at_ms: Ints) -> Ints:
        """Return the end offset of each partition as last probed before its moment; -1 where it is not known."""
        places = np.searchsorted(np.array(self.series.times), at_ms, side="right") - 1
        found = filled(len(partitions))
        # Partitions are committed together, so there are few different rows.
        for place in {*places.tolist()}:
            if place >= self.first:
                here = (places == place) & (partitions < self.series.partitions)
                found[here] = self.series.row(place)[partitions[here]]
        return found


def _note_sample(series: OffsetSeries, end: Ints, at_ms: int, *, is_new: bool) -> None:
    """Add the present ends and thin the samples out: neighbours stay an eighth of their age apart."""
    if len(series.times) and at_ms - series.times[-1] < _SAMPLE_MS // 2:
        series.replace_newest(at_ms, end, is_new=is_new)
        return
    series.append(at_ms, end, is_new=is_new)
    if len(series.times) == 1:
        return
    for number in reversed(_superfluous(series.times.tolist(), at_ms)):
        series.drop(number)


def _superfluous(times: list[int], now_ms: int) -> list[int]:
    """Return the indexes of samples, oldest first, that are too old or too close to their neighbours."""
    found: list[int] = []
    # The first and the last one are always far enough apart.
    before_ms, last = times[0], len(times) - 1
    for i in range(1, last):
        at_ms = times[i]
        if times[i + 1] - before_ms <= max(_SAMPLE_MS, (now_ms - at_ms) // _SAMPLE_SHARE):
            found.append(i)
        else:
            before_ms = at_ms
    thin = {*found}
    return [i for i, at_ms in enumerate(times) if i in thin or now_ms - at_ms > _OLDEST_SAMPLE_MS]
