"""The producer and consumers of the demo, each in its own process like a real service.

    python -m rebalance_deploy.demo.workload consume BOOTSTRAP '{"group": …, "topic": …, …}'

Every process ends cleanly on SIGTERM: consumers leave their group.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
from dataclasses import asdict, dataclass
from typing import Any

from rebalance_exporters.reporters import confluent, kafka_python
from rebalance_kafka.signals import set_on_signals

TOPICS = {"orders": 6, "payments": 6, "shipments": 4}


@dataclass(frozen=True, slots=True)
class ConsumerSpec:
    """One consumer process: the library it uses, its identity, and how long it works on each poll.

    `reports`: whether it reports its heartbeats and polls to the monitor.
    """

    library: str
    group: str
    topic: str
    client_id: str
    assignor: str = "range"
    session_timeout_ms: int = 10_000
    max_poll_interval_ms: int = 300_000
    seconds_per_poll: float = 0.0
    group_instance_id: str | None = None
    reports: bool = False


#: The sick consumer of the demo: it processes longer than its max.poll.interval.ms, leaves its group, rejoins at its
#: next poll, and leaves again.
SICK = ConsumerSpec(
    "confluent-kafka",
    "payments-enricher",
    "payments",
    "enricher-2",
    session_timeout_ms=6_000,
    max_poll_interval_ms=6_000,
    seconds_per_poll=11.0,
    reports=True,
)

CONSUMERS = (
    ConsumerSpec("confluent-kafka", "orders-billing", "orders", "billing-1", reports=True),
    ConsumerSpec("confluent-kafka", "orders-billing", "orders", "billing-2", reports=True),
    ConsumerSpec("kafka-python", "payments-audit", "payments", "audit-1", reports=True),
    ConsumerSpec("confluent-kafka", "shipments-search", "shipments", "search-1", assignor="cooperative-sticky"),
    ConsumerSpec("confluent-kafka", "shipments-search", "shipments", "search-2", assignor="cooperative-sticky"),
    ConsumerSpec("kafka-python", "payments-enricher", "payments", "enricher-1", session_timeout_ms=6_000),
    SICK,
)


def command(bootstrap: str, spec: ConsumerSpec) -> list[str]:
    """Return the command line that runs a consumer in its own process."""
    return [sys.executable, "-m", __name__, "consume", bootstrap, json.dumps(asdict(spec))]


def producer_command(bootstrap: str) -> list[str]:
    """Return the command line that runs the producer."""
    return [sys.executable, "-m", __name__, "produce", bootstrap]


def produce(bootstrap: str, stop: threading.Event) -> None:
    """Write a few records a second to every topic until stopped."""
    from confluent_kafka import Producer  # noqa: PLC0415

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    while not stop.wait(0.1):
        for topic in TOPICS:
            producer.produce(topic, key=str(random.randrange(1_000)), value=b"x" * 100)  # noqa: S311
        producer.poll(0)
    producer.flush(5)


def consume(bootstrap: str, spec: ConsumerSpec, stop: threading.Event) -> None:
    """Poll, work, commit, until stopped; then leave the group."""
    poll, close = _open(bootstrap, spec)
    while not stop.is_set():
        if poll() and spec.seconds_per_poll:
            stop.wait(spec.seconds_per_poll)
    close()


def _open(bootstrap: str, spec: ConsumerSpec) -> tuple[Any, Any]:
    return _open_kafka_python(bootstrap, spec) if spec.library == "kafka-python" else _open_confluent(bootstrap, spec)


def _open_confluent(bootstrap: str, spec: ConsumerSpec) -> tuple[Any, Any]:
    from confluent_kafka import Consumer  # noqa: PLC0415

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": spec.group,
        "client.id": spec.client_id,
        "partition.assignment.strategy": spec.assignor,
        "session.timeout.ms": spec.session_timeout_ms,
        "heartbeat.interval.ms": spec.session_timeout_ms // 3,
        "max.poll.interval.ms": spec.max_poll_interval_ms,
        "auto.offset.reset": "earliest",
        "log_level": 0,
    }
    if spec.group_instance_id is not None:
        settings["group.instance.id"] = spec.group_instance_id
    consumer = confluent.report(Consumer, settings) if spec.reports else Consumer(settings)
    consumer.subscribe([spec.topic])
    return (lambda: [m for m in consumer.consume(100, 0.5) if m.error() is None]), consumer.close


def _open_kafka_python(bootstrap: str, spec: ConsumerSpec) -> tuple[Any, Any]:
    from kafka import KafkaConsumer  # noqa: PLC0415

    consumer = KafkaConsumer(
        spec.topic,
        bootstrap_servers=bootstrap,
        group_id=spec.group,
        client_id=spec.client_id,
        group_instance_id=spec.group_instance_id,
        session_timeout_ms=spec.session_timeout_ms,
        heartbeat_interval_ms=spec.session_timeout_ms // 3,
        max_poll_interval_ms=spec.max_poll_interval_ms,
        auto_offset_reset="earliest",
    )
    if spec.reports:
        kafka_python.report(consumer)
    return (lambda: consumer.poll(timeout_ms=500)), consumer.close


def main(arguments: list[str]) -> None:
    """Run the producer or the consumer named by the arguments until SIGTERM."""
    stop = threading.Event()
    set_on_signals(stop, (signal.SIGTERM, signal.SIGINT))
    action, bootstrap, *rest = arguments
    if action == "produce":
        produce(bootstrap, stop)
    else:
        consume(bootstrap, ConsumerSpec(**json.loads(rest[0])), stop)


if __name__ == "__main__":
    main(sys.argv[1:])
