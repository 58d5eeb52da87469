"""The baseline of a checkpoint's cluster: created once, and an error if it is damaged or missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rebalance_streaming.errors import StreamError
from rebalance_streaming.spark.checkpoint import (
    LAYOUT,
    Baseline,
    has_checkpoint,
    open_checkpoint,
    query_path,
    read_rebuild_values,
    set_aside,
    store_rebuild_values,
)
from rebalance_streaming.spark.rebuild_values import RebuildValues

pytestmark = pytest.mark.spark

_BASELINE = Baseline("cluster", "__consumer_offsets", {0: 5})
_LATER = Baseline("cluster", "__consumer_offsets", {0: 9})


def test_a_baseline_is_that_of_the_first_start(spark: SparkSession, tmp_path: Path) -> None:
    """A later start gets the baseline of the first one."""
    assert open_checkpoint(spark, str(tmp_path), _BASELINE) == _BASELINE
    assert open_checkpoint(spark, str(tmp_path), _LATER) == _BASELINE


@pytest.mark.parametrize("content", [None, b"", b"{}", b"no baseline"], ids=["gone", "empty", "other", "garbage"])
def test_one_that_is_damaged_or_gone_is_not_made_anew(
    spark: SparkSession, tmp_path: Path, content: bytes | None
) -> None:
    """While a query has positions: it would take unread records for history."""
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


def test_values_of_rebuilds_are_remembered_with_the_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """They move away with the checkpoint; a checkpoint that has only these is opened like any other."""
    path = str(tmp_path)
    assert read_rebuild_values(spark, path, "monday") == RebuildValues("monday", ())
    store_rebuild_values(spark, path, RebuildValues("", ()))
    assert not has_checkpoint(spark, path)
    store_rebuild_values(spark, path, RebuildValues("monday", ()))
    assert open_checkpoint(spark, path, _BASELINE) == _BASELINE
    assert read_rebuild_values(spark, path, "tuesday") == RebuildValues("tuesday", ("monday",))
    set_aside(spark, path, 17_000)
    assert read_rebuild_values(spark, path, "") == RebuildValues("", ())


def test_damaged_values_are_none_and_a_place_of_no_use_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    """With damaged values another rebuild is allowed; with an unusable path it must not happen."""
    path = str(tmp_path)
    store_rebuild_values(spark, path, RebuildValues("monday", ()))
    (tmp_path / LAYOUT / "rebuilds.json").write_bytes(b"garbage")
    assert read_rebuild_values(spark, path, "monday").is_new
    with pytest.raises(StreamError, match="cannot use checkpoint nowhere://"):
        read_rebuild_values(spark, "nowhere://at/all", "monday")
