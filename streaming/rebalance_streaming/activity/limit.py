"""A limit of the processor time for one piece of work, as a safeguard against unforeseen inputs.

It works only in the main thread of a process, where Python runs signal handlers; in other threads there is no limit.
Regular expressions check for signals while matching, other C code does not, so sizes must be bounded before.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_Handler = Callable[[int, FrameType | None], Any] | int | None


class TooSlow(BaseException):
    """The work was aborted because it exceeded its time limit."""


class TimeLimit:
    """Installs the signal handler while entered; `running()` limits one piece of work. Null seconds: no limit.

    The timer measures the process's own processor time, so that a busy or suspended machine does not abort work.
    """

    def __init__(self, seconds: float | None) -> None:
        in_main_thread = threading.current_thread() is threading.main_thread()
        self._seconds = seconds if in_main_thread else None
        self._armed = False
        self._before: _Handler = None

    def __enter__(self) -> TimeLimit:
        if self._seconds is not None:
            self._before = signal.signal(signal.SIGVTALRM, self._end)
        return self

    def __exit__(self, *_: object) -> None:
        if self._seconds is not None:
            signal.signal(signal.SIGVTALRM, self._before or signal.SIG_DFL)

    def _end(self, number: int, frame: FrameType | None) -> None:
        # A signal may arrive just after the end of the work.
        if self._armed:
            self._armed = False
            raise TooSlow

    @contextmanager
    def running(self) -> Iterator[None]:
        """Limit the work in the block, which raises TooSlow if it takes too long."""
        if self._seconds is None:
            yield
            return
        self._armed = True
        signal.setitimer(signal.ITIMER_VIRTUAL, self._seconds)
        try:
            yield
        finally:
            self._armed = False
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
