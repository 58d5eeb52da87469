"""Writes and parses times for people."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_UNITS_MS: Mapping[str, int] = {"s": _SECOND, "m": _MINUTE, "h": _HOUR, "d": _DAY, "w": 7 * _DAY}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_EPOCH_MS = re.compile(r"\d{12,14}")


@dataclass(frozen=True, slots=True)
class Clock:
    """Writes and parses times in one zone; null is the machine's own."""

    zone: dt.tzinfo | None = dt.UTC

    def at(self, at_ms: int) -> dt.datetime:
        """Return an epoch time in milliseconds as a datetime in the zone."""
        return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).astimezone(self.zone)

    def time(self, at_ms: int) -> str:
        """Return the time of day, for use beside a date or for current events."""
        return f"{self.at(at_ms):%H:%M:%S}"

    def moment(self, at_ms: int) -> str:
        """Return date, time and zone."""
        return f"{self.at(at_ms):%Y-%m-%d %H:%M:%S %Z}"

    def read(self, text: str, now_ms: int) -> int:
        """Return the epoch time in ms for a date and time, a time of day in the last 24 h, or a duration ago.

        Raises ValueError for anything else.
        """
        ago_ms = span_ms(text)
        if ago_ms is not None:
            return now_ms - ago_ms
        if _EPOCH_MS.fullmatch(text):
            return int(text)
        try:
            return self._read_time(dt.time.fromisoformat(text), now_ms) if ":" in text[:3] else self._read_date(text)
        except (ValueError, OverflowError) as error:
            raise ValueError(
                f"cannot read the time {text!r}: use a duration (90m, 24h, 7d) or a time (2026-03-01T14:05, 14:05)"
            ) from error

    def read_ahead(self, text: str, now_ms: int) -> int:
        """Return the epoch time in ms for a date and time, a time of day in the next 24 h, or a duration from now.

        Raises ValueError for anything else.
        """
        in_ms = span_ms(text)
        if in_ms is not None:
            return now_ms + in_ms
        found_ms = self.read(text, now_ms)
        is_of_day = ":" in text[:3]
        return found_ms + _DAY if is_of_day and found_ms < now_ms else found_ms

    def _read_date(self, text: str) -> int:
        found = dt.datetime.fromisoformat(text)
        if found.tzinfo is None:
            found = found.astimezone() if self.zone is None else found.replace(tzinfo=self.zone)
        return int(found.timestamp() * 1000)

    def _read_time(self, of_day: dt.time, now_ms: int) -> int:
        now = self.at(now_ms)
        found = dt.datetime.combine(now.date(), of_day, tzinfo=of_day.tzinfo or now.tzinfo)
        return int((found if found <= now else found - dt.timedelta(days=1)).timestamp() * 1000)


def span_ms(text: str) -> int | None:
    """Return the milliseconds of `90s`, `15m`, `24h`, `7d`, `2w`; null for any other form."""
    found = _SPAN.fullmatch(text.strip())
    return None if found is None else int(float(found[1]) * _UNITS_MS[found[2]])
