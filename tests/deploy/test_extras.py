"""Each extra is installed alone, by pip into an environment of its own, and its commands start.

`tests/exporters/test_imports.py` detects a missing library sooner, and without an index.
"""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.wheels import ROOT, Environment, build_wheel, install, own_variables
from faults.observing import end_of
from rebalance_deploy.counts import fetch
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.processes import ChildProcess
from rebalance_deploy.topics import create_topics
from waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.processes, pytest.mark.timeout(1800)]

#: A start of Spark on a busy machine.
READY_SECONDS = 300.0
CLIENT = ROOT / "tests" / "exporters" / "reporters" / "client.py"
SERVING = re.compile(r"serving on (\S+)/metrics")
#: The extras that are tested here; `dev` contains the tools that run the tests.
TRIED = {"stream", "export", "terminal", "probe", "demo"}

Install = Callable[..., Environment]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built once."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def alone(wheel: Path, tmp_path: Path) -> Iterator[Install]:
    """Installs the wheel with one extra; removed at the end, because Spark takes half a gigabyte."""

    def make(extra: str = "", *clients: str) -> Environment:
        return install(wheel, tmp_path / f"only-{extra or 'wheel'}", extra, *clients)

    yield make
    for each in tmp_path.glob("only-*"):
        shutil.rmtree(each)


@contextmanager
def serving(installed: Environment, broker: EmbeddedKafka, name: str, *settings: str) -> Iterator[str]:
    """Start one of the monitor's processes, yield the address of its pages, and stop it cleanly afterwards."""
    log = installed.directory / f"{name}.log"
    own = (f"topic_prefix={installed.directory.name}.", f"{name}.listen_host=127.0.0.1", f"{name}.listen_port=0")
    command: list[str | Path] = [installed.command, name, "--bootstrap-server", broker.bootstrap]
    command += [part for each in (*own, *settings) for part in ("--set", each)]
    with ChildProcess(command, log_path=log, env=own_variables(), cwd=installed.directory, grace_seconds=60) as process:
        found = wait_for(lambda: SERVING.search(log.read_text()) or not process.is_running, log.read_text)
        assert isinstance(found, re.Match), log.read_text()
        yield found[1]
        # Before the stop: on a busy machine the stop may interrupt a batch of Spark, for which py4j prints a stack
        # trace.
        assert "Traceback" not in log.read_text(), log.read_text()
        assert process.terminate(60) == 0, log.read_text()


def await_ready(url: str, seconds: float = READY_SECONDS) -> None:
    """Wait until a process reports that it is fully ready."""
    wait_for(lambda: fetch(f"{url}/-/ready")[0] == 200, lambda: fetch(f"{url}/-/ready"), seconds)


def test_every_extra_is_tried_here() -> None:
    """A new extra is not forgotten; `web` is a common part of three extras."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras) == TRIED | {"dev", "web"}


def test_stream_runs_its_queries(alone: Install, broker: EmbeddedKafka) -> None:
    """With the extra `stream` alone all three queries run and read the log to its end."""
    installed = alone("stream")
    assert not installed.libraries() & {"kafka-python", "kazoo", "httpx", "rich"}
    with serving(installed, broker, "stream", f"stream.checkpoint={installed.directory / 'checkpoint'}") as url:
        await_ready(url)
        assert "kafka_rebalance_monitor_stream_ready 1.0" in fetch(f"{url}/metrics")[1]


def test_probe_asks_the_brokers(alone: Install, broker: EmbeddedKafka) -> None:
    """With the extra `probe` alone the prober gets answers from the brokers."""
    installed = alone("probe")
    assert not installed.libraries() & {"pyspark", "httpx", "rich"}
    create_topics(broker.bootstrap, {f"{installed.directory.name}.probes": 1})
    with serving(installed, broker, "probe") as url:
        await_ready(url)


def test_export_serves_and_the_terminal_reads(alone: Install, broker: EmbeddedKafka) -> None:
    """With the extra `export` alone the exporter answers, and with `terminal` alone the commands read its answers."""
    exporter, terminal = alone("export"), alone("terminal")
    assert not exporter.libraries() & {"pyspark", "kafka-python", "httpx", "rich"}
    assert not terminal.libraries() & {"pyspark", "kafka-python", "confluent-kafka", "starlette", "uvicorn"}
    with serving(exporter, broker, "export") as url:
        assert fetch(f"{url}/-/healthy")[0] == 200
        assert "kafka_rebalance_monitor_" in fetch(f"{url}/metrics")[1]
        assert json.loads(terminal.run(terminal.command, "top", "--json", "--url", url))["groups"] == []
        message = "consumer poll timeout has expired"
        assert "poll_overrun" in terminal.run(terminal.command, "why", message, "--url", url)


@pytest.mark.parametrize(("library", "client"), [("kafka-python", "kafka-python"), ("confluent", "confluent-kafka")])
def test_reporters_need_no_extra(alone: Install, broker: EmbeddedKafka, library: str, client: str) -> None:
    """The bare wheel adds only click to a client's environment, and the client's reports arrive."""
    installed = alone("", client)
    assert installed.libraries() - {"pip", "setuptools"} == {"rebalance-monitor", "click", client}
    topic, reports = f"{library}-alone", f"{library}-alone-reports"
    create_topics(broker.bootstrap, {topic: 1, reports: 1})
    spec = {"library": library, "bootstrap": broker.bootstrap, "group": topic, "topic": topic, "reports": reports}
    how = json.dumps({**spec, "interval_seconds": 1, "loop": "poll", "settings": {}})
    command: list[str | Path] = [installed.python, CLIENT, how]
    log = installed.directory / "client.log"
    with ChildProcess(command, log_path=log, env=own_variables(), cwd=installed.directory):
        wait_for(lambda: end_of(broker.bootstrap, reports) > 0, log.read_text)


def test_demo_has_all_parts(alone: Install) -> None:
    """With the extra `demo` the whole chain runs and counts every rebalance, as its exit code shows."""
    installed = alone("demo")
    demo = (installed.command, "demo", "--duration", "20", "--port", "0")
    log = installed.directory / "demo.log"
    with ChildProcess(demo, log_path=log, env=own_variables(), cwd=installed.directory, grace_seconds=60) as process:
        assert process.wait(900) == 0, log.read_text()
