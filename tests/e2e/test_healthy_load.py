"""Half-hour days in the life of healthy groups: busy, idle, slow, deployed and scaled.

The real monitor watches real clients on a real broker and must not report a fault. `HEALTHY_MINUTES` is the duration of
the test, by default one day, and `HEALTHY_COPIES` the number of groups of each kind, with members of their own that
read the same topics: 5 copies of 9 groups for 80 minutes are 60 group-hours. When the test fails, its directory has a
recording for `rebalance-monitor replay`, the findings, and the clients' and the monitor's logs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from e2e.rig import read_topic
from e2e.stories.performing import performing
from e2e.stories.watching import Watcher, watching
from rebalance_contract import Finding, decode, encode
from rebalance_deploy.processes import ChildProcess
from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.record import METRICS_TOPIC
from rebalance_devtools.stories.script import CONFLUENT, KAFKA_PYTHON, ClientSpec, Expected
from rebalance_devtools.stories.stage import Stage
from rebalance_devtools.stories.story import Story
from rebalance_streaming.config import StreamConfig


def minutes() -> float:
    """The total duration of all days."""
    return float(os.environ.get("HEALTHY_MINUTES", "30"))


def copies() -> int:
    """The number of groups of each kind."""
    return int(os.environ.get("HEALTHY_COPIES", "1"))


pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(60 * (minutes() + 15))]

_ODD_CLIENT = Path(__file__).parent / "odd_reports.py"
#: A rebalance is judged 20 s after its end; the rest is the latency of the findings topic.
_JUDGED_SECONDS = 30.0
_BURST = 4_000
_SKEW_MS = 3_000
_LONGEST_OUTAGE_SECONDS = 120.0
_LONGEST_DAY_MINUTES = 30

#: The informational findings that are allowed for these groups, and why each is true.
ALLOWED = {
    "initial_group_formation": "every group is formed here",
    "rolling_deploy": "billing is deployed",
    "scale_out": "search and stock grow, and so do all groups while they are opened member by member",
    "scale_in": "search and stock shrink",
    "static_membership_missing": "billing is deployed day after day, and static members would make that cheaper",
    "static_member_restart": "ledger's members are restarted in time",
    "topic_metadata_change": "kafka-python may join before it knows its topic, and joins again when it does",
    "coordinator_overload": "the broker shares a busy machine; clients measure how long it takes to answer",
    "poll_overrun_risk": "invoices and reports work for 70 % of max.poll.interval, which is reported from 50 % on",
    "undetermined": "it says that the monitor does not know, and accuses nobody",
}


def confluent(**more: Any) -> ClientSpec:
    """confluent-kafka with its defaults except the assignor; keys of `more` are settings with underscores for dots."""
    settings = {"partition.assignment.strategy": "range", **{key.replace("_", "."): more[key] for key in more}}
    return ClientSpec(CONFLUENT, {key: value for key, value in settings.items() if value is not None})


QUICK = confluent()
COOPERATIVE = confluent(partition_assignment_strategy="cooperative-sticky")
KIP848 = confluent(group_protocol="consumer", partition_assignment_strategy=None)
# Each record takes 70 % of the interval.
_LONG_WORK_MS, _LONG_EVERY_SECONDS = 7_000, 10.0
# librdkafka requires an interval at least as long as the session.
LONG = confluent(session_timeout_ms=10_000, max_poll_interval_ms=10_000)
LONG_KAFKA_PYTHON = ClientSpec(
    KAFKA_PYTHON,
    {"session_timeout_ms": 10_000, "max_poll_interval_ms": 10_000, "max_poll_records": 1},
    {"loop": "poll", "hold_ms": _LONG_WORK_MS},
)
DEFAULT_KAFKA_PYTHON = ClientSpec(KAFKA_PYTHON, {}, {"loop": "poll"})


def static(name: str) -> ClientSpec:
    """A static member, whose restart takes a fraction of its session time-out."""
    return confluent(group_instance_id=name)


def in_copies(name: str) -> list[str]:
    """Return the name of a group or of a member in each copy; in the first it is unchanged."""
    return [name if number == 0 else f"{name}-copy-{number}" for number in range(copies())]


@dataclass
class Day:
    """One play as a day of `seconds`, with several groups; each has its own topic unless it shares the play's.

    Members are started, replaced and stopped in every copy of their group.
    """

    play: Play
    seconds: float
    began: float

    def until(self, share: float) -> None:
        """Let the day continue until this share of it is over."""
        self.play.await_seconds(max(0.0, self.began + share * self.seconds - time.monotonic()))

    def serve(self, topic: str, per_second: float) -> Any:
        """Create a topic and produce records to it; return the traffic."""
        self.play.create_topic(6, name=topic)
        return self.play.traffic(per_second=per_second, partitions=6, name=topic)

    def join(self, group: str, form: ClientSpec, *names: str, **program: Any) -> None:
        """Start members, and wait until each has been assigned something."""
        if form.library == CONFLUENT:
            program = {"topics": [group], **program}
        groups = dict(zip(in_copies(group), zip(*map(in_copies, names), strict=True), strict=True))
        every = [member for members in groups.values() for member in members]
        before = {member: len(self.play.events_of(member, "assigned")) for member in every}
        for each, members in groups.items():
            for member in members:
                self.play.start(member, form, group=each, **program)
        for member in every:
            self.play.await_event(member, "assigned", times=before[member] + 1)

    def leave(self, name: str) -> None:
        """Close a member cleanly."""
        for member in in_copies(name):
            self.play.leave(member)

    def replace(self, group: str, form: ClientSpec, name: str, pause_seconds: float) -> None:
        """Close a member cleanly and start it again."""
        self.leave(name)
        self.play.await_seconds(pause_seconds)
        self.join(group, form, name)

    def burst(self, topic: str) -> None:
        """Write many records at once."""
        producer = Producer({"bootstrap.servers": self.play.stage.bootstrap, "log_level": 0})
        for _ in range(_BURST):
            producer.produce(topic, value=b"burst")
            producer.poll(0)
        producer.flush(30)

    def odd_client(self, name: str, group: str, *, clock_ms: int, outage: tuple[float, float]) -> ChildProcess:
        """Start a member whose clock is ahead, and whose reports pause after some seconds, for some seconds."""
        settings = {"bootstrap.servers": self.play.stage.bootstrap, "group.id": group, "client.id": name}
        settings |= {"auto.offset.reset": "earliest", **QUICK.settings}
        spec = {"name": name, "topics": ["audit"], "settings": settings, "metrics_topic": METRICS_TOPIC}
        command = [sys.executable, _ODD_CLIENT, json.dumps(spec), *(str(each) for each in (clock_ms, *outage))]
        return ChildProcess(command, log_path=self.play.directory / f"{name}.jsonl")


def live(play: Play) -> None:
    """Start all groups, and let them do everything that healthy groups do in each day."""
    days = max(1, round(minutes() / _LONGEST_DAY_MINUTES))
    day = Day(play, 60 * minutes() / days, time.monotonic())
    with ExitStack() as stack:
        orders = open_groups(day)
        odd = [stack.enter_context(client) for client in open_audit(day)]
        for number in range(days):
            day.began += day.seconds if number else 0
            orders = live_one(day, orders)
        play.await_seconds(_JUDGED_SECONDS)
        assert all(client.is_running for client in odd), f"a client ended: see {play.directory}"


def live_one(day: Day, orders: Any) -> Any:
    """Run one day; `orders` is the traffic of that topic. Return the member that is there in the evening."""
    day.until(0.2)
    day.burst("orders")
    day.until(0.25)
    # An idle night for orders, while the others continue.
    orders.stop()
    for number in range(1, 5):
        day.replace("billing", QUICK, f"billing-{number}", 2)
        day.play.await_seconds(6)
    day.until(0.5)
    day.join("search", COOPERATIVE, "search-3", "search-4")
    day.join("stock", KIP848, "stock-3")
    day.until(0.6)
    orders = day.play.traffic(per_second=20, partitions=6, name="orders")
    day.burst("orders")
    for number in range(1, 4):
        day.replace("ledger", static(f"ledger-{number}"), f"ledger-{number}", 1)
        day.play.await_seconds(3)
    day.until(0.75)
    for name in ("search-4", "search-3", "stock-3"):
        day.leave(name)
        day.play.await_seconds(6)
    day.until(0.9)
    day.burst("orders")
    day.until(1)
    return orders


def open_groups(day: Day) -> Any:
    """Start all groups except audit; return the traffic of orders."""
    day.play.create_topic(4)
    orders = day.serve("orders", 20)
    day.join("orders", QUICK, "orders-1", "orders-2", "orders-3", work_ms=5)
    day.serve("billing", 10)
    day.join("billing", QUICK, *(f"billing-{number}" for number in range(1, 5)))
    day.serve("search", 10)
    day.join("search", COOPERATIVE, "search-1", "search-2")
    day.serve("stock", 5)
    day.join("stock", KIP848, "stock-1", "stock-2")
    day.serve("ledger", 5)
    for number in range(1, 4):
        day.join("ledger", static(f"ledger-{number}"), f"ledger-{number}")
    day.serve("invoices", 1 / _LONG_EVERY_SECONDS)
    day.join("invoices", LONG, "invoices-1", work_ms=_LONG_WORK_MS)
    # The kafka-python programs can only use the play's own topic.
    day.join("reports", LONG_KAFKA_PYTHON, "reports-1", "reports-2")
    day.join("mail", DEFAULT_KAFKA_PYTHON, "mail-1")
    # The two have partitions 0 and 1, 2 and 3: alternating, each gets a record in time.
    day.play.traffic(per_second=2 / _LONG_EVERY_SECONDS, partitions=4)
    return orders


def open_audit(day: Day) -> Iterator[ChildProcess]:
    """Start a group with a client whose clock is wrong, and one whose reports are missing for a while."""
    day.serve("audit", 5)
    outage = (0.3 * day.seconds, min(_LONGEST_OUTAGE_SECONDS, day.seconds / 3))
    for group, ahead, silent in zip(*map(in_copies, ("audit", "audit-ahead", "audit-silent")), strict=True):
        yield day.odd_client(ahead, group, clock_ms=_SKEW_MS, outage=(0, 0))
        yield day.odd_client(silent, group, clock_ms=0, outage=outage)


DAY = Story(
    id="healthy_day",
    title="a day of healthy groups",
    what="all that healthy groups do",
    draw=lambda _: {},
    sick=lambda _: QUICK,
    cured=None,
    expect=lambda _: Expected(""),
    perform=live,
    count_symptoms=lambda *_: 0,
    seconds=60 * minutes(),
    versions=("4.3.1",),
)


@contextmanager
def watch(directory: Path, stage: Stage) -> Iterator[Watcher]:
    """Run the monitor; keep the content of the topics if anything fails."""
    with watching(directory / "monitor", stage) as watcher:
        try:
            yield watcher
        except BaseException:
            record(stage.bootstrap, directory / "recording.jsonl")
            raise


def record(bootstrap: str, path: Path) -> None:
    """Write the content of all monitored topics into a file."""
    command = [sys.executable, "-m", "rebalance_deploy", "record", "--bootstrap-server", bootstrap, "--to-end"]
    with path.open("wb") as file:
        subprocess.run(command, stdout=file, check=True, timeout=120)


def found(bootstrap: str) -> list[Finding]:
    """Return every version of every finding."""
    rows = (value for _, value in read_topic(bootstrap, StreamConfig().findings_topic))
    return [decode(value, Finding) for value in rows if value is not None]


def is_accusation(finding: Finding) -> bool:
    """Whether a finding states something wrong about these groups."""
    return finding.severity != "info" or finding.rule not in ALLOWED


def table(findings: list[Finding]) -> str:
    """Return the number of findings of each kind as a table, each counted once with its highest severity."""
    order = ("info", "ticket", "page")
    gravest: dict[str, Finding] = {}
    for each in findings:
        known = gravest.setdefault(each.finding_id, each)
        if order.index(each.severity) > order.index(known.severity):
            gravest[each.finding_id] = each
    counts = Counter((each.group, each.rule, each.severity) for each in gravest.values())
    return "\n".join(
        f"{count:4} {severity:6} {rule}  ({group})" for (group, rule, severity), count in sorted(counts.items())
    )


def test_nobody_is_accused_on_a_healthy_day(tmp_path: Path) -> None:
    """Bursts, long but legal batches, an idle night, a deploy, scaling, restarts in time, odd reports: no fault."""
    with performing(DAY, tmp_path, partial(watch, tmp_path), cured=False, seed=1, metrics_topic=METRICS_TOPIC) as (
        play,
        watcher,
    ):
        findings = found(play.stage.bootstrap)
        (tmp_path / "findings.jsonl").write_bytes(b"".join(encode(each) + b"\n" for each in findings))
        reported = table(findings)
        (tmp_path / "findings.txt").write_text(f"{reported}\n")
        assert watcher.findings(), "the monitor said nothing at all, so that it kept still about faults proves nothing"
        assert {each.finding_id: encode(each) for each in findings if is_accusation(each)} == {}, reported
