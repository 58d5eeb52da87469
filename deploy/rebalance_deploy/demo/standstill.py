"""Whether the machine stands still, as a shared one may: a thread that has nothing else to do then wakes late."""

from __future__ import annotations

import threading
import time
from typing import Self

_LOOK_SECONDS = 0.25
#: Half of the shortest session of the demo's consumers: from then on some may be out of their groups.
NOTICED_SECONDS = 3.0


class Standstill:
    """When the machine last stood still for `NOTICED_SECONDS`, looked at by a thread while the context is open."""

    def __init__(self) -> None:
        self._looked_at: float | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="standstill", daemon=True)
        #: When it last went on, by `time.monotonic()`; null where it never stood still.
        self.ended_at: float | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def look(self, now: float) -> None:
        """Note that the thread runs at `now`, in seconds, which it means to do four times a second."""
        if self._looked_at is not None and now - self._looked_at >= NOTICED_SECONDS:
            self.ended_at = now
        self._looked_at = now

    def _run(self) -> None:
        while not self._closed.wait(_LOOK_SECONDS):
            self.look(time.monotonic())
