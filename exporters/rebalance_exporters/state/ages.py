"""Ages of things whose timestamps were written by other machines, whose clocks may be wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator


class Ages:
    """Timestamps of rows; one in the future is replaced by the time at which it was first read.

    So a row with a timestamp in the year 9999 expires like any other.
    """

    def __init__(self) -> None:
        self._first_looks: dict[Hashable, int] = {}

    @contextlib.contextmanager
    def looking(self, now_ms: int) -> Iterator[Callable[[Hashable, int], int]]:
        """Yield the function that reads times in one pass over all things; those not read in the pass are forgotten."""
        before, self._first_looks = self._first_looks, {}

        def read(thing: Hashable, written_ms: int) -> int:
            if written_ms <= now_ms:
                return written_ms
            first = self._first_looks[thing] = before.get(thing, now_ms)
            return first

        yield read
