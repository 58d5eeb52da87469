"""Every rebalance is counted once: against the broker's own log, across restarts of the stream, without a trace."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from e2e.rig import OFFSETS_TOPIC, Rig, count_log, read_topic, running_rig
from rebalance_deploy.demo.workload import ConsumerSpec
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.wire.decode import DecodedKey, decode_key
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SESSION_MS = 3_000

#: One of the stream's rows, as JSON.
Row = dict[str, Any]


def spec(group: str, name: str, library: str = "confluent-kafka", **settings: str) -> ConsumerSpec:
    """Describe a consumer with a short session; kafka-python and librdkafka alike."""
    return ConsumerSpec(library, group, "orders", f"{group}-{name}", session_timeout_ms=SESSION_MS, **settings)  # type: ignore[arg-type]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A throw-away broker and a monitor of its own."""
    with running_rig(tmp_path) as running:
        yield running


def join_leave_and_kill(rig: Rig, group: str, library: str) -> None:
    """Make at least six rebalances: two joins, a leave, a join, a kill until expiry, a last leave."""
    first, second, third = (spec(group, name, library) for name in "abc")
    rig.start(first)
    rig.start(second)
    rig.leave(first)
    rig.start(third)
    rig.kill(second)
    rig.leave(third)


def restart_fast(rig: Rig, group: str) -> None:
    """Restart a member at once, so that the new one waits in the barrier for its old self to expire."""
    member = spec(group, "x")
    rig.start(member)
    rig.clients.pop(member.client_id).kill()
    rig.start(member)


def restart_static(rig: Rig, group: str) -> None:
    """Restart a static member within its session: a replacement and no rebalance."""
    static = dataclasses.replace(spec(group, "s"), group_instance_id=f"{group}-instance", session_timeout_ms=30_000)
    rig.start(static)
    before = rig.truth(group).generation
    rig.leave(static)
    rig.start(static)
    wait_for(lambda: replaced(rig, group) == 1, "the static member to be back")
    assert rig.truth(group).generation == before


def replaced(rig: Rig, group: str) -> int:
    """Return how many members of a group the monitor saw replaced."""
    from e2e.rig import samples  # noqa: PLC0415

    return sum(
        int(value)
        for name, labels, value in samples(rig.monitor.url)
        if name == "kafka_rebalance_member_changes_total"
        and labels["group"] == group
        and labels["change"] == "replaced"
    )


