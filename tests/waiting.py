"""Waits for a condition with a time-out, for tests that watch other processes."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

#: Other threads often finish at once; other processes take longer.
_FIRST_PAUSE_SECONDS = 0.002
#: A check may be expensive, such as reading a whole page of metrics, and slow down the process that is awaited.
_PAUSES_PER_LOOK, _LONGEST_REST_SECONDS = 3.0, 1.0
#: A round of waiting (a check and a pause) takes less, unless the check itself takes long.
_ROUND_SECONDS = 5.0


class Waited:
    """Adds up the rounds of a wait, each counted as 5 s at most.

    If the machine stalls the waiting process for a minute, the awaited process was stalled as well, so that minute does
    not count. A check that takes longer than 5 s counts as 5 s.
    """

    def __init__(self) -> None:
        self._seconds, self._since = 0.0, time.monotonic()

    def go_on(self) -> float:
        """End a round and return the total of all rounds in seconds."""
        now = time.monotonic()
        self._seconds += min(_ROUND_SECONDS, now - self._since)
        self._since = now
        return self._seconds


def wait_for(
    condition: Callable[[], T], what: str | Callable[[], object], seconds: float = 300, every: float = 0.05
) -> T:
    """Return the condition's value once it is true; otherwise fail with the description or the current state.

    The condition is checked soon at first, and then less and less often, down to once in `every` seconds; even less
    often if a check takes long. Time for which this process itself is stalled does not count, see `Waited`.
    """
    began, waited = time.monotonic(), Waited()
    pause, seconds_to_next = threading.Event(), min(every, _FIRST_PAUSE_SECONDS)
    while not (found := condition()):
        look_seconds = time.monotonic() - began
        if waited.go_on() > seconds:
            raise AssertionError(f"waited {seconds} s in vain for: {what if isinstance(what, str) else what()}")
        pause.wait(max(seconds_to_next, min(_LONGEST_REST_SECONDS, _PAUSES_PER_LOOK * look_seconds)))
        seconds_to_next, began = min(every, 2 * seconds_to_next), time.monotonic()
    return found


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie that has not been reaped does not."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"
