"""Serving an application over HTTP or HTTPS until it is stopped; every process of the monitor does it this way."""

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

_SHUTDOWN_SECONDS = 5
#: Connections taken at once, before the event loop sees to those that are there: as many file descriptors beyond the
#: limit may be open for a moment.
_ACCEPTED_AT_ONCE = 16
#: Those that the kernel keeps until then.
_WAITING_OUTSIDE = 1_024
#: A request is a path and a few headers.
_MAX_HEAD_BYTES = 65_536
#: Ticks of uvicorn's main loop, which are 0.1 s, between looks at connections, and between lines of the log about them.
_LOOK_TICKS, _LOG_TICKS = 10, 600
#: Between looks at settings files: one that changed is read at the second look, within a minute.
_FILES_TICKS = 300
_ALL_IPV6 = "::"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Signals:
    """What is asked of a running server: to end, and to read its settings files again."""

    stop: threading.Event = field(default_factory=threading.Event)
    reload: threading.Event = field(default_factory=threading.Event)


class _Config(uvicorn.Config):
    """uvicorn's settings, which reach every protocol, with the connections of the server."""

    def __init__(self, app: Starlette, connections: Connections, tls: Any) -> None:
        # One event loop for certain: connections switch certificates in a way that is asyncio's own.
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
    """uvicorn's protocol, which notes when a request is under way, and looks at what is not read."""

    def __init__(self, config: uvicorn.Config, *arguments: Any, **named: Any) -> None:
        super().__init__(config, *arguments, **named)
        assert isinstance(config, _Config), "made by a server of this module"
        self._known = config.connections
        self._reading = Reading()

    @property
    def _socket(self) -> socket.socket | None:
        """The connection's socket; null between the end of a TLS connection and the moment its protocol is known."""
        try:
            found: socket.socket | None = self.transport.get_extra_info("socket")
        except AttributeError:  # as for `unread_bytes`
            return None
        return found

    @property
    def _number(self) -> int:
        """The descriptor of the connection, -1 once it is closed."""
        connection = self._socket
        return -1 if connection is None else connection.fileno()

    def handle_events(self) -> None:
        super().handle_events()
        if not self._note_whether_waiting():
            self._known.note_asked(self._number)

    def on_response_complete(self) -> None:
        # Before the next request, which may have come already and is begun in here.
        self._note_whether_waiting()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        _give_up_largest([each for each in self.connections if isinstance(each, _Protocol)], self)

    @property
    def unread_bytes(self) -> int:
        """What the other side has still to read."""
        try:
            return self.transport.get_write_buffer_size()
        except AttributeError:
            # asyncio's TLS transport forgets its connection when it is closed a second time, as uvicorn does where an
            # answer ends after the connection was given up. What waits there ends with asyncio's own timeout.
            return 0

    def look(self) -> None:
        """End a connection whose other side reads nothing."""
        if self._reading.has_stalled(self.unread_bytes):
            self.give_up()
        else:
            self._note_whether_waiting()

    def _note_whether_waiting(self) -> bool:
        """Note that no request is under way, and return whether that is so: the answer before is to be read first."""
        is_answered = self.cycle is None or self.cycle.response_complete
        if is_answered and self.unread_bytes == 0:
            self._known.note_waiting(self._number)
            return True
        return False

    def give_up(self) -> None:
        """Throw away what waits to be read, in the kernel too, which would otherwise keep it for minutes."""
        connection = self._socket
        if connection is not None:
            with contextlib.suppress(OSError):  # it may be closed already
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


def _give_up_largest(protocols: list[_Protocol], answered_now: _Protocol) -> None:
    """End the connection with the most that waits to be read, where all of it is too much.

    Of the one that is answered just now half counts: the other side has had no time to read.
    """
    if sum(each.unread_bytes for each in protocols) > MAX_UNREAD_BYTES:
        max(protocols, key=lambda each: each.unread_bytes / (2 if each is answered_now else 1)).give_up()


class _Server(uvicorn.Server):
    """uvicorn's server that looks at events instead of signals, which it would raise again after its end."""

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
            # The event loop has asked the kernel to keep no more than are accepted at once.
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
    """Serve an application on a socket, which this takes over and closes, until it is asked to end."""
    host, port = listener.getsockname()[:2]

    def announce() -> None:
        if on_listening is not None:
            on_listening(host, port)

    connections = Connections(connection_limit())
    served = _Config(app, connections, settings.tls)
    with _obeying(signals), BoundedListener.of(listener, connections) as bounded:
        _Server(served, settings, signals, announce).run(sockets=[bounded])


def listen(host: str, port: int, section: str) -> socket.socket:
    """Return a socket that listens; port 0 takes any free one, host `::` is every interface of IPv6 and IPv4.

    Raises ExporterError when it cannot be had, which names the setting of the process's section.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # As other exporters do; a system without IPv4 has no such sockets.
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
    """Let SIGTERM and SIGINT end, and SIGHUP reload.

    Python allows handlers in the main thread only; elsewhere nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = {signal.SIGTERM: signals.stop, signal.SIGINT: signals.stop, signal.SIGHUP: signals.reload}
    before = {number: signal.signal(number, lambda got, _: asked[signal.Signals(got)].set()) for number in asked}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
