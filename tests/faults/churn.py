"""Groups that rebalance all the time: one member stays, another joins, commits and leaves, again and again.

All are real clients in this process. One of the two groups makes two generations and a few commits per second, so that
every fault interrupts some activity; that is one endless rebalance. The other, `-calm`, is stable for a while between
two generations, so that each is a rebalance with a cause of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, TopicPartition

from e2e.rig import Rig
from rebalance_streaming.groups.episodes import MERGE_WITHIN_MS
from waiting import wait_for

TOPIC, PARTITIONS = "orders", 4
#: Brokers may be down for minutes in a cycle.
_CYCLE_SECONDS = 900.0
_POLL_SECONDS = 0.05
_STOP_SECONDS = 120.0
#: Between two generations; the longer one separates rebalances (groups/episodes.py: MERGE_WITHIN_MS).
_PAUSE_SECONDS, _CALM_SECONDS = 0.2, MERGE_WITHIN_MS / 1000 + 1.5
_CALM = "-calm"


@dataclass
class Churn:
    """A running load."""

    bootstrap: str
    group: str
    pause_seconds: float
    cycles: int = 0
    _stopping: threading.Event = field(default_factory=threading.Event)
    _errors: list[BaseException] = field(default_factory=list)

    def await_cycles(self, more: int = 1) -> None:
        """Wait until this many more members have joined and left."""
        wanted = self.cycles + more
        wait_for(lambda: self.cycles >= wanted or self._errors, f"{self.group} to rebalance", _CYCLE_SECONDS)
        self.check()

    def check(self) -> None:
        """Fail if a client failed."""
        assert not self._errors, self._errors

    def stop(self) -> None:
        """Tell the load to end."""
        self._stopping.set()

    def run(self) -> None:
        """Rebalance until told to stop."""
        try:
            stayer = self._consumer("stayer")
            stayer.subscribe([TOPIC])
            while not self._stopping.is_set() and self._cycle(stayer):
                self.cycles += 1
            stayer.close()
        except BaseException as error:
            self._errors.append(error)

    def _cycle(self, stayer: Consumer) -> bool:
        """Let a member join, commit and leave; return false if told to stop meanwhile."""
        passer = self._consumer("passer")
        passer.subscribe([TOPIC])
        try:
            shared = self._poll_until(lambda: 0 < _owned(passer) < PARTITIONS, stayer, passer)
            if shared:
                for each in (stayer, passer):
                    _commit(each)
                self._stay(stayer, passer)
        finally:
            passer.close()
        return shared and self._poll_until(lambda: _owned(stayer) == PARTITIONS, stayer) and self._stay(stayer)

    def _stay(self, *consumers: Consumer) -> bool:
        """Keep polling without a change of members; return false if told to stop meanwhile."""
        until = time.monotonic() + self.pause_seconds
        return self._poll_until(lambda: time.monotonic() > until, *consumers)

    def _poll_until(self, condition: Callable[[], bool], *consumers: Consumer) -> bool:
        while not condition():
            if self._stopping.is_set():
                return False
            for each in consumers:
                each.poll(_POLL_SECONDS)
        return True

    def _consumer(self, name: str) -> Consumer:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "client.id": f"{self.group}-{name}",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
            "error_cb": lambda _: None,
        }
        return Consumer(settings)


def _owned(consumer: Consumer) -> int:
    return len(consumer.assignment())


def _commit(consumer: Consumer) -> None:
    # A member whose brokers are down, or that has lost its membership, commits in its next cycle.
    with suppress(KafkaException):
        consumer.commit(offsets=[TopicPartition(each.topic, each.partition, 0) for each in consumer.assignment()])


def is_calm(group: str) -> bool:
    """Whether a group's rebalances are separate."""
    return group.endswith(_CALM)


def groups_of(group: str) -> tuple[str, str]:
    """Return the groups of a load."""
    return group, group + _CALM


@contextmanager
def churning(rig: Rig, group: str) -> Iterator[Churn]:
    """Let a group and its calm companion rebalance while the block runs; all members have left when it returns."""
    restless, calm = groups_of(group)
    with _running(Churn(rig.broker.bootstrap, restless, _PAUSE_SECONDS), _calm_churn(rig, calm)) as loads:
        yield loads[0]


@contextmanager
def churning_calmly(rig: Rig, group: str) -> Iterator[Churn]:
    """Let a group rebalance while the block runs, with pauses that separate its rebalances."""
    with _running(_calm_churn(rig, group)) as loads:
        yield loads[0]


def _calm_churn(rig: Rig, group: str) -> Churn:
    """Return the load of a group with separate rebalances."""
    return Churn(rig.broker.bootstrap, group, _CALM_SECONDS)


@contextmanager
def _running(*loads: Churn) -> Iterator[tuple[Churn, ...]]:
    """Run loads, and yield once the first of them has completed a cycle."""
    threads = [threading.Thread(target=each.run, name=f"churn-{each.group}") for each in loads]
    for thread in threads:
        thread.start()
    try:
        loads[0].await_cycles()
        yield loads
    finally:
        for each in loads:
            each.stop()
        for thread in threads:
            thread.join(_STOP_SECONDS)
    for each, thread in zip(loads, threads, strict=True):
        assert not thread.is_alive(), f"{each.group} did not stop"
        each.check()
