"""A stage's requests in Kafka's protocol: the bytes of a request, and the parsing of responses."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rebalance_deploy.errors import UserError
from rebalance_devtools.stories.stage import find_coordinator, limit_consumers

_QUOTAS = (
    b"\x00\x31\x00\x00\x00\x00\x00\x01\xff\xff"  # AlterClientQuotas, version 0, correlation 1, no client id
    b"\x00\x00\x00\x01"  # one entry
    b"\x00\x00\x00\x01\x00\x09client-id\x00\x02m1"
    b"\x00\x00\x00\x01\x00\x12consumer_byte_rate" + struct.pack(">d", 8_000) + b"\x00"  # not to be removed
    b"\x00"  # not only to be validated
)


@contextmanager
def broker_that_answers(body: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the address of a broker that answers one request, and the received requests."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as stream:
                asked.append(stream.read(struct.unpack(">i", stream.read(4))[0]))
                connection.sendall(struct.pack(">ii", 4 + len(body), 1) + body)

        # A test that fails before it sends its request must not keep the process waiting for it.
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}", asked
        thread.join(10)


def test_a_quota_is_asked_for_in_one_request() -> None:
    """Version 0, which both 3.x and 4.x brokers support."""
    with broker_that_answers(struct.pack(">iih", 0, 1, 0)) as (address, asked):
        limit_consumers(address, ["m1"], 8_000)
    assert asked == [_QUOTAS]


def test_a_quota_that_is_refused_is_an_error() -> None:
    """The play does not continue without it."""
    with (
        broker_that_answers(struct.pack(">iih", 0, 1, 41)) as (address, _),
        pytest.raises(UserError, match="error code 41"),
    ):
        limit_consumers(address, ["m1"], 8_000)


def test_a_coordinator_is_found_by_its_id() -> None:
    """The rest of the response, its address, is ignored."""
    with broker_that_answers(struct.pack(">hi", 0, 3) + b"\x00\x09127.0.0.1\x00\x00\x23\x84") as (address, asked):
        assert find_coordinator(address, "orders") == 3
    assert asked == [b"\x00\x0a\x00\x00\x00\x00\x00\x01\xff\xff\x00\x06orders"]
