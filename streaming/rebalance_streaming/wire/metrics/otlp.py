"""OpenTelemetry metrics, as JSON and as protobuf: exports of a Collector, and metrics that KIP-714 clients push.

Protobuf is converted to the JSON form first, so both share the code. Gauges and sums have numbers; histograms and
summaries are ignored, because no client metric is one. Source: opentelemetry-proto metrics v1, KIP-714.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from rebalance_streaming.wire.errors import DecodeError
from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError
from rebalance_streaming.wire.metrics.gather import Gatherer
from rebalance_streaming.wire.metrics.identity import Identity, read_identity, read_labels, split_librdkafka_name
from rebalance_streaming.wire.metrics.librdkafka import LIBRARY
from rebalance_streaming.wire.metrics.names import recognise
from rebalance_streaming.wire.metrics.protobuf import Field, Message, Scalar, read_message
from rebalance_streaming.wire.metrics.report import Report, Temporality
from rebalance_streaming.wire.metrics.values import as_epoch_ms, as_int, as_text, make_point

JSON_FORMAT = "otlp_json"
PROTOBUF_FORMAT = "otlp_proto"

_VALUE: Message = {
    1: Field("stringValue", Scalar.TEXT),
    2: Field("boolValue", Scalar.BOOL),
    3: Field("intValue", Scalar.INT),
    4: Field("doubleValue", Scalar.DOUBLE),
}
_ATTRIBUTE: Message = {1: Field("key", Scalar.TEXT), 2: Field("value", _VALUE)}
_POINT: Message = {
    3: Field("timeUnixNano", Scalar.FIXED64),
    4: Field("asDouble", Scalar.DOUBLE),
    6: Field("asInt", Scalar.SFIXED64),
    7: Field("attributes", _ATTRIBUTE, repeated=True),
    8: Field("flags", Scalar.INT),
}
_GAUGE: Message = {1: Field("dataPoints", _POINT, repeated=True)}
_SUM: Message = {1: Field("dataPoints", _POINT, repeated=True), 2: Field("aggregationTemporality", Scalar.INT)}
_METRIC: Message = {1: Field("name", Scalar.TEXT), 5: Field("gauge", _GAUGE), 7: Field("sum", _SUM)}
_SCOPE: Message = {1: Field("name", Scalar.TEXT), 2: Field("version", Scalar.TEXT)}
_OF_SCOPE: Message = {1: Field("scope", _SCOPE), 2: Field("metrics", _METRIC, repeated=True)}
_RESOURCE: Message = {1: Field("attributes", _ATTRIBUTE, repeated=True)}
_OF_RESOURCE: Message = {1: Field("resource", _RESOURCE), 2: Field("scopeMetrics", _OF_SCOPE, repeated=True)}
_METRICS: Message = {1: Field("resourceMetrics", _OF_RESOURCE, repeated=True)}

_DELTA = frozenset(("1", "AGGREGATION_TEMPORALITY_DELTA"))
_ATTRIBUTE_VALUES = ("stringValue", "intValue", "doubleValue")
_NO_RECORDED_VALUE = 1
_NS_PER_MS = 1_000_000

_Object = Mapping[str, Any]


def recognises(document: object) -> bool:
    """Return whether a document is an export of metrics."""
    return isinstance(document, dict) and _get(document, "resourceMetrics") is not None


def decode(document: _Object, observed_ms: int) -> tuple[Report, ...]:
    """Read the JSON form, with keys in camel case or, as some writers use, in snake case."""
    return _read_export(document, JSON_FORMAT, observed_ms)


def decode_protobuf(raw: bytes, observed_ms: int) -> tuple[Report, ...]:
    """Read ExportMetricsServiceRequest or MetricsData, which have the same encoding."""
    try:
        document = read_message(raw, _METRICS)
    except UndecodableError:
        raise
    except DecodeError as error:
        raise UndecodableError(Reason.MALFORMED, f"The value is no OTLP protobuf of metrics: {error}.") from None
    return _read_export(document, PROTOBUF_FORMAT, observed_ms)


def _read_export(document: _Object, format_id: str, observed_ms: int) -> tuple[Report, ...]:
    gathered = Gatherer(format_id, observed_ms)
    for of_resource in _items(document, "resourceMetrics"):
        # Read once: a resource may have as many attributes as the message has scopes and points.
        resource = read_identity(_attributes(_part(of_resource, "resource")))
        for of_scope in _items(of_resource, "scopeMetrics"):
            _read_scope(gathered, resource, of_scope)
    return gathered.reports()


def _read_scope(gathered: Gatherer, resource: Identity, of_scope: _Object) -> None:
    scope = _part(of_scope, "scope")
    handle = split_librdkafka_name(as_text(scope.get("name")) or "")
    if handle is not None and handle[1] != "consumer":
        gathered.skip_producer()
        return
    scope_version = as_text(scope.get("version"))
    of_resource = _with_scope(resource, handle[0], scope_version) if handle else resource
    for metric, temporality, point in _data_points(of_scope):
        attributes = _attributes(point)
        identity = _over(read_identity(attributes), of_resource) if attributes else of_resource
        made = make_point(metric, _number(point), read_labels(attributes), temporality)
        gathered.add(identity, as_epoch_ms(_get(point, "timeUnixNano"), _NS_PER_MS), made)


def _over(said: Identity, of_resource: Identity) -> Identity:
    """Return a point's identity, completed by that of its resource."""
    return Identity(*(mine or theirs for mine, theirs in zip(said, of_resource, strict=True)))


