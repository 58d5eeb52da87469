"""The demo's Prometheus, Alertmanager and phone: pages are said as they arrive.

Receives where the exporter serves; hands on the two servers' URLs, or nothing where the programs are not installed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rebalance_deploy.broker import is_free
from rebalance_deploy.errors import UserError
from rebalance_deploy.observability import (
    PACKAGES,
    alertmanager,
    find_tool,
    prometheus,
    write_alertmanager_config,
    write_prometheus_config,
)
from rebalance_deploy.terminal.escaping import safe

Say = Callable[[str], None]

#: So often the demo scrapes and evaluates: somebody is watching.
SCRAPE_SECONDS = 5.0
_WAIT_SECONDS = 1.0
_PROMETHEUS_PORT, _ALERTMANAGER_PORT = 9090, 9093
_RUNBOOKS = Path(__file__).resolve().parents[3] / "docs" / "runbooks"
#: The page's lines after the first, by the annotations that hold them.
_LINES = {
    "cause": "Cause",
    "since": "Since",
    "impact": "Impact",
    "scope": "Scope",
    "now": "Now",
    "explain_url": "Explain",
    "runbook_url": "Runbook",
}


@dataclass(frozen=True, slots=True)
class Alerting:
    """Where Prometheus and Alertmanager serve."""

    prometheus_url: str
    alertmanager_url: str


@contextmanager
def alerting(directory: Path, exporter_url: str, say: Say) -> Iterator[Alerting | None]:
    """Run Prometheus and Alertmanager with the shipped rules and say every page; null where they are not installed."""
    try:
        for name in PACKAGES:
            find_tool(name)
    except UserError:
        say("to see pages too: sudo apt-get install prometheus prometheus-alertmanager, and start the demo again")
        yield None
        return
    links = {"link_monitor": exporter_url, "link_grafana": "", "link_runbooks": _RUNBOOKS.as_uri()}
    with ExitStack() as stack:
        phone = stack.enter_context(receive_pages(lambda alert: say(render_page(alert))))
        pager = stack.enter_context(
            alertmanager(
                directory,
                write_alertmanager_config(
                    directory / "alerts", phone, group_wait_seconds=_WAIT_SECONDS, group_interval_seconds=SCRAPE_SECONDS
                ),
                _free_or_any(_ALERTMANAGER_PORT),
            )
        )
        config = write_prometheus_config(
            directory / "metrics",
            targets=[urlsplit(exporter_url).netloc],
            alertmanagers=[urlsplit(pager.url).netloc],
            links=links,
            scrape_seconds=SCRAPE_SECONDS,
        )
        server = stack.enter_context(prometheus(directory, config, _free_or_any(_PROMETHEUS_PORT)))
        yield Alerting(server.url, pager.url)


def _free_or_any(port: int) -> int:
    return port if is_free(port) else 0


@contextmanager
def receive_pages(on_alert: Callable[[Mapping[str, Any]], None]) -> Iterator[str]:
    """Serve as the receiver of everything until the block ends; yields its URL.

    Every alert goes to `on_alert` as Alertmanager's webhook tells it, on a thread of the server.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(202)
            self.end_headers()
            if self.path == "/alerts":
                for alert in body["alerts"]:
                    on_alert(alert)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def render_page(alert: Mapping[str, Any]) -> str:
    """Return an alert as Alertmanager's webhook tells it in the lines of the page, the phone's line first."""
    told = {key: safe(" ".join(str(value).split())) for key, value in alert["annotations"].items()}
    severity = safe(str(alert["labels"].get("severity", "")))
    name = safe(str(alert["labels"].get("alertname", "")))
    head = f"PAGE  [{safe(str(alert['status'])).upper()}] {told.get('summary', name)}  ({severity}, {name})"
    if alert["status"] != "firing":
        return head
    return "\n".join([head, *(f"      {word:<8}{told[key]}" for key, word in _LINES.items() if told.get(key))])
