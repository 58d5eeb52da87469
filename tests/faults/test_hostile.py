"""Foreign rows in the monitor's topics: each is counted, none stops a process or fills its memory."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest
from confluent_kafka import KafkaError, Producer

from e2e.rig import Rig, running_rig
from faults.observing import (
    CONFIG,
    await_judgement,
    diagnosis_of,
    judged_at_ms,
    report_outcomes,
    resident_bytes,
    restarts,
    set_aside,
    total,
)
from faults.reporting import IS_FULL, Figures
from faults.written_log import now_ms
from rebalance_contract import topics
from rebalance_contract.topics import Topic
from rebalance_deploy.demo.workload import ConsumerSpec
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3_600)]

HUGE, DEEP = 2**70, 100_000
#: The largest message of librdkafka.
_BOMB_BYTES = 999_000_000
_INVENTED = 1_000_000
_MOST_BYTES = 50_000_000
_KEYS = (b"default/judged/x", b"\xff", b"default/0")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A broker and a monitor whose topics the tests write to."""
    with running_rig(tmp_path_factory.mktemp("hostile")) as running:
        yield running


def spec(group: str, name: str) -> ConsumerSpec:
    """Return the specification of a consumer."""
    return ConsumerSpec("confluent-kafka", group, "orders", f"{group}-{name}", session_timeout_ms=6_000)


def name_of(topic: Topic) -> str:
    """Return a topic's full name."""
    return topic.full_name(CONFIG.topic_prefix)


def write(rig: Rig, topic: str, rows: Iterable[tuple[bytes, bytes]], **settings: object) -> list[KafkaError]:
    """Write keys and values, and return the reasons for rejected ones."""
    refused: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": rig.broker.bootstrap, "log_level": 0, "linger.ms": 20, **settings})
    for key, value in rows:
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=lambda error, _: error and refused.append(error))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(300) == 0
    return refused


#: A row that is too large for its topic is rejected alone.
ALONE = {"batch.num.messages": 1}
#: Values that are not a row of any topic.
GARBAGE = (
    *(b"", b"\x00", b"\xff\xfe\xfd", b"null", b"[]", b"{}", b"0", b'"x"', b"[" * DEEP, b'{"a":' * DEEP),
    b"x" * 500_000,
)


def odd_rows() -> Iterator[bytes]:
    """Yield rows with fields that the monitor never writes."""
    times = {"at_ms": HUGE, "updated_at_ms": HUGE, "probed_at_ms": HUGE}
    yield from (
        json.dumps({"cluster": "default", "group": group, "schema_version": 1, **odd}).encode()
        for group in ("judged", "g" * 100_000, "\ud800", "", "a/b")
        for odd in (
            {},
            times,
            {"kind": "offsets", "probed_at_ms": 2**62, "ends": {"orders": {"partitions": [0], "offsets": [5]}}},
            {"kind": "offsets", "probed_at_ms": 1, "ends": {"o": {"partitions": [2**31 - 1], "offsets": [5]}}},
            {"kind": "offsets", "probed_at_ms": 1, "ends": {"o": {"partitions": [-5, 0], "offsets": [5]}}},
            {"kind": "commits", "log_partition": HUGE, "topics": {}},
            {"kind": "counts", "topic": "__consumer_offsets", "partition": 0, "last_offset": HUGE, "counts": []},
            {"kind": "records", "query": "activity", "records": [], "positions": {"x": [HUGE, HUGE]}},
            {"state": "firing", "finding_id": "x", "rule": "x"},
            {"total": HUGE, "topics": {"orders": {"partitions": [2**31 - 1], "committed": [HUGE], "lags": [1]}}},
            {"probed_at_ms": 1, "state": "Stable", "end_offsets": {"orders": {"abc": 1, "-5": 1}}},
            {"probed_at_ms": 1, "state": "Stable", "end_offsets": {"orders": {str(2**31 - 1): 1}}},
            {"probed_at_ms": 1, "state": "Stable", "end_offsets": {"orders": {"0": HUGE}}},
            {"probed_at_ms": HUGE, "state": "Dead", "coordinator_id": HUGE},
        )
    )


@pytest.mark.faults(25, fast=0, full=1)
def test_garbage_in_every_topic_is_counted(rig: Rig, figures: Figures):
    """By each reader of the topic, each row once, and no query ends; brokers reject values larger than any row."""
    before, counted = restarts(rig), refusals(rig)
    rows = [(key, value) for value in GARBAGE for key in _KEYS]
    taken: dict[str, int] = {}
    for topic in topics.TOPICS:
        refused = write(rig, name_of(topic), rows, **ALONE)
        assert {error.code() for error in refused} <= {KafkaError.MSG_SIZE_TOO_LARGE}
        taken[topic.name] = len(rows) - len(refused)
    wanted = {reader: count + taken[reader.partition("/")[2]] for reader, count in counted.items()}
    wait_for(lambda: refusals(rig) == wanted, lambda: f"{wanted}, not {refusals(rig)}", 240, every=1)
    figures.note("rows", sum(taken.values()), "")
    assert restarts(rig) == before
    rig.monitor.check()


