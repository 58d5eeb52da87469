"""The vectorised path compared with the generic one: for any bytes, in any Arrow layout, both give the same result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from goldens import all_data_records, key_of, value_of
from rebalance_streaming.wire import commit_keys, commits
from rebalance_streaming.wire.commits import CommitBatch, KeyCache, KeyTable, decode_commits
from rebalance_streaming.wire.decode import DecodedRecord, decode_record
from rebalance_streaming.wire.records import RECORD_TYPES, OffsetCommitKey, OffsetCommitValue
from wire.encoding import encode_key, encode_value
from wire.generated import hostile_records, mutated

Record = tuple[bytes | None, bytes | None]
T0 = 1_767_225_600_000
KEY = OffsetCommitKey("g1", "orders", 3)
VALUE = OffsetCommitValue(100, 7, "", T0)


def key_bytes(number: int = 1, group: str = "g1", topic: str = "orders", partition: int = 3) -> bytes:
    """Encode a commit's key."""
    return encode_key(RECORD_TYPES[number], OffsetCommitKey(group, topic, partition))


def value_bytes(version: int = 4, number: int = 1, **fields: Any) -> bytes:
    """Encode a commit's value."""
    unknown = fields.pop("unknown_tags", None)
    value = OffsetCommitValue(**({"offset": 100, "leader_epoch": 7, "commit_timestamp": T0} | fields))
    return encode_value(RECORD_TYPES[number], value, version, unknown_tags=unknown)


def decode(records: Sequence[Record], cache: KeyCache | None = None) -> CommitBatch:
    """Decode records in the layout that Spark passes."""
    keys, values = (pa.array([record[i] for record in records], pa.binary()) for i in (0, 1))
    return decode_commits(keys, values, cache or KeyCache())


def key_at(table: KeyTable, row: int) -> OffsetCommitKey:
    """Return a row of a table as the key that the generic decoder returns."""
    group, topic = table.groups[table.group_code[row]], table.topics[table.topic_code[row]]
    return OffsetCommitKey(group, topic, int(table.partition[row]))


def rows(batch: CommitBatch) -> list[tuple[Any, ...]]:
    """Return a batch's rows as plain values, with their keys."""
    return [
        (
            None if code < 0 else key_at(batch.keys, code),
            *(
                int(column[row])
                for column in (
                    batch.outcome,
                    batch.record_type,
                    batch.value_version,
                    batch.offset,
                    batch.leader_epoch,
                    batch.commit_timestamp_ms,
                    batch.expire_timestamp_ms,
                )
            ),
        )
        for row, code in enumerate(batch.key_code)
    ]


def expected(key: bytes | None, value: bytes | None) -> tuple[Any, ...]:
    """Return the expected row for the generic decoder's result."""
    read = decode_record(key, value)
    commit = read.value if isinstance(read.value, OffsetCommitValue) else OffsetCommitValue(-1)
    return (
        read.key if isinstance(read.key, OffsetCommitKey) else None,
        int(read.outcome),
        -1 if read.record_type is None else read.record_type,
        -1 if read.value_version is None else read.value_version,
        commit.offset,
        commit.leader_epoch,
        commit.commit_timestamp,
        commit.expire_timestamp,
    )


@st.composite
def commit_records(draw: st.DrawFn) -> Record:
    """Return a commit, valid or damaged somewhere, or any other record."""
    number = draw(st.sampled_from([0, 1, 1, 1]))
    text = st.text(max_size=300) | st.text("abc", min_size=100, max_size=200)
    key = key_bytes(number, draw(text), draw(text), draw(st.integers(-(2**31), 2**31 - 1)))
    value = value_bytes(
        draw(st.integers(0, 4)),
        offset=draw(st.integers(-(2**63), 2**63 - 1)),
        leader_epoch=draw(st.integers(-(2**31), 2**31 - 1)),
        metadata=draw(st.just("") | text),
        commit_timestamp=draw(st.integers(-(2**63), 2**63 - 1)),
        topic_id=draw(st.just(UUID(int=0)) | st.uuids()),
        unknown_tags=draw(st.just({}) | st.dictionaries(st.integers(1, 300), st.binary(max_size=20), max_size=2)),
    )
    return draw(
        st.just((key, value))
        | st.tuples(st.just(key), mutated(value) | st.binary(max_size=60) | st.none())
        | st.tuples(mutated(key) | st.none(), st.just(value))
        | hostile_records()
    )


