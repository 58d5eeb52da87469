"""Runs a real Prometheus and a real Alertmanager with the rules and templates that this project ships.

Takes a directory for configuration, data and logs, and the addresses of the exporter and of the receivers of
notifications; returns running servers with their URLs. It changes addresses and waiting times of the shipped files, but
neither expressions nor templates. It does not depend on Kafka or the exporter.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from rebalance_deploy.counts import fetch
from rebalance_deploy.errors import UserError
from rebalance_deploy.ports import find_free_port, reserved
from rebalance_deploy.processes import ChildProcess

#: The programs used, each with the Debian package that contains it.
PACKAGES = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "prometheus-alertmanager": "prometheus-alertmanager",
    "amtool": "prometheus-alertmanager",
}

#: Name of the scrape job; the alert KafkaRebalanceMonitorDown selects it.
JOB = "rebalance-monitor"

#: Secret files that the shipped Alertmanager configuration reads, each with a dummy value.
SECRETS = {"pagerduty_key": "0123456789abcdef0123456789abcdef", "webhook_password": "local"}

#: Directory of the secrets in the shipped Alertmanager configuration.
_SECRETS = "/etc/alertmanager/secrets"
_SHIPPED = Path(__file__).resolve().parents[1]
_READY_SECONDS = 180.0
_PORT_TAKEN = "address already in use"
_PORT_ATTEMPTS = 3


class _PortTakenError(UserError):
    """Another program listens on a server's port."""


def find_tool(name: str) -> Path:
    """Return the path of a program of `PACKAGES`. Raises UserError with the package to install."""
    # Debian's prometheus-alertmanager is called alertmanager everywhere else.
    found = shutil.which(name) or shutil.which(name.removeprefix("prometheus-"))
    if found is None:
        raise UserError(f"{name} is not installed: sudo apt-get install {PACKAGES[name]} (Debian, Ubuntu)")
    return Path(found)


def shipped(path: str) -> Path:
    """Return a file or directory under `deploy/`. Raises UserError if only the wheel is installed."""
    found = _SHIPPED / path
    if not found.exists():
        raise UserError(f"{found} is missing: run this from a checkout of the project")
    return found


@dataclass(frozen=True, slots=True)
class Server:
    """A running server; `url` has no trailing slash, `log` is its log file."""

    url: str
    log: Path
    process: ChildProcess


@dataclass(frozen=True, slots=True)
class Alerting:
    """A Prometheus that scrapes an exporter, and the Alertmanager that it notifies."""

    prometheus: Server
    alertmanager: Server


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusOptions:
    """Differences from the shipped configuration and rules of Prometheus; windows and thresholds are not changed.

    `links` replaces the external labels `link_*`. `scrape_seconds` is the interval of scrapes and evaluations.
    `hold_seconds` replaces every `for` and `keep_firing_for` of the rules in `held_files` (a file-name pattern), for
    demos and tests; None keeps the shipped values.
    """

    links: Mapping[str, str] = field(default_factory=dict)
    scrape_seconds: float = 15
    hold_seconds: float | None = None
    held_files: str = "*.yml"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertmanagerOptions:
    """Differences from the shipped configuration of Alertmanager.

    Notifications wait this long for further alerts, and are sent again after `repeat_seconds`, null: as shipped.
    """

    group_wait_seconds: float = 10
    group_interval_seconds: float = 60
    repeat_seconds: float | None = None


_PROMETHEUS, _ALERTMANAGER = PrometheusOptions(), AlertmanagerOptions()


@contextmanager
def alerting(
    directory: Path,
    exporter_url: str,
    receiver_url: str,
    prometheus_options: PrometheusOptions = _PROMETHEUS,
    alertmanager_options: AlertmanagerOptions = _ALERTMANAGER,
    *,
    preferred_ports: tuple[int, int] = (0, 0),
) -> Iterator[Alerting]:
    """Run both servers until the block ends; all notifications are sent to `receiver_url`.

    `preferred_ports` are those of Prometheus and of Alertmanager; 0, or one that is in use, picks a free one.
    """
    pager_config = write_alertmanager_config(directory / "alerts", receiver_url, alertmanager_options)
    with alertmanager(directory, pager_config, preferred_ports[1], or_any=True) as pager:
        config = write_prometheus_config(
            directory / "metrics",
            prometheus_options,
            targets=[urlsplit(exporter_url).netloc],
            alertmanagers=[urlsplit(pager.url).netloc],
        )
        with prometheus(directory, config, preferred_ports[0], or_any=True) as server:
            yield Alerting(server, pager)


