"""What the stream asks at its start of brokers that are away, or not all there: it can wait for them."""

from __future__ import annotations

import pytest

from mock_cluster import MockCluster
from rebalance_kafka import reachability
from rebalance_kafka.reachability import NoAnswerError, Reachability
from rebalance_streaming import cluster as module
from rebalance_streaming.cluster import Cluster
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import AwayError, StreamError


def config_of(bootstrap: str) -> StreamConfig:
    """Settings that lead to brokers."""
    return StreamConfig(kafka={"bootstrap.servers": bootstrap})


def test_brokers_that_do_not_answer_may_come(monkeypatch: pytest.MonkeyPatch):
    """Whatever is asked of them; the sentence has what to check."""
    monkeypatch.setattr(reachability, "_REACH_SECONDS", 0.05)
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.05)
    cluster = Cluster(config_of("127.0.0.1:1"))
    with pytest.raises(AwayError, match=r"no Kafka broker answers at 127\.0\.0\.1:1 \(.*check kafka\.bootstrap"):
        cluster.check_reachable()
    with pytest.raises(AwayError, match="no broker tells which topics there are"):
        cluster.ensure_topics()


def test_a_refused_login_does_not_get_better(monkeypatch: pytest.MonkeyPatch):
    """It ends the start."""

    def refuse(_: Reachability) -> str:
        raise NoAnswerError("they do not accept each other", is_lasting=True)

    monkeypatch.setattr(Reachability, "ask", refuse)
    with pytest.raises(StreamError, match="they do not accept each other") as error:
        Cluster(config_of("127.0.0.1:1")).check_reachable()
    assert not isinstance(error.value, AwayError)


def test_partitions_without_a_leader_may_get_one(monkeypatch: pytest.MonkeyPatch):
    """As those of brokers that come one after the other."""
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.2)
    brokers = MockCluster()
    brokers.create("log")
    brokers.take_leader("log")
    with pytest.raises(AwayError, match=r"cannot look up the ends of log \(.*every partition has a leader"):
        Cluster(config_of(brokers.bootstrap)).log_ends("log")
