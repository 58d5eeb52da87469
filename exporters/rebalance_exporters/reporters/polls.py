"""Tracks how an application uses its consumer: when the last poll returned, how many records, and how many are done.

The thread that polls writes, the reporting thread reads. Neither waits for the other: every field is replaced as a
whole, and a report that mixes two moments a microsecond apart does no harm. Time comes from the caller's clock.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def wall_ms() -> int:
    """Return the time in ms since 1970."""
    return int(time.time() * 1000)


class PollTracker:
    """Notes calls of `poll` and, for clients that are iterators, of `__next__`.

    Iteration differs between clients. Newer versions of kafka-python poll inside it and return the batch one record at
    a time: then the batch counts as the poll, and each further call means that one more record is done. Older versions
    do the work of a poll between records: then each record counts as a poll.
    """

    def __init__(self, clock: Callable[[], int] = wall_ms) -> None:
        """`clock` gives epoch ms."""
        self._clock = clock
        self._waiting_since_ms: int | None = None
        self._returned_ms: int | None = None
        self._records: int | None = None
        self._handed: int | None = None
        self._done: int | None = None
        self._iterating = False
        self._iterates_over_polls = False

    def enter_poll(self) -> None:
        """Note that the application, or an iterator on its behalf, asks for records."""
        self._waiting_since_ms = self._clock()

    def leave_poll(self, records: int) -> None:
        """Note that the poll returned a number of records; 0 also if it returned an error."""
        if self._iterating:
            self._iterates_over_polls = True
        self._note_return(records, handed=0 if self._iterating else None)

    def enter_next(self) -> None:
        """Note that the application asks the iterator for a record, so the previous one is done."""
        self._iterating = True
        self._done = self._handed
        self._waiting_since_ms = self._clock()

    def leave_next(self, *, found: bool) -> None:
        """Note that the iterator returned a record or ended."""
        if not self._iterates_over_polls:
            self._note_return(int(found), handed=0)
        if found:
            self._handed = (self._handed or 0) + 1
        self._iterating = False
        self._waiting_since_ms = None

    def _note_return(self, records: int, handed: int | None) -> None:
        self._returned_ms = self._clock()
        self._records = records
        self._handed = self._done = handed
        self._waiting_since_ms = None

    def read(self) -> dict[str, Any]:
        """Return the four fields of a report.

        `last_poll_return_ms` is null while the application waits inside the client, because its age then does not show
        how busy the application is; `waiting_since_ms` is null while it does not wait. `records_done` is the number of
        records of the last poll that are done, null if the client is not used as an iterator.
        """
        waiting_since_ms = self._waiting_since_ms
        return {
            "last_poll_return_ms": self._returned_ms if waiting_since_ms is None else None,
            "waiting_since_ms": waiting_since_ms,
            "records_in_last_poll": self._records,
            "records_done": self._done,
        }
