"""OpenTelemetry's metrics: JSON and protobuf are equivalent."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError
from rebalance_streaming.wire.metrics.formats import decode_metrics
from rebalance_streaming.wire.metrics.report import Point, Report, Temporality
from wire.metrics.payloads import OBSERVED_MS, decode_one, export_bytes, golden

NS = 1_795_190_406_000_000_000


def gauge(name: str, *points: dict[str, Any]) -> dict[str, Any]:
    """Return a gauge."""
    return {"name": name, "gauge": {"dataPoints": [{"timeUnixNano": str(NS)} | point for point in points]}}


def total(name: str, temporality: object, value: float) -> dict[str, Any]:
    """Return a sum with one point."""
    points = [{"timeUnixNano": str(NS), "asDouble": value}]
    return {"name": name, "sum": {"aggregationTemporality": temporality, "isMonotonic": True, "dataPoints": points}}


def export(*metrics: dict[str, Any], scope: str = "", **attributes: str) -> dict[str, Any]:
    """Return an export of one resource."""
    reported = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    return {
        "resourceMetrics": [
            {
                "resource": {"attributes": reported},
                "scopeMetrics": [{"scope": {"name": scope}, "metrics": list(metrics)}],
            }
        ]
    }


def decode(document: dict[str, Any]) -> tuple[Report, ...]:
    """Decode a JSON export."""
    return decode_metrics(json.dumps(document).encode(), OBSERVED_MS)


def as_json_report(report: Report) -> Report:
    """Return a report as if it had come as JSON."""
    return replace(report, format="otlp_json")


def test_the_example_is_read() -> None:
    """Java's pushes name group and member; a delta sum is marked as one."""
    assert decode_one(golden("otlp.json")) == Report(
        "otlp_json",
        OBSERVED_MS,
        1_795_190_406_000,
        client_id="consumer-orders-1",
        group_id="orders",
        member_id="consumer-orders-1-6f1d2c33-9a0b-4c1e-8f57-3f9e1d7ab003",
        points=(
            Point("coordinator_last_heartbeat_seconds_ago", 2.0),
            Point("last_poll_seconds_ago", 131.0),
            Point("coordinator_rebalance_total", 1.0, temporality=Temporality.DELTA),
        ),
    )


@pytest.mark.parametrize("name", ["otlp", "otlp-push"])
def test_protobufs_own_bytes_say_the_same_as_json(name: str) -> None:
    """Both forms of one message, written by protobuf's own classes, give equal reports."""
    from_bytes = decode_one(golden(f"{name}.pb"))
    assert from_bytes.format == "otlp_proto"
    assert as_json_report(from_bytes) == decode_one(golden(f"{name}.json"))


def test_a_librdkafka_push_names_its_client_in_the_scope() -> None:
    """Integers, NaN, a flag for no value and node attributes are read, a histogram is left out."""
    assert decode_one(golden("otlp-push.pb")) == Report(
        "otlp_proto",
        OBSERVED_MS,
        1_795_190_406_000,
        client_id="orders-1",
        group_id="g-orders",
        member_id="orders-1-0a2b9d0e-77aa-4d0e-8a55-2f4c9be4d002",
        library="librdkafka",
        library_version="2.16.0",
        points=(
            Point("coordinator_assigned_partitions", 4.0),
            Point("coordinator_rebalance_latency_total", 31.0, temporality=Temporality.DELTA),
            Point("node_request_latency_max", 12.5, {"node_id": "1"}),
            Point("node_request_latency_max", None, {"node_id": "2"}),
            Point("poll_idle_ratio_avg", None),
        ),
    )


values: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.floats(allow_nan=False).map(lambda value: {"asDouble": value}),
    st.integers(-(2**63), 2**63 - 1).map(lambda value: {"asInt": value}),
    st.just({}),
)
attributes = st.dictionaries(
    st.sampled_from(["client_id", "client-id", "group_id", "topic", "partition", "node.id", "other"]),
    st.text(max_size=5).map(lambda text: {"stringValue": text})
    | st.integers(0, 9).map(lambda number: {"intValue": number})
    | st.booleans().map(lambda flag: {"boolValue": flag}),
    max_size=3,
).map(lambda reported: [{"key": key, "value": value} for key, value in reported.items()])
data_points = st.builds(
    lambda value, reported, ns: value | {"timeUnixNano": ns, "attributes": reported},
    values,
    attributes,
    st.integers(0, NS),
)
metrics = st.builds(
    lambda name, points, temporality: {
        "name": name,
        "gauge" if temporality is None else "sum": {"dataPoints": points}
        | ({} if temporality is None else {"aggregationTemporality": temporality}),
    },
    st.sampled_from(["kafka.consumer.coordinator.heartbeat.rate", "kafka.consumer.last.poll.seconds.ago", "other", ""]),
    st.lists(data_points, max_size=3),
    st.sampled_from([None, 0, 1, 2]),
)
resources = st.builds(
    lambda reported, scope, found: {
        "resource": {"attributes": reported},
        "scopeMetrics": [{"scope": {"name": scope, "version": "1"}, "metrics": found}],
    },
    attributes,
    st.sampled_from(["", "app#consumer-1", "app#producer-1", "scope"]),
    st.lists(metrics, max_size=3),
)


