"""Ports of this machine that servers can listen on."""

from __future__ import annotations

import itertools
import random
import socket

from rebalance_deploy.errors import UserError

# Ports the kernel gives to nobody by itself: one above could be taken by an outgoing connection while the server is
# down, even by a client that retries to reach this very server and connects to itself.
_PORTS = range(20_000, 32_000)
#: Those that this process was given: it may not listen on them yet.
_given: set[int] = set()


def find_free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on at this moment."""
    (port,) = find_free_ports(1)
    return port


def find_free_ports(count: int) -> list[int]:
    """Return so many different ports of 127.0.0.1 that nobody listens on at this moment.

    This process was given none of them before, as long as there are others.
    """
    candidates = sorted(random.SystemRandom().sample(_PORTS, 200), key=_given.__contains__)
    found = list(itertools.islice((port for port in candidates if is_free(port)), count))
    if len(found) < count:
        raise UserError(f"no free port between {_PORTS.start} and {_PORTS.stop - 1}: stop some servers of this machine")
    _given.update(found)
    return found


def is_free(port: int) -> bool:
    """Return whether a server could listen on this port of 127.0.0.1 now, connections of a past one aside."""
    return listen_problem(port) is None


def listen_problem(port: int) -> str | None:
    """Return why no server could listen on this port of 127.0.0.1 now, in the system's words; null if one could."""
    with socket.socket() as probe:
        # As servers do: a connection that somebody closed a moment ago is no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.strerror or str(error)
    return None
