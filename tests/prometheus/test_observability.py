"""Prometheus and Alertmanager as started by the demo and tests."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, Thread
from urllib.parse import quote, urlsplit

import pytest
import yaml

from prometheus.rig import alertmanager, ask, prometheus, webhook_receiver
from rebalance_deploy.demo.alerting import fires
from rebalance_deploy.errors import UserError
from rebalance_deploy.observability import (
    Alerting,
    AlertmanagerOptions,
    PrometheusOptions,
    write_alertmanager_config,
    write_prometheus_config,
)
from rebalance_deploy.ports import find_free_port
from waiting import is_alive, wait_for

pytestmark = pytest.mark.tools

GROUP = 'a"b\\n{{x}}<b>'
#: An exporter's exposition in the middle of a group's storm, with metrics about itself.
EXPOSITION = f"""\
kafka_rebalance_window_rebalances{{cluster="prod",group="{GROUP.replace(chr(34), chr(92) + chr(34))}",window="15m"}} 14
kafka_rebalance_window_rebalances{{cluster="prod",group="{GROUP.replace(chr(34), chr(92) + chr(34))}",window="5m"}} 4
kafka_rebalance_group_info{{cluster="prod",group="{GROUP.replace(chr(34), chr(92) + chr(34))}",owner="payments"}} 1
kafka_rebalance_monitor_ready 1
"""


@contextmanager
def exporter(text: str) -> Iterator[str]:
    """Serve an exposition on loopback; yield `host:port`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_from_a_series_to_the_page(tmp_path: Path) -> None:
    """A scraped storm of a group with a hostile name arrives as its page, with only the documented labels."""
    name = json.loads(f'"{GROUP.replace(chr(34), chr(92) + chr(34))}"')
    with webhook_receiver() as inbox, exporter(EXPOSITION) as target:
        receivers = write_alertmanager_config(
            tmp_path, inbox.url, AlertmanagerOptions(group_wait_seconds=0.2, group_interval_seconds=0.5)
        )
        with alertmanager(tmp_path, receivers) as office:
            config = write_prometheus_config(
                tmp_path,
                PrometheusOptions(links={"link_monitor": "http://monitor"}, scrape_seconds=0.5, hold_seconds=0.5),
                targets=[target],
                alertmanagers=[office.url.removeprefix("http://")],
            )
            with prometheus(tmp_path, config) as server:
                body = inbox.await_body("/alerts", "KafkaRebalanceStorm", seconds=240)
                message = inbox.await_body("/slack", "14 rebalances", seconds=240)["attachments"][0]
                wait_for(lambda: fires(Alerting(server, office), name), "the storm to fire")
                # The answer of a slow Prometheus is ignored, see below.
                wait_for(lambda: not fires(Alerting(server, office), "calm"), "nothing to fire of another group")
            assert fires(Alerting(server, office), "calm"), "a Prometheus that does not answer calms nobody"
    [alert] = body["alerts"]
    expected = {"alertname": "KafkaRebalanceStorm", "severity": "warning", "cluster": "prod", "team": "payments"}
    assert alert["labels"] == {**expected, "group": name}
    assert alert["annotations"]["explain_url"] == "http://monitor/#/groups/prod/" + quote(name, safe="")
    assert message["title"] == '[FIRING] a"b?{{x}}&lt;b&gt;: 14 rebalances in 15 min'
    assert message["text"].startswith("Cause: undetermined: no client metrics of this group")


def test_only_the_rules_that_are_named_are_held_shorter(tmp_path: Path) -> None:
    """The demo shortens the `for` time of alerts about groups; that of alerts about the monitor is unchanged."""
    options = PrometheusOptions(hold_seconds=20, held_files="kafka-rebalance.yml")
    write_prometheus_config(tmp_path, options, targets=["a:1"])
    holds = {
        file.stem: {
            rule["for"]
            for group in yaml.safe_load(file.read_text())["groups"]
            for rule in group["rules"]
            if "for" in rule
        }
        for file in (tmp_path / "rules").glob("*.yml")
    }
    assert holds["kafka-rebalance"] == {"20000ms"}
    assert "3m" in holds["monitor"]


def test_servers_end_with_the_block(tmp_path: Path) -> None:
    """No process remains, and the server's links use the URL."""
    config = write_prometheus_config(tmp_path, targets=["127.0.0.1:1"])
    with prometheus(tmp_path, config) as server:
        assert ask(f"{server.url}/api/v1/status/flags")["data"]["web.external-url"] == server.url
        assert ask(f"{server.url}/api/v1/rules")["status"] == "success"
    wait_for(lambda: not is_alive(server.process.pid), "Prometheus is gone")


def test_a_wrong_configuration_is_reported(tmp_path: Path) -> None:
    """A server that exits at its start is an error with its last output."""
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("no_such_key: 1\n")
    with pytest.raises(UserError, match=r"prometheus ended with exit code .*no_such_key"), prometheus(tmp_path, wrong):
        pass


def test_servers_that_start_together_are_told_apart(tmp_path: Path) -> None:
    """Two demos may start at the same time: both find the usual port free, and the first to listen answers for both."""
    port, together = find_free_port(), Barrier(2)

    def started(name: str) -> str:
        directory = tmp_path / name
        config = write_alertmanager_config(directory, "http://127.0.0.1:1")
        together.wait()
        with alertmanager(directory, config, port, or_any=True) as server:
            together.wait()
            assert server.process.is_running
            together.wait()
            return server.url

    with ThreadPoolExecutor(2) as threads:
        urls = list(threads.map(started, "ab"))
    assert f"http://127.0.0.1:{port}" in urls
    assert len(set(urls)) == 2


def test_an_error_of_an_earlier_attempt_is_not_of_this_one(tmp_path: Path) -> None:
    """Attempts share a log; only a port in use leads to another attempt."""
    log, program = tmp_path / "prometheus-alertmanager.log", tmp_path / "program"
    log.write_text("level=error err='address already in use'\n")
    program.write_text("#!/bin/sh\necho cannot start\n")
    program.chmod(0o755)
    with pytest.raises(UserError, match="cannot start"), alertmanager(tmp_path, tmp_path / "none.yml", program=program):
        pass
    assert log.read_text().count("cannot start") == 1


def test_a_preferred_port_in_use_is_replaced(tmp_path: Path) -> None:
    """Whatever listens there."""
    with socket.create_server(("127.0.0.1", 0)) as taken, webhook_receiver() as inbox:
        port = taken.getsockname()[1]
        with alertmanager(tmp_path, write_alertmanager_config(tmp_path, inbox.url), port, or_any=True) as server:
            assert urlsplit(server.url).port != port
            assert ask(f"{server.url}/api/v2/status")["config"]


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    """A requested port that is in use is an error at once, whatever listens there."""
    with socket.create_server(("127.0.0.1", 0)) as taken, webhook_receiver() as inbox:
        config = write_alertmanager_config(tmp_path, inbox.url)
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} is in use"), alertmanager(tmp_path, config, port):
            pass
