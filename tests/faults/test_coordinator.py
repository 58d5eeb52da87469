"""Coordinators that move between three real brokers while groups rebalance."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, TopicPartition

from e2e.replaying import assert_facts_and_causes_agree
from e2e.rig import READY_SECONDS, Rig
from faults.churn import churning, groups_of, is_calm
from faults.observing import assert_records_counted, await_back, restarts, total
from faults.reporting import Figures
from rebalance_deploy.embedded.kafka import SHORT_SESSION, EmbeddedKafka
from rebalance_deploy.monitor import Monitor, loopback_sources
from rebalance_deploy.topics import create_topics
from rebalance_streaming.wire.partitioner import partition_for_group
from rebalance_streaming.wire.records import OFFSETS_TOPIC
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3_600)]

BROKERS, PARTITIONS = 3, 4
#: A preferred-leader election: the first replica of a partition becomes its leader.
_PREFERRED = 0


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """Three brokers, which all have the log and the monitor's topics, and a monitor."""
    config = {
        **SHORT_SESSION,
        "default.replication.factor": str(BROKERS),
        "offsets.topic.replication.factor": str(BROKERS),
        "offsets.topic.num.partitions": str(PARTITIONS),
        "min.insync.replicas": "2",
    }
    with EmbeddedKafka(tmp_path / "brokers", brokers=BROKERS, config=config) as brokers:
        create_topics(brokers.bootstrap, {"orders": 4})
        sources = loopback_sources(brokers.bootstrap, tmp_path, f"stream.topic_replication_factor={BROKERS}")
        with Monitor(sources, tmp_path) as monitor:
            monitor.wait_until_ready(threading.Event(), print, timeout_seconds=READY_SECONDS)
            yield Rig(brokers, monitor.url, tmp_path, monitor=monitor)


def leader_of(bootstrap: str, partition: int) -> int:
    """Return the broker that coordinates the groups of a partition of the log."""
    # The client must outlive its answer.
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    return int(admin.list_topics(OFFSETS_TOPIC, timeout=30).topics[OFFSETS_TOPIC].partitions[partition].leader)


def move(bootstrap: str, partition: int) -> None:
    """Make the next broker the leader of a partition of the log."""
    before = leader_of(bootstrap, partition)
    order = [1 + (before + number) % BROKERS for number in range(BROKERS)]
    place = TopicPartition(OFFSETS_TOPIC, partition)
    with KafkaAdminClient(bootstrap_servers=bootstrap.split(",")) as admin:
        admin.alter_partition_reassignments({place: order})

        def leads() -> bool:
            # Rejected until a restarted broker has caught up.
            admin.elect_leaders(_PREFERRED, {OFFSETS_TOPIC: [partition]}, raise_errors=False)
            return leader_of(bootstrap, partition) == order[0]

        wait_for(leads, f"{order[0]} to lead", 120, every=0.5)


@pytest.mark.faults(9, fast=0, full=10)
def test_coordinators_that_move_cost_nothing(rig: Rig, rounds: int, figures: Figures):
    """By an election, and by the death of the broker, which then restarts: every record and rebalance counts once."""
    group, before = "moved", restarts(rig)
    partitions = {partition_for_group(each, PARTITIONS) for each in groups_of(group)}
    with churning(rig, group) as churn:
        for number in range(rounds):
            leader = leader_of(rig.broker.bootstrap, min(partitions))
            # Broker 1 is the only controller.
            if number % 3 == 2 and leader != 1:
                rig.broker.kill(leader)
                churn.await_cycles()
                rig.broker.start(leader)
            else:
                for partition in partitions:
                    move(rig.broker.bootstrap, partition)
            await_back(rig, churn, figures)
    assert_records_counted(rig)
    assert_facts_and_causes_agree(rig, is_calm)
    assert total(rig, "log_rewinds_total") == total(rig, "log_skipped_positions_total") == 0
    assert restarts(rig) == before
    rig.monitor.check()
