"""Times in the formats of log layouts, read by position.

log4j's ISO8601 (`2026-11-23 05:12:08,123`, the default of Kafka's log4j.properties and log4j2.yaml), the same with a
dot, without milliseconds (Strimzi), and RFC 3339 with a zone (JSON layouts, CRI, Vector, Filebeat).
"""

from __future__ import annotations

from dataclasses import dataclass

_MS_PER_DAY = 86_400_000
_TO_SECONDS = 19
_MOST_DIGITS = 9
_DAYS_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


@dataclass(frozen=True, slots=True)
class WrittenTime:
    """A parsed time: `ms` since 1970, in UTC if `has_zone`, else as if in UTC; `length` in characters.

    `has_ms`: it is precise to the millisecond at least.
    """

    ms: int
    has_zone: bool
    has_ms: bool
    length: int


def read_time(text: str, start: int = 0) -> WrittenTime | None:
    """Return the time at a position of a text; null if there is none."""
    head = text[start : start + _TO_SECONDS]
    if len(head) < _TO_SECONDS or head[4] != "-" or head[7] != "-" or head[10] not in " T" or head[13] != ":":
        return None
    numbers = [_digits(head[at:to]) for at, to in ((0, 4), (5, 7), (8, 10), (11, 13), (14, 16), (17, 19))]
    if head[16] != ":" or any(each is None for each in numbers):
        return None
    year, month, day, hour, minute, second = (each or 0 for each in numbers)
    if not (year >= 1970 and 1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second <= 60):
        return None
    ms = _days(year, month, day) * _MS_PER_DAY + ((hour * 60 + minute) * 60 + second) * 1_000
    end, has_ms = start + _TO_SECONDS, False
    if text[end : end + 1] in (",", ".") and _digits(text[end + 1 : end + 4]) is not None:
        ms, has_ms = ms + int(text[end + 1 : end + 4]), True
        end += 4
        last = end + _MOST_DIGITS
        while end < last and text[end : end + 1].isdecimal():
            end += 1
    else:
        more_ms, length = _short_fraction(text, end)
        ms, end = ms + more_ms, end + length
    offset_ms, zone_length = _zone(text, end)
    end += zone_length
    return WrittenTime(ms - offset_ms, zone_length > 0, has_ms, end - start)


def _short_fraction(text: str, at: int) -> tuple[int, int]:
    """Return a fraction of one or two digits in ms, and its length; only before a zone, as Go leaves out last zeros.

    Elsewhere it may be a number of milliseconds without leading zeros.
    """
    digits = next((n for n in (1, 2) if _zone(text, at + 1 + n)[1] > 0), 0)
    fraction = text[at + 1 : at + 1 + digits]
    if text[at : at + 1] != "." or not (fraction.isascii() and fraction.isdecimal()):
        return 0, 0
    return int(fraction.ljust(3, "0")), 1 + digits


def _zone(text: str, at: int) -> tuple[int, int]:
    """Return a zone's offset from UTC in ms, and its length in characters; length 0: no zone."""
    sign = text[at : at + 1]
    if sign == "Z":
        return 0, 1
    if sign not in ("+", "-") or not sign:
        return 0, 0
    colon = text[at + 3 : at + 4] == ":"
    hours, minutes = _digits(text[at + 1 : at + 3]), _digits(text[at + 3 + colon : at + 5 + colon])
    if hours is None or minutes is None:
        return 0, 0
    ms = (hours * 60 + minutes) * 60_000
    return (ms if sign == "+" else -ms), 5 + colon


def _digits(text: str) -> int | None:
    return int(text) if len(text) in (2, 3, 4) and text.isascii() and text.isdecimal() else None


def _days(year: int, month: int, day: int) -> int:
    """Return the number of days from 1970-01-01 to a date of the Gregorian calendar."""
    before = year - 1
    leap_days = before // 4 - before // 100 + before // 400 - 477
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return (year - 1970) * 365 + leap_days + _DAYS_BEFORE[month - 1] + (is_leap and month > 2) + day - 1
