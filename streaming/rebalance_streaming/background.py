"""Work of background threads that an unexpected error must not end unnoticed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from rebalance_kafka.backoff import Backoff

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0


def repeat_until(stop: threading.Event, work: Callable[[], None], name: str, warn: Callable[[str], None]) -> None:
    """Call `work` again and again until `stop` is set.

    After an exception it is called again with back-off. `warn` gets one line for each type of exception, with `name`.
    """
    backoff, warned = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, random.random), set[type[Exception]]()
    while not stop.is_set():
        try:
            work()
        except Exception as error:
            # Whatever it is, nothing else does this work.
            if type(error) not in warned:
                warned.add(type(error))
                warn(f"{name} failed and is repeated ({type(error).__name__}: {error}); please report this")
            stop.wait(backoff.fail())
        else:
            backoff.succeed()
