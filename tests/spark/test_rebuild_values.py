"""A word of `stream.rebuild` creates one new checkpoint, however often the process starts with it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from rebalance_contract import LogTotals, QueryStatus
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import StreamError
from rebalance_streaming.groups.counts import CountTotals
from rebalance_streaming.spark import startup
from rebalance_streaming.spark.membership import PublishedRows
from rebalance_streaming.spark.rebuild_values import RebuildValues, decode_values, encode_values
from spark.another_stream import OtherStream

_COUNTED = {"__consumer_offsets/0": (0, 8)}
_PUBLISHED = PublishedRows({3: b"packed"}, 7, CountTotals(_COUNTED), activity={"__consumer_offsets/0": (0, 9)})


@dataclass
class Disk:
    """A fake checkpoint of a stream for the functions that read it, and the stream's messages."""

    monkeypatch: pytest.MonkeyPatch
    is_there: bool = False
    values: tuple[str, ...] = ()
    begun: set[str] = field(default_factory=set)
    moved: int = 0
    other: QueryStatus | None = None
    is_unreadable: bool = False
    cluster_id: str = "here"
    inputs: LogTotals | None = None
    counted: dict[str, tuple[int, int]] | None = None
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name, function in {
            "has_checkpoint": lambda *_: self.is_there,
            "older_layout": lambda *_: None,
            "read_rebuild_values": lambda _spark, _path, asked: RebuildValues(asked, self.values),
            "store_rebuild_values": self._keep,
            "store_counted": self._keep_counted,
            "is_of_cluster": lambda _spark, _path, cluster_id: cluster_id == self.cluster_id,
            "read_inputs": lambda *_: self.inputs,
            "store_inputs": self._keep_inputs,
            "has_begun": lambda _spark, _path, query: query in self.begun,
            "set_aside": self._set_aside,
            "read_published": self._read,
            "has_rows": lambda _: True,
        }.items():
            self.monkeypatch.setattr(startup, name, function)

    def start(self, word: str = "", *, rebuild: bool = False, queries: tuple[str, ...] = ()) -> PublishedRows | None:
        """Return what the queries of a start begin with."""
        config = StreamConfig(rebuild=word, queries=queries or StreamConfig().queries)
        found: Any = SimpleNamespace(cluster=None, cluster_id="here", statuses=[], ownership=OtherStream(self.other))
        listeners = startup.Listeners(self.said.append, self.said.append, lambda _: None)
        spark: Any = None
        return startup._take_up(
            spark, config, found, listeners, startup.AskedRebuild(rebuild, rebuild, threading.Event())
        )

    def _read(self, *_: Any) -> PublishedRows:
        if self.is_unreadable:
            raise StreamError("brokers are away")
        return _PUBLISHED

    def end_batches(self) -> None:
        """Leave the files of a stream that ran for a while."""
        self.is_there = True
        self.begun = {"membership", "activity"}

    def _keep(self, _spark: Any, _path: str, values: RebuildValues) -> None:
        if values.kept():
            self.is_there, self.values = True, values.kept()

    def _keep_counted(self, _spark: Any, _path: str, counted: dict[str, tuple[int, int]]) -> None:
        self.is_there, self.counted = True, counted

    def _keep_inputs(self, _spark: Any, _path: str, inputs: LogTotals) -> None:
        self.inputs = inputs

    def _set_aside(self, *_: Any) -> str:
        self.is_there, self.values, self.begun, self.inputs = False, (), set(), None
        self.counted = None
        self.moved += 1
        return "moved"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A path without a checkpoint."""
    return Disk(monkeypatch)


def test_a_word_rebuilds_once(disk: Disk) -> None:
    """A pod that is restarted with it continues from the checkpoint of the first start."""
    disk.end_batches()
    assert disk.start("monday") == _PUBLISHED
    assert disk.moved == 1
    disk.end_batches()
    for _ in range(3):
        assert disk.start("monday") is None
    assert disk.start() is None
    assert disk.moved == 1


def test_a_rebuild_keeps_the_eras(disk: Disk) -> None:
    """The published rows, from which it continues, have them."""
    disk.end_batches()
    disk.inputs = LogTotals("prod", "membership", 1)
    disk.start("monday")
    assert disk.moved == 1
    assert disk.inputs == LogTotals("prod", "membership", 1)


def test_a_rebuild_for_another_cluster_keeps_no_eras(disk: Disk) -> None:
    """With the ids of the other's topics, this one's would count as recreated, and their whole content as new."""
    disk.end_batches()
    disk.inputs, disk.cluster_id = LogTotals("prod", "membership", 1), "elsewhere"
    disk.start("monday")
    assert disk.moved == 1
    assert disk.inputs is None


def test_a_rebuild_remembers_what_its_totals_count(disk: Disk) -> None:
    """Until the membership query has state: later positions of the published totals include what it has read since."""
    disk.start("monday", queries=("activity",))
    assert disk.counted is None
    disk.start("tuesday")
    assert disk.counted == _COUNTED
    disk.counted, disk.begun = None, {"membership"}
    disk.start("tuesday")
    assert disk.counted is None


def test_a_start_that_is_ended_too_early_is_made_up_for(disk: Disk) -> None:
    """Until its first batches have ended nothing is kept; the next start restores the same rows, moves nothing."""
    disk.end_batches()
    disk.start("monday")
    assert disk.start("monday") == _PUBLISHED
    disk.begun = {"membership"}
    assert disk.start("monday") == PublishedRows(activity=_PUBLISHED.activity)
    assert disk.moved == 1
    assert "is not rebuilt to its end" in disk.said[-1]


def test_a_rebuild_goes_on_without_its_word(disk: Disk) -> None:
    """Removing the setting too early loses no totals."""
    disk.start("monday")
    assert disk.start() == _PUBLISHED


def test_another_word_rebuilds_again_and_an_old_one_does_not(disk: Disk) -> None:
    """The roll-back of a release has the previous word."""
    for word in ("monday", "tuesday"):
        disk.start(word)
        disk.end_batches()
    assert disk.moved == 1
    assert disk.values == ("monday", "tuesday")
    assert disk.start("monday") is None


def test_a_rebuild_by_hand_remembers_the_values(disk: Disk) -> None:
    """The current word in the settings does not trigger another rebuild."""
    disk.start("monday")
    disk.end_batches()
    assert disk.start("monday", rebuild=True) == _PUBLISHED
    disk.end_batches()
    assert disk.start("monday") is None
    assert disk.moved == 1


def test_a_new_place_is_taken_up_by_a_word(disk: Disk) -> None:
    """For an application with another name and an empty claim: without a word its totals would begin at 0."""
    assert disk.start("monday") == _PUBLISHED
    assert disk.moved == 0
    without = Disk(disk.monkeypatch)
    assert without.start() is None
    assert "totals start at 0" in without.said[-1]


def test_a_process_without_totals_is_done_at_once(disk: Disk) -> None:
    """The diagnosis has none."""
    assert disk.start("monday", queries=("diagnosis",)) == _PUBLISHED
    assert disk.start("monday", queries=("diagnosis",)) is None


def test_nothing_is_moved_while_another_stream_writes(disk: Disk) -> None:
    """The word is still unused at the next start."""
    disk.end_batches()
    disk.other = QueryStatus("c", "membership", True, 1, 1, 500, host="h", pid=17)
    with pytest.raises(StreamError, match=r"^stream\.rebuild = 'monday': another stream still writes"):
        disk.start("monday")
    assert disk.moved == 0
    assert disk.values == ()
    disk.other = None
    assert disk.start("monday") == _PUBLISHED


def test_values_are_kept_as_they_are() -> None:
    """From a damaged file none is read, and of very many the latest are kept."""
    assert decode_values(encode_values(("a", "ü b"))) == ("a", "ü b")
    for damaged in (b"", b"{}", b"\xff", b'["a"', b"[1]"):
        assert decode_values(damaged) == ()
    many = tuple(map(str, range(150)))
    assert RebuildValues("new", many).kept() == (*many[-99:], "new")
    assert RebuildValues("149", many).kept() == many
    assert RebuildValues("", ()).kept() == ()


@pytest.mark.parametrize("rebuild", [True, False])
def test_nothing_is_moved_away_before_all_is_read_back(disk: Disk, rebuild: bool) -> None:
    """If brokers are down, the checkpoint stays and the word is unused: the next start does the rebuild."""
    disk.end_batches()
    disk.is_unreadable = True
    with pytest.raises(StreamError, match="away"):
        disk.start("" if rebuild else "monday", rebuild=rebuild)
    assert (disk.moved, disk.is_there, disk.values) == (0, True, ())
