"""Writes events of a client program as JSON lines to standard output, in one format for all libraries.

Uses only the standard library, to work with every Python and every client.
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
    """Raised on SIGTERM: the program must stop its work and close."""


class EventLog:
    """Writes events under one client's name."""

    def __init__(self, name: str) -> None:
        """Write events under `name`; the field `process` distinguishes its processes after a restart."""
        self._name = name
        self._process = f"{name}/{os.getpid()}"

    def write(self, event: str, **more: Any) -> None:
        """Write one line: the event and its time in epoch milliseconds."""
        line = {"t_ms": int(time.time() * 1000), "name": self._name, "process": self._process, "event": event}
        # In one write, because other threads write the client's own log to the same file.
        sys.stdout.write(json.dumps({**line, **more}) + "\n")
        sys.stdout.flush()

    def write_records(self, places: Iterable[tuple[str, int, int]]) -> None:
        """Write the records that the application got, as ranges [topic, partition, first, last]."""
        ranges: dict[tuple[str, int], list[int]] = {}
        count = 0
        for topic, partition, offset in places:
            count += 1
            found = ranges.setdefault((topic, partition), [offset, offset])
            found[1] = offset
        if count:
            self.write("records", count=count, ranges=[[*place, *ends] for place, ends in ranges.items()])


def stop_on_sigterm() -> None:
    """Raise Stopped in the main thread on SIGTERM, even during a blocking call."""

    def stop(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Stopped

    signal.signal(signal.SIGTERM, stop)


def on_signal(number: int, action: Callable[[], object]) -> None:
    """Call `action` in the main thread on a signal."""
    signal.signal(number, lambda *_: action())
