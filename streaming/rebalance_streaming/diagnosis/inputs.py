"""Reads the published status of queries that run in other processes."""

from __future__ import annotations

import threading
from collections.abc import Collection

from rebalance_contract import ContractError, QueryStatus, decode_status
from rebalance_kafka.follower import Follower
from rebalance_streaming.config import StreamConfig


class StatusReader:
    """Follows the status topic for some queries of one cluster. Thread-safe."""

    def __init__(self, config: StreamConfig, queries: Collection[str]) -> None:
        """Raises KafkaException if no broker answers."""
        self._cluster, self._queries = config.cluster, frozenset(queries)
        self._latest: dict[str, QueryStatus] = {}
        self._lock = threading.Lock()
        self._follower = Follower(config.kafka, [config.status_topic], name="inputs")
        self._follower.look()

    def read(self) -> list[QueryStatus]:
        """Return the latest status of each query that has one, without waiting."""
        with self._lock:
            self._read()
            return list(self._latest.values())

    def _read(self) -> None:
        for record in self._follower.poll(0):
            if record.value is None:
                continue
            try:
                status = decode_status(record.value)
            except ContractError:
                continue
            if not isinstance(status, QueryStatus) or status.cluster != self._cluster:
                continue
            known = self._latest.get(status.query)
            # A lower epoch belongs to a superseded process.
            if status.query in self._queries and (known is None or status.epoch >= known.epoch):
                self._latest[status.query] = status
