from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from mock_cluster import MockCluster
from rebalance_deploy.topics import create_topics
from rebalance_kafka import follower as module
from rebalance_kafka.follower import Follower, Record, UnreadError, keep_latest, read_to_end
from rebalance_kafka.positions import start_at_end
from waiting import wait_for

DEADLINE_SECONDS = 300
NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


class ScriptedClient:
    """A consumer that answers from lists: topics as name -> leaders of its partitions, batches of messages.

    A topic without partitions is one that the brokers cannot describe.
    """

    def __init__(self, topics: dict[str, list[int]], batches: Iterable[list[Message]] = ()) -> None:
        self.topics, self.batches = topics, list(batches)
        self.assigned: dict[tuple[str, int], int] = {}
        self.properties: dict[str, Any] = {}

    def __call__(self, properties: dict[str, Any], **_: object) -> ScriptedClient:
        self.properties = properties
        return self

    def list_topics(self, timeout: float) -> SimpleNamespace:
        assert timeout > 0
        topics = {
            name: SimpleNamespace(
                error=None if all_ else "?", partitions={n: SimpleNamespace(leader=led) for n, led in enumerate(all_)}
            )
            for name, all_ in self.topics.items()
        }
        return SimpleNamespace(topics=topics)

    def get_watermark_offsets(self, at: TopicPartition, timeout: float) -> tuple[int, int] | None:
        assert self.topics[at.topic][at.partition] >= 0, "a partition without a leader is not asked for"
        return (0, 2) if at.topic != "silent" else None

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = {(each.topic, each.partition): each.offset for each in partitions}

    def consume(self, limit: int, timeout: float) -> list[Message]:
        assert limit > 0
        assert timeout >= 0
        return self.batches.pop(0) if self.batches else []

    def poll(self, timeout: float) -> None:
        assert not self.assigned, "a record would be lost"

    def close(self) -> None:
        pass


def scripted(monkeypatch: pytest.MonkeyPatch, client: ScriptedClient, **options: Any) -> Follower:
    """A follower with a client of the test, of the topic `a`, that checks at each poll while something is awaited."""
    monkeypatch.setattr(module, "Consumer", client)
    monkeypatch.setattr(module, "_LOOK_AGAIN_SECONDS", 0)
    return Follower({}, options.pop("topics", ["a"]), name="test", **options)


def message(offset: int, error: int | None = None, topic: str = "a") -> Message:
    """A record of partition 0 without key and value, or an error."""
    return Message(topic, 0, offset, error=None if error is None else KafkaError(error))


def test_a_partition_without_a_leader_holds_up_nobody(monkeypatch):
    """The others are read meanwhile, the end is not reached without it, and it is read once it has a leader."""
    client = ScriptedClient({"a": [-1, 1]}, [[], [], [Message("a", n, 2, error=KafkaError(-191)) for n in (0, 1)]])
    follower = scripted(monkeypatch, client)
    follower.poll()
    assert client.assigned == {("a", 1): 0}
    assert not follower.at_end
    client.topics["a"][0] = 1
    follower.poll()
    assert client.assigned == {("a", 1): 0, ("a", 0): 0}
    follower.poll()
    assert follower.at_end


def test_a_partition_that_loses_its_leader_is_kept(monkeypatch):
    """It continues at its position when it has a leader again."""
    client = ScriptedClient({"a": [1], "b": []}, [[message(0)]])
    follower = scripted(monkeypatch, client, topics=["a", "b"])
    follower.poll()
    client.topics["a"][0] = -1
    follower.poll()
    client.topics["a"].append(1)
    follower.poll()
    assert client.assigned == {("a", 0): 1, ("a", 1): 0}


def test_a_topic_that_cannot_be_described_is_kept(monkeypatch):
    """Only a topic that is gone is dropped: then it is reported as missing, and read again when it is back."""
    client = ScriptedClient({"a": [1], "b": [1]}, [[message(0)]])
    monkeypatch.setattr(module, "_LOOK_FOR_GROWTH_SECONDS", 0)
    follower = scripted(monkeypatch, client, topics=["a", "b"])
    follower.poll()
    client.topics["a"] = []
    follower.poll()
    assert (follower.missing, client.assigned) == ((), {("a", 0): 0, ("b", 0): 0})
    assert follower.positions.read == 1
    del client.topics["a"]
    follower.poll()
    assert (follower.missing, client.assigned) == (("a",), {("b", 0): 0})
    client.topics["a"] = [1]
    follower.poll()
    assert (follower.missing, client.assigned) == ((), {("a", 0): 0, ("b", 0): 0})
    assert follower.positions.read == 0


