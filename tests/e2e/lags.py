"""Lag on /metrics compared with the brokers' own offsets, on 1,000 partitions."""

from __future__ import annotations

import random

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from coordinators import commit_offsets, committed_offsets
from e2e.rig import Watched, samples
from waiting import wait_for

TOPICS, PARTITIONS = 10, 100
#: Reading 1,000 partitions 20 times a second would slow down the processes that the test waits for.
PATIENCE = {"seconds": 300.0, "every": 0.5}
GROUP, TRANSACTIONAL = "lag-plain", "lag-transactional"
#: Settings of a monitor in addition to its defaults.
FLAGS = (
    "export.collect_partitions=true",
    f"stream.read_committed_groups={TRANSACTIONAL}",
    # Lag is not shown while the diagnosis is silent, as on an overloaded machine.
    "export.stale_after_seconds=600",
)
Place = tuple[str, int]


def hold_lag_is_what_the_brokers_say(rig: Watched) -> None:
    """Check 1,000 partitions with various commits, aborted and open transactions, and a topic deleted and recreated."""
    admin = AdminClient({"bootstrap.servers": rig.broker.bootstrap, "log_level": 0})
    names = [f"lag-{number}" for number in range(TOPICS)]
    create(admin, names)
    produce(rig, {(name, p): random.randrange(1, 6) for name in names for p in range(PARTITIONS)})
    commit(rig, {(name, p): random.randrange(2) for name in names for p in range(PARTITIONS)})
    assert len(agreed(rig, admin)) == TOPICS * PARTITIONS

    produce(rig, {(names[0], p): 7 for p in range(PARTITIONS)})
    commit(rig, {(names[1], p): 1 for p in range(0, PARTITIONS, 2)})
    agreed(rig, admin)

    transactions_do_not_deceive(rig, names[2])

    # The committed offsets of a recreated topic lie beyond its end, and lag is not negative.
    for future in admin.delete_topics([names[3]]).values():
        future.result()
    wait_for(lambda: names[3] not in admin.list_topics(timeout=60).topics, "the topic to be gone")
    create(admin, [names[3]])
    produce(rig, {(names[3], 0): 2})
    commit(rig, {(names[3], 0): 1})
    wait_for(lambda: lags(rig, GROUP).get((names[3], 0)) == 1, "the new topic's lag", **PATIENCE)


def transactions_do_not_deceive(rig: Watched, topic: str) -> None:
    """Check that aborted commits never count, and records of an open transaction are no lag if read-committed."""
    # A coordinator would abort it after a minute, while the test still waits for the lag of its records.
    settings = {"transactional.id": "lag", "transaction.timeout.ms": 600_000, "log_level": 0}
    producer = Producer({"bootstrap.servers": rig.broker.bootstrap, **settings})
    consumer = Consumer({"bootstrap.servers": rig.broker.bootstrap, "group.id": TRANSACTIONAL, "log_level": 0})
    producer.init_transactions(120)
    for offset, finish in ((1, producer.commit_transaction), (0, producer.abort_transaction)):
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), 120
        )
        finish(120)
    # In a list, because the value may be 0.
    (before,) = wait_for(lambda: [lag for place, lag in lags(rig, GROUP).items() if place == (topic, 0)], "its lag")
    (end,) = ends_of(AdminClient({"bootstrap.servers": rig.broker.bootstrap}), [(topic, 0)]).values()
    producer.begin_transaction()
    for _ in range(5):
        producer.produce(topic, b"pending", partition=0)
    producer.flush(60)
    wait_for(lambda: lags(rig, GROUP).get((topic, 0), 0) >= before + 5, "the pending records to be seen", **PATIENCE)

    def reported() -> list[int]:
        return [lag for place, lag in lags(rig, TRANSACTIONAL).items() if place == (topic, 0)]

    assert wait_for(reported, "the transaction's commit to be counted", **PATIENCE) == [end - 1]
    producer.abort_transaction(120)
    consumer.close()


def create(admin: AdminClient, names: list[str]) -> None:
    """Create topics of 100 partitions."""
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        future.result()


def produce(rig: Watched, counts: dict[Place, int]) -> None:
    """Write this many records to each partition."""
    producer = Producer({"bootstrap.servers": rig.broker.bootstrap, "linger.ms": 20, "log_level": 0})
    for (topic, partition), count in counts.items():
        for _ in range(count):
            producer.produce(topic, b"x", partition=partition)
    assert producer.flush(120) == 0


def commit(rig: Watched, offsets: dict[Place, int]) -> None:
    """Commit offsets for a group without members."""
    commit_offsets(rig.broker.bootstrap, GROUP, offsets)


def agreed(rig: Watched, admin: AdminClient) -> dict[Place, int]:
    """Wait until the lag on /metrics equals the brokers' for every committed partition, and return it."""
    expected = true_lags(rig, admin)

    def difference() -> str:
        found = lags(rig, GROUP)
        wrong = {place: (found.get(place), lag) for place, lag in expected.items() if found.get(place) != lag}
        return f"{len(wrong)} of {len(expected)} lags to be right, as {dict(list(wrong.items())[:3])}"

    wait_for(lambda: lags(rig, GROUP) == expected, difference, **PATIENCE)
    return expected


def true_lags(rig: Watched, admin: AdminClient) -> dict[Place, int]:
    """Return end offset minus committed offset, both from the brokers."""
    committed = committed_offsets(rig.broker.bootstrap, GROUP)
    ends = ends_of(admin, list(committed))
    return {place: ends[place] - offset for place, offset in committed.items()}


def ends_of(admin: AdminClient, places: list[Place]) -> dict[Place, int]:
    """Return end offsets."""
    asked = {TopicPartition(*place): OffsetSpec.latest() for place in places}
    return {(tp.topic, tp.partition): future.result().offset for tp, future in admin.list_offsets(asked).items()}


def lags(rig: Watched, group: str) -> dict[Place, int]:
    """Return the lag on /metrics, by partition."""
    return {
        (labels["topic"], int(labels["partition"])): int(value)
        for name, labels, value in samples(rig.url)
        if name == "kafka_rebalance_partition_lag" and labels["group"] == group
    }
