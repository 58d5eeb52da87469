"""Which of the published statuses counts, and that brokers that are away hold up nobody."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from mock_cluster import MockCluster
from rebalance_contract import LogTotals, QueryStatus, encode
from rebalance_kafka.follower import Record
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.diagnosis.inputs import StatusReader
from waiting import wait_for

CONFIG = StreamConfig(cluster="prod")
STATUS = QueryStatus("prod", "activity", True, 1, 2, 500, epoch=2)


def records(*values: bytes | None) -> list[Record]:
    """Return records of the status topic."""
    return [Record(CONFIG.status_topic, 0, offset, 1, b"k", value, ()) for offset, value in enumerate(values)]


def test_the_latest_status_of_a_wanted_query_counts():
    """Not that of a superseded process, of another cluster or of another query; odd rows are skipped."""
    reader = StatusReader(CONFIG, ["activity"])
    news = replace(STATUS, caught_up=False)
    skipped = (replace(news, epoch=1), replace(news, cluster="another"), replace(news, query="membership"))
    reader.take(records(encode(STATUS), *map(encode, skipped), b"{", None, encode(LogTotals("prod", "activity", 5))))
    assert reader.read() == [STATUS]
    reader.take(records(encode(news)))
    assert reader.read() == [news]


@pytest.mark.waits
def test_statuses_are_read_once_brokers_answer():
    """They were away at the start: nothing waits for them, and nothing fails."""
    brokers, stop = MockCluster(), threading.Event()
    brokers.create(CONFIG.status_topic)
    brokers.take_leader(CONFIG.status_topic)
    reader = StatusReader(replace(CONFIG, kafka={"bootstrap.servers": brokers.bootstrap}), ["activity"])
    reader.follow(stop, pytest.fail)
    assert reader.read() == []
    brokers.give_leader(CONFIG.status_topic)
    producer = Producer({"bootstrap.servers": brokers.bootstrap})
    producer.produce(CONFIG.status_topic, encode(STATUS), "k")
    assert producer.flush(60) == 0
    wait_for(lambda: reader.read() == [STATUS], "the status")
    stop.set()
