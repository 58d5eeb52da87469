"""Which offsets are published of topics that are deleted and recreated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from exporters.prober.probing import make_config
from rebalance_contract import GroupLag, Probe, TopicLag, encode
from rebalance_exporters.prober.interests import Interests
from rebalance_exporters.prober.metrics import ProbeMetrics
from rebalance_exporters.prober.offsets import OffsetAsker, OffsetRound
from rebalance_exporters.prober.repeats import LONGEST_SECONDS
from rebalance_exporters.prober.tasks import ErrorLog
from rebalance_exporters.prober.topics import ProbedTopic
from rebalance_exporters.prober.watch_offsets import OffsetWatch


class _Topics:
    """The brokers' description of topic `t`."""

    def __init__(self) -> None:
        self.errors: tuple[str, ...] = ()
        self.topic = ProbedTopic("t")

    def refresh(self, *_: Any) -> None: ...

    def learn(self, _: Any) -> None: ...

    def doubt(self, _: Any) -> None: ...

    def resolve(self, _: str) -> ProbedTopic:
        return self.topic


class _Leaders(OffsetAsker):
    """Leaders that report the same end for every partition, and that it begins one record before."""

    def __init__(self) -> None:
        brokers: Any = None
        super().__init__(brokers, starts_seconds=30)
        self.end = 0

    def ask(self, topics: Iterable[ProbedTopic], now: float) -> OffsetRound:
        found = OffsetRound()
        for topic in topics:
            found.end[topic.name] = found.stable[topic.name] = [self.end] * topic.partitions
            if self._take_turn(topic.name, now):
                found.start[topic.name] = [self.end - 1] * topic.partitions
        return found


class _Watched:
    """A watch of one group that has committed to `t`; the clock stands still unless a test moves it."""

    def __init__(self) -> None:
        self.topics, self.leaders, self.published = _Topics(), _Leaders(), list[Probe]()
        metrics, interests = ProbeMetrics(), Interests("test")
        row = GroupLag("test", "g", 1, topics={"t": TopicLag([0], [5], [None], None)})
        interests.apply_lag(b"test/g", encode(row))
        topics: Any = self.topics
        self.watch = OffsetWatch(
            make_config("127.0.0.1:1", "x."),
            topics=topics,
            asker=self.leaders,
            interests=interests,
            publish=self.published.append,
            metrics=metrics,
            error_log=ErrorLog(metrics, lambda _: None),
        )

    def see(self, partitions: int, end: int, topic_id: str | None = None) -> Probe | None:
        """Let a cycle find a topic; return what it published, null if nothing."""
        self.topics.topic = ProbedTopic("t", (1,) * partitions, topic_id)
        self.leaders.end = end
        self.published.clear()
        self.watch.cycle()
        return self.published[-1] if self.published else None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock of the watch, as the only element."""
    now = [1_000.0]
    monkeypatch.setattr("rebalance_exporters.prober.watch_offsets.time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def watched(clock: list[float]) -> _Watched:
    """A watch in which `t` has five partitions with a hundred records each."""
    found = _Watched()
    found.see(5, 100, "first")
    return found


def offsets(offset: int, partitions: int) -> dict[str, dict[str, int]]:
    """The same offset for each partition of `t`."""
    return {"t": {str(number): offset for number in range(partitions)}}


def delete_first(watched: _Watched) -> None:
    """Let a cycle find that the topic is deleted; brokers before 2.8 report no ids."""
    deleted = watched.see(0, 0)
    assert deleted is not None
    assert deleted.end_offsets == {"t": {}}


@pytest.mark.parametrize(
    ("before", "topic_id"),
    [(delete_first, None), (lambda _: None, "second"), (lambda _: None, None)],
    ids=["seen deleted", "another id", "without ids"],
)
def test_partitions_that_a_recreated_topic_lacks_are_not_published(
    watched: _Watched, clock: list[float], before: Callable[[_Watched], None], topic_id: str | None
) -> None:
    """Neither at once nor when everything is published again."""
    before(watched)
    recreated = watched.see(2, 3, topic_id)
    assert recreated is not None
    assert (recreated.end_offsets, recreated.stable_offsets) == (offsets(3, 2), offsets(3, 2))
    clock[0] += 2 * LONGEST_SECONDS
    again = watched.see(2, 3, topic_id)
    assert again is not None
    assert (again.end_offsets, again.start_offsets) == (offsets(3, 2), offsets(2, 2))


def test_a_recreated_topic_is_published_whole(watched: _Watched) -> None:
    """Also offsets that are the same as before, and at once where its partitions begin, which the old topic's hide."""
    recreated = watched.see(5, 100, "second")
    assert recreated is not None
    assert (recreated.end_offsets, recreated.start_offsets) == (offsets(100, 5), offsets(99, 5))


def test_a_topic_with_the_same_id_stays(watched: _Watched) -> None:
    """An id that one broker does not report is no other one."""
    assert [watched.see(5, 100, topic_id) for topic_id in ("first", None, "first")] == [None, None, None]
