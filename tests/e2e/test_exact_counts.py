"""Every rebalance is counted once: against the broker's own log, across restarts of the stream, without a trace."""

import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from e2e.rig import OFFSETS_TOPIC, Rig, count_log, family, read_topic, running_rig
from rebalance_contract import encode
from rebalance_deploy.demo.workload import ConsumerSpec
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.replay import Replay, make_engine, read_lines
from rebalance_streaming.wire.decode import DecodedKey, decode_key
from waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SESSION_MS = 3_000

#: One of the stream's rows, as JSON.
Row = dict[str, Any]
#: Rows by the fields that make their key.
Rows = dict[tuple[Any, ...], Row]


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
    """A recording of what the stream has read, replayed, has the same rows."""
    await_same(rig, "rebalance", rebalances_differ)
    await_same(rig, "group", groups_differ)
    await_same(rig, "impact", impacts_differ)
    await_same(rig, "lag", lags_differ)
    said: list[dict[str, str]] = []
    judged = {f"{group}/{name}" for group, name in rows(rig, "rebalances", ("group", "rebalance_id"))}

    def agreed() -> bool:
        # Who stays away is the surer to have crashed, so both must be asked at about the same time.
        said[:] = [_causes(replay_recording(rig)["finding"].values()), causes(rig)]
        return said[0] == said[1] and said[0].keys() == judged

    wait_for(agreed, lambda: f"the same causes replayed and live, not {said}", 240, every=2)


def await_same(rig: Rig, kind: str, difference: Callable[[Rig, Rows], dict[Any, Any]]) -> None:
    """Wait until no row of a kind differs: the diagnosis publishes what it works out a moment later."""
    found: dict[Any, Any] = {}

    def same() -> bool:
        found.clear()
        found.update(difference(rig, replay_recording(rig)[kind]))
        return not found

    wait_for(same, lambda: f"the same {kind} rows replayed and live, not {found}", 120, every=2)


#: Ends of the time that a rebalance may have begun or taken: they follow from when evidence was read, and the stream
#: takes evidence up only while the rebalance is the latest.
_BOUNDS = {"started_after_ms", "started_before_ms", "duration_min_ms", "duration_max_ms"}


def rebalances_differ(rig: Rig, replayed: Rows) -> dict[Any, Any]:
    """Return the fields that differ, by rebalance."""
    return differences(rows(rig, "rebalances", ("group", "rebalance_id")), replayed, _BOUNDS)


def groups_differ(rig: Rig, replayed: Rows) -> dict[Any, Any]:
    """Return the fields that differ, by group, but for durations: they follow from the bounds above."""
    live = {key: as_settled(row) for key, row in rows(rig, "groups", ("group",)).items()}
    return differences(live, {key: as_settled(row) for key, row in replayed.items()}, set())


def as_settled(row: Row) -> Row:
    """Return a group's row as it is once its last rebalance is in its totals, without durations."""
    counters, panes = dict(row["counters"]), [dict(pane) for pane in row["windows"]["panes"]]
    if row["settlement"]:
        counters["partitions_moved"] += row["settlement"]["partitions_moved"]
    for name in ("durations", "duration_ms"):
        del counters[name]
    for pane in panes:
        del pane["rebalancing_ms"]
    counted = [pane for pane in panes if any(n for name, n in pane.items() if name != "start_ms")]
    return {**row, "settlement": None, "counters": counters, "windows": {**row["windows"], "panes": counted}}


def impacts_differ(rig: Rig, replayed: Rows) -> dict[Any, Any]:
    """Return the fields that differ, by rebalance, or by group for the totals."""
    return differences(rows(rig, "impact", ("group", "rebalance_id")), replayed, {"kind"})


def lags_differ(rig: Rig, replayed: Rows) -> dict[Any, Any]:
    """Return the fields that differ, by group; the replay's windows end when those that were published do."""
    live = rows(rig, "lag", ("group",))
    state = Replay(engine=make_engine("default"))
    with (rig.directory / "recording.jsonl").open("rb") as file:
        deque(itertools.chain(state.feed(read_lines([file])), state.finish()), maxlen=0)
    assert state.engine is not None
    assert replayed.keys() == live.keys()
    again = {(group,): json.loads(encode(state.engine.lag_row(group, row["at_ms"]))) for (group,), row in live.items()}
    return differences(live, again, set())


def differences(live: Rows, replayed: Rows, ignored: set[str]) -> dict[Any, Any]:
    """Return (live, replayed) of every field that is not the same, by key; a row that one lacks differs as a whole."""
    found: dict[Any, Any] = {}
    for key in live.keys() | replayed.keys():
        one, other = live.get(key), replayed.get(key)
        if one is None or other is None:
            found[key] = one, other
            continue
        names = (one.keys() | other.keys()) - ignored
        unlike = {name: (one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)}
        if unlike:
            found[key] = unlike
    return found


def causes(rig: Rig) -> dict[str, str]:
    """Return the primary cause of every rebalance that has been judged, by the findings topic."""
    return _causes(rows(rig, "findings", ("finding_id",)).values())


def _causes(findings: Iterable[Row]) -> dict[str, str]:
    primary = [each for each in findings if each["primary"] and each["state"] == "firing"]
    return {f"{each['group']}/{name}": each["rule"] for each in primary for name in each["rebalance_ids"]}


def replay_recording(rig: Rig) -> dict[str, Rows]:
    """Record everything there is and replay it; rows by kind and key."""
    script = [sys.executable, "-m", "rebalance_deploy"]
    recording = rig.directory / "recording.jsonl"
    with recording.open("wb") as file:
        flags = ["--bootstrap-server", rig.broker.bootstrap, "--to-end"]
        subprocess.run([*script, "record", *flags], stdout=file, check=True, timeout=180)
    answer = subprocess.run(
        [*script, "replay", "--output", "all", recording], capture_output=True, check=True, timeout=180
    )
    found: dict[str, Rows] = {kind: {} for kind in _KEYS}
    for line in answer.stdout.splitlines():
        row = json.loads(line)
        kind = row.pop("kind")
        kind = "impact" if kind.endswith("_impact") else kind
        found[kind][tuple(row.get(part, "") for part in _KEYS[kind])] = row
    return found


#: The fields that tell rows of a kind apart.
_KEYS = {
    "group": ("group",),
    "rebalance": ("group", "rebalance_id"),
    "commits": ("group", "last_log_offset"),
    "lag": ("group",),
    "impact": ("group", "rebalance_id"),
    "finding": ("finding_id",),
}


def rows(rig: Rig, topic: str, key: tuple[str, ...]) -> Rows:
    """Return the latest row per key of one of the stream's topics, by its name without the prefix."""
    name = f"{StreamConfig().topic_prefix}{topic}"
    values = (json.loads(value) for _, value in read_topic(rig.broker.bootstrap, name) if value)
    return {tuple(row.get(part, "") for part in key): row for row in values}


def groups_known(rig: Rig) -> set[str]:
    """Return every group the broker lists or the log has a record of."""
    admin = AdminClient({"bootstrap.servers": rig.broker.bootstrap})
    listed = {each.group_id for each in admin.list_consumer_groups().result().valid}
    keys = {key for key, _ in read_topic(rig.broker.bootstrap, OFFSETS_TOPIC, isolation="read_uncommitted")}
    return listed | {read.key.group for key in keys if isinstance(read := decode_key(key), DecodedKey)}
