"""The checkpoint: its baseline is made once and missed where it is gone; a first batch may be cut anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rebalance_streaming.errors import StreamError
from rebalance_streaming.spark.checkpoint import LAYOUT, Baseline, check_batches, open_checkpoint, query_path

pytestmark = pytest.mark.spark

_BASELINE = Baseline("cluster", "__consumer_offsets", {0: 5})
_LATER = Baseline("cluster", "__consumer_offsets", {0: 9})


def test_a_baseline_is_that_of_the_first_start(spark: SparkSession, tmp_path: Path) -> None:
    """A later start gets what the first one kept."""
    assert open_checkpoint(spark, str(tmp_path), _BASELINE) == _BASELINE
    assert open_checkpoint(spark, str(tmp_path), _LATER) == _BASELINE


@pytest.mark.parametrize("content", [None, b"", b"{}", b"no baseline"], ids=["gone", "empty", "other", "garbage"])
def test_one_that_is_damaged_or_gone_is_not_made_anew(
    spark: SparkSession, tmp_path: Path, content: bytes | None
) -> None:
    """While a query has its positions: it would take what it has not read yet for history."""
    open_checkpoint(spark, str(tmp_path), _BASELINE)
    Path(query_path(str(tmp_path), "membership")).mkdir()
    file = tmp_path / LAYOUT / "monitor.json"
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    with pytest.raises(
        StreamError, match=r"is damaged: .*monitor\.json cannot be read; start with --rebuild --set-aside"
    ):
        open_checkpoint(spark, str(tmp_path), _LATER)


def _run_once(spark: SparkSession, checkpoint: str) -> None:
    check_batches(spark, checkpoint, "membership")
    rows = spark.readStream.format("rate").load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", query_path(checkpoint, "membership"))
    writer.trigger(once=True).start().awaitTermination()


def test_a_query_starts_whose_first_file_of_offsets_was_cut(spark: SparkSession, tmp_path: Path) -> None:
    """SIGKILL hits the JVM between the writing of `offsets/0` and its renaming; Spark alone never starts again."""
    offsets = Path(query_path(str(tmp_path), "membership")) / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.5e0cbf1f-3d55-4a43-9b21-6b7e0f0b1c52.tmp").write_bytes(b"v1\n{")
    (offsets / "..0.5e0cbf1f-3d55-4a43-9b21-6b7e0f0b1c52.tmp.crc").write_bytes(b"crc\0")
    _run_once(spark, str(tmp_path))
    assert [file.name for file in sorted(offsets.iterdir())] == [".0.crc", "0"]


@pytest.mark.parametrize(
    ("file", "content"),
    [("offsets/1", None), ("offsets/*", None), ("offsets/1", b""), ("commits/1", b"")],
    ids=["newest offsets gone", "all offsets gone", "offsets empty", "commits empty"],
)
def test_a_newest_batch_that_is_damaged_is_told(
    spark: SparkSession, tmp_path: Path, file: str, content: bytes | None
) -> None:
    """Spark fails an assertion, or runs a batch again that was committed."""
    directory = Path(query_path(str(tmp_path), "membership"))
    for name in ("offsets/0", "commits/0", "offsets/1", "commits/1"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(b"v1\n{}")
    check_batches(spark, str(tmp_path), "membership")
    for found in directory.glob(file):
        found.unlink() if content is None else found.write_bytes(content)
    told = file.replace("*", "1")
    with pytest.raises(StreamError, match=rf"is damaged: .*/membership/{told} cannot be read; start with --rebuild"):
        check_batches(spark, str(tmp_path), "membership")
