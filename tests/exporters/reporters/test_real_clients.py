"""Reporters in real clients of all generations, with a real broker, through a stall, an outage and the close."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rebalance_deploy.broker_log import read_truth
from rebalance_deploy.embedded.kafka import SHORT_SESSION, EmbeddedKafka
from rebalance_deploy.topics import create_topics
from rebalance_devtools.clients import client_environment
from rebalance_streaming.wire.metrics.formats import decode_metrics
from waiting import wait_for as wait_up_to

pytestmark = [pytest.mark.broker, pytest.mark.timeout(900)]

T = TypeVar("T")

CLIENT = Path(__file__).with_name("client.py")
REPORTS = "rebalance-monitor.client-metrics"
INTERVAL_MS = 1000
#: Tolerated delay of a thread's wake-up, in addition to the measured stalls of the machine.
LATE_MS = 3000
#: Unacknowledged records are sent again after this time, see `_PRODUCER` of both reporters.
SENT_AGAIN_MS = 10_000
STALL_SECONDS = 6.0
OUTAGE_SECONDS = 4.0

#: Many processes start at the same time, on a machine that may be busy.
DEADLINE_SECONDS = 300.0

#: Long enough for the session to outlast a stall of the machine.
SESSION_MS, HEARTBEAT_MS = 30_000, 2000
STARVED_SESSION_MS, STARVED_MS = 6000, 12_000
PYTHON_SETTINGS = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS}
CONFLUENT_SETTINGS = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}


def wait_for(condition: Callable[[], T], what: str | Callable[[], object]) -> T:
    """Wait with this module's deadline."""
    return wait_up_to(condition, what, DEADLINE_SECONDS)


@dataclass
class Case:
    """A client: its library and, for all except the installed one, its environment."""

    library: str
    version: str
    environment: str | None = None
    loop: str = "poll"
    settings: dict[str, Any] = field(default_factory=dict)
    plain: bool = False


CASES = {
    "old": Case("kafka-python", "1.4.6", "kafka-python-1.4.6"),
    "middle": Case("kafka-python", "2.2.15", "kafka-python-2.2.15", "iterate"),
    "new": Case("kafka-python", "3.0.12", None, "iterate"),
    "confluent": Case("confluent", "2.16.1"),
    "plain": Case("kafka-python", "3.0.12", plain=True),
    # Fetches that wait longer than a session: the iterator holds the client's lock meanwhile (dpkp/kafka-python#1418).
    "starved": Case(
        *("kafka-python", "1.4.6", "kafka-python-1.4.6", "iterate"),
        # The first fetch begins before the first heartbeat is due.
        {
            "fetch_max_wait_ms": STARVED_MS,
            "session_timeout_ms": STARVED_SESSION_MS,
            "heartbeat_interval_ms": STARVED_SESSION_MS - 500,
        },
    ),
}
REPORTERS = ("old", "middle", "new", "confluent")


class Client:
    """A process that consumes and reports."""

    def __init__(self, name: str, case: Case, bootstrap: str, directory: Path) -> None:
        self.case, self.group = case, f"group-{name}"
        self.events: list[dict[str, Any]] = []
        self._log = directory / f"{name}.log"
        id_, fixed = (
            ("client_id", PYTHON_SETTINGS) if case.library != "confluent" else ("client.id", CONFLUENT_SETTINGS)
        )
        spec = {
            "library": case.library,
            "bootstrap": bootstrap,
            "group": self.group,
            "topic": f"orders-{name}",
            "reports": REPORTS,
            "interval_seconds": INTERVAL_MS / 1000,
            "loop": case.loop,
            "settings": {id_: f"client-{name}", **fixed, **case.settings},
            "plain": case.plain,
        }
        path = {"PYTHONPATH": str(client_environment(case.environment))} if case.environment else {}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", CLIENT, json.dumps(spec)],
                env={**os.environ, **path},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def order(self, text: str) -> None:
        """Send a command; it is executed after the next call of the client."""
        assert self._process.stdin
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()

    def reported(self, event: str) -> list[dict[str, Any]]:
        """Return all events of a kind so far."""
        return [each for each in self.events if each["event"] == event]

    @property
    def machine_late_ms(self) -> int:
        """The longest time for which the machine stalled the whole process, as measured by an idle thread in it."""
        return max((each["late_ms"] for each in self.reported("late")), default=0)

    @property
    def errors(self) -> str:
        """The client's output on standard error."""
        return self._log.read_text(errors="replace")

    def close(self) -> None:
        """End the client if it still runs."""
        self._process.kill()
        self._process.wait()
        self._reading.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream
            stream.close()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self.events.append(json.loads(line))


