"""Values made to cost time: producers with access to a topic of client metrics must not be able to stop the stream.

Bounds are of processor time and ten times the measured values, so that they do not fail on a busy machine; they detect
growth faster than the length, which exceeds any such bound.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from faults.reporting import IS_FULL
from fuzz.timing import least_time
from rebalance_streaming.wire.metrics.errors import UndecodableError
from rebalance_streaming.wire.metrics.formats import decode_metrics
from wire.metrics.payloads import OBSERVED_MS, field

SECONDS_PER_100_KB = 0.5


def filled(piece: bytes, size: int = 100_000) -> bytes:
    """Repeat a piece up to a size."""
    return piece * (size // len(piece))


def native(metrics: dict[str, Any]) -> bytes:
    return json.dumps(
        {
            "schema": "rebalance-monitor/client-metrics/1",
            "emitted_ms": OBSERVED_MS,
            "client": {"client_id": "c"},
            "metrics": metrics,
        }
    ).encode()


def telegraf(fields: int, **tags: str) -> bytes:
    return json.dumps({"name": "m", "tags": tags, "fields": {f"{n:x}": 1 for n in range(fields)}}).encode()


def export(*scopes: Any, attributes: int = 0) -> bytes:
    said = [{"key": f"k{n}", "value": {"stringValue": "v"}} for n in range(attributes)]
    return json.dumps({"resourceMetrics": [{"resource": {"attributes": said}, "scopeMetrics": list(scopes)}]}).encode()


ONE_POINT = field(2, field(1, "a") + field(5, field(1, field(7, field(1, "a")) + field(4, 1.0))))
POINT = {"asDouble": 1, "attributes": [{"key": "a"}]}

VALUES = {
    "line protocol, nearly": b"x" + b",k=v," * 800,
    "line protocol, escapes": b"a b=1,c=" + filled(b"\\,"),
    "line protocol, a string without end": b'a b=1,c="' + filled(b"x"),
    "line protocol, many fields": b"m " + filled(b"a=1,") + b"a=1",
    "line protocol, many lines": filled(b"kafka_consumer heartbeat-rate=1\n"),
    "line protocol without an end": b"a" + b",a=b" * 25_000,
    "only separators": filled(b","),
    "spaces": filled(b" ") + b"x",
    "largest floats": b"[" + filled(b"1e308,", 1_000_000) + b"1]",
    "long floats": b"[" + filled(b"1.7976931348623157081e308,") + b"1]",
    "one long float": b"[0." + b"1" * 100_000 + b"]",
    "one long integer": b"[" + b"9" * 100_000 + b"]",
    "long integers beside NaN": b"[NaN," + filled(b"9" * 4_000 + b",") + b"1]",
    "nested": b"[" * 100_000,
    "nested and closed": b"[" * 50_000 + b"]" * 50_000,
    "nested beside NaN": b"[NaN," + b"[" * 900 + b"]" * 900 + b"]",
    "nested often": b"[" + filled(b"[" * 31 + b"]" * 31 + b",") + b"1]",
    "brackets in a text": b'["' + filled(b"[{") + b'",[]]',
    "one key often": b"{" + filled(b'"a":1,') + b'"a":1}',
    "half characters": b"[" + filled(b'"\\ud800",') + b"1]",
    "metrics of Telegraf": telegraf(10_000),
    "tags of Telegraf": telegraf(1, **{f"{n:x}": "v" for n in range(8_000)}),
    "metric names": native({"g": {f"{n:x}": 1 for n in range(10_000)}}),
    "groups of metrics": native({f"{n:x}": {"a": 1} for n in range(5_000)}),
    "object names": native({f"a{n}:" + "b=c," * 120 + "<": {"a": 1} for n in range(200)}),
    "properties without a value": native({f"g{n}," + "a" * 490: {"a": 1} for n in range(200)}),
    "node groups": native({f"{n}" + "node-metrics.node-" * 27: {"a": 1} for n in range(200)}),
    "scopes of a large resource": export(*[{"metrics": []}] * 3_000, attributes=700),
    "points of a large resource": export(
        {"metrics": [{"name": "a", "gauge": {"dataPoints": [POINT] * 1_000}}]}, attributes=700
    ),
    "protobuf: messages without bytes": field(1, field(2, filled(b"\x12\x00"))),
    "protobuf: points of a large resource": field(
        1, field(1, b"".join(field(1, field(1, f"{n:x}")) for n in range(5_000))) + field(2, ONE_POINT) * 1_500
    ),
    "protobuf: points without bytes": field(1, field(2, field(2, field(1, "kafka") + field(5, filled(b"\x0a\x00"))))),
    "protobuf: varints": b"\x0a" + b"\xff" * 100_000,
}


@pytest.mark.generated
@pytest.mark.parametrize("value", VALUES.values(), ids=list(VALUES))
def test_time_grows_with_the_length_only(value: bytes):
    """It is decoded or rejected with a reason, in time bounded by its length."""

    def decode() -> None:
        try:
            decode_metrics(value, OBSERVED_MS)
        except UndecodableError as error:
            assert error.reason  # noqa: PT017 - both outcomes are right

    assert least_time(decode) <= SECONDS_PER_100_KB * max(1, len(value) / 100_000)


@pytest.mark.faults(27, fast=1, full=1)
def test_what_is_nearly_line_protocol_costs_nothing():
    """A regular expression once had two ways to match each comma in tag values."""

    def decode() -> None:
        with pytest.raises(UndecodableError):
            decode_metrics(VALUES["line protocol, nearly"], OBSERVED_MS)

    assert least_time(decode) <= (0.01 if IS_FULL else 1.0)
