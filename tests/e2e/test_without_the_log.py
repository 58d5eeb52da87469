"""A cluster that permits nobody to read `__consumer_offsets`: the monitor's results there, and their sources."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from e2e.rig import READY_SECONDS, samples
from exporters.prober.test_permissions import create_bindings, make_binding, read_bindings, read_commands
from making_topics import create_topic
from rebalance_deploy import local
from rebalance_deploy.demo import workload
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.monitor import Monitor, loopback_sources
from rebalance_deploy.ports import find_free_ports
from rebalance_deploy.processes import ChildProcess
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(1_200)]

PASSWORD = "no-log-for-you"
ENVIRONMENT = {"REBALANCE_MONITOR_KAFKA_SASL_PASSWORD": PASSWORD}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
OFFSETS_TOPIC = "__consumer_offsets"
SICK = workload.SICK
#: Clients process, report and rebalance, and the diagnosis waits for late rows.
JUDGED_SECONDS = 300.0


@dataclass(frozen=True)
class Served:
    """The address of the exporter, and the stream's log."""

    url: str
    stream_log: Path

    def ask(self, path: str) -> Any:
        """Return a response of the API."""
        answer = httpx.get(f"{self.url}/api/v1/{path}", timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()


def granted() -> list[AclBinding]:
    """Return the permissions in docs/permissions.md for all three processes, except for the log, which is denied."""
    principal = "User:monitor"
    bindings = [
        binding
        for process in local.PROCESSES
        for command in read_commands(process)
        for binding in read_bindings(command, principal=principal)
        if binding.name != OFFSETS_TOPIC
    ]
    refused = make_binding(
        ResourceType.TOPIC,
        OFFSETS_TOPIC,
        ResourcePatternType.LITERAL,
        AclOperation.READ,
        permission=AclPermissionType.DENY,
        principal=principal,
    )
    return [*dict.fromkeys(bindings), refused]


@pytest.fixture
def served(
    make_broker: Callable[..., EmbeddedKafka], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    """The monitor with `sources.log = false`, with a group that has a sick member."""
    (port,) = find_free_ports(1)
    broker = make_broker(
        **{
            "listeners": f"USERS://127.0.0.1:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,USERS:SASL_PLAINTEXT",
            "listener.name.users.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.users.plain.sasl.jaas.config": f'{PLAIN} user_monitor="{PASSWORD}";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
    )
    create_topic(broker.bootstrap, SICK.topic, 4)
    create_bindings(broker.bootstrap, *granted())
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    sources = loopback_sources(
        f"127.0.0.1:{port}",
        tmp_path,
        "sources.log=false",
        "stream.topic_replication_factor=1",
        "probe.topic_replication_factor=1",
        "kafka.security.protocol=SASL_PLAINTEXT",
        "kafka.sasl.mechanism=PLAIN",
        "kafka.sasl.username=monitor",
        environment=ENVIRONMENT,
    )
    members = [each for each in workload.CONSUMERS if each.group == SICK.group]
    commands = {each.client_id: workload.command(broker.bootstrap, each) for each in members}
    commands["producer"] = workload.producer_command(broker.bootstrap)
    with ExitStack() as stack:
        monitor = stack.enter_context(Monitor(sources, tmp_path))
        monitor.wait_until_ready(threading.Event(), print, timeout_seconds=READY_SECONDS)
        for name, command in commands.items():
            child = ChildProcess(command, log_path=tmp_path / f"{name}.log")
            stack.callback(child.terminate, 30)
        yield Served(monitor.url, tmp_path / "stream.log")


def test_a_sick_group_is_counted_and_judged_by_what_is_there(served: Served) -> None:
    """Rebalances are counted, a cause is found without the log, and every answer says that counts are lower bounds."""
    api, group = f"groups/{SICK.group}", {"cluster": "default", "group": SICK.group}

    def findings() -> list[dict[str, Any]]:
        return [each for each in served.ask("findings")["findings"] if each["group"] == SICK.group]

    def overview() -> dict[str, Any]:
        (row,) = [each for each in served.ask("overview")["groups"] if each["group"] == SICK.group]
        found: dict[str, Any] = row
        return found

    def counted() -> float:
        return sum(
            value
            for name, labels, value in samples(served.url)
            if name == "kafka_rebalance_rebalances_total" and labels.items() >= group.items()
        )

    wait_for(lambda: counted() >= 1, lambda: served.ask("overview"), JUDGED_SECONDS, every=1)
    reported = wait_for(
        lambda: [each for each in findings() if each["primary"] and each["rebalance_ids"]],
        lambda: [(each["rule"], each["summary"], each["missing"]) for each in findings()],
        JUDGED_SECONDS,
        every=1,
    )
    assert not {"log", "commits"} & {each["source"] for found in reported for each in found["evidence"]}
    # The cause depends on the states that probes saw; if it is undetermined the log is among the missing sources.
    unknown = [each for each in reported if each["rule"] == "undetermined"]
    assert all(each["missing"][0].startswith("the log:") for each in unknown), unknown

    # The coordinator returns committed offsets even if the log cannot be read.
    wait_for(lambda: overview()["lag"] is not None, overview, JUDGED_SECONDS, every=1)
    row = overview()
    assert (row["counted_from"], row["lost_partition_seconds_total"]) == ("probes", None)
    rebalances = served.ask(f"{api}/rebalances")["rebalances"]
    assert {(each["counted_from"], each["generation_to"]) for each in rebalances} == {("probes", None)}
    assert {each["text"]["steps"] for each in rebalances} == {"one at least: counted from probes"}

    reported_of_group = [(name, labels) for name, labels, _ in samples(served.url) if labels.items() >= group.items()]
    infos = [labels for name, labels in reported_of_group if name == "kafka_rebalance_group_info"]
    assert [each["counted_from"] for each in infos] == ["probes"]
    assert "kafka_rebalance_generations_total" not in {name for name, _ in reported_of_group}
    assert "not allowed" not in served.stream_log.read_text()
