"""Incidents of the inputs while a query is stopped and started again because of an earlier one."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rebalance_streaming.brokers.log_watch import Ends, TopicState, Unread
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.spark.inputs import WatchedInputs
from rebalance_streaming.spark.membership import MEMBERSHIP

_CONFIG = StreamConfig(cluster="prod", queries=(MEMBERSHIP,))
_LOG = _CONFIG.source_topic


class Renewal:
    """A query that has read the log up to 100 and has to be restarted.

    `topic` is the log's state on the brokers, `stopped_at` the query's position in its checkpoint once it is stopped.
    """

    def __init__(self) -> None:
        self.topic, self.stopped_at, self.said = TopicState(1, {0: Ends(0, 100)}, "one"), 100, list[str]()
        #: Called while the query is being stopped.
        self.meanwhile: Callable[[], None] = lambda: None
        cluster: Any = SimpleNamespace(fetch_topic_states=lambda _: {_LOG: self.topic})
        self.watched = WatchedInputs(_CONFIG, cluster, {0: 0}, (), lambda _: {_LOG: {0: self.stopped_at}})
        self.query: Any = SimpleNamespace(
            name=MEMBERSHIP,
            watch=SimpleNamespace(take_resumed=lambda: None, positions={_LOG: {0: 100}}, ends={}),
            renew=self._renew,
        )
        self.look()

    def look(self) -> list[str]:
        """Check the inputs and act on incidents; return their sentences."""
        self.said.clear()
        self.watched.look([self.query], self.said.append)
        self.watched._watcher.check_once()
        self.watched.look([self.query], self.said.append)
        return [*self.said]

    def _renew(self) -> None:
        self.meanwhile()
        # As in its next start, which follows at once.
        self.query.watch.positions = {}


@pytest.fixture
def renewal() -> Renewal:
    """Before the restart."""
    return Renewal()


def recreate(renewal: Renewal, topic_id: str = "two") -> None:
    """Delete the log and create it again, with 30 records."""
    renewal.topic = TopicState(2, {0: Ends(0, 30), 1: Ends(0, 0)}, topic_id)


def test_a_topic_recreated_after_the_stop_is_read_from_its_start(renewal: Renewal) -> None:
    """The query has not reported a position yet; its checkpoint has one."""
    renewal.topic = TopicState(2, {0: Ends(0, 100), 1: Ends(0, 0)}, "one")
    renewal.look()
    recreate(renewal)
    renewal.look()
    assert renewal.watched.unread(MEMBERSHIP)[_LOG][0] == Unread(begin=0, stood_at=100)


def test_a_topic_recreated_during_the_stop_is_read_from_its_start(renewal: Renewal) -> None:
    """The check in between does not know where the query will stop; the next one does."""

    def recreate_and_check() -> None:
        recreate(renewal)
        renewal.watched._watcher.check_once()
        renewal.stopped_at = 110

    renewal.topic, renewal.meanwhile = TopicState(2, {0: Ends(0, 110), 1: Ends(0, 0)}, "one"), recreate_and_check
    renewal.look()
    renewal.meanwhile = lambda: None
    assert any("was deleted and recreated" in each for each in renewal.look())
    assert renewal.watched.unread(MEMBERSHIP)[_LOG][0] == Unread(begin=0, stood_at=110)


def test_a_topic_recreated_twice_is_read_from_its_start(renewal: Renewal) -> None:
    """The query still stands in the first one: the second one is unread, too."""
    recreate(renewal)
    renewal.look()
    recreate(renewal, "three")
    renewal.look()
    assert renewal.watched.eras(MEMBERSHIP)[0].number == 2
    assert renewal.watched.unread(MEMBERSHIP)[_LOG][0] == Unread(begin=0, stood_at=100)


def test_records_behind_which_a_stopped_query_continues_are_counted(renewal: Renewal) -> None:
    """The new topic is longer than the old one, so that the query is not moved."""
    renewal.topic = TopicState(2, {0: Ends(0, 100), 1: Ends(0, 0)}, "one")
    renewal.look()
    renewal.topic = TopicState(2, {0: Ends(0, 150), 1: Ends(0, 0)}, "two")
    renewal.look()
    renewal.query.watch.positions = {_LOG: {0: 100}}
    assert any("lost 100 positions before the membership query" in each for each in renewal.look())


def test_an_undisturbed_restart_counts_nothing(renewal: Renewal) -> None:
    """The query continues where it stopped, while the log grows."""
    renewal.topic = TopicState(2, {0: Ends(0, 100), 1: Ends(0, 0)}, "one")
    renewal.look()
    renewal.topic = TopicState(2, {0: Ends(50, 170), 1: Ends(0, 5)}, "one")
    assert renewal.look() == []
    renewal.query.watch.positions = {_LOG: {0: 170, 1: 5}}
    assert renewal.look() == []
    assert renewal.watched.unread(MEMBERSHIP) == {}
