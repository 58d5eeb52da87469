"""The simulated network of plays: it forwards data, from the given host, with the configured faults."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from rebalance_devtools.stories.network import Fault, Network, open_network

_HOST = "127.0.9.5"


def first_request(client_id: str) -> bytes:
    """Return the beginning of a connection as written by Kafka's clients: size, key, version, number, client id."""
    name = client_id.encode()
    body = struct.pack(">hhih", 18, 3, 1, len(name)) + name
    return struct.pack(">i", len(body)) + body


@dataclass
class Echo:
    """Stands for the broker: sends everything back, and records the peers."""

    hosts: list[str] = field(default_factory=list)

    def serve(self, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, (host, _) = server.accept()
                self.hosts.append(host)
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            while data := connection.recv(65_536):
                connection.sendall(data)


@dataclass
class Line:
    """A client's connection through the network."""

    network: Network
    echo: Echo

    @contextlib.contextmanager
    def connect(self, client_id: str) -> Iterator[socket.socket]:
        host, _, port = self.network.bootstrap.partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(first_request(client_id))
            yield connection


@pytest.fixture
def line() -> Iterator[Line]:
    with open_network(seed=1) as network:
        _, _, address = network.listener["listeners"].partition("://")
        host, _, port = address.partition(":")
        with socket.create_server((host, int(port))) as server:
            echo = Echo()
            threading.Thread(target=echo.serve, args=(server,), daemon=True).start()
            network.place("orders-1", _HOST)
            yield Line(network, echo)


def receive(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count and (data := connection.recv(count - len(found))):
        found += data
    return found


def test_a_client_comes_from_its_host(line: Line):
    """Its data arrive and come back; its reporter uses the same host, and a client without a host does not."""
    for client_id in ("orders-1", "orders-1-rebalance-reporter", "stranger"):
        with line.connect(client_id) as connection:
            request = first_request(client_id)
            assert receive(connection, len(request)) == request
    assert line.echo.hosts == [_HOST, _HOST, "127.0.0.1"]


@pytest.mark.waits
def test_silence_holds_back_and_loses_nothing(line: Line):
    """A connection survives: data written meanwhile arrive afterwards, in order."""
    with line.connect("orders-1") as connection:
        receive(connection, len(first_request("orders-1")))
        line.network.set_fault("orders-1", Fault.SILENT)
        connection.sendall(b"a" * 100)
        connection.sendall(b"b" * 100)
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(60)
        line.network.set_fault("orders-1", Fault.NONE)
        assert receive(connection, 200) == b"a" * 100 + b"b" * 100


def test_a_cut_ends_connections_and_refuses_others(line: Line):
    """Until it is repaired; other clients are not affected."""
    with line.connect("orders-1") as connection, line.connect("stranger") as other:
        receive(connection, len(first_request("orders-1")))
        line.network.set_fault("orders-1", Fault.CUT)
        assert connection.recv(1) == b""
        with line.connect("orders-1") as again:
            assert again.recv(1) == b""
        assert receive(other, len(first_request("stranger"))) == first_request("stranger")
    line.network.set_fault("orders-1", Fault.NONE)
    with line.connect("orders-1") as connection:
        assert receive(connection, len(first_request("orders-1"))) == first_request("orders-1")


@pytest.mark.waits
def test_a_forgotten_connection_stays_mute(line: Line):
    """It is neither closed nor forwards data, even afterwards; one that is opened meanwhile works."""
    with line.connect("orders-1") as connection:
        receive(connection, len(first_request("orders-1")))
        line.network.set_fault("orders-1", Fault.FORGOTTEN)
        connection.sendall(b"a" * 10)
        with line.connect("orders-1") as again:
            assert receive(again, len(first_request("orders-1"))) == first_request("orders-1")
            line.network.set_fault("orders-1", Fault.NONE)
            again.sendall(b"b" * 10)
            assert receive(again, 10) == b"b" * 10
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)


@pytest.mark.waits
def test_delay_is_of_both_ways(line: Line):
    """A round trip takes twice the delay."""
    with line.connect("orders-1") as connection:
        receive(connection, len(first_request("orders-1")))
        line.network.set_fault("orders-1", Fault.DELAY, delay_seconds=0.2)
        began = time.monotonic()
        connection.sendall(b"c" * 10)
        assert receive(connection, 10) == b"c" * 10
        assert time.monotonic() - began >= 0.4


@pytest.mark.waits
def test_loss_costs_time_only(line: Line):
    """With every segment lost a few times no data are missing or reordered."""
    with line.connect("orders-1") as connection:
        receive(connection, len(first_request("orders-1")))
        line.network.set_fault("orders-1", Fault.LOSS, loss=0.3)
        sent = b"".join(bytes([number]) * 10 for number in range(20))
        for number in range(20):
            connection.sendall(bytes([number]) * 10)
        assert receive(connection, len(sent)) == sent


def test_the_end_of_one_side_is_the_end_of_the_other(line: Line):
    """No connection stays open after its other end was closed."""
    with line.connect("orders-1") as connection:
        receive(connection, len(first_request("orders-1")))
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
