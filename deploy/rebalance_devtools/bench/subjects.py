"""The programs whose cold start is measured: the monitor as three processes, and a peer given as a binary.

Each gets a broker and a directory. Readiness and the lag of every group are read from its public HTTP pages.
"""

from __future__ import annotations

import os
import re
import urllib.request
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Protocol, Self

import msgspec

from rebalance_deploy.counts import fetch
from rebalance_deploy.errors import UserError
from rebalance_deploy.monitor import Monitor, loopback_sources
from rebalance_deploy.ports import find_free_port
from rebalance_deploy.processes import ChildProcess

_TIMEOUT_SECONDS = 60


class BenchSubject(Protocol):
    """A program that runs while the context is open, and reports the lag of groups."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    @property
    def roots(self) -> Mapping[str, int]:
        """The process ids of its processes, by name; their descendants are included in measurements."""

    def check(self) -> None:
        """Raise UserError if a process of it ended."""

    def is_ready(self) -> bool:
        """Return whether it reports itself as ready."""

    def read_lags(self) -> dict[str, int]:
        """Return its lag by group, without groups whose lag it does not show; empty before it serves."""


class MonitorSubject:
    """Stream, prober and exporter, started as `up` starts them, with a fresh checkpoint."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap, self._directory = bootstrap, directory

    def __enter__(self) -> Self:
        sources = loopback_sources(self._bootstrap, self._directory)
        self._monitor = Monitor(sources, self._directory)
        return self

    def __exit__(self, *_: object) -> None:
        self._monitor.__exit__()

    @property
    def roots(self) -> Mapping[str, int]:
        """The three processes."""
        monitor = self._monitor
        return {child.name: child.process.pid for child in (monitor.stream, monitor.probe, monitor.export)}

    def check(self) -> None:
        """Raise UserError with the last line of the log of a process that ended."""
        self._monitor.check()

    def is_ready(self) -> bool:
        """Return whether /-/ready answers 200."""
        return bool(self._monitor.url) and fetch(f"{self._monitor.url}/-/ready")[0] == HTTPStatus.OK

    def read_lags(self) -> dict[str, int]:
        """Return the lag from the API's overview, which the live page and the terminal show too."""
        if not self._monitor.url:
            return {}
        overview = msgspec.json.decode(_read(f"{self._monitor.url}/api/v1/overview"), type=_Overview)
        return {row.group: row.lag for row in overview.groups if row.lag is not None}


class _Row(msgspec.Struct):
    group: str
    lag: int | None


class _Overview(msgspec.Struct):
    groups: list[_Row]


_KMINION_LAG = re.compile(rb'^kminion_kafka_consumer_group_topic_lag\{group_id="([^"]+)"[^}]*\} (\S+)$', re.MULTILINE)
#: Configuration that reads the log as the monitor does, and shows only lag by group and topic.
_KMINION = """
kafka: {{brokers: ["{bootstrap}"]}}
minion:
  consumerGroups: {{scrapeMode: offsetsTopic, granularity: topic}}
  topics: {{granularity: topic}}
  logDirs: {{enabled: false}}
exporter: {{host: 127.0.0.1, port: {port}}}
"""


class KMinion:
    """A KMinion binary."""

    def __init__(self, binary: Path, bootstrap: str, directory: Path) -> None:
        self._binary, self._bootstrap, self._directory = binary, bootstrap, directory

    def __enter__(self) -> Self:
        port = find_free_port()
        self._url = f"http://127.0.0.1:{port}"
        config = self._directory / "kminion.yaml"
        config.write_text(_KMINION.format(bootstrap=self._bootstrap, port=port))
        environment = {**os.environ, "CONFIG_FILEPATH": str(config)}
        self._process = ChildProcess([self._binary], log_path=self._directory / "kminion.log", env=environment)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()

    @property
    def roots(self) -> Mapping[str, int]:
        """The process id of KMinion."""
        return {"kminion": self._process.pid}

    def check(self) -> None:
        """Raise UserError with the last line of its log if it ended."""
        if not self._process.is_running:
            lines = (self._directory / "kminion.log").read_text().splitlines()
            raise UserError(f"kminion ended: {lines[-1] if lines else 'without a word'}")

    def is_ready(self) -> bool:
        """Return whether /ready answers 200."""
        return fetch(f"{self._url}/ready")[0] == HTTPStatus.OK

    def read_lags(self) -> dict[str, int]:
        """Return the lag from /metrics; each request makes KMinion request end offsets from the broker."""
        # Before it is ready, its answer has no groups, or there is no answer.
        if not self.is_ready():
            return {}
        found = _KMINION_LAG.findall(_read(f"{self._url}/metrics"))
        return {group.decode(): int(float(lag)) for group, lag in found}


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310  http to this machine
        body: bytes = answer.read()
        return body


#: Creates a subject from the bootstrap servers and a directory for its files.
Start = Callable[[str, Path], BenchSubject]


def all_subjects(peer: str) -> dict[str, Start]:
    """Return the subjects by name: the monitor, and the peer given as `kminion:/path/to/binary` unless empty.

    Raises UserError for a peer that is unknown or not executable.
    """
    subjects: dict[str, Start] = {"rebalance-monitor": MonitorSubject}
    if peer:
        name, _, path = peer.partition(":")
        binary = Path(path)
        if name != "kminion" or not os.access(binary, os.X_OK):
            raise UserError(f"PEER={peer} cannot be measured: give kminion:/path/to/binary, of a file that can run")
        subjects["kminion"] = lambda bootstrap, directory: KMinion(binary, bootstrap, directory)
    return subjects
