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
#: To look may cost much, as reading a whole page of metrics does, and leave little of the processor to what is awaited.
_PAUSES_PER_LOOK, _LONGEST_REST_SECONDS = 3.0, 1.0


def wait_for(
    condition: Callable[[], T], what: str | Callable[[], object], seconds: float = 300, every: float = 0.05
) -> T:
    """Return the condition's value once it is true; fail with what was awaited, or what is there instead.

    It is asked again soon, and then less and less often, until `every` so many seconds; seldom where that takes long.
    """
    began = time.monotonic()
    deadline = began + seconds
    pause, seconds_to_next = threading.Event(), min(every, _FIRST_PAUSE_SECONDS)
    while not (found := condition()):
        now = time.monotonic()
        if now > deadline:
            raise AssertionError(f"waited {seconds} s in vain for: {what if isinstance(what, str) else what()}")
        pause.wait(max(seconds_to_next, min(_LONGEST_REST_SECONDS, _PAUSES_PER_LOOK * (now - began))))
        seconds_to_next, began = min(every, 2 * seconds_to_next), time.monotonic()
    return found


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie that waits for its reaper does not."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"