def refusals(rig: Rig) -> dict[str, int]:
    """Return how many rows each reader rejected, by topic."""
    found = {
        f"exporter/{each.name}": int(total(rig, "contract_errors_total", topic=each.name))
        for each in topics.TOPICS
        if "exporter" in each.readers
    }
    reported = set_aside(rig)
    found |= {
        f"diagnosis/{each.name}": reported[each.name, "not understood"]
        for each in (topics.GROUPS, topics.REBALANCES, topics.ACTIVITY)
    }
    for topic in (topics.PROBES, topics.CLIENT_METRICS):
        outcomes = report_outcomes(rig, name_of(topic))
        found[f"activity/{topic.name}"] = outcomes.total() - outcomes["decoded"]
    return found


@pytest.mark.faults(25, fast=1, full=1)
def test_odd_rows_in_every_topic_stop_nothing(rig: Rig):
    """No query and no process ends or restarts, and a later rebalance is counted, judged and shown."""
    rig.start(spec("after", "a"))
    wait_for(lambda: rig.counts().get("after") == rig.expected_counts()["after"], "the group to be counted", 300)
    before, diagnosis = restarts(rig), diagnosis_of(rig)
    for topic in topics.TOPICS:
        odd = list(odd_rows())
        keys = (_KEYS[0], _KEYS[1], b"default/%d" % len(odd))
        assert write(rig, name_of(topic), ((key, value) for value in odd for key in keys), **ALONE) == []
    rig.start(spec("after", "b"))
    # The odd rows change other groups; this one's are as in the broker's log.
    wait_for(lambda: rig.counts().get("after") == rig.expected_counts()["after"], "the rebalance to be counted", 300)
    await_judgement(rig)
    assert restarts(rig) == before
    assert diagnosis_of(rig) == diagnosis
    rig.monitor.check()

    # The restored state of a new process contains them too.
    os.kill(diagnosis, signal.SIGKILL)
    wait_for(lambda: restarts(rig) != before, "the restart to be told")
    now = judged_at_ms(rig)
    wait_for(lambda: judged_at_ms(rig) > now + 2_000, "the diagnosis to be back", 300)
    assert restarts(rig) == {**before, "diagnosis": before["diagnosis"] + 1}
    for name in "ab":
        rig.leave(spec("after", name))


def report(number: int, group: str, metrics: dict[str, float]) -> bytes:
    """Return a client's report."""
    document = {
        "schema": "rebalance-monitor/client-metrics/1",
        "emitted_ms": now_ms(),
        "client": {"client_id": f"c-{number}", "group_id": group},
        "metrics": {"consumer-coordinator-metrics": metrics},
    }
    return json.dumps(document).encode()


@pytest.mark.faults(28, fast=1, full=1)
def test_a_message_that_unpacks_to_a_gigabyte_reaches_nobody(rig: Rig):
    """The broker rejects it by the topic's settings; the next report is read."""
    before, pid = restarts(rig), rig.monitor.stream.process.pid
    decoded = report_outcomes(rig, CONFIG.metrics_topic)["decoded"]
    limits = {"message.max.bytes": 1_000_000_000, "queue.buffering.max.kbytes": 2_000_000, "compression.type": "zstd"}
    bomb = b"\0" * (_BOMB_BYTES if IS_FULL else 64 << 20)
    (refused,) = write(rig, CONFIG.metrics_topic, [(b"", bomb)], **limits)
    # A broker whose heap is smaller than the uncompressed message runs out of memory, and returns an unknown error.
    refusals = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.UNKNOWN} if IS_FULL else {KafkaError.MSG_SIZE_TOO_LARGE}
    assert refused.code() in refusals
    assert write(rig, CONFIG.metrics_topic, [(b"", report(0, "g", {"last-heartbeat-seconds-ago": 1.5}))]) == []
    wait_for(lambda: report_outcomes(rig, CONFIG.metrics_topic)["decoded"] > decoded, "the next report to be read")
    assert restarts(rig) == before
    assert rig.monitor.stream.process.pid == pid
    rig.monitor.check()


@pytest.mark.faults(30, fast=0, full=1)
def test_invented_groups_fill_no_memory(rig: Rig, figures: Figures):
    """A million reports of as many groups: diagnosis and exporter stay small, and dropped ones are counted."""
    pids = {"diagnosis": diagnosis_of(rig), "exporter": rig.monitor.export.process.pid}
    await_judgement(rig)
    before, sizes = restarts(rig), {name: resident_bytes(pid) for name, pid in pids.items()}
    decoded, dropped = report_outcomes(rig, CONFIG.metrics_topic)["decoded"], set_aside(rig)
    rows = ((b"", report(number, f"invented-{number}", {"assigned-partitions": 2})) for number in range(_INVENTED))
    assert write(rig, CONFIG.metrics_topic, rows) == []
    wait_for(
        lambda: report_outcomes(rig, CONFIG.metrics_topic)["decoded"] == decoded + _INVENTED,
        lambda: f"all reports to be counted, not {report_outcomes(rig, CONFIG.metrics_topic)}",
        1_800,
        every=5,
    )
    await_judgement(rig)
    for name, pid in pids.items():
        grown = resident_bytes(pid) - sizes[name]
        figures.note(f"{name} grew by", grown / 1e6, "MB")
        assert grown <= _MOST_BYTES, name
    reported: Counter[tuple[str, str]] = set_aside(rig) - dropped
    # Some of the invented ones are kept for a while.
    assert reported.total() >= _INVENTED - 10_000, reported
    assert restarts(rig) == before
    rig.monitor.check()
