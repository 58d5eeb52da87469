"""A real broker's reports of a log that loses records, is recreated or grows, and the resulting incidents."""

import contextlib
import uuid
from collections.abc import Set

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from rebalance_deploy.embedded.kafka import SHORT_SESSION, EmbeddedKafka
from rebalance_deploy.ports import find_free_port
from rebalance_streaming.brokers.cluster import Cluster
from rebalance_streaming.brokers.log_watch import Ends, Incident, LogWatch, compare
from rebalance_streaming.config import StreamConfig
from waiting import wait_for

pytestmark = pytest.mark.broker


class Log:
    """A topic on a broker, its watch, and a reader that has read everything at each look."""

    def __init__(self, broker: EmbeddedKafka) -> None:
        self.topic = f"log-{uuid.uuid4().hex[:8]}"
        self.bootstrap = broker.bootstrap
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        self.cluster = Cluster(StreamConfig(kafka={"bootstrap.servers": broker.bootstrap}))
        self.watch = LogWatch("membership")
        self.positions: dict[int, int] = {}

    def create(self) -> None:
        self.admin.create_topics([NewTopic(self.topic, 2, 1)])[self.topic].result(120)
        self.wait_for_ends({0: Ends(0, 0), 1: Ends(0, 0)})

    def write(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for _ in range(count):
            producer.produce(self.topic, value=b"x", partition=0)
        assert producer.flush(120) == 0

    def wait_for_ends(self, ends: dict[int, Ends]) -> None:
        """Wait until the broker reports these bounds: it confirms a change before it propagates it."""
        wait_for(lambda: (found := self.look()) is not None and found.ends == ends, self.look)

    def look(self):
        return self.cluster.fetch_topic_states([self.topic]).get(self.topic)

    def compare(self, *, without: Set[int] = frozenset()) -> list[Incident]:
        """Compare once brokers have answered about every partition, except those without a leader."""

        def look():
            state = self.look()
            whole = state is not None and set(state.ends) == set(range(state.partition_count)) - without
            return state if whole else None

        state = wait_for(look, self.look)
        self.watch, reported = compare(self.watch, {self.topic: state}, {self.topic: self.positions})
        return list(reported)


@pytest.fixture
def log(any_broker) -> Log:
    """A topic of two partitions with ten records in its first, all read, on a broker of each version."""
    log = Log(any_broker)
    log.create()
    log.write(10)
    log.wait_for_ends({0: Ends(0, 10), 1: Ends(0, 0)})
    log.positions = {0: 10, 1: 0}
    assert log.compare() == []
    return log


def test_each_story_of_a_log_is_reported(log: Log):
    """Records deleted before they were read, partitions added, a recreated topic: each once, with its numbers."""
    log.write(10)
    log.admin.delete_records([TopicPartition(log.topic, 0, 15)])[TopicPartition(log.topic, 0)].result(120)
    log.wait_for_ends({0: Ends(15, 20), 1: Ends(0, 0)})
    (reported,) = log.compare()
    assert (reported.kind, reported.count, reported.partitions) == ("skipped", 5, (0,))
    assert log.compare() == []
    log.positions = {0: 20, 1: 0}

    log.admin.create_partitions([NewPartitions(log.topic, 3)])[log.topic].result(120)
    log.wait_for_ends({0: Ends(15, 20), 1: Ends(0, 0), 2: Ends(0, 0)})
    (reported,) = log.compare()
    assert (reported.kind, reported.partitions) == ("partitions_added", (2,))

    log.admin.delete_topics([log.topic])[log.topic].result(120)
    wait_for(lambda: (found := log.look()) is not None and found.partition_count == 0, log.look)
    assert log.compare() == []
    log.create()
    removed, reported = log.compare()
    assert (removed.kind, removed.partitions) == ("partitions_removed", (2,))
    assert (reported.kind, reported.partitions) == ("recreated", (0, 1))
    assert log.watch.eras(log.topic) == {0: 1, 1: 1}
    assert log.compare() == []
    log.positions = {0: 0, 1: 0}
    assert log.compare() == []
    totals = log.watch.topics[log.topic].totals
    assert (totals.skipped_records, totals.recreations, totals.rewinds, totals.added_partitions) == (5, 1, 0, 1)


def test_brokers_that_are_away_say_nothing():
    """A look without an answer ends in time, and says nothing about the log."""
    cluster = Cluster(StreamConfig(kafka={"bootstrap.servers": f"127.0.0.1:{find_free_port()}"}))
    assert cluster.fetch_topic_states(["log"]) == {}


def test_all_topics_are_looked_at_together(broker):
    """A missing one is reported, and does not prevent the others."""
    log = Log(broker)
    log.create()
    names = [log.topic, "nothing-here"]
    found = wait_for(lambda: len(each := log.cluster.fetch_topic_states(names)) == 2 and each, "an answer about both")
    assert {name: each.partition_count for name, each in found.items()} == {log.topic: 2, "nothing-here": 0}


def test_a_partition_without_a_leader_has_no_ends(tmp_path):
    """Its broker is down: librdkafka then reports -1001 as both ends, without an error; nothing was truncated."""
    with EmbeddedKafka(tmp_path, brokers=2, config=SHORT_SESSION) as brokers:
        log = Log(brokers)
        topic = NewTopic(log.topic, 2, replica_assignment=[[1], [2]])

        def is_created() -> bool:
            # A broker that stalled is not registered for a moment, and its partition is refused.
            with contextlib.suppress(KafkaException):
                log.admin.create_topics([topic])[log.topic].result(120)
            return log.topic in log.admin.list_topics(timeout=120).topics

        wait_for(is_created, "the topic")
        whole = {0: Ends(0, 10), 1: Ends(0, 0)}
        log.wait_for_ends({0: Ends(0, 0), 1: Ends(0, 0)})
        log.write(10)
        log.wait_for_ends(whole)
        assert log.compare() == []
        brokers.kill(2)
        seen = []

        def is_reported() -> bool:
            look = log.look()
            seen.append({} if look is None else dict(look.ends))
            return 1 not in seen[-1]

        wait_for(is_reported, lambda: f"no ends of partition 1, not {seen[-1]}", 120)
        assert all(each.items() <= whole.items() for each in seen)
        assert log.compare(without={1}) == []
