"""Serving an application over HTTP or HTTPS until it is told to end; every process of the monitor does it this way."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.reloading import Settings

_SHUTDOWN_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Signals:
    """What is asked of a running server: to end, and to read its settings files again."""

    stop: threading.Event = field(default_factory=threading.Event)
    reload: threading.Event = field(default_factory=threading.Event)


class _Server(uvicorn.Server):
    """uvicorn's server that looks at events instead of signals, which it would raise again after its end."""

    def __init__(
        self, config: uvicorn.Config, settings: Settings, signals: Signals, started: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._settings = settings
        self._signals = signals
        self._announce = started

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()

    async def on_tick(self, counter: int) -> bool:
        if self._signals.reload.is_set():
            self._signals.reload.clear()
            await asyncio.to_thread(self._settings.reload)
        return self._signals.stop.is_set() or await super().on_tick(counter)


def serve(
    app: Starlette,
    listener: socket.socket,
    settings: Settings,
    signals: Signals,
    on_listening: Callable[[str, int], None] | None = None,
) -> None:
    """Serve an application on a socket until it is asked to end."""
    host, port = listener.getsockname()[:2]

    def announce() -> None:
        if on_listening is not None:
            on_listening(host, port)

    # One event loop for certain: connections switch certificates in a way that is asyncio's own.
    served = uvicorn.Config(
        app,
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    served.load()
    served.ssl = settings.tls
    with _obeying(signals):
        _Server(served, settings, signals, announce).run(sockets=[listener])


def listen(host: str, port: int, section: str) -> socket.socket:
    """Return a socket that listens; port 0 takes any free one.

    Raises ExporterError when it cannot be had, which names the setting of the process's section.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
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
