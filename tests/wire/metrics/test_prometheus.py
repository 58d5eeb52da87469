"""Samples written by prometheus-kafka-adapter."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError
from rebalance_streaming.wire.metrics.formats import decode_metrics
from rebalance_streaming.wire.metrics.prometheus import parse_time_ms
from rebalance_streaming.wire.metrics.report import Point, Report
from wire.metrics.payloads import OBSERVED_MS, decode_one, golden

EXAMPLE = json.loads(golden("prometheus.json"))


def decode(**changed: Any) -> Report:
    """Decode the example with fields changed."""
    return decode_one(json.dumps(EXAMPLE | changed).encode())


def test_the_example_is_read() -> None:
    """The value is a string, the host is the scraped instance without its port."""
    assert decode_one(golden("prometheus.json")) == Report(
        "prometheus_json",
        OBSERVED_MS,
        1_795_190_406_000,
        client_id="consumer-orders-1",
        host="app-3",
        points=(Point("coordinator_last_heartbeat_seconds_ago", 2.0),),
    )


@pytest.mark.parametrize(
    ("raw", "milliseconds"),
    [
        ("2026-11-20T16:00:06Z", 1_795_190_406_000),
        ("2026-11-20T16:00:06.5Z", 1_795_190_406_500),
        ("2026-11-20T16:00:06.123456789Z", 1_795_190_406_123),
        ("2026-11-20T18:00:06+02:00", 1_795_190_406_000),
        ("2026-11-20T12:30:06-0330", 1_795_190_406_000),
        ("2028-02-29T00:00:00Z", 1_835_395_200_000),
        (1_795_190_406, 1_795_190_406_000),
        ("1795190406000", 1_795_190_406_000),
        ("1969-12-31T23:59:59Z", None),
        ("2026-13-01T00:00:00Z", None),
        ("2026-11-20", None),
        ("", None),
        (None, None),
        ({}, None),
    ],
)
def test_times_are_read_in_any_zone(raw: object, milliseconds: int | None) -> None:
    """RFC 3339 with fractions and offsets; other texts are null."""
    assert parse_time_ms(raw) == milliseconds


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_prometheuss_special_values_are_null(value: str) -> None:
    """They are written as text."""
    assert decode(name="kafka_consumer_coordinator_join_time_max", value=value).points[0].value is None


@pytest.mark.parametrize(
    ("instance", "host"),
    [("app-3:8080", "app-3"), ("[2001:db8::1]:8080", "2001:db8::1"), ("app-3", "app-3"), ("", None)],
)
def test_an_instance_names_the_host(instance: str, host: str | None) -> None:
    """With or without port; it is not the group's instance id."""
    report = decode(labels={"instance": instance})
    assert (report.host, report.instance_id) == (host, None)
    assert decode(labels={"instance": instance, "host": "real"}).host == "real"


def test_topic_and_partition_are_labels() -> None:
    """They distinguish points of one metric."""
    labels = {"topic": "orders", "partition": "3", "client_id": "c", "job": "j"}
    (point,) = decode(name="kafka_consumer_fetch_manager_records_lag", value="7", labels=labels).points
    assert point == Point("fetch_manager_records_lag", 7.0, {"topic": "orders", "partition": "3"})


def test_a_list_of_samples_is_read() -> None:
    """Other writers of the same format batch samples; those of one client and time form one report."""
    several = [EXAMPLE, EXAMPLE | {"name": "kafka_consumer_coordinator_heartbeat_rate", "value": "0.3"}]
    (report,) = decode_metrics(json.dumps(several).encode(), OBSERVED_MS)
    assert [point.value for point in report.points] == [2.0, 0.3]


def test_a_value_that_is_no_number_is_refused() -> None:
    """A sample contains nothing else."""
    with pytest.raises(UndecodableError) as refused:
        decode(value="up")
    assert refused.value.reason is Reason.NO_VALUES
