"""Work of background threads that an unexpected error must not end unnoticed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from rebalance_kafka.backoff import Backoff

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0
#: Errors of a type are reported again after this time.
_WARN_AGAIN_SECONDS = 3_600.0


def repeat_until(stop: threading.Event, work: Callable[[], None], name: str, warn: Callable[[str], None]) -> None:
    """Call `work` again and again until `stop` is set.

    After an exception it is called again with back-off. `warn` gets one line, with `name`, for each type of exception,
    at most every hour.
    """
    backoff, warned_at = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, random.random), dict[type, float]()
    while not stop.is_set():
        began = time.monotonic()
        try:
            work()
        except Exception as error:
            # Whatever it is, nothing else does this work.
            now = time.monotonic()
            if now - began > _LONGEST_PAUSE_SECONDS:
                backoff.succeed()
            if now - warned_at.get(type(error), now - _WARN_AGAIN_SECONDS) >= _WARN_AGAIN_SECONDS:
                warned_at[type(error)] = now
                with suppress(Exception):
                    warn(f"{name} failed and is repeated ({type(error).__name__}: {error}); please report this")
            stop.wait(backoff.fail())
        else:
            backoff.succeed()
