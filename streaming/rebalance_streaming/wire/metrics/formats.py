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

from rebalance_contract.bounds import MAX_FOREIGN_BYTES
from rebalance_streaming.wire.metrics import exposition, influx, librdkafka, native, otlp, prometheus, telegraf
from rebalance_streaming.wire.metrics.documents import read_json
from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError
from rebalance_streaming.wire.metrics.identity import complete, read_headers, read_identity
from rebalance_streaming.wire.metrics.plausible import plausible
from rebalance_streaming.wire.metrics.report import Report


@dataclass(frozen=True, slots=True)
class _Format:
    name: str
    recognises: Callable[[Any], bool]
    decode: Callable[[Any, int], tuple[Report, ...]]


# In this order: the first is self-describing, the last would accept nearly any object with a name and a value.
_JSON_FORMATS = (
    _Format(native.FORMAT, native.recognises, native.decode),
    _Format(otlp.JSON_FORMAT, otlp.recognises, otlp.decode),
    _Format(librdkafka.FORMAT, librdkafka.recognises, librdkafka.decode),
    _Format(telegraf.FORMAT, telegraf.recognises, telegraf.decode),
    _Format(prometheus.FORMAT, prometheus.recognises, prometheus.decode),
)
# Of values that are neither JSON nor protobuf.
_TEXT_FORMATS = (
    _Format(exposition.FORMAT, exposition.recognises, exposition.decode),
    _Format(influx.FORMAT, influx.recognises, influx.decode),
)

#: Values of `pinned`.
FORMATS = (*(each.name for each in _JSON_FORMATS), otlp.PROTOBUF_FORMAT, *(each.name for each in _TEXT_FORMATS))

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
    if len(value) > MAX_FOREIGN_BYTES:
        raise UndecodableError(Reason.TOO_LARGE, f"The value has {len(value)} bytes, more than {MAX_FOREIGN_BYTES}.")
    is_json = value.removeprefix(_UTF8_MARK).lstrip(_SPACE)[:1] in (b"{", b"[")
    if pinned == otlp.PROTOBUF_FORMAT or (pinned is None and not is_json and value[:1] == _OTLP_START):
        return otlp.decode_protobuf(value, observed_ms)
    read: Any = read_json(value) if is_json else value
    formats = _JSON_FORMATS if is_json else _TEXT_FORMATS
    chosen = next((each for each in formats if pinned in (None, each.name) and each.recognises(read)), None)
    if chosen is None:
        raise _explain_document(read, pinned) if is_json else _explain_bytes(value)
    return chosen.decode(read, observed_ms)


def _explain_bytes(value: bytes) -> UndecodableError:
    if any(sign in value for sign in _CONFLUENT):
        return UndecodableError(
            Reason.CONFLUENT, "The value looks like Confluent's own metrics of brokers, which have none of consumers."
        )
    return UndecodableError(
        Reason.UNKNOWN_FORMAT, "The value is neither JSON, OTLP protobuf, Prometheus' text nor line protocol."
    )


def _explain_document(document: object, pinned: str | None) -> UndecodableError:
    if isinstance(document, dict) and "@timestamp" in document and ("metricset" in document or "agent" in document):
        return UndecodableError(
            Reason.METRICBEAT, "The value is Metricbeat's, whose consumer metrics have nothing of the coordinator."
        )
    expected = f"not {pinned}, the format that is configured" if pinned else "in none of the formats known here"
    return UndecodableError(Reason.UNKNOWN_FORMAT, f"The value is JSON and {expected}.")
