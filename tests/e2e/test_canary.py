"""A monitor that logs in with a password: it works, and the password appears nowhere."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from e2e.pages import page
from e2e.rig import family
from rebalance_deploy.counts import fetch
from rebalance_deploy.local import PROCESSES
from rebalance_deploy.monitor import Monitor, loopback_sources
from spark.securing import secured
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.broker, pytest.mark.timeout(1_800)]

CANARY = "kH7-canary-plumage"


@pytest.mark.faults(36, fast=1, full=1)
def test_a_password_is_in_nothing_that_a_monitor_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in logs, the process list, pages or the checkpoint; logs are JSON, without Spark's usual output."""
    monkeypatch.setattr("spark.securing.PASSWORD", CANARY)
    logs, place_directory = tmp_path / "logs", tmp_path / "secured"
    for directory in (logs, place_directory):
        directory.mkdir()
    with secured(place_directory) as place:
        kafka = dict(place.ways_in()["PLAIN"])
        assert kafka["sasl.password"] == CANARY
        bootstrap = kafka.pop("bootstrap.servers")
        for name, value in kafka.items():
            monkeypatch.setenv(f"REBALANCE_MONITOR_KAFKA_{name.upper().replace('.', '_')}", value)
        monkeypatch.setenv("REBALANCE_MONITOR_LOG_FORMAT", "json")
        monkeypatch.setenv("REBALANCE_MONITOR_LOG_LEVEL", "debug")
        sources = loopback_sources(bootstrap, tmp_path, "stream.topic_replication_factor=1")
        with Monitor(sources, logs) as monitor:
            own = {"stream": serving(logs / "stream.log")}
            # At once, because it may be ready by the time the others serve.
            first = wait_for(lambda: fetch(f"{own['stream']}/-/ready", timeout_seconds=30)[0], "an answer", every=0)
            # Or by the time this machine sends the request; then it has printed so.
            assert first == 503 or (first == 200 and "caught up with the log" in (logs / "stream.log").read_text())
            own |= {name: serving(logs / f"{name}.log") for name in PROCESSES if name != "stream"}
            assert monitor.wait_until_ready(threading.Event(), lambda _: None, timeout_seconds=400)
            for name, url in own.items():
                wait_for(lambda url=url: fetch(f"{url}/-/ready")[0] == 200, f"{name} to be ready", 300)
                assert page(f"{url}/-/healthy")
            shown = [page(f"{url}{path}") for url in own.values() for path in ("/metrics", "/-/ready")]
            shown += [page(f"{own['export']}/api/v1/{name}") for name in ("overview", "findings")]
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
    assert not [text for text in (*shown, *commands) if CANARY in text]
    assert not [content for content in kept if CANARY.encode() in content]


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
