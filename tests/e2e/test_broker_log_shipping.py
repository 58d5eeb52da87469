"""A real broker's log, sent line by line to a topic of the broker, is decoded as its coordinator's events."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from rebalance_contract import CoordinatorAct, EvidenceSource
from rebalance_contract.topics import BROKER_LOGS
from rebalance_deploy.embedded import VERSIONS
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.embedded.server import QUICK_START
from rebalance_deploy.topics import create_topics
from rebalance_streaming.activity.broker_logs import LogPacking
from rebalance_streaming.recordings.record import record
from rebalance_streaming.recordings.replay import replay
from rebalance_streaming.wire.broker_logs.decode import in_utc
from rebalance_streaming.wire.broker_logs.outcomes import LineOutcome
from waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.timeout(1_200)]

#: The default time zone of log lines, on any machine.
_IN_UTC = (*QUICK_START, "-Duser.timezone=UTC")
TOPIC = BROKER_LOGS.full_name("rebalance-monitor.")


@contextmanager
def shipping(log: Path, bootstrap: str) -> Iterator[None]:
    """Follow a file and send each complete line, as `tail -F server.log | kcat -P` does; on exit all is sent."""
    producer, stop, position = (
        Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0}),
        threading.Event(),
        0,
    )

    def send() -> int:
        with log.open("rb") as file:
            file.seek(position)
            whole, end, _ = file.read().rpartition(b"\n")
        for line in whole.split(b"\n") if whole else ():
            producer.produce(TOPIC, line)
        producer.flush(120)
        return position + len(whole) + len(end)

    def follow() -> None:
        nonlocal position
        while not stop.wait(0.2):
            position = send()

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        position = send()


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_broker_logs_of_its_groups_reaches_the_findings(version: str):
    """A member joins and leaves; the rebalances' starts, triggers and members are those in the broker's own lines."""
    with EmbeddedKafka(kafka_version=version, jvm_options=_IN_UTC) as broker:
        create_topics(broker.bootstrap, {"orders": 2})
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        created = admin.create_topics([NewTopic(TOPIC, 1, 1, config=dict(BROKER_LOGS.settings))])
        created[TOPIC].result(120)
        with shipping(broker.log_path, broker.bootstrap):
            _come_and_go(broker)
        lines = [line + b"\n" for line in _recorded(broker)]
        log = broker.log_path.read_text(errors="replace")
    rows = [json.loads(row) for row in replay([lines], output="all")]
    impacts = {each["rebalance_id"]: each for each in rows if each["kind"] == "rebalance_impact"}
    rebalances = [each for each in rows if each["kind"] == "rebalance"]
    # Generations within seconds are one rebalance, begun by the first.
    assert rebalances
    for each in rebalances:
        reported = impacts[each["rebalance_id"]]
        # Compared with the file itself: a busy machine may add a rebalance of its own.
        assert re.search(rf"^\[{_written(reported['prepared_at_ms'])}\] .*Preparing to rebalance group g ", log, re.M)
        assert (each["started_after_ms"] or 0) <= reported["prepared_at_ms"] <= each["completed_at_ms"]
    sources = {one["source"] for each in rows if each["kind"] == "finding" for one in each["evidence"]}
    assert EvidenceSource.BROKER_LOG in sources
    values = [bytes.fromhex(each["value_hex"]) for each in map(json.loads, lines) if each["topic"] == TOPIC]
    packing = LogPacking(cluster="", pane_ms=5_000)
    for value in values:
        packing.take(value, None, in_utc)
    events = [event for row in packing.rows() if row.group == "g" for event in row.events]
    assert not packing.counts[LineOutcome.UNKNOWN_TEXT]
    gone = next(each.member_id for each in events if each.act in (CoordinatorAct.LEFT, CoordinatorAct.EXPIRED))
    assert str(gone).startswith("goes-")
    assert {each.act for each in events} >= {
        CoordinatorAct.PREPARING,
        CoordinatorAct.STABILISED,
        CoordinatorAct.ASSIGNED,
    }


def _written(at_ms: int) -> str:
    """Return a time in log4j's format."""
    seconds, ms = divmod(at_ms, 1_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S},{ms:03}"


def _come_and_go(broker: EmbeddedKafka) -> None:
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        # Its messages about a stopped broker are useless.
        "log_level": 0,
    }
    with ExitStack() as members:

        def join(name: str) -> Consumer:
            consumer = Consumer({**settings, "client.id": name})
            members.callback(consumer.close)
            consumer.subscribe(["orders"])
            return consumer

        def have(*expected: tuple[Consumer, int]) -> bool:
            for consumer, _ in expected:
                consumer.poll(0.1)
            return all(len(consumer.assignment()) == count for consumer, count in expected)

        stays = join("stays")
        wait_for(lambda: have((stays, 2)), "the first member to have all partitions")
        goes = join("goes")
        wait_for(lambda: have((stays, 1), (goes, 1)), "the second one to have its share")
        goes.unsubscribe()
        wait_for(lambda: have((stays, 2), (goes, 0)), "the first member to have all again")


def _recorded(broker: EmbeddedKafka) -> Iterator[bytes]:
    kafka = {"bootstrap.servers": broker.bootstrap}
    return record(kafka, "__consumer_offsets", [TOPIC], from_beginning=True, to_end=True, stop=threading.Event())
