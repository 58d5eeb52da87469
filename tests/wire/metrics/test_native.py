"""The project's own format, with real content from kafka-python."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError
from rebalance_streaming.wire.metrics.report import ClientConfig, Point, Report
from wire.metrics.payloads import OBSERVED_MS, decode_one, golden, points_of, value_of

MINIMAL: dict[str, Any] = {
    "schema": "rebalance-monitor/client-metrics/1",
    "emitted_ms": 1_795_190_405_120,
    "client": {"client_id": "orders-3"},
    "metrics": {},
}


def decode(**changed: Any) -> Report:
    """Decode the smallest report with fields changed; a null removes one."""
    document = {key: value for key, value in (MINIMAL | changed).items() if value is not None}
    return decode_one(json.dumps(document).encode())


def test_every_field_of_the_example_is_read() -> None:
    """Data about the client, its process and its application are all read."""
    assert decode_one(golden("native.json")) == Report(
        format="native",
        observed_ms=OBSERVED_MS,
        emitted_ms=1_795_190_405_120,
        client_id="orders-3",
        group_id="orders",
        member_id="orders-3-5b0c1f5e-3c0e-4a53-9f0a-0c6a7ad1e001",
        host="app-3",
        library="kafka-python",
        library_version="1.4.6",
        generation=18,
        state="stable",
        seq=81,
        interval_ms=5_000,
        tick_late_ms=2,
        process_start_ms=1_795_190_000_000,
        pid=4_711,
        cpu_s=12.4,
        last_poll_return_ms=1_795_190_401_000,
        records_in_last_poll=500,
        records_done=212,
        config=ClientConfig(
            session_timeout_ms=10_000,
            heartbeat_interval_ms=3_000,
            max_poll_interval_ms=300_000,
            max_poll_records=500,
            fetch_max_wait_ms=500,
            metadata_max_age_ms=300_000,
            group_protocol="classic",
        ),
        points=(
            Point("coordinator_heartbeat_rate", 0.33),
            Point("coordinator_last_heartbeat_seconds_ago", 1.2),
            Point("coordinator_heartbeat_response_time_max", None),
            Point("coordinator_join_rate", 0.0),
            Point("coordinator_assigned_partitions", 4.0),
            Point("fetch_manager_fetch_rate", 1.9),
            Point("fetch_manager_records_consumed_rate", 31.0),
        ),
    )


def test_kafka_pythons_bare_infinities_are_read() -> None:
    """A consumer that has just started writes Infinity and -Infinity, which strict JSON does not have."""
    raw = golden("kafka-python-joining.json")
    assert b": Infinity" in raw
    assert b": -Infinity" in raw
    report = decode_one(raw)
    assert points_of(report)["coordinator_last_heartbeat_seconds_ago",] == Point(
        "coordinator_last_heartbeat_seconds_ago", None, never=True
    )
    assert value_of(report, "coordinator_heartbeat_response_time_max") is None
    assert value_of(report, "coordinator_join_time_avg") == 0.0
    assert (report.generation, report.member_id) == (None, None)


def test_kafka_pythons_nodes_and_topics_are_labels() -> None:
    """Its metrics of nodes and topics do not overwrite those of the client, which have the same names."""
    report = decode_one(golden("kafka-python.json"))
    assert (report.library_version, report.generation) == ("3.0.12", 2)
    assert value_of(report, "coordinator_assigned_partitions") == 4.0
    assert value_of(report, "node_request_latency_max", "coordinator-1") == 3006.006162999256
    assert value_of(report, "request_latency_max") == 3006.006162999256
    assert value_of(report, "fetch_manager_records_consumed_rate", "orders") == 0.9516413086824649
    assert value_of(report, "fetch_manager_records_consumed_rate") == 0.8954745945489364


def test_a_librdkafka_client_publishes_its_last_statistics_with_their_age() -> None:
    """They need no other metrics; identity and time are the report's own."""
    for statistics in (golden("librdkafka-overrun.json").decode(), json.loads(golden("librdkafka-overrun.json"))):
        report = decode(metrics=None, statistics=statistics, statistics_age_ms=700)
        assert (report.format, report.client_id, report.emitted_ms) == ("native", "orders-3", 1_795_190_405_120)
        assert (report.statistics_age_ms, report.join_state) == (700, "wait-unassign-call")
        assert report.reason == "max.poll.interval.ms exceeded"
        assert value_of(report, "coordinator_leave_total") == 1.0


def test_a_report_without_metrics_still_says_that_the_client_lives() -> None:
    """A client may have its metrics switched off; missing values are null."""
    assert decode() == Report("native", OBSERVED_MS, 1_795_190_405_120, client_id="orders-3")


def test_values_of_another_type_are_null() -> None:
    """One field with a wrong type does not invalidate the others."""
    report = decode(seq="81", tick_late_ms="late", process={"pid": [1], "host": 7, "cpu_s": "NaN", "start_ms": -5})
    assert (report.seq, report.tick_late_ms, report.pid, report.host, report.cpu_s) == (81, None, None, "7", None)
    assert report.process_start_ms is None


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        pytest.param({"emitted_ms": None}, Reason.MISSING_FIELD, id="no time"),
        pytest.param({"emitted_ms": "soon"}, Reason.MISSING_FIELD, id="a time that is none"),
        pytest.param({"client": None}, Reason.MISSING_FIELD, id="no client"),
        pytest.param({"client": {"client_id": ""}}, Reason.MISSING_FIELD, id="no client id"),
        pytest.param({"metrics": None}, Reason.MISSING_FIELD, id="no metrics"),
        pytest.param({"metrics": None, "statistics": "?"}, Reason.MISSING_FIELD, id="statistics that are none"),
        pytest.param({"client": "orders-3"}, Reason.MALFORMED, id="a client that is a text"),
        pytest.param({"metrics": {"heartbeat-rate": 0.3}}, Reason.MALFORMED, id="metrics without groups"),
        pytest.param({"schema": "rebalance-monitor/client-metrics/2"}, Reason.UNKNOWN_VERSION, id="another version"),
        pytest.param({"schema": "rebalance-monitor/probe/1"}, Reason.UNKNOWN_FORMAT, id="another of our forms"),
    ],
)
def test_a_report_that_lacks_what_it_must_have_is_refused(changed: dict[str, Any], reason: Reason) -> None:
    """The reason says what is wrong, so that the helper's author can fix it."""
    with pytest.raises(UndecodableError) as refused:
        decode(**changed)
    assert refused.value.reason is reason
