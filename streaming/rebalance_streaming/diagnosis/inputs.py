"""Up to when the queries have read that run in other processes, as they publish it."""

from __future__ import annotations

import threading
from collections.abc import Collection

from confluent_kafka import Consumer, TopicPartition

from rebalance_contract import ContractError, QueryStatus, decode_status
from rebalance_kafka.properties import librdkafka_properties
from rebalance_streaming.cluster import QUIET, REQUEST_SECONDS
from rebalance_streaming.config import StreamConfig

_AT_ONCE = 1_000


class StatusReader:
    """Follows the status topic for some queries of one cluster. Safe to use from several threads."""

    def __init__(self, config: StreamConfig, queries: Collection[str]) -> None:
        self._cluster, self._queries = config.cluster, frozenset(queries)
        self._latest: dict[str, QueryStatus] = {}
        self._lock = threading.Lock()
        settings = {"group.id": "unused", "enable.auto.commit": False}
        self._consumer = Consumer({**librdkafka_properties(config.kafka), **QUIET, **settings})
        known = self._consumer.list_topics(config.status_topic, timeout=REQUEST_SECONDS).topics[config.status_topic]
        self._consumer.assign([TopicPartition(config.status_topic, p, 0) for p in known.partitions])

    def read(self) -> list[QueryStatus]:
        """Return the latest status of each query that has one, without waiting."""
        with self._lock:
            self._read()
            return list(self._latest.values())

    def _read(self) -> None:
        for message in self._consumer.consume(_AT_ONCE, 0):
            value = message.value()
            if message.error() is not None or value is None:
                continue
            try:
                status = decode_status(value)
            except ContractError:
                continue
            if isinstance(status, QueryStatus) and status.cluster == self._cluster and status.query in self._queries:
                self._latest[status.query] = status
