"""Brings the rows of a batch to the driver, in the order of their times and in bounded memory.

The driver's JVM holds what is collected of a batch several times: in Arrow's vectors, as their bytes and as the result
of a task. Nearly all rows are small, so that many fit; but those of a group with hundreds of members are as large as a
row may be, and a batch may have thousands of these. So large values are not collected with the others, but read one
after the other when it is their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rebalance_contract.bounds import MAX_ROW_BYTES
from rebalance_streaming.brokers.row_fetcher import Place
from rebalance_streaming.diagnosis.frames import InputRow
from rebalance_streaming.diagnosis.row_order import in_order

#: Rows per batch. Each batch has a fixed cost, so a cold start with fewer rows at once would take longer.
ROWS_AT_ONCE = 10_000
#: Largest value of a row that is passed on; the monitor writes no larger ones.
LARGEST_BYTES = MAX_ROW_BYTES + 100_000
#: (number of a row in its batch, largest value in bytes that is collected with the rows up to it): at most 85 MB
#: together, and nothing more to read in the batches of a few rows that follow a cold start.
COLLECTED = ((20, LARGEST_BYTES), (320, 50_000), (ROWS_AT_ONCE, 5_000))
#: Most bytes of large values that are in memory together, unless a single one has more.
_FETCHED_BYTES = 16_000_000

#: Returns the values at places; those that are gone are left out.
FetchValues = Callable[[Sequence[Place]], Mapping[Place, bytes]]


class _Found(NamedTuple):
    """A row of a batch, by its topic's full name; `missing_bytes` is the size of a value that was not collected."""

    topic: str
    row: InputRow
    missing_bytes: int

    @property
    def partition(self) -> int:
        return self.row.partition

    @property
    def at_ms(self) -> int:
        return self.row.at_ms

    @property
    def place(self) -> Place:
        return self.topic, self.row.partition, self.row.offset


def collectable(rows: DataFrame) -> DataFrame:
    """Return the rows of a batch without large values; `bytes` is the size of the value, null if the row has none."""
    others = [name for name in rows.columns if name != "value"]
    # In a step of its own, because the number is counted up each time that it is evaluated.
    numbered = rows.coalesce(1).withColumn("number", F.monotonically_increasing_id())
    size = F.octet_length("value")
    value = F.when(size <= _largest_collected(F.col("number")), F.col("value"))
    return numbered.select(*others, size.alias("bytes"), value.alias("value"))


def _largest_collected(number: Column) -> Column:
    limit = F.lit(0)
    for until, largest in reversed(COLLECTED):
        limit = F.when(number < until, largest).otherwise(limit)
    return limit


def rows_in_time(table: pa.Table, names: Mapping[str, str], fetch: FetchValues) -> Iterator[InputRow]:
    """Yield collected rows in the order of their times (`in_order`), with the values of large ones.

    `names` are the short names of topics by their full names. A row that is gone is left out: a newer one of its key
    follows, or nobody may read it any more.
    """
    for part in _parts(in_order(_found(table, names))):
        missing = [each.place for each in part if each.missing_bytes]
        values = fetch(missing) if missing else {}
        for each in part:
            if not each.missing_bytes:
                yield each.row
            elif (value := values.get(each.place)) is not None:
                yield msgspec.structs.replace(each.row, value=value)


def _found(table: pa.Table, names: Mapping[str, str]) -> Iterator[_Found]:
    columns = ("topic", "partition", "offset", "at_ms", "key", "value", "writer", "bytes")
    values = (table.column(name).to_pylist() for name in columns)
    for topic, partition, offset, at_ms, key, value, writer, size in zip(*values, strict=True):
        row = InputRow(names[topic], partition, offset, at_ms, key, value, writer)
        yield _Found(topic, row, 0 if value is not None or size is None else size)


def _parts(rows: Iterable[_Found]) -> Iterator[list[_Found]]:
    """Cut rows so that the missing values of a part fit into memory."""
    part, size = list[_Found](), 0
    for each in rows:
        if size and size + each.missing_bytes > _FETCHED_BYTES:
            yield part
            part, size = [], 0
        part.append(each)
        size += each.missing_bytes
    yield part
