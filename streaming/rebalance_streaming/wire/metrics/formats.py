"""Decodes records of client metric topics to reports: detects the format of a record, unless it is configured.

Receives the bytes of a record and its headers; returns at least one report or raises UndecodableError, nothing else.
The groups of these clients are not known here: record keys, client ids that name a group and the brokers' reports of
members are evaluated by the next stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rebalance_streaming.wire.metrics import influx, librdkafka, native, otlp, prometheus, telegraf
from rebalance_streaming.wire.metrics.documents import read_json
from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError
from rebalance_streaming.wire.metrics.identity import complete, read_headers, read_identity
from rebalance_streaming.wire.metrics.plausible import plausible
from rebalance_streaming.wire.metrics.report import Report

MAX_BYTES = 5_000_000


@dataclass(frozen=True, slots=True)
class _JsonFormat:
    name: str
    recognises: Callable[[object], bool]
    decode: Callable[[Any, int], tuple[Report, ...]]


# In this order: the first is self-describing, the last would accept nearly any object with a name and a value.
_JSON_FORMATS = (
    _JsonFormat(native.FORMAT, native.recognises, native.decode),
    _JsonFormat(otlp.JSON_FORMAT, otlp.recognises, otlp.decode),
    _JsonFormat(librdkafka.FORMAT, librdkafka.recognises, librdkafka.decode),
    _JsonFormat(telegraf.FORMAT, telegraf.recognises, telegraf.decode),
    _JsonFormat(prometheus.FORMAT, prometheus.recognises, prometheus.decode),
)

#: Values of `pinned`.
FORMATS = (*(each.name for each in _JSON_FORMATS), otlp.PROTOBUF_FORMAT, influx.FORMAT)

_SPACE = b" \t\r\n"
_UTF8_MARK = b"\xef\xbb\xbf"
_OTLP_START = b"\x0a"
# Their field numbers are not published; these strings are in the broker metrics of their reporters.
_CONFLUENT = (b"kafka.server:type=", b"kafka.controller:type=", b"io.confluent.", b"confluent.monitoring")

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def decode_metrics(
    value: bytes | None,
    observed_ms: int,
    headers: Mapping[str, bytes | None] = _NOTHING,
    pinned: str | None = None,
    *,
    defaults: Mapping[str, str] = _NOTHING,
) -> tuple[Report, ...]:
    """Decode a record. Raises UndecodableError with a reason; ValueError only for a `pinned` that is no format.

    `observed_ms` is the record's timestamp.
    Identity that is not in the value is taken from `headers` named like the fields, then from `defaults`; in both, `-`
    and `.` are accepted for `_`. Impossible values are null and counted.
    """
    if pinned is not None and pinned not in FORMATS:
        raise ValueError(f"{pinned!r} is no format of client metrics; there are {', '.join(FORMATS)}")
    reports = _decode_value(value, observed_ms, pinned)
    from_headers, from_defaults = read_headers(headers), read_identity(defaults)
    return tuple(plausible(complete(report, from_headers, from_defaults)) for report in reports)


def _decode_value(value: bytes | None, observed_ms: int, pinned: str | None) -> tuple[Report, ...]:
    if not value:
        raise UndecodableError(Reason.EMPTY, "The record has no value.")
    if len(value) > MAX_BYTES:
        raise UndecodableError(Reason.TOO_LARGE, f"The value has {len(value)} bytes, more than {MAX_BYTES}.")
    is_json = value.removeprefix(_UTF8_MARK).lstrip(_SPACE)[:1] in (b"{", b"[")
    if pinned == otlp.PROTOBUF_FORMAT or (pinned is None and not is_json and value[:1] == _OTLP_START):
        return otlp.decode_protobuf(value, observed_ms)
    if not is_json and pinned in (None, influx.FORMAT) and influx.recognises(value):
        return influx.decode(value, observed_ms)
    if not is_json:
        raise _explain_bytes(value)
    document = read_json(value)
    chosen = next((each for each in _JSON_FORMATS if _fits(each, document, pinned)), None)
    if chosen is None:
        raise _explain_document(document, pinned)
    return chosen.decode(document, observed_ms)


def _fits(json_format: _JsonFormat, document: object, pinned: str | None) -> bool:
    return pinned in (None, json_format.name) and json_format.recognises(document)


def _explain_bytes(value: bytes) -> UndecodableError:
    if any(sign in value for sign in _CONFLUENT):
        return UndecodableError(
            Reason.CONFLUENT, "The value looks like Confluent's own metrics of brokers, which have none of consumers."
        )
    return UndecodableError(Reason.UNKNOWN_FORMAT, "The value is neither JSON, OTLP protobuf nor line protocol.")


def _explain_document(document: object, pinned: str | None) -> UndecodableError:
    if isinstance(document, dict) and "@timestamp" in document and ("metricset" in document or "agent" in document):
        return UndecodableError(
            Reason.METRICBEAT, "The value is Metricbeat's, whose consumer metrics have nothing of the coordinator."
        )
    expected = f"not {pinned}, the format that is configured" if pinned else "in none of the formats known here"
    return UndecodableError(Reason.UNKNOWN_FORMAT, f"The value is JSON and {expected}.")
