"""Probes on brokers that refuse requests of the publisher; without a real one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from confluent_kafka import KafkaError

from exporters.prober.probing import make_config
from mock_cluster import INIT_PRODUCER_ID, MockCluster
from rebalance_contract import Probe
from rebalance_exporters.prober.metrics import ProbeMetrics
from rebalance_exporters.prober.publisher import ProbePublisher
from rebalance_exporters.prober.tasks import ErrorLog

pytestmark = pytest.mark.waits


@pytest.fixture
def cluster() -> MockCluster:
    """A broker with the probes topic."""
    made = MockCluster()
    made.create("p.probes")
    return made


@contextmanager
def publishing(cluster: MockCluster, said: list[str], **properties: str) -> Iterator[ProbePublisher]:
    """A publisher that is closed, with all its probes delivered, at the end."""
    config = make_config(cluster.bootstrap, "p.")
    config.kafka.update(properties)
    metrics = ProbeMetrics()
    with closing(ProbePublisher(config, metrics, ErrorLog(metrics, said.append))) as publisher:
        yield publisher


def test_a_missing_permission_is_reported_with_what_to_grant(cluster: MockCluster) -> None:
    """For the topic of the probes."""
    cluster.refuse(*[KafkaError.TOPIC_AUTHORIZATION_FAILED] * 10)
    said: list[str] = []
    with publishing(cluster, said) as publisher:
        publisher.publish(Probe(probed_at_ms=1, cluster="test", group="g"))
    (line,) = said
    assert line.startswith("probe: writing to p.probes is not allowed for this client; grant it: kafka-acls ")
    assert " --operation Write --operation Describe --topic p.probes " in line


def test_no_producer_id_is_needed(cluster: MockCluster) -> None:
    """Even if a user's properties ask for one: to get it a user must have another permission on old brokers."""
    cluster.refuse(*[KafkaError.CLUSTER_AUTHORIZATION_FAILED] * 100, request=INIT_PRODUCER_ID)
    said: list[str] = []
    with publishing(cluster, said, **{"librdkafka.enable.idempotence": "true"}) as publisher:
        publisher.publish(Probe(probed_at_ms=1, cluster="test", group="g"))
    assert said == []
    assert len(cluster.records("p.probes")) == 1
