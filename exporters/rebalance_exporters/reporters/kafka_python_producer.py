"""Sends the reports of kafka-python consumers, through a producer of the installed version beside the consumer.

Receives the consumer's settings; hands reports to the topic. Runs in the sending thread, the only one that may wait.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import kafka

from rebalance_exporters.reporters.outbox import CallTransport

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from typing import Any

    from rebalance_exporters.reporters.outbox import OutgoingReport, Transport

    Send = Callable[[str, "bytes | None", bytes], None]

_LOOK_SECONDS = 0.05
#: Longer than `delivery_timeout_ms` plus the time to send afterwards.
_DELIVERY_SECONDS = 30.0

# Settings with which a producer reaches the same brokers as the same user.
_CONNECTION = ("bootstrap_servers", "client_dns_lookup", "kafka_client", "selector", "socket_options")
_CONNECTION_PREFIXES = ("security_", "ssl_", "sasl_", "socks5_", "proxy_")
# Earlier brokers do not report their version; for later ones the producer detects what it may use.
_FIRST_WITH_VERSIONS = (0, 10)

_PRODUCER = {
    "acks": 1,
    # The outbox hands over one report at a time, and retries it.
    "retries": 0,
    "enable_idempotence": False,
    "compression_type": "gzip",
    "bootstrap_timeout_ms": 5_000,
    "max_block_ms": 2_000,
    "request_timeout_ms": 10_000,
    "delivery_timeout_ms": 15_000,
    "reconnect_backoff_max_ms": 2_000,
    "metrics_enabled": False,
}


def make_producer_settings(consumer: dict[str, Any], own: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return settings for a producer that connects as a consumer does, limited to those that this version knows.

    `own` overrides all others and is not filtered.
    """
    known = kafka.KafkaProducer.DEFAULT_CONFIG
    settings = {
        key: value
        for key, value in consumer.items()
        if (key in _CONNECTION or key.startswith(_CONNECTION_PREFIXES)) and value is not None and key in known
    }
    version = consumer.get("api_version")
    if isinstance(version, tuple) and version < _FIRST_WITH_VERSIONS:
        settings["api_version"] = version
    settings["client_id"] = "{}-rebalance-reporter".format(consumer.get("client_id") or "kafka-python")
    settings.update({key: value for key, value in _PRODUCER.items() if key in known})
    settings.update(own or {})
    return settings


class ProducerTransport:
    """Sends through a producer of the installed version, which the sending thread creates at the first report."""

    def __init__(
        self, topic: str, make_settings: Callable[[], dict[str, Any]], longest_seconds: float = _DELIVERY_SECONDS
    ) -> None:
        self._topic = topic
        self._make_settings = make_settings
        self._longest_seconds = longest_seconds
        self._producer: Any = None

    def send(self, report: OutgoingReport, given_up: threading.Event) -> None:
        """Return when the broker has the report; raise if it does not get it, or not in time."""
        if self._producer is None:
            self._producer = _open_producer(self._make_settings())
        future = self._producer.send(self._topic, key=report.key, value=report.value)
        deadline = time.monotonic() + self._longest_seconds
        while not (future.is_done or given_up.wait(_LOOK_SECONDS) or time.monotonic() > deadline):
            pass
        if not future.is_done:
            # The producer itself should have given up long ago: the next report gets a new one.
            self.close()
        future.get(timeout=0)

    def close(self) -> None:
        """Close the producer, if there is one; a later report creates a new one."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close(timeout=0)


def _open_producer(settings: dict[str, Any]) -> Any:
    """Return a producer without its exit hook, which would delay the program's end to deliver pending reports."""
    producer = kafka.KafkaProducer(**settings)
    forget: Callable[[], None] = getattr(producer, "_unregister_cleanup", lambda: None)
    forget()
    return producer


def make_transport(topic: str, send: Send | None, make_settings: Callable[[], dict[str, Any]]) -> Transport:
    """Return a transport that calls the user's `send`, else one with a producer made from `make_settings()`."""
    return ProducerTransport(topic, make_settings) if send is None else CallTransport(send, topic)
