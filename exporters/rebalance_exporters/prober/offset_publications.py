"""Chooses the offsets to publish for each group: those changed since the last publication, or all of them.

Pure. Offsets of a topic are kept once, and its changes are collected once, for all groups that use it.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

#: Topic -> partition number as text -> offset, null when it is unknown.
PartitionOffsets = dict[str, int | None]
Offsets = dict[str, PartitionOffsets]


class ChosenOffsets(NamedTuple):
    """The offsets of a group to publish: end offsets, last stable offsets, and start offsets."""

    end: Offsets
    stable: Offsets
    start: Offsets


@dataclass(slots=True)
class _Positions:
    """One kind of a topic's offsets by partition, and the round in which each last changed.

    `keeps_known`: a null among newer offsets does not replace a known one.
    """

    keeps_known: bool = False
    offsets: list[int | None] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    changed_in: int = 0
    since: dict[int, PartitionOffsets] = field(default_factory=dict)

    def note(self, offsets: Sequence[int | None], this_round: int) -> None:
        """Note the offsets found; partitions beyond their number keep theirs until the topic is cut."""
        known = len(self.offsets)
        if self.keeps_known:
            before = itertools.chain(self.offsets, itertools.repeat(None))
            offsets = [was if new is None else new for new, was in zip(offsets, before, strict=False)]
        if self.offsets[: len(offsets)] == offsets:
            return
        for number, offset in enumerate(offsets):
            if number >= known:
                self.offsets.append(offset)
                self.rounds.append(this_round)
            elif self.offsets[number] != offset:
                self.offsets[number], self.rounds[number] = offset, this_round
        self.changed_in, self.since = this_round, {}

    def cut(self, partitions: int) -> None:
        """Forget the offsets of all partitions but the first `partitions`."""
        if len(self.offsets) > partitions:
            del self.offsets[partitions:], self.rounds[partitions:]
            self.since = {}

    def changed_since(self, published_round: int) -> PartitionOffsets:
        """Return the offsets that changed after a round; all groups published in that round share the answer."""
        if self.changed_in <= published_round:
            return {}
        changed = self.since.get(published_round)
        if changed is None:
            changed = self.since[published_round] = {
                str(number): offset
                for number, (offset, in_round) in enumerate(zip(self.offsets, self.rounds, strict=True))
                if in_round > published_round
            }
        return changed


#: The offsets of a topic by kind, in the order of `ChosenOffsets`.
_Topic = tuple[_Positions, _Positions, _Positions]


def _new_topic() -> _Topic:
    # A start offset that cannot be read now is at least the last known one.
    return _Positions(), _Positions(), _Positions(keeps_known=True)


@dataclass(slots=True)
class _PublishedTopics:
    """What was published of a group: up to which round, and the number of partitions of each topic."""

    round: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)


class OffsetPublications:
    """Keeps the offsets of all partitions, and the round up to which each group's were published."""

    def __init__(self) -> None:
        self._round = 0
        self._topics: dict[str, _Topic] = {}
        self._published: dict[str, _PublishedTopics] = {}

    def note(
        self,
        end: Mapping[str, Sequence[int | None]],
        stable: Mapping[str, Sequence[int | None]],
        start: Mapping[str, Sequence[int | None]],
    ) -> None:
        """Note the offsets found in one round; a topic that was not queried keeps its offsets."""
        self._round += 1
        for kind, found in enumerate((end, stable, start)):
            for name, offsets in found.items():
                topic = self._topics.get(name)
                if topic is None:
                    topic = self._topics[name] = _new_topic()
                topic[kind].note(offsets, self._round)

    def knows(self, topic: str) -> bool:
        """Whether a topic's offsets were requested in any round."""
        return topic in self._topics

    def drop(self, topics: Iterable[str]) -> None:
        """Forget the offsets of topics that were deleted, and perhaps recreated: what is noted next is all news."""
        for name in topics:
            self._topics.pop(name, None)

    def choose(self, group: str, partitions: Mapping[str, int], *, all_again: bool = False) -> ChosenOffsets:
        """Return a group's offsets that changed since its last publication, or all of them.

        `partitions` is the number of partitions of each of its topics, 0 for a topic that does not exist or may not be
        described. Such a topic gets an empty entry among the end offsets, so that a reader does not wait for it. What
        is known of further partitions is forgotten: they no longer exist. The returned offsets count as published. The
        dictionaries are shared and must not be changed.
        """
        last = self._published.get(group)
        if last is None:
            last = self._published[group] = _PublishedTopics()
        chosen = ChosenOffsets({}, {}, {})
        for name, count in partitions.items():
            is_new = all_again or bool(last.partitions.get(name)) != bool(count) or name not in last.partitions
            if count:
                self._choose_topic(name, count, 0 if is_new else last.round, chosen)
            elif is_new:
                chosen.end[name] = {}
        last.round, last.partitions = self._round, partitions
        return chosen

    def _choose_topic(self, name: str, count: int, since: int, chosen: ChosenOffsets) -> None:
        topic = self._topics.get(name)
        if topic is None:
            return
        for positions, kind in zip(topic, chosen, strict=True):
            positions.cut(count)
            if changed := positions.changed_since(since):
                kind[name] = changed

    def forget(self, groups: Collection[str], topics: Collection[str]) -> None:
        """Forget all groups and topics except these."""
        for group in self._published.keys() - set(groups):
            del self._published[group]
        for name in self._topics.keys() - set(topics):
            del self._topics[name]
