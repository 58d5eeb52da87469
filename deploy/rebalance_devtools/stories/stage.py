"""The environment of stories: running brokers, and a ZooKeeper if the story needs one.

Takes the requirements of a story; returns addresses and logs. A monitor may watch the stage during a play. A stage can
also be created for existing brokers: a play uses only its fields.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from rebalance_deploy.embedded import DEFAULT_VERSION
from rebalance_deploy.embedded.kafka import SHORT_SESSION, EmbeddedKafka
from rebalance_deploy.errors import UserError
from rebalance_devtools.stories.network import Network, open_network

_FIND_COORDINATOR, _ALTER_QUOTAS = 10, 49
#: Retriable error codes: the offsets topic is being created, or has no leader.
_LATER = (14, 15, 16)
_FOUND_SECONDS = 180.0

#: Settings of a real cluster that `EmbeddedKafka` changes for quick tests.
_AS_IN_PRODUCTION = {
    "group.initial.rebalance.delay.ms": "3000",
    "group.min.session.timeout.ms": "6000",
    "offsets.topic.num.partitions": "50",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """Running brokers. `zookeeper` is empty if there is none. `kafka` is None if the stage uses existing brokers.

    `network` is a proxy to the only broker, with faults for single clients; None if there is no proxy.
    """

    bootstrap: str
    kafka_version: str
    broker_logs: tuple[Path, ...]
    zookeeper: str = ""
    kafka: EmbeddedKafka | None = None
    network: Network | None = None


@contextmanager
def open_stage(
    directory: Path,
    *,
    brokers: int = 1,
    zookeeper: bool = False,
    kafka_version: str = DEFAULT_VERSION,
    config: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Stage]:
    """Start brokers with Kafka's defaults for groups, and stop them at the end; data and logs are kept.

    With several brokers, the controller notices a killed one after 3 s.
    """
    with EmbeddedKafka(
        directory / "kafka",
        brokers=brokers,
        zookeeper=zookeeper,
        kafka_version=kafka_version,
        # A single broker is never killed.
        config={**(SHORT_SESSION if brokers > 1 else {}), **_AS_IN_PRODUCTION, **config},
    ) as kafka:
        for number in range(brokers):
            find_coordinator(kafka.bootstrap, f"nobody-{number}")
        yield Stage(kafka.bootstrap, kafka_version, kafka.log_paths, kafka.zookeeper, kafka)


#: Broker settings that enable ACLs; resources without ACLs are open to everyone.
_AUTHORISED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:nobody",
}


@contextmanager
def open_shared_stage(directory: Path, *, kafka_version: str = DEFAULT_VERSION, seed: int = 0) -> Iterator[Stage]:
    """Start one broker that many plays share, one group each, with a network and with ACLs enabled."""
    with (
        open_network(seed) as network,
        open_stage(directory, kafka_version=kafka_version, config={**_AUTHORISED, **network.listener}) as stage,
    ):
        yield replace(stage, network=network)


def find_coordinator(bootstrap: str, group: str) -> int:
    """Return the id of the broker that coordinates a group; the first call creates the offsets topic.

    Sends the request itself, because confluent-kafka aborts the process if a coordinator moves meanwhile. Raises
    UserError if there is no coordinator for three minutes.
    """
    deadline, pause = time.monotonic() + _FOUND_SECONDS, threading.Event()
    for address in itertools.cycle(bootstrap.split(",")):
        with contextlib.suppress(OSError):
            error, node = _ask_coordinator(address, group)
            if error == 0:
                return node
            if error not in _LATER:
                raise UserError(f"{address} does not say who coordinates {group}: error code {error}")
        if time.monotonic() > deadline:
            break
        pause.wait(0.2)
    raise UserError(f"nobody coordinates group {group} within {_FOUND_SECONDS:.0f} s")


def _ask_coordinator(address: str, group: str) -> tuple[int, int]:
    """Return the error code and the node id of a FindCoordinator response, version 0."""
    error, node = struct.unpack(">hi", _ask(address, _FIND_COORDINATOR, _string(group))[:6])
    return error, node


def limit_consumers(bootstrap: str, client_ids: Sequence[str], bytes_per_second: float) -> None:
    """Set a consumer quota per broker for clients, as kafka-configs.sh does. Raises UserError if it is rejected."""
    entries = [
        struct.pack(">i", 1)
        + _string("client-id")
        + _string(client_id)
        + struct.pack(">i", 1)
        + _string("consumer_byte_rate")
        + struct.pack(">d?", bytes_per_second, False)
        for client_id in client_ids
    ]
    body = struct.pack(">i", len(entries)) + b"".join(entries) + struct.pack(">?", False)
    # Throttle time, number of entries, error of the first entry; either all entries are altered or none.
    _, _, error = struct.unpack(">iih", _ask(bootstrap.partition(",")[0], _ALTER_QUOTAS, body)[:10])
    if error:
        raise UserError(f"the quota was not taken: error code {error}")


def _ask(address: str, api_key: int, body: bytes) -> bytes:
    """Return the body of a broker's response to a request of version 0. Raises OSError."""
    host, _, port = address.partition(":")
    request = struct.pack(">hhih", api_key, 0, 1, -1) + body
    with socket.create_connection((host, int(port)), timeout=5) as connection, connection.makefile("rb") as answer:
        connection.sendall(struct.pack(">i", len(request)) + request)
        head = answer.read(8)
        rest = answer.read(struct.unpack(">i", head[:4])[0] - 4) if len(head) == 8 else b""
    if not rest:
        raise ConnectionError(f"{address} closed the connection")
    return rest


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()
