"""Groups that live in ZooKeeper (pykafka's BalancedConsumer, old high-level consumers): read only, by polling.

The connection has neither TLS nor credentials; SECURITY.md says what that means.

/consumers/<group>/ids/<member>                                ephemeral, created when the member joined
/consumers/<group>/owners/<topic>/[<leader broker>-]<partition>   ephemeral, its data is the owner's member id
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from rebalance_contract import GroupType, Partitions, Probe, ProbedMember
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.prober.tasks import describe

_TIMEOUT_SECONDS = 5.0
_ROOT = "/consumers"
#: Maximum number of digits of a partition; any client that may write to ZooKeeper can create nodes of any name.
_LONGEST_PARTITION = 9
#: pykafka on Python 3 writes a topic's name as the repr of bytes.
_PRINTED_BYTES = re.compile(r"^b'(.*)'$")

#: Topic -> partition number as text -> member id.
Owners = dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class ZookeeperGroup:
    """One group: the creation time of each member's node in epoch milliseconds, and the owner of each partition."""

    group: str
    created_ms: dict[str, int] = field(default_factory=dict)
    owners: Owners = field(default_factory=dict)


class ZooKeeperClient:
    """One session with a ZooKeeper ensemble; it writes nothing and reconnects by itself after a loss."""

    def __init__(self, hosts: str) -> None:
        """Make the client, which connects at the first read. Raises ExporterError if the address is not valid."""
        self._hosts, self._is_connected = hosts, False
        #: Groups of the latest read that were refused, as sentences.
        self.errors: tuple[str, ...] = ()
        #: Their names.
        self.refused: frozenset[str] = frozenset()
        try:
            self._client = self._make_client()
        except ValueError as error:
            raise ExporterError(f"probe.zookeeper: {hosts}: host:port,host:port/path is expected ({error})") from error

    def _make_client(self) -> KazooClient:
        return KazooClient(self._hosts, read_only=True, timeout=_TIMEOUT_SECONDS)

    def close(self) -> None:
        """End the session."""
        with contextlib.suppress(KazooException, KazooTimeoutError):
            self._client.stop()
        self._client.close()

    def read(self) -> list[ZookeeperGroup]:
        """Return all groups that this client may read.

        Raises ExporterError until a server has answered for the first time, later KazooException or its timeout while
        the ensemble is away.
        """
        self._connect()
        groups, errors = [], dict[str, str]()
        for group in self._children(_ROOT):
            try:
                groups.append(self._read_group(group))
            except NoAuthError:
                errors[group] = (
                    f"group {group} is not watched: ZooKeeper does not let this client read below {_ROOT}/{group}"
                )
        self.errors, self.refused = tuple(errors.values()), frozenset(errors)
        return groups

    def _connect(self) -> None:
        """Wait for the first answer; after that the client reconnects by itself."""
        if self._is_connected:
            return
        try:
            self._client.start(timeout=_TIMEOUT_SECONDS)
        except (KazooException, KazooTimeoutError, OSError) as error:
            # The client ends itself if no server answers, but not if the connection is lost while it checks its root.
            self.close()
            self._client = self._make_client()
            raise ExporterError(
                f"no ZooKeeper answered at {self._hosts} within {_TIMEOUT_SECONDS:g} s ({describe(error)}): "
                "check probe.zookeeper, or leave it empty if no group lives there"
            ) from error
        self._is_connected = True

    def _read_group(self, group: str) -> ZookeeperGroup:
        ids, owners = f"{_ROOT}/{group}/ids", f"{_ROOT}/{group}/owners"
        nodes = {member: self._node(f"{ids}/{member}") for member in self._children(ids)}
        owned = {
            (topic, node): found[0]
            for topic in self._children(owners)
            for node in self._children(f"{owners}/{topic}")
            if (found := self._node(f"{owners}/{topic}/{node}")) is not None
        }
        created_ms = {member: found[1] for member, found in nodes.items() if found is not None}
        return ZookeeperGroup(group, created_ms, read_owners(owned))

    def _children(self, path: str) -> list[str]:
        try:
            children: list[str] = self._client.retry(self._client.get_children, path)
        except NoNodeError:
            return []
        return sorted(children)

    def _node(self, path: str) -> tuple[str, int] | None:
        """Return a node's data and its creation time (ms); null if it was deleted since it was listed."""
        try:
            data, stat = self._client.retry(self._client.get, path)
        except NoNodeError:
            return None
        return (data or b"").decode("utf-8", "replace"), int(stat.ctime)


def read_owners(owned: dict[tuple[str, str], str]) -> Owners:
    """Return owners by topic and partition from (topic node, partition node) -> owner.

    A partition node may begin with its leader's id, so after a change of leader one partition can have two nodes; the
    last one in order of name counts.
    """
    owners: Owners = {}
    for (topic_node, node), owner in sorted(owned.items()):
        partition = node.rpartition("-")[2]
        if partition.isascii() and partition.isdecimal() and len(partition) <= _LONGEST_PARTITION:
            owners.setdefault(read_topic_name(topic_node), {})[partition] = owner
    return owners


def read_topic_name(node: str) -> str:
    """Return the topic of a node below `owners`."""
    return _PRINTED_BYTES.sub(r"\1", node)


def probe_zookeeper(cluster: str, group: ZookeeperGroup, now_ms: int) -> Probe:
    """Return the probe of one group; client ids are empty because ZooKeeper has none."""
    owned: dict[str, Any] = defaultdict(lambda: defaultdict(list))
    for topic, owners in group.owners.items():
        for partition, member in owners.items():
            owned[member][topic].append(int(partition))
    return Probe(
        probed_at_ms=now_ms,
        cluster=cluster,
        group=group.group,
        type=GroupType.ZOOKEEPER,
        members=tuple(
            _member(member, owned.get(member, {}), created_ms)
            for member, created_ms in sorted(group.created_ms.items())
        ),
        owners=group.owners,
    )


def _member(member_id: str, owned: Partitions, created_ms: int) -> ProbedMember:
    return ProbedMember(
        member_id,
        client_id="",
        host=member_id.rpartition(":")[0],
        partitions={topic: sorted(each) for topic, each in owned.items()},
        session_created_ms=created_ms,
    )
