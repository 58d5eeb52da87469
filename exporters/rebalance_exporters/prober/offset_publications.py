"""Which offsets to publish for each group: those that changed since the last publication, or all of them.

Pure. Offsets of a topic are kept once, and what changed in it is put together once, however many groups use it.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

#: Topic -> partition number as text -> offset, null when it is unknown.
PartitionOffsets = dict[str, int | None]
Offsets = dict[str, PartitionOffsets]


class ChosenOffsets(NamedTuple):
    """What a group is told now: end offsets, last stable offsets, and where partitions begin."""

    end: Offsets
    stable: Offsets
    start: Offsets


@dataclass(slots=True)
class _Positions:
    """One kind of a topic's offsets by partition, and the round in which each became what it is."""

    offsets: list[int | None] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    changed_in: int = 0
    since: dict[int, PartitionOffsets] = field(default_factory=dict)

    def note(self, offsets: Sequence[int | None], this_round: int) -> None:
        """Note what was found; partitions beyond its end keep what they had."""
        known = len(self.offsets)
        if self.offsets[: len(offsets)] == offsets:
            return
        for number, offset in enumerate(offsets):
            if number >= known:
                self.offsets.append(offset)
                self.rounds.append(this_round)
            elif self.offsets[number] != offset:
                self.offsets[number], self.rounds[number] = offset, this_round
        self.changed_in, self.since = this_round, {}

    def changed_since(self, told_round: int) -> PartitionOffsets:
        """Return what became what it is after a round; all groups told in that round share the answer."""
        if self.changed_in <= told_round:
            return {}
        changed = self.since.get(told_round)
        if changed is None:
            changed = self.since[told_round] = {
                str(number): offset
                for number, (offset, in_round) in enumerate(zip(self.offsets, self.rounds, strict=True))
                if in_round > told_round
            }
        return changed


@dataclass(slots=True)
class _Topic:
    end: _Positions = field(default_factory=_Positions)
    stable: _Positions = field(default_factory=_Positions)
    start: _Positions = field(default_factory=_Positions)


@dataclass(slots=True)
class _PublishedTopics:
    """What a group was told: up to which round, and how many partitions each topic had."""

    round: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)


class OffsetPublications:
    """Remembers the offsets of all partitions, and how far each group was told."""

    def __init__(self) -> None:
        self._round = 0
        self._topics: dict[str, _Topic] = {}
        self._told: dict[str, _PublishedTopics] = {}

    def note(
        self,
        end: Mapping[str, Sequence[int | None]],
        stable: Mapping[str, Sequence[int | None]],
        start: Mapping[str, Sequence[int | None]],
    ) -> None:
        """Note what one round of asking found; a topic that was not asked keeps what it had.

        So does a partition of which it is not known where it begins: it begins there or later.
        """
        self._round += 1
        for name, offsets in end.items():
            self._topics.setdefault(name, _Topic()).end.note(offsets, self._round)
        for name, offsets in stable.items():
            self._topics.setdefault(name, _Topic()).stable.note(offsets, self._round)
        for name, offsets in start.items():
            positions = self._topics.setdefault(name, _Topic()).start
            known = itertools.chain(positions.offsets, itertools.repeat(None))
            positions.note([k if s is None else s for s, k in zip(offsets, known, strict=False)], self._round)

    def knows(self, topic: str) -> bool:
        """Whether a topic's offsets were asked in any round."""
        return topic in self._topics

    def choose(self, group: str, partitions: Mapping[str, int], *, all_again: bool = False) -> ChosenOffsets:
        """Return a group's offsets that changed since it was last told, or all of them.

        `partitions` is how many each of its topics has; 0 is a topic that does not exist or may not be described. Of
        such a one the group is told that there is nothing to tell, an empty entry among the end offsets, so that a
        reader need not wait for it. The group counts as told. The dictionaries are shared: change none of them.
        """
        told = self._told.get(group)
        if told is None:
            told = self._told[group] = _PublishedTopics()
        chosen = ChosenOffsets({}, {}, {})
        for name, count in partitions.items():
            is_new = all_again or bool(told.partitions.get(name)) != bool(count) or name not in told.partitions
            if count:
                self._choose_topic(name, 0 if is_new else told.round, chosen)
            elif is_new:
                chosen.end[name] = {}
        told.round, told.partitions = self._round, partitions
        return chosen

    def _choose_topic(self, name: str, since: int, chosen: ChosenOffsets) -> None:
        topic = self._topics.get(name)
        if topic is None:
            return
        for positions, kind in zip((topic.end, topic.stable, topic.start), chosen, strict=True):
            if changed := positions.changed_since(since):
                kind[name] = changed

    def forget(self, groups: Collection[str], topics: Collection[str]) -> None:
        """Drop the memory of all groups and topics but these."""
        for group in self._told.keys() - set(groups):
            del self._told[group]
        for name in self._topics.keys() - set(topics):
            del self._topics[name]