def _with_scope(identity: Identity, client_id: str | None, version: str | None) -> Identity:
    """Add librdkafka's identity from its scope; KIP-714 omits the client id everywhere else."""
    return identity._replace(
        client_id=identity.client_id or client_id,
        library=identity.library or LIBRARY,
        library_version=identity.library_version or version,
    )


def _data_points(of_scope: _Object) -> Iterator[tuple[str, Temporality | None, _Object]]:
    for metric in _items(of_scope, "metrics"):
        name = recognise(as_text(metric.get("name")) or "")
        for point in _items(_part(metric, "gauge"), "dataPoints"):
            yield name, None, point
        total = _part(metric, "sum")
        if total:
            is_delta = as_text(_get(total, "aggregationTemporality")) in _DELTA
            temporality = Temporality.DELTA if is_delta else Temporality.CUMULATIVE
            for point in _items(total, "dataPoints"):
                yield name, temporality, point


def _number(point: _Object) -> object:
    if (as_int(point.get("flags")) or 0) & _NO_RECORDED_VALUE:
        return None
    double = _get(point, "asDouble")
    return _get(point, "asInt") if double is None else double


def _attributes(holder: _Object) -> dict[str, object]:
    found: dict[str, object] = {}
    for attribute in _items(holder, "attributes"):
        key, value = attribute.get("key"), _part(attribute, "value")
        if isinstance(key, str):
            found[key] = next((raw for kind in _ATTRIBUTE_VALUES if (raw := _get(value, kind)) is not None), None)
    return found


@lru_cache(64)
def _snake(name: str) -> str:
    return re.sub("([A-Z])", r"_\1", name).lower()


def _get(node: _Object, name: str) -> Any:
    found = node.get(name)
    return node.get(_snake(name)) if found is None else found


def _items(node: _Object, name: str) -> list[_Object]:
    found = _get(node, name)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise UndecodableError(Reason.MALFORMED, f"{name} of an OTLP export must be a list of objects.")
    return found


def _part(node: _Object, name: str) -> _Object:
    found = _get(node, name)
    if found is not None and not isinstance(found, dict):
        raise UndecodableError(Reason.MALFORMED, f"{name} of an OTLP export must be an object.")
    return found or {}
