"""Waiting on a condition with a deadline, for tests that watch other processes."""

import os
import time
from collections.abc import Callable
from pathlib import Path


def wait_until(condition: Callable[[], bool], what: str, deadline_seconds: float = 20) -> None:
    """Return when `condition` holds; fail with `what` was awaited if it does not before the deadline."""
    deadline = time.monotonic() + deadline_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {deadline_seconds} s in vain until {what}")
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie that waits for its reaper does not."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"
