"""The keys of offset commits: each is parsed once by the generic decoder, then referred to by a number.

Receives key bytes; returns rows of a table of groups, topics and partitions. Independent of values and of Arrow.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rebalance_streaming.wire.decode import DecodedRecord, Outcome, decode_key
from rebalance_streaming.wire.records import OffsetCommitKey

Ints = npt.NDArray[np.int64]
_Number = TypeVar("_Number", np.int32, np.int64)

#: Means "none" in columns of numbers.
NONE = -1


class KeyTable:
    """Distinct commit keys as columns: row `code` is one (group, topic, partition).

    `group_code` and `topic_code` are indexes into `groups` and `topics`. Types 0 and 1 of a partition share a row.
    """

    def __init__(self) -> None:
        self.groups: list[str] = []
        self.topics: list[str] = []
        self._rows: dict[tuple[str, str, int], int] = {}
        self._group_codes: dict[str, int] = {}
        self._topic_codes: dict[str, int] = {}
        self._columns: Ints = np.empty((3, 1024), dtype=np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, key: OffsetCommitKey) -> int:
        """Return the key's row; it is added at the first occurrence."""
        triple = (key.group, key.topic, key.partition)
        row = self._rows.get(triple)
        if row is None:
            row = self._rows[triple] = len(self._rows)
            self._columns = _with_room_for(row, self._columns)
            group = _code_of(key.group, self._group_codes, self.groups)
            self._columns[:, row] = group, _code_of(key.topic, self._topic_codes, self.topics), key.partition
        return row

    @property
    def group_code(self) -> Ints:
        """Per row, the index of its group."""
        return self._columns[0, : len(self)]

    @property
    def topic_code(self) -> Ints:
        """Per row, the index of its topic."""
        return self._columns[1, : len(self)]

    @property
    def partition(self) -> Ints:
        """Per row, its partition number."""
        return self._columns[2, : len(self)]


def _code_of(name: str, codes: dict[str, int], names: list[str]) -> int:
    code = codes.setdefault(name, len(names))
    if code == len(names):
        names.append(name)
    return code


class KeyCache:
    """Caches parsed keys between batches. Cleared when full: the keys of a stream repeat, those of an attack do not."""

    def __init__(self, max_keys: int = 1_000_000) -> None:
        self._max_keys = max_keys
        self._known = _KnownKeys()

    @property
    def table(self) -> KeyTable:
        """The table that new batches refer to."""
        return self._known.table

    def look_up(self, raw_keys: list[bytes]) -> tuple[npt.NDArray[np.int32], KeyTable]:
        """Return (row, record type, outcome) per key as columns, with those of a null key last, and the table."""
        if len(self._known) > self._max_keys:
            # Earlier batches keep the table they refer to.
            self._known = _KnownKeys()
        found = np.fromiter(map(self._known.__getitem__, raw_keys), dtype=np.int64, count=len(raw_keys))
        return self._known.facts[:, np.append(found, _NULL_KEY)], self._known.table


_NULL_KEY = 0


class _KnownKeys(dict[bytes, int]):
    """A key's bytes to its column in `facts`: row of the table, record type, outcome. Parses unknown keys."""

    def __init__(self) -> None:
        self.table = KeyTable()
        self.facts: npt.NDArray[np.int32] = np.empty((3, 1024), dtype=np.int32)
        self.facts[:, _NULL_KEY] = NONE, NONE, Outcome.CORRUPT

    def __missing__(self, raw: bytes) -> int:
        entry = len(self) + 1
        self.facts = _with_room_for(entry, self.facts)
        self.facts[:, entry] = self._parse(raw)
        self[raw] = entry
        return entry

    def _parse(self, raw: bytes) -> tuple[int, int, int]:
        read = decode_key(raw)
        if isinstance(read, DecodedRecord):
            return NONE, NONE if read.record_type is None else read.record_type, read.outcome
        row = self.table.add(read.key) if isinstance(read.key, OffsetCommitKey) else NONE
        return row, read.record_type.number, Outcome.DECODED


def _with_room_for(index: int, columns: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Return columns of twice the length with the same content first, if the index is beyond their end."""
    if index < columns.shape[1]:
        return columns
    return np.concatenate([columns, np.empty_like(columns)], axis=1)
