"""Reads the published status of queries that run in other processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from functools import partial

from confluent_kafka import KafkaException

from rebalance_contract import ContractError, QueryStatus, decode_status
from rebalance_kafka.follower import Follower, Record
from rebalance_streaming.background import repeat_until
from rebalance_streaming.config import StreamConfig

_POLL_SECONDS, _AGAIN_SECONDS = 0.5, 1.0


class StatusReader:
    """Follows the status topic for some queries of one cluster. Thread-safe."""

    def __init__(self, config: StreamConfig, queries: Collection[str]) -> None:
        self._config, self._queries = config, frozenset(queries)
        self._latest: dict[str, QueryStatus] = {}
        self._lock = threading.Lock()

    def follow(self, stop: threading.Event, warn: Callable[[str], None]) -> None:
        """Start following the topic until `stop` is set; `warn` is told of unexpected errors.

        In a thread of its own, because a look for the topic takes 10 s while brokers are unavailable.
        """
        following = stop, partial(self._follow, stop), "following the statuses of queries elsewhere", warn
        threading.Thread(target=repeat_until, args=following, name="inputs", daemon=True).start()

    def read(self) -> list[QueryStatus]:
        """Return the latest status of each query that has one, without waiting."""
        with self._lock:
            return list(self._latest.values())

    def take(self, records: Iterable[Record]) -> None:
        """Process records of the status topic; rows of other clusters and queries, and invalid ones, are skipped."""
        for record in records:
            if record.value is None:
                continue
            try:
                status = decode_status(record.value)
            except ContractError:
                continue
            if isinstance(status, QueryStatus) and status.cluster == self._config.cluster:
                self._take(status)

    def _take(self, status: QueryStatus) -> None:
        with self._lock:
            known = self._latest.get(status.query)
            # A lower epoch belongs to a superseded process.
            if status.query in self._queries and (known is None or status.epoch >= known.epoch):
                self._latest[status.query] = status

    def _follow(self, stop: threading.Event) -> None:
        try:
            with closing(Follower(self._config.kafka, [self._config.status_topic], name="inputs")) as follower:
                while not stop.is_set():
                    self.take(follower.poll(_POLL_SECONDS))
        except KafkaException:
            stop.wait(_AGAIN_SECONDS)
