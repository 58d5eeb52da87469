"""A real Kafka broker on this machine, for the demo and the tests.

Receives a Kafka version and broker settings; hands on a running single-node KRaft broker on 127.0.0.1. It knows
nothing of what is written to the broker. The broker is a guarded child: it cannot outlive this process.
"""

import contextlib
import itertools
import random
import re
import shutil
import socket
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from rebalance_deploy import jars
from rebalance_deploy.errors import UserError
from rebalance_deploy.jdk import find_java
from rebalance_deploy.processes import ChildProcess

DEFAULT_VERSION = "4.3.1"
VERSIONS = (DEFAULT_VERSION, "3.9.2")

# A broker of a demo or a test lives for minutes: the quick compiler alone starts it in 2.5 instead of 3.1 s, and with
# 1.9 instead of 3.4 s of CPU. For a benchmark of the broker itself drop the last option.
QUICK_START = ("-Xmx512m", "-XX:TieredStopAtLevel=1")
# Settings for who kills brokers. The controller takes a broker for alive, and refuses its return, until its session is
# over: it is back in 5 s, not 11. The price is that a machine that stalls for 3 s puts it out too.
SHORT_SESSION = MappingProxyType({"broker.session.timeout.ms": "3000"})
# Ports the kernel gives to nobody by itself: one above could be taken by an outgoing connection while the broker is
# down, even by a client that retries to reach this very broker and connects to itself.
_PORTS = range(20_000, 32_000)
_PORT_ATTEMPTS = 3
_PORT_TAKEN = "Address already in use"

_DEFAULTS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # The default of 3 s suits fleets that start together; here it would only delay the first generation.
    "group.initial.rebalance.delay.ms": "0",
    # Lets a test's member expire in a second instead of six.
    "group.min.session.timeout.ms": "1000",
    # A misspelt topic is an error here, not a new topic.
    "auto.create.topics.enable": "false",
    # Often enough for a short session too.
    "broker.heartbeat.interval.ms": "500",
}

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


