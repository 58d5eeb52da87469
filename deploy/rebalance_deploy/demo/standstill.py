"""Detects standstills of the machine, as on a shared one: an otherwise idle thread then wakes up late."""

from __future__ import annotations

import threading
import time
from typing import Self

_LOOK_SECONDS = 0.25
#: Half of the shortest session time-out of the demo's consumers: after this time some may be out of their groups.
NOTICED_SECONDS = 3.0


class Standstill:
    """Detects with a thread, while the context is open, when the machine last stood still for `NOTICED_SECONDS`."""

    def __init__(self) -> None:
        self._looked_at: float | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="standstill", daemon=True)
        #: End of the last standstill, by `time.monotonic()`; None if there was none.
        self.ended_at: float | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def look(self, now: float) -> None:
        """Note that the thread ran at `now`, in seconds; normally it does so four times a second."""
        if self._looked_at is not None and now - self._looked_at >= NOTICED_SECONDS:
            self.ended_at = now
        self._looked_at = now

    def _run(self) -> None:
        while not self._closed.wait(_LOOK_SECONDS):
            self.look(time.monotonic())
