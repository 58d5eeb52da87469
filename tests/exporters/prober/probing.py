"""A prober in a thread, and the probes that it published."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from rebalance_contract import Probe, decode
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.prober.run import run
from waiting import wait_for

DEADLINE_SECONDS = 120


class Probed:
    """Reads the probes topic as the stream does, and keeps all probes with the times at which they were read."""

    def __init__(self, config: ProbeConfig, said: list[str]) -> None:
        self.said = said
        self._topic = config.probes_topic
        settings: dict[str, Any] = {"group.id": "unused", "enable.auto.commit": False, "log_level": 0}
        self._consumer = Consumer({**config.kafka, **settings})
        self._all: list[tuple[float, Probe]] = []
        self._assigned = False

    def of(self, group: str) -> list[Probe]:
        """Return everything published about a group so far, in order."""
        return [probe for _, probe in self.timed(group)]

    def timed(self, group: str) -> list[tuple[float, Probe]]:
        """The same with the time of reading, on the monotonic clock."""
        if not self._assigned:
            self._assigned = self._topic in self._consumer.list_topics(timeout=DEADLINE_SECONDS).topics
            if self._assigned:
                self._consumer.assign([TopicPartition(self._topic, 0, 0)])
        while self._assigned and (message := self._consumer.poll(0.1)) is not None:
            if message.error() is None:
                probe = decode(message.value() or b"", Probe)
                assert message.key() == probe.group.encode()
                self._all.append((time.monotonic(), probe))
        return [(at, probe) for at, probe in self._all if probe.group == group]

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()


def make_config(bootstrap: str, prefix: str, **changes: Any) -> ProbeConfig:
    """Return settings for this machine and any free port."""
    kafka = {"bootstrap.servers": bootstrap}
    fixed = {"kafka": kafka, "cluster": "test", "topic_prefix": prefix, "listen_host": "127.0.0.1", "listen_port": 0}
    return ProbeConfig(**{**fixed, "topic_replication_factor": 1, **changes})


@contextmanager
def probing(config: ProbeConfig) -> Iterator[Probed]:
    """Run the prober until the block ends; it must still run then, and stop when told to."""
    stop, said, errors = threading.Event(), [], []

    def target() -> None:
        try:
            run(config, stop, said.append)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    probed = Probed(config, said)
    try:
        wait_for(lambda: errors or any("serving on" in line for line in said), "the prober's announcement")
        assert not errors, errors
        yield probed
        assert thread.is_alive()
    finally:
        probed.close()
        stop.set()
        thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()
    assert not errors, errors