def test_errors_are_handed_on_with_their_topic(monkeypatch):
    """An error is reported once, lasts until something is read again, and does not hide the records beside it."""
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    reported: list[tuple[int, str | None]] = []
    client = ScriptedClient({"a": [1]}, [[message(0), message(0, denied, topic="b")], [message(2, -191)]])
    follower = scripted(monkeypatch, client, on_error=lambda error, topic: reported.append((error.code(), topic)))
    assert [each.offset for each in follower.poll()] == [0]
    assert reported == [(denied, "b")]
    assert follower.error is not None
    assert follower.error.code() == denied
    assert follower.poll() == []
    assert follower.error is None
    assert len(reported) == 1


def test_a_look_that_fails_is_repeated(monkeypatch):
    """If a partition's bounds are unknown, a poll records the error and a look raises it; the next one may work."""
    reported: list[int] = []
    client = ScriptedClient({"silent": [1]})
    follower = scripted(monkeypatch, client, topics=["silent"], on_error=lambda error, _: reported.append(error.code()))
    assert follower.poll() == []
    assert reported == [KafkaError._TIMED_OUT]
    assert follower.is_look_due
    assert not follower.at_end
    with pytest.raises(KafkaException):
        follower.look()
    monkeypatch.setattr(client, "get_watermark_offsets", lambda *_, **__: (0, 0))
    follower.look()
    assert follower.at_end


def test_a_partition_whose_leader_is_just_elected_is_awaited(monkeypatch):
    """A broker does not return the bounds of one partition: the others are read, and it is read at a later look."""
    client = ScriptedClient({"a": [1, 1]})
    bounds = client.get_watermark_offsets

    def refuse(place: TopicPartition, **options: Any) -> tuple[int, int] | None:
        if place.partition == 1:
            raise KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))
        return bounds(place, **options)

    monkeypatch.setattr(client, "get_watermark_offsets", refuse)
    follower = scripted(monkeypatch, client)
    follower.look()
    assert (client.assigned, follower.at_end) == ({("a", 0): 0}, False)
    monkeypatch.setattr(client, "get_watermark_offsets", bounds)
    follower.look()
    assert client.assigned == {("a", 0): 0, ("a", 1): 0}


# --- Up to the end, or not at all ---


class Clock:
    """A clock that advances with the polls of a scripted client, by `seconds` each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, client: ScriptedClient, seconds: float) -> None:
        self.now, self._seconds, self._consume = 1_000.0, seconds, client.consume
        monkeypatch.setattr(module, "Consumer", client)
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(client, "consume", self._wait)

    def _wait(self, limit: int, timeout: float) -> list[Message]:
        self.now += self._seconds
        return self._consume(limit, timeout)


def read(client: ScriptedClient) -> list[int]:
    """Read the topics of a client to their ends; return the offsets."""
    return [each.offset for each in read_to_end({}, sorted(client.topics), name="test")]


def test_a_partition_without_a_leader_is_no_end(monkeypatch):
    """The result would be incomplete: the error names the remaining partitions, and what to check."""
    client = ScriptedClient({"a": [1, -1], "b": [1]}, [[message(0), message(1)]])
    Clock(monkeypatch, client, 5)
    with pytest.raises(
        UnreadError, match=r"^a-1, b-0 could not be read to the end: nothing came for 30 s.*has a leader"
    ):
        read(client)


def test_a_leader_that_is_elected_meanwhile_is_waited_for(monkeypatch):
    """Elections take seconds, and reading begins only afterwards."""
    client = ScriptedClient({"a": [-1]}, [[]] * 9)
    clock = Clock(monkeypatch, client, 3)

    def elect(now: float = clock.now + 25) -> SimpleNamespace:
        if clock.now > now and not client.batches:
            client.topics["a"], client.batches = [1], [[message(0)], [message(1)]]
        return SimpleNamespace(topics=listed(timeout=1).topics)

    listed = client.list_topics
    monkeypatch.setattr(client, "list_topics", lambda timeout: elect())
    assert read(client) == [0, 1]


def test_a_topic_that_brokers_cannot_describe_is_no_empty_one(monkeypatch):
    """It exists, so it may have records; one that no broker knows has none."""
    client = ScriptedClient({"a": []})
    Clock(monkeypatch, client, 5)
    with pytest.raises(UnreadError, match=r"^a could not be read"):
        read(client)
    del client.topics["a"]
    assert list(read_to_end({}, ["a"], name="test")) == []


def test_slow_brokers_are_not_given_up(monkeypatch):
    """Each record, and each end that is reached, restarts the time-out; the reader's own processing does not count."""
    ends = [Message("a", n, 2, error=KafkaError(-191)) for n in (1, 2)]
    client = ScriptedClient({"a": [1, 1, 1]}, [[], [ends[0]], [], [ends[1]], [], [message(0)], [], [message(1)]])
    clock = Clock(monkeypatch, client, 20)
    found = []
    for record in read_to_end({}, ["a"], name="test"):
        found.append(record.offset)
        clock.now += 600
    assert found == [0, 1]


