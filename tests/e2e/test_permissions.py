"""Three processes, three principals: the documented permissions suffice for the monitor, and each is needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclBinding, AclBindingFilter, AclOperation, AdminClient, ResourceType

from exporters.prober.test_permissions import create_bindings, read_bindings, read_commands
from exporters.serving import hash_password
from making_topics import create_topic
from rebalance_deploy import local
from rebalance_deploy.counts import fetch
from rebalance_deploy.demo import workload
from rebalance_deploy.demo.workload import ConsumerSpec
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.monitor import loopback_sources
from rebalance_deploy.ports import find_free_ports
from rebalance_deploy.processes import ChildProcess
from rebalance_deploy.settings import Sources
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(2_400)]

USER, PASSWORD = "alice", "three-principals"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
#: The messages about missing permissions.
COMPLAINT = re.compile(r"(?i)not allowed|may not|authoriz|cannot be checked|could not be created")
#: The permission is only needed if a topic is missing.
MADE_FIRST = {"stream": "rebalance-monitor.impact", "probe": "rebalance-monitor.probes"}


@dataclass(frozen=True)
class GuardedBroker:
    """A broker that denies everything not granted: addresses for the test, which may do everything, and for users."""

    bootstrap: str
    users: str


@pytest.fixture
def broker(make_broker: Callable[..., EmbeddedKafka]) -> GuardedBroker:
    """A broker with three users."""
    (port,) = find_free_ports(1)
    users = " ".join(f'user_{name}="{PASSWORD}"' for name in local.PROCESSES)
    made = make_broker(
        **{
            "listeners": f"USERS://127.0.0.1:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,USERS:SASL_PLAINTEXT",
            "listener.name.users.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.users.plain.sasl.jaas.config": f"{PLAIN} {users};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
    )
    return GuardedBroker(made.bootstrap, f"127.0.0.1:{port}")


def granted(process: str) -> list[AclBinding]:
    """The documented permissions of a process's principal."""
    return [
        binding for command in read_commands(process) for binding in read_bindings(command, principal=f"User:{process}")
    ]


def revoke(bootstrap: str, binding: AclBinding) -> None:
    """Revoke one permission, and wait until the broker enforces it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )
    (taken,) = admin.delete_acls([wanted]).values()
    assert len(taken.result()) == 1
    wait_for(lambda: not admin.describe_acls(wanted).result(), "the right to be gone")


def sources(process: str, bootstrap: str, directory: Path) -> Sources:
    """The settings of a process that logs in as its own user."""
    return loopback_sources(
        bootstrap,
        directory,
        "stream.topic_replication_factor=1",
        "probe.topic_replication_factor=1",
        "kafka.security.protocol=SASL_PLAINTEXT",
        "kafka.sasl.mechanism=PLAIN",
        f"kafka.sasl.username={process}",
        f"export.web_config_file={directory / 'web.yml'}",
        "export.health_without_password=true",
    )


@contextmanager
def running(process: str, bootstrap: str, directory: Path) -> Iterator[Path]:
    """Run one process of the monitor; yield its log."""
    logs = directory / f"{process}-{len(list(directory.iterdir()))}"
    logs.mkdir()
    child = local.Supervised(process, sources(process, bootstrap, directory), logs)
    child.start()
    try:
        yield logs / f"{process}.log"
    finally:
        child.process.request_stop()
        child.process.terminate(45)


def complaints(log: Path) -> list[str]:
    """Return the lines that report a missing right."""
    return [line for line in log.read_text().splitlines() if COMPLAINT.search(line)] if log.exists() else []


def url_of(log: Path) -> str:
    """Return the address that a process prints for its pages."""
    found = re.search(r"serving on (\S+)/metrics", log.read_text() if log.exists() else "")
    return found[1] if found else ""


@pytest.mark.faults(34, fast=0, full=1)
def test_documented_rights_are_enough_and_each_is_needed(
    broker: GuardedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all of them the monitor gets ready without complaints; without any one its process reports it."""
    monkeypatch.setenv("REBALANCE_MONITOR_KAFKA_SASL_PASSWORD", PASSWORD)
    (tmp_path / "web.yml").write_text(f"basic_auth_users: {{{USER}: {hash_password(PASSWORD)}}}\n")
    create_topic(broker.bootstrap, "orders")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("orders", b"x")
    assert producer.flush(30) == 0
    for process in local.PROCESSES:
        create_bindings(broker.bootstrap, *granted(process))
    member = ConsumerSpec("confluent-kafka", "watched", "orders", "watched-1")
    client = ChildProcess(workload.command(broker.bootstrap, member), log_path=tmp_path / "client.log")
    try:
        await_the_whole(broker, tmp_path)
        needed = [(process, binding) for process in local.PROCESSES for binding in granted(process)]
        for process, binding in needed:
            assert_needed(broker, process, binding, tmp_path)
    finally:
        client.request_stop()
        client.terminate(30)


def await_the_whole(broker: GuardedBroker, directory: Path) -> None:
    """Wait until all processes are ready and lag is served; no complaint has been logged by then."""
    with ExitStack() as stack:
        logs = {name: stack.enter_context(running(name, broker.users, directory)) for name in local.PROCESSES}

        def is_ready() -> bool:
            return all(url_of(log) and fetch(f"{url_of(log)}/-/ready")[0] == 200 for log in logs.values())

        def reported() -> list[str]:
            return [line for log in logs.values() if log.exists() for line in log.read_text().splitlines()[-5:]]

        wait_for(is_ready, reported, 600, every=1)
        lag = 'kafka_rebalance_group_lag{cluster="default",group="watched"}'
        metrics = f"{url_of(logs['export'])}/metrics"
        wait_for(lambda: lag in httpx.get(metrics, auth=(USER, PASSWORD), timeout=30).text, reported, 120, every=1)
        answer = silence_a_group(logs["export"])
        assert answer is not None
        assert answer.status_code == 201, answer.text
        assert {name: complaints(log) for name, log in logs.items()} == {name: [] for name in logs}


def silence_a_group(log: Path) -> httpx.Response | None:
    """Request a silence from an exporter; null until it knows the group's cluster."""
    if not url_of(log):
        return None
    wanted = {"groups": ["watched"], "reason": "a test", "duration_ms": 60_000}
    answer = httpx.post(f"{url_of(log)}/api/v1/silences", json=wanted, auth=(USER, PASSWORD), timeout=30)
    return None if "there is no group yet" in answer.text else answer


def assert_needed(broker: GuardedBroker, process: str, binding: AclBinding, directory: Path) -> None:
    """Start a process without one of its permissions: it reports this. Afterwards the permission is restored."""
    if binding.operation == AclOperation.CREATE:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        name = MADE_FIRST[process]
        admin.delete_topics([name])[name].result()
        wait_for(lambda: name not in admin.list_topics(timeout=10).topics, f"{name} to be gone")
    revoke(broker.bootstrap, binding)
    with running(process, broker.users, directory) as log:
        what = f"{process} without {binding.operation.name} on {ResourceType(binding.restype).name} {binding.name}"
        if (process, binding.operation) == ("export", AclOperation.WRITE):
            # It only writes on request.
            answer = wait_for(lambda: silence_a_group(log), lambda: (what, log.read_text()[-2_000:]), 120, every=0.5)
            assert (answer.status_code, "may not write" in answer.text) == (503, True), (what, answer.text)
        else:
            wait_for(lambda: complaints(log), lambda: (what, log.read_text()[-2_000:]), 300, every=0.5)
    create_bindings(broker.bootstrap, binding)
