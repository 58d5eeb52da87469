"""How long a value may take: processor time that its length bounds, held without being misled by a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from faults.reporting import IS_FULL

#: For each 100 kB begun: what `make faults` and `make fuzz` hold. `make test` runs beside other work on machines of any
#: speed, and finds there only what grows faster than the length.
_SECONDS_PER_100_KB = 0.05 if IS_FULL else 2.0
#: What is too slow is tried so often: a busy machine, or a collection of garbage, makes one run slow and not all.
_TRIES = 4

_T = TypeVar("_T")


class TooSlowError(Exception):
    """A value took longer than its length allows."""


def share_of_time(work: Callable[[], object], value: bytes, what: str) -> float:
    """Do a piece of work and return its share of the time it may take. Raises TooSlowError above 1."""
    allowed = _SECONDS_PER_100_KB * max(1, len(value) / 100_000)
    began = time.process_time()
    work()
    spent = time.process_time() - began
    if spent > allowed:
        raise TooSlowError(f"{what}: {spent * 1000:.0f} ms for {len(value)} bytes: {value[:300]!r}")
    return spent / allowed


def least_time(work: Callable[[], object]) -> float:
    """Do a piece of work some times; return the seconds of processor time that it took when it took least."""
    spent = []
    for _ in range(_TRIES):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)


def unless_busy(attempt: Callable[[], _T]) -> _T:
    """Return what an attempt does; raises TooSlowError only if it does each time it is tried."""
    for _ in range(_TRIES - 1):
        try:
            return attempt()
        except TooSlowError:
            continue
    return attempt()