def test_an_end_without_a_record_is_one(monkeypatch):
    """After compaction or a transaction the last record may be below the end that the broker reports."""
    client = ScriptedClient({"a": [1]}, [[message(0)], [message(2, -191)]])
    Clock(monkeypatch, client, 5)
    assert read(client) == [0]


def test_what_the_client_complains_of_is_in_the_error(monkeypatch):
    """Without the permission a reader gets no other information."""
    client = ScriptedClient({"a": [1]}, [[message(0, KafkaError.TOPIC_AUTHORIZATION_FAILED)]])
    Clock(monkeypatch, client, 5)
    with pytest.raises(UnreadError, match=r"a-0 could not be read to the end.*\(.*uthoriz"):
        keep_latest(read_to_end({}, ["a"], name="test"))


@pytest.mark.waits
def test_a_real_client_waits_for_a_leader_and_says_where_none_came(monkeypatch):
    """A partition that lost its leader is read once it has one again, and is never taken for an empty one."""
    cluster = MockCluster()
    cluster.create("a")
    produce(cluster, "a", b"1")
    kafka, found = {"bootstrap.servers": cluster.bootstrap}, dict[tuple[str, bytes], bytes]()
    cluster.take_leader("a")
    # The reader must not give up before this machine restores the leader.
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", 600.0)
    reading = threading.Thread(target=lambda: found.update(keep_latest(read_to_end(kafka, ["a"], name="test"))))
    reading.start()
    reading.join(0.5)
    assert reading.is_alive()
    cluster.give_leader("a")
    reading.join(DEADLINE_SECONDS)
    assert found == {("a", b"k"): b"1"}
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", 0.5)
    cluster.take_leader("a")
    with pytest.raises(UnreadError, match="a-0 could not be read to the end"):
        keep_latest(read_to_end(kafka, ["a"], name="test"))


def test_of_many_partitions_some_are_named(monkeypatch):
    """The error stays on one line."""
    client = ScriptedClient({"a": [-1] * 12})
    Clock(monkeypatch, client, 5)
    with pytest.raises(UnreadError, match=r"^a-0, .*, a-9 and 2 more could not"):
        read(client)


def test_what_makes_it_leave_traces_cannot_be_set(monkeypatch):
    """Nothing is committed, whatever the settings; the group id, which is not used by a group, is left to them."""
    client = ScriptedClient({})
    monkeypatch.setattr(module, "Consumer", client)
    Follower({"enable.auto.commit": "true", "auto.offset.reset": "latest", "group.id": "g"}, ["a"], name="test")
    assert client.properties["enable.auto.commit"] is False
    assert client.properties["enable.auto.offset.store"] is False
    assert client.properties["auto.offset.reset"] == "earliest"
    assert client.properties["group.id"] == "g"


def test_unknown_properties_are_refused():
    """The client's own message names the property."""
    with pytest.raises(KafkaException, match=r"session\.timeout"):
        Follower({**NOWHERE, "session.timeout": "1"}, ["a"], name="test")


@pytest.mark.waits
def test_brokers_that_do_not_answer_are_an_error():
    """A look raises, with more than the fact of the time-out."""
    with closing(Follower(NOWHERE, ["a"], name="test")) as follower:
        with pytest.raises(KafkaException):
            follower.look(0.5)
        assert follower.error is not None
        assert follower.missing == ("a",)
        assert not follower.at_end


@pytest.fixture
def topic() -> str:
    """A topic for one test."""
    return f"follower-test-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def growing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check for new partitions all the time."""
    monkeypatch.setattr(module, "_LOOK_FOR_GROWTH_SECONDS", 0.2)


def produce(broker: Any, topic: str, *values: bytes | None, partition: int = 0) -> None:
    """Write values under the key `k`."""
    failed: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value, b"k", partition, on_delivery=lambda error, _: error and failed.append(error))
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert not failed


