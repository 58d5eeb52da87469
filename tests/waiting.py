"""Waiting on a condition with a deadline, for tests that watch other processes."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

#: What other threads do is often done at once; what other processes do takes longer.
_FIRST_PAUSE_SECONDS = 0.002


def wait_for(
    condition: Callable[[], T], what: str | Callable[[], object], seconds: float = 300, every: float = 0.05
) -> T:
    """Return the condition's value once it is true; fail with what was awaited, or what is there instead.

    It is asked again soon, and then less and less often, until `every` so many seconds.
    """
    deadline = time.monotonic() + seconds
    pause, seconds_to_next = threading.Event(), min(every, _FIRST_PAUSE_SECONDS)
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain for: {what if isinstance(what, str) else what()}")
        pause.wait(seconds_to_next)
        seconds_to_next = min(every, 2 * seconds_to_next)
    return found


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie that waits for its reaper does not."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"