class Topic:
    """Reads the reports as they arrive."""

    def __init__(self, bootstrap: str) -> None:
        self.records: dict[str, list[tuple[int, bytes]]] = {}
        self._end = threading.Event()
        settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
        self._consumer = Consumer({**settings, "error_cb": lambda _: None})
        self._consumer.assign([TopicPartition(REPORTS, 0, 0)])
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def of(self, client: Client) -> list[dict[str, Any]]:
        """Return a client's reports, in the order they arrived."""
        return [json.loads(value) for _, value in self.records.get(client.group, [])]

    def close(self) -> None:
        """Stop reading."""
        self._end.set()
        self._reading.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._end.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                key = (message.key() or b"").decode()
                self.records.setdefault(key, []).append((message.timestamp()[1], message.value() or b""))


@dataclass
class Played:
    """The events of all clients."""

    clients: dict[str, Client]
    topic: Topic
    members: dict[str, str]
    generations: dict[str, int]
    outage_ms: tuple[int, int]

    def reports(self, name: str) -> list[dict[str, Any]]:
        """Return one client's reports."""
        return self.topic.of(self.clients[name])


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """All clients at the same time: they join, consume, stall, lose their broker for a while, and close."""
    directory = tmp_path_factory.mktemp("clients")
    with EmbeddedKafka(config=SHORT_SESSION) as broker:
        create_topics(broker.bootstrap, {f"orders-{name}": 2 for name in CASES})
        create_reports_topic(broker.bootstrap)
        topic = Topic(broker.bootstrap)
        clients = {name: Client(name, case, broker.bootstrap, directory) for name, case in CASES.items()}
        try:
            yield play(broker, clients, topic)
        finally:
            for client in clients.values():
                client.close()
            topic.close()


def create_reports_topic(bootstrap: str) -> None:
    """Create the topic as documented, so that its records have their arrival times."""
    topic = NewTopic(REPORTS, 1, 1, config={"message.timestamp.type": "LogAppendTime"})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([topic])[REPORTS].result()


def play(broker: EmbeddedKafka, clients: dict[str, Client], topic: Topic) -> Played:
    """Run the stages, each one only after the previous one has taken effect."""
    lively = {name: client for name, client in clients.items() if name != "starved"}
    for name in REPORTERS:
        wait_for(lambda name=name: joined(topic.of(clients[name])), lambda name=name: clients[name].errors)
    wait_for(lambda: topic.of(clients["plain"]), lambda: clients["plain"].errors)
    members = ask_members(broker.bootstrap, [clients[name].group for name in REPORTERS])
    wait_for(lambda: len(owning(topic.of(clients["starved"]))) >= 12, "twelve seconds of starvation")

    for client in lively.values():
        client.order(f"stall {STALL_SECONDS}")
    # Iterating clients check for commands when they get a record.
    produce_until(broker.bootstrap, lively, lambda client, _: client.reported("stalls"))
    wait_for(lambda: all(client.reported("goes on") for client in lively.values()), "the end of the stalls")

    with broker.log_path.open(errors="replace") as lines:
        generations = {group: truth.generation for group, truth in read_truth(lines).items()}
    outage_ms = take_away(broker)
    for name in REPORTERS:
        after = outage_ms[1] + INTERVAL_MS
        wait_for(
            lambda name=name, after=after: topic.of(clients[name])[-1]["emitted_ms"] > after,
            lambda name=name: (name, clients[name].events[-3:], clients[name].errors),
        )
    for client in lively.values():
        client.order("close")
    produce_until(broker.bootstrap, lively, lambda client, _: client.reported("closed"))
    wait_for(lambda: all(topic.of(each)[-1].get("closing") for each in lively.values()), "the last reports")
    return Played(clients, topic, members, generations, outage_ms)


