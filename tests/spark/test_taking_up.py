"""The initial state of a start: its own checkpoint, the rows published with an older layout, or nothing."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rebalance_contract import QueryStatus
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import StreamError
from rebalance_streaming.spark import startup
from rebalance_streaming.spark.checkpoint import LAYOUT, older_layout, query_path
from rebalance_streaming.spark.membership import PublishedRows
from spark.another_stream import OtherStream

pytestmark = pytest.mark.spark

_NUMBER = int(LAYOUT.removeprefix("v"))
_OLDER, _NEWER = f"v{_NUMBER - 1}", f"v{_NUMBER + 1}"
_PUBLISHED = PublishedRows({3: b"packed"}, 7, activity={"__consumer_offsets/0": (0, 9)})


class Start:
    """A start with a checkpoint at a path, of a cluster with published groups."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.path, self.said = path, list[str]()
        self.other: QueryStatus | None = None
        self.queries = StreamConfig().queries
        self._spark = spark

    def take_up(self, *, rebuild: bool = False, may_set_aside: bool = False) -> PublishedRows | None:
        """Return what the queries begin with."""
        found: Any = SimpleNamespace(cluster=None, cluster_id="here", statuses=[], ownership=OtherStream(self.other))
        listeners = startup.Listeners(self.said.append, self.said.append, lambda _: None)
        config = StreamConfig(checkpoint=str(self.path), queries=self.queries)
        asked = startup.AskedRebuild(rebuild, may_set_aside, threading.Event())
        return startup._take_up(self._spark, config, found, listeners, asked)

    def end_batch(self, query: str, batch: int = 0) -> None:
        """Leave the files that Spark writes when a batch has ended."""
        for kind in ("offsets", "commits"):
            file = Path(query_path(str(self.path), query)) / kind / str(batch)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("v1")


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """A start without a checkpoint."""
    monkeypatch.setattr(startup, "read_published", lambda *_: _PUBLISHED)
    monkeypatch.setattr(startup, "has_rows", lambda _: True)
    return Start(spark, tmp_path)


def test_the_newest_of_the_older_layouts_is_found(spark: SparkSession, tmp_path: Path):
    """By number; not one that was moved away, nor a newer one, nor other files."""
    for name in ("v1", _OLDER, LAYOUT, f"{LAYOUT}.set-aside-17", _NEWER, f"v{_NUMBER}0", "old"):
        (tmp_path / name).mkdir()
    assert older_layout(spark, str(tmp_path)) == _OLDER
    (tmp_path / _OLDER).rmdir()
    assert older_layout(spark, str(tmp_path)) == "v1"


@pytest.mark.parametrize("there", [(), (LAYOUT,), (_NEWER,), (f"{LAYOUT}.set-aside-17",)], ids=str)
def test_without_an_older_layout_nothing_is_taken_up(start: Start, there: tuple[str, ...]):
    """The stream's own checkpoint is continued; without one, totals begin at 0, which is reported."""
    for name in there:
        (start.path / name).mkdir()
    assert start.take_up() is None
    assert [each.partition(": ")[2][:20] for each in start.said] == (
        [] if LAYOUT in there else ["totals start at 0. T"]
    )


def test_an_older_layout_is_taken_up_from_what_was_published(start: Start):
    """All of it, and one log line says so."""
    (start.path / _OLDER).mkdir()
    assert start.take_up() == _PUBLISHED
    (line,) = start.said
    assert f"is of layout {_OLDER}, a new one of layout {LAYOUT} is created: 7 groups continue from" in line


def test_a_query_takes_up_what_was_published_until_it_has_ended_a_batch(start: Start):
    """A start that was killed before that is repeated; a query does not get rows it already has."""
    (start.path / _OLDER).mkdir()
    (start.path / LAYOUT).mkdir()
    assert start.take_up() == _PUBLISHED
    start.end_batch("membership")
    assert start.take_up() == PublishedRows(activity=_PUBLISHED.activity)
    start.end_batch("activity")
    del start.said[:]
    assert start.take_up() is None
    assert not start.said


def test_a_query_whose_commits_are_lost_has_begun_all_the_same(start: Start):
    """Its second batch shows that: the published rows may be newer than its state."""
    (start.path / _OLDER).mkdir()
    start.queries = ("membership",)
    start.end_batch("membership", batch=1)
    (Path(query_path(str(start.path), "membership")) / "commits" / "1").unlink()
    assert start.take_up() is None


def test_queries_of_other_processes_are_not_looked_at(start: Start):
    """A process with only the diagnosis has nothing to restore."""
    (start.path / _OLDER).mkdir()
    start.queries = ("diagnosis",)
    assert start.take_up() is None
    start.queries = ("activity",)
    assert start.take_up() == _PUBLISHED


@pytest.mark.parametrize("rebuild", [True, False])
def test_nothing_is_taken_up_while_another_stream_writes(start: Start, rebuild: bool):
    """Rows that it still publishes would be counted by both."""
    (start.path / _OLDER).mkdir()
    start.other = QueryStatus("c", "membership", True, 1, 1, 500, host="h", pid=17)
    with pytest.raises(StreamError, match=r"another stream still writes \(host h, process 17\): stop it first"):
        start.take_up(rebuild=rebuild)


def test_a_rebuild_moves_a_checkpoint_away_only_when_it_may(start: Start):
    """Without permission it refuses, and changes nothing."""
    (start.path / LAYOUT).mkdir()
    with pytest.raises(StreamError, match="with --rebuild --set-aside it is renamed first"):
        start.take_up(rebuild=True)
    assert start.take_up(rebuild=True, may_set_aside=True) == _PUBLISHED
    assert len([*start.path.glob(f"{LAYOUT}.set-aside-*")]) == 1
