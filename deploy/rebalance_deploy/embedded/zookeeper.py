"""Runs a real ZooKeeper on this machine, for old clients that store their groups there.

Returns the address of a running standalone server with the nodes that old clients require. The server is part of Kafka
3.9.2's jars.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Self

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from rebalance_deploy.embedded.server import QUICK_START, JavaServer
from rebalance_deploy.ports import find_free_port

_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
_JAR_SET = "broker-3.9.2"
#: Nodes watched by old clients; a KRaft broker does not create them. Empty ones suffice.
_WATCHED = ("/brokers/ids", "/brokers/topics")
_STOP_SECONDS = 10.0


class ZooKeeper:
    """One ZooKeeper server in one child process; its data and log are in `directory`. Leaving the context stops it.

    `keep_log` is for a directory that will be removed: the log is copied to this path after a failure.
    """

    def __init__(self, directory: Path, *, start_deadline_seconds: float = 240, keep_log: Path | None = None) -> None:
        """Prepare a server. Starts nothing yet."""
        self._start_deadline_seconds = start_deadline_seconds
        self._port: int | None = None
        options = (*QUICK_START, "-Dzookeeper.admin.enableServer=false")
        log = directory / "zookeeper.log"
        self._server = JavaServer("the ZooKeeper", log, jar_set=_JAR_SET, jvm_options=options, keep_log=keep_log)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def hosts(self) -> str:
        """The server's address, in the form for clients. Raises RuntimeError before the first start."""
        if self._port is None:
            raise RuntimeError("the ZooKeeper was never started")
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the server and return when it answers and has the nodes. Does nothing if it is running.

        Raises UserError if it does not answer in time.
        """
        if self._server.is_running:
            return
        self._port = self._port or find_free_port()
        self._server.start(_MAIN, str(self._port), self._server.directory / "data")
        self._make_nodes(time.monotonic() + self._start_deadline_seconds)

    def stop(self) -> None:
        """Stop the server. Data and port are kept."""
        self._server.stop(_STOP_SECONDS)

    def _make_nodes(self, deadline: float) -> None:
        client = KazooClient(self.hosts, logger=_silent_logger())
        try:
            client.start(timeout=max(1.0, deadline - time.monotonic()))
            for path in _WATCHED:
                # Retried because a busy machine may lose the session in between.
                client.retry(client.ensure_path, path)
        except KazooTimeoutError:
            raise self._server.failure(f"did not answer at {self.hosts}") from None
        finally:
            client.stop()
            client.close()


def _silent_logger() -> logging.Logger:
    """Return a logger that drops refused connections, which are expected while the server starts."""
    logger = logging.getLogger(f"{__name__}.client")
    logger.setLevel(logging.CRITICAL)
    return logger
