"""A real consumer in a process of its own that reports its assignment: one JSON line per callback on standard output.

    python client.py '{"bootstrap": …, "group": …, "topic": …, "name": …, "library": "rdk", …}'

SIGTERM leaves the group; SIGUSR1 makes it stop polling for `stall_seconds`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import Any

#: For members that no fault is injected into: a machine that stalls for a minute must not expel them.
SESSION_MS = 120_000


@dataclass
class Spec:
    """The consumer's parameters: `library` is rdk or kp, `protocol` classic or consumer (KIP-848)."""

    bootstrap: str
    group: str
    topic: str
    name: str
    library: str = "rdk"
    protocol: str = "classic"
    assignor: str = "range"
    instance: str | None = None
    session_ms: int = SESSION_MS
    max_poll_ms: int = 300_000
    stall_seconds: float = 0.0
    revoke_seconds: float = 0.0
    metadata_ms: int = 300_000


@dataclass
class EventLog:
    """Keeps track of the owned partitions and reports them after every change."""

    spec: Spec
    owned: set[tuple[str, int]] = field(default_factory=set)

    def write(self, event: str, **more: Any) -> None:
        """Write one line."""
        line = {"t_ms": int(time.time() * 1000), "name": self.spec.name, "event": event, "owned": sorted(self.owned)}
        # In a single write, because the client's own log goes to the same file.
        sys.stdout.write(json.dumps(line | more) + "\n")
        sys.stdout.flush()

    def gain(self, partitions: list[Any]) -> None:
        """Add owned partitions."""
        self.owned |= {(p.topic, p.partition) for p in partitions}
        self.write("assigned")

    def give(self, partitions: list[Any]) -> None:
        """Remove owned partitions, after the delay of a slow callback."""
        if self.spec.revoke_seconds and partitions:
            # The injected fault: a slow callback.
            time.sleep(self.spec.revoke_seconds)
        self.owned -= {(p.topic, p.partition) for p in partitions}
        self.write("revoked")


def open_rdk(spec: Spec, event_log: EventLog) -> tuple[Any, Any]:
    """Open a confluent-kafka consumer and return (poll, close)."""
    from confluent_kafka import Consumer, KafkaError

    settings: dict[str, Any] = {
        "bootstrap.servers": spec.bootstrap,
        "group.id": spec.group,
        "client.id": spec.name,
        "group.protocol": spec.protocol,
        "max.poll.interval.ms": spec.max_poll_ms,
        "auto.commit.interval.ms": 1_000,
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": spec.metadata_ms,
        "log_level": 0,
    }
    if spec.protocol == "classic":
        settings |= {
            "partition.assignment.strategy": spec.assignor,
            "session.timeout.ms": spec.session_ms,
            "heartbeat.interval.ms": min(2_000, spec.session_ms // 3),
        }
    if spec.instance is not None:
        settings["group.instance.id"] = spec.instance
    consumer = Consumer(settings)
    consumer.subscribe(
        [spec.topic],
        on_assign=lambda _, partitions: event_log.gain(partitions),
        on_revoke=lambda _, partitions: event_log.give(partitions),
        on_lost=lambda _, partitions: event_log.give(partitions),
    )

    def poll() -> None:
        message = consumer.poll(0.2)
        error = None if message is None else message.error()
        if error is not None and (error.fatal() or error.code() == KafkaError._FATAL):
            event_log.write("fatal", error=error.name())
            os._exit(3)

    return poll, consumer.close


def open_kp(spec: Spec, event_log: EventLog) -> tuple[Any, Any]:
    """Open a kafka-python consumer and return (poll, close)."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Any) -> None:
            event_log.gain(assigned)

        def on_partitions_revoked(self, revoked: Any) -> None:
            event_log.give(revoked)

    assignors = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}
    consumer = KafkaConsumer(
        bootstrap_servers=spec.bootstrap,
        group_id=spec.group,
        client_id=spec.name,
        group_instance_id=spec.instance,
        session_timeout_ms=spec.session_ms,
        heartbeat_interval_ms=min(2_000, spec.session_ms // 3),
        max_poll_interval_ms=spec.max_poll_ms,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[assignors[spec.assignor]],
    )
    consumer.subscribe([spec.topic], listener=Listener())
    return (lambda: consumer.poll(timeout_ms=200)), consumer.close


def main(text: str) -> None:
    """Consume until SIGTERM."""
    spec = Spec(**json.loads(text))
    event_log, state = EventLog(spec), {"run": True, "stall": False}
    signal.signal(signal.SIGTERM, lambda *_: state.update(run=False))
    signal.signal(signal.SIGUSR1, lambda *_: state.update(stall=True))
    poll, close = (open_rdk if spec.library == "rdk" else open_kp)(spec, event_log)
    event_log.write("started")
    while state["run"]:
        poll()
        if state["stall"]:
            state["stall"] = False
            event_log.write("stalls")
            # The injected fault: slow processing in the polling thread.
            time.sleep(spec.stall_seconds)
    close()
    event_log.write("closed")


if __name__ == "__main__":
    main(sys.argv[1])
