"""Tracks how an application uses its consumer: when the last poll returned, how many records, and how many are done.

The thread that polls writes, the reporting thread reads. Neither waits for the other: every field is replaced as a
whole, and a report that mixes two moments a microsecond apart does no harm.

Times are kept in ms of the monotonic clock, and become epoch times when they are reported: after a step of the system's
clock a report has the ages that it had before.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: A difference of the clocks that changes by less, in ms, is kept, so that a time is the same in each report.
_STEP_MS = 100


def wall_ms() -> int:
    """Return the time in ms since 1970."""
    return int(time.time() * 1000)


def monotonic_ms() -> float:
    """Return the time in ms since some moment; no step of the system's clock changes it."""
    return time.monotonic() * 1000


def measure_offset_ms() -> float:
    """Return what has to be added to `monotonic_ms` at present for ms since 1970."""
    return time.time() * 1000 - monotonic_ms()


class PollTracker:
    """Notes calls of `poll` and, for clients that are iterators, of `__next__`.

    Iteration differs between clients. Newer versions of kafka-python poll inside it and return the batch one record at
    a time: then the batch counts as the poll, and each further call means that one more record is done. Older versions
    do the work of a poll between records: then each record counts as a poll.
    """

    def __init__(
        self,
        clock: Callable[[], float] = monotonic_ms,
        measure_offset: Callable[[], float] = measure_offset_ms,
    ) -> None:
        """`clock` gives ms that no step changes, `measure_offset` what has to be added for epoch ms."""
        self._clock = clock
        self._measure_offset = measure_offset
        #: Replaced by the reporting thread only.
        self._offset_ms = measure_offset()
        self._waiting_since_ms: float | None = None
        self._returned_ms: float | None = None
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
        self._follow_steps()
        return {
            "last_poll_return_ms": self._as_epoch_ms(self._returned_ms) if waiting_since_ms is None else None,
            "waiting_since_ms": self._as_epoch_ms(waiting_since_ms),
            "records_in_last_poll": self._records,
            "records_done": self._done,
        }

    def _follow_steps(self) -> None:
        measured_ms = self._measure_offset()
        if abs(measured_ms - self._offset_ms) >= _STEP_MS:
            self._offset_ms = measured_ms

    def _as_epoch_ms(self, at_ms: float | None) -> int | None:
        """Return a time of the monotonic clock in epoch ms; null stays null."""
        return None if at_ms is None else int(at_ms + self._offset_ms)
