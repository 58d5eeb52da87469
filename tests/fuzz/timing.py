"""Limits of processor time in proportion to the length of a value, robust against a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from faults.reporting import IS_FULL

#: For each 100 kB begun: the limit in `make faults` and `make fuzz`. `make test` runs beside other work on machines of
#: any speed, and only detects costs that grow faster than the length.
_SECONDS_PER_100_KB = 0.05 if IS_FULL else 2.0
#: Number of attempts before a value counts as too slow: load, or a garbage collection, slows down single runs only.
_TRIES = 4

_T = TypeVar("_T")


class TooSlowError(Exception):
    """A value took longer than its length allows."""


def share_of_time(work: Callable[[], object], value: bytes, what: str) -> float:
    """Run a piece of work and return its share of the allowed time. Raises TooSlowError above 1."""
    allowed = _SECONDS_PER_100_KB * max(1, len(value) / 100_000)
    began = time.process_time()
    work()
    spent = time.process_time() - began
    if spent > allowed:
        raise TooSlowError(f"{what}: {spent * 1000:.0f} ms for {len(value)} bytes: {value[:300]!r}")
    return spent / allowed


def least_time(work: Callable[[], object]) -> float:
    """Return the processor time, in seconds, of the fastest of several runs of a piece of work."""
    spent = []
    for _ in range(_TRIES):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)


def unless_busy(attempt: Callable[[], _T]) -> _T:
    """Return the result of an attempt; raises TooSlowError only if every try does."""
    for _ in range(_TRIES - 1):
        try:
            return attempt()
        except TooSlowError:
            continue
    return attempt()
