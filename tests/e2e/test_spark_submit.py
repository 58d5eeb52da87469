"""The stream under spark-submit: on one machine, and on a standalone cluster of separate processes."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyspark
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from rebalance_contract import GroupSnapshot, decode
from rebalance_deploy import jars
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.jdk import find_java
from rebalance_deploy.ports import find_free_ports
from rebalance_deploy.processes import ChildProcess
from rebalance_deploy.topics import create_topics
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1_800)]

_SPARK = Path(pyspark.__file__).parent
_ENTRY = Path(__file__).parents[2] / "deploy" / "spark" / "rebalance_stream.py"
_ENVIRONMENT = {
    **os.environ,
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_HOME": str(_SPARK),
    "SPARK_LOCAL_IP": "127.0.0.1",
    # For all JVMs: most of the seven live for seconds, and none for more than a few minutes.
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@contextlib.contextmanager
def local_master(_directory: Path) -> Iterator[str]:
    """Let spark-submit run everything in its own process."""
    yield "local[2]"


@contextlib.contextmanager
def standalone_master(directory: Path) -> Iterator[str]:
    """Start a master and one worker as separate processes."""
    (port, master_ui, worker_ui), address = find_free_ports(3), "127.0.0.1"
    start = [_SPARK / "bin" / "spark-class"]
    master = [*start, "org.apache.spark.deploy.master.Master", "--host", address, "--port", str(port)]
    worker = [*start, "org.apache.spark.deploy.worker.Worker", "--host", address, "--cores", "2", "--memory", "2g"]
    url = f"spark://{address}:{port}"
    log = directory / "master.log"
    with (
        ChildProcess([*master, "--webui-port", str(master_ui)], log_path=log, env=_ENVIRONMENT),
        ChildProcess(
            [*worker, "--webui-port", str(worker_ui), "--work-dir", str(directory / "work"), url],
            log_path=directory / "worker.log",
            env=_ENVIRONMENT,
        ),
    ):
        wait_for(lambda: "Registering worker" in read(log), "the worker to be registered", 300)
        yield url


def read(log: Path) -> str:
    """Return the current content of a log."""
    return log.read_text() if log.exists() else ""


# The standalone master covers the local one, and adds executors.
@pytest.mark.parametrize("make_master", [pytest.param(local_master, marks=pytest.mark.slow), standalone_master])
def test_a_groups_snapshot_arrives(broker: EmbeddedKafka, tmp_path: Path, make_master):
    """Submitted from outside, the same job publishes the same snapshots, and SIGTERM ends it."""
    prefix = f"{make_master.__name__}."
    topic, group = f"{prefix}input", f"{prefix}group"
    create_topics(broker.bootstrap, {topic: 1})
    _ENVIRONMENT["JAVA_HOME"] = str(find_java().home)
    with make_master(tmp_path) as master:
        command = [
            *(
                _SPARK / "bin" / "spark-submit",
                "--master",
                master,
                "--jars",
                ",".join(map(str, jars.resolve("connector"))),
            ),
            *("--conf", "spark.ui.enabled=false", _ENTRY, "--bootstrap-server", broker.bootstrap),
            *("--set", f"stream.checkpoint={tmp_path / 'checkpoint'}", "--set", f"topic_prefix={prefix}"),
            *("--set", "stream.listen_host=127.0.0.1", "--set", "stream.listen_port=0"),
        ]
        log = tmp_path / "submit.log"
        with ChildProcess(command, log_path=log, env=_ENVIRONMENT) as job:
            wait_for(lambda: "caught up" in read(log) or not job.is_running, "the job to be caught up", 600)
            assert job.is_running, read(log)
            with member_of(broker.bootstrap, group, topic):
                seen = partial(snapshot, broker.bootstrap, f"{prefix}groups", group)
                wait_for(lambda: seen() == "Stable", lambda: f"Stable, not {seen()}", 300)
            # The JVM handles the signal: unfinished work is repeated from the checkpoint.
            assert job.terminate(120) == 128 + signal.SIGTERM, read(log)


@contextlib.contextmanager
def member_of(bootstrap: str, group: str, topic: str) -> Iterator[None]:
    """Join a group as its only member."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    consumer.subscribe([topic])
    try:
        wait_for(lambda: consumer.poll(0.2) or consumer.assignment(), "the assignment", 300)
        yield
    finally:
        consumer.close()


def snapshot(bootstrap: str, topic: str, group: str) -> str | None:
    """Return the last published state of a group, or null while there is none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True})
    state = None
    try:
        if topic not in AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).topics:
            return None
        consumer.assign([TopicPartition(topic, 0, 0)])
        while (message := consumer.poll(5)) is not None and message.error() is None:
            snapshot = decode(message.value() or b"", GroupSnapshot)
            state = snapshot.state if snapshot.group == group else state
    finally:
        consumer.close()
    return state