@pytest.mark.generated
@given(st.lists(resources, min_size=1, max_size=3))
def test_protobuf_and_json_of_any_content_agree(reported: list[dict[str, Any]]) -> None:
    """Hand-written protobuf is read like its JSON, with the same reports or reason."""
    document = {"resourceMetrics": reported}
    outcomes: list[object] = []
    for value, pinned in ((json.dumps(document).encode(), "otlp_json"), (export_bytes(document), "otlp_proto")):
        try:
            found = decode_metrics(value, OBSERVED_MS, pinned=pinned)
            outcomes.append([as_json_report(report) for report in found])
        except UndecodableError as error:
            outcomes.append(error.reason)
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (1, Temporality.DELTA),
        ("1", Temporality.DELTA),
        ("AGGREGATION_TEMPORALITY_DELTA", Temporality.DELTA),
        (2, Temporality.CUMULATIVE),
        ("AGGREGATION_TEMPORALITY_CUMULATIVE", Temporality.CUMULATIVE),
        (None, Temporality.CUMULATIVE),
        ([1], Temporality.CUMULATIVE),
    ],
)
def test_temporality_is_a_number_or_a_name(said: object, meant: Temporality) -> None:
    """Readers add up delta sums, so nothing else may be taken for one."""
    (report,) = decode(export(total("kafka.consumer.coordinator.rebalance.total", said, 1.0)))
    assert report.points == (Point("coordinator_rebalance_total", 1.0, temporality=meant),)


@pytest.mark.parametrize(
    ("point", "value"),
    [
        ({"asInt": "4"}, 4.0),
        ({"asInt": 4}, 4.0),
        ({"asDouble": 0.5}, 0.5),
        ({"asDouble": "0.5"}, 0.5),
        ({"asDouble": "NaN"}, None),
        ({"asDouble": "-Infinity"}, None),
        ({"asDouble": 0.0}, 0.0),
        ({"asDouble": 3.0, "flags": 1}, None),
        ({}, None),
    ],
)
def test_values_are_numbers_or_strings(point: dict[str, Any], value: float | None) -> None:
    """64-bit integers and NaN are strings in protobuf's JSON; a flag may mark a missing value."""
    (report,) = decode(export(gauge("kafka.consumer.fetch.manager.fetch.rate", point)))
    assert [each.value for each in report.points] == [value]


def test_snake_case_is_read_too() -> None:
    """protobuf's Python classes can keep the field names of the definition."""
    camel = export(gauge("kafka.consumer.fetch.manager.fetch.rate", {"asDouble": 1.5}), client_id="c")
    text = json.dumps(camel)
    for name, other in (
        ("resourceMetrics", "resource_metrics"),
        ("scopeMetrics", "scope_metrics"),
        ("dataPoints", "data_points"),
        ("timeUnixNano", "time_unix_nano"),
        ("asDouble", "as_double"),
        ("stringValue", "string_value"),
    ):
        text = text.replace(name, other)
    assert decode_metrics(text.encode(), OBSERVED_MS) == decode(camel)


def test_what_one_client_said_at_once_is_one_report() -> None:
    """Java sends every metric in a resource of its own; other clients and other times stay separate."""
    name = "kafka.consumer.coordinator.heartbeat.rate"
    of_a = [export(gauge(name, {"asInt": number}), client_id="a")["resourceMetrics"][0] for number in (1, 2)]
    of_b = export(gauge(name, {"asInt": 3}), client_id="b")["resourceMetrics"]
    later = export(gauge(name, {"asInt": 4, "timeUnixNano": str(NS + 10**9)}), client_id="a")["resourceMetrics"]
    reports = decode({"resourceMetrics": [of_a[0], *of_b, of_a[1], *later]})
    found = [(report.client_id, report.emitted_ms, [point.value for point in report.points]) for report in reports]
    assert found == [
        ("a", 1_795_190_406_000, [1.0, 2.0]),
        ("b", 1_795_190_406_000, [3.0]),
        ("a", 1_795_190_407_000, [4.0]),
    ]


def test_a_points_own_attributes_go_before_its_resources() -> None:
    """A Collector may put many clients into one resource and distinguish them at the points."""
    point = {"asInt": 1, "attributes": [{"key": "client_id", "value": {"stringValue": "mine"}}]}
    (report,) = decode(export(gauge("kafka.consumer.fetch.rate", point), client_id="all", group_id="g"))
    assert (report.client_id, report.group_id) == ("mine", "g")


def test_a_time_that_is_missing_is_the_records() -> None:
    """0 is protobuf's missing value."""
    (report,) = decode(export(gauge("kafka.consumer.fetch.rate", {"asInt": 1, "timeUnixNano": "0"})))
    assert report.emitted_ms == OBSERVED_MS


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        pytest.param({"resourceMetrics": []}, Reason.NO_VALUES, id="nothing in it"),
        pytest.param(export({"name": "h", "histogram": {}}), Reason.NO_VALUES, id="only a histogram"),
        pytest.param(
            export(gauge("kafka.consumer.fetch.rate", {"asInt": 1}), scope="app#producer-1"),
            Reason.PRODUCER,
            id="a producer's scope",
        ),
        pytest.param(
            export(gauge("org.apache.kafka.producer.connection.count", {"asInt": 1})),
            Reason.PRODUCER,
            id="a producer's metric",
        ),
        pytest.param({"resourceMetrics": {"a": 1}}, Reason.MALFORMED, id="an object for a list"),
        pytest.param({"resourceMetrics": [1]}, Reason.MALFORMED, id="a number for a resource"),
        pytest.param({"resourceMetrics": [{"resource": []}]}, Reason.MALFORMED, id="a list for an object"),
    ],
)
def test_an_export_without_a_consumers_number_is_refused(document: dict[str, Any], reason: Reason) -> None:
    """The reason names the content."""
    with pytest.raises(UndecodableError) as refused:
        decode(document)
    assert refused.value.reason is reason