@contextmanager
def receiving(on_body: Callable[[str, Any], None]) -> Iterator[str]:
    """Serve as a receiver of notifications on loopback until the block ends; yields its URL without trailing slash.

    `on_body` is called with the path and the JSON of every request, on a thread of the server.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            # PagerDuty's API answers 202; for webhooks and Slack any 2xx status is success.
            self.send_response(202)
            self.end_headers()
            self.wfile.write(b"{}")
            on_body(self.path, body)

        # Opsgenie's API updates an alert with PUT.
        do_PUT = do_POST  # noqa: N815 - the base class's name

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


def alerts_of(path: str, body: Any) -> Sequence[Mapping[str, Any]]:
    """Return the alerts of a notification to the catch-all receiver `/alerts`; empty for any other receiver."""
    alerts: Sequence[Mapping[str, Any]] = body["alerts"] if path == "/alerts" else ()
    return alerts


@contextmanager
def prometheus(directory: Path, config: Path, port: int = 0, *, or_any: bool = False) -> Iterator[Server]:
    """Run Prometheus on loopback until the block ends. Data and log go to `directory`.

    Port 0 picks a free one; so does a port that is in use if `or_any`.
    """
    options = (
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'prometheus-data'}",
        "--storage.tsdb.retention.time=2d",
    )
    command = [str(find_tool("prometheus")), *options]
    with _start(command, directory / "prometheus.log", port, or_any=or_any) as server:
        yield server


@contextmanager
def alertmanager(
    directory: Path, config: Path, port: int = 0, *, or_any: bool = False, program: Path | None = None
) -> Iterator[Server]:
    """Run Alertmanager, or `program` instead, on loopback without peers until the block ends; see `prometheus`."""
    options = (
        f"--config.file={config}",
        f"--storage.path={directory / 'alertmanager-data'}",
        # By default it looks for peers, and refuses to start on a machine without a private address.
        "--cluster.listen-address=",
    )
    name = "prometheus-alertmanager"
    command = [str(program or find_tool(name)), *options]
    with _start(command, directory / f"{name}.log", port, or_any=or_any) as server:
        yield server


def write_prometheus_config(
    directory: Path,
    options: PrometheusOptions = _PROMETHEUS,
    *,
    targets: Sequence[str],
    alertmanagers: Sequence[str] = (),
) -> Path:
    """Write a copy of the shipped configuration and rules for these addresses (`host:port`) and return its path."""
    config = _read(shipped("prometheus/prometheus.yml"))
    interval = f"{round(options.scrape_seconds * 1000)}ms"
    config["global"] |= {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval}
    config["global"]["external_labels"] |= options.links
    config["alerting"]["alertmanagers"] = [{"static_configs": [{"targets": list(alertmanagers)}]}]
    config["scrape_configs"] = [{"job_name": JOB, "static_configs": [{"targets": list(targets)}]}]
    for rules in sorted(shipped("prometheus/rules").glob("*.yml")):
        held = options.hold_seconds if rules.match(options.held_files) else None
        _write(directory / "rules" / rules.name, _hold(_read(rules), held))
    return _write(directory / "prometheus.yml", config)


def write_alertmanager_config(directory: Path, receiver_url: str, options: AlertmanagerOptions = _ALERTMANAGER) -> Path:
    """Write a copy of the shipped configuration that sends everything to `receiver_url`, and return its path.

    Slack messages go to its path `/slack`, PagerDuty's events to `/pagerduty`; webhooks keep the last part of their
    paths.
    """
    text = shipped("alertmanager/alertmanager.yml").read_text()
    config: dict[str, Any] = yaml.safe_load(text.replace(_SECRETS, str(directory / "secrets")))
    config["templates"] = [str(shipped("alertmanager/templates") / "*.tmpl")]
    config["global"] = {"pagerduty_url": f"{receiver_url}/pagerduty"}
    _hurry(config["route"], options)
    for receiver in config["receivers"]:
        for webhook in receiver.get("webhook_configs", ()):
            webhook["url"] = receiver_url + "/" + webhook["url"].rpartition("/")[2]
    for name, text in {**SECRETS, "slack_url": f"{receiver_url}/slack"}.items():
        secret = directory / "secrets" / name
        secret.parent.mkdir(parents=True, exist_ok=True)
        secret.write_text(text)
    return _write(directory / "alertmanager.yml", config)


@contextmanager
def _start(command: Sequence[str], log: Path, port: int, *, or_any: bool) -> Iterator[Server]:
    """Run a server from when it is ready until the block ends.

    Raises UserError with the last error of its log if it does not get ready.
    """
    chosen = [port] if port else []
    # Another program may take a free port after it was found.
    found = [0] * _PORT_ATTEMPTS if or_any or not port else []
    server = _first_started(command, log, [*chosen, *found])
    with server.process:
        yield server


def _first_started(command: Sequence[str], log: Path, ports: Sequence[int]) -> Server:
    """Start a server on the first of these ports that is free."""
    for port in ports[:-1]:
        with suppress(_PortTakenError):
            return _started(command, log, port)
    return _started(command, log, ports[-1])


def _started(command: Sequence[str], log: Path, wanted_port: int) -> Server:
    """Start a server and return it once it is ready."""
    # The servers could choose a port themselves, but then their links would contain port 0.
    port = wanted_port or find_free_port()
    url = f"http://127.0.0.1:{port}"
    options = (f"--web.listen-address=127.0.0.1:{port}", f"--web.external-url={url}")
    # Checked before the start, because another server on this port could answer instead of the new one.
    with reserved(port) as is_free:
        if not is_free:
            raise _PortTakenError(f"port {port} is in use: stop what listens on 127.0.0.1:{port} or choose another")
        logged = log.stat().st_size if log.exists() else 0
        process = ChildProcess([*command, *options], log_path=log)
        try:
            _await_ready(process, url, log, logged)
        except BaseException as error:
            process.terminate()
            if isinstance(error, UserError) and _PORT_TAKEN in str(error):
                raise _PortTakenError(str(error)) from error
            raise
    return Server(url, log, process)


def _await_ready(process: ChildProcess, url: str, log: Path, logged: int) -> None:
    """Wait until a server answers; `logged`: size of its log, in bytes, before it was started."""
    deadline, pause = time.monotonic() + _READY_SECONDS, threading.Event()
    while process.is_running and time.monotonic() < deadline:
        if fetch(f"{url}/-/ready")[0] == HTTPStatus.OK and process.is_running:
            return
        pause.wait(0.05)
    lines = log.read_bytes()[logged:].decode(errors="replace").splitlines()
    what = "did not get ready" if process.is_running else f"ended with exit code {process.exit_code}"
    raise UserError(f"{process.command[0]} {what}, see {log}: {_last_complaint(lines)}")


def _last_complaint(lines: Sequence[str]) -> str:
    """Return the last line with level error, or else the last line; a server logs its stop after the error."""
    complaints = [line for line in lines if "level=error" in line]
    return (complaints or [*lines] or ["it said nothing"])[-1]


def _hold(rules: dict[str, Any], seconds: float | None) -> dict[str, Any]:
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        for key in ("for", "keep_firing_for"):
            if seconds is not None and key in rule:
                rule[key] = f"{round(seconds * 1000)}ms"
    return rules


def _hurry(route: dict[str, Any], options: AlertmanagerOptions) -> None:
    changed = {
        "group_wait": options.group_wait_seconds,
        "group_interval": options.group_interval_seconds,
        "repeat_interval": options.repeat_seconds,
    }
    route |= {
        name: f"{round(seconds * 1000)}ms" for name, seconds in changed.items() if name in route and seconds is not None
    }
    for each in route.get("routes", ()):
        _hurry(each, options)


def _read(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def _write(path: Path, content: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True))
    return path
