"""The demo: a real Kafka, a real workload with one sick consumer, the monitor, and what it says as it happens.

At the end the monitor's counts are held against the broker's own log.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from rebalance_deploy import local
from rebalance_deploy.broker import EmbeddedBroker
from rebalance_deploy.broker_log import GroupTruth, read_truth
from rebalance_deploy.demo import workload
from rebalance_deploy.errors import UserError
from rebalance_deploy.processes import ChildProcess
from rebalance_deploy.settings import Sources
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.groups.events import Member, Rebalance, decode

Say = Callable[[str], None]

_READY_SECONDS = 120.0
#: Longer than the sick consumer's pause, so that it can leave its group in order.
_LEAVE_SECONDS = 25.0
_SETTLE_SECONDS = 60.0


def run(*, duration_seconds: float | None, kafka_version: str, port: int, stop: threading.Event, say: Say) -> int:
    """Run the demo until `stop`, or for `duration_seconds` of workload; return the process's exit code.

    With a duration the code is 0 only if every rebalance the broker's log knows of was counted.
    """
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="rebalance-monitor-demo-"))
        say(f"logs and data in {directory}")
        broker = stack.enter_context(EmbeddedBroker(kafka_version=kafka_version, data_dir=directory / "kafka"))
        say(f"Kafka {kafka_version} runs at {broker.bootstrap}")
        _create_topics(broker.bootstrap)
        monitor = _Monitor(broker.bootstrap, port, directory)
        stack.callback(monitor.stop)
        if not monitor.wait_until_ready(stop, say):
            return 1
        clients = _start_workload(broker.bootstrap, directory, stack)
        say(f"{len(clients)} client processes started; {workload.SICK.client_id} of group {workload.SICK.group} is sick: "
            f"it works {workload.SICK.seconds_per_poll:.0f} s per poll with max.poll.interval.ms={workload.SICK.max_poll_interval_ms}")
        _show_rebalances(broker.bootstrap, monitor, clients, duration_seconds, stop, say)
        if duration_seconds is None:
            return 0
        say("workload stops; every group empties, which counts as a rebalance too")
        _stop_workload(clients)
        return _compare(monitor, broker.log_path, say)


class _Monitor:
    """The monitor's processes as the demo sees them."""

    def __init__(self, bootstrap: str, port: int, directory: Path) -> None:
        flags = (
            f"kafka.bootstrap.servers={bootstrap}",
            f"stream.checkpoint={directory / 'checkpoint'}",
            "export.listen_host=127.0.0.1",
            f"export.listen_port={port}",
        )
        self._log = directory / "export.log"
        self._children = local.start_all(Sources(environment=dict(os.environ), flags=flags), directory)

    @property
    def url(self) -> str:
        """Where the exporter serves, as it announced itself; empty before that."""
        for line in self._log.read_text().splitlines() if self._log.exists() else []:
            if "serving on " in line:
                return line.partition("serving on ")[2].removesuffix("/metrics")
        return ""

    def wait_until_ready(self, stop: threading.Event, say: Say) -> bool:
        """Wait for the readiness page; false when told to stop meanwhile. Raises UserError when it never comes."""
        deadline, said = time.monotonic() + _READY_SECONDS, ""
        while not stop.wait(0.5):
            self.check()
            status, text = fetch(f"{self.url}/-/ready") if self.url else (0, "waiting for the exporter")
            if status == 200:
                say(f"monitor ready: {self.url}/metrics")
                return True
            if text != said:
                say(f"not ready: {text}")
                said = text
            if time.monotonic() > deadline:
                raise UserError(f"the monitor was not ready after {_READY_SECONDS:.0f} s: {text}; see {self._log.parent}")
        return False

    def check(self) -> None:
        """Raise UserError with the last line of its log if a process ended."""
        for child in self._children:
            if not child.process.is_running:
                lines = child.process.log_path.read_text().splitlines() if child.process.log_path else []
                raise UserError(f"{child.name} ended: {lines[-1] if lines else 'without a word'}")

    def stop(self) -> None:
        """Stop all processes."""
        local.stop_all(self._children)