def joined(reports: list[dict[str, Any]]) -> bool:
    """Whether the client knows its member id, and had time for a heartbeat."""
    return len([each for each in reports if each["client"].get("member_id")]) >= 4


def owning(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return kafka-python's reports as a member that has its partitions and could fetch."""
    return [each for each in reports if each["client"]["member_id"] and coordinator(each)["assigned-partitions"] == 2]


def ask_members(bootstrap: str, groups: list[str]) -> dict[str, str]:
    """Return the members known to the broker: group -> id of its only member."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def ask() -> dict[str, str] | None:
        # A broker that stalled loads its groups again, and removes members that come back.
        try:
            found = {group: future.result() for group, future in admin.describe_consumer_groups(groups).items()}
            return {group: description.members[0].member_id for group, description in found.items()}
        except (KafkaException, IndexError):
            return None

    members = wait_for(ask, "a member of each group")
    assert members is not None
    return members


def produce(bootstrap: str, *names: str) -> None:
    """Write a record to each client's topic."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for name in names:
        producer.produce(f"orders-{name}", b"x")
    assert producer.flush(120) == 0


def produce_until(bootstrap: str, clients: dict[str, Client], done: Any) -> None:
    """Write records until each client has obeyed; the first may arrive before the command, or before the join."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while left := [name for name, client in clients.items() if not done(client, name)]:
        assert time.monotonic() < deadline, f"{left} do not do what they are asked to"
        produce(bootstrap, *left)
        threading.Event().wait(0.5)


def take_away(broker: EmbeddedKafka) -> tuple[int, int]:
    """Kill the broker and restart it a while later; return the begin and end of the outage in epoch ms."""
    broker.kill()
    began_ms = time.time_ns() // 1_000_000
    # The length of the outage is what the test is about.
    threading.Event().wait(OUTAGE_SECONDS)
    ended_ms = time.time_ns() // 1_000_000
    broker.start()
    return began_ms, ended_ms


def stalled(client: Client, reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the reports made while the application slept; one begun just before its end may include later events."""
    (began,), (ended,) = client.reported("stalls"), client.reported("goes on")
    until_ms = ended["t_ms"] - 500
    for late in reversed(client.reported("late")):
        if began["t_ms"] < late["t_ms"] and late["t_ms"] - late["late_ms"] < until_ms <= late["t_ms"]:
            until_ms = late["t_ms"] - late["late_ms"]
    return [each for each in reports if began["t_ms"] < each["emitted_ms"] < until_ms]


def coordinator(report: dict[str, Any]) -> dict[str, Any]:
    """Return a kafka-python report's coordinator metrics."""
    metrics: dict[str, Any] = report["metrics"]["consumer-coordinator-metrics"]
    return metrics


@pytest.mark.parametrize("name", REPORTERS)
def test_a_report_names_group_member_and_settings(played, name):
    """As known to the broker."""
    case, group = CASES[name], f"group-{name}"
    joined = [each for each in played.reports(name) if each["client"]["member_id"] == played.members[group]]
    assert joined
    for client in (each["client"] for each in joined):
        assert (client["client_id"], client["group_id"], client["version"]) == (f"client-{name}", group, case.version)
        assert client["config"]["session_timeout_ms"] == SESSION_MS
        assert client["config"]["heartbeat_interval_ms"] == HEARTBEAT_MS


@pytest.mark.parametrize("name", ["old", "middle", "new"])
def test_a_report_names_the_generation(played, name):
    """The number in the broker's log; librdkafka reports none."""
    reported = [each["client"] for each in played.reports(name) if each["emitted_ms"] < played.outage_ms[0]]
    stable = [(each["generation"], each["state"]) for each in reported if each["member_id"]]
    assert stable[-1] == (played.generations[f"group-{name}"], "stable")


@pytest.mark.parametrize("name", REPORTERS)
def test_reports_come_every_interval_and_none_is_lost(played, name):
    """Through join, stall and outage; late reports have their delay.

    The report during which the broker died may be there twice: written, and sent again because it was not acknowledged.
    Others may be as well, if the broker took ten seconds to acknowledge them.
    """
    client = played.clients[name]
    came_ms: dict[bytes, list[int]] = {}
    for at_ms, value in played.topic.records[client.group]:
        came_ms.setdefault(value, []).append(at_ms)
    raw = list(came_ms)
    again = [value for value, times in came_ms.items() if len(times) > 1]
    soon = [value for value in again if came_ms[value][1] - json.loads(value)["emitted_ms"] < SENT_AGAIN_MS - 1000]
    assert len(soon) <= 1
    reports = sorted(map(json.loads, raw), key=lambda each: each["seq"])
    assert [each["seq"] for each in reports] == list(range(len(reports)))
    assert {each["dropped"] for each in reports} == {0}
    due_ms = [each["emitted_ms"] - each["tick_late_ms"] for each in reports[:-1]]
    gaps_ms = [(later - earlier) % INTERVAL_MS for earlier, later in itertools.pairwise(due_ms)]
    assert all(min(gap, INTERVAL_MS - gap) < 250 for gap in gaps_ms)
    assert max(each["tick_late_ms"] for each in reports) < LATE_MS + client.machine_late_ms


@pytest.mark.parametrize("name", REPORTERS)
def test_a_stalled_application_shows(played, name):
    """Reports continue, the last poll's return is constant, and heartbeats do not depend on the application."""
    client = played.clients[name]
    reports = stalled(client, played.reports(name))
    assert len(reports) >= max(1, STALL_SECONDS - 2 - 2 * client.machine_late_ms / INTERVAL_MS)
    apps = [each["app"] for each in reports]
    assert {(each["last_poll_return_ms"], each["waiting_since_ms"]) for each in apps} == {
        (apps[0]["last_poll_return_ms"], None)
    }
    assert apps[0]["last_poll_return_ms"] <= reports[0]["emitted_ms"]
    # A polling client may have had an empty poll before it read the command.
    assert apps[0]["records_in_last_poll"] >= (1 if CASES[name].loop == "iterate" else 0)
    if name == "confluent":
        ages = [each["statistics_age_ms"] for each in reports]
        assert ages[-1] - ages[0] >= INTERVAL_MS * (len(ages) - 2)
    else:
        ages = [coordinator(each)["last-heartbeat-seconds-ago"] * 1000 for each in reports]
        # While the broker does not answer, reports arrive late, and the next heartbeat waits for the last response.
        arrived_ms = {json.loads(value)["seq"]: at for at, value in reversed(played.topic.records[client.group])}
        broker_late_ms = max(arrived_ms[each["seq"]] - each["emitted_ms"] for each in reports)
        assert max(ages) < HEARTBEAT_MS + LATE_MS + client.machine_late_ms + broker_late_ms


def test_starved_heartbeats_show(played):
    """Never sent, while the reporter, which needs none of the client's locks, is in time and the process is healthy."""
    owned = owning(played.reports("starved"))
    held = list(itertools.takewhile(lambda each: coordinator(each)["last-heartbeat-seconds-ago"] == "Infinity", owned))
    assert held
    assert held[-1]["emitted_ms"] - held[0]["emitted_ms"] >= STARVED_SESSION_MS
    assert max(each["tick_late_ms"] for each in held) < LATE_MS + played.clients["starved"].machine_late_ms
    assert {each["app"]["last_poll_return_ms"] for each in held} == {None}
    assert held[1]["app"]["waiting_since_ms"] is not None


@pytest.mark.parametrize("name", REPORTERS)
def test_an_outage_harms_neither_client_nor_reports(played, name):
    """Reports of the outage arrive later with their own times; the reporter raised no exception."""
    began_ms, ended_ms = played.outage_ms
    client = played.clients[name]
    records = [(at, json.loads(value)) for at, value in played.topic.records[client.group]]
    meanwhile = [(at, each) for at, each in records if began_ms < each["emitted_ms"] < ended_ms]
    assert len(meanwhile) >= OUTAGE_SECONDS - 1 - client.machine_late_ms / INTERVAL_MS
    assert all(at >= ended_ms for at, _ in meanwhile)
    assert "Traceback" not in client.errors


@pytest.mark.parametrize("name", [*REPORTERS, "plain"])
def test_closing_the_consumer_ends_the_reporter_at_once(played, name):
    """Including its threads."""
    client = played.clients[name]
    (started,), (closed,) = client.reported("started"), client.reported("closed")
    assert len(started["threads"]) == 2
    assert closed["threads"] == []
    assert closed["reporter_seconds"] < 120, "it did not wait for its timeouts, which client.py makes longer"
    assert played.reports(name)[-1]["closing"] is True


def test_the_users_statistics_callback_is_called(played):
    """With librdkafka's own text."""
    (reported,) = played.clients["confluent"].reported("stats_cb")
    assert reported["name"] == "client-confluent#consumer-1"


def test_a_plain_metric_reporter_sends_what_it_can(played):
    """Group, client and metrics, whether or not it has joined; no member, no polls."""
    *_, last = (each for each in played.reports("plain") if each["emitted_ms"] < played.outage_ms[0])
    assert last["metrics"]
    assert (last["client"]["client_id"], last["client"]["group_id"]) == ("client-plain", "group-plain")
    assert "member_id" not in last["client"]
    assert last["app"] == {}


@pytest.mark.parametrize("name", REPORTERS)
def test_the_monitor_understands_every_report(played, name):
    """Its decoder reads the identity, and heartbeats or, once librdkafka has joined, their count."""
    group = f"group-{name}"
    heartbeats = {}
    for at, value in played.topic.records[group]:
        (report,) = decode_metrics(value, at)
        said = json.loads(value)
        assert (report.format, report.group_id, report.seq) == ("native", group, said["seq"])
        assert report.member_id == said["client"]["member_id"]
        assert report.last_poll_return_ms == said["app"]["last_poll_return_ms"]
        points = {point.metric: point.value for point in report.points}
        if name != "confluent":
            assert "coordinator_heartbeat_rate" in points or not said["client"]["member_id"]
        elif said.get("statistics", {}).get("cgrp", {}).get("join_state") == "steady":
            heartbeats[said["seq"]] = points["coordinator_heartbeat_total"]
    if name == "confluent":
        counted = [heartbeats[seq] for seq in sorted(heartbeats)]
        assert len(counted) >= 4
        assert counted == sorted(counted)
        assert counted[-1] > 0


LOCKED = """
import json, threading, sys, kafka
from rebalance_exporters.reporters.kafka_python import report
got = threading.Semaphore(0)
version = {"api_version": (2, 3)} if kafka.__version__ >= "2.2" else {"api_version": (1, 0, 0)}
consumer = kafka.KafkaConsumer(bootstrap_servers="127.0.0.1:1", group_id="g", **version)
locks = [consumer._coordinator._lock] + [lock for lock in [getattr(consumer._client, "_lock", None)] if lock]
for lock in locks:
    lock.acquire()
report(consumer, interval_seconds=0.05, send=lambda topic, key, value: got.release())
print(json.dumps([len(locks), all(got.acquire(timeout=60) for _ in range(5))]), flush=True)
sys.exit()
"""


@pytest.mark.parametrize("name", ["old", "middle", "new"])
def test_reports_need_no_lock_of_the_client(name):
    """If a client that waits forever holds them, they would block the reporter too."""
    case = CASES[name]
    path = {"PYTHONPATH": str(client_environment(case.environment))} if case.environment else {}
    command = [sys.executable, "-W", "ignore", "-c", LOCKED]
    done = subprocess.run(command, env={**os.environ, **path}, check=False, capture_output=True, text=True, timeout=240)
    assert done.stdout, done.stderr
    locks, arrived = json.loads(done.stdout)
    assert locks == 2
    assert arrived
