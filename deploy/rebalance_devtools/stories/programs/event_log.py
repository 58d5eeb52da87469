"""How a client program reports what happens to it: JSON lines on standard output, in one form for all libraries.

Standard library only, for every Python and next to every client.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any


class Stopped(BaseException):
    """SIGTERM came: leave what you do and close."""


class EventLog:
    """Writes events under one client's name."""

    def __init__(self, name: str) -> None:
        """Speak as `name`; `process` distinguishes its processes, should it be started again."""
        self._name = name
        self._process = f"{name}/{os.getpid()}"

    def write(self, event: str, **more: Any) -> None:
        """Write one line: the event and when, epoch milliseconds."""
        line = {"t_ms": int(time.time() * 1000), "name": self._name, "process": self._process, "event": event}
        # In one piece: the client's own log goes to the same file, and other threads write it.
        sys.stdout.write(json.dumps({**line, **more}) + "\n")
        sys.stdout.flush()

    def write_records(self, places: Iterable[tuple[str, int, int]]) -> None:
        """Write which records were handed to the application: ranges [topic, partition, first, last]."""
        ranges: dict[tuple[str, int], list[int]] = {}
        count = 0
        for topic, partition, offset in places:
            count += 1
            found = ranges.setdefault((topic, partition), [offset, offset])
            found[1] = offset
        if count:
            self.write("records", count=count, ranges=[[*place, *ends] for place, ends in ranges.items()])


def stop_on_sigterm() -> None:
    """Raise Stopped in the main thread when SIGTERM comes, also out of a call that waits."""

    def stop(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Stopped

    signal.signal(signal.SIGTERM, stop)


def on_signal(number: int, action: Callable[[], object]) -> None:
    """Do `action` in the main thread when a signal comes."""
    signal.signal(number, lambda *_: action())
