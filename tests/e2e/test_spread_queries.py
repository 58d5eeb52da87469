"""`stream --query X`, three times: each query in its own process, as the chart starts them to distribute the load."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from e2e.rig import READY_SECONDS, Watched, family
from rebalance_contract import QUERIES
from rebalance_deploy import local
from rebalance_deploy.counts import fetch
from rebalance_deploy.demo.workload import ConsumerSpec
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.monitor import loopback_sources
from rebalance_deploy.ports import find_free_port
from rebalance_deploy.processes import ChildProcess
from rebalance_deploy.topics import create_topics
from waiting import is_alive, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1_800)]

GROUP = "spread"
#: A member counts as gone after three sessions, at least 30 s.
JUDGED_SECONDS = 300.0


def spec(name: str) -> ConsumerSpec:
    """Return the specification of a member that reports, with a short session."""
    return ConsumerSpec("confluent-kafka", GROUP, "orders", f"{GROUP}-{name}", session_timeout_ms=3_000, reports=True)


@dataclass
class SeparateQueries(Watched):
    """A broker and a monitor with a process per query, each with its own checkpoint."""

    queries: dict[str, ChildProcess] = field(default_factory=dict)

    def start_query(self, name: str) -> None:
        """Start the process of one query."""
        directory = self.directory / name
        sources = loopback_sources(self.broker.bootstrap, directory)
        command = [sys.executable, "-m", "rebalance_deploy", "stream", "--query", name, *local.arguments(sources)]
        self.queries[name] = ChildProcess(command, log_path=directory / "stream.log", grace_seconds=60)

    def kill_query(self, name: str) -> None:
        """Kill the process of one query by its pid, and wait until it and its children are gone."""
        process = self.queries.pop(name)
        pids = family(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(60) == 128 + signal.SIGKILL
        wait_for(lambda: not any(map(is_alive, pids)), f"the processes of {name} to be gone")
        process.kill()

    def await_ready(self) -> None:
        """Wait until the exporter is ready."""
        self.check()
        wait_for(self.is_ready, lambda: fetch(f"{self.url}/-/ready"), READY_SECONDS, every=0.5)

    def is_ready(self) -> bool:
        """Whether the exporter is ready now."""
        return fetch(f"{self.url}/-/ready")[0] == 200

    def check(self) -> None:
        """Fail if a query's process has exited."""
        for name, process in self.queries.items():
            assert process.is_running, (self.directory / name / "stream.log").read_text()

    def ask(self, path: str) -> Any:
        """Return a response of the API."""
        answer = httpx.get(f"{self.url}/api/v1/{path}", timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def open_findings(self) -> dict[str, dict[str, Any]]:
        """Return the open findings of the group by id."""
        found = self.ask("findings")["findings"]
        return {each["finding_id"]: each for each in found if each["group"] == GROUP and each["state"] == "firing"}

    def rebalances(self) -> list[str]:
        """Return the ids of the group's rebalances, newest first."""
        return [each["rebalance_id"] for each in self.ask(f"groups/{GROUP}/rebalances")["rebalances"]]

    def causes(self) -> dict[str, str]:
        """Return the rule of the primary finding of each rebalance that has one."""
        return {
            rebalance: each["rule"]
            for each in self.ask("findings")["findings"]
            if each["group"] == GROUP and each["primary"]
            for rebalance in each["rebalance_ids"]
        }

    def await_causes(self, *rules: str) -> None:
        """Wait until every rebalance of the group has a cause, these rules among them."""
        wait_for(
            lambda: {*self.rebalances()} <= {*self.causes()} and {*rules} <= {*self.causes().values()},
            lambda: f"a cause of each of {self.rebalances()}, not {self.causes()}",
            JUDGED_SECONDS,
            every=0.5,
        )


@pytest.fixture
def spread(tmp_path: Path) -> Iterator[SeparateQueries]:
    """Three processes of the stream, prober and exporter; the exporter is ready."""
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedKafka())
        create_topics(broker.bootstrap, {"orders": 4})
        sources = loopback_sources(broker.bootstrap, tmp_path, port=(port := find_free_port()))
        running = SeparateQueries(broker, f"http://127.0.0.1:{port}", tmp_path)
        stack.callback(lambda: [each.terminate(60) for each in running.queries.values()])
        for query in QUERIES:
            running.start_query(query)
        for name in ("probe", "export"):
            child = local.Supervised(name, sources, tmp_path)
            child.start()
            stack.callback(child.process.terminate, 60)
        stack.callback(running.close)
        running.await_ready()
        yield running


def test_queries_that_are_processes_count_and_judge_together(spread: SeparateQueries) -> None:
    """Three processes publish together: counts are exact, every rebalance has a cause, the exporter is ready.

    While the diagnosis is down counting continues; after its restart its findings are open with the same ids, and
    rebalances from meanwhile have a cause too.
    """
    for name in ("a", "b", "c"):
        spread.start(spec(name))
    spread.kill(spec("b"))
    spread.await_counts()
    spread.await_causes("member_crash")
    found = spread.open_findings()
    assert found

    spread.kill_query("diagnosis")
    spread.start(spec("d"))
    spread.kill(spec("c"))
    counted = spread.await_counts()[GROUP]
    assert counted.completed >= 6
    spread.check()
    meanwhile = wait_for(lambda: [each for each in spread.rebalances() if each not in spread.causes()], "rebalances")

    spread.start_query("diagnosis")
    spread.await_causes("member_crash")
    assert {*meanwhile} <= {*spread.causes()}
    assert {*found} <= {*spread.open_findings()}
    spread.await_ready()
    assert spread.await_counts()[GROUP] == counted
