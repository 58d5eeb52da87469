"""The real monitor watching a stage: stream, prober and exporter as processes, and their findings."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from e2e.pages import page
from e2e.rig import READY_SECONDS
from rebalance_contract import Finding
from rebalance_deploy.monitor import Monitor, loopback_sources
from rebalance_devtools.stories.stage import Stage


class _Answer(msgspec.Struct):
    findings: list[Finding]


@dataclass(frozen=True, slots=True)
class Watcher:
    """A running monitor."""

    url: str

    def findings(self) -> list[Finding]:
        """Return the API's current findings."""
        return msgspec.json.decode(page(f"{self.url}/api/v1/findings"), type=_Answer).findings


def watching(directory: Path, stage: Stage) -> AbstractContextManager[Watcher]:
    """Run the monitor on a stage's brokers until the block ends."""
    return _watch(directory, stage)


@contextmanager
def _watch(directory: Path, stage: Stage) -> Iterator[Watcher]:
    directory.mkdir(parents=True, exist_ok=True)
    settings = loopback_sources(stage.bootstrap, directory, zookeeper=stage.zookeeper)
    with Monitor(settings, directory) as monitor:
        monitor.wait_until_ready(threading.Event(), print, timeout_seconds=READY_SECONDS)
        yield Watcher(monitor.url)
