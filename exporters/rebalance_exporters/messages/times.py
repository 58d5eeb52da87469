"""Reads the time of a line of a log, in the formats that loggers use.

Times are kept as written, because most logs do not state the zone. Seconds since 1970 become a date in UTC.
"""

from __future__ import annotations

import datetime as dt
import re

#: Number of characters searched for a time, and for the date at the beginning of a record.
_HEAD, _BEGINNING = 2_000, 100

_DATE = re.compile(r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?")
_SYSLOG = re.compile(r"\b[A-Z][a-z][a-z] [ \d]\d \d\d:\d\d:\d\d")
_TIME = re.compile(r"\b\d\d:\d\d:\d\d(?:[.,]\d{1,9})?")
# librdkafka writes %LEVEL|SECONDS.MILLISECONDS|FACILITY|; a JSON log often has milliseconds since 1970.
_RDKAFKA = re.compile(r"%\d\|(\d{10})\.(\d{3})\|")
_EPOCH_MS = re.compile(r'"(?:ts|time|timestamp|@timestamp)": ?"?(\d{13})\b')
# Seconds since 1970, with or without a fraction: zap (JSON and logfmt), and the instant of Log4j 2.
_EPOCH = re.compile(r'(?:"(?:ts|time|timestamp|@timestamp)": ?"?|\bts=)(\d{10})(?:\.(\d{1,9})\d*)?\b')
_INSTANT = re.compile(r'"epochSecond" ?: ?(\d{10})\b(?:, ?"nanoOfSecond" ?: ?(\d{1,9})\b)?')


def read_time(line: str) -> str | None:
    """Return the time of a line as written, null if it has none."""
    head = line[:_HEAD]
    if found := _DATE.search(head):
        return found[0]
    at_ms = _read_epoch(head)
    if at_ms is not None:
        return _moment(at_ms)
    found = _SYSLOG.search(head) or _TIME.search(head)
    return None if found is None else found[0]


def is_dated(line: str) -> bool:
    """Return whether a line begins with a date, as the first line of a record does; a time of day is not enough."""
    head = line[:_BEGINNING]
    return _DATE.search(head) is not None or _SYSLOG.search(head) is not None or _read_epoch(head) is not None


def _read_epoch(head: str) -> int | None:
    if found := _RDKAFKA.search(head):
        return int(found[1]) * 1000 + int(found[2])
    if found := _EPOCH_MS.search(head):
        return int(found[1])
    if found := _EPOCH.search(head):
        return int(found[1]) * 1000 + int((found[2] or "").ljust(3, "0")[:3])
    if found := _INSTANT.search(head):
        return int(found[1]) * 1000 + int(found[2] or 0) // 1_000_000
    return None


def _moment(at_ms: int) -> str:
    return f"{dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
