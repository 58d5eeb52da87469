"""Error messages for users: one sentence, exit code 1, no stack trace."""

import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from authorized import AUTHORIZED
from rebalance_deploy.counts import fetch
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.processes import ChildProcess
from rebalance_streaming.spark.checkpoint import LAYOUT, Baseline
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1_800)]

MakeBroker = Callable[..., EmbeddedKafka]


def run(*arguments: str) -> tuple[int, str]:
    """Run the console script's module; return the exit code and all of its output."""
    done = subprocess.run(
        [sys.executable, "-m", "rebalance_deploy", *arguments], capture_output=True, text=True, timeout=600, check=False
    )
    return done.returncode, done.stdout + done.stderr


def run_stream(broker: EmbeddedKafka, directory: Path, *arguments: str) -> tuple[int, str]:
    """Run the stream with its checkpoint in a directory."""
    checkpoint = f"stream.checkpoint={directory / 'checkpoint'}"
    own = ("--set", checkpoint, "--set", "stream.listen_port=0")
    return run("stream", "--bootstrap-server", broker.bootstrap, *own, *arguments)


def assert_one_sentence(result: tuple[int, str], *parts: str) -> None:
    """Check that a command failed with an explanation in its last line, without a stack trace of Python or the JVM."""
    code, output = result
    assert code == 1, output
    assert "Traceback" not in output
    assert "\tat " not in output
    last = output.strip().splitlines()[-1]
    assert last.startswith("rebalance-monitor: "), output
    for part in parts:
        assert part in last


PORTS = ("--set", "export.listen_port=0", "--set", "probe.listen_port=0", "--set", "stream.listen_port=0")


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address without a server; bound, so that no broker of another test can listen there."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{silent.getsockname()[1]}"


def test_an_unreachable_broker_is_named(nowhere: str):
    """On a terminal the error has the address, and what to check."""
    code, output = run("up", "--bootstrap-server", nowhere, *PORTS)
    assert code == 1
    # Once, however many processes would fail.
    assert output.count("no Kafka broker answer") == 1
    assert nowhere in output
    assert "Traceback" not in output


@pytest.mark.parametrize("command", ["stream", "probe", "export"])
def test_a_process_waits_for_brokers_that_are_away(command: str, nowhere: str, tmp_path: Path):
    """Healthy and not ready, with the reason; a stop request is obeyed meanwhile."""
    log = tmp_path / "log"
    arguments = [sys.executable, "-m", "rebalance_deploy", command, "--bootstrap-server", nowhere, *PORTS]
    with ChildProcess(arguments, log_path=log) as process:
        wait_for(lambda: "no Kafka broker answers" in log.read_text(), log.read_text)
        found = wait_for(lambda: re.search(r"serving on (\S+)/metrics", log.read_text()), log.read_text)
        url = found[1].replace("0.0.0.0", "127.0.0.1")
        # 0: no answer within the time-out, from a process that the machine stalls.
        assert wait_for(lambda: fetch(f"{url}/-/healthy")[0], "an answer") == 200
        status, text = wait_for(lambda: (answer := fetch(f"{url}/-/ready"))[0] and answer, "an answer")
        assert status == 503
        assert text.startswith(f"no Kafka broker answers at {nowhere} (")
        assert process.is_running, log.read_text()
        assert process.terminate(60) == 0, log.read_text()
    assert "Traceback" not in log.read_text()


def test_missing_and_misspelt_settings_are_said_with_a_hint():
    """A wrong key never leaves a default in force unnoticed."""
    assert_one_sentence(run("stream"), "--bootstrap-server HOST:PORT")
    assert_one_sentence(run("up", "--set", "stream.chekpoint=x"), "did you mean 'stream.checkpoint'")


def test_a_topic_that_does_not_exist_is_named(broker: EmbeddedKafka, tmp_path: Path):
    """A typing error in the watched topic's name."""
    result = run_stream(broker, tmp_path, "--set", "stream.source_topic=no-such-topic")
    assert_one_sentence(result, "no-such-topic", "stream.source_topic")


def test_a_port_in_use_is_named(broker: EmbeddedKafka):
    """Two exporters on one port."""
    taken = broker.bootstrap.rpartition(":")[2]
    result = run("export", "--bootstrap-server", broker.bootstrap, "--set", f"export.listen_port={taken}")
    assert_one_sentence(result, taken, "listen_port")


def test_missing_permissions_are_named(make_broker: MakeBroker, tmp_path: Path):
    """Reading the offsets topic, and creating the monitor's own, need permissions: the error says which."""
    broker = make_broker(**AUTHORIZED)
    # The permission to create topics anywhere would be sufficient as well.
    deny(broker, "kafka-cluster", AclOperation.CREATE, ResourceType.BROKER)
    deny(broker, "rebalance-monitor.groups", AclOperation.CREATE)
    assert_one_sentence(
        run_stream(broker, tmp_path), "rebalance-monitor.groups", "kafka-topics --bootstrap-server HOST:PORT --create"
    )
    deny(broker, "__consumer_offsets", AclOperation.READ)
    assert_one_sentence(run_stream(broker, tmp_path), "reading __consumer_offsets is not allowed", "kafka-acls")


def deny(broker: EmbeddedKafka, name: str, operation: AclOperation, kind: ResourceType = ResourceType.TOPIC) -> None:
    """Deny an operation to everybody, and wait until the broker enforces it."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    # Once a resource has any ACL, everything that no ACL allows is denied.
    rules = [
        (kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", *rule)
        for rule in ((AclOperation.ALL, AclPermissionType.ALLOW), (operation, AclPermissionType.DENY))
    ]
    for future in admin.create_acls([AclBinding(*rule) for rule in rules]).values():
        future.result()
    wait_for(lambda: admin.describe_acls(AclBindingFilter(*rules[-1])).result(), "the rule to be in force")


def damaged(checkpoint: Path) -> str:
    """Write an invalid baseline."""
    (checkpoint / LAYOUT).mkdir(parents=True)
    (checkpoint / LAYOUT / "monitor.json").write_text("{half")
    return "is damaged"


def of_another_cluster(checkpoint: Path) -> str:
    """Write the baseline of another cluster."""
    (checkpoint / LAYOUT).mkdir(parents=True)
    baseline = Baseline("another", "__consumer_offsets", {})
    (checkpoint / LAYOUT / "monitor.json").write_bytes(msgspec.json.encode(baseline))
    return "belongs to cluster another"


def in_the_way(checkpoint: Path) -> str:
    """Write a file in the place of the directory."""
    checkpoint.write_text("")
    return "cannot use checkpoint"


# A start of the stream costs 10 s of processor time; tests/spark/test_checkpoint.py covers damaged checkpoints too.
@pytest.mark.parametrize("spoil", [pytest.param(damaged, marks=pytest.mark.slow), of_another_cluster, in_the_way])
def test_a_bad_checkpoint_is_named(broker: EmbeddedKafka, tmp_path: Path, spoil: Callable[[Path], str]):
    """A checkpoint that cannot be used is never silently replaced."""
    checkpoint = tmp_path / "checkpoint"
    said = spoil(checkpoint)
    result = run_stream(broker, tmp_path)
    assert_one_sentence(result, said, str(checkpoint))
