"""librdkafka's statistics, as written by real consumers and as wrapped by applications."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError
from rebalance_streaming.wire.metrics.formats import decode_metrics
from rebalance_streaming.wire.metrics.report import Point, Report, Temporality
from wire.metrics.payloads import decode_one, golden, points_of, value_of

CLASSIC = json.loads(golden("librdkafka-classic.json"))


def decode(document: object) -> Report:
    """Decode a changed document."""
    return decode_one(json.dumps(document).encode())


def with_partition(**changed: Any) -> Report:
    """Decode the classic member's statistics with partition 0 changed."""
    document = json.loads(golden("librdkafka-classic.json"))
    document["topics"]["orders"]["partitions"]["0"].update(changed)
    return decode(document)


def test_a_real_classic_members_statistics_become_canonical_points() -> None:
    """Counters, sizes and times of the group and its coordinator have Kafka's names and base units."""
    arrived_ms = CLASSIC["time"] * 1_000 + 400
    (report,) = decode_metrics(golden("librdkafka-classic.json"), arrived_ms)
    assert (report.client_id, report.library, report.join_state) == ("orders-1", "librdkafka", "steady")
    assert (report.group_id, report.member_id, report.reason) == (None, None, None)
    assert (report.observed_ms, report.emitted_ms) == (arrived_ms, CLASSIC["time"] * 1_000)
    assert report.process_start_ms == 1_795_263_107_000 - 11_008
    values = {key: point.value for key, point in points_of(report).items() if len(key) == 1}
    assert values == {
        ("replyq",): 0.0,
        ("coordinator_assigned_partitions",): 2.0,
        ("coordinator_rebalance_total",): 1.0,
        ("coordinator_last_rebalance_seconds_ago",): 7.953,
        ("coordinator_heartbeat_total",): 8.0,
        ("coordinator_join_total",): 1.0,
        ("coordinator_sync_total",): 1.0,
        ("coordinator_leave_total",): 0.0,
        ("coordinator_commit_total",): 1.0,
        ("coordinator_tx_idle_seconds",): 0.8906,
        ("coordinator_rx_idle_seconds",): 0.890511,
        ("coordinator_response_time_max",): 0.089,
    }
    assert value_of(report, "node_request_latency_max", "1") == 500.541


def test_counters_are_cumulative_and_sizes_are_not() -> None:
    """Readers must know which of them to subtract."""
    points = points_of(decode_one(golden("librdkafka-classic.json")))
    cumulative = {key[0] for key, point in points.items() if point.temporality is Temporality.CUMULATIVE}
    assert cumulative == {f"coordinator_{what}_total" for what in ("heartbeat", "join", "sync", "leave", "commit")} | {
        "coordinator_rebalance_total"
    }


def test_only_partitions_of_the_consumers_own_are_reported() -> None:
    """It knows four and has two; the pseudo-partition -1 is left out."""
    points = points_of(decode_one(golden("librdkafka-classic.json")))
    assert {key[1:] for key in points if key[0] == "consumer_lag"} == {("orders", "0"), ("orders", "1")}
    assert points["committed_offset", "orders", "0"] == Point(
        "committed_offset", 10.0, {"topic": "orders", "partition": "0"}
    )


@pytest.mark.parametrize(
    ("field", "unknown", "metric"),
    [
        ("consumer_lag", -1, "consumer_lag"),
        ("committed_offset", -1001, "committed_offset"),
        ("app_offset", -1001, "app_offset"),
    ],
)
def test_unknown_offsets_and_lags_are_null(field: str, unknown: int, metric: str) -> None:
    """-1001 and -1 are librdkafka's unknown values, never positions in the log."""
    assert value_of(with_partition(**{field: unknown}), metric, "orders", "0") is None
    assert value_of(with_partition(**{field: 0}), metric, "orders", "0") == 0.0


