"""Golden values of client metric topics, and hand-written protobuf."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from goldens import FOLDER
from rebalance_streaming.wire.metrics.formats import decode_metrics
from rebalance_streaming.wire.metrics.report import Point, Report

OBSERVED_MS = 1_795_190_407_000


def files() -> list[Path]:
    """Return all golden values."""
    return sorted(path for path in (FOLDER / "client-metrics").iterdir() if path.suffix != ".md")


def golden(name: str) -> bytes:
    """Return a golden value."""
    return (FOLDER / "client-metrics" / name).read_bytes()


def decode_one(value: bytes, **more: Any) -> Report:
    """Decode a value that contains one report."""
    (report,) = decode_metrics(value, OBSERVED_MS, **more)
    return report


def points_of(report: Report) -> dict[tuple[str, ...], Point]:
    """Return a report's points by metric and labels, which must be unique."""
    points = {(point.metric, *point.labels.values()): point for point in report.points}
    assert len(points) == len(report.points)
    return points


def value_of(report: Report, metric: str, *labels: str) -> float | None:
    """Return the value of one point of a report."""
    return points_of(report)[metric, *labels].value


def uvarint(number: int) -> bytes:
    """Write a base-128 number."""
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def field(number: int, content: bytes | str | int | float, *, fixed: bool = False) -> bytes:
    """Write a field: text and messages with their length, floats as doubles, ints as varints or as eight bytes."""
    if isinstance(content, str):
        content = content.encode()
    if isinstance(content, bytes):
        return uvarint(number << 3 | 2) + uvarint(len(content)) + content
    if isinstance(content, float):
        return uvarint(number << 3 | 1) + struct.pack("<d", content)
    if fixed:
        return uvarint(number << 3 | 1) + struct.pack("<q", content)
    return uvarint(number << 3) + uvarint(content % 2**64)


def export_bytes(document: Mapping[str, Any]) -> bytes:
    """Convert OTLP's JSON form, as far as the decoder reads it, to protobuf."""
    return b"".join(field(1, _of_resource(each)) for each in document["resourceMetrics"])


def _of_resource(of_resource: Mapping[str, Any]) -> bytes:
    resource = _attributes(1, of_resource.get("resource", {}))
    return field(1, resource) + b"".join(field(2, _of_scope(each)) for each in of_resource["scopeMetrics"])


def _of_scope(of_scope: Mapping[str, Any]) -> bytes:
    scope = of_scope.get("scope", {})
    named = field(1, scope.get("name", "")) + field(2, scope.get("version", ""))
    return field(1, named) + b"".join(field(2, _metric(each)) for each in of_scope["metrics"])


def _metric(metric: Mapping[str, Any]) -> bytes:
    written = field(1, metric["name"]) + field(3, "1")
    for kind, number in (("gauge", 5), ("sum", 7)):
        if kind in metric:
            points = _points(metric[kind]["dataPoints"])
            temporality = metric[kind].get("aggregationTemporality", 0)
            written += field(number, points + field(2, temporality) + field(3, 1) if kind == "sum" else points)
    return written


def _points(points: Iterable[Mapping[str, Any]]) -> bytes:
    # A point may occur in a document thousands of times.
    written: dict[int, bytes] = {}
    return b"".join(written.get(id(each)) or written.setdefault(id(each), field(1, _point(each))) for each in points)


def _point(point: Mapping[str, Any]) -> bytes:
    written = field(3, int(point["timeUnixNano"]), fixed=True) + _attributes(7, point)
    if "asDouble" in point:
        written += field(4, float(point["asDouble"]))
    if "asInt" in point:
        written += field(6, int(point["asInt"]), fixed=True)
    return written


def _attributes(number: int, holder: Mapping[str, Any]) -> bytes:
    return b"".join(
        field(number, field(1, each["key"]) + field(2, _any_value(each["value"])))
        for each in holder.get("attributes", ())
    )


def _any_value(value: Mapping[str, Any]) -> bytes:
    ((kind, content),) = value.items()
    return field({"stringValue": 1, "boolValue": 2, "intValue": 3, "doubleValue": 4}[kind], content)
