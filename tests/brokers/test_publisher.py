"""Rows reach the brokers eventually, despite rejections and a client in a fatal state."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from mock_cluster import INIT_PRODUCER_ID, MockCluster, break_down
from rebalance_contract.epochs import WRITER_HEADER, RowWriter
from rebalance_streaming.brokers import publisher as module
from rebalance_streaming.brokers.publisher import Publisher

#: The client of each test first looks for its topic.
pytestmark = pytest.mark.waits

LONG_SECONDS = 60.0
DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED
#: After this one the client does not query the topic's metadata again, which takes a moment.
REFUSED = KafkaError.POLICY_VIOLATION


class Published:
    """A publisher with the test's clock, and the records on brokers."""

    def __init__(self) -> None:
        self.cluster, self.said, self.now = MockCluster(), list[str](), 1_000.0
        for topic in ("a", "b"):
            self.cluster.create(topic)
        properties = {"bootstrap.servers": self.cluster.bootstrap, "log_level": "0"}
        writer = RowWriter("prod", "diagnosis", 7)
        self.publisher = Publisher(properties, self.said.append, writer, clock=lambda: self.now)

    def put(self, key: str, value: bytes | None, topic: str = "a") -> None:
        """Publish a row."""
        self.publisher.put(topic, key, value)

    def flush(self, later: float = 0.0) -> int:
        """Send the rows that are due; return the remaining number."""
        self.now += later
        return self.publisher.flush(LONG_SECONDS)

    def rows(self, topic: str = "a") -> list[tuple[bytes | None, bytes | None]]:
        """Return key and value of all records on brokers."""
        return [(key, value) for key, value, _ in self.cluster.records(topic)]


@pytest.fixture
def published() -> Published:
    return Published()


def test_the_latest_row_of_a_key_is_delivered_under_its_writers_name(published: Published):
    """A row that replaces a waiting one is sent instead of it; with another writer it has that one's name."""
    published.put("k", b"1")
    published.put("k", b"2")
    published.publisher.put("a", "l", None, RowWriter("prod", "membership", 8))
    assert published.flush() == 0
    names = {WRITER_HEADER: b"prod/diagnosis/7"}, {WRITER_HEADER: b"prod/membership/8"}
    assert published.cluster.records("a") == [(b"k", b"2", names[0]), (b"l", None, names[1])]


def test_a_refused_row_is_sent_again(published: Published):
    """After a pause, by itself: its caller considers it published."""
    published.cluster.refuse(REFUSED)
    published.put("k", b"1")
    assert published.flush() == 1
    assert published.rows() == []
    assert published.flush(later=0.5) == 1
    assert published.flush(later=0.6) == 0
    assert published.rows() == [(b"k", b"1")]


def test_one_topic_is_paused_and_one_line_says_so(published: Published):
    """For any number of keys; others continue, and after minutes it is logged again."""
    published.cluster.refuse(*[DENIED] * 1_000)
    for number in range(20):
        published.put(str(number), b"1")
    assert published.flush() == 20
    for _ in range(15):
        assert published.flush(later=60) == 20
    published.cluster.relent()
    published.put("k", b"1", topic="b")
    published.put("k", b"2")
    assert published.flush() == 21
    assert published.rows("b") == [(b"k", b"1")]
    assert len(published.said) == 2
    assert published.said[0].startswith("rows of a are refused, and sent again later: ")
    grant = "kafka-acls --bootstrap-server HOST:PORT --add --operation Write --operation Describe --topic a "
    assert grant in published.said[0]
    assert published.flush(later=60) == 0
    assert len(published.rows()) == 21


def test_pauses_grow_until_something_is_delivered(published: Published):
    """A second, two, four, and half a minute at most."""
    published.cluster.refuse(*[REFUSED] * 8)
    published.put("k", b"1")
    seconds = [0.9, 0.2, 1.9, 0.2, 3.9, 0.2, 7.9, 0.2, 15.9, 0.2, 29.9, 0.2, 29.9, 0.2, 29.9]
    assert [published.flush(later=each) for each in (0, *seconds)] == [1] * 16
    assert published.flush(later=0.2) == 0
    published.cluster.refuse(REFUSED)
    published.put("k", b"2")
    assert [published.flush(), published.flush(later=1)] == [1, 0]


