"""Finds ports of this machine that servers can listen on."""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rebalance_deploy.errors import UserError

# Below the kernel's ephemeral ports: one of those could be taken by an outgoing connection while the server is down,
# even by a client that retries to reach this very server and connects to itself.
_PORTS = range(20_000, 32_000)
#: Ports already returned in this process: their servers may not listen on them yet.
_given: set[int] = set()


def find_free_port() -> int:
    """Return a port of 127.0.0.1 that is free at this moment."""
    (port,) = find_free_ports(1)
    return port


def find_free_ports(count: int) -> list[int]:
    """Return `count` different ports of 127.0.0.1 that are free at this moment.

    Ports already returned in this process are used only if there are no others.
    """
    candidates = sorted(random.SystemRandom().sample(_PORTS, 200), key=_given.__contains__)
    found = list(itertools.islice((port for port in candidates if is_free(port)), count))
    if len(found) < count:
        raise UserError(f"no free port between {_PORTS.start} and {_PORTS.stop - 1}: stop some servers of this machine")
    _given.update(found)
    return found


@contextmanager
def reserved(port: int) -> Iterator[bool]:
    """Reserve a port among this user's processes while a server starts on it; yield whether it was free until now.

    Without this, two servers that start together both find the port free, and whoever waits for the one that fails gets
    answers of the other.
    """
    lock = Path(tempfile.gettempdir()) / f"rebalance-monitor-{os.getuid()}-port-{port}.lock"
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            yield is_free(port)
        finally:
            lock.unlink(missing_ok=True)


def is_free(port: int) -> bool:
    """Return whether a server could listen on this port of 127.0.0.1 now; closed connections do not matter."""
    return listen_problem(port) is None


def listen_problem(port: int) -> str | None:
    """Return the system's error for listening on this port of 127.0.0.1 now, or None if a server could."""
    with socket.socket() as probe:
        # As servers do, so that recently closed connections do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.strerror or str(error)
    return None
