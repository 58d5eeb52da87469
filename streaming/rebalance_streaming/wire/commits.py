"""The fast path for offset commits: columns of bytes in, columns of numbers out, no Python per record.

Each distinct key is parsed once, by the generic decoder, and remembered. Values are read with numpy straight from the
Arrow buffers: every version is a few numbers at known places around one string. Whatever does not have exactly the
expected length and form is handed to the generic decoder, so both paths give the same answer for any bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rebalance_streaming.wire.decode import DecodedRecord, Outcome, decode_key, decode_record
from rebalance_streaming.wire.records import RECORD_TYPES, OffsetCommitKey, OffsetCommitValue

CommitKey = OffsetCommitKey

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Octets = npt.NDArray[np.uint8]

LEGACY_OFFSET_COMMIT, OFFSET_COMMIT = 0, 1
#: Stands for "none" in columns of numbers.
NONE = -1

_TAGS_ABSENT, _TAGS_TOPIC_ID = 1, 19


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

    def add(self, key: CommitKey) -> int:
        """Return the key's row, made at its first appearance."""
        triple = (key.group, key.topic, key.partition)
        row = self._rows.setdefault(triple, len(self._rows))
        if row == len(self._rows) - 1:
            if row == self._columns.shape[1]:
                self._columns = np.concatenate([self._columns, np.empty_like(self._columns)], axis=1)
            group = _code_of(key.group, self._group_codes, self.groups)
            self._columns[:, row] = (group, _code_of(key.topic, self._topic_codes, self.topics), key.partition)
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

    def key(self, row: int) -> CommitKey:
        """Return a row as the generic decoder's key."""
        group, topic, partition = self._columns[:, row].tolist()
        return CommitKey(self.groups[group], self.topics[topic], partition)


def _code_of(name: str, codes: dict[str, int], names: list[str]) -> int:
    code = codes.setdefault(name, len(names))
    if code == len(names):
        names.append(name)
    return code


@dataclass(frozen=True, slots=True)
class CommitBatch:
    """One row per record.

    `key_code` is a row of `keys`, -1 where the key cannot be read. `record_type` and `value_version` are -1 where the
    bytes do not tell. `offset`, `leader_epoch`, `commit_timestamp_ms` and `expire_timestamp_ms` are -1 unless the
    outcome is decoded, and where the record's version lacks the field.
    """

    keys: KeyTable
    key_code: npt.NDArray[np.int32]
    outcome: Octets
    record_type: npt.NDArray[np.int16]
    value_version: npt.NDArray[np.int16]
    offset: Ints
    leader_epoch: npt.NDArray[np.int32]
    commit_timestamp_ms: Ints
    expire_timestamp_ms: Ints


class KeyCache:
    """Remembers parsed keys between batches. Starts anew when full: a stream's keys repeat, an attack's do not."""

    def __init__(self, max_keys: int = 1_000_000) -> None:
        self._max_keys = max_keys
        self._start()

    def _start(self) -> None:
        # Batches made before keep the table they refer to.
        self.table = KeyTable()
        self._entries: dict[bytes, int] = {}
        # Row of the table, record type, outcome of what cannot be read; the first entry stands for a null key.
        self._facts: list[tuple[int, int, int]] = [(NONE, NONE, Outcome.CORRUPT)]

    def look_up(self, raw_keys: list[bytes]) -> tuple[npt.NDArray[np.int32], KeyTable]:
        """Return (row, record type, outcome) per key as columns, with a null key's behind the last; and the table."""
        if len(self._entries) + len(raw_keys) > self._max_keys:
            self._start()
        entries = self._entries
        found = [entries.get(raw) or self._parse(raw) for raw in raw_keys]
        return np.array([self._facts[entry] for entry in (*found, 0)], dtype=np.int32).T, self.table

    def _parse(self, raw: bytes) -> int:
        read = decode_key(raw)
        if isinstance(read, DecodedRecord):
            facts = (NONE, NONE if read.record_type is None else read.record_type, int(read.outcome))
        else:
            row = self.table.add(read.key) if isinstance(read.key, OffsetCommitKey) else NONE
            facts = (row, read.record_type.number, int(Outcome.DECODED))
        self._facts.append(facts)
        self._entries[raw] = len(self._facts) - 1
        return len(self._facts) - 1


