"""One name for a metric, in any spelling."""

from __future__ import annotations

import pytest

from rebalance_streaming.wire.metrics.names import (
    KNOWN,
    LONGEST_NAME,
    canonical,
    recognise,
    split_group,
    temporality_of,
)
from rebalance_streaming.wire.metrics.report import Temporality


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("kafka.consumer:type=consumer-coordinator-metrics,client-id=X:heartbeat-rate", id="JMX, colon"),
        pytest.param("kafka.consumer:type=consumer-coordinator-metrics,client-id=X/heartbeat-rate", id="JMX, slash"),
        pytest.param('kafka.consumer:type=consumer-coordinator-metrics,client-id="a,b:c" heartbeat-rate', id="quoted"),
        pytest.param("kafka.consumer:client-id=a b/c,type=consumer-coordinator-metrics:heartbeat-rate", id="odd id"),
        pytest.param(
            "kafka.consumer<type=consumer-coordinator-metrics, client-id=X><>heartbeat-rate", id="JMX exporter's rule"
        ),
        pytest.param("consumer-coordinator-metrics.heartbeat-rate", id="Kafka's group and name"),
        pytest.param("org.apache.kafka.consumer.coordinator.heartbeat.rate", id="KIP-714"),
        pytest.param("org_apache_kafka_consumer_coordinator_heartbeat_rate", id="KIP-714 through Prometheus"),
        pytest.param("kafka.consumer.coordinator.heartbeat.rate", id="Micrometer"),
        pytest.param("kafka_consumer_coordinator_heartbeat_rate", id="Micrometer's Prometheus form"),
        pytest.param("kafka_consumer_consumer_coordinator_metrics_heartbeat_rate", id="JMX exporter"),
        pytest.param("Kafka.Consumer.Coordinator.HEARTBEAT-Rate", id="upper case"),
    ],
)
def test_every_spelling_of_a_metric_has_one_canonical_name(name: str) -> None:
    """JMX, KIP-714, Micrometer and the Prometheus exporters name the same metric."""
    assert canonical(name) == "coordinator_heartbeat_rate"
    assert recognise(name) == "coordinator_heartbeat_rate"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("consumer-metrics.last-poll-seconds-ago", "last_poll_seconds_ago"),
        ("org.apache.kafka.consumer.fetch.manager.records.lag.max", "fetch_manager_records_lag_max"),
        ("consumer-node-metrics.request-latency-max", "node_request_latency_max"),
        ("consumer-coordinator-metrics.rebalance-total", "coordinator_rebalance_total"),
        ("consumer-share-coordinator-metrics.heartbeat-rate", "share_coordinator_heartbeat_rate"),
        ("kafka.producer:type=producer-metrics,client-id=X:request-rate", "producer_request_rate"),
        ("some_app_consumer_rate", "some_app_consumer_rate"),
        ("kafka", ""),
        ("...", ""),
        ("", ""),
        ("kafka." + "x" * LONGEST_NAME, ""),
    ],
)
def test_the_rule_keeps_what_is_not_noise(name: str, expected: str) -> None:
    """Only Kafka's own prefixes are removed, `_total` is kept, and a name without words is none."""
    assert canonical(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("team_a_kafka_consumer_heartbeat_rate", "coordinator_heartbeat_rate"),
        ("myapp.kafka.consumer.records_lag_max", "fetch_manager_records_lag_max"),
        ("myapp_consumer_failed_rebalance_total", "coordinator_failed_rebalance_total"),
        ("node_disk_sync_total", "node_disk_sync_total"),
        ("kafka_streams_thread_commit_rate", "streams_thread_commit_rate"),
        ("kafka_server_group_coordinator_offset_commit_rate", "server_group_coordinator_offset_commit_rate"),
        ("kafka_producer_fetch_rate", "producer_fetch_rate"),
    ],
)
def test_a_prefix_of_the_users_own_does_not_hide_a_metric(name: str, expected: str) -> None:
    """Its longest known suffix decides, except for names that belong to another library."""
    assert recognise(name) == expected


def test_known_names_are_canonical() -> None:
    """A name in the table equals the rule's result for Kafka's own name, so both can be compared."""
    for name in KNOWN:
        assert canonical(f"org.apache.kafka.consumer.{name}") == name
        assert recognise(f"kafka_consumer_{name}") == name


@pytest.mark.parametrize(
    ("group", "name", "properties"),
    [
        ("consumer-coordinator-metrics", "consumer-coordinator-metrics", {}),
        ("consumer-node-metrics.node-7", "consumer-node-metrics", {"node_id": "7"}),
        ("consumer-node-metrics.node-coordinator-1", "consumer-node-metrics", {"node_id": "coordinator-1"}),
        (
            "consumer-fetch-manager-metrics,topic=a.b,partition=3",
            "consumer-fetch-manager-metrics",
            {"topic": "a.b", "partition": "3"},
        ),
        (
            "kafka.consumer:type=consumer-node-metrics,client-id=c,node-id=node-2",
            "consumer-node-metrics",
            {"client-id": "c", "node-id": "node-2"},
        ),
        ("x" * (LONGEST_NAME + 1), "", {}),
    ],
)
def test_what_stands_in_a_groups_name_is_taken_out(group: str, name: str, properties: dict[str, str]) -> None:
    """Tags after a group, kafka-python's node and other keys of a JMX object name are properties."""
    assert split_group(group) == (name, properties)


def test_kafkas_own_totals_are_cumulative() -> None:
    """If the format does not say so, the name does."""
    assert temporality_of("coordinator_rebalance_total") is Temporality.CUMULATIVE
    assert temporality_of("coordinator_heartbeat_rate") is Temporality.GAUGE
