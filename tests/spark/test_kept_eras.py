"""Eras are stored in the checkpoint, so that no query continues with lower ones than its state has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from rebalance_contract import LogTotals, WatchedPartition, WatchedTopic
from rebalance_streaming.activity.commits import LogEra
from rebalance_streaming.brokers.log_watch import Ends, TopicState
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import StreamError
from rebalance_streaming.spark import input_queries, job
from rebalance_streaming.spark.checkpoint import query_path, read_inputs, store_inputs
from rebalance_streaming.spark.inputs import WatchedInputs
from rebalance_streaming.spark.membership import MEMBERSHIP
from rebalance_streaming.spark.offset_log import positions
from spark.memory_files import MemoryFiles, use_memory

_CONFIG = StreamConfig(cluster="prod", checkpoint="/c", queries=(MEMBERSHIP,))
_LOG = _CONFIG.source_topic
_SPARK: Any = None


class Stream:
    """A stream's starts on one checkpoint; `state` is the log's present state on the brokers."""

    def __init__(self, files: MemoryFiles) -> None:
        self.files, self.state = files, TopicState(8, {7: Ends(0, 100)}, "id")
        #: The warnings, and the rows that the last start published.
        self.said, self.published = list[str](), list[LogTotals]()

    def begin(self, totals: Iterable[LogTotals] = ()) -> WatchedInputs:
        """Do what a start does before its queries are started; `totals` are the rows of the status topic."""
        cluster: Any = SimpleNamespace(fetch_topic_states=lambda _topics: {_LOG: self.state})
        watched = WatchedInputs(_CONFIG, cluster, {7: 0}, totals, partial(positions, _SPARK, "/c"))
        inputs: Any = SimpleNamespace(watched=watched)
        to: Any = SimpleNamespace(
            listeners=SimpleNamespace(warn=self.said.append), publish_totals=self.published.extend
        )
        del self.published[:]
        job._resume(_SPARK, _CONFIG, inputs, to)
        return watched

    def end_batch(self, batch: int, position: int) -> None:
        """Leave the files of an ended batch of the query."""
        text = b'v1\n{"conf":{}}\n{"%s":{"7":%d}}' % (_LOG.encode(), position)
        directory = query_path(_CONFIG.checkpoint, MEMBERSHIP)
        self.files.content |= {f"{directory}/offsets/{batch}": text, f"{directory}/commits/{batch}": b"v1\n{}"}


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    """A stream without a checkpoint."""
    return Stream(use_memory(monkeypatch))


def start_query(watched: WatchedInputs) -> dict[int, LogEra]:
    """Prepare a start of the query, and return the eras that it is started with."""
    eras = watched.eras(MEMBERSHIP)
    input_queries.prepare_checkpoint(_SPARK, _CONFIG.checkpoint, MEMBERSHIP, watched)
    return eras


@pytest.mark.parametrize("lost", ["the last row", "the topic"])
def test_an_era_that_was_not_delivered_is_known_at_the_next_start(stream: Stream, lost: str) -> None:
    """Otherwise groups with records of era 1 would take all later ones for repetitions; nothing is reported again."""
    watched = stream.begin()
    delivered = [*stream.published]
    start_query(watched)
    stream.end_batch(0, 100)
    stream.state = TopicState(8, {7: Ends(0, 50)}, "id")
    watched = stream.begin(delivered)
    assert start_query(watched) == {7: LogEra(0, 1)}
    stream.end_batch(1, 51)
    stream.state = TopicState(8, {7: Ends(0, 52)}, "id")
    del stream.said[:]
    again = stream.begin(delivered if lost == "the last row" else ())
    assert again.eras(MEMBERSHIP) == {7: LogEra(0, 1)}
    assert stream.said == []
    (row,) = stream.published
    assert (row.topics[0].rewinds, row.topics[0].skipped_records) == (1, 0)


def test_a_recreated_topic_is_no_second_time_recreated(stream: Stream) -> None:
    """Its id is stored with the era."""
    watched = stream.begin()
    delivered = [*stream.published]
    start_query(watched)
    stream.end_batch(0, 100)
    stream.state = TopicState(8, {7: Ends(0, 120)}, "other id")
    start_query(stream.begin(delivered))
    del stream.said[:]
    again = stream.begin(delivered)
    assert again.eras(MEMBERSHIP)[7].number == 1
    assert stream.said == []


def test_a_later_row_of_the_status_topic_prevails(stream: Stream) -> None:
    """A stream of an earlier version, which stores no eras, ran on the checkpoint in between."""
    start_query(stream.begin())
    (row,) = stream.published
    (topic,) = row.topics
    rows = [replace(row, topics=(replace(topic, rewinds=3, partitions=(WatchedPartition(7, 3, 9, 40),)),))]
    watched = stream.begin(rows)
    assert watched.eras(MEMBERSHIP)[7].number == 3
    assert watched.unread(MEMBERSHIP)[_LOG][7].begin == 40


def test_a_topic_that_is_no_longer_read_is_left_out(stream: Stream) -> None:
    """With a new prefix, the rows of the new status topic do not name the monitor's old topics."""
    topics = (WatchedTopic("old.probes", 1, rewinds=1), WatchedTopic(_LOG, 8, "id", rewinds=1))
    store_inputs(_SPARK, "/c", LogTotals("prod", MEMBERSHIP, 1, topics))
    stream.begin()
    (row,) = stream.published
    assert [(each.topic, each.rewinds) for each in row.topics] == [(_LOG, 1)]


def test_a_checkpoint_without_eras_is_opened(stream: Stream) -> None:
    """It is of an earlier version."""
    assert stream.begin().eras(MEMBERSHIP) == {7: LogEra(0)}
    assert stream.said == []


def test_damaged_eras_are_reported(stream: Stream) -> None:
    """The stream goes on with the rows of the status topic."""
    store_inputs(_SPARK, "/c", LogTotals("prod", MEMBERSHIP, 1))
    (file,) = stream.files.content
    stream.files.content[file] = b"{half"
    assert stream.begin().eras(MEMBERSHIP) == {7: LogEra(0)}
    (line,) = stream.said
    assert line.startswith(f"{file} is damaged: ")


def test_no_query_is_started_whose_eras_cannot_be_stored(stream: Stream) -> None:
    """It is not moved either; its start is tried again after a pause."""
    watched = stream.begin()
    stream.end_batch(0, 100)
    watched._watcher.note(MEMBERSHIP, {_LOG: {7: 100}})
    stream.state = TopicState(8, {7: Ends(0, 50)}, "id")
    watched._watcher.check_once()
    before = dict(stream.files.content)
    stream.files.failure, stream.files.fails = "no route to host", {"write"}
    with pytest.raises(StreamError, match=r"cannot use checkpoint /c .*no route to host"):
        start_query(watched)
    assert stream.files.content == before
    stream.files.failure = None
    start_query(watched)
    assert stream.files.content != before


def test_a_checkpoint_that_cannot_be_read_ends_the_start(stream: Stream) -> None:
    """Unknown eras must not become era 0."""
    stream.files.failure = "no route to host"
    with pytest.raises(StreamError, match=r"cannot use checkpoint /c .*no route to host"):
        read_inputs(_SPARK, "/c", MEMBERSHIP, stream.said.append)
