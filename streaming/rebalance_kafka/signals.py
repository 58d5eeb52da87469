"""Sets events on signals, without the deadlock of an event that a signal handler sets itself.

Python runs handlers in the main thread, between any two of its instructions. `Event.wait` and `Event.clear` hold the
event's lock for moments: a handler that calls `Event.set` then waits for that lock forever, and the process can only be
killed. So the handler wakes a thread, which sets the event.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable


def set_on_signals(
    event: threading.Event, numbers: Iterable[signal.Signals], *, once: bool = False
) -> Callable[[], None]:
    """Set an event on each of these signals; return a function that ends this and restores the handlers of before.

    Only the main thread may call either. Of several for one signal, the last one is to be ended first.

    `once`: a second signal of the same kind has its default effect, which is to end the process.
    """
    reader, writer = os.pipe()
    # A handler must not wait; a full pipe has already woken the thread.
    os.set_blocking(writer, False)

    def forward() -> None:
        while os.read(reader, 1):
            event.set()
        os.close(reader)

    is_ended = False

    def on_signal(number: int, _frame: object) -> None:
        if is_ended:
            return
        with contextlib.suppress(BlockingIOError):
            os.write(writer, b"\0")
        if once:
            signal.signal(number, signal.SIG_DFL)

    # Started here: the handler may interrupt the start of a thread, which holds a lock, too.
    threading.Thread(target=forward, name="signals", daemon=True).start()
    before = {number: signal.signal(number, on_signal) for number in numbers}

    def restore() -> None:
        nonlocal is_ended
        for number, handler in before.items():
            signal.signal(number, handler)
        is_ended = True
        os.close(writer)

    return restore