def test_golden_records_read_the_same_on_both_paths() -> None:
    """All records of all scenarios in one batch, metadata records among the commits."""
    records = [(key_of(record), value_of(record)) for record in all_data_records()]
    assert rows(decode(records)) == [expected(*record) for record in records]


def test_golden_commits_do_not_need_the_generic_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits written by real brokers are read by column, except for metadata that is not ASCII."""
    slow: list[bytes] = []

    def counting(key: bytes, value: bytes) -> DecodedRecord:
        slow.append(value)
        return decode_record(key, value)

    monkeypatch.setattr(commits, "decode_record", counting)
    golden = [record for record in all_data_records() if record["decoded"]["type"] == 1]
    decode([(key_of(record), value_of(record)) for record in golden])
    not_ascii = [each for each in golden if each["value_hex"] and not each["decoded"]["value"]["metadata"].isascii()]
    assert len(slow) == len(not_ascii)


@pytest.mark.generated
@settings(max_examples=400)
@given(st.lists(commit_records(), max_size=8))
@example([])
@example([(key_bytes(), value_bytes(metadata="m" * 127))])
@example([(key_bytes(), value_bytes(metadata="m" * 126)), (key_bytes(), value_bytes(metadata="m" * 16_383))])
@example([(key_bytes(), value_bytes(metadata="ü" * 100)), (key_bytes(), value_bytes()[:14] + b"\2\xff" + bytes(9))])
@example([(key_bytes(), value_bytes(1, expire_timestamp=T0 + 1)), (key_bytes(0), value_bytes(0))])
@example([(key_bytes(0), value_bytes(version)) for version in range(5)])
@example([(key_bytes(), value_bytes(topic_id=UUID(int=1))), (key_bytes(), value_bytes(unknown_tags={9: b"?" * 15}))])
def test_both_paths_give_the_same_answer(records: list[Record]) -> None:
    """Whole batches of good, damaged, hostile and null keys and values."""
    assert rows(decode(records)) == [expected(*record) for record in records]


@pytest.mark.generated
@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("metadata", ["", "m", "m" * 127, "m" * 200, "ü"])
def test_every_truncation_at_the_end_of_the_buffer_is_safe(version: int, metadata: str) -> None:
    """A short value in the last row must not be read past the buffer's end, nor into its neighbour."""
    whole = value_bytes(version, metadata=metadata, topic_id=UUID(int=5))
    for key in (key_bytes(0), key_bytes(1)):
        beside = expected(key, whole)
        for size in range(len(whole) + 1):
            short = expected(key, whole[:size])
            assert rows(decode([(key, whole[:size])])) == [short]
            assert rows(decode([(key, whole[:size]), (key, whole)])) == [short, beside]


@pytest.mark.generated
@settings(max_examples=100)
@given(st.lists(commit_records(), max_size=6), st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans())
def test_arrow_layouts_make_no_difference(
    records: list[Record], skipped: int, dropped: int, large_keys: bool, large_values: bool
) -> None:
    """Slices, large binaries, and bytes behind nulls give the visible rows."""
    keys = pa.array([record[0] for record in records], pa.large_binary() if large_keys else pa.binary())
    values = pa.array([record[1] for record in records], pa.large_binary() if large_values else pa.binary())
    length = max(0, len(records) - skipped - dropped)
    batch = decode_commits(keys.slice(skipped, length), values.slice(skipped, length), KeyCache())
    assert rows(batch) == [expected(*record) for record in records[skipped : skipped + length]]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
