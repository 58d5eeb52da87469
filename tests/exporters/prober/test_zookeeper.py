"""Groups in ZooKeeper, read from a real server."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NoAuthError

from exporters.prober.conftest import PATIENCE_SECONDS
from exporters.prober.probing import make_config, probing
from rebalance_deploy.embedded.zookeeper import ZooKeeper
from rebalance_deploy.ports import find_free_port
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.prober import zookeeper
from rebalance_exporters.prober.repeats import AGAIN_SECONDS
from rebalance_exporters.prober.zookeeper import ZooKeeperClient, ZookeeperGroup, probe_zookeeper, read_owners
from waiting import wait_for

OWNED = {
    ("orders", "1-0"): "h-1:a",
    ("orders", "1-2"): "h-1:a",
    ("b'orders'", "2-1"): "h-2:b",
    ("refunds", "0"): "h-2:b",
    ("refunds", "broken"): "h-2:b",
    ("refunds", "1-²"): "h-2:b",
    ("refunds", "9" * 5_000): "h-2:b",
}


def test_owners_are_read_in_every_known_form():
    """With or without the leader's id, and with a name printed as bytes; names that are no partition are left out."""
    assert read_owners(OWNED) == {
        "orders": {"0": "h-1:a", "1": "h-2:b", "2": "h-1:a"},
        "refunds": {"0": "h-2:b"},
    }


def test_members_are_reported_with_what_they_own():
    """A member without partitions has an empty list; owners without a member node are only owners."""
    group = ZookeeperGroup("g", {"h-1:a": 5, "h-3:c": 6}, read_owners(OWNED))
    probe = probe_zookeeper("prod", group, now_ms=9)
    assert (probe.type, probe.owners) == ("zookeeper", group.owners)
    assert [(each.member_id, each.host, each.partitions) for each in probe.members or ()] == [
        ("h-1:a", "h-1", {"orders": [0, 2]}),
        ("h-3:c", "h-3", {}),
    ]


