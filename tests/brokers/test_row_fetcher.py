"""Single rows are read by their positions, whatever has been removed around them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from mock_cluster import MockCluster
from rebalance_streaming.brokers import row_fetcher
from rebalance_streaming.brokers.row_fetcher import RowFetcher
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.errors import BrokersUnreachableError


def test_rows_of_several_topics_are_fetched_by_their_places():
    """With one client; a fetch for nothing needs none."""
    brokers = MockCluster()
    config = StreamConfig(kafka={"bootstrap.servers": brokers.bootstrap})
    producer = Producer(dict(config.kafka))
    for topic in ("groups", "rebalances"):
        brokers.create(topic)
        for number in range(20):
            producer.produce(topic, f"{topic} {number}", partition=0)
    assert producer.flush(60) == 0
    with RowFetcher(config) as fetcher:
        assert fetcher.fetch([]) == {}
        assert fetcher._consumer is None
        places = [("groups", 0, 3), ("rebalances", 0, 19), ("groups", 0, 7)]
        assert fetcher.fetch(places) == {
            ("groups", 0, 3): b"groups 3",
            ("groups", 0, 7): b"groups 7",
            ("rebalances", 0, 19): b"rebalances 19",
        }
        assert fetcher.fetch(places[:1]) == {("groups", 0, 3): b"groups 3"}
    assert fetcher._consumer is None


class Client:
    """A Kafka client that returns these messages, given as (offset, value), or (offset, error code)."""

    def __init__(self, *messages: tuple[int, bytes | int]) -> None:
        self._messages = [*messages]
        self.assigned = -1

    def assign(self, partitions: Any) -> None:
        self.assigned = partitions[0].offset

    def unassign(self) -> None:
        """Do nothing."""

    def incremental_unassign(self, _partitions: Any) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def poll(self, _seconds: float) -> Any:
        if not self._messages:
            return None
        offset, value = self._messages.pop(0)
        error = KafkaError(value) if isinstance(value, int) else None
        return SimpleNamespace(
            topic=lambda: "groups",
            partition=lambda: 0,
            offset=lambda: offset,
            error=lambda: error,
            value=lambda: value if error is None else b"a text",
        )


def fetch(client: Client, *offsets: int) -> dict[int, bytes]:
    """Return the values that are fetched of one partition with this client."""
    fetcher, made = RowFetcher(StreamConfig()), client
    consumer: Any = made
    fetcher._consumer = consumer
    found = fetcher.fetch([("groups", 0, offset) for offset in offsets])
    return {place[2]: value for place, value in found.items()}


def test_rows_that_are_gone_are_left_out():
    """Compaction has removed one in between, or the last ones before the end of the partition."""
    client = Client((4, b"d"), (7, b"g"), (8, b"h"))
    assert fetch(client, 7, 4, 5) == {4: b"d", 7: b"g"}
    assert client.assigned == 4
    assert fetch(Client((4, b"d"), (9, b"i")), 4, 8) == {4: b"d"}
    assert fetch(Client((4, b"d"), (9, KafkaError._PARTITION_EOF)), 4, 8) == {4: b"d"}


def test_a_partition_that_is_shorter_for_now_is_no_reason_to_leave_rows_out():
    """It has another leader: the query is started again and reads the recent past."""
    with pytest.raises(BrokersUnreachableError, match="rows of groups-0 cannot be read"):
        fetch(Client((4, b"d"), (5, KafkaError._PARTITION_EOF)), 4, 8)


def test_errors_of_the_client_may_pass():
    """It goes on by itself."""
    assert fetch(Client((-1001, KafkaError._TRANSPORT), (4, b"d")), 4) == {4: b"d"}


def test_brokers_that_do_not_answer_end_a_fetch(monkeypatch: pytest.MonkeyPatch):
    """As an error that the supervision handles."""
    monkeypatch.setattr(row_fetcher, "_SILENT_SECONDS", 0.01)
    config = replace(StreamConfig(), kafka={"bootstrap.servers": "127.0.0.1:1"})
    with RowFetcher(config) as fetcher, pytest.raises(BrokersUnreachableError, match="grant READ"):
        fetcher.fetch([("groups", 0, 1)])
