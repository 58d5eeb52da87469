"""Every rebalance is counted once: compared with the broker's own log, across restarts of the stream."""

import dataclasses
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from e2e.replaying import assert_replay_agrees, rows
from e2e.rig import DEADLINE_SECONDS, KUBERNETES, Rig, family, read_topic, running_rig
from faults.observing import assert_records_counted, restarts, worker_of
from rebalance_deploy.demo.workload import ConsumerSpec
from rebalance_streaming.wire.decode import DecodedKey, decode_key
from rebalance_streaming.wire.records import OFFSETS_TOPIC
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1_800)]

SESSION_MS = 3_000
#: Time limit for an uninterrupted stop on a machine that stalls; it usually takes some seconds.
STOP_SECONDS = 330


def spec(group: str, name: str, library: str = "confluent-kafka", **settings: Any) -> ConsumerSpec:
    """Return the specification of a consumer with a short session, for kafka-python or librdkafka."""
    return ConsumerSpec(library, group, "orders", f"{group}-{name}", session_timeout_ms=SESSION_MS, **settings)


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """A throw-away broker and a monitor of its own, with service variables as in a container of Kubernetes."""
    for name, value in KUBERNETES.items():
        monkeypatch.setenv(name, value)
    with running_rig(tmp_path, f"stream.stop_timeout_seconds={STOP_SECONDS - 30}") as running:
        yield running


def join_leave_and_kill(rig: Rig, group: str, library: str) -> None:
    """Cause at least six rebalances: two joins, a leave, a join, a kill until expiry, a last leave."""
    first, second, third = (spec(group, name, library) for name in "abc")
    rig.start(first)
    rig.start(second)
    rig.leave(first)
    rig.start(third)
    rig.kill(second)
    rig.leave(third)


def restart_fast(rig: Rig, group: str) -> None:
    """Restart a member at once, so that the new one waits in the barrier until the old one expires."""
    member = spec(group, "x")
    rig.start(member)
    rig.clients.pop(member.client_id).kill()
    rig.start(member)


def restart_static(rig: Rig, group: str) -> None:
    """Restart a static member within its session, which nothing waits for: a replacement and no rebalance."""
    static = dataclasses.replace(spec(group, "s"), group_instance_id=f"{group}-instance", session_timeout_ms=280_000)
    rig.start(static)
    before = rig.truth(group).generation
    rig.leave(static)
    rig.start(static)
    wait_for(lambda: replaced(rig, group) == 1, "the static member to be back", DEADLINE_SECONDS)
    assert rig.truth(group).generation == before


def replaced(rig: Rig, group: str) -> int:
    """Return how many replaced members of a group the monitor saw."""
    from e2e.rig import samples  # noqa: PLC0415

    return sum(
        int(value)
        for name, labels, value in samples(rig.monitor.url)
        if name == "kafka_rebalance_member_changes_total"
        and labels["group"] == group
        and labels["change"] == "replaced"
    )


def rebalance_while_the_stream_is_stopped(rig: Rig, group: str) -> None:
    """Put several rebalances into one micro-batch, by suspending the stream's processes, including the JVM."""
    pids = family(rig.monitor.stream.process.pid)
    assert any("java" in Path(f"/proc/{pid}/cmdline").read_text() for pid in pids)
    send(pids, signal.SIGSTOP)
    try:
        members = [spec(group, name) for name in "pq"]
        for member in members:
            rig.start(member)
        for member in members:
            rig.leave(member)
    finally:
        send(pids, signal.SIGCONT)


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes; one may have exited since they were listed."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def rebalance_while_a_worker_is_killed(rig: Rig, group: str) -> None:
    """Kill one of Spark's Python workers: its task is retried, and no query ends."""
    before, member = restarts(rig), spec(group, "w")
    rig.start(member)
    send([worker_of(rig)], signal.SIGKILL)
    rig.leave(member)
    rig.await_counts()
    assert restarts(rig) == before


def test_every_rebalance_is_counted_once_whatever_happens_to_the_stream(rig: Rig):
    """At least 20 rebalances in 7 groups, several in one batch, the stream killed in the middle: the totals are exact.

    Afterwards a clean stop has exit code 0 and a new start changes nothing, every record of the log was counted once,
    and neither the broker nor the log has a group of the monitor itself.
    """
    join_leave_and_kill(rig, "classic-rdk", "confluent-kafka")
    join_leave_and_kill(rig, "classic-python", "kafka-python")
    restart_static(rig, "static")
    rebalance_while_a_worker_is_killed(rig, "worker-killed")
    rebalance_while_the_stream_is_stopped(rig, "one-batch")
    before = rig.await_counts()

    # Its reports are compared as those of one member: its session outlives a pause of the machine.
    stayer = dataclasses.replace(spec("through-kill", "stayer"), session_timeout_ms=10_000, reports=True)
    rig.start(stayer)
    rig.monitor.stream.process.kill()
    restart_fast(rig, "fast-restart")
    passer = spec("through-kill", "passer")
    rig.start(passer)
    rig.leave(passer)
    rig.monitor.stream.start()
    after = rig.await_counts()
    wait_for(lambda: rows(rig, "heartbeats", ("group",)), "what the stayer reports to be published", DEADLINE_SECONDS)
    assert {group: after[group] for group in before} == before
    assert len(after) >= 5
    assert sum(each.completed for each in after.values()) >= 20

    assert rig.monitor.stream.process.terminate(STOP_SECONDS) == 0
    rig.monitor.stream.start()
    rig.leave(stayer)
    # No members are left whose session could expire while the log is recorded.
    rig.leave(spec("fast-restart", "x"))
    final = rig.await_counts()
    assert_records_counted(rig)
    assert groups_known(rig) == set(final)
    assert_replay_agrees(rig)


def groups_known(rig: Rig) -> set[str]:
    """Return every group that the broker lists or the log has a record of."""
    admin = AdminClient({"bootstrap.servers": rig.broker.bootstrap})
    listed = {each.group_id for each in admin.list_consumer_groups().result().valid}
    keys = {key for key, _ in read_topic(rig.broker.bootstrap, OFFSETS_TOPIC, isolation="read_uncommitted")}
    return listed | {read.key.group for key in keys if isinstance(read := decode_key(key), DecodedKey)}
