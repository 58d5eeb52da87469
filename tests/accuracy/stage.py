"""Runs the scenarios: one group on a shared broker, its clients, and what they report at the end."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from accuracy import truth
from accuracy.client import Spec
from coordinators import committed_offsets
from rebalance_deploy import jars
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.jdk import find_java
from rebalance_deploy.processes import ChildProcess
from waiting import wait_for

#: Longer than the gap within which two generations count as one rebalance.
QUIET_SECONDS = 9.0


@dataclass
class Stage:
    """One scenario's group."""

    broker: EmbeddedKafka
    directory: Path
    group: str
    partitions: int = 6
    clients: dict[str, ChildProcess] = field(default_factory=dict)
    logs: list[Path] = field(default_factory=list)
    _processes: list[ChildProcess] = field(default_factory=list)
    _paused: set[str] = field(default_factory=set)
    #: The output file of each client's current process; clients of share groups own no partitions to report.
    _latest_logs: dict[str, Path] = field(default_factory=dict)
    _owns: bool = True

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        topic = NewTopic(self.topic, self.partitions, 1)
        for future in self.admin.create_topics([topic]).values():
            future.result()

    @property
    def topic(self) -> str:
        """The scenario's own topic."""
        return f"t-{self.group}"

    def start(self, *names: str, settle: bool = True, **settings: Any) -> None:
        """Start consumers, and wait until each has an assignment or the group is quiet."""
        for name in names:
            spec = Spec(self.broker.bootstrap, self.group, self.topic, name, **settings)
            script = Path(__file__).with_name("client.py")
            self._run(name, [sys.executable, str(script), json.dumps(dataclasses.asdict(spec))])
        if settle:
            self.settle()

    def start_java(self, *names: str, kind: str = "consumer", **settings: str) -> None:
        """Start consumers of Kafka's Java client; settings are the client's own, with underscores for dots."""
        properties = {"bootstrap.servers": self.broker.bootstrap, "group.id": self.group}
        properties |= {name.replace("_", "."): value for name, value in settings.items()}
        self._owns = kind != "share"
        source = Path(__file__).with_name("JavaClient.java")
        for name in names:
            command = [find_java().executable, "-Xmx128m", "-cp", jars.classpath("broker-4.3.1"), source, kind]
            self._run(name, [*command, self.topic, name, *(f"{k}={v}" for k, v in properties.items())])
        self.settle()

    def _run(self, name: str, command: list[str | Path]) -> None:
        log = self.directory / f"{self.group}-{name}-{len(self.logs)}.jsonl"
        self.clients[name] = ChildProcess(command, log_path=log)
        self._processes.append(self.clients[name])
        self.logs.append(log)
        self._latest_logs[name] = log

    def leave(self, *names: str, settle: bool = True) -> None:
        """Close consumers cleanly."""
        for name in names:
            self.clients[name].request_stop()
        for name in names:
            self.clients.pop(name).terminate(300)
        if settle:
            self.settle()

    def kill(self, name: str, *, settle: bool = True) -> None:
        """Kill a consumer and wait until its session has expired."""
        self.clients.pop(name).kill()
        if settle:
            self._await_departure(name)
            self.settle()

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a consumer."""
        os.kill(self.clients[name].pid, number)

    def pause(self, name: str) -> None:
        """Suspend a consumer's process until its group has continued without it."""
        self.signal(name, signal.SIGSTOP)
        self._paused.add(name)
        self._await_departure(name)
        self.settle()

    def resume(self, name: str) -> None:
        """Resume a suspended process; its consumer rejoins."""
        self.signal(name, signal.SIGCONT)
        wait_for(lambda: name in (self.members() or ()), f"{name} to come back")
        self._paused.remove(name)
        self.settle()

    def _await_departure(self, name: str) -> None:
        """Wait until the coordinator has removed a member; its session may have expired before it was told to leave."""

        def is_out() -> bool:
            found = self.members()
            return found is not None and name not in found

        wait_for(is_out, f"{name}'s session to expire", every=0.2)

    def members(self) -> list[str] | None:
        """Return the client names of the members known to the coordinator, or null while it does not answer."""
        try:
            described = self.admin.describe_consumer_groups([self.group])[self.group].result()
        except KafkaException:
            return None
        return [each.client_id for each in described.members]

    def grow(self, partitions: int) -> None:
        """Add partitions to the topic and wait until they are assigned."""
        before = self.progress()
        for future in self.admin.create_partitions([NewPartitions(self.topic, partitions)]).values():
            future.result()
        self.partitions = partitions
        wait_for(lambda: self.progress() != before, "the new partitions to be noticed")
        self.settle()

    def delete_group(self) -> None:
        """Delete the group, which must be empty."""
        for future in self.admin.delete_consumer_groups([self.group]).values():
            future.result()

    def committed(self) -> dict[int, int]:
        """Return the committed offsets by partition, as reported by the coordinator."""
        found = committed_offsets(self.broker.bootstrap, self.group)
        return {partition: offset for (_, partition), offset in found.items()}

    def progress(self) -> int:
        """Return the number of generations or epochs of the group in the broker's log."""
        return self.steps().generations

    def steps(self) -> truth.Steps:
        """Return the steps in the broker's log."""
        with self.broker.log_path.open(errors="replace") as lines:
            return truth.read_steps(lines, self.group)

    def departures(self) -> int:
        """Return the number of departures from the group in the broker's log."""
        with self.broker.log_path.open(errors="replace") as lines:
            return truth.departures(lines, self.group)

    def events(self) -> list[dict[str, Any]]:
        """Return the events reported by the clients."""
        return [event for log in self.logs for event in _read_events(log)]

    def words(self, name: str) -> list[dict[str, Any]]:
        """Return the events of the running client of this name, oldest first."""
        return _read_events(self._latest_logs[name])

    def settle(self, seconds: float = QUIET_SECONDS) -> None:
        """Wait until neither the broker's log nor any client has reported anything about the group for a while."""
        last, since = None, time.monotonic()

        def has_come_to_rest() -> bool:
            nonlocal last, since
            now = (self.steps().busy, len(self.events()))
            if now != last or not self._everybody_is_in():
                last, since = now, time.monotonic()
            return time.monotonic() - since >= seconds

        wait_for(has_come_to_rest, self._report, 300, every=0.2)

    def _everybody_is_in(self) -> bool:
        """Whether all running clients have had an assignment, and each partition has one owner by their reports."""
        words = [self.words(name) for name in self.clients.keys() - self._paused]
        if not all(any(event["event"] == "assigned" for event in each) for each in words):
            return False
        owned = sorted(partition for each in words for _, partition in each[-1]["owned"])
        return not words or not self._owns or owned == list(range(self.partitions))

    def _report(self) -> str:
        latest = {name: self.words(name)[-1:] for name in self.clients}
        return f"{self.group} to come to rest; of {self.partitions} partitions they say {latest}"

    def close(self) -> None:
        """Stop the clients that still run."""
        for process in self._processes:
            process.kill()


def _read_events(log: Path) -> list[dict[str, Any]]:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return [json.loads(line) for line in lines if line.startswith("{")]


Play = Callable[[Stage], None]