def rebalance_while_the_stream_is_stopped(rig: Rig, group: str) -> None:
    """Put several rebalances into one micro-batch, by stopping the stream's processes meanwhile, the JVM too."""
    pids = family(rig.monitor.stream.process.pid)
    assert any("java" in Path(f"/proc/{pid}/cmdline").read_text() for pid in pids)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        members = [spec(group, name) for name in "pq"]
        for member in members:
            rig.start(member)
        for member in members:
            rig.leave(member)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def family(ancestor: int) -> list[int]:
    """Return a process and all that descend from it, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if entry.name.isdigit():
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [ancestor]
    for each in found:
        found += children.get(each, [])
    return found


def test_every_rebalance_is_counted_once_whatever_happens_to_the_stream(rig: Rig):
    """At least 20 rebalances in 6 groups, several in one batch, the stream killed in the middle: the totals are exact.

    Afterwards a stop in order ends with exit code 0 and a new start changes nothing, every record of the log was
    counted once, and neither the broker nor the log knows of a group that is the monitor's own.
    """
    join_leave_and_kill(rig, "classic-rdk", "confluent-kafka")
    join_leave_and_kill(rig, "classic-python", "kafka-python")
    restart_static(rig, "static")
    rebalance_while_the_stream_is_stopped(rig, "one-batch")
    before = rig.await_counts()

    stayer = spec("through-kill", "stayer")
    rig.start(stayer)
    rig.monitor.stream.process.kill()
    restart_fast(rig, "fast-restart")
    passer = spec("through-kill", "passer")
    rig.start(passer)
    rig.leave(passer)
    rig.monitor.stream.start()
    after = rig.await_counts()
    assert {group: after[group] for group in before} == before
    assert len(after) >= 5
    assert sum(each.completed for each in after.values()) >= 20

    assert rig.monitor.stream.process.terminate(45) == 0
    rig.monitor.stream.start()
    rig.leave(stayer)
    # Nobody is left whose session might still expire while the log is recorded.
    rig.leave(spec("fast-restart", "x"))
    final = rig.await_counts()
    wait_for(lambda: rig.record_totals() == count_log(rig.broker.bootstrap), "every record to be counted")
    assert groups_known(rig) == set(final)
    assert_replay_agrees(rig)


def assert_replay_agrees(rig: Rig) -> None:
    """A recording of what the stream has read, replayed, has the same rebalances, totals and windows."""
    replayed = replay_recording(rig)
    wait_for(lambda: settled(rig) == replayed["group"].keys(), "every rebalance to be counted with its duration")
    prefix = StreamConfig().topic_prefix
    live = {
        "group": rows(rig, f"{prefix}groups", ("group",)),
        "rebalance": rows(rig, f"{prefix}rebalances", ("group", "rebalance_id")),
    }
    assert live["rebalance"].keys() == replayed["rebalance"].keys()
    for name, row in live["rebalance"].items():
        assert without_bounds(row) == without_bounds(replayed["rebalance"][name])
    for name, row in live["group"].items():
        again = replayed["group"][name]
        assert totals(row) == totals(again), name
        assert counts_per_pane(row) == counts_per_pane(again), name
        assert (row["generation"], row["members"]) == (again["generation"], again["members"])
    said: list[dict[str, str]] = []

    def agreed() -> bool:
        # Who stays away is the surer to have crashed, so both must be asked at about the same time.
        said[:] = [_causes(replay_recording(rig)["finding"].values()), causes(rig)]
        return said[0] == said[1] and said[0].keys() == {"/".join(key) for key in live["rebalance"]}

    wait_for(agreed, lambda: f"the same causes replayed and live, not {said}", 240, every=2)


def causes(rig: Rig) -> dict[str, str]:
    """Return the primary cause of every rebalance that has been judged, by the findings topic."""
    prefix = StreamConfig().topic_prefix
    return _causes(rows(rig, f"{prefix}findings", ("finding_id",)).values())


def _causes(findings: Iterable[Row]) -> dict[str, str]:
    primary = [each for each in findings if each["primary"] and each["state"] == "firing"]
    return {f"{each['group']}/{name}": each["rule"] for each in primary for name in each["rebalance_ids"]}


def replay_recording(rig: Rig) -> dict[str, dict[tuple[str, ...], Row]]:
    """Record everything there is and replay it; rows by kind and key."""
    script = [sys.executable, "-m", "rebalance_deploy"]
    recording = rig.directory / "recording.jsonl"
    with recording.open("wb") as file:
        flags = ["--bootstrap-server", rig.broker.bootstrap, "--to-end"]
        subprocess.run([*script, "record", *flags], stdout=file, check=True, timeout=180)
    found: dict[str, dict[tuple[str, ...], Row]] = {"group": {}, "rebalance": {}, "commits": {}, "finding": {}}
    answer = subprocess.run(
        [*script, "replay", "--output", "all", recording], capture_output=True, check=True, timeout=180
    )
    for line in answer.stdout.splitlines():
        row = json.loads(line)
        kind = row.pop("kind")
        own = {"rebalance": "rebalance_id", "finding": "finding_id"}.get(kind)
        key = (row["group"],) if own is None else (row["group"], row[own])
        found[kind][key] = row
    return found


def rows(rig: Rig, topic: str, key: tuple[str, ...]) -> dict[tuple[str, ...], Row]:
    """Return the latest row per key of one of the stream's topics."""
    values = (json.loads(value) for _, value in read_topic(rig.broker.bootstrap, topic) if value)
    return {tuple(row[part] for part in key): row for row in values}


def settled(rig: Rig) -> set[tuple[str, ...]]:
    """Return the groups whose every rebalance is in the duration totals."""
    groups = rows(rig, f"{StreamConfig().topic_prefix}groups", ("group",))
    return {
        key
        for key, row in groups.items()
        if sum(row["counters"]["durations"]) == sum(row["counters"]["rebalances"].values())
    }


def without_bounds(row: Row) -> Row:
    """Drop what depends on when evidence came in: the stream takes it up only while the rebalance is the latest."""
    bounds = {"started_after_ms", "started_before_ms", "duration_min_ms", "duration_max_ms"}
    bounds |= {"silences", "lost_partition_ms", "lag_before", "lag_peak", "lag_recovered_at_ms"}
    return {name: value for name, value in row.items() if name not in bounds}


def totals(row: Row) -> Row:
    """Return a group's totals but for its durations, and how members left: both are judged on the evidence so far."""
    return {
        name: value
        for name, value in row["counters"].items()
        if name not in ("durations", "duration_ms", "lost_partition_ms", "members_expired", "members_poll_timeout")
    }


def counts_per_pane(row: Row) -> list[Row]:
    """Return a group's panes in which something was counted."""
    panes = ({name: n for name, n in pane.items() if name != "rebalancing_ms"} for pane in row["windows"]["panes"])
    return [pane for pane in panes if any(n for name, n in pane.items() if name != "start_ms")]


def groups_known(rig: Rig) -> set[str]:
    """Return every group the broker lists or the log has a record of."""
    admin = AdminClient({"bootstrap.servers": rig.broker.bootstrap})
    listed = {each.group_id for each in admin.list_consumer_groups().result().valid}
    keys = {key for key, _ in read_topic(rig.broker.bootstrap, OFFSETS_TOPIC, isolation="read_uncommitted")}
    return listed | {read.key.group for key in keys if isinstance(read := decode_key(key), DecodedKey)}
