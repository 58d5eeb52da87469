"""How rows are divided into frames for the diagnosis process."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_contract.bounds import MAX_ROW_BYTES
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.diagnosis.frames import InputRow
from rebalance_streaming.diagnosis.process import DiagnosisProcess


def parts(sizes: Iterator[int]) -> list[list[int]]:
    """Return the sizes of values by frame."""
    process = DiagnosisProcess(StreamConfig(), DetectConfig(), 1, lambda _: None)
    rows = (InputRow("groups", 0, offset, offset, b"g", bytes(size)) for offset, size in enumerate(sizes))
    return [[len(row.value or b"") for row in part] for part in process._parts(rows)]


def test_small_rows_are_limited_by_their_number():
    """As before."""
    assert [len(part) for part in parts(iter([1_000] * 1_234))] == [500, 500, 234]


def test_large_rows_are_limited_by_their_bytes():
    """A frame of 500 rows of the maximum size would have 450 MB, in the memory of both processes."""
    sizes = [MAX_ROW_BYTES] * 40 + [10] * 100 + [MAX_ROW_BYTES]
    found = parts(iter(sizes))
    assert [size for part in found for size in part] == sizes
    assert max(map(sum, found)) <= 5_000_000
    assert len(found) == 9
