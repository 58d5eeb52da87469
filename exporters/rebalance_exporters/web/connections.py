"""Who is connected over HTTP: how many at most, how long without asking for anything, how much may wait to be read.

Whoever reaches a port may open connections and say nothing, send half of a request, or read no answer, before any
password is asked for. Each costs a file descriptor, which Kafka's clients need too, and an answer that nobody reads
costs its size. Nothing here depends on who it is: limits by address would count all readers behind a proxy as one.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from collections.abc import Callable
from typing import Any

#: Seconds until a request must be whole: TLS handshake, head, and the pause after the answer before.
REQUEST_SECONDS = 10.0
#: Seconds in which somebody who is answered must read something.
STALL_SECONDS = 30.0
#: Of all answers together, what may wait to be read: several scrapes of 10,000 groups by slow readers.
MAX_UNREAD_BYTES = 512 * 1024 * 1024

_MOST, _FEWEST = 1_000, 16


def connection_limit() -> int:
    """Return how many connections a process takes: at most half of the files that it may open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if files == resource.RLIM_INFINITY else max(_FEWEST, min(_MOST, files // 2))


class Connections:
    """The open connections, and since when each has not asked for anything; used by one event loop."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        #: How many were turned away, or had to give way, for want of room.
        self.turned_away = 0
        self._limit = limit
        self._clock = clock
        self._open: dict[int, socket.socket] = {}
        # The one that waits longest comes first.
        self._waiting: dict[int, float] = {}

    def admit(self, connection: socket.socket) -> bool:
        """Admit a connection, at the cost of the one that has waited longest; false when all others are answered."""
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
        """Note that a request has come whole over the connection with this descriptor."""
        self._waiting.pop(number, None)

    def note_waiting(self, number: int) -> None:
        """Note that no request is under way; a second call changes nothing."""
        if number in self._open:
            self._waiting.setdefault(number, self._clock())

    def end_expired(self) -> None:
        """End the connections that have not asked for too long."""
        self._forget_closed()
        latest = self._clock() - REQUEST_SECONDS
        for number, since in list(self._waiting.items()):
            if since > latest:
                break
            self._end(number)

    def _end(self, number: int) -> None:
        """Shut a connection down: the event loop reads its end, and closes it as if the other side had."""
        self._waiting.pop(number)
        connection = self._open.pop(number)
        with contextlib.suppress(OSError):  # the other side may have been faster
            connection.shutdown(socket.SHUT_RDWR)

    def _forget_closed(self) -> None:
        closed = [number for number, connection in self._open.items() if connection.fileno() != number]
        for number in closed:
            del self._open[number]
            self._waiting.pop(number, None)


class Reading:
    """Whether the other side of one connection reads what it is sent."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._unread = 0
        self._since = 0.0

    def has_stalled(self, unread: int) -> bool:
        """Return whether as many bytes as now have waited for too long; asked again and again."""
        if unread == 0 or unread != self._unread:
            self._unread, self._since = unread, self._clock()
        return self._clock() - self._since >= STALL_SECONDS


class BoundedListener(socket.socket):
    """A listening socket that hands on only connections for which there is room."""

    connections: Connections

    @classmethod
    def of(cls, listener: socket.socket, connections: Connections) -> BoundedListener:
        """Take over a listening socket, which is closed with the new one."""
        # asyncio leaves Nagle's algorithm on where a socket does not name its protocol: a body would wait until the
        # other side acknowledges the head, for 40 ms.
        bounded = cls(listener.family, listener.type, socket.IPPROTO_TCP, fileno=listener.detach())
        bounded.connections = connections
        return bounded

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept one. Raises ConnectionAbortedError, by which asyncio goes on later, where there is no room."""
        connection, address = super().accept()
        if self.connections.admit(connection):
            return connection, address
        connection.close()
        raise ConnectionAbortedError
