"""What stories play on: clusters of several real brokers, and a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from rebalance_deploy.broker import is_free
from rebalance_deploy.errors import UserError
from rebalance_deploy.stories.cluster import EmbeddedCluster
from rebalance_deploy.stories.stage import find_coordinator
from rebalance_deploy.stories.zookeeper import ZooKeeper
from waiting import is_alive, wait_for

pytestmark = pytest.mark.broker


def admin_of(cluster: EmbeddedCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0, "error_cb": lambda _: None})


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """Two brokers that replicate the offsets topic; a machine that stalls for seconds puts none of them out."""
    config = {
        "offsets.topic.replication.factor": "2",
        "offsets.topic.num.partitions": "2",
        "broker.session.timeout.ms": "9000",
    }
    with EmbeddedCluster(tmp_path, brokers=2, config=config) as running:
        yield running


def test_partitions_lie_where_they_are_put(cluster: EmbeddedCluster) -> None:
    """Clients see every broker, and a topic's leader is the one that was chosen."""
    admin = admin_of(cluster)
    wait_for(lambda: sorted(admin.list_topics(timeout=10).brokers) == [1, 2], "both brokers")
    admin.create_topics([NewTopic("placed", 1, replica_assignment=[[2]])])["placed"].result(20)
    wait_for(lambda: _leaders(admin, "placed") == {0: 2}, "the leader")


def _leaders(admin: AdminClient, topic: str) -> dict[int, int]:
    described = admin.list_topics(topic, timeout=10).topics[topic]
    return {number: each.leader for number, each in described.partitions.items()}


def test_groups_move_when_their_broker_stops_and_live_on_when_it_is_back(cluster: EmbeddedCluster) -> None:
    """The other broker coordinates them meanwhile; afterwards both are there again."""
    names = [f"g{number}" for number in range(50)]
    group = wait_for(
        lambda: next((name for name in names if find_coordinator(cluster.bootstrap, name) == 2), None),
        "a group that broker 2 coordinates",
    )
    assert group is not None
    cluster.stop_node(2)
    wait_for(lambda: find_coordinator(cluster.bootstrap, group) == 1, "broker 1 to coordinate the group")
    cluster.start_node(2)
    admin = admin_of(cluster)
    wait_for(lambda: sorted(admin.list_topics(timeout=10).brokers) == [1, 2], "both brokers")


def test_nothing_runs_after_the_end(tmp_path: Path) -> None:
    """Leaving the context ends every process; logs are kept."""
    with EmbeddedCluster(tmp_path, brokers=2) as cluster:
        pids = cluster.pids
        assert len(pids) == 2
    assert not any(is_alive(pid) for pid in pids)
    assert all(log.stat().st_size > 0 for log in cluster.log_paths)


def test_a_cluster_that_cannot_start_says_why(tmp_path: Path) -> None:
    """The broker's own word reaches the person, with its log."""
    cluster = EmbeddedCluster(tmp_path, brokers=1, config={"num.network.threads": "none"})
    with pytest.raises(UserError, match=r"num\.network\.threads.*\(log: .*broker\.log\)"), cluster:
        pass


def test_zookeeper_serves_the_nodes_old_clients_watch(tmp_path: Path) -> None:
    """They exist when it is up; afterwards nobody listens any more."""
    with ZooKeeper(tmp_path / "zookeeper") as server:
        client = KazooClient(server.hosts)
        client.start(timeout=20)
        assert client.exists("/brokers/ids")
        assert client.exists("/brokers/topics")
        client.stop()
        client.close()
    assert is_free(int(server.hosts.partition(":")[2]))
