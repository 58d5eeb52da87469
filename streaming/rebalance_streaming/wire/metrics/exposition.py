"""Prometheus' text format: a page of metrics as a JMX exporter or Micrometer serves it, and as Telegraf writes it.

A line is `name{label="value"} value time`; the time, in ms, is optional, and OpenMetrics has it in seconds. In values
of labels a backslash escapes itself, quotes and line breaks. Most of a page is about other things than consumers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rebalance_streaming.wire.metrics import prometheus
from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError
from rebalance_streaming.wire.metrics.names import KNOWN, is_of_producer, recognise
from rebalance_streaming.wire.metrics.report import Report

FORMAT = "prometheus_text"

_LOOKED_AT_BYTES = 4_096
_NUMBER = rb"[+-]?(?:\d|\.\d|[Ii]nf|[Nn]a[Nn])\S*"
_START = re.compile(
    rb"# (?:HELP|TYPE|UNIT) [a-zA-Z_:]"
    rb'|[a-zA-Z_:][\w:]*+(?:\{[ \t]*[a-zA-Z_]\w*[ \t]*=[ \t]*"|[ \t]+'
    + _NUMBER
    + rb"(?:[ \t]+-?[\d.]+)?[ \t\r]*(?:\n|\Z))"
)
# Possessive: no backtracking, so that the cost is linear for any line.
_LABEL = re.compile(r'[ \t]*+([a-zA-Z_]\w*+)[ \t]*+=[ \t]*+"((?:[^"\\]|\\.)*+)"[ \t]*+(?:,|(?=\}))')
_NAME = re.compile(r"([a-zA-Z_:][\w:]*+)[ \t]*+", re.ASCII)
_VALUE = re.compile(r"[ \t]*+(\S++)(?:[ \t]++([^\s#]++))?[ \t]*+(?:#.*)?", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)")
_UNESCAPED = {"n": "\n", "\\": "\\", '"': '"'}


def recognises(value: bytes) -> bool:
    """Return whether a record begins like a page."""
    return _START.match(value[:_LOOKED_AT_BYTES].lstrip()) is not None


def decode(value: bytes, observed_ms: int) -> tuple[Report, ...]:
    """Read the samples that rules know of, like those of remote write. Raises UndecodableError."""
    try:
        lines = [line.strip() for line in value.decode("utf-8").split("\n")]
    except UnicodeDecodeError:
        raise UndecodableError(Reason.MALFORMED, "The value is Prometheus' text format and not UTF-8.") from None
    samples = [sample for line in lines if line and line[0] != "#" for sample in _samples(line)]
    return prometheus.decode(samples, observed_ms, FORMAT)


def _samples(line: str) -> Iterator[dict[str, Any]]:
    """Yield the sample of a line if it is of a consumer, or tells that the client is a producer."""
    name = _NAME.match(line)
    if name is None:
        raise _malformed(line)
    metric = recognise(name[1])
    if metric not in KNOWN and not is_of_producer(metric):
        return
    labels, place = _labels(line, name.end())
    rest = _VALUE.fullmatch(line, place)
    if rest is None:
        raise _malformed(line)
    yield {"name": name[1], "labels": labels, "value": rest[1], "timestamp": rest[2]}


def _labels(line: str, place: int) -> tuple[dict[str, str], int]:
    """Return the labels from a position of a line on, and the position after them."""
    labels: dict[str, str] = {}
    if line[place : place + 1] != "{":
        return labels, place
    place += 1
    while (found := _LABEL.match(line, place)) is not None:
        labels[found[1]] = _ESCAPED.sub(lambda escape: _UNESCAPED.get(escape[1], escape[0]), found[2])
        place = found.end()
    closed = line.find("}", place)
    if closed < 0 or line[place:closed].strip():
        raise _malformed(line)
    return labels, closed + 1


def _malformed(line: str) -> UndecodableError:
    return UndecodableError(
        Reason.MALFORMED, f"The value starts like Prometheus' text format, and this is no sample: {line[:80]!r}."
    )
