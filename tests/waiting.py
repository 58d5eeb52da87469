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
#: A round of waiting, a look and a pause, is over in less, unless the look itself takes long.
_ROUND_SECONDS = 5.0


class Waited:
    """Adds up the rounds of a wait, each by at most 5 s.

    A machine that gives the waiting process no time for a minute has given none to what it waits for either: that
    minute is not used up. A look that takes longer than 5 s counts as 5 s.
    """

    def __init__(self) -> None:
        self._seconds, self._since = 0.0, time.monotonic()

    def go_on(self) -> float:
        """End a round; return what all rounds took."""
        now = time.monotonic()
        self._seconds += min(_ROUND_SECONDS, now - self._since)
        self._since = now
        return self._seconds


def wait_for(
    condition: Callable[[], T], what: str | Callable[[], object], seconds: float = 300, every: float = 0.05
) -> T:
    """Return the condition's value once it is true; fail with what was awaited, or what is there instead.

    It is asked again soon, and then less and less often, until `every` so many seconds; seldom where that takes long.
    Time in which this process itself stands still does not count, see `Waited`.
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
    """Whether the process runs; a zombie that waits for its reaper does not."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"
