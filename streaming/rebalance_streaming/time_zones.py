"""Local times of other machines into UTC, by the names of the IANA data base."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_EPOCH = datetime(1970, 1, 1)


def is_time_zone(name: str) -> bool:
    """Whether a name is that of a time zone."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def local_to_utc(name: str) -> Callable[[int], int]:
    """Return what turns local times of a zone, in ms as if in UTC, into ms since 1970.

    In the hour that comes twice in autumn the first one is taken. Raises ZoneInfoNotFoundError or ValueError for a name
    that is none.
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
