"""Runs real Kafka brokers on this machine, and a ZooKeeper if clients need one.

Takes a Kafka version, a number of brokers and their settings; returns a running KRaft cluster on 127.0.0.1. It does not
depend on what is written to it.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from rebalance_deploy import jars
from rebalance_deploy.embedded import DEFAULT_VERSION, VERSIONS
from rebalance_deploy.embedded.server import QUICK_START, JavaServer
from rebalance_deploy.embedded.zookeeper import ZooKeeper
from rebalance_deploy.errors import UserError
from rebalance_deploy.ports import find_free_ports, is_free

# Settings for callers that kill brokers. The controller considers a killed broker alive, and refuses its registration,
# until its session expires: with these it is back in 5 s, not 62. But a machine that stalls for 3 s fences it too.
SHORT_SESSION = MappingProxyType({"broker.session.timeout.ms": "3000"})
_CONTROLLER = 1
_PORT_ATTEMPTS = 3
#: Files of a formatted data directory: the broker it belongs to, and the initial levels of all features.
_IDENTITY, _FIRST_FEATURES = "meta.properties", "bootstrap.checkpoint"
#: Messages for a port in use: of a broker, and of this module.
_PORT_TAKEN = ("Address already in use", "is in use: stop what listens")
_STOP_SECONDS = 20.0

_DEFAULTS = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Kafka's default of 50 each is for thousands of groups. Each partition costs the stream two end-offset requests a
    # second and a read of its own, and the broker a directory and a part of a coordinator.
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.num.partitions": "8",
    # The default of 3 s suits fleets that start together; here it would only delay the first generation.
    "group.initial.rebalance.delay.ms": "0",
    # Lets a test's member expire in a second instead of six.
    "group.min.session.timeout.ms": "1000",
    # A misspelt topic is an error here, not a new topic.
    "auto.create.topics.enable": "false",
    # Frequent enough for SHORT_SESSION too.
    "broker.heartbeat.interval.ms": "500",
    # With the default of 9 s a stalled machine would get its broker fenced: partitions get new leader epochs, and
    # coordinators reload their groups.
    "broker.session.timeout.ms": "60000",
}


class EmbeddedKafka:
    """Brokers 1 to `brokers`, each in a child process with its own port and data directory.

    Broker 1 is also the controller. Replication factors are 1 unless `config` sets them: partitions of a broker that is
    down are unavailable. `directory` is kept and can be started again with the same version and number of brokers; if
    None, a temporary directory is used, which `close` removes. Ports and data survive `stop`, `kill` and `restart`.
    With `zookeeper` a ZooKeeper also runs, from the first start to `close`. Leaving the context closes everything.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        brokers: int = 1,
        zookeeper: bool = False,
        kafka_version: str = DEFAULT_VERSION,
        config: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = QUICK_START,
        start_deadline_seconds: float = 240,
    ) -> None:
        """Prepare a cluster; the broker settings in `config` override the defaults. Starts nothing yet."""
        if kafka_version not in VERSIONS:
            raise UserError(f"Kafka {kafka_version} cannot be embedded: choose one of {', '.join(VERSIONS)}")
        self.kafka_version = kafka_version
        self._config = dict(config or {})
        self._start_deadline_seconds = start_deadline_seconds
        self._cluster_id = _random_id()
        self._controller_port = 0
        self._ports: dict[int, int] = {}
        self._temporary = directory is None
        self.directory = (
            Path(tempfile.mkdtemp(prefix="rebalance-monitor-")) if directory is None else directory.absolute()
        )
        self._servers = {
            node: JavaServer(
                f"Kafka {kafka_version} broker {node}",
                self.directory / f"broker-{node}" / "broker.log",
                jar_set=f"broker-{kafka_version}",
                jvm_options=jvm_options,
                keep_log=self._where_to_keep(f"broker-{node}"),
                archives=self._cache,
            )
            for node in range(1, brokers + 1)
        }
        self._zookeeper = (
            ZooKeeper(self.directory / "zookeeper", keep_log=self._where_to_keep("zookeeper")) if zookeeper else None
        )

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, in the form for clients. Raises RuntimeError before the first start."""
        if not self._ports:
            raise RuntimeError("the brokers were never started")
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    @property
    def zookeeper(self) -> str:
        """The address of the ZooKeeper, in the form for clients; empty without one."""
        return "" if self._zookeeper is None else self._zookeeper.hosts

    @property
    def log_paths(self) -> tuple[Path, ...]:
        """The brokers' logs, in the order of their ids; removed together with a temporary directory."""
        return tuple(server.log_path for server in self._servers.values())

    @property
    def log_path(self) -> Path:
        """The log of broker 1, usually the only one."""
        return self.log_paths[0]

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of the brokers that were started and not stopped, ordered by broker id."""
        return tuple(server.pid for server in self._servers.values() if server.pid is not None)

    @property
    def is_running(self) -> bool:
        """Whether the processes of all brokers are running."""
        return all(server.is_running for server in self._servers.values())

    def start(self, node: int | None = None) -> None:
        """Start one broker, or all that are not running, and return when each running broker knows the others.

        Raises UserError with the last error of its log if a broker dies or does not answer in time.
        """
        if self._zookeeper is not None:
            self._zookeeper.start()
        attempts = 1 if self._ports else _PORT_ATTEMPTS
        for attempt in range(1, attempts + 1):
            self._choose_ports()
            try:
                self._start([each for each in self._chosen(node) if not self._servers[each].is_running])
            except BaseException as error:
                self.kill(node)
                # Another program may have taken the port after it was chosen.
                if attempt == attempts or not isinstance(error, UserError) or not _is_about_port(error):
                    raise
                self._ports = {}
            else:
                return

    def stop(self, node: int | None = None) -> None:
        """Shut down one broker, or all in parallel, in an orderly way. Data and ports are kept."""
        # The controller is last: the others announce their shutdown to it.
        chosen = [self._servers[each] for each in reversed(self._chosen(node))]
        for server in chosen:
            server.request_stop()
        for server in chosen:
            server.stop(_STOP_SECONDS)

    def kill(self, node: int | None = None) -> None:
        """Kill one broker, or all, as a crash would. Data and ports are kept."""
        for each in self._chosen(node):
            self._servers[each].kill()

    def restart(self) -> None:
        """Stop all brokers and start them again on the same data and ports."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop everything, and remove the directory if it is temporary."""
        self.stop()
        if self._zookeeper is not None:
            self._zookeeper.stop()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _cache(self) -> Path:
        """Directory in the cache for files shared by all brokers of a version."""
        return jars.cache_directory() / "brokers" / self.kafka_version

    def _chosen(self, node: int | None) -> list[int]:
        return list(self._servers) if node is None else [node]

    def _where_to_keep(self, name: str) -> Path | None:
        """Return where to copy the log after a failure, or None if the directory is kept anyway."""
        return Path(tempfile.gettempdir()) / f"{self.directory.name}-{name}.log" if self._temporary else None

    def _choose_ports(self) -> None:
        if not self._ports:
            self._controller_port, *ports = find_free_ports(1 + len(self._servers))
            self._ports = dict(zip(self._servers, ports, strict=True))

    def _start(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            self._write_properties(node)
        self._format(nodes)
        for node in nodes:
            self._servers[node].start("kafka.Kafka", self._properties(node))
        self._await_brokers()

    def _properties(self, node: int) -> Path:
        return self._servers[node].directory / "server.properties"

    def _data(self, node: int) -> Path:
        return self._servers[node].directory / "data"

    def _write_properties(self, node: int) -> None:
        port = self._ports[node]
        # Checked before the start, because another Kafka on this port would answer instead of the new broker.
        if not is_free(port):
            raise UserError(f"port {port} is in use: stop what listens on 127.0.0.1:{port} and start anew")
        self._data(node).mkdir(parents=True, exist_ok=True)
        text = render_properties(node, port, self._controller_port, self._data(node), self._config)
        self._properties(node).write_text(text)

    def _format(self, nodes: Sequence[int]) -> None:
        """Write the cluster's identity into every empty data directory, as Kafka requires before the first start.

        `kafka-storage format` writes two files (org.apache.kafka.metadata.storage.Formatter): the initial levels of all
        features, which depend only on the version, and the identity of the directory (KIP-858). Running the tool takes
        half as long as starting the broker, so the first file is cached and the tool runs once per version.
        """
        for node in nodes:
            data = self._data(node)
            if (data / _IDENTITY).exists():
                continue
            kept = self._cache / _FIRST_FEATURES
            if kept.exists():
                shutil.copyfile(kept, data / _FIRST_FEATURES)
                (data / _IDENTITY).write_text(_identity(self._cluster_id, node))
            else:
                self._run_format_tool(node)
                jars.keep(data / _FIRST_FEATURES, kept)

    def _run_format_tool(self, node: int) -> None:
        # Written with `=`, because one in 64 cluster ids begins with a dash.
        arguments = ("format", f"--cluster-id={self._cluster_id}", "--config", self._properties(node))
        with self._servers[node].run("kafka.tools.StorageTool", *arguments) as tool:
            if tool.wait(self._start_deadline_seconds) != 0:
                raise self._servers[node].failure("could not format its data directory")

    def _await_brokers(self) -> None:
        """Return when each running broker lists all of them to a client, the first sign that clients can use them."""
        deadline = time.monotonic() + self._start_deadline_seconds
        started = {node: server for node, server in self._servers.items() if server.pid is not None}
        # Suppresses librdkafka's errors about refused connections, which are expected until the broker is up.
        settings: dict[str, Any] = {"log_level": 0, "error_cb": _ignore, "reconnect.backoff.max.ms": 200}
        # One client per broker, because a broker lists only the brokers it already knows.
        unaware = {
            node: AdminClient({**settings, "bootstrap.servers": f"127.0.0.1:{self._ports[node]}"}) for node in started
        }
        while time.monotonic() < deadline:
            for server in started.values():
                if not server.is_running:
                    raise server.failure("ended while starting")
            for node, client in list(unaware.items()):
                with contextlib.suppress(KafkaException):
                    if client.list_topics(timeout=2).brokers.keys() >= started.keys():
                        del unaware[node]
            if not unaware:
                return
            time.sleep(0.05)
        raise self._servers[min(unaware)].failure(f"did not answer within {self._start_deadline_seconds:.0f} s")


def render_properties(node: int, port: int, controller_port: int, data: Path, config: Mapping[str, str]) -> str:
    """Return a broker's server.properties: the defaults, overridden by `config`, then by its id, ports and directory.

    Listeners in `config` are added to the plain one; its `advertised.listeners` are their advertised addresses.
    """
    plain = f"PLAINTEXT://127.0.0.1:{port}"
    listeners = ",".join((config["listeners"], plain)) if "listeners" in config else plain
    advertised = ",".join((config["advertised.listeners"], plain)) if "advertised.listeners" in config else listeners
    controls = node == _CONTROLLER
    settings = {
        **_DEFAULTS,
        **config,
        "process.roles": "broker,controller" if controls else "broker",
        "node.id": str(node),
        "controller.quorum.voters": f"{_CONTROLLER}@127.0.0.1:{controller_port}",
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller_port}" if controls else listeners,
        "advertised.listeners": advertised,
        "log.dirs": str(data),
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _random_id() -> str:
    """Return a new random id in Kafka's form (org.apache.kafka.common.Uuid)."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _identity(cluster_id: str, node: int) -> str:
    """Return the contents of meta.properties: the cluster and broker a data directory belongs to."""
    return f"version=1\ncluster.id={cluster_id}\nnode.id={node}\ndirectory.id={_random_id()}\n"


def _is_about_port(error: UserError) -> bool:
    return any(words in str(error) for words in _PORT_TAKEN)


def _ignore(_error: object) -> None:
    """Discard librdkafka's connection errors while the broker is not up yet."""
