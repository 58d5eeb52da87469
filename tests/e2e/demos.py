"""A demo, started as a user would."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rebalance_deploy.processes import ChildProcess


@contextmanager
def demo(log: Path, *options: str) -> Iterator[ChildProcess]:
    """Start a demo with the exporter on a free port and its output in a file."""
    command = [sys.executable, "-m", "rebalance_deploy", "demo", *options, "--port", "0"]
    with ChildProcess(command, log_path=log, grace_seconds=60) as running:
        yield running
