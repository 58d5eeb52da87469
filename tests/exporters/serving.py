"""The exporter's HTTP server on a real socket, without Kafka behind it; and certificates for it."""

from __future__ import annotations

import itertools
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import bcrypt
from starlette.applications import Starlette

from exporters.contract_rows import NOW_MS, silence_row
from rebalance_contract import AlertSilence
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.server import make_app
from rebalance_exporters.state.health import ReadProgress
from rebalance_exporters.state.view import View
from rebalance_exporters.web.reloading import Settings
from rebalance_exporters.web.server import Signals, serve

#: Much longer than anything takes here: beside other work a process may get little processor time for minutes.
DEADLINE_SECONDS = 120


@dataclass(frozen=True)
class Served:
    """The address of a served view, and methods to query the server."""

    port: int
    signals: Signals
    settings: Settings


@contextmanager
def serving(
    view: View,
    *,
    owners_file: str = "",
    web_config_file: str = "",
    write_silence: Callable[[AlertSilence], None] | None = None,
    silence_refusal: Callable[[str], str | None] = lambda _: None,
    port: int = 0,
) -> Iterator[Served]:
    """Serve a view while the block runs; requested silences are read back at once, unless disabled."""
    config = ExportConfig(kafka={"bootstrap.servers": "unused:9092"})
    settings, signals = Settings(owners_file, web_config_file, itertools.count(NOW_MS).__next__), Signals()
    loaded = ReadProgress(loaded=True)
    write = write_silence or (lambda silence: view.apply([silence_row(silence)]))
    app = make_app(
        config,
        view,
        lambda: loaded,
        lambda: NOW_MS,
        settings=settings,
        stop=signals.stop,
        write_silence=write,
        silence_refusal=silence_refusal,
    )
    with serving_app(app, settings, signals, port) as served:
        yield served


@contextmanager
def reserving_port() -> Iterator[int]:
    """Reserve a port for servers that run one after the other: nobody else gets it while none of them runs."""
    with socket.socket() as reserved:
        # With the servers' own options, so that one can listen beside this socket, which does not listen.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


@contextmanager
def serving_app(app: Starlette, settings: Settings, signals: Signals, port: int = 0) -> Iterator[Served]:
    """Serve any application while the block runs."""
    listening = threading.Event()
    with socket.create_server(("127.0.0.1", port)) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=serve, args=(app, listener, settings, signals, lambda *_: listening.set()))
        thread.start()
        try:
            assert listening.wait(DEADLINE_SECONDS)
            yield Served(port, signals, settings)
        finally:
            signals.stop.set()
            thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()


@cache
def hash_password(password: str) -> str:
    """A bcrypt hash of the lowest allowed cost, the same for the same password."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


def make_certificate(folder: Path, name: str) -> None:
    """Write NAME.crt and NAME.key, self-signed and valid for localhost."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", f"{name}.key", "-out", f"{name}.crt", "-days", "2", "-subj", f"/CN={name}"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True, cwd=folder, timeout=DEADLINE_SECONDS)
