"""The order of the rows of a batch, which come from several topics and partitions."""

from __future__ import annotations

from random import Random

from histories import CLUSTER, T0
from rebalance_contract import CommitActivity, GroupLag, TopicCommits, encode
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.diagnosis.frames import InputRow, Start
from rebalance_streaming.diagnosis.row_order import in_order
from rebalance_streaming.diagnosis.worker import DiagnosisWorker


class _Sink:
    def put(self, topic: str, key: str, value: bytes | None) -> None:
        """Drop a row."""

    def send(self) -> None:
        """Send nothing."""


def row(topic: str, partition: int, offset: int, at_ms: int) -> InputRow:
    return InputRow(topic, partition, offset, at_ms, None, None)


def test_rows_of_several_topics_are_in_the_order_of_their_times():
    """Each topic is read by itself."""
    rows = [row("groups", 0, 1, 5), row("groups", 0, 2, 7), row("activity", 3, 8, 4), row("activity", 3, 9, 6)]
    assert [(each.topic, each.offset) for each in in_order(rows)] == [
        ("activity", 8),
        ("groups", 1),
        ("activity", 9),
        ("groups", 2),
    ]


def test_times_that_go_back_rearrange_no_partition():
    """They count as of the latest time until then; other partitions of the topic are not affected."""
    rows = [row("activity", 0, n, at_ms) for n, at_ms in enumerate([10, 50, 20, 60])]
    rows += [row("activity", 1, n, at_ms) for n, at_ms in enumerate([15, 55])]
    found = [(each.partition, each.offset) for each in in_order(rows)]
    assert found == [(0, 0), (1, 0), (0, 1), (0, 2), (1, 1), (0, 3)]


def test_whatever_the_times_are_each_partition_is_in_its_order():
    """Nothing is lost."""
    chance = Random(1)
    rows = [row("activity", p, n, chance.randrange(1_000)) for p in range(4) for n in range(200)]
    found = in_order(rows)
    assert sorted(found, key=lambda each: (each.partition, each.offset)) == rows
    for partition in range(4):
        assert [each.offset for each in found if each.partition == partition] == list(range(200))


def test_commits_written_after_a_step_of_the_clock_count():
    """The clock of the machine that packs them goes back by 3 s between two batches."""

    def commits(number: int) -> InputRow:
        at_ms = T0 + 1_000 * number
        topic = TopicCommits([0], [number], [at_ms], [at_ms], [number], [1])
        counts = ((at_ms // 5_000 * 5_000, 1),)
        packed = CommitActivity(CLUSTER, "g", 7, number, number, 5_000, counts, {"orders": topic})
        written_ms = at_ms - (3_000 if number >= 5 else 0)
        return InputRow("activity", 0, number, written_ms, b"g", encode(packed))

    worker = DiagnosisWorker(Start(StreamConfig(cluster=CLUSTER), DetectConfig(), 0, 1), _Sink(), print)
    worker.take(in_order(commits(number) for number in range(10)))
    (lag,) = [each for each in worker.engine.finish(T0 + 60_000) if isinstance(each, GroupLag)]
    assert (lag.commits, lag.topics["orders"].committed) == (10, [9])
