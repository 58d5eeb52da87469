"""The rows of a batch reach the diagnosis in the order of their times, and however large they are, fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from rebalance_contract.bounds import MAX_ROW_BYTES
from rebalance_streaming.brokers.row_fetcher import Place
from rebalance_streaming.diagnosis.frames import InputRow
from rebalance_streaming.spark import row_batches
from rebalance_streaming.spark.row_batches import COLLECTED, LARGEST_BYTES, ROWS_AT_ONCE, collectable, rows_in_time

NAMES = {"own.groups": "groups", "own.rebalances": "rebalances"}


def table(*rows: tuple[str, int, int, bytes | None, int | None]) -> pa.Table:
    """Return collected rows, given as topic, offset, time, value and size of the value."""
    columns: dict[str, list[Any]] = {
        "topic": [row[0] for row in rows],
        "partition": [0] * len(rows),
        "offset": [row[1] for row in rows],
        "at_ms": [row[2] for row in rows],
        "key": [b"k"] * len(rows),
        "value": [row[3] for row in rows],
        "writer": [b"w"] * len(rows),
        "bytes": [row[4] for row in rows],
    }
    return pa.table(columns)


def row(topic: str, offset: int, at_ms: int, value: bytes | None) -> InputRow:
    """Return a row as the process receives it."""
    return InputRow(topic, 0, offset, at_ms, b"k", value, b"w")


def test_even_rows_of_the_maximum_size_fit_into_memory():
    """In a JVM with a heap of 700 MB, which holds what is collected several times; no row is left out."""
    most, before = 0, 0
    for until, largest in COLLECTED:
        most, before = most + (until - before) * largest, until
    assert before == ROWS_AT_ONCE
    assert most < 85_000_000
    assert LARGEST_BYTES >= MAX_ROW_BYTES


def test_large_values_are_fetched_when_it_is_their_turn(monkeypatch: pytest.MonkeyPatch):
    """Rows of all topics are in the order of their times; a tombstone has no value, and a row that is gone is left out.

    At most so many bytes are fetched at once that they fit into memory.
    """
    monkeypatch.setattr(row_batches, "_FETCHED_BYTES", 100)
    fetched: list[list[Place]] = []

    def fetch(places: Sequence[Place]) -> dict[Place, bytes]:
        fetched.append([*places])
        return {place: f"value {place[2]}".encode() for place in places if place[2] != 4}

    found = rows_in_time(
        table(
            ("own.groups", 1, 50, b"small", 5),
            ("own.groups", 2, 60, None, 60),
            ("own.groups", 3, 70, None, None),
            ("own.rebalances", 4, 40, None, 30),
            ("own.rebalances", 5, 55, None, 40),
            ("own.rebalances", 6, 80, None, 500),
        ),
        NAMES,
        fetch,
    )
    first = next(found)
    assert len(fetched) == 1
    assert [first, *found] == [
        row("groups", 1, 50, b"small"),
        row("rebalances", 5, 55, b"value 5"),
        row("groups", 2, 60, b"value 2"),
        row("groups", 3, 70, None),
        row("rebalances", 6, 80, b"value 6"),
    ]
    assert [[place[2] for place in places] for places in fetched] == [[4, 5], [2], [6]]


def test_nothing_is_fetched_where_all_values_were_collected():
    """As in any batch of small rows."""
    collected = table(("own.groups", 2, 60, b"b", 1), ("own.rebalances", 1, 50, b"a", 1))
    assert [each.offset for each in rows_in_time(collected, NAMES, lambda _: pytest.fail("fetched"))] == [1, 2]
    assert [*rows_in_time(table(), NAMES, lambda _: pytest.fail("fetched"))] == []


@pytest.mark.spark
def test_values_are_collected_by_their_size_and_number(spark: SparkSession):
    """The first rows with any value, some more with those up to 50 kB, all others with small ones."""
    sizes = [LARGEST_BYTES // 10, 60_000, 5_001, 5_000, 0]
    rows = [("own.groups", 0, n, n, b"k", None if n % 6 == 5 else bytes(sizes[n % 6]), b"w") for n in range(600)]
    schema = "topic string, partition int, offset long, at_ms long, key binary, value binary, writer binary"
    collected = collectable(spark.createDataFrame(rows, schema)).toArrow().to_pylist()
    assert len(collected) == len(rows)
    values = {each["offset"]: each["value"] for each in collected}
    assert {each["offset"]: each["bytes"] for each in collected} == {
        each[2]: None if each[5] is None else len(each[5]) for each in rows
    }
    # Which rows come first is left to Spark.
    kept = [len(values[each[2]]) for each in rows if each[5] is not None and values[each[2]] is not None]
    assert sum(size > 50_000 for size in kept) <= 20
    assert 0 < sum(size > 5_000 for size in kept) <= 320
    assert sum(size <= 5_000 for size in kept) == 200
    assert all(values[each[2]] in (None, each[5]) for each in rows)
