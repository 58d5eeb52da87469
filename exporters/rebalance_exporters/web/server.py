"""Serves an application over HTTP or HTTPS until it is stopped; used by every process of the monitor."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import struct
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.web.connections import (
    MAX_UNREAD_BYTES,
    BoundedListener,
    Connections,
    Reading,
    connection_limit,
)
from rebalance_exporters.web.reloading import Settings
from rebalance_kafka.signals import set_on_signals

_SHUTDOWN_SECONDS = 5
#: Connections accepted in one step of the event loop: this many file descriptors beyond the limit may be open for a
#: moment.
_ACCEPTED_AT_ONCE = 16
#: Connections that the kernel keeps until they are accepted.
_WAITING_OUTSIDE = 1_024
#: Maximum size of the head of a request: a path and a few headers.
_MAX_HEAD_BYTES = 65_536
#: Ticks of uvicorn's main loop (0.1 s) between checks of the connections, and between log lines about them.
_LOOK_TICKS, _LOG_TICKS = 10, 600
#: Ticks between checks of settings files: a changed file is read at the second check, within a minute.
_FILES_TICKS = 300
_ALL_IPV6 = "::"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Signals:
    """Requests to a running server: to stop, and to reload its settings files."""

    stop: threading.Event = field(default_factory=threading.Event)
    reload: threading.Event = field(default_factory=threading.Event)


class _Config(uvicorn.Config):
    """uvicorn's settings, which every protocol receives, with the connections of the server."""

    def __init__(self, app: Starlette, connections: Connections, tls: Any) -> None:
        # Always asyncio's event loop: SwitchingContext relies on how it begins TLS connections.
        super().__init__(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            access_log=False,
            backlog=_ACCEPTED_AT_ONCE,
            h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
            server_header=False,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        self.connections = connections
        self.load()
        self.ssl = tls


class _Protocol(H11Protocol):
    """uvicorn's protocol, which also notes whether a request is in progress, and checks for unread bytes."""

    def __init__(self, config: uvicorn.Config, *arguments: Any, **named: Any) -> None:
        super().__init__(config, *arguments, **named)
        assert isinstance(config, _Config), "made by a server of this module"
        self._known = config.connections
        self._reading = Reading()

    @property
    def _socket(self) -> socket.socket | None:
        """The connection's socket; null if asyncio's TLS transport has lost its connection, see `unread_bytes`."""
        try:
            found: socket.socket | None = self.transport.get_extra_info("socket")
        except AttributeError:  # as for `unread_bytes`
            return None
        return found

    @property
    def _number(self) -> int:
        """The file descriptor of the connection, -1 once it is closed."""
        connection = self._socket
        return -1 if connection is None else connection.fileno()

    def handle_events(self) -> None:
        super().handle_events()
        if not self._note_whether_waiting():
            self._known.note_asked(self._number)

    def on_response_complete(self) -> None:
        # Before the base class begins the next request, which may have arrived already.
        self._note_whether_waiting()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        _give_up_largest([each for each in self.connections if isinstance(each, _Protocol)], self)

    @property
    def unread_bytes(self) -> int:
        """The number of bytes that the client has yet to read."""
        try:
            return self.transport.get_write_buffer_size()
        except AttributeError:
            # asyncio's TLS transport drops its connection when it is closed a second time, as uvicorn does if a
            # response ends after the connection was aborted. asyncio's own time-out then ends what is still waiting.
            return 0

    def look(self) -> None:
        """Abort the connection if the client reads nothing."""
        if self._reading.has_stalled(self.unread_bytes):
            self.give_up()
        else:
            self._note_whether_waiting()

    def _note_whether_waiting(self) -> bool:
        """Return whether no request is in progress and the previous response was read, and note it if so."""
        is_answered = self.cycle is None or self.cycle.response_complete
        if is_answered and self.unread_bytes == 0:
            self._known.note_waiting(self._number)
            return True
        return False

    def give_up(self) -> None:
        """Abort the connection and discard unread bytes, including the kernel's, which would stay for minutes."""
        connection = self._socket
        if connection is not None:
            with contextlib.suppress(OSError):  # it may be closed already
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


def _give_up_largest(protocols: list[_Protocol], answered_now: _Protocol) -> None:
    """Abort the connection with the most unread bytes, if those of all connections are too many.

    Half counts for the connection that is just being answered: its client has had no time to read.
    """
    if sum(each.unread_bytes for each in protocols) > MAX_UNREAD_BYTES:
        max(protocols, key=lambda each: each.unread_bytes / (2 if each is answered_now else 1)).give_up()


class _Server(uvicorn.Server):
    """uvicorn's server, controlled by events instead of signals, which uvicorn would raise again at its end."""

    config: _Config

    def __init__(self, config: _Config, settings: Settings, signals: Signals, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._settings = settings
        self._signals = signals
        self._announce = started
        self._logged = 0

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            # The event loop has limited the backlog to the connections accepted at once: raise it.
            listener.listen(_WAITING_OUTSIDE)
        self._announce()

    async def on_tick(self, counter: int) -> bool:
        if self._signals.reload.is_set():
            self._signals.reload.clear()
            await asyncio.to_thread(self._settings.reload)
        if counter % _FILES_TICKS == 0:
            await asyncio.to_thread(self._settings.reload_changed)
        if counter % _LOOK_TICKS == 0:
            self._look_at_connections()
        if counter % _LOG_TICKS == 0:
            self._describe_of_connections()
        return self._signals.stop.is_set() or await super().on_tick(counter)

    def _look_at_connections(self) -> None:
        self.config.connections.end_expired()
        for each in list(self.server_state.connections):
            if isinstance(each, _Protocol):
                each.look()

    def _describe_of_connections(self) -> None:
        turned_away = self.config.connections.turned_away
        if turned_away > self._logged:
            _log.warning("%d connections gave way to others in a minute: no room", turned_away - self._logged)
            self._logged = turned_away


def serve(
    app: Starlette,
    listener: socket.socket,
    settings: Settings,
    signals: Signals,
    on_listening: Callable[[str, int], None] | None = None,
) -> None:
    """Serve an application on a socket, which is taken over and closed, until asked to stop."""
    host, port = listener.getsockname()[:2]

    def announce() -> None:
        if on_listening is not None:
            on_listening(host, port)

    connections = Connections(connection_limit())
    served = _Config(app, connections, settings.tls)
    with _obeying(signals), BoundedListener.of(listener, connections) as bounded:
        _Server(served, settings, signals, announce).run(sockets=[bounded])


def listen(host: str, port: int, section: str) -> socket.socket:
    """Return a listening socket; port 0 means any free port, host `::` every interface of IPv6 and IPv4.

    Raises ExporterError, which names the setting in the process's section, if the port cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Both protocols, as in other exporters, unless the system does not support it.
    both = host == _ALL_IPV6 and socket.has_dualstack_ipv6()
    try:
        return socket.create_server((host, port), family=family, dualstack_ipv6=both)
    except OSError as error:
        raise ExporterError(
            f"cannot listen on {host} port {port} ({error.strerror}): "
            f"stop what uses it, or choose another {section}.listen_port"
        ) from error


@contextlib.contextmanager
def _obeying(signals: Signals) -> Iterator[None]:
    """Stop on SIGTERM and SIGINT, and reload on SIGHUP.

    Python allows signal handlers only in the main thread; in other threads this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with contextlib.ExitStack() as at_end:
        at_end.callback(set_on_signals(signals.stop, (signal.SIGTERM, signal.SIGINT)))
        at_end.callback(set_on_signals(signals.reload, (signal.SIGHUP,)))
        yield