def fetch(url: str) -> tuple[int, str]:
    """Return the status and text of a page; status 0 when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  http to loopback
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode().strip()
    except OSError as error:
        return 0, str(error)


def _create_topics(bootstrap: str) -> None:
    topics = [NewTopic(name, partitions, 1) for name, partitions in workload.TOPICS.items()]
    for future in AdminClient({"bootstrap.servers": bootstrap}).create_topics(topics).values():
        future.result()


def _start_workload(bootstrap: str, directory: Path, stack: ExitStack) -> list[ChildProcess]:
    commands = {"producer": workload.producer_command(bootstrap)}
    commands |= {spec.client_id: workload.command(bootstrap, spec) for spec in workload.CONSUMERS}
    return [
        stack.enter_context(ChildProcess(command, log_path=directory / f"{name}.log"))
        for name, command in commands.items()
    ]


def _stop_workload(clients: list[ChildProcess]) -> None:
    for client in clients:
        client.request_stop()
    for client in clients:
        client.terminate(_LEAVE_SECONDS)


def _show_rebalances(
    bootstrap: str,
    monitor: _Monitor,
    clients: list[ChildProcess],
    duration_seconds: float | None,
    stop: threading.Event,
    say: Say,
) -> None:
    deadline = None if duration_seconds is None else time.monotonic() + duration_seconds
    for rebalance in _follow_rebalances(bootstrap, stop, deadline):
        if rebalance is not None:
            say(f"{describe(rebalance)}  {monitor.url}/metrics")
        monitor.check()
        if any(not client.is_running for client in clients):
            raise UserError("a client of the workload ended by itself; see its log")


def _follow_rebalances(bootstrap: str, stop: threading.Event, deadline: float | None) -> Iterator[Rebalance | None]:
    """Yield rebalances as the stream publishes them, null whenever there was none for a moment."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 0})
    consumer.assign([TopicPartition(StreamConfig().rebalances_topic, 0, 0)])
    try:
        while not stop.is_set() and (deadline is None or time.monotonic() < deadline):
            message = consumer.poll(0.5)
            value = None if message is None or message.error() else message.value()
            yield None if value is None else decode(value, Rebalance)
    finally:
        consumer.close()


def describe(rebalance: Rebalance) -> str:
    """Return one line about a rebalance: when, who, generations, members, why, how long."""
    at = datetime.fromtimestamp(rebalance.completed_at_ms / 1000, UTC).strftime("%H:%M:%S")
    before, after = len(rebalance.members_before), len(rebalance.members_after)
    generation_from = "-" if rebalance.generation_from is None else rebalance.generation_from
    return (
        f"{at}  {rebalance.group}  generation {generation_from} -> {rebalance.generation_to}  members {before} -> {after}  "
        f"{_why(rebalance)}  {_duration(rebalance)}"
    )


def _why(rebalance: Rebalance) -> str:
    members = {member.member_id: member for member in (*rebalance.members_before, *rebalance.members_after)}
    left = ", ".join(_name(members[each]) for each in rebalance.left)
    joined = ", ".join(_name(members[each]) for each in rebalance.joined)
    who = "; ".join(f"{what} {names}" for what, names in (("left:", left), ("joined:", joined)) if names)
    return f"{rebalance.reason.replace('_', ' ')}{f' ({who})' if who else ''}"


def _name(member: Member) -> str:
    return f"{member.group_instance_id or member.client_id}@{member.host}"


def _duration(rebalance: Rebalance) -> str:
    """Say how long it took as far as the log tells: exactly, or between two bounds."""
    low = rebalance.duration_min_ms / 1000
    if rebalance.duration_max_ms == rebalance.duration_min_ms:
        return f"took {low:.2f} s"
    # The upper bound reaches back to the group's previous record and can be hours: only the lower one informs.
    return f"took at least {low:.2f} s"


@dataclass(frozen=True, slots=True)
class Counted:
    """What /metrics says of one group."""

    generation: int
    completed: int
    aborted: int
    rebalances: int


def read_counts(url: str) -> dict[str, Counted]:
    """Return the counts of every group from a /metrics page."""
    _, text = fetch(f"{url}/metrics")
    sums: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(text + "\n"):
        for sample in family.samples:
            if "group" in sample.labels:
                key = (sample.labels["group"], sample.name.removeprefix("kafka_rebalance_") + sample.labels.get("outcome", ""))
                sums[key] = sums.get(key, 0) + sample.value
    return {
        group: Counted(
            generation=int(sums.get((group, "group_generation"), 0)),
            completed=int(sums.get((group, "generations_totalcompleted"), 0)),
            aborted=int(sums.get((group, "generations_totalaborted"), 0)),
            rebalances=int(sums.get((group, "rebalances_total"), 0)),
        )
        for group in {group for group, _ in sums}
    }


def expected(truth: GroupTruth) -> Counted:
    """Return what /metrics must say of a group of which the broker's log tells this."""
    return Counted(
        generation=truth.generation,
        completed=len(truth.completed),
        aborted=truth.generation - len(truth.completed),
        rebalances=len(truth.completed),
    )


def _compare(monitor: _Monitor, broker_log: Path, say: Say) -> int:
    """Hold the counts against the broker's log until they agree or time is up."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    wanted: dict[str, Counted] = {}
    counted: dict[str, Counted] = {}
    while time.monotonic() < deadline:
        monitor.check()
        with broker_log.open(errors="replace") as lines:
            wanted = {group: expected(truth) for group, truth in read_truth(lines).items()}
        counted = read_counts(monitor.url)
        if counted == wanted:
            break
        time.sleep(0.5)
    for group in sorted(wanted | counted):
        mark = "ok" if counted.get(group) == wanted.get(group) else "WRONG"
        say(f"  {group}: broker's log {wanted.get(group)}, /metrics {counted.get(group)}: {mark}")
    total = sum(each.rebalances for each in wanted.values())
    found = sum(min(each.rebalances, wanted[group].rebalances) for group, each in counted.items() if group in wanted)
    say(f"counted {found} of {total} rebalances in {len(wanted)} groups")
    return 0 if counted == wanted and total > 0 else 1
