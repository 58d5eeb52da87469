"""Runs the complete monitor on this machine for the demo, tests and benchmarks.

Takes brokers and a directory; returns running processes and the URL of the exporter. Nothing is supervised.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Self

from rebalance_deploy.counts import fetch
from rebalance_deploy.errors import UserError
from rebalance_deploy.local import start_all, stop_all
from rebalance_deploy.logs import Say
from rebalance_deploy.settings import Sources

#: Long, because a busy machine takes minutes instead of one; a process that ended is reported at once.
_READY_SECONDS = 300.0
#: Matches in text and JSON logs.
_ANNOUNCEMENT = re.compile(r"serving on (\S+)/metrics")


def loopback_sources(
    bootstrap: str,
    directory: Path,
    *flags: str,
    port: int = 0,
    zookeeper: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Sources:
    """Return the settings of a monitor on loopback only, with its checkpoint in `directory`; `flags` override them.

    `port` is the exporter's; 0 picks a free one.
    """
    settings = (
        f"kafka.bootstrap.servers={bootstrap}",
        f"stream.checkpoint={directory / 'checkpoint'}",
        "export.listen_host=127.0.0.1",
        f"export.listen_port={port}",
        "probe.listen_host=127.0.0.1",
        "probe.listen_port=0",
        "stream.listen_host=127.0.0.1",
        "stream.listen_port=0",
        *((f"probe.zookeeper={zookeeper}",) if zookeeper else ()),
    )
    return Sources(environment=environment, flags=(*settings, *flags))


class Monitor:
    """Stream, prober and exporter with their output in files, unsupervised, for the demo, tests and benchmarks.

    A process that ends is an error. Leaving the context stops all processes.
    """

    def __init__(self, sources: Sources, log_directory: Path) -> None:
        """Start the processes; their logs go to `stream.log`, `probe.log` and `export.log`."""
        self._log_directory = log_directory
        self.stream, self.probe, self.export = start_all(sources, log_directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        stop_all([self.stream, self.probe, self.export])

    @property
    def url(self) -> str:
        """URL of the exporter as logged by it; empty before it serves."""
        log = self._log_directory / "export.log"
        for line in log.read_text().splitlines() if log.exists() else []:
            if found := _ANNOUNCEMENT.search(line):
                return found[1]
        return ""

    def wait_until_ready(self, stop: threading.Event, say: Say, *, timeout_seconds: float = _READY_SECONDS) -> bool:
        """Wait until the readiness page reports ready. Returns false if stopped first.

        Raises UserError after the time-out, or if a process ended.
        """
        deadline, said = time.monotonic() + timeout_seconds, ""
        while not stop.wait(0.25):
            self.check()
            status, text = fetch(f"{self.url}/-/ready") if self.url else (0, "waiting for the exporter")
            if status == HTTPStatus.OK:
                say(f"the monitor is ready: {self.url}/metrics")
                return True
            if text != said:
                say(f"not ready: {text}")
                said = text
            if time.monotonic() > deadline:
                raise UserError(
                    f"the monitor was not ready after {timeout_seconds:.0f} s: {text}; see {self._log_directory}"
                )
        return False

    def check(self) -> None:
        """Raise UserError with the last line of the log if a process ended."""
        for child in (self.stream, self.probe, self.export):
            if not child.process.is_running:
                lines = child.process.log_path.read_text().splitlines() if child.process.log_path else []
                raise UserError(f"{child.name} ended: {lines[-1] if lines else 'without a word'}")