class _Values:
    """The value column as flat bytes with a start and size per row."""

    def __init__(self, column: pa.Array) -> None:
        _, offsets, data = column.buffers()
        wide = pa.types.is_large_binary(column.type)
        ends = np.frombuffer(offsets or b"\0" * 8, dtype=np.int64 if wide else np.int32)
        ends = ends[column.offset : column.offset + len(column) + 1].astype(np.int64)
        self.present: Bools = column.is_valid().to_numpy(zero_copy_only=False)
        self.start: Ints = ends[:-1]
        self.size: Ints = np.diff(ends)
        self.octets: Octets = np.frombuffer(data or b"", dtype=np.uint8)

    def integers(self, rows: Ints, at: Ints | int, width: int) -> Ints:
        """Return big-endian signed integers found `at` bytes behind the rows' starts, which must be in bounds."""
        where = (self.start[rows] + at)[:, None] + np.arange(width)
        return self.octets[where].view(f">i{width}").ravel().astype(np.int64)

    def byte(self, rows: Ints, at: Ints | int) -> Ints:
        """Return single unsigned bytes."""
        return self.octets[self.start[rows] + at].astype(np.int64)

    def is_ascii(self, rows: Ints, at: Ints | int, size: Ints) -> Bools:
        """Whether stretches of bytes are all below 0x80, which makes them valid UTF-8 without a closer look."""
        total = int(size.sum())
        if total == 0:
            return np.ones(len(rows), dtype=np.bool_)
        owner = np.repeat(np.arange(len(rows)), size)
        within = np.arange(total) - np.repeat(np.cumsum(size) - size, size)
        high = self.octets[(self.start[rows] + at)[owner] + within] >= 0x80
        return np.bincount(owner[high], minlength=len(rows)) == 0


def decode_commits(keys: pa.Array, values: pa.Array, cache: KeyCache) -> CommitBatch:
    """Decode a batch of records, of which normally all are offset commits. Never raises for any bytes.

    `keys` and `values` are binary or large binary arrays of equal length, nulls and slices included.
    """
    encoded = keys.dictionary_encode()
    facts, table = cache.look_up(encoded.dictionary.to_pylist())
    index = encoded.indices.fill_null(facts.shape[1] - 1).to_numpy(zero_copy_only=False)
    row, record_type, outcome = facts[:, index]
    batch = _blank(table, row, record_type.astype(np.int16), outcome.astype(np.uint8))
    readable = batch.outcome == Outcome.DECODED
    column = _Values(values)
    batch.outcome[readable & ~column.present] = Outcome.TOMBSTONE
    rest = _decode_values(batch, column, np.flatnonzero(readable & column.present))
    _decode_generically(batch, keys, values, rest)
    return batch


def _blank(
    keys: KeyTable, key_code: npt.NDArray[np.int32], record_type: npt.NDArray[np.int16], outcome: Octets
) -> CommitBatch:
    rows = len(key_code)
    return CommitBatch(
        keys=keys,
        key_code=key_code,
        outcome=outcome,
        record_type=record_type,
        value_version=np.full(rows, NONE, dtype=np.int16),
        offset=np.full(rows, NONE, dtype=np.int64),
        leader_epoch=np.full(rows, NONE, dtype=np.int32),
        commit_timestamp_ms=np.full(rows, NONE, dtype=np.int64),
        expire_timestamp_ms=np.full(rows, NONE, dtype=np.int64),
    )


