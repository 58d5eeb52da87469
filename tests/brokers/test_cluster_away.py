"""The stream's requests at its start to brokers that are down, or not all there: it can wait for them."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection

from mock_cluster import MockCluster
from rebalance_kafka import reachability
from rebalance_kafka.reachability import NoAnswerError, Reachability
from rebalance_streaming.brokers import cluster as module
from rebalance_streaming.brokers.cluster import Cluster
from rebalance_streaming.brokers.log_watch import Ends
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import BrokersUnreachableError, StreamError


def config_of(bootstrap: str) -> StreamConfig:
    """Return settings with the addresses of brokers."""
    return StreamConfig(kafka={"bootstrap.servers": bootstrap})


def test_brokers_that_do_not_answer_may_come(monkeypatch: pytest.MonkeyPatch):
    """For any request; the message has what to check."""
    monkeypatch.setattr(reachability, "_REACH_SECONDS", 0.05)
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.05)
    cluster = Cluster(config_of("127.0.0.1:1"))
    with pytest.raises(
        BrokersUnreachableError, match=r"no Kafka broker answers at 127\.0\.0\.1:1 \(.*check kafka\.bootstrap"
    ):
        cluster.check_reachable()
    with pytest.raises(BrokersUnreachableError, match="no broker reports which topics there are"):
        cluster.ensure_topics()


def test_a_refused_login_does_not_get_better(monkeypatch: pytest.MonkeyPatch):
    """It ends the start."""

    def refuse(_: Reachability) -> str:
        raise NoAnswerError("they do not accept each other", is_lasting=True)

    monkeypatch.setattr(Reachability, "ask", refuse)
    with pytest.raises(StreamError, match="they do not accept each other") as error:
        Cluster(config_of("127.0.0.1:1")).check_reachable()
    assert not isinstance(error.value, BrokersUnreachableError)


def test_partitions_without_a_leader_may_get_one(monkeypatch: pytest.MonkeyPatch):
    """For example while brokers start one after the other."""
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.2)
    brokers = MockCluster()
    brokers.create("log")
    brokers.take_leader("log")
    with pytest.raises(
        BrokersUnreachableError, match=r"cannot look up the ends of log \(.*every partition has a leader"
    ):
        Cluster(config_of(brokers.bootstrap)).log_ends("log")


def test_a_topic_of_which_no_partition_is_known_yet_may_come(monkeypatch: pytest.MonkeyPatch):
    """A broker that has just started does not know it: a query must not be started without the topic."""
    monkeypatch.setattr(Cluster, "_list_topics", lambda *_: {})
    cluster = Cluster(config_of("127.0.0.1:1"))
    for ask in (cluster.log_ends, lambda topic: cluster.recent_offsets(topic, 10)):
        with pytest.raises(BrokersUnreachableError, match=r"no broker reports the partitions of log;.*grant DESCRIBE"):
            ask("log")


def test_a_time_is_looked_up_in_the_partitions_whose_ends_are_known(monkeypatch: pytest.MonkeyPatch):
    """They are not asked for again, because another broker may know fewer."""
    monkeypatch.setattr(module, "AdminClient", _Admin)
    monkeypatch.setattr(_Admin, "offset", 7)
    cluster = Cluster(config_of("127.0.0.1:1"))
    assert cluster.offsets_at("log", 1_000, {0: 9, 3: 9}) == {0: 7, 3: 7}
    monkeypatch.setattr(_Admin, "offset", -1)
    assert cluster.offsets_at("log", 1_000, {0: 9, 3: 8}) == {0: 9, 3: 8}


class _Admin:
    """A librdkafka client; the first one waits for a controller that is gone, and each takes one partition's end."""

    made: int = 0
    offset: int = 7

    def __init__(self, _: Any) -> None:
        type(self).made += 1
        self.number = type(self).made
        self.asked: list[tuple[str, int]] = []

    def describe_topics(self, topics: TopicCollection, **_: Any) -> dict[str, Future[Any]]:
        answer: Future[Any] = Future()
        if self.number == 1:
            answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        else:
            led = [SimpleNamespace(id=0, leader="a broker"), SimpleNamespace(id=1, leader=None)]
            answer.set_result(SimpleNamespace(topic_id="id", partitions=led))
        return {"log": answer}

    def list_offsets(self, places: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        self.asked += [(at.topic, at.partition) for at in places]
        answers: dict[Any, Future[Any]] = {at: Future() for at in places}
        for each in answers.values():
            each.set_result(SimpleNamespace(offset=self.offset))
        return answers


def test_a_controller_that_is_gone_is_not_asked_again(monkeypatch: pytest.MonkeyPatch):
    """A new client looks up the current one; ends are requested from partitions with a leader."""
    monkeypatch.setattr(module, "AdminClient", _Admin)
    monkeypatch.setattr(_Admin, "made", 0)
    cluster = Cluster(config_of("127.0.0.1:1"))
    for _ in range(2):
        found = cluster.fetch_topic_states(["log"])["log"]
        assert (found.partition_count, found.ends) == (2, {0: Ends(7, 7)})
    assert _Admin.made == 2
    assert isinstance(cluster._admin, _Admin)
    assert cluster._admin.asked == [("log", 0)] * 4