class EmbeddedBroker:
    """One Kafka broker and controller in one child process, with ports and a data directory of its own.

    The data directory is a temporary one, removed by `close`, unless one is given, which is kept; a kept one can be
    started again, but only with the version it was made with. Ports and data stay the same over `stop`, `kill` and
    `restart`. Leaving the context closes the broker.
    """

    def __init__(
        self,
        *,
        kafka_version: str = DEFAULT_VERSION,
        config: Mapping[str, str] | None = None,
        data_dir: Path | None = None,
        port: int | None = None,
        jvm_options: Sequence[str] = QUICK_START,
        start_deadline_seconds: float = 60,
    ) -> None:
        """Prepare a broker; `config` holds broker settings that go over the defaults. Starts nothing yet."""
        if kafka_version not in VERSIONS:
            raise UserError(f"Kafka {kafka_version} cannot be embedded: choose one of {', '.join(VERSIONS)}")
        self.kafka_version = kafka_version
        self._config = dict(config or {})
        self._wanted_port = port
        self._jvm_options = tuple(jvm_options)
        self._start_deadline_seconds = start_deadline_seconds
        self._temporary = data_dir is None
        self.directory = (
            Path(tempfile.mkdtemp(prefix="rebalance-monitor-")) if data_dir is None else data_dir.absolute()
        )
        self._ports: tuple[int, int] | None = None
        self._process: ChildProcess | None = None

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
        """The broker's address, as clients want it. Known once the broker was started."""
        if self._ports is None:
            raise RuntimeError("the broker was never started")
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def log_path(self) -> Path:
        """The broker's log; a temporary broker takes it along when it closes."""
        return self.directory / "broker.log"

    @property
    def pid(self) -> int | None:
        """The broker's process id, None if it was not started or was stopped."""
        return self._process.pid if self._process else None

    @property
    def is_running(self) -> bool:
        """Whether the broker's process runs."""
        return self._process is not None and self._process.is_running

    def start(self) -> None:
        """Start the broker and return when it answers a metadata request. Does nothing if it runs.

        Raises UserError with the log's last word if the broker dies or does not answer in time.
        """
        if self.is_running:
            return
        attempts = _PORT_ATTEMPTS if self._ports is None and self._wanted_port is None else 1
        classpath = jars.classpath(f"broker-{self.kafka_version}")
        for attempt in range(1, attempts + 1):
            self._prepare()
            try:
                self._format(classpath)
                self._process = self._run(classpath, "kafka.Kafka", self._properties)
                self._await_metadata()
            except BaseException as error:
                self.kill()
                # Between choosing a port and the broker's opening it another program may have come.
                if attempt == attempts or not isinstance(error, UserError) or _PORT_TAKEN not in str(error):
                    raise
                self._ports = None
            else:
                return

    def stop(self, deadline_seconds: float = 15) -> None:
        """Stop the broker in an orderly way, by force after the deadline. Data and ports are kept."""
        if self._process:
            self._process.terminate(deadline_seconds)
            self._process = None

    def kill(self) -> None:
        """Kill the broker as a crash would. Data and ports are kept."""
        if self._process:
            self._process.kill()
            self._process = None

    def restart(self) -> None:
        """Stop the broker and start it again on the same data and ports."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the broker and remove its directory if it is a temporary one."""
        self.stop()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def _prepare(self) -> None:
        """Choose ports and write the configuration files."""
        (self.directory / "data").mkdir(parents=True, exist_ok=True)
        if self._ports is None:
            port, controller_port = find_free_ports(2, but=self._wanted_port)
            self._ports = (self._wanted_port or port, controller_port)
        # Asked before the start: if it is a Kafka that listens there, it would answer in the new broker's name.
        if not is_free(port := self._ports[0]):
            raise UserError(f"port {port} is in use: stop what listens on 127.0.0.1:{port} or choose another port")
        (self.directory / "log4j2.xml").write_text(_LOG4J2)
        (self.directory / "log4j.properties").write_text(_LOG4J)
        self._properties.write_text(render_properties(*self._ports, self.directory / "data", self._config))

    def _format(self, classpath: str) -> None:
        """Give an empty data directory its identity, as Kafka asks before the first start."""
        if (self.directory / "data" / "meta.properties").exists():
            return
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # One argument, for one in 64 identities begins with a dash.
        identity = f"--cluster-id={cluster_id}"
        tool = self._run(classpath, "kafka.tools.StorageTool", "format", identity, "--config", self._properties)
        with tool:
            if tool.wait(self._start_deadline_seconds) != 0:
                raise self._failure("could not format its data directory")

    def _run(self, classpath: str, main: str, *arguments: str | Path) -> ChildProcess:
        logging = (
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.xml'}",
            f"-Dlog4j.configuration=file:{self.directory / 'log4j.properties'}",
        )
        command = [find_java().executable, *self._jvm_options, *logging, "-cp", classpath, main, *arguments]
        return ChildProcess(command, log_path=self.log_path, cwd=self.directory)

    def _await_metadata(self) -> None:
        """Return when the broker lists its topics to a client, the first proof that clients can use it."""
        deadline = time.monotonic() + self._start_deadline_seconds
        # librdkafka's own words on a refused connection, expected until the broker is up, stay unheard.
        settings: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "log_level": 0, "error_cb": _ignore}
        client = AdminClient({**settings, "reconnect.backoff.max.ms": 200})
        while time.monotonic() < deadline:
            if not self.is_running:
                raise self._failure("ended while starting")
            with contextlib.suppress(KafkaException):
                if client.list_topics(timeout=0.5).brokers:
                    return
        raise self._failure(f"did not answer within {self._start_deadline_seconds:.0f} s")

    def _failure(self, what: str) -> UserError:
        """Return the error with the last telling line of the log, which a temporary broker leaves behind for it."""
        log = self.log_path
        if self._temporary and log.exists():
            log = Path(shutil.copy(log, Path(tempfile.gettempdir()) / f"{self.directory.name}.log"))
        return UserError(f"the Kafka {self.kafka_version} broker {what}: {telling_line(log)} (log: {log})")


def render_properties(port: int, controller_port: int, data: Path, config: Mapping[str, str]) -> str:
    """Return server.properties: the defaults, `config` over them, and the ports and directory over both.

    Listeners that `config` names stand beside the plain one.
    """
    listeners = f"{config['listeners']}," if "listeners" in config else ""
    settings = {
        **_DEFAULTS,
        **config,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"{listeners}PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"{listeners}PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(data),
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def telling_line(log: Path) -> str:
    """Return the line of a broker's log that says best why it ended: its last error, else its last line."""
    lines = (
        [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    )
    # An error's cause is the last one in its chain; Kafka logs the same failure again on every layer it passes.
    causes = [line for line in lines if re.search(r"Caused by:|Exception: |ERROR|Error: ", line)]
    return (causes or lines or ["it wrote no log"])[-1]


def find_free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on at this moment."""
    (port,) = find_free_ports(1)
    return port


def find_free_ports(count: int, *, but: int | None = None) -> list[int]:
    """Return so many different ports, none of them `but`, of 127.0.0.1 that nobody listens on at this moment."""
    candidates = random.SystemRandom().sample(_PORTS, 200)
    found = list(itertools.islice((port for port in candidates if port != but and is_free(port)), count))
    if len(found) < count:
        raise UserError(f"no free port between {_PORTS.start} and {_PORTS.stop - 1}: stop some servers of this machine")
    return found


def is_free(port: int) -> bool:
    """Return whether a server could listen on this port of 127.0.0.1 now, connections of a past one aside."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _ignore(_error: object) -> None:
    """Take librdkafka's connection errors while the broker is not up yet."""
