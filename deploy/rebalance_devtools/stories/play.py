"""One run of a story: its topics, its traffic, its client processes, and the events that they report.

Takes a stage and a script; returns a `StoryRun`, the truth that a monitor is compared with. It ends on conditions with
deadlines: when the symptom was seen often enough or, for the cured form, after the quiet time without a symptom.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from rebalance_deploy.broker_log import read_truth
from rebalance_deploy.errors import UserError
from rebalance_deploy.ports import find_free_port
from rebalance_deploy.processes import ChildProcess
from rebalance_devtools.stories.client_commands import ClientStart
from rebalance_devtools.stories.network import Fault, Network
from rebalance_devtools.stories.script import (
    CONNECT,
    ClientSpec,
    Event,
    Parameters,
    Script,
)
from rebalance_devtools.stories.stage import Stage, find_coordinator

T = TypeVar("T")
Hear = Callable[[Event], None]

_LISTEN_SECONDS = 0.1
_STOP_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class StoryRun:
    """What happened, according to the clients' events and the brokers' log. Times are epoch milliseconds."""

    story: str
    cured: bool
    seed: int
    kafka_version: str
    library: str
    parameters: Parameters
    group: str
    topic: str
    started_ms: int
    ended_ms: int
    symptoms: int
    events: tuple[Event, ...]
    broker_lines: tuple[str, ...]

    def member_ids(self, name: str) -> tuple[str, ...]:
        """Return the member ids that a client of the play had, in order."""
        ids = (event["member_id"] for event in self.events if event["name"] == name and event.get("member_id"))
        return tuple(dict.fromkeys(ids))

    def to_json(self) -> dict[str, Any]:
        """Return the run as JSON data, with the member ids of every client in addition."""
        names = dict.fromkeys(event["name"] for event in self.events)
        return {**asdict(self), "parameters": dict(self.parameters), "members": {n: self.member_ids(n) for n in names}}


@dataclass(slots=True)
class _Client:
    name: str
    process: ChildProcess
    log: Path
    read: int = 0
    dismissed: bool = False


@dataclass
class Play:
    """Passed to a story's `perform` to run it. `form` is the client of the sick or cured form."""

    story: Script
    stage: Stage
    cured: bool
    seed: int
    directory: Path
    on_event: Hear
    metrics_topic: str | None
    parameters: Parameters
    form: ClientSpec
    group: str
    events: list[Event] = field(default_factory=list)
    started_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    _clients: dict[str, _Client] = field(default_factory=dict)
    _past: list[_Client] = field(default_factory=list)
    _traffic: list[_Traffic] = field(default_factory=list)
    _hosts: dict[str, str] = field(default_factory=dict)
    _rest_ports: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.topic = f"t-{self.group}"
        self.admin = AdminClient({"bootstrap.servers": self.stage.bootstrap, "log_level": 0})

    # --- topics and records ---

    def create_topic(
        self, partitions: int, *, leaders: Sequence[int] = (), name: str | None = None, replicas: int = 1
    ) -> None:
        """Create the play's topic, or the topic `name`; `leaders`, if given, lead its partitions in turn."""
        places = [[leaders[number % len(leaders)]] for number in range(partitions)] if leaders else None
        topic = (
            NewTopic(name or self.topic, partitions, replicas)
            if places is None
            else NewTopic(name or self.topic, partitions, replica_assignment=places)
        )
        for future in self.admin.create_topics([topic]).values():
            future.result(30)

    def grow_topic(self, partitions: int) -> None:
        """Increase the play's topic to this number of partitions."""
        for future in self.admin.create_partitions([NewPartitions(self.topic, partitions)]).values():
            future.result(30)
        self.note("", "topic_grown", partitions=partitions)

    def fill(self, records: int, *, partitions: int) -> None:
        """Write records to the topic's partitions in turn, and return when the brokers have stored them."""
        producer = Producer({"bootstrap.servers": self.stage.bootstrap, "log_level": 0})
        for number in range(records):
            producer.produce(self.topic, value=b"x" * 20, partition=number % partitions)
        producer.flush(30)

    def write(self, value: bytes, *, partition: int) -> None:
        """Write one record to the play's topic, and return when the broker has stored it."""
        producer = Producer({"bootstrap.servers": self.stage.bootstrap, "log_level": 0})
        producer.produce(self.topic, value=value, partition=partition)
        producer.flush(30)
        self.note("", "written", partition=partition)

    def ends(self) -> dict[int, int]:
        """Return the end offset of each partition of the play's topic."""
        partitions = self.admin.list_topics(self.topic, timeout=30).topics[self.topic].partitions
        consumer = Consumer(
            {"bootstrap.servers": self.stage.bootstrap, "group.id": f"{self.group}-ends", "log_level": 0}
        )
        with closing(consumer):
            places = {number: TopicPartition(self.topic, number) for number in partitions}
            return {number: consumer.get_watermark_offsets(place, timeout=30)[1] for number, place in places.items()}

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        for future in self.admin.delete_topics([name]).values():
            future.result(30)
        self.note("", "topic_deleted", topic=name)

    def traffic(self, *, per_second: float, partitions: int, name: str | None = None, value: bytes = b"x") -> _Traffic:
        """Write records to the partitions in turn at a steady rate, until `stop` of the result or the play's end."""
        started = _Traffic(self.stage.bootstrap, name or self.topic, per_second, partitions, value)
        self._traffic.append(started)
        return started

    def coordinator(self) -> int:
        """Return the id of the broker that coordinates the play's group."""
        return find_coordinator(self.stage.bootstrap, self.group)

    def brokers(self) -> list[int]:
        """Return the ids of the cluster's brokers."""
        return sorted(self.admin.list_topics(timeout=30).brokers)

    # --- clients ---

    def start(
        self,
        name: str,
        form: ClientSpec | None = None,
        *,
        group: str | None = None,
        host: str | None = None,
        **program: Any,
    ) -> None:
        """Start a client of the play's form, or of another one; `program` overrides the options of its program.

        With a host, a loopback address, the client connects through the stage's network, now and in later starts.
        """
        chosen = form or self.form
        chosen = replace(chosen, program={**chosen.program, **program})
        if host is not None:
            self._hosts[name] = host
            self.network.place(self.client_id(name), host)
        client = ClientStart(
            name,
            chosen,
            group or self.group,
            self.topic,
            self.stage,
            self.directory,
            self.network.bootstrap if name in self._hosts else self.stage.bootstrap,
            through_network=name in self._hosts,
            client_id=self.client_id(name),
            metrics_topic=self.metrics_topic,
            rest_port=self.rest_port(name) if chosen.library == CONNECT else None,
        )
        command, more = client.command()
        log = self.directory / f"{name}-{len(self._past) + len(self._clients)}.jsonl"
        env = {**os.environ, **more} if more else None
        process = ChildProcess(command, log_path=log, env=env, cwd=self.directory)
        if name in self._clients:
            self._past.append(self._clients[name])
        self._clients[name] = _Client(name, process, log)

    def start_all(self, names: Sequence[str], until: str, **program: Any) -> None:
        """Start clients of the play's form at once, and wait until each has reported the event `until`."""
        for name in names:
            self.start(name, **program)
        for name in names:
            self.await_event(name, until)

    def leave(self, name: str) -> None:
        """Stop a client in an orderly way."""
        self.note(name, "closing")
        self._dismiss(name).terminate(_STOP_SECONDS)

    def kill(self, name: str) -> None:
        """Kill a client, as in a crash."""
        self._dismiss(name).kill()
        self.note(name, "killed")

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a client's process."""
        os.kill(self._clients[name].process.pid, number)
        self.note(name, "signal", number=int(number))

    def stall(self, name: str) -> None:
        """Make a client that was started with `stall_file` work on its next record for its `stall_ms`."""
        self.stall_file(name).touch()
        self.note(name, "told_to_stall")

    def stall_file(self, name: str) -> Path:
        """Return the file that makes a client stall, for clients without their own signal handlers."""
        return self.directory / f"{name}.stall"

    def expect_end(self, name: str) -> None:
        """Do not treat the end of this client as an error."""
        self._clients[name].dismissed = True

    def is_running(self, name: str) -> bool:
        """Return whether a client's process is running."""
        return self._clients[name].process.is_running

    def _dismiss(self, name: str) -> ChildProcess:
        self._clients[name].dismissed = True
        return self._clients[name].process

    def rest_port(self, name: str) -> int:
        """Return the REST port of a Connect worker, the same every time."""
        return self._rest_ports.setdefault(name, find_free_port())

    # --- faults of the stage ---

    @property
    def network(self) -> Network:
        """The stage's network. Raises UserError if the stage has none."""
        if self.stage.network is None:
            raise UserError(f"story {self.story.id} needs a stage with a network")
        return self.stage.network

    def client_id(self, name: str) -> str:
        """Return a client's id; it must be unique on a network that is shared by many plays."""
        return f"{self.group}-{name}" if name in self._hosts else name

    def disturb(self, name: str, fault: Fault, **how: float) -> None:
        """Set the network fault of a client that was started with a host; `how` has its parameters."""
        self.network.set_fault(self.client_id(name), fault, **how)
        self.note(name, "network", fault=fault.value, **how)

    def move(self, name: str, host: str) -> None:
        """Change the host of a client that was started with one: its connections end, new ones come from `host`."""
        self.network.set_fault(self.client_id(name), Fault.CUT)
        self.network.move(self.client_id(name), host)
        self.await_seconds(1)
        self.network.set_fault(self.client_id(name), Fault.NONE)
        self._hosts[name] = host
        self.note(name, "moved", host=host)

    def deny(self, kind: ResourceType, resource: str, host: str) -> None:
        """Deny a host to read a group or a topic.

        Once a resource has an ACL, everything not allowed is denied, so all operations are first allowed for all hosts.
        """
        rules = [
            AclBinding(kind, resource, ResourcePatternType.LITERAL, "User:*", whence, operation, permission)
            for whence, operation, permission in (
                ("*", AclOperation.ALL, AclPermissionType.ALLOW),
                (host, AclOperation.READ, AclPermissionType.DENY),
            )
        ]
        for rule in rules:
            for future in self.admin.create_acls([rule]).values():
                future.result(30)
        self.note("", "denied", kind=kind.name, resource=resource, host=host)

    # --- hearing and waiting ---

    def note(self, name: str, event: str, **more: Any) -> None:
        """Record an action on a client (or none: empty name) in the list of events."""
        self._take({"t_ms": int(time.time() * 1000), "name": name, "process": "", "event": event, **more})

    def hear(self) -> None:
        """Read the new events of all clients. Raises UserError if a client ended unexpectedly."""
        for client in [*self._past, *self._clients.values()]:
            for event in _read_events(client):
                self._take(event)
            if not client.process.is_running and not client.dismissed and not _has_closed(client.log):
                raise UserError(f"client {client.name} ended by itself: {_last_line(client.log)} (log: {client.log})")

    def _take(self, event: Event) -> None:
        self.events.append(event)
        self.on_event(event)

    def wait(self, condition: Callable[[], T], what: str, seconds: float = 180) -> T:
        """Return the condition's value once it is true, reading events meanwhile. Raises UserError on time-out."""
        deadline, pause = time.monotonic() + seconds, threading.Event()
        while True:
            self.hear()
            if found := condition():
                return found
            if time.monotonic() > deadline:
                raise UserError(
                    f"story {self.story.id}: waited {seconds:.0f} s in vain for {what}; see {self.directory}"
                )
            pause.wait(_LISTEN_SECONDS)

    def events_of(self, name: str, event: str) -> list[Event]:
        """Return a client's events of one kind so far."""
        return [each for each in self.events if each["name"] == name and each["event"] == event]

    def await_end(self, name: str, what: str, seconds: float = 180) -> None:
        """Wait until a client's process has ended; `what` is the reason, for the message on time-out."""
        self.wait(lambda: not self.is_running(name), f"{name} {what}", seconds)

    def await_event(self, name: str, event: str, *, times: int = 1, seconds: float = 180) -> None:
        """Wait until a client has reported an event `times` times."""
        self.wait(lambda: len(self.events_of(name, event)) >= times, f"{name} to report {event} x{times}", seconds)

    def await_seconds(self, seconds: float) -> None:
        """Wait for a fixed time, while reading events and watching for clients that end."""
        until = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() >= until, "time", seconds + 60)

    @property
    def symptoms(self) -> int:
        """Number of symptoms so far."""
        return self.story.count_symptoms(self.events, self.parameters)

    def await_outcome(self) -> None:
        """Wait for enough symptoms in the sick form; in the cured form for a symptom or the end of the quiet time."""
        if not self.cured:
            self.wait(lambda: self.symptoms >= self.story.enough, "the symptom", self.story.seconds)
            return
        seconds = self.story.quiet_seconds(self.parameters)
        until = time.monotonic() + seconds
        self.wait(lambda: self.symptoms > 0 or time.monotonic() >= until, "quiet", seconds + 60)

    @property
    def generation(self) -> int:
        """The group's latest generation with an assignment in the brokers' logs; 0 for none. Classic groups only."""
        truth = read_truth(self._broker_lines()).get(self.group)
        return 0 if truth is None else max(truth.completed, default=0)

    def await_generation(self, after: int, seconds: float = 180) -> None:
        """Wait until the group has got an assignment in a generation later than `after`."""
        self.wait(lambda: self.generation > after, f"a generation after {after}", seconds)

    def count_logged(self, pattern: str) -> int:
        """Return the number of lines about the group in the brokers' logs that match a pattern."""
        return sum(re.search(pattern, line) is not None for line in self._broker_lines())

    def await_logged(self, pattern: str, *, times: int = 1, seconds: float = 180) -> None:
        """Wait until the brokers' logs have `times` lines about the group that match a pattern."""
        self.wait(lambda: self.count_logged(pattern) >= times, f"the brokers to log {pattern!r} x{times}", seconds)

    def run(self) -> StoryRun:
        """Return what happened so far."""
        self.hear()
        return StoryRun(
            story=self.story.id,
            cured=self.cured,
            seed=self.seed,
            kafka_version=self.stage.kafka_version,
            library=self.form.library,
            parameters=self.parameters,
            group=self.group,
            topic=self.topic,
            started_ms=self.started_ms,
            ended_ms=int(time.time() * 1000),
            symptoms=self.symptoms,
            events=tuple(sorted(self.events, key=lambda event: event["t_ms"])),
            broker_lines=self._broker_lines(),
        )

    def _broker_lines(self) -> tuple[str, ...]:
        """Return the coordinators' lines about the group in all brokers' logs, one log after the other."""
        about = re.compile(rf"(?<![\w-]){re.escape(self.group)}(?![\w-])")
        found = []
        for log in self.stage.broker_logs:
            lines = log.read_text(errors="replace").splitlines()
            found += [line for line in lines if about.search(line) and "GroupCoordinator" in line]
        return tuple(found)

    def close(self) -> None:
        """Stop the traffic and kill all clients."""
        for traffic in self._traffic:
            traffic.stop()
        for client in [*self._past, *self._clients.values()]:
            client.dismissed = True
            client.process.kill()


class _Traffic:
    """A producer that writes records at a steady rate in a thread."""

    def __init__(self, bootstrap: str, topic: str, per_second: float, partitions: int, value: bytes) -> None:
        self._stop = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
        self._thread = threading.Thread(target=self._run, args=(topic, 1 / per_second, partitions, value), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, and return when all records have been delivered (at most 10 s)."""
        self._stop.set()
        self._thread.join()
        self._producer.flush(10)

    def _run(self, topic: str, period: float, partitions: int, value: bytes) -> None:
        number = 0
        while not self._stop.wait(period):
            self._producer.produce(topic, value=value, partition=number % partitions)
            self._producer.poll(0)
            number += 1


def _read_events(client: _Client) -> Iterator[Event]:
    """Yield the events among the complete lines that a client wrote since the last call."""
    if not client.log.exists():
        return
    with client.log.open("rb") as file:
        file.seek(client.read)
        text = file.read()
    whole = text[: text.rfind(b"\n") + 1]
    client.read += len(whole)
    for line in whole.splitlines():
        if line.startswith(b'{"t_ms"'):
            yield json.loads(line)


def _has_closed(log: Path) -> bool:
    return '"event": "closed"' in log.read_text(errors="replace")


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
