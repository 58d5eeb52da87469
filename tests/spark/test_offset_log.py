"""The offset log of a query: its state after a kill or a power failure, and where the query continues."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rebalance_streaming.brokers.log_watch import Unread
from rebalance_streaming.errors import StreamError
from rebalance_streaming.spark import hadoop_files
from rebalance_streaming.spark.checkpoint import query_path
from rebalance_streaming.spark.offset_log import check_batches, go_back, positions

pytestmark = pytest.mark.spark

_QUERY = "membership"


def _run_once(spark: SparkSession, checkpoint: str) -> None:
    check_batches(spark, checkpoint, _QUERY)
    rows = spark.readStream.format("rate").load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", query_path(checkpoint, _QUERY))
    writer.trigger(once=True).start().awaitTermination()


def test_a_query_starts_whose_first_file_of_offsets_was_cut(spark: SparkSession, tmp_path: Path) -> None:
    """SIGKILL may hit the JVM between writing and renaming `offsets/0`; Spark alone would never start again."""
    offsets = Path(query_path(str(tmp_path), _QUERY)) / "offsets"
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
def test_a_newest_batch_that_is_damaged_is_reported(
    spark: SparkSession, tmp_path: Path, file: str, content: bytes | None
) -> None:
    """Spark would fail an assertion, or repeat a committed batch."""
    directory = Path(query_path(str(tmp_path), _QUERY))
    for name in ("offsets/0", "commits/0", "offsets/1", "commits/1"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(b"v1\n{}")
    check_batches(spark, str(tmp_path), _QUERY)
    for found in directory.glob(file):
        found.unlink() if content is None else found.write_bytes(content)
    reported = file.replace("*", "1")
    with pytest.raises(StreamError, match=rf"is damaged: .*/{_QUERY}/{reported} cannot be read; start with --rebuild"):
        check_batches(spark, str(tmp_path), _QUERY)


# --- Restart position of a query ---

#: Spark's format, without the details of the batch and its settings.
_FILE = b'v1\n{"batchWatermarkMs":0,"conf":{"a":"{}"}}\n{"probes":{"0":2},"log":{"0":%d,"1":7}}\n-\n{"reports":{"0":3}}'
_CUT = {"log": {0: Unread(stood_at=50, begin=40)}}

Write = Callable[[str, bytes], None]


@pytest.fixture
def write(spark: SparkSession, tmp_path: Path) -> Write:
    """Write a file below the query's checkpoint, with its checksum."""
    return lambda name, content: hadoop_files.write(spark, f"{query_path(str(tmp_path), _QUERY)}/{name}", content)


def test_a_query_without_a_committed_batch_has_no_position(spark: SparkSession, tmp_path: Path, write: Write) -> None:
    """Neither without a checkpoint nor before the end of the first batch."""
    assert positions(spark, str(tmp_path), _QUERY) == {}
    write("offsets/0", _FILE % 50)
    assert positions(spark, str(tmp_path), _QUERY) == {}


def test_a_query_that_stands_behind_a_cut_goes_back(spark: SparkSession, tmp_path: Path, write: Write) -> None:
    """A batch that was planned and not committed is made empty, as it would be; nothing else is moved, only once."""
    for name, content in (("offsets/8", _FILE % 30), ("offsets/9", _FILE % 50), ("offsets/10", _FILE % 50)):
        write(name, content)
    write("commits/8", b"v1\n{}")
    write("commits/9", b"v1\n{}")
    for _ in range(2):
        go_back(spark, str(tmp_path), _QUERY, _CUT)
        found = {"probes": {0: 2}, "log": {0: 40, 1: 7}, "reports": {0: 3}}
        assert positions(spark, str(tmp_path), _QUERY) == found
    read = {
        each: hadoop_files.read(spark, f"{query_path(str(tmp_path), _QUERY)}/offsets/{each}") for each in (8, 9, 10)
    }
    assert read == {8: _FILE % 30, 9: _FILE % 40, 10: _FILE % 40}
    check_batches(spark, str(tmp_path), _QUERY)


@pytest.mark.parametrize("committed", [8, 9])
def test_a_query_that_came_down_with_its_last_batch_goes_back(
    spark: SparkSession, tmp_path: Path, write: Write, committed: int
) -> None:
    """That batch was empty, or will be: Spark drops a range that ends before it begins."""
    write("offsets/7", _FILE % 30)
    write("offsets/8", _FILE % 50)
    write("offsets/9", _FILE % 45)
    write(f"commits/{committed}", b"v1\n{}")
    go_back(spark, str(tmp_path), _QUERY, {"log": {0: Unread(begin=40, stood_at=50)}})
    assert positions(spark, str(tmp_path), _QUERY)["log"] == {0: 40, 1: 7}


@pytest.mark.parametrize(
    "files",
    [
        {"offsets/9": _FILE % 45},
        {"offsets/7": _FILE % 50, "offsets/8": _FILE % 43, "offsets/9": _FILE % 45},
        {"offsets/9": _FILE % 50, "offsets/10": _FILE % 55},
        {"offsets/9": (_FILE % 50).replace(b"v1", b"v2")},
        {"offsets/9": b"v1\n{}\n{not JSON"},
    ],
    ids=["elsewhere", "read on", "reads on", "another version", "no JSON"],
)
def test_a_query_that_may_have_read_stays(
    spark: SparkSession, tmp_path: Path, write: Write, files: dict[str, bytes]
) -> None:
    """It has gone back by itself and may have counted what it read from there, or its position is unknown."""
    write("commits/9", b"v1\n{}")
    for name, content in files.items():
        write(name, content)
    go_back(spark, str(tmp_path), _QUERY, _CUT)
    for name, content in files.items():
        assert hadoop_files.read(spark, f"{query_path(str(tmp_path), _QUERY)}/{name}") == content


def test_a_damaged_file_has_no_positions(spark: SparkSession, tmp_path: Path, write: Write) -> None:
    """Other code that reads the positions continues: the start of the query reports the damage."""
    write("offsets/9", _FILE % 50)
    write("commits/9", b"v1\n{}")
    (Path(query_path(str(tmp_path), _QUERY)) / "offsets/9").write_bytes(_FILE % 51)
    assert positions(spark, str(tmp_path), _QUERY) == {}
