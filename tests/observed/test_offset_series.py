"""Rows of offsets are stored in few bytes, and are restored exactly."""

from __future__ import annotations

import random

import numpy as np

from rebalance_streaming.activity.offsets import Ints, grown
from rebalance_streaming.observed.offset_series import OffsetSeries

#: Number of generated rows; in one test, because the overhead of many tests exceeds their work.
SEEDS = range(15)
#: Differences of offsets from one row to the next: for each width, negative, and up to the maximum.
STEPS = (0, 1, 200, 60_000, 10**6, 2**33, -5, -(2**40))


class PlainSeries:
    """A simple reference implementation."""

    def __init__(self) -> None:
        self.times: list[int] = []
        self.rows: list[Ints] = []

    def check(self, series: OffsetSeries, partitions: int) -> None:
        """Compare all queries."""
        assert series.times.tolist() == self.times
        assert series.partitions == partitions
        rows = [grown(each, partitions) for each in self.rows]
        assert [series.row(number).tolist() for number in range(len(rows))] == [each.tolist() for each in rows]
        some = np.array([partitions - 1, 0])
        assert series.of_partitions(some).tolist() == [each[some].tolist() for each in rows]
        first = len(rows) // 2
        assert series.of_partition(0, first) == [int(each[0]) for each in rows[first:]]
        assert not rows or series.at(first, partitions - 1) == rows[first][-1]


def made_up(chance: random.Random, before: Ints) -> Ints:
    """Return a row after another one: sometimes the same, or one with an unknown partition."""
    if chance.random() < 0.2:
        return before
    step = chance.choice(STEPS)
    moved = [max(-1, min(2**62, offset + chance.randint(min(0, step), max(0, step)))) for offset in before.tolist()]
    return np.array([-1 if chance.random() < 0.02 else offset for offset in moved], dtype=np.int64)


def test_rows_come_back_as_they_were():
    """For any movement of offsets, and any order of adding, replacing and dropping rows."""
    for seed in SEEDS:
        chance, plain = random.Random(seed), PlainSeries()
        partitions = chance.choice((1, 3))
        series, end = OffsetSeries(partitions), np.full(partitions, chance.choice((-1, 0, 10**9)), dtype=np.int64)
        for at_ms in range(chance.choice((10, 60, 300))):
            if chance.random() < 0.02:
                partitions += 2
                series.grow(partitions)
                end = grown(end, partitions)
            before, end = end, made_up(chance, end)
            is_new = not np.array_equal(before, end) or not plain.rows
            if plain.rows and chance.random() < 0.4:
                series.replace_newest(at_ms, end, is_new=is_new)
                plain.times[-1], plain.rows[-1] = at_ms, end
            else:
                series.append(at_ms, end, is_new=is_new)
                plain.times.append(at_ms)
                plain.rows.append(end)
            if len(plain.rows) > 1 and chance.random() < 0.3:
                # The next one is compared with the newest.
                number = chance.randrange(len(plain.rows) - 1)
                series.drop(number)
                del plain.times[number], plain.rows[number]
        plain.check(series, partitions)


def test_a_row_takes_two_bytes_per_partition_where_little_was_written():
    """Even after a time in which partitions got very many records."""
    series, end = OffsetSeries(100), np.full(100, 10**12, dtype=np.int64)
    for at_ms, records in enumerate([5] * 200 + [10**8] * 20 + [5] * 250):
        end = end + records
        series.append(at_ms, end, is_new=True)
        if len(series.times) > 90:
            series.drop(0)
    assert series._rows.nbytes <= 100 * 100 * 2
    assert series.row(len(series.times) - 1).tolist() == end.tolist()


def test_rows_of_a_topic_that_nobody_writes_to_take_one_place():
    """A quarter of an hour of it takes as much memory as one probe."""
    series, end = OffsetSeries(100), np.full(100, 5, dtype=np.int64)
    for at_ms in range(90):
        series.append(at_ms, end, is_new=False)
    assert len(series._rows) == 1
    assert series.of_partition(7) == [5] * 90
