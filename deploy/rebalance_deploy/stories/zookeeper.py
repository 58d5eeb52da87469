"""A real ZooKeeper on this machine, for clients of the time when groups lived there.

Receives nothing; hands on the address of a running standalone server with the nodes old clients insist on. Kafka
3.9.2's jars bring the server. It is a guarded child: it cannot outlive this process.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from rebalance_deploy import jars
from rebalance_deploy.broker import QUICK_START, find_free_port, telling_line
from rebalance_deploy.errors import UserError
from rebalance_deploy.jdk import find_java
from rebalance_deploy.processes import ChildProcess

_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
#: Watched by old clients; a KRaft broker makes neither, and empty ones suffice.
_WATCHED = ("/brokers/ids", "/brokers/topics")
_LOG4J = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class ZooKeeper:
    """One ZooKeeper server in one child process; its data and log lie in `directory`. Leaving the context stops it."""

    def __init__(self, directory: Path, *, start_deadline_seconds: float = 60) -> None:
        """Prepare a server. Starts nothing yet."""
        self.directory = directory
        self._start_deadline_seconds = start_deadline_seconds
        self._port: int | None = None
        self._process: ChildProcess | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def hosts(self) -> str:
        """The server's address, as clients want it. Known once it was started."""
        if self._port is None:
            raise RuntimeError("the ZooKeeper was never started")
        return f"127.0.0.1:{self._port}"

    @property
    def log_path(self) -> Path:
        """The server's log."""
        return self.directory / "zookeeper.log"

    def start(self) -> None:
        """Start the server and return when it answers and has the nodes. Raises UserError when it does not."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._port = self._port or find_free_port()
        settings = self.directory / "log4j.properties"
        settings.write_text(_LOG4J)
        options = (*QUICK_START, f"-Dlog4j.configuration=file:{settings}", "-Dzookeeper.admin.enableServer=false")
        classpath = jars.classpath("broker-3.9.2")
        java: list[str | Path] = [find_java().executable, *options, "-cp", classpath, _MAIN]
        command = [*java, str(self._port), self.directory / "data"]
        self._process = ChildProcess(command, log_path=self.log_path, cwd=self.directory)
        self._make_nodes(time.monotonic() + self._start_deadline_seconds)

    def stop(self) -> None:
        """Stop the server. Data and port are kept."""
        if self._process:
            self._process.terminate()
            self._process = None

    def _make_nodes(self, deadline: float) -> None:
        client = KazooClient(self.hosts, logger=_silent_logger())
        try:
            client.start(timeout=max(1.0, deadline - time.monotonic()))
            for path in _WATCHED:
                client.ensure_path(path)
        except KazooTimeoutError:
            said = telling_line(self.log_path)
            raise UserError(f"the ZooKeeper did not answer at {self.hosts}: {said} (log: {self.log_path})") from None
        finally:
            client.stop()
            client.close()


def _silent_logger() -> logging.Logger:
    """Return a logger for refused connections, which are to be expected while the server starts."""
    logger = logging.getLogger(f"{__name__}.client")
    logger.setLevel(logging.CRITICAL)
    return logger
