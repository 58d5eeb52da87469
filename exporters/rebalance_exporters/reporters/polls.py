"""What the application does with its consumer: when it last came back from it, with how much, and how far it is.

The thread that polls writes, the reporting thread reads. Neither waits for the other: every field is replaced as a
whole, and a report that mixes two moments a microsecond apart harms nobody. Time comes from the caller's clock.
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

    Clients differ in what iterating is. Newer ones of kafka-python poll inside and hand out the batch one by one; then
    the batch is what counts, and each further call says that one more record is done. Older ones do a poll's work
    between the records; then each record is a poll of its own.
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
        """The application, or an iterator in its name, asks for records."""
        self._waiting_since_ms = self._clock()

    def leave_poll(self, records: int) -> None:
        """It came back with so many; 0 also when it came back with an error."""
        if self._iterating:
            self._iterates_over_polls = True
        self._note_return(records, handed=0 if self._iterating else None)

    def enter_next(self) -> None:
        """The application asks the iterator for a record, so the one before is done."""
        self._iterating = True
        self._done = self._handed
        self._waiting_since_ms = self._clock()

    def leave_next(self, *, found: bool) -> None:
        """It came back, with a record or at the iterator's end."""
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

        `last_poll_return_ms` is null while the application waits inside the client, since its age then says nothing of
        how busy the application is; `waiting_since_ms` is null while it does not. `records_done` is known of iterators
        only: how many records of the last poll are done.
        """
        waiting_since_ms = self._waiting_since_ms
        return {
            "last_poll_return_ms": self._returned_ms if waiting_since_ms is None else None,
            "waiting_since_ms": waiting_since_ms,
            "records_in_last_poll": self._records,
            "records_done": self._done,
        }
