"""The current time in the unit of Kafka's record timestamps."""

from __future__ import annotations

import time


def epoch_ms() -> int:
    """Return the current time in epoch milliseconds."""
    return time.time_ns() // 1_000_000