def delete_before(broker: Any, topic: str, offset: int) -> None:
    """Delete the first records of partition 0, as retention does."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result()


def read_until(follower: Follower, wanted: list[bytes]) -> None:
    """Read until these values have come, and nothing else."""
    found: list[bytes | None] = []
    wait_for(lambda: found.extend(each.value for each in follower.poll()) or len(found) >= len(wanted), lambda: found)
    assert found == wanted


@pytest.fixture
def following(broker: Any) -> Iterator[Any]:
    """Return a function that makes followers, which are closed at the end."""
    made: list[Follower] = []

    def make(*topics: str, **options: Any) -> Follower:
        kafka = {"bootstrap.servers": broker.bootstrap, **options.pop("kafka", {})}
        made.append(Follower(kafka, topics, name="test", **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.broker
@pytest.mark.usefixtures("growing")
def test_topics_and_partitions_may_come_later(broker, topic, following):
    """Missing topics are awaited and not created, and added ones are read, without reading anything twice."""
    follower = following(topic, start=start_at_end)
    follower.look()
    assert follower.poll() == []
    assert follower.missing == (topic,)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert topic not in admin.list_topics(timeout=DEADLINE_SECONDS).topics
    create_topics(broker.bootstrap, {topic: 1})
    produce(broker, topic, b"1")
    read_until(follower, [b"1"])
    assert follower.missing == ()
    for future in admin.create_partitions([NewPartitions(topic, 2)]).values():
        future.result()
    # The broker confirms a partition before it lists it.
    listed = partial(admin.list_topics, topic, timeout=DEADLINE_SECONDS)
    wait_for(lambda: len(listed().topics[topic].partitions) == 2, "the partition")
    produce(broker, topic, b"2", partition=1)
    read_until(follower, [b"2"])
    produce(broker, topic, b"3")
    read_until(follower, [b"3"])


@pytest.mark.broker
def test_from_the_end_only_news_is_read(broker, topic, following):
    """Existing records are skipped; a topic that is not needed is at its end at once."""
    create_topics(broker.bootstrap, {topic: 1})
    produce(broker, topic, b"old")
    follower = following(topic, start=start_at_end)
    follower.look()
    assert follower.at_end
    produce(broker, topic, b"new")
    read_until(follower, [b"new"])


@pytest.mark.broker
def test_a_poll_is_bounded(broker, topic, following):
    """A poll returns no more records than requested; the rest comes with the next."""
    create_topics(broker.bootstrap, {topic: 1})
    produce(broker, topic, *(b"%d" % number for number in range(5)))
    follower = following(topic)
    sizes: list[int] = []
    wait_for(lambda: sizes.append(len(follower.poll(0.2, limit=2))) or sum(sizes) == 5, lambda: sizes)
    assert max(sizes) <= 2


@pytest.mark.broker
def test_a_record_has_what_was_written(broker, topic):
    """Key, value, time, headers, partition and offset are unchanged."""
    create_topics(broker.bootstrap, {topic: 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, None, b"k", timestamp=7, headers=[("h", b"1"), ("h", None)])
    producer.flush(DEADLINE_SECONDS)
    kafka = {"bootstrap.servers": broker.bootstrap}
    assert list(read_to_end(kafka, [topic], name="test")) == [
        Record(topic, 0, 0, 7, b"k", None, (("h", b"1"), ("h", None)))
    ]


@pytest.mark.broker
def test_a_topic_may_end_without_a_record(broker, topic):
    """Empty partitions, transaction markers and deleted records do not prevent the end; nor do missing topics."""
    create_topics(broker.bootstrap, {topic: 2, f"{topic}-emptied": 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"1", partition=0)
    producer.commit_transaction()
    # The broker confirms a commit before it writes the marker, up to which committed records are read.
    kafka = {"bootstrap.servers": broker.bootstrap, "group.id": "unused"}
    with closing(Consumer(kafka)) as consumer:
        committed = partial(consumer.get_watermark_offsets, TopicPartition(topic, 0), timeout=DEADLINE_SECONDS)
        wait_for(lambda: committed() == (0, 2), committed)
    produce(broker, f"{topic}-emptied", b"2", b"3")
    delete_before(broker, f"{topic}-emptied", 2)
    topics = [topic, f"{topic}-emptied", f"{topic}-missing"]
    found = read_to_end({"bootstrap.servers": broker.bootstrap}, topics, name="test")
    assert [each.value for each in found] == [b"1"]


@pytest.mark.broker
def test_an_open_transaction_ends_what_is_committed(broker, topic, following):
    """A read-committed reader is at the end before it; a read-uncommitted one gets its records."""
    create_topics(broker.bootstrap, {topic: 1})
    produce(broker, topic, b"1")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"2")
    assert producer.flush(DEADLINE_SECONDS) == 0
    committed = following(topic)
    everything = following(topic, kafka={"isolation.level": "read_uncommitted"})
    read_until(committed, [b"1"])
    wait_for(lambda: committed.poll() == [] and committed.at_end, "the end")
    read_until(everything, [b"1", b"2"])
    producer.abort_transaction()


@pytest.mark.broker
def test_the_latest_of_each_key_is_read_where_the_first_ones_are_gone(broker, topic):
    """Retention deletes the beginning of compacted topics too; the remaining rows are read."""
    create_topics(broker.bootstrap, {topic: 1})
    produce(broker, topic, b"1", b"2", b"3", b"4")
    delete_before(broker, topic, 2)
    kafka = {"bootstrap.servers": broker.bootstrap}
    assert keep_latest(read_to_end(kafka, [topic], name="test")) == {(topic, b"k"): b"4"}
    produce(broker, topic, None)
    assert keep_latest(read_to_end(kafka, [topic], name="test")) == {}