@pytest.mark.parametrize("values", [[], [None], [None, None], [b""], [b"", None]])
def test_columns_without_bytes(kind: pa.DataType, values: list[bytes | None]) -> None:
    """Arrow omits buffers that would be empty."""
    records: list[Record] = [(key_bytes(), value) for value in values]
    batch = decode_commits(pa.array([key for key, _ in records], kind), pa.array(values, kind), KeyCache())
    assert rows(batch) == [expected(*record) for record in records]


def test_an_empty_column_may_lack_its_buffers() -> None:
    """Arrow allows it for no rows."""
    nothing = pa.Array.from_buffers(pa.binary(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")])
    assert rows(decode_commits(nothing, nothing, KeyCache())) == []


def test_bytes_behind_a_null_are_not_read() -> None:
    """A null slot may span bytes, of a commit for instance: it is still a tombstone."""
    whole = value_bytes()
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, len(whole), 2 * len(whole))))
    values = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\2"), offsets, pa.py_buffer(whole * 2)])
    keys = pa.array([key_bytes()] * 2, pa.binary())
    assert rows(decode_commits(keys, values, KeyCache())) == [
        expected(key_bytes(), None),
        expected(key_bytes(), whole),
    ]


def test_types_0_and_1_of_a_partition_share_a_row() -> None:
    """They are different keys to the log cleaner, but one partition of one group otherwise."""
    batch = decode([(key_bytes(0), value_bytes(0)), (key_bytes(1), value_bytes(4))])
    assert batch.key_code.tolist() == [0, 0]
    assert batch.record_type.tolist() == [0, 1]
    assert (batch.keys.groups, batch.keys.topics, batch.keys.partition.tolist()) == (["g1"], ["orders"], [3])


def test_a_key_table_keeps_its_rows_while_it_grows() -> None:
    """Row numbers and names are stable, far beyond the first allocation."""
    table = KeyTable()
    keys = [OffsetCommitKey(f"g{n % 7}", f"t{n % 11}", n) for n in range(5_000)]
    codes = [table.add(key) for key in keys]
    assert codes == list(range(5_000))
    assert [table.add(key) for key in keys] == codes
    assert [key_at(table, code) for code in codes] == keys
    assert (len(table), len(table.groups), len(table.topics)) == (5_000, 7, 11)
    assert table.group_code[7:9].tolist() == [0, 1]
    assert table.topic_code[11:13].tolist() == [0, 1]


def test_keys_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key seen in an earlier batch is not parsed again, and keeps its row."""
    cache = KeyCache()
    first = decode([(key_bytes(partition=n), value_bytes()) for n in (1, 2)], cache)

    def refuse(_: bytes) -> None:
        raise AssertionError

    monkeypatch.setattr(commit_keys, "decode_key", refuse)
    second = decode([(key_bytes(partition=n), value_bytes()) for n in (2, 1, 2)], cache)
    assert second.keys is first.keys
    assert second.key_code.tolist() == [1, 0, 1]


def test_a_full_cache_starts_anew_and_old_batches_stay_readable() -> None:
    """Known keys do not count against the limit; a batch keeps the table it was made with."""
    cache = KeyCache(max_keys=3)
    records: list[Record] = [(key_bytes(partition=n), value_bytes()) for n in range(5)]
    first = decode(records[:3], cache)
    assert decode(records[:3], cache).keys is first.keys
    assert decode(records, cache).keys is first.keys
    second = decode(records[2:], cache)
    assert second.keys is not first.keys
    assert rows(first) == [expected(*record) for record in records[:3]]
    assert rows(second) == [expected(*record) for record in records[2:]]


def test_a_batch_larger_than_the_cache_is_decoded() -> None:
    """The limit bounds what is kept between batches; one batch may exceed it."""
    records: list[Record] = [(key_bytes(partition=n), value_bytes()) for n in range(10)]
    assert rows(decode(records, KeyCache(max_keys=3))) == [expected(*record) for record in records]
