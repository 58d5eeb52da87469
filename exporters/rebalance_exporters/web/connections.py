"""Limits on HTTP connections: how many, how long without a request, and how many bytes may wait to be read.

Anyone who reaches a port can open connections and send nothing, send half of a request, or not read the response,
before any password is asked for. Each costs a file descriptor, which Kafka's clients need too, and an unread response
costs its size. The limits do not depend on the client: limits by address would count all clients behind a proxy as one.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from collections.abc import Callable
from typing import Any

#: Seconds until a request must be complete: TLS handshake, head, and the pause after the previous response.
REQUEST_SECONDS = 10.0
#: Seconds within which a client must read some of its response.
STALL_SECONDS = 30.0
#: Maximum unread bytes of all responses together: several scrapes of 10,000 groups by slow clients.
MAX_UNREAD_BYTES = 512 * 1024 * 1024

_MOST, _FEWEST = 1_000, 16


def connection_limit() -> int:
    """Return the maximum number of connections of a process: at most half of the files that it may open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if files == resource.RLIM_INFINITY else max(_FEWEST, min(_MOST, files // 2))


class Connections:
    """The open connections, and since when each has been without a request; used by one event loop."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        #: Number of connections refused, or closed in favour of others, for lack of room.
        self.turned_away = 0
        self._limit = limit
        self._clock = clock
        self._open: dict[int, socket.socket] = {}
        # In order of time, the longest waiting first.
        self._waiting: dict[int, float] = {}

    def admit(self, connection: socket.socket) -> bool:
        """Admit a connection, if necessary by closing the longest waiting one; return false if none is waiting."""
        if len(self._open) >= self._limit:
            self._forget_closed()
        if len(self._open) >= self._limit:
            self.turned_away += 1
            if not self._waiting:
                return False
            self._end(next(iter(self._waiting)))
        number = connection.fileno()
        self._open[number] = connection
        self._waiting.pop(number, None)
        self._waiting[number] = self._clock()
        return True

    def note_asked(self, number: int) -> None:
        """Note that a complete request arrived on the connection with this descriptor."""
        self._waiting.pop(number, None)

    def note_waiting(self, number: int) -> None:
        """Note that no request is in progress; a second call changes nothing."""
        if number in self._open:
            self._waiting.setdefault(number, self._clock())

    def end_expired(self) -> None:
        """Close the connections that have been without a request for too long."""
        self._forget_closed()
        latest = self._clock() - REQUEST_SECONDS
        for number, since in list(self._waiting.items()):
            if since > latest:
                break
            self._end(number)

    def _end(self, number: int) -> None:
        """Shut a connection down; the event loop then closes it as if the client had."""
        self._waiting.pop(number)
        connection = self._open.pop(number)
        with contextlib.suppress(OSError):  # the client may have closed it already
            connection.shutdown(socket.SHUT_RDWR)

    def _forget_closed(self) -> None:
        closed = [number for number, connection in self._open.items() if connection.fileno() != number]
        for number in closed:
            del self._open[number]
            self._waiting.pop(number, None)


class Reading:
    """Tracks whether the client of one connection reads what it is sent."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._unread = 0
        self._since = 0.0

    def has_stalled(self, unread: int) -> bool:
        """Return whether the number of unread bytes has not changed for too long; called periodically."""
        if unread == 0 or unread != self._unread:
            self._unread, self._since = unread, self._clock()
        return self._clock() - self._since >= STALL_SECONDS


class BoundedListener(socket.socket):
    """A listening socket that accepts connections only while there is room."""

    connections: Connections

    @classmethod
    def of(cls, listener: socket.socket, connections: Connections) -> BoundedListener:
        """Return one that takes over a listening socket and closes it when closed itself."""
        # asyncio leaves Nagle's algorithm on where a socket does not name its protocol: a body would wait until the
        # other side acknowledges the head, for 40 ms.
        bounded = cls(listener.family, listener.type, socket.IPPROTO_TCP, fileno=listener.detach())
        bounded.connections = connections
        return bounded

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Raises ConnectionAbortedError, after which asyncio continues, if there is no room."""
        connection, address = super().accept()
        if self.connections.admit(connection):
            return connection, address
        connection.close()
        raise ConnectionAbortedError
