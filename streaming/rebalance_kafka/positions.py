"""Start, position and end of each partition that a follower reads; pure bookkeeping, without a client."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

#: A partition: (topic, number).
Place = tuple[str, int]


class Bounds(NamedTuple):
    """Where a partition begins and ends: the offset of its first record, and the offset after its last one."""

    beginning: int
    end: int


#: Maps the bounds of the partitions that exist at the first look to the offsets at which to start reading.
#: Partitions missing from the result are read from their beginning.
Start = Callable[[Mapping[Place, Bounds]], Mapping[Place, int]]


def start_at_beginning(_bounds: Mapping[Place, Bounds]) -> Mapping[Place, int]:
    """Return no offsets: every partition is read from its beginning."""
    return {}


def start_at_end(bounds: Mapping[Place, Bounds]) -> Mapping[Place, int]:
    """Return the ends: only records written after the first look are read."""
    return {place: each.end for place, each in bounds.items()}


@dataclass(slots=True)
class _Reading:
    """One partition: the start offset, the end found at the start, the next offset, whether an end was reached."""

    start: int
    end: int
    position: int
    at_end: bool


class Positions:
    """Positions by partition.

    `start` applies only to partitions that exist at the first look. Partitions created later contain only new records
    and are read from their beginning.
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
        """Number of offsets passed so far, up to the ends found at the start."""
        return sum(min(each.position, each.end) - each.start for each in self._readings.values())

    @property
    def wanted(self) -> int:
        """Number of offsets between the starts and the ends found at the start."""
        return sum(each.end - each.start for each in self._readings.values())

    @property
    def at_end(self) -> bool:
        """Whether each partition has been read to its end at the start, or to a later end; never reset."""
        return all(each.at_end for each in self._readings.values())

    @property
    def unread(self) -> list[Place]:
        """The partitions that have not been read to their end yet, sorted."""
        return sorted(place for place, each in self._readings.items() if not each.at_end)

    def update(self, found: Collection[Place], new: Mapping[Place, Bounds]) -> dict[Place, int]:
        """Add `new` partitions, drop those not in `found`, and return the next offset of each partition."""
        if self._at_first is None:
            self._at_first = frozenset(found)
        starts = self._start({place: bounds for place, bounds in new.items() if place in self._at_first})
        kept = {place: each for place, each in self._readings.items() if place in found}
        begun = {place: _begin(starts.get(place, bounds.beginning), bounds) for place, bounds in new.items()}
        self._readings = kept | begun
        return {place: each.position for place, each in self._readings.items()}

    def was_there(self, place: Place, offset: int) -> bool:
        """Whether a record already existed when reading of its partition began; false for a dropped partition."""
        reading = self._readings.get(place)
        return reading is not None and offset < reading.end

    def pass_record(self, place: Place, offset: int) -> bool:
        """Advance past a record that was read; return false for a dropped partition."""
        return self._move(place, offset, offset + 1, at_end=False)

    def reach_end(self, place: Place, offset: int) -> None:
        """Note that a partition now ends at an offset, which may lie beyond the last record (transaction markers)."""
        self._move(place, offset, offset, at_end=True)

    def _move(self, place: Place, offset: int, position: int, *, at_end: bool) -> bool:
        reading = self._readings.get(place)
        if reading is None:
            return False
        if offset < reading.position:
            # The topic was recreated or truncated: what stands here now was not there when reading began.
            reading.start = reading.end = offset
        reading.position = position
        reading.at_end = reading.at_end or at_end or position >= reading.end
        return True


def _begin(start: int, bounds: Bounds) -> _Reading:
    return _Reading(start=start, end=bounds.end, position=start, at_end=start >= bounds.end)
