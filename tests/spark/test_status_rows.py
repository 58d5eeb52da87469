"""Rows that the application itself publishes: the health of its queries, and the eras of their inputs."""

from __future__ import annotations

import pytest

from mock_cluster import MockCluster, break_down
from rebalance_contract import LogTotals, QueryStatus, decode_status
from rebalance_contract.epochs import WRITER_HEADER
from rebalance_streaming.brokers.publisher import Publisher
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.spark import job
from rebalance_streaming.spark.startup import Listeners


@pytest.mark.waits
def test_a_client_that_cannot_go_on_ends_no_stream():
    """Its pending statuses and eras are published by the next client, the latest of each key."""
    cluster, said, now = MockCluster(), list[str](), [1_000.0]
    config = StreamConfig(kafka={"bootstrap.servers": cluster.bootstrap}, cluster="prod")
    cluster.create(config.status_topic)
    publisher = Publisher({**config.kafka, "log_level": "0"}, said.append, clock=lambda: now[0])
    to = job._Publishing(config, publisher, Listeners(said.append, said.append, lambda _: None), 7)
    break_down(publisher._producer)
    to.publish_totals([LogTotals("prod", "activity", 5)])
    for at_ms in (1, 2):
        to.publish(QueryStatus("prod", "membership", True, 1, at_ms, 500, epoch=7))
    now[0] += 1
    assert publisher.flush(60) == 0
    records = cluster.records(config.status_topic)
    assert [(key, headers[WRITER_HEADER]) for key, _, headers in records] == [
        (b"prod/log/activity", b"prod/activity/7"),
        (b"prod/query/membership", b"prod/membership/7"),
    ]
    assert [decode_status(value or b"").updated_at_ms for _, value, _ in records] == [5, 2]
    assert len(said) == 1
