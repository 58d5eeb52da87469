"""InfluxDB line protocol, which Telegraf's Kafka output writes unless configured for JSON.

A line is `measurement,tag=value field=value,field=value time`. In names and tag values a backslash escapes
separators; fields are numbers (`0.3`, `2i`, `2u`), strings in quotes, and booleans, which no metric has.
"""

from __future__ import annotations

import re
from typing import Any

from rebalance_streaming.wire.metrics import telegraf
from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError
from rebalance_streaming.wire.metrics.report import Report
from rebalance_streaming.wire.metrics.values import as_number

FORMAT = "influx"

# Tags exclude the comma that separates them: otherwise there would be many ways to split them, and all would be tried.
_START = re.compile(rb"[^\s,={}\[\]]+(?:,(?:\\.|[^\s,=\\])+=(?:\\.|[^\s,=\\])+)* [^\s=]+=[^\s=]+")
_LOOKED_AT_BYTES = 4_096
#: Digits of nanoseconds since 1970.
_LONGEST_TIME = 19
# Possessive: no backtracking, so that the cost is linear for any line.
_HEAD = re.compile(r"(?:[^\\ ]|\\.)++")
_FIELD = re.compile(r'((?:[^\\=, ]|\\.)++)=("(?:[^"\\]|\\.)*+"|[^", ]++)(,|\s|\Z)')
_UNESCAPED = re.compile(r"\\([,= \\])")


def recognises(value: bytes) -> bool:
    """Return whether a record begins like a line."""
    return _START.match(value[:_LOOKED_AT_BYTES].lstrip()) is not None


def decode(value: bytes, observed_ms: int) -> tuple[Report, ...]:
    """Read all lines like metrics in Telegraf's JSON. Raises UndecodableError (malformed)."""
    try:
        lines = [line.strip("\r ") for line in value.decode("utf-8").split("\n")]
    except UnicodeDecodeError:
        raise UndecodableError(Reason.MALFORMED, "The value is line protocol and not UTF-8.") from None
    return telegraf.decode([_metric(line) for line in lines if line], observed_ms, FORMAT)


def _metric(line: str) -> dict[str, Any]:
    head = _HEAD.match(line)
    if head is None:
        raise _malformed(line)
    name, *tags = re.split(r"(?<!\\),", head[0])
    fields, rest = _fields(line, head.end() + 1)
    return {
        "name": _plain(name),
        "tags": {_plain(key): _plain(text) for key, text in (re.split(r"(?<!\\)=", f"{tag}=")[:2] for tag in tags)},
        "fields": fields,
        "timestamp": int(rest) if rest.isdecimal() and len(rest) <= _LONGEST_TIME else None,
    }


def _fields(line: str, place: int) -> tuple[dict[str, float], str]:
    """Return the numeric fields from a position of a line on, and the text after all fields."""
    fields: dict[str, float] = {}
    while True:
        found = _FIELD.match(line, place)
        if found is None:
            raise _malformed(line)
        number = _number(found[2])
        if number is not None:
            fields[_plain(found[1])] = number
        place = found.end()
        if found[3] != ",":
            return fields, line[place:].strip()


def _number(text: str) -> float | None:
    return as_number(text.removesuffix("i").removesuffix("u"))


def _plain(text: str) -> str:
    return _UNESCAPED.sub(r"\1", text)


def _malformed(line: str) -> UndecodableError:
    return UndecodableError(
        Reason.MALFORMED, f"The value starts like line protocol, and this is no line: {line[:80]!r}."
    )
