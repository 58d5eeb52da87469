"""A limit to the processor time that one piece of work may take: a second line of defence, for what nobody thought of.

Only in the main thread of a process, where Python runs handlers of signals; elsewhere there is no limit. Regular
expressions look for signals while they match, other C code does not, so sizes must be bounded before.
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
    """The work was ended because its time was over."""


class TimeLimit:
    """Installs the handler while entered; `running()` limits one piece of work. Null seconds: no limit.

    The timer counts the process's own time and not the clock's, so that a busy or suspended machine ends nothing.
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
        # A signal may arrive when the work has just ended.
        if self._armed:
            self._armed = False
            raise TooSlow

    @contextmanager
    def running(self) -> Iterator[None]:
        """Limit the work inside. Raises TooSlow out of it."""
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
