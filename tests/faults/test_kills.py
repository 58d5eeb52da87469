"""Processes that die and rows that nobody wrote on purpose: what counts goes on counting, the rest comes back alone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from e2e.rig import Rig, count_log, family, read_topic, running_rig
from rebalance_contract import DiagnosisStatus, Finding, QueryStatus, Status, decode, decode_status, topics
from rebalance_contract.codec import ContractError
from rebalance_deploy.demo.workload import ConsumerSpec
from rebalance_streaming.config import StreamConfig
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

CONFIG = StreamConfig()
_WORKER_KILLS = 4


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A broker and a monitor whose parts are killed; each test leaves both whole."""
    with running_rig(tmp_path_factory.mktemp("faults")) as running:
        yield running


def spec(group: str, name: str) -> ConsumerSpec:
    """Describe a consumer."""
    return ConsumerSpec("confluent-kafka", group, "orders", f"{group}-{name}", session_timeout_ms=6_000)


def processes(rig: Rig, what: str) -> list[int]:
    """Return the processes of the stream whose command line has a word in it."""
    found = []
    for pid in family(rig.monitor.stream.process.pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if what in Path(f"/proc/{pid}/cmdline").read_text():
                found.append(pid)
    return found


def diagnosis_of(rig: Rig) -> int:
    """Return the process of the diagnosis."""
    (pid,) = wait_for(lambda: processes(rig, "rebalance_streaming.diagnosis.worker"), "the diagnosis' process")
    return pid


def statuses(rig: Rig) -> list[Status]:
    """Return the latest of each status that the stream published."""
    latest = dict(read_topic(rig.broker.bootstrap, CONFIG.status_topic))
    found: list[Status] = []
    for value in latest.values():
        with contextlib.suppress(ContractError):
            found.append(decode_status(value or b""))
    return [each for each in found if each.cluster == CONFIG.cluster]


def restarts(rig: Rig) -> dict[str, int]:
    """Return how often each query was started again."""
    return {each.query: each.restarts for each in statuses(rig) if isinstance(each, QueryStatus)}


def judged_at_ms(rig: Rig) -> int:
    """Return when the diagnosis said last that it is well."""
    return max((each.updated_at_ms for each in statuses(rig) if isinstance(each, DiagnosisStatus)), default=0)


def open_findings(rig: Rig) -> dict[str, str]:
    """Return the rule of each finding that is firing, by its id."""
    latest: dict[bytes | None, Finding] = {}
    for key, value in read_topic(rig.broker.bootstrap, CONFIG.findings_topic):
        with contextlib.suppress(ContractError):
            latest[key] = decode(value or b"", Finding)
    return {each.finding_id: each.rule for each in latest.values() if each.state == "firing"}


def test_python_workers_that_are_killed_cost_no_count(rig: Rig):
    """Whatever a worker was doing, its task is tried again: no query ends, no rebalance and no record is lost."""
    before = restarts(rig)
    for number in range(_WORKER_KILLS):
        completed = rig.truth("workers").completed.copy()
        member = spec("workers", f"m{number}")
        rig.clients[member.client_id] = rig.spawn(member)
        kill_a_worker(rig)
        rig.await_generation("workers", completed)
        # Spark meets a dead worker when it next wants one. Four at once would be more than a task's attempts.
        rig.await_counts()
        wait_for(lambda: rig.record_totals() == count_log(rig.broker.bootstrap), "every record to be counted")
    assert restarts(rig) == before


def kill_a_worker(rig: Rig) -> None:
    """Kill one Python worker of Spark, as soon as there is one."""

    def workers() -> list[int]:
        daemons = processes(rig, "pyspark.daemon")
        return [pid for pid in daemons if parent_of(pid) in daemons]

    pid = wait_for(workers, "a Python worker")[-1]
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def parent_of(pid: int) -> int | None:
    """Return the parent of a process, null for one that is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def test_a_diagnosis_that_is_killed_comes_back_alone(rig: Rig):
    """Membership and activity go on meanwhile; findings that were open are open again, under their ids."""
    rig.start(spec("judged", "a"))
    wait_for(lambda: open_findings(rig), "something to be found")
    before, found = restarts(rig), open_findings(rig)
    killed = diagnosis_of(rig)
    os.kill(killed, signal.SIGKILL)
    rig.start(spec("judged", "b"))
    rig.await_counts()
    back_ms = wait_for(lambda: killed not in processes(rig, "diagnosis.worker") and judged_at_ms(rig), "it to be gone")
    assert diagnosis_of(rig) != killed
    wait_for(lambda: judged_at_ms(rig) > back_ms, "the diagnosis to judge again")
    assert found.items() <= open_findings(rig).items()
    after = wait_for(lambda: (now := restarts(rig)) != before and now, "the restart to be told")
    assert after == {**before, "diagnosis": before["diagnosis"] + 1}


HUGE, DEEP = 2**70, 100_000


def hostile_values() -> Iterator[bytes]:
    """Yield values that no writer of the monitor writes."""
    yield from (b"", b"\x00", b"\xff\xfe\xfd", b"null", b"[]", b"{}", b"0", b'"x"', b"[" * DEEP, b'{"a":' * DEEP)
    yield b"x" * 500_000
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


def test_hostile_rows_in_every_topic_stop_nothing(rig: Rig):
    """No query and no process ends or starts again, and a rebalance afterwards is counted, judged and shown."""
    rig.start(spec("after", "a"))
    rig.await_counts()
    before, diagnosis = restarts(rig), diagnosis_of(rig)
    producer = Producer({"bootstrap.servers": rig.broker.bootstrap, "log_level": 0})
    for topic in topics.TOPICS:
        for number, value in enumerate(hostile_values()):
            for key in (b"default/judged/x", b"\xff", f"default/{number}".encode()):
                producer.produce(topic.full_name(CONFIG.topic_prefix), value, key)
            producer.poll(0)
    assert producer.flush(60) == 0
    rig.start(spec("after", "b"))
    # What the hostile rows claim of other groups is theirs; this one's is as the broker's log says.
    wait_for(lambda: rig.counts().get("after") == rig.expected_counts()["after"], "the rebalance to be counted", 180)
    now = judged_at_ms(rig)
    wait_for(lambda: judged_at_ms(rig) > now + 2_000, "the diagnosis to go on")
    assert restarts(rig) == before
    assert diagnosis_of(rig) == diagnosis
    rig.monitor.check()

    # What a new process takes up again is full of them too.
    os.kill(diagnosis, signal.SIGKILL)
    wait_for(lambda: restarts(rig) != before, "the restart to be told")
    now = judged_at_ms(rig)
    wait_for(lambda: judged_at_ms(rig) > now + 2_000, "the diagnosis to be back", 180)
    assert restarts(rig) == {**before, "diagnosis": before["diagnosis"] + 1}
