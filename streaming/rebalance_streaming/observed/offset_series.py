"""Offsets of one topic by partition at several times, stored compactly: a cluster has a million partitions.

Independent of probes and of retention.
"""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from rebalance_streaming.activity.offsets import Ints, filled, grown

#: Types for differences, each with its largest number; the smallest that fits is used. The last one is signed, because
#: numpy converts the sum of unsigned and signed 64-bit numbers to floats.
_WIDTHS = tuple((np.dtype(each), int(np.iinfo(each).max)) for each in (np.uint8, np.uint16, np.uint32, np.int64))
#: Room to spare when a width is chosen: one part in this many of the largest difference.
_SPARE_SHARE = 8
#: The width is chosen again after this many rows, as the row that needed a large one may be gone.
_ROWS_OF_A_WIDTH = 128


class OffsetSeries:
    """Rows of offsets, oldest first; -1 is stored like any offset.

    A row is stored as its differences from `_base`, which is at or below all of them. A row that equals the previous
    one shares its storage.
    """

    __slots__ = ("_base", "_free", "_largest", "_places", "_rows", "_written", "times")

    def __init__(self, partitions: int) -> None:
        """Create a series without rows for this number of partitions."""
        #: Time of each row, in epoch milliseconds. Read-only.
        self.times = array("q")
        self._places = array("H")
        dtype, self._largest = _WIDTHS[0]
        self._rows: npt.NDArray[np.integer] = np.zeros((1, partitions), dtype)
        self._free = [0]
        self._base: Ints = filled(partitions)
        self._written = 0

    def append(self, at_ms: int, offsets: Ints, *, is_new: bool) -> None:
        """Add a row; `is_new`: whether it differs from the newest."""
        if is_new or not self._places:
            place = self._take_place()
            self._write(place, offsets)
        else:
            place = self._places[-1]
        self.times.append(at_ms)
        self._places.append(place)

    def replace_newest(self, at_ms: int, offsets: Ints, *, is_new: bool) -> None:
        """Replace the newest row; `is_new`: whether the new one differs."""
        self.times[-1] = at_ms
        if not is_new:
            return
        if len(self._places) > 1 and self._places[-2] == self._places[-1]:
            self._places[-1] = self._take_place()
        self._write(self._places[-1], offsets)

    def drop(self, number: int) -> None:
        """Drop a row."""
        del self.times[number]
        place = self._places.pop(number)
        if place not in self._places:
            self._free.append(place)

    def grow(self, partitions: int) -> None:
        """Extend the series to `partitions`; the new ones have -1 in all rows."""
        missing = partitions - len(self._base)
        # Differences of 0 from -1.
        self._rows = np.concatenate((self._rows, np.zeros((len(self._rows), missing), self._rows.dtype)), axis=1)
        self._base = grown(self._base, partitions)

    # --- Questions ---

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return len(self._base)

    def row(self, number: int) -> Ints:
        """Return the offsets of a row."""
        row: Ints = self._rows[self._places[number]] + self._base
        return row

    def at(self, number: int, partition: int) -> int:
        """Return the offset of one partition in a row."""
        return int(self._rows[self._places[number], partition]) + int(self._base[partition])

    def of_partition(self, partition: int, first: int = 0) -> list[int]:
        """Return the offsets of one partition from row `first` on."""
        offsets: list[int] = (self._rows[self._places[first:], partition] + self._base[partition]).tolist()
        return offsets

    def of_partitions(self, partitions: Ints) -> Ints:
        """Return the offsets of some partitions as an array of rows."""
        columns: Ints = self._rows[:, partitions][self._places] + self._base[partitions]
        return columns

    # --- Places ---

    def _take_place(self) -> int:
        if not self._free:
            count = len(self._rows)
            added = 1 + count // 8
            self._rows = np.concatenate((self._rows, np.zeros((added, len(self._base)), self._rows.dtype)))
            self._free.extend(range(count + added - 1, count - 1, -1))
        return self._free.pop()

    def _write(self, place: int, offsets: Ints) -> None:
        if not self._places:
            self._base = offsets.copy()
            self._rows[place] = 0
            return
        difference = offsets - self._base
        self._written += 1
        # Interpreted as unsigned, a negative difference is larger than any limit.
        if int(difference.view(np.uint64).max()) > self._largest or self._written > _ROWS_OF_A_WIDTH:
            self._choose_width(offsets)
            difference = offsets - self._base
        self._rows[place] = difference

    def _choose_width(self, offsets: Ints) -> None:
        """Choose base and width for the present rows and a new one."""
        used = sorted(set(self._places))
        rows = self._rows[used] + self._base
        self._base = np.minimum(rows.min(axis=0), offsets) if used else offsets.copy()
        differences = rows - self._base
        largest = max(int(differences.max(initial=0)), int((offsets - self._base).max()))
        wanted = largest + largest // _SPARE_SHARE
        dtype, self._largest = next((each for each in _WIDTHS if each[1] >= wanted), _WIDTHS[-1])
        self._rows = np.zeros(self._rows.shape, dtype)
        self._rows[used] = differences
        self._written = 0
