"""Silences on brokers that refuse requests of the writer; without a real one."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from exporters.contract_rows import SILENCE
from mock_cluster import INIT_PRODUCER_ID, MockCluster
from rebalance_exporters.kafka import silence_writer
from rebalance_exporters.kafka.silence_writer import SilenceWriter

pytestmark = pytest.mark.waits


def test_no_producer_id_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if a user's properties ask for one: to get it a user must have another permission on old brokers."""
    monkeypatch.setattr(silence_writer, "_DELIVERY_SECONDS", 60.0)
    cluster = MockCluster()
    cluster.create("t")
    cluster.refuse(*[KafkaError.CLUSTER_AUTHORIZATION_FAILED] * 100, request=INIT_PRODUCER_ID)
    writer = SilenceWriter({"bootstrap.servers": cluster.bootstrap, "librdkafka.enable.idempotence": "true"}, "t")
    writer.write(SILENCE)
    assert len(cluster.records("t")) == 1