def test_a_group_that_may_not_be_read_hides_no_other(monkeypatch: pytest.MonkeyPatch):
    """An ACL on one group's nodes; the group is named, and the others are read as before."""
    zookeeper = ZooKeeperClient("localhost:1")
    nodes = {"/consumers": ["closed", "open"], "/consumers/open/ids": ["h-1:a"]}

    def children(path: str) -> list[str]:
        if path.startswith("/consumers/closed"):
            raise NoAuthError
        return nodes.get(path, [])

    client = Mock(retry=lambda call, path: call(path), get_children=children, get=lambda _: (b"", Mock(ctime=5)))
    monkeypatch.setattr(zookeeper, "_client", client)
    assert zookeeper.read() == [ZookeeperGroup("open", {"h-1:a": 5})]
    assert len(zookeeper.errors) == 1
    assert "group closed is not watched" in zookeeper.errors[0]
    assert zookeeper.refused == {"closed"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a standalone ZooKeeper server."""
    with ZooKeeper(tmp_path) as running:
        yield running.hosts


@pytest.fixture
def clients(server: str) -> Iterator[KazooClient]:
    """The session of a consumer, which creates nodes."""
    # The longest session that the server grants: nodes must not disappear because this process is stalled.
    client = KazooClient(server, timeout=40)
    client.start(timeout=120)
    yield client
    client.stop()
    client.close()


def add(client: KazooClient, group: str, *members: str) -> None:
    """Create a group's nodes as pykafka does, with one member that owns partition 0."""
    for member in members:
        client.create(f"/consumers/{group}/ids/{member}", b"orders", ephemeral=True, makepath=True)
    client.create(f"/consumers/{group}/owners/orders/1-0", members[0].encode(), ephemeral=True, makepath=True)


@pytest.mark.broker
def test_groups_are_read_from_a_real_server(server, clients):
    """Members with their join times, owners, and groups with only one of both."""
    before_ms = time.time_ns() // 1_000_000
    zookeeper = ZooKeeperClient(server)
    try:
        assert zookeeper.read() == []
        add(clients, "busy", "h-1:a", "h-2:b")
        clients.ensure_path("/consumers/idle")
        busy, idle = zookeeper.read()
        assert idle == ZookeeperGroup("idle")
        assert (busy.group, busy.owners) == ("busy", {"orders": {"0": "h-1:a"}})
        assert set(busy.created_ms) == {"h-1:a", "h-2:b"}
        now_ms = time.time_ns() // 1_000_000
        assert all(before_ms <= created_ms <= now_ms for created_ms in busy.created_ms.values())
    finally:
        zookeeper.close()


@pytest.mark.broker
def test_a_chroot_is_looked_into(server, clients):
    """Several clusters may share an ensemble."""
    clients.ensure_path("/kafka/consumers/inner")
    zookeeper = ZooKeeperClient(f"{server}/kafka")
    try:
        assert zookeeper.read() == [ZookeeperGroup("inner")]
    finally:
        zookeeper.close()


@pytest.mark.broker
def test_the_prober_publishes_them(broker, server, clients):
    """Each change of members or owners is a probe of type zookeeper; unchanged groups are not repeated."""
    prefix = f"zk-{find_free_port()}-{time.time_ns()}."
    group = prefix + "g"
    with probing(make_config(broker.bootstrap, prefix, zookeeper=server, period_seconds=0.2)) as probed:
        add(clients, group, "h-1:a")
        wait_for(lambda: any(p.owners for p in probed.of(group)), lambda: probed.of(group))
        clients.delete(f"/consumers/{group}/owners/orders/1-0")
        wait_for(lambda: probed.of(group)[-1].owners == {}, lambda: probed.of(group))
        clients.delete(f"/consumers/{group}/ids/h-1:a")
        wait_for(lambda: probed.of(group)[-1].members == (), lambda: probed.of(group))
        for before, after in itertools.pairwise(probed.of(group)):
            is_repeated = (before.members, before.owners) == (after.members, after.owners)
            assert not is_repeated or after.probed_at_ms - before.probed_at_ms >= 1_000 * AGAIN_SECONDS
        assert {p.type for p in probed.of(group)} == {"zookeeper"}


@pytest.mark.broker
def test_a_server_that_was_away_at_the_start_is_read_when_it_is_there(tmp_path, monkeypatch):
    """Until then each read fails with a sentence that names the setting."""
    monkeypatch.setattr(zookeeper, "_TIMEOUT_SECONDS", 0.5)
    with ZooKeeper(tmp_path) as server:
        server.stop()
        client = ZooKeeperClient(server.hosts)
        try:
            for _ in range(2):
                with pytest.raises(ExporterError, match=r"no ZooKeeper answered at 127\.0\.0\.1:.*probe\.zookeeper"):
                    client.read()
            monkeypatch.setattr(zookeeper, "_TIMEOUT_SECONDS", PATIENCE_SECONDS)
            server.start()

            def is_read() -> bool:
                # The next client has the short time-out still.
                with contextlib.suppress(ExporterError):
                    return client.read() == []
                return False

            wait_for(is_read, "an answer")
        finally:
            client.close()


def test_a_client_that_lost_its_server_at_the_start_is_ended(monkeypatch):
    """Otherwise it would keep looking for servers, with threads and a session of its own, beside its successor."""
    made: list[Mock] = []

    def make(*_: object, **__: object) -> Mock:
        made.append(Mock(**{"start.side_effect": ConnectionLoss()}))
        return made[-1]

    monkeypatch.setattr(zookeeper, "KazooClient", make)
    client = ZooKeeperClient("zk:2181/kafka")
    for _ in range(2):
        with pytest.raises(ExporterError, match=r"zk:2181/kafka .*\(ConnectionLoss\): check probe\.zookeeper"):
            client.read()
    assert [(each.stop.call_count, each.close.call_count) for each in made] == [(1, 1), (1, 1), (0, 0)]


def test_an_address_that_is_none_ends_it_at_once():
    """The prober does not wait for an invalid address."""
    with pytest.raises(ExporterError, match=r"probe\.zookeeper: zk:port: host:port"):
        ZooKeeperClient("zk:port")