def test_a_connection_without_traffic_has_no_idle_time() -> None:
    """-1 means no traffic yet, and a window without values has meaningless zeros."""
    document = json.loads(golden("librdkafka-classic.json"))
    coordinator = document["brokers"]["GroupCoordinator"]
    coordinator.update(txidle=-1, rxidle=-1, rtt={"max": 0, "avg": 0, "cnt": 0})
    report = decode(document)
    for metric in ("coordinator_tx_idle_seconds", "coordinator_rx_idle_seconds", "coordinator_response_time_max"):
        assert value_of(report, metric) is None


def test_a_member_of_the_new_protocol_has_no_heartbeat_counter() -> None:
    """Its heartbeats are not counted: a counter that stays at 0 would look like starvation."""
    points = points_of(decode_one(golden("librdkafka-kip848.json")))
    assert ("coordinator_heartbeat_total",) not in points
    assert points["coordinator_tx_idle_seconds",].value == 1.80333
    assert points["coordinator_assigned_partitions",].value == 4.0


def test_a_classic_member_that_has_not_sent_one_has_zero_heartbeats() -> None:
    """It has joined, so its counter is valid; and it has never rebalanced."""
    report = decode_one(golden("librdkafka-joining.json"))
    assert report.join_state == "wait-join"
    assert value_of(report, "coordinator_heartbeat_total") == 0.0
    assert points_of(report)["coordinator_last_rebalance_seconds_ago",].never


def test_an_overrun_of_the_poll_interval_is_reported_in_the_clients_own_words() -> None:
    """The member left, waits for the application to handle that, and callbacks pile up."""
    report = decode_one(golden("librdkafka-overrun.json"))
    assert (report.join_state, report.reason) == ("wait-unassign-call", "max.poll.interval.ms exceeded")
    assert value_of(report, "coordinator_leave_total") == 1.0
    assert value_of(report, "replyq") == 12.0


def test_a_producers_statistics_are_refused_by_a_reason_of_their_own() -> None:
    """They are no error: applications publish all their clients' statistics in one topic."""
    with pytest.raises(UndecodableError) as refused:
        decode_one(golden("librdkafka-producer.json"))
    assert refused.value.reason is Reason.PRODUCER


@pytest.mark.parametrize("wrapper", ["stats", "statistics", "payload", "value", "message"])
@pytest.mark.parametrize("as_string", [True, False])
def test_statistics_may_be_wrapped_beside_an_identity(wrapper: str, as_string: bool) -> None:
    """One level down, as object or as the string passed to stats_cb; the other fields are the identity."""
    statistics: object = json.dumps(CLASSIC) if as_string else CLASSIC
    report = decode({"group.id": "g", "member-id": "m", "host": "app-3", "client_id": "other", wrapper: statistics})
    assert (report.group_id, report.member_id, report.host, report.client_id) == ("g", "m", "app-3", "orders-1")
    assert report.points == decode_one(golden("librdkafka-classic.json")).points


def test_the_wrapped_example_is_read() -> None:
    """The shortened example lacks many fields: missing ones give no points."""
    report = decode_one(golden("librdkafka-wrapped.json"))
    assert (report.group_id, report.reason) == ("orders", "max.poll.interval.ms exceeded")
    assert report.process_start_ms == 1_795_190_000_000
    assert value_of(report, "coordinator_response_time_max") == 2.1
    assert value_of(report, "consumer_lag", "orders", "0") == 12.0
    assert ("app_offset", "orders", "0") not in points_of(report)


@pytest.mark.parametrize("broken", ['{"brokers"', '{"brokers": {}}', '"brokers"'])
def test_a_wrapped_text_that_is_none_is_refused(broken: str) -> None:
    """It looked like statistics and was not."""
    with pytest.raises(UndecodableError) as refused:
        decode({"stats": broken})
    assert refused.value.reason in (Reason.MALFORMED, Reason.UNKNOWN_FORMAT)


def test_a_client_without_id_in_the_statistics_has_that_of_its_name() -> None:
    """Old versions only have the handle's name."""
    document = {key: value for key, value in CLASSIC.items() if key != "client_id"}
    assert decode(document).client_id == "orders-1"
