"""What the diagnosis reads from the monitor's own topics: the progress of queries, and its own earlier rows."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from rebalance_contract import GroupLag, QueryStatus, encode, group_key
from rebalance_contract.topics import LAG
from rebalance_deploy.topics import create_topics
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.diagnosis.inputs import StatusReader
from rebalance_streaming.diagnosis.restoring import read_restored
from waiting import wait_for

pytestmark = pytest.mark.broker


@pytest.fixture
def config(broker: Any) -> StreamConfig:
    """Settings of a monitor with the topics that are restored, of one partition each."""
    config = StreamConfig(kafka={"bootstrap.servers": broker.bootstrap}, topic_prefix=f"t{uuid.uuid4().hex[:8]}.")
    create_topics(broker.bootstrap, {config.status_topic: 1, LAG.full_name(config.topic_prefix): 1})
    return config


@pytest.fixture
def follow(config: StreamConfig) -> Iterator[Callable[..., StatusReader]]:
    """Follow the statuses of queries until the end of the test."""
    stop = threading.Event()

    def start(*queries: str) -> StatusReader:
        reader = StatusReader(config, queries)
        reader.follow(stop, pytest.fail)
        return reader

    yield start
    stop.set()


def produce(config: StreamConfig, topic: str, *rows: tuple[str, bytes]) -> None:
    """Write rows, given as key and value."""
    producer = Producer(dict(config.kafka))
    for key, value in rows:
        producer.produce(topic, value, key)
    assert producer.flush(60) == 0


def test_the_latest_status_of_the_wanted_queries_is_read(config, follow):
    """Rows of other clusters and queries, and invalid ones, are skipped; updates are returned as they are written."""
    status = QueryStatus(config.cluster, "activity", False, 1, 2, 500)
    others = (replace(status, cluster="another"), replace(status, query="membership"))
    reader = follow("activity")
    assert reader.read() == []
    produce(config, config.status_topic, *(("k", encode(each)) for each in (status, *others)), ("odd", b"{"))
    wait_for(lambda: reader.read() == [status], "the status")
    news = replace(status, caught_up=True, epoch=2)
    produce(config, config.status_topic, ("k", encode(news)))
    wait_for(lambda: reader.read() == [news], "the news")


def test_a_superseded_process_says_nothing_about_its_query(config, follow):
    """Its status is written after that of its successor."""
    owner = QueryStatus(config.cluster, "activity", True, 1, 2, 500, epoch=2)
    other = replace(owner, query="membership")
    reader = follow("activity", "membership")
    rows = (owner, replace(owner, updated_at_ms=3, epoch=1), other)
    produce(config, config.status_topic, *(("k", encode(each)) for each in rows))
    wait_for(lambda: reader.read() == [owner, other], reader.read)


def test_rows_are_taken_up_where_the_first_ones_are_gone(config):
    """Topics of bounded retention no longer begin at offset 0: the remaining rows are restored."""
    rows = [GroupLag(config.cluster, f"group-{number}", number, topics={}) for number in range(4)]
    named = [(group_key(each.cluster, each.group), encode(each)) for each in rows]
    odd = (group_key("another", "odd"), b"{"), (group_key(config.cluster, "odd"), b"{")
    produce(config, LAG.full_name(config.topic_prefix), *named, *odd)
    admin = AdminClient(dict(config.kafka))
    for future in admin.delete_records([TopicPartition(LAG.full_name(config.topic_prefix), 0, 2)]).values():
        future.result()
    unreadable: list[str] = []
    assert list(read_restored(config, unreadable.append)) == rows[2:]
    assert len(unreadable) == 1
    assert unreadable[0].startswith(f"{LAG.full_name(config.topic_prefix)}: not a valid GroupLag")
