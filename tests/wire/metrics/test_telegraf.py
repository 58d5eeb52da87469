"""Telegraf's JSON, with any names that its user chose."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError
from rebalance_streaming.wire.metrics.formats import decode_metrics
from rebalance_streaming.wire.metrics.report import Point, Report, Temporality
from wire.metrics.payloads import OBSERVED_MS, decode_one, golden

EXAMPLE = json.loads(golden("telegraf.json"))


def decode(document: object) -> Report:
    """Decode a document of one report."""
    return decode_one(json.dumps(document).encode())


def metric(name: str, tags: dict[str, Any] | None = None, /, **fields: Any) -> dict[str, Any]:
    """Return a Telegraf metric."""
    return {"name": name, "tags": tags or {}, "fields": fields, "timestamp": 1_795_190_406}


def test_the_example_is_read() -> None:
    """Fields of the Jolokia input have Kafka's names without their group, which is reconstructed."""
    assert decode_one(golden("telegraf.json")) == Report(
        "telegraf_json",
        OBSERVED_MS,
        1_795_190_406_000,
        client_id="consumer-orders-1",
        host="app-3",
        points=(
            Point("coordinator_heartbeat_rate", 0.334),
            Point("coordinator_last_heartbeat_seconds_ago", 2.0),
            Point("coordinator_rebalance_total", 7.0, temporality=Temporality.CUMULATIVE),
            Point("coordinator_assigned_partitions", 2.0),
        ),
    )


@pytest.mark.parametrize("wrap", [lambda each: each, lambda each: [each], lambda each: {"metrics": [each]}])
def test_one_metric_a_list_and_a_batch_say_the_same(wrap: Any) -> None:
    """Telegraf's user chooses the batching."""
    assert decode(wrap(EXAMPLE)) == decode(EXAMPLE)


def test_a_batch_holds_many_clients() -> None:
    """Metrics of one client and time form one report, others are separate."""
    batch = [
        metric("kafka_consumer_coordinator", {"client-id": "a"}, **{"heartbeat-rate": 1}),
        metric("kafka_consumer_coordinator", {"client-id": "b"}, **{"heartbeat-rate": 2}),
        metric("kafka_consumer", {"client_id": "a"}, **{"last-poll-seconds-ago": -1}),
    ]
    first, second = decode_metrics(json.dumps(batch).encode(), OBSERVED_MS)
    assert (first.client_id, second.client_id) == ("a", "b")
    assert first.points == (
        Point("coordinator_heartbeat_rate", 1.0),
        Point("last_poll_seconds_ago", None, never=True),
    )


@pytest.mark.parametrize(
    ("measurement", "field"),
    [
        ("kafka_consumer_coordinator", "heartbeat-rate"),
        ("anything", "heartbeat-rate"),
        ("team_a", "kafka.consumer_heartbeat-rate"),
        ("kafka.consumer", "consumer-coordinator-metrics.heartbeat-rate"),
        ("kafka_consumer_coordinator_heartbeat_rate", "gauge"),
        ("prometheus", "kafka_consumer_coordinator_heartbeat_rate"),
        ("prometheus", "kafka_consumer_consumer_coordinator_metrics_heartbeat_rate"),
    ],
)
def test_a_metric_is_known_under_any_measurement(measurement: str, field: str) -> None:
    """From the Jolokia input with any prefix, and from both layouts of the Prometheus input."""
    assert decode(metric(measurement, **{field: 0.3})).points == (Point("coordinator_heartbeat_rate", 0.3),)


@pytest.mark.parametrize("measurement", ["kafka_consumer_node", "kafka_consumer_node_metrics"])
def test_the_measurement_may_hold_the_group(measurement: str) -> None:
    """If several groups have a field of that name, the measurement decides."""
    points = decode(metric(measurement, {"node-id": "1"}, **{"request-latency-max": 3})).points
    assert points == (Point("node_request_latency_max", 3.0, {"node_id": "1"}),)


@pytest.mark.parametrize(
    ("tags", "host"),
    [
        ({"host": "agent", "jolokia_agent_url": "http://app-3:8778/jolokia"}, "app-3"),
        ({"host": "agent", "jolokia_agent_url": "http://localhost:8778/jolokia"}, "agent"),
        ({"host": "agent", "url": "http://app-4:8080/metrics"}, "app-4"),
        ({"host": "agent", "url": "http://[::1/"}, "agent"),
        ({"host": "agent"}, "agent"),
        ({}, None),
    ],
)
def test_the_host_is_where_the_client_runs(tags: dict[str, str], host: str | None) -> None:
    """Telegraf's own tag is the host of Telegraf; an agent on another machine has its host in the URL."""
    assert decode(metric("kafka_consumer", tags, **{"fetch-rate": 1})).host == host


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
def test_timestamps_of_any_unit_are_read(unit: int) -> None:
    """json_timestamp_units goes from seconds to nanoseconds."""
    assert decode(EXAMPLE | {"timestamp": 1_795_190_406 * unit}).emitted_ms == 1_795_190_406_000


def test_a_metric_without_timestamp_is_as_old_as_its_record() -> None:
    """An impossible time counts as missing."""
    assert decode({key: EXAMPLE[key] for key in ("name", "tags", "fields")}).emitted_ms == OBSERVED_MS


def test_texts_and_flags_are_no_values() -> None:
    """Telegraf's fields may be of any type; a metric without a number is dropped."""
    assert decode(metric("kafka_consumer", **{"fetch-rate": 1, "version": "x", "up": True})).points == (
        Point("fetch_manager_fetch_rate", 1.0),
    )
    with pytest.raises(UndecodableError) as refused:
        decode(metric("kafka_consumer", version="x"))
    assert refused.value.reason is Reason.NO_VALUES


def test_a_batch_with_something_else_in_it_is_refused() -> None:
    """An incomplete batch would look like a client that became silent."""
    with pytest.raises(UndecodableError) as refused:
        decode([EXAMPLE, {"name": "x"}])
    assert refused.value.reason is Reason.MALFORMED
