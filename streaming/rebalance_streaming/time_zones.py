"""Converts local times of other machines to UTC, with zone names of the IANA data base."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_EPOCH = datetime(1970, 1, 1)


def is_time_zone(name: str) -> bool:
    """Whether a name is a known time zone."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def local_to_utc(name: str) -> Callable[[int], int]:
    """Return a function that converts local times of a zone, in ms as if they were UTC, to epoch milliseconds.

    The repeated hour in autumn is taken as its first occurrence. Raises ZoneInfoNotFoundError or ValueError for an
    unknown name.
    """
    zone = ZoneInfo(name)
    if name == "UTC":
        return _unchanged

    def convert(local_ms: int) -> int:
        local = _EPOCH + timedelta(milliseconds=local_ms)
        offset = local.replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None) - local
        return local_ms + offset // timedelta(milliseconds=1)

    return convert


def _unchanged(local_ms: int) -> int:
    return local_ms
