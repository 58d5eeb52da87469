"""Real Kafka brokers on this machine, with a ZooKeeper beside them where clients need one.

Receives a Kafka version, a number of brokers and their settings; hands on a running KRaft cluster on 127.0.0.1. It
knows nothing of what is written to it.
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

# Settings for who kills brokers. The controller takes a broker for alive, and refuses its return, until its session is
# over: it is back in 5 s, not 62. The price is that a machine that stalls for 3 s puts it out too.
SHORT_SESSION = MappingProxyType({"broker.session.timeout.ms": "3000"})
_CONTROLLER = 1
_PORT_ATTEMPTS = 3
#: What a formatted data directory holds: who it belongs to, and the levels that features begin with.
_IDENTITY, _FIRST_FEATURES = "meta.properties", "bootstrap.checkpoint"
#: By a broker, and by this module.
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
    # Kafka's 50 of each are for thousands of groups. The stream asks each for its end twice a second and reads it by
    # itself, and to the broker it is a directory and a part of a coordinator.
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.num.partitions": "8",
    # The default of 3 s suits fleets that start together; here it would only delay the first generation.
    "group.initial.rebalance.delay.ms": "0",
    # Lets a test's member expire in a second instead of six.
    "group.min.session.timeout.ms": "1000",
    # A misspelt topic is an error here, not a new topic.
    "auto.create.topics.enable": "false",
    # Often enough for a short session too.
    "broker.heartbeat.interval.ms": "500",
    # A machine that stalls for the default of 9 s would put a broker out: partitions get new leader epochs, and
    # coordinators load their groups again.
    "broker.session.timeout.ms": "60000",
}


class EmbeddedKafka:
    """Brokers 1 to `brokers`, each in a child process with a port and a data directory of its own.

    Broker 1 is the controller as well. Replication factors are 1 unless `config` says otherwise: a broker that is down
    takes its partitions along. What lies in `directory` is kept, and can be started again with the same version and
    number of brokers; without one it is a temporary directory that `close` removes. Ports and data stay the same over
    `stop`, `kill` and `restart`. With `zookeeper` a ZooKeeper runs beside the brokers, from the first start to `close`.
    Leaving the context closes all.
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
        """Prepare a cluster; `config` holds broker settings that go over the defaults. Starts nothing yet."""
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
        """The brokers' addresses, as clients want them. Known once they were started."""
        if not self._ports:
            raise RuntimeError("the brokers were never started")
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    @property
    def zookeeper(self) -> str:
        """The address of the ZooKeeper, as clients want it; empty without one."""
        return "" if self._zookeeper is None else self._zookeeper.hosts

    @property
    def log_paths(self) -> tuple[Path, ...]:
        """The brokers' logs, in the order of their ids; a temporary directory takes them along."""
        return tuple(server.log_path for server in self._servers.values())

    @property
    def log_path(self) -> Path:
        """The log of broker 1, which most often is the only one."""
        return self.log_paths[0]

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of the brokers that were started and not stopped, in the order of their ids."""
        return tuple(server.pid for server in self._servers.values() if server.pid is not None)

    @property
    def is_running(self) -> bool:
        """Whether the processes of all brokers run."""
        return all(server.is_running for server in self._servers.values())

    def start(self, node: int | None = None) -> None:
        """Start one broker, or all that do not run, and return when each that runs knows the others.

        Raises UserError with a log's last word if a broker dies or does not answer in time.
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
                # Between choosing a port and the broker's opening it another program may have come.
                if attempt == attempts or not isinstance(error, UserError) or not _is_about_port(error):
                    raise
                self._ports = {}
            else:
                return

    def stop(self, node: int | None = None) -> None:
        """Stop one broker, or all side by side, in an orderly way. Data and ports are kept."""
        # The controller is the last: the others announce their shutdown to it.
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
        """Stop everything, and remove the directory if it is a temporary one."""
        self.stop()
        if self._zookeeper is not None:
            self._zookeeper.stop()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _cache(self) -> Path:
        """Where what all brokers of a version share is kept."""
        return jars.cache_directory() / "brokers" / self.kafka_version

    def _chosen(self, node: int | None) -> list[int]:
        return list(self._servers) if node is None else [node]

    def _where_to_keep(self, name: str) -> Path | None:
        """Return where the log of a failure goes, null where the directory is kept anyway."""
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
        # Asked before the start: if it is a Kafka that listens there, it would answer in the new broker's name.
        if not is_free(port):
            raise UserError(f"port {port} is in use: stop what listens on 127.0.0.1:{port} and start anew")
        self._data(node).mkdir(parents=True, exist_ok=True)
        text = render_properties(node, port, self._controller_port, self._data(node), self._config)
        self._properties(node).write_text(text)

    def _format(self, nodes: Sequence[int]) -> None:
        """Give every empty data directory the cluster's identity, as Kafka asks before the first start.

        `kafka-storage format` writes two files (org.apache.kafka.metadata.storage.Formatter): the first levels of all
        features, which are those of the version, and who the directory belongs to (KIP-858). A JVM for the first one
        takes half as long as the broker's start: it is kept, and the tool runs once per version.
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
        # One argument, for one in 64 identities begins with a dash.
        arguments = ("format", f"--cluster-id={self._cluster_id}", "--config", self._properties(node))
        with self._servers[node].run("kafka.tools.StorageTool", *arguments) as tool:
            if tool.wait(self._start_deadline_seconds) != 0:
                raise self._servers[node].failure("could not format its data directory")

    def _await_brokers(self) -> None:
        """Return when each running broker names all of them to a client, the first proof that clients can use them."""
        deadline = time.monotonic() + self._start_deadline_seconds
        started = {node: server for node, server in self._servers.items() if server.pid is not None}
        # librdkafka's own words on a refused connection, expected until the broker is up, stay unheard.
        settings: dict[str, Any] = {"log_level": 0, "error_cb": _ignore, "reconnect.backoff.max.ms": 200}
        # What a broker has not heard of yet, clients that ask it do not learn.
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
    """Return a broker's server.properties: the defaults, `config` over them, its id, ports and directory over both.

    Listeners that `config` names stand beside the plain one; `advertised.listeners` are other addresses of theirs.
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
    """Return a new id in the form that Kafka writes (org.apache.kafka.common.Uuid)."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _identity(cluster_id: str, node: int) -> str:
    """Return the properties that say which broker of which cluster a data directory belongs to."""
    return f"version=1\ncluster.id={cluster_id}\nnode.id={node}\ndirectory.id={_random_id()}\n"


def _is_about_port(error: UserError) -> bool:
    return any(words in str(error) for words in _PORT_TAKEN)


def _ignore(_error: object) -> None:
    """Take librdkafka's connection errors while the broker is not up yet."""
