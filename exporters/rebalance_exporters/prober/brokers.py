"""Sends requests of the Kafka protocol to brokers and returns answers or errors, within a bounded time.

kafka-python is the client. Its own `list_groups` cannot name every state, and its `describe_groups` loses a whole batch
if one member cannot be decoded, so the requests are made here; and confluent-kafka's describe can end the process when
a coordinator dies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import IncompatibleBrokerVersion, KafkaError

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.prober.kafka_python import kafka_python_settings
from rebalance_exporters.prober.tasks import describe

REQUEST_SECONDS = 4.0
_START_SECONDS = 10.0

Answer = Any  # a response of kafka.protocol, which has no types


class Brokers:
    """All brokers of a cluster; safe to use from several threads."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        """Connect. Raises ExporterError if the settings are refused, or no broker answers within seconds."""
        servers = kafka["bootstrap.servers"]
        try:
            self._admin = KafkaAdminClient(
                **kafka_python_settings(kafka),
                client_id="rebalance-monitor-probe",
                request_timeout_ms=int(1000 * REQUEST_SECONDS),
                bootstrap_timeout_ms=int(1000 * _START_SECONDS),
                # Interval at which the client learns of new and removed brokers.
                metadata_max_age_ms=30_000,
                reconnect_backoff_max_ms=5_000,
            )
        except (KafkaError, OSError, ValueError, AssertionError) as error:
            raise ExporterError(
                f"no Kafka broker answered at {servers} within {_START_SECONDS:g} s ({describe(error)}): "
                "check kafka.bootstrap.servers and the security settings"
            ) from error
        self._manager = self._admin._manager

    def close(self) -> None:
        """Close all connections."""
        with contextlib.suppress(KafkaError):
            self._admin.close()

    @property
    def ids(self) -> list[int]:
        """The ids of the cluster's current brokers."""
        return sorted(broker.node_id for broker in self._manager.cluster.brokers())

    def version_of(self, request: type[Any]) -> int:
        """Return the highest version of a request that both sides know."""
        return int(self._manager.broker_version_data.api_version(request))

    def knows(self, request: type[Any]) -> bool:
        """Whether the brokers know a request."""
        try:
            self.version_of(request)
        except IncompatibleBrokerVersion:
            return False
        return True

    def ask(self, requests: Mapping[int | None, Sequence[Any]]) -> dict[int | None, list[Answer | Exception]]:
        """Return one answer, or the error in its place, per request; `requests` are by broker id, null for any broker.

        Brokers are queried in parallel, and the requests to one broker in sequence, because a broker refuses too many
        at once. After an error the broker's remaining requests are not sent and get the same error.
        """
        asking = {node: self._manager.call_soon(self._ask_one, node, list(each)) for node, each in requests.items()}

        async def gather() -> dict[int | None, list[Answer | Exception]]:
            return {node: await future for node, future in asking.items()}

        answers: dict[int | None, list[Answer | Exception]] = self._manager.run(gather)
        return answers

    async def _ask_one(self, node: int | None, requests: list[Any]) -> list[Answer | Exception]:
        answers: list[Answer | Exception] = []
        for request in requests:
            try:
                future = self._manager.send(request, node_id=node)
                # The client's own timeout begins only when it is connected.
                answers.append(await self._manager.wait_for(future, 1000 * REQUEST_SECONDS))
            except Exception as error:  # an error of one broker must not affect the others
                return answers + [error] * (len(requests) - len(answers))
        return answers
