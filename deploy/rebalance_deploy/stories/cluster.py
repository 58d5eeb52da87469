"""Several real Kafka brokers on this machine: for stories in which it matters which broker does what.

Receives a Kafka version and a number of brokers; hands on a running KRaft cluster on 127.0.0.1, node 1 being the
controller as well. The one-broker case is `EmbeddedBroker`'s; its settings hold here too.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from rebalance_deploy import jars
from rebalance_deploy.broker import (
    DEFAULT_VERSION,
    QUICK_START,
    SHORT_SESSION,
    find_free_ports,
    render_properties,
    telling_line,
)
from rebalance_deploy.errors import UserError
from rebalance_deploy.jdk import find_java
from rebalance_deploy.processes import ChildProcess

_LOG4J2 = """<Configuration status="WARN" shutdownHook="disable">
<Appenders><Console name="out" target="SYSTEM_OUT"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
<Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""
_LOG4J = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class EmbeddedCluster:
    """Brokers 1 to `brokers` in child processes, each with a directory of its own below `directory`.

    Replication factors are 1: a broker that is down takes its partitions along. One that was killed is missed after
    3 s. `config` goes over that and the defaults of `EmbeddedBroker`. Leaving the context stops all; data and ports are
    kept.
    """

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        kafka_version: str = DEFAULT_VERSION,
        config: Mapping[str, str] | None = None,
        start_deadline_seconds: float = 90,
    ) -> None:
        """Prepare a cluster. Starts nothing yet."""
        self.kafka_version = kafka_version
        self.directory = directory.absolute()
        self.nodes = tuple(range(1, brokers + 1))
        self._config = {**SHORT_SESSION, **(config or {})}
        self._start_deadline_seconds = start_deadline_seconds
        self._cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._controller_port = 0
        self._ports: dict[int, int] = {}
        self._processes: dict[int, ChildProcess] = {}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, as clients want them. Known once the cluster was started."""
        if not self._ports:
            raise RuntimeError("the cluster was never started")
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    @property
    def log_paths(self) -> tuple[Path, ...]:
        """The brokers' logs, in the order of their ids."""
        return tuple(self._home(node) / "broker.log" for node in self.nodes)

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of the brokers that were started and not stopped, in the order of their ids."""
        return tuple(self._processes[node].pid for node in self.nodes if node in self._processes)

    def start(self) -> None:
        """Start all brokers and return when each knows all of them. Raises UserError when that does not happen."""
        if not self._ports:
            self._controller_port, *ports = find_free_ports(1 + len(self.nodes))
            self._ports = dict(zip(self.nodes, ports, strict=True))
        for node in self.nodes:
            self._prepare(node)
        self._format()
        for node in self.nodes:
            self._processes[node] = self._run(node, "kafka.Kafka", self._home(node) / "server.properties")
        self.await_brokers()

    def stop_node(self, node: int) -> None:
        """Stop one broker in order. Its data and port are kept."""
        self._processes.pop(node).terminate(30)

    def kill_node(self, node: int) -> None:
        """Kill one broker as a crash would. Its data and port are kept."""
        self._processes.pop(node).kill()

    def start_node(self, node: int) -> None:
        """Start a broker again and return when each knows all of them."""
        self._processes[node] = self._run(node, "kafka.Kafka", self._home(node) / "server.properties")
        self.await_brokers()

    def close(self) -> None:
        """Stop all brokers side by side, the controller last."""
        for node in reversed(self.nodes):
            if node in self._processes:
                self._processes[node].request_stop()
        for node in reversed(self.nodes):
            if node in self._processes:
                self._processes.pop(node).terminate(20)

    def await_brokers(self) -> None:
        """Return when each broker knows them all. Raises UserError with a log's last word if one ended or is slow."""
        deadline = time.monotonic() + self._start_deadline_seconds
        # Refused connections are to be expected until the brokers are up.
        settings: dict[str, Any] = {"reconnect.backoff.max.ms": 200, "log_level": 0, "error_cb": lambda _: None}
        # What a broker has not heard of yet, clients that ask it do not learn.
        clients = [AdminClient({**settings, "bootstrap.servers": address}) for address in self.bootstrap.split(",")]
        while time.monotonic() < deadline:
            for node, process in self._processes.items():
                if not process.is_running:
                    raise self._failure(node, "ended while starting")
            with contextlib.suppress(KafkaException):
                if all(len(each.list_topics(timeout=0.5).brokers) == len(self.nodes) for each in clients):
                    return
        raise self._failure(self.nodes[0], f"saw no whole cluster within {self._start_deadline_seconds:.0f} s")

    def _home(self, node: int) -> Path:
        return self.directory / f"broker-{node}"

    def _prepare(self, node: int) -> None:
        home = self._home(node)
        (home / "data").mkdir(parents=True, exist_ok=True)
        port = self._ports[node]
        text = render_properties(port, self._controller_port, home / "data", {**self._config, "node.id": str(node)})
        # Of a key that stands twice the last line counts.
        text += f"controller.quorum.voters={self.nodes[0]}@127.0.0.1:{self._controller_port}\n"
        if node != self.nodes[0]:
            text += f"process.roles=broker\nlisteners=PLAINTEXT://127.0.0.1:{port}\n"
        (home / "server.properties").write_text(text)
        (home / "log4j2.xml").write_text(_LOG4J2)
        (home / "log4j.properties").write_text(_LOG4J)

    def _format(self) -> None:
        """Give every empty data directory the cluster's identity, side by side."""
        empty = [node for node in self.nodes if not (self._home(node) / "data" / "meta.properties").exists()]
        identity = f"--cluster-id={self._cluster_id}"
        tools = {
            node: self._run(
                node,
                "kafka.tools.StorageTool",
                "format",
                identity,
                "--config",
                self._home(node) / "server.properties",
            )
            for node in empty
        }
        for node, tool in tools.items():
            with tool:
                if tool.wait(self._start_deadline_seconds) != 0:
                    raise self._failure(node, "could not format its data directory")

    def _run(self, node: int, main: str, *arguments: str | Path) -> ChildProcess:
        home = self._home(node)
        logging = (
            f"-Dlog4j2.configurationFile={home / 'log4j2.xml'}",
            f"-Dlog4j.configuration=file:{home / 'log4j.properties'}",
        )
        classpath = jars.classpath(f"broker-{self.kafka_version}")
        command = [find_java().executable, *QUICK_START, *logging, "-cp", classpath, main, *arguments]
        return ChildProcess(command, log_path=home / "broker.log", cwd=home)

    def _failure(self, node: int, what: str) -> UserError:
        log = self._home(node) / "broker.log"
        return UserError(f"Kafka {self.kafka_version} broker {node} {what}: {telling_line(log)} (log: {log})")
