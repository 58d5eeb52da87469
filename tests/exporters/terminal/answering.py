"""A real HTTP server in this process that answers like the exporter's API, from objects given by a test."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from exporters.terminal.clusters import ADVISED, ENRICHER, FORMATION, FORMED, LOSS, OVERVIEW, STARVED, TWICE, WEEKLY
from rebalance_contract import encode

PREFIX = "/api/v1/"


@dataclass
class Request:
    """A received request."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]


@dataclass
class Exporter:
    """The answers, by path below /api/v1/, as an object or `(status, object)`; and the received requests."""

    answers: dict[str, Any] = field(default_factory=dict)
    #: One list of chunks per connection to the event stream; after the last the server refuses connections.
    streams: list[Iterable[bytes]] = field(default_factory=list)
    password: tuple[str, str] | None = None
    requests: list[Request] = field(default_factory=list)
    url: str = ""

    def queries(self, path: str) -> list[dict[str, str]]:
        """The query strings of requests to a path."""
        return [each.query for each in self.requests if each.path == path]


def enricher(**answers: Any) -> dict[str, Any]:
    """The answers about payments-enricher, with changes; a slash in a path is written `__`."""
    path = "groups/payments-enricher"
    usual = {
        "overview": OVERVIEW,
        "report": WEEKLY,
        "findings": {"findings": [FORMATION, STARVED, TWICE]},
        path: ENRICHER,
        f"{path}/advice": ADVISED,
        f"{path}/rebalances": {"rebalances": [LOSS, FORMED]},
        f"{path}/rebalances/12-4711": {"rebalance": LOSS, "findings": [STARVED, TWICE]},
        f"{path}/rebalances/12-17": {"rebalance": FORMED, "findings": [FORMATION]},
    }
    return usual | answers


@contextmanager
def answering(exporter: Exporter) -> Iterator[Exporter]:
    """Serve on a free port until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body are sent separately; with Nagle's algorithm the body would wait for the acknowledgement of
        # the headers.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            path = unquote(parts.path).removeprefix(PREFIX)
            query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            exporter.requests.append(Request(path, query, {name.lower(): text for name, text in self.headers.items()}))
            if exporter.password is not None and not self._is_let_in(exporter.password):
                self._answer(401, b"Unauthorized", "text/plain")
            elif path == "stream":
                self._stream()
            else:
                found = exporter.answers.get(path, (404, {"error": f"no such path {path}", "did_you_mean": []}))
                status, body = found if isinstance(found, tuple) else (200, found)
                self._answer(status, body if isinstance(body, bytes) else encode(body), "application/json")

        def _is_let_in(self, password: tuple[str, str]) -> bool:
            expected = base64.b64encode(":".join(password).encode()).decode()
            return self.headers.get("authorization") == f"Basic {expected}"

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _stream(self) -> None:
            if not exporter.streams:
                self._answer(503, encode({"error": "too many listeners", "did_you_mean": []}), "application/json")
                return
            chunks = exporter.streams.pop(0)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            for chunk in chunks:
                self.wfile.write(chunk)
                self.wfile.flush()

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  its name in the base class
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        exporter.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield exporter
        finally:
            server.shutdown()
            thread.join()


def event(kind: str, data: Any, event_id: str | None = None) -> bytes:
    """One server-sent event."""
    name = b"" if event_id is None else f"id: {event_id}\n".encode()
    return name + f"event: {kind}\n".encode() + b"data: " + encode(data) + b"\n\n"
