"""What ties the queries' checkpoints to a cluster: made once, and missed where it is damaged or gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rebalance_streaming.errors import StreamError
from rebalance_streaming.spark.checkpoint import LAYOUT, Baseline, open_checkpoint, query_path

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
