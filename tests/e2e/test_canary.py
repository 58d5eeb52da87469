"""A monitor with passwords and secrets of every kind: it works, and they appear nowhere."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from pathlib import Path

import httpx
import pytest

from e2e.pages import page
from e2e.rig import family
from exporters.serving import hash_password
from rebalance_deploy.counts import fetch
from rebalance_deploy.local import PROCESSES
from rebalance_deploy.monitor import Monitor, loopback_sources
from spark.securing import CLIENT, secured
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.broker, pytest.mark.timeout(1_800)]

PASSWORD, CLIENT_SECRET, KEY_PASSWORD = "kH7-canary-plumage", "kH7-canary-song", "kH7-canary-talons"
WEB_USER, WEB_PASSWORD = "alice", "kH7-canary-cage"
WAYS = {"PLAIN": ("sasl.password", PASSWORD), "OAUTHBEARER OIDC": ("sasl.oauthbearer.client.secret", CLIENT_SECRET)}
_ANSWER_SECONDS, _SERVED_SECONDS = 30.0, 180.0


@pytest.mark.faults(36, fast=1, full=1)
@pytest.mark.parametrize("way", WAYS)
def test_a_password_is_in_nothing_that_a_monitor_shows(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in logs, the process list, pages or the checkpoint; logs are JSON, without Spark's usual output.

    The passwords of Kafka's user, of a client's key and of a user of the exporter, and the secret of an OAuth client.
    """
    for name, secret in (("PASSWORD", PASSWORD), ("CLIENT_SECRET", CLIENT_SECRET), ("KEY_PASSWORD", KEY_PASSWORD)):
        monkeypatch.setattr(f"spark.securing.{name}", secret)
    logs, place_directory = tmp_path / "logs", tmp_path / "secured"
    for directory in (logs, place_directory):
        directory.mkdir()
    web_password_hash = hash_password(WEB_PASSWORD)
    web = tmp_path / "web.yml"
    web.write_text(f"basic_auth_users: {{{WEB_USER}: {web_password_hash}}}\n")
    with secured(place_directory) as place:
        # The listener asks for no certificate, but every client loads the key.
        kafka = place.with_key("client.encrypted.key", KEY_PASSWORD) | place.ways_in()[way]
        expected, secret = WAYS[way]
        assert (kafka[expected], kafka["ssl.key.password"]) == (secret, KEY_PASSWORD)
        bootstrap = kafka.pop("bootstrap.servers")
        for name, value in kafka.items():
            monkeypatch.setenv(f"REBALANCE_MONITOR_KAFKA_{name.upper().replace('.', '_')}", value)
        monkeypatch.setenv("REBALANCE_MONITOR_LOG_FORMAT", "json")
        monkeypatch.setenv("REBALANCE_MONITOR_LOG_LEVEL", "debug")
        flags = ("stream.topic_replication_factor=1", f"export.web_config_file={web}")
        sources = loopback_sources(bootstrap, tmp_path, *flags, "export.health_without_password=true")
        with Monitor(sources, logs) as monitor:
            own = {"stream": serving(logs / "stream.log")}
            # At once, because it may be ready by the time the others serve.
            first = wait_for(lambda: fetch(f"{own['stream']}/-/ready", timeout_seconds=30)[0], "an answer", every=0)
            # Or by the time this machine sends the request; then it prints so.
            assert first in (200, 503)
            if first == 200:
                wait_for(lambda: "caught up with the log" in (logs / "stream.log").read_text(), "the line", 60)
            own |= {name: serving(logs / f"{name}.log") for name in PROCESSES if name != "stream"}
            assert monitor.wait_until_ready(threading.Event(), lambda _: None, timeout_seconds=400)
            for name, url in own.items():
                wait_for(lambda url=url: fetch(f"{url}/-/ready")[0] == 200, f"{name} to be ready", 300)
                assert page(f"{url}/-/healthy")
            assert wait_for(lambda: fetch(f"{own['export']}/metrics")[0], "an answer") == 401
            shown = [page_for_user(f"{url}{path}") for url in own.values() for path in ("/metrics", "/-/ready")]
            shown += [page_for_user(f"{own['export']}/api/v1/{name}") for name in ("overview", "findings", "silences")]
            parents = [child.process.pid for child in (monitor.stream, monitor.probe, monitor.export)]
            commands = [command_of(pid) for parent in parents for pid in family(parent)]
            assert any("java" in command for command in commands)
            assert "kafka_rebalance_monitor_stream_ready 1.0" in shown[0]
            started = {name: len((logs / f"{name}.log").read_text().splitlines()) for name in PROCESSES}
    for name in PROCESSES:
        for number, line in enumerate((logs / f"{name}.log").read_text().splitlines()):
            event = json.loads(line)
            assert event["process"] == name
            # Spark's usual output at a start is only logged with `debug`. A batch interrupted by the stop is reported.
            assert event["logger"] != "spark" or event["level"] == "debug" or number >= started[name], line
            shown.append(line)
    kept = [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert kept
    secrets = {PASSWORD, CLIENT_SECRET, KEY_PASSWORD, WEB_PASSWORD, web_password_hash}
    # As they are in headers of HTTP.
    secrets |= {b64encode(f"{WEB_USER}:{WEB_PASSWORD}".encode()).decode()}
    secrets |= {b64encode(f"{CLIENT}:{CLIENT_SECRET}".encode()).decode()}
    assert not [(secret, text) for text in (*shown, *commands) for secret in secrets if secret in text]
    assert not [secret for content in kept for secret in secrets if secret.encode() in content]


def page_for_user(url: str) -> str:
    """Return the text of a page for a user who logs in, waiting until it is served."""

    def text() -> str | None:
        try:
            answer = httpx.get(url, auth=(WEB_USER, WEB_PASSWORD), timeout=_ANSWER_SECONDS)
        except httpx.HTTPError:
            return None
        return answer.text if answer.status_code == 200 else None

    return wait_for(text, url, _SERVED_SECONDS)


def serving(log: Path) -> str:
    """Return the address that a process prints."""

    def announced() -> str | None:
        for line in log.read_text().splitlines() if log.exists() else ():
            message = str(json.loads(line)["message"])
            if message.startswith("serving on "):
                return message.removeprefix("serving on ").removesuffix("/metrics")
        return None

    return wait_for(announced, lambda: log.read_text() if log.exists() else log, 300)


def command_of(pid: int) -> str:
    """Return the command line of a process; empty if it has exited since it was listed."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
