"""The lines in a record: plain text, a JSON layout, or either of them in the envelope of a shipper.

Known are Fluent Bit (`log`), Docker (`log`, `time`), Vector, Filebeat, Logstash and log4j's JSON layouts (`message`),
journald (`MESSAGE`), promtail (`line`), GELF (`short_message`), CloudWatch (`logEvents`) and OpenTelemetry's JSON
(`resourceLogs`). A shipper's content may be JSON itself; nesting is followed up to MAX_DEPTH.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from rebalance_contract.bounds import MAX_FOREIGN_BYTES
from rebalance_streaming.wire.broker_logs.outcomes import LineOutcome, UnreadableError
from rebalance_streaming.wire.broker_logs.times import read_time
from rebalance_streaming.wire.metrics.values import as_epoch_ms, guess_epoch_ms

#: Further lines, or elements, of a record are not decoded; that there are any is counted.
MAX_LINES = 10_000
MAX_DEPTH = 3

_TEXTS = ("message", "log", "MESSAGE", "msg", "line", "short_message", "@message", "body")
#: Only log4j's own layouts name the logger: if it is named, the time is the event's, not the shipper's.
_LOGGERS = ("loggerName", "logger_name", "logger", "log.logger", "_logger")
_TIMES = ("@timestamp", "timestamp", "time", "timeMillis", "date", "ts", "__REALTIME_TIMESTAMP")
_OTLP_START = b"\x0a"
_SPACE = b" \t\r\n"

_decoder = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class LogText:
    """A line, with the time in ms that accompanies it; `is_own`: the event's own time, written by a layout."""

    text: str
    at_ms: int | None = None
    is_own: bool = False


#: A line, or the error of one element of several, which stands in its place.
Found = LogText | UnreadableError


def open_record(value: bytes | None) -> Iterator[Found]:
    """Yield the lines of a record, and an error for each element without one.

    Raises UnreadableError if the record itself has no lines, or more than are decoded.
    """
    if value is None or not value.strip(_SPACE):
        raise UnreadableError(LineOutcome.EMPTY, "The record has no value.")
    if len(value) > MAX_FOREIGN_BYTES:
        text = f"The record has {len(value):,} bytes, more than {MAX_FOREIGN_BYTES:,}; ship a line each."
        raise UnreadableError(LineOutcome.TOO_LARGE, text)
    if value.lstrip(_SPACE)[:1] in (b"{", b"["):
        document = _read_json(value)
        if isinstance(document, dict | list):
            yield from _open(document, None, 0)
            return
    elif value[:1] == _OTLP_START and b"\x00" in value[:4_096]:
        raise UnreadableError(
            LineOutcome.OTLP_PROTOBUF, "The record is OTLP in protobuf; set `encoding: otlp_json` in the exporter."
        )
    # A line of log4j may begin with a bracket, like JSON.
    yield from _lines(value.decode(errors="replace"), None, 0)


def _read_json(value: bytes | str) -> Any:
    """Return the document; null if it is not JSON. Raises UnreadableError for text that can only be meant as JSON."""
    try:
        return _decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        start = value.lstrip()[:1]
        if start in (b"{", "{"):
            raise UnreadableError(
                LineOutcome.MALFORMED, f"The record starts like JSON and is none: {error}; ship one event per record."
            ) from None
        return None


def _open(document: Any, outer_ms: int | None, depth: int) -> Iterator[Found]:
    if isinstance(document, list):
        # Batches of Fluent Bit and Vector are lists of records.
        for each in _elements(document):
            yield from _of_element(_open(each, outer_ms, depth))
        return
    if isinstance(document.get("resourceLogs"), list):
        yield from _open_otlp(document)
        return
    if isinstance(document.get("logEvents"), list):
        for each in _elements(document["logEvents"]):
            if isinstance(each.get("message"), str):
                yield from _of_element(_lines(each["message"], as_epoch_ms(each.get("timestamp")), depth))
        return
    text = _text_of(document)
    if text is None:
        raise UnreadableError(
            LineOutcome.NO_TEXT,
            f"The record is JSON without a line in {', '.join(_TEXTS)}; it has {', '.join(map(str, document))[:200]}.",
        )
    at_ms, is_own = _time_of(document)
    if is_own and at_ms is not None:
        yield LogText(text, at_ms, is_own=True)
    else:
        yield from _lines(text, outer_ms if at_ms is None else at_ms, depth)


