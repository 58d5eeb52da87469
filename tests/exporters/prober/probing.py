"""A prober in a thread, the probes that it published, and members of groups."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

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


def first(probed: Probed, group: str, state: str, members: int) -> tuple[float, Probe]:
    """Wait for the first probe with a state and this many members; return it with its time of reading."""

    def look() -> tuple[float, Probe] | None:
        for at, probe in probed.timed(group):
            if probe.state == state and isinstance(probe.members, tuple) and len(probe.members) == members:
                return at, probe
        return None

    found = wait_for(look, lambda: probed.of(group))
    assert found is not None
    return found


class GroupMember:
    """A member of a group that polls in a thread of its own, except while a test holds it.

    Only that thread uses the client; `partitions` (null before the first assignment) and `member_id` are as of its last
    poll.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, client_id: str, **settings: str) -> None:
        names = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": client_id}
        self._consumer = Consumer({**names, "log_level": 0, **settings})
        self._consumer.subscribe([topic])
        self._closing = threading.Event()
        self._free = threading.Event()
        self._free.set()
        self._idle = threading.Event()
        self.partitions: list[int] | None = None
        self.member_id: str | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._free.set()
        self._thread.join(DEADLINE_SECONDS)

    def hold(self) -> None:
        """Stop polling; return when it did."""
        self._idle.clear()
        self._free.clear()
        assert self._idle.wait(DEADLINE_SECONDS)

    def release(self) -> None:
        """Resume polling."""
        self._free.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._consumer.poll(0.05)
            assignment = self._consumer.assignment()
            self.partitions = sorted(each.partition for each in assignment) if assignment else None
            self.member_id = self._consumer.memberid()
            if not self._free.is_set():
                self._idle.set()
                self._free.wait()
        self._consumer.close()