def test_a_newer_row_is_not_replaced_by_a_refused_one(published: Published):
    """It waits while the older one is in flight, and is sent instead of it once that was rejected."""
    published.cluster.refuse(REFUSED)
    # So that it is in flight until the newer one waits.
    published.cluster.take_leader("a")
    published.put("k", b"1")
    published.publisher.send()
    published.put("k", b"2")
    published.publisher.send()
    assert published.publisher.waiting() == 2
    published.cluster.give_leader("a")
    assert [published.flush(), published.flush(later=1)] == [1, 0]
    assert published.rows() == [(b"k", b"2")]


def test_a_newer_row_of_a_key_follows_the_older_one(published: Published):
    """Both are delivered if the first one is in flight already, without another call."""
    published.put("k", b"1")
    published.publisher.send()
    published.put("k", b"2")
    assert published.flush() == 0
    assert published.rows() == [(b"k", b"1"), (b"k", b"2")]


def test_what_nobody_can_deliver_is_dropped(published: Published):
    """A row too large for the client, and one too large for the broker; logged in one line per topic."""
    for key in ("k", "l"):
        published.put(key, b"1" * 3_000_000)
    assert published.flush() == 0
    published.cluster.refuse(KafkaError.MSG_SIZE_TOO_LARGE)
    published.put("k", b"1", topic="b")
    assert published.flush() == 0
    assert [line.partition(" was refused: ")[0] for line in published.said] == [
        "a row of a with key k",
        "a row of b with key k",
    ]
    published.put("k", b"2")
    assert published.flush() == 0
    assert published.rows() == [(b"k", b"2")]


def test_a_client_that_cannot_go_on_is_replaced(published: Published):
    """Its pending rows, and those rejected since, are sent by the next one, of each key the newest."""
    # So that none of its rows is delivered before.
    published.cluster.take_leader("a")
    published.put("k", b"1")
    published.put("l", b"1")
    published.publisher.send()
    break_down(published.publisher._producer)
    published.put("k", b"2")
    published.put("m", b"1")
    published.publisher.send()
    assert published.flush() == 3
    published.cluster.give_leader("a")
    assert published.flush(later=1) == 0
    assert sorted(published.rows()) == [(b"k", b"2"), (b"l", b"1"), (b"m", b"1")]
    (line,) = published.said
    assert line.startswith("the Kafka client cannot go on, and another is made: ")


def test_a_user_who_may_write_nowhere_is_told_what_to_grant(published: Published):
    """Brokers refuse the client's id and name neither a topic nor the permission."""
    published.cluster.refuse(*[KafkaError.CLUSTER_AUTHORIZATION_FAILED] * 100, request=INIT_PRODUCER_ID)
    published.put("k", b"1", topic="b")
    published.put("k", b"1")
    assert published.flush() == 2
    (line,) = published.said
    assert "Cluster authorization failed; this user may write to no topic; grant it: kafka-acls " in line
    assert "--add --operation Write --operation Describe --topic a --topic b --allow-principal User:..." in line
    assert line.endswith("; brokers before 2.8 also need --operation IdempotentWrite --cluster")
    published.cluster.relent(INIT_PRODUCER_ID)
    assert published.flush(later=2) == 0


def test_clients_are_not_made_all_the_time(published: Published, monkeypatch: pytest.MonkeyPatch):
    """If each fails at once, as without any write permission, pauses grow as for a topic."""
    made = list[float]()

    def make(properties: Any) -> Producer:
        producer = Producer(properties)
        break_down(producer)
        made.append(published.now - 1_000)
        return producer

    monkeypatch.setattr(module, "Producer", make)
    break_down(published.publisher._producer)
    published.put("k", b"1")
    for _ in range(64):
        assert published.flush() == 1
        published.now += 1
    assert made == [1, 3, 7, 15, 31, 61]
    assert len(published.said) == 1
    monkeypatch.undo()
    assert published.flush(later=60) == 0


def test_a_client_that_cannot_be_made_is_tried_again(published: Published, monkeypatch: pytest.MonkeyPatch):
    """A certificate file may be missing while it is replaced."""

    def fail(_: Any) -> Producer:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG))

    monkeypatch.setattr(module, "Producer", fail)
    published.put("k", b"1")
    break_down(published.publisher._producer)
    assert [published.flush(), published.flush(later=1)] == [1, 1]
    monkeypatch.undo()
    assert published.flush(later=2) == 0
    assert published.rows() == [(b"k", b"1")]
    assert published.said[1].startswith("no other Kafka client can be made: ")


def test_what_is_left_at_the_end_is_said(published: Published):
    """Without waiting for the end of a pause."""
    published.cluster.refuse(REFUSED)
    published.put("k", b"1")
    published.publisher.close()
    assert published.said[-1].startswith("1 rows of the diagnosis could not be delivered")
