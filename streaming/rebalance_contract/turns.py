"""When something that is done again and again for each group is done for one: not for all of them at once."""

from __future__ import annotations

import zlib


def next_turn(group: str, after_ms: int, period_ms: int) -> int:
    """Return the first turn of a group after a time: each has its own moment in a period, the same in each process."""
    own_ms = zlib.crc32(group.encode(errors="replace")) * period_ms >> 32
    return after_ms - (after_ms - own_ms) % period_ms + period_ms
