"""The fast path for offset commits: columns of bytes in, columns of numbers out, no Python per record.

Each distinct key is parsed once by the generic decoder and cached. Values are read with numpy straight from the
Arrow buffers: every version is a few numbers at known positions around one string. Values without exactly the
expected length and form are passed to the generic decoder, so both paths give the same result for any bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rebalance_streaming.wire.commit_keys import NONE, Ints, KeyCache, KeyTable
from rebalance_streaming.wire.decode import Outcome, decode_record
from rebalance_streaming.wire.records import RECORD_TYPES, OffsetCommitValue

__all__ = ["NONE", "CommitBatch", "KeyCache", "KeyTable", "decode_commits"]

Bools = npt.NDArray[np.bool_]
Octets = npt.NDArray[np.uint8]

OFFSET_COMMIT = 1
_NEWEST = RECORD_TYPES[OFFSET_COMMIT].newest
_FLEXIBLE_FROM = RECORD_TYPES[OFFSET_COMMIT].flexible_from
#: Size in bytes of a tagged section of the usual forms: without tags, or with a topic id only.
_TAGS_ABSENT, _TAGS_TOPIC_ID = 1, 19


@dataclass(frozen=True, slots=True)
class CommitBatch:
    """One row per record.

    `key_code` is a row of `keys`, -1 for keys of other types. `record_type` and `value_version` are -1 where the bytes
    do not contain them. `offset`, `leader_epoch`, `commit_timestamp_ms` and `expire_timestamp_ms` are -1 unless the
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


class _Values:
    """The value column as flat bytes with a start and size per row."""

    def __init__(self, column: pa.Array) -> None:
        _, offsets, data = column.buffers()
        width = np.int64 if pa.types.is_large_binary(column.type) else np.int32
        borders = np.zeros(1, dtype=np.int64)
        if len(column):
            borders = np.frombuffer(offsets, dtype=width, count=column.offset + len(column) + 1)
            borders = borders[column.offset :].astype(np.int64)
        self.present: Bools = column.is_valid().to_numpy(zero_copy_only=False)
        self.start: Ints = borders[:-1] - borders[0]
        self.size: Ints = np.diff(borders)
        # Only the rows' own bytes, so that no error can read bytes of rows outside a slice.
        self.octets: Octets = np.frombuffer(data or b"", dtype=np.uint8)[borders[0] : borders[-1]]

    def integers(self, rows: Ints, at: Ints | int, width: int) -> Ints:
        """Return big-endian signed integers `at` bytes after the rows' starts, which must be in bounds."""
        # A view in which an integer starts at every byte: numpy checks the bounds, and copies each value once.
        places = max(0, len(self.octets) - width + 1)
        everywhere: Ints = np.ndarray(places, dtype=f">i{width}", buffer=self.octets, strides=1)
        found: Ints = everywhere[self.start[rows] + at].astype(np.int64)
        return found

    def byte(self, rows: Ints, at: Ints | int) -> Ints:
        """Return single unsigned bytes."""
        found: Ints = self.octets[self.start[rows] + at].astype(np.int64)
        return found

    def is_ascii(self, rows: Ints, at: Ints, size: Ints) -> Bools:
        """Whether all bytes of each section are below 0x80, so that it is valid UTF-8 without further checks.

        The rows must ascend, and bytes must follow each section: reduceat accepts only positions inside the buffer.
        """
        plain: Bools = size == 0
        filled = np.flatnonzero(~plain)
        if len(filled):
            begin = self.start[rows[filled]] + at[filled]
            borders = np.column_stack([begin, begin + size[filled]]).ravel()
            # Every other result is that of the bytes between two sections.
            plain[filled] = np.bitwise_or.reduceat(self.octets, borders)[::2] < 0x80
        return plain


def decode_commits(keys: pa.Array, values: pa.Array, cache: KeyCache) -> CommitBatch:
    """Decode a batch of records, normally all offset commits. Never raises for any bytes.

    `keys` and `values` are binary or large binary arrays of equal length, nulls and slices included.
    """
    encoded = keys.dictionary_encode()
    facts, table = cache.look_up(encoded.dictionary.to_numpy(zero_copy_only=False).tolist())
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
    done: Bools = np.zeros(len(batch.outcome), dtype=np.bool_)
    long_enough = rows[column.size[rows] >= 2]
    version = column.integers(long_enough, 0, 2)
    batch.value_version[long_enough] = version
    newest = np.where(batch.record_type[long_enough] == OFFSET_COMMIT, _NEWEST, 0)
    known = (batch.key_code[long_enough] >= 0) & (version <= newest)
    for number in range(_NEWEST + 1):
        read = _decode_version(batch, column, long_enough[known & (version == number)], number)
        done[read] = True
    return rows[~done[rows]]


def _decode_version(batch: CommitBatch, column: _Values, rows: Ints, version: int) -> Ints:
    """Read the rows of one value version; return those that had the usual form."""
    metadata_at = 14 if version >= 3 else 10
    # Version, leading numbers, at least one byte of length, timestamp.
    rows = rows[column.size[rows] >= metadata_at + 2 + 8]
    if version >= _FLEXIBLE_FROM:
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
    """Return (size of the length in bytes, length) for lengths of one or two bytes; length -1 marks all others."""
    first, second = column.byte(rows, at), column.byte(rows, at + 1)
    one, two = first < 0x80, (first >= 0x80) & (second < 0x80)
    stored = np.where(one, first, np.where(two, (first & 0x7F) | second << 7, 0))
    return np.where(one, 1, 2), stored - 1


def _ends_as_it_should(column: _Values, rows: Ints, at: Ints, left: Ints, version: int) -> Bools:
    """Whether the timestamp is followed by what the version requires: nothing, an expiry, or a usual tag section."""
    if version < _FLEXIBLE_FROM:
        fixed: Bools = left == (8 if version == 1 else 0)
        return fixed
    no_tags: Bools = left == _TAGS_ABSENT
    no_tags[no_tags] = column.byte(rows[no_tags], at[no_tags]) == 0
    topic_id: Bools = left == _TAGS_TOPIC_ID
    # One tagged field: tag 0 of 16 bytes.
    for place, wanted in enumerate((1, 0, 16)):
        topic_id[topic_id] = column.byte(rows[topic_id], at[topic_id] + place) == wanted
    return no_tags | topic_id


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
