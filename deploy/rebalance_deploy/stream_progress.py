"""How far the stream has read its inputs up, for whoever started it at a terminal, or reads its log with a program."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import IO

from rebalance_contract import QueryStatus
from rebalance_deploy.progress import Bar, StepProgress, step_of


class StreamProgress:
    """Shows how far a rebuild and then the queries are, until each query has caught up, and not again after that.

    Nothing is drawn on a terminal by a process in the background: another one, as `up`, writes there.
    """

    def __init__(self, stream: IO[str] | None = None, make_bar: Callable[..., Bar] = Bar) -> None:
        """`stream` is where it is drawn; null: standard error."""
        self._statuses: tuple[QueryStatus, ...] = ()
        self._read_back = (0, 0)
        stream = sys.stderr if stream is None else stream
        self._bar: Bar | None = make_bar(self.reading, stream) if not stream.isatty() or _is_ours(stream) else None
        self._is_shown = False

    def read_back(self, read: int, wanted: int) -> None:
        """Note how many positions of the published topics are read for a new checkpoint; for one thread."""
        self._read_back = (read, wanted)
        self._show()

    def look(self, statuses: Sequence[QueryStatus]) -> None:
        """Note how the queries are now; for one thread."""
        self._statuses = tuple(statuses)
        if self._bar is None or not statuses:
            return
        if all(each.caught_up for each in statuses):
            self.stop()
        else:
            self._show()

    def _show(self) -> None:
        if self._bar is not None and not self._is_shown:
            self._is_shown = True
            self._bar.start()

    def reading(self) -> StepProgress:
        """Return how much of what was there at the start is processed: published rows, then inputs; for any thread."""
        if not self._statuses and self._read_back[1]:
            return step_of("reading the published rows", self._read_back[0], "positions", self._read_back[1])
        read = sum(each.read_records for each in self._statuses)
        wanted = sum(each.wanted_records for each in self._statuses)
        return step_of("reading the log up", read, "records", wanted)

    def stop(self) -> None:
        """Take it away; it does not come back."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _is_ours(terminal: IO[str]) -> bool:
    """Whether this process is in the foreground of a terminal."""
    try:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False
