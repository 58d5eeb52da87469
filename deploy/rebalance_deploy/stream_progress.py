"""Progress of the stream until it has caught up with its inputs, for a user at a terminal or a program."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import IO

from rebalance_contract import QueryStatus
from rebalance_deploy.progress import Bar, StepProgress, step_of


class StreamProgress:
    """Shows the progress of a rebuild and then of the queries, until each query has caught up once.

    A process in the background draws nothing on a terminal, because another one, such as `up`, writes there.
    """

    def __init__(self, stream: IO[str] | None = None, make_bar: Callable[..., Bar] = Bar) -> None:
        """Create it; `stream` is where it is drawn, None means standard error."""
        self._statuses: tuple[QueryStatus, ...] = ()
        self._read_back = (0, 0)
        stream = sys.stderr if stream is None else stream
        self._bar: Bar | None = make_bar(self.reading, stream) if not stream.isatty() or _is_ours(stream) else None
        self._is_shown = False

    def read_back(self, read: int, wanted: int) -> None:
        """Note how many positions of the published topics were read for a new checkpoint; not thread-safe."""
        self._read_back = (read, wanted)
        self._show()

    def look(self, statuses: Sequence[QueryStatus]) -> None:
        """Note the status of the queries; not thread-safe."""
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
        """Return how much of the data present at the start is processed: published rows, then inputs; thread-safe."""
        if not self._statuses and self._read_back[1]:
            return step_of("reading the published rows", self._read_back[0], "positions", self._read_back[1])
        read = sum(each.read_records for each in self._statuses)
        wanted = sum(each.wanted_records for each in self._statuses)
        return step_of("reading the log up", read, "records", wanted)

    def stop(self) -> None:
        """Stop showing the progress; it is not shown again."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _is_ours(terminal: IO[str]) -> bool:
    """Return whether this process is in the foreground of a terminal."""
    try:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False
