"""Which partitions a follower reads, from where, and how far it is: bookkeeping without a client."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

#: A partition: (topic, number).
Place = tuple[str, int]


class Bounds(NamedTuple):
    """Where a partition begins and where it ends: the offset of its first record and the one after its last."""

    beginning: int
    end: int


#: From the bounds of the partitions that were there at the first look to the offsets at which reading them begins.
#: Those that it leaves out are read from their beginning.
Start = Callable[[Mapping[Place, Bounds]], Mapping[Place, int]]


def start_at_beginning(_bounds: Mapping[Place, Bounds]) -> Mapping[Place, int]:
    """Read everything."""
    return {}


def start_at_end(bounds: Mapping[Place, Bounds]) -> Mapping[Place, int]:
    """Read what is written after the first look."""
    return {place: each.end for place, each in bounds.items()}


@dataclass(slots=True)
class _Reading:
    """One partition: where reading began, the end that was found then, the next offset, whether an end was reached."""

    start: int
    end: int
    position: int
    at_end: bool


class Positions:
    """Positions by partition.

    `start` decides only about partitions of the first look: whatever was made since holds nothing that is old, and is
    read from its beginning.
    """

    def __init__(self, start: Start = start_at_beginning) -> None:
        self._start = start
        self._at_first: frozenset[Place] | None = None
        self._readings: dict[Place, _Reading] = {}

    @property
    def places(self) -> frozenset[Place]:
        """The partitions that are read."""
        return frozenset(self._readings)

    @property
    def read(self) -> int:
        """How many offsets were passed, up to the ends that were found at the start."""
        return sum(min(each.position, each.end) - each.start for each in self._readings.values())

    @property
    def wanted(self) -> int:
        """How many offsets there were to pass, from the starts to the ends that were found then."""
        return sum(each.end - each.start for each in self._readings.values())

    @property
    def at_end(self) -> bool:
        """Whether each partition was read up once to where it ended, then or at the start; it stays so."""
        return all(each.at_end for each in self._readings.values())

    @property
    def unread(self) -> list[Place]:
        """The partitions that were not read up to where they ended, in order."""
        return sorted(place for place, each in self._readings.items() if not each.at_end)

    def update(self, found: Collection[Place], new: Mapping[Place, Bounds]) -> dict[Place, int]:
        """Take up `new` partitions, let go of those that are not `found`; return the next offset of each."""
        if self._at_first is None:
            self._at_first = frozenset(found)
        starts = self._start({place: bounds for place, bounds in new.items() if place in self._at_first})
        kept = {place: each for place, each in self._readings.items() if place in found}
        begun = {place: _begin(starts.get(place, bounds.beginning), bounds) for place, bounds in new.items()}
        self._readings = kept | begun
        return {place: each.position for place, each in self._readings.items()}

    def was_there(self, place: Place, offset: int) -> bool:
        """Whether a record was in its partition already when reading that began; false of one that was let go."""
        reading = self._readings.get(place)
        return reading is not None and offset < reading.end

    def pass_record(self, place: Place, offset: int) -> bool:
        """Note that a record was read; false of a partition that was let go."""
        return self._move(place, offset + 1, at_end=False)

    def reach_end(self, place: Place, offset: int) -> None:
        """Note that a partition ends at an offset now; behind the last record, where transactions left markers."""
        self._move(place, offset, at_end=True)

    def _move(self, place: Place, position: int, *, at_end: bool) -> bool:
        reading = self._readings.get(place)
        if reading is None:
            return False
        reading.position = position
        reading.at_end = reading.at_end or at_end or position >= reading.end
        return True


def _begin(start: int, bounds: Bounds) -> _Reading:
    return _Reading(start=start, end=bounds.end, position=start, at_end=start >= bounds.end)
