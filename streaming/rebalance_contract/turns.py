"""Spreads periodic work over the groups, so that it is not done for all of them at once."""

from __future__ import annotations

import zlib


def next_turn(group: str, after_ms: int, period_ms: int) -> int:
    """Return a group's first turn after a time; a hash of its name gives its offset within the period."""
    own_ms = zlib.crc32(group.encode(errors="replace")) * period_ms >> 32
    return after_ms - (after_ms - own_ms) % period_ms + period_ms
