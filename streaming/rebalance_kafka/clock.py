"""The time as records have it."""

from __future__ import annotations

import time


def epoch_ms() -> int:
    """Return the time now as epoch milliseconds."""
    return time.time_ns() // 1_000_000