def _elements(several: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the objects of a list. Raises UnreadableError after as many as are decoded."""
    for number, each in enumerate(several):
        if number >= MAX_LINES:
            raise _too_many()
        if isinstance(each, dict):
            yield each


def _of_element(found: Iterator[Found]) -> Iterator[Found]:
    """Yield what an element of several has, and its error as one of it: the elements after it can be read."""
    try:
        yield from found
    except UnreadableError as error:
        if error.outcome == LineOutcome.TOO_MANY_LINES:
            raise
        yield error


def _too_many() -> UnreadableError:
    return UnreadableError(LineOutcome.TOO_MANY_LINES, f"The record has more than {MAX_LINES:,} lines.")


def _lines(text: str, at_ms: int | None, depth: int) -> Iterator[Found]:
    """Yield the lines of a text; a text that is JSON itself is opened."""
    if text.lstrip()[:1] == "{" and depth < MAX_DEPTH:
        document = _read_json(text)
        if isinstance(document, dict):
            yield from _open(document, at_ms, depth + 1)
            return
    for number, line in enumerate(text.split("\n")):
        if number >= MAX_LINES:
            raise _too_many()
        if line and not line.isspace():
            yield LogText(line.rstrip("\r"), at_ms)


def _text_of(document: Mapping[str, Any]) -> str | None:
    """Return the line in a document; the fields of ECS and of Splunk's collector have it one level deeper."""
    for name in _TEXTS:
        value = document.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, dict):
            inner = value.get("stringValue") or value.get("original")
            if isinstance(inner, str):
                return inner
    event = document.get("event")
    if isinstance(event, dict) and isinstance(event.get("original"), str):
        return str(event["original"])
    return event if isinstance(event, str) else None


def _time_of(document: Mapping[str, Any]) -> tuple[int | None, bool]:
    """Return the time of a document in ms, and whether it is the event's own."""
    instant = document.get("instant")
    if isinstance(instant, dict):
        # log4j 2's JsonLayout, and JsonTemplateLayout with its default template.
        seconds, nanos = as_epoch_ms(instant.get("epochSecond")), instant.get("nanoOfSecond")
        if seconds is not None:
            return seconds * 1_000 + (nanos // 1_000_000 if isinstance(nanos, int) else 0), True
    log = document.get("log")
    named = any(name in document for name in _LOGGERS) or (isinstance(log, dict) and "logger" in log)
    for name in _TIMES:
        at_ms = _instant(document.get(name))
        if at_ms is not None:
            return at_ms, named or name == "timeMillis"
    return None, False


def _instant(raw: object) -> int | None:
    """Return a time in ms, from a number of any unit or text with a zone; null for anything else."""
    if isinstance(raw, str) and len(raw) > 4 and raw[4:5] == "-":
        written = read_time(raw)
        return written.ms if written is not None and written.has_zone else None
    return guess_epoch_ms(raw) if isinstance(raw, int | float | str) else None


def _open_otlp(document: Mapping[str, Any]) -> Iterator[Found]:
    """Yield the bodies of OpenTelemetry's log records; a time is the event's own where the collector parsed it."""
    left = MAX_LINES
    for record in _otlp_records(document):
        left -= 1
        if left < 0:
            raise _too_many()
        body = record.get("body")
        text = body.get("stringValue") if isinstance(body, dict) else body
        if not isinstance(text, str) or not text:
            continue
        own_ms = as_epoch_ms(record.get("timeUnixNano"), 1_000_000)
        if own_ms is not None:
            yield LogText(text, own_ms, is_own=True)
        else:
            yield from _lines(text, as_epoch_ms(record.get("observedTimeUnixNano"), 1_000_000), MAX_DEPTH)


def _otlp_records(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for resource in _dicts(document.get("resourceLogs")):
        for scope in (*_dicts(resource.get("scopeLogs")), *_dicts(resource.get("instrumentationLibraryLogs"))):
            yield from _dicts(scope.get("logRecords"))


def _dicts(value: object) -> Iterator[Mapping[str, Any]]:
    return (each for each in value if isinstance(each, dict)) if isinstance(value, list) else iter(())