def _decode_values(batch: CommitBatch, column: _Values, rows: Ints) -> Ints:
    """Read the rows whose values have the usual form; return the others."""
    done = np.zeros(len(batch.outcome), dtype=np.bool_)
    long_enough = rows[column.size[rows] >= 2]
    version = column.integers(long_enough, 0, 2)
    batch.value_version[long_enough] = version
    newest = np.where(batch.record_type[long_enough] == OFFSET_COMMIT, RECORD_TYPES[OFFSET_COMMIT].newest, 0)
    usual = batch.key_code[long_enough] >= 0
    for number in range(RECORD_TYPES[OFFSET_COMMIT].newest + 1):
        done[_decode_version(batch, column, long_enough[usual & (version == number) & (number <= newest)], number)] = (
            True
        )
    return rows[~done[rows]]


def _decode_version(batch: CommitBatch, column: _Values, rows: Ints, version: int) -> Ints:
    """Read the rows of one value version; return those that had the usual form."""
    metadata_at = 14 if version >= 3 else 10
    # Version, numbers in front, at least one byte of length, timestamp.
    rows = rows[column.size[rows] >= metadata_at + 2 + 8]
    if version >= RECORD_TYPES[OFFSET_COMMIT].flexible_from:
        length_bytes, metadata_size = _compact_lengths(column, rows, metadata_at)
    else:
        length_bytes = np.full(len(rows), 2, dtype=np.int64)
        metadata_size = column.integers(rows, metadata_at, 2)
    text_at = metadata_at + length_bytes
    left = column.size[rows] - text_at - metadata_size - 8
    usual = (metadata_size >= 0) & (left >= 0)
    rows, text_at, metadata_size, left = rows[usual], text_at[usual], metadata_size[usual], left[usual]
    behind = text_at + metadata_size
    usual = _ends_as_it_should(column, rows, behind + 8, left, version)
    usual &= column.is_ascii(rows, text_at, metadata_size)
    rows, behind = rows[usual], behind[usual]
    batch.offset[rows] = column.integers(rows, 2, 8)
    batch.commit_timestamp_ms[rows] = column.integers(rows, behind, 8)
    if version >= 3:
        batch.leader_epoch[rows] = column.integers(rows, 10, 4)
    if version == 1:
        batch.expire_timestamp_ms[rows] = column.integers(rows, behind + 8, 8)
    return rows


def _compact_lengths(column: _Values, rows: Ints, at: int) -> tuple[Ints, Ints]:
    """Return (bytes the length takes, length) for lengths of one or two bytes; length -1 marks all others."""
    first, second = column.byte(rows, at), column.byte(rows, at + 1)
    one, two = first < 0x80, (first >= 0x80) & (second < 0x80)
    stored = np.where(one, first, np.where(two, (first & 0x7F) | second << 7, 0))
    return np.where(one, 1, 2), stored - 1


def _ends_as_it_should(column: _Values, rows: Ints, at: Ints, left: Ints, version: int) -> Bools:
    """Whether what follows the timestamp is what the version has there: nothing, an expiry, or a plain tag section."""
    if version == 1:
        return left == 8
    if version < RECORD_TYPES[OFFSET_COMMIT].flexible_from:
        return left == 0
    usual = left == _TAGS_ABSENT
    usual[usual] = column.byte(rows[usual], at[usual]) == 0
    with_id = left == _TAGS_TOPIC_ID
    # One tagged field: tag 0 of 16 bytes.
    for place, wanted in enumerate((1, 0, 16)):
        with_id[with_id] = column.byte(rows[with_id], at[with_id] + place) == wanted
    return usual | with_id


def _decode_generically(batch: CommitBatch, keys: pa.Array, values: pa.Array, rows: Ints) -> None:
    for row in rows.tolist():
        record = decode_record(keys[row].as_py(), values[row].as_py())
        batch.outcome[row] = record.outcome
        batch.value_version[row] = NONE if record.value_version is None else record.value_version
        if isinstance(record.value, OffsetCommitValue):
            batch.offset[row] = record.value.offset
            batch.leader_epoch[row] = record.value.leader_epoch
            batch.commit_timestamp_ms[row] = record.value.commit_timestamp
            batch.expire_timestamp_ms[row] = record.value.expire_timestamp
