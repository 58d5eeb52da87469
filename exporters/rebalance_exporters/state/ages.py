"""How old things are whose times were written by others, whose clocks may be anything."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator


class Ages:
    """Times as rows have them; one that lies ahead counts as of the first look at it.

    So what claims to be from the year 9999 grows old like everything else.
    """

    def __init__(self) -> None:
        self._first_looks: dict[Hashable, int] = {}

    @contextlib.contextmanager
    def looking(self, now_ms: int) -> Iterator[Callable[[Hashable, int], int]]:
        """Give the way to read times in one look at all things; what is not asked for in it is forgotten."""
        before, self._first_looks = self._first_looks, {}

        def read(thing: Hashable, written_ms: int) -> int:
            if written_ms <= now_ms:
                return written_ms
            first = self._first_looks[thing] = before.get(thing, now_ms)
            return first

        yield read
