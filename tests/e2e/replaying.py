"""Compares a replayed recording of the stream's input with what the stream published."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from e2e.rig import Rig, read_topic
from rebalance_contract import GroupLag, GroupTiming, Rebalance, decode, encode, topics
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.engine.engine import Engine
from rebalance_streaming.recording import read_lines
from rebalance_streaming.replay import Replay, make_engine
from waiting import wait_for

#: Minimum time for which a finding about a past event fires.
_FIRES_MS = Thresholds().resolve_after_ms

#: One of the stream's rows, as JSON.
Row = dict[str, Any]
#: Rows by the fields that form their key.
Rows = dict[tuple[Any, ...], Row]


def assert_replay_agrees(rig: Rig) -> None:
    """Check that a replayed recording of the stream's input has the same rows and causes."""

    def causes_differ(findings: Rows) -> dict[str, Any]:
        live, replayed = _causes_found(rows(rig, "findings", ("finding_id",))), _causes_found(findings)
        judged = {"/".join(each) for each in _rebalances(rig)}
        is_same = live == replayed and live.keys() == judged
        return {} if is_same else {"live": live, "replayed": replayed}

    _await_agreement(rig, ("rebalance", "group", "impact", "lag", "timing"), causes_differ)


def _rebalances(rig: Rig) -> Rows:
    """Return the published rebalances by group and id; rows written by an earlier version get today's fields."""
    found = rows(rig, "rebalances", ("group", "rebalance_id"))
    read = {key: json.loads(encode(decode(json.dumps(row).encode(), Rebalance))) for key, row in found.items()}
    return {key: {name: value for name, value in row.items() if name in found[key]} for key, row in read.items()}


def assert_facts_and_causes_agree(rig: Rig, judged: Callable[[str], bool]) -> None:
    """Check that a replayed recording of the stream's input has the same groups, rebalances and causes.

    `judged` names the groups whose causes are compared: those that were found, including ones that are over by now.
    """

    def causes_differ(findings: Rows) -> dict[str, Any]:
        both = "firing", "resolved"
        live, replayed = _causes(rows(rig, "findings", ("finding_id",)), *both), _causes(findings, *both)
        reported = {each for each in live.keys() | replayed.keys() if judged(each.rpartition("/")[0])}
        return {each: (live.get(each), replayed.get(each)) for each in reported if live.get(each) != replayed.get(each)}

    _await_agreement(rig, ("rebalance", "group"), causes_differ)


def _await_agreement(rig: Rig, kinds: Iterable[str], causes_differ: Callable[[Rows], dict[str, Any]]) -> None:
    found: dict[str, Any] = {}

    def agreed() -> bool:
        # The diagnosis publishes its results a moment later. Also, the longer a member stays away the more likely it
        # has crashed, so both sets of causes must be read at about the same time.
        replayed = replay_recording(rig)
        found.clear()
        found.update({kind: _DIFFERENCES[kind](rig, replayed[kind]) for kind in kinds})
        found["cause"] = causes_differ(replayed["finding"])
        return not any(found.values())

    wait_for(agreed, lambda: f"the same rows replayed and live, not {found}", 420, every=2)


#: Bounds of when a rebalance began and how long it took: they depend on when evidence was read, and the stream uses
#: evidence only while the rebalance is the latest.
_BOUNDS = {"started_after_ms", "started_before_ms", "duration_min_ms", "duration_max_ms"}


def rebalances_differ(rig: Rig, replayed: Rows) -> dict[Any, Any]:
    """Return the differing fields by rebalance; fields that an earlier version did not write are not compared."""
    live = _rebalances(rig)
    written = {key: live.get(key, row).keys() for key, row in replayed.items()}
    known = {key: {name: value for name, value in row.items() if name in written[key]} for key, row in replayed.items()}
    return differences(live, known, _BOUNDS)


def groups_differ(rig: Rig, replayed: Rows) -> dict[Any, Any]:
    """Return the differing fields by group, except durations, which depend on the bounds above.

    Groups that only commit have a row in the replay; in live operation they have a row of lag, and their row of groups
    has at most the coordinator that a probe found.
    """
    simple = {key for key, row in replayed.items() if row["type"] == "simple"}
    live = {key: row for key, row in rows(rig, "groups", ("group",)).items() if row["type"] or key not in simple}
    replayed = {key: row for key, row in replayed.items() if key not in simple}
    return differences(_settled(live), _settled(replayed), set())


def _settled(groups: Rows) -> Rows:
    return {key: as_settled(row) for key, row in groups.items()}


def as_settled(row: Row) -> Row:
    """Return a group's row after its last rebalance was added to its totals, without durations."""
    counters, panes = dict(row["counters"]), [dict(pane) for pane in row["windows"]["panes"]]
    if row["settlement"]:
        counters["partitions_moved"] += row["settlement"]["partitions_moved"]
    for name in ("durations", "duration_ms"):
        del counters[name]
    for pane in panes:
        del pane["rebalancing_ms"]
    counted = [pane for pane in panes if any(n for name, n in pane.items() if name != "start_ms")]
    return {**row, "settlement": None, "counters": counters, "windows": {**row["windows"], "panes": counted}}


#: Lag at the time of a probe is calculated with the commits read so far: in live operation those of each batch, in a
#: replay those of each pane, so that a group's first probe may find its commits in one but not in the other.
_LAG_AROUND = ("lag_before", "lag_peak", "lag_recovered_at_ms")


def impacts_differ(rig: Rig, replayed: Rows) -> dict[Any, Any]:
    """Return the differing fields except lag, by rebalance, or by group for the totals."""
    return differences(_costs(rows(rig, "impact", ("group", "rebalance_id"))), _costs(replayed), {"kind"})


def _costs(impacts: Rows) -> Rows:
    """Return the impact of rebalances without lag, and without rows and shares that are empty without it."""
    found: Rows = {}
    for (group, name), row in impacts.items():
        if name:
            cost = {field: value for field, value in row.items() if field not in _LAG_AROUND}
            says = cost["silences"] or any(cost.get(field) is not None for field in _HOW_LEFT)
        else:
            shares = {each: share for each, share in row["counted"].items() if _is_cost(share)}
            cost = {**row, "counted": shares}
            says = shares or _is_cost(row["earlier"])
        if says:
            found[group, name] = cost
    return found


_HOW_LEFT = ("expired", "poll_timeout")


def _is_cost(share: Row) -> bool:
    return any(value for field, value in share.items() if field != "started_at_ms")


def lags_differ(rig: Rig, replayed: Rows) -> dict[Any, Any]:
    """Return the differing fields by group, except durations; replayed windows end when the published ones do."""
    live, engine = rows(rig, "lag", ("group",)), _engine_of(rig)
    # Rows of the last groups may still arrive, or have arrived since the replay.
    if replayed.keys() != live.keys():
        return {each: (live.get(each), replayed.get(each)) for each in replayed.keys() ^ live.keys()}
    again = {key: _row_as_of(engine, GroupLag, key[0], row["at_ms"]) for key, row in live.items()}
    return differences(_without_some(live, live), _without_some(again, live), set())


def timings_differ(rig: Rig, _: Rows) -> dict[Any, Any]:
    """Return the differing fields by group: each published row compared with a replay of the reports so far.

    At least one client must report: a client that is alone in its group when the group is last published.
    """
    live, again = rows(rig, "heartbeats", ("group",)), Rows()
    assert live
    for key, row in live.items():
        (member,) = row["members"]
        engine = _engine_of(rig, _written_ms(rig, member["reported_at_ms"]))
        again[key] = _row_as_of(engine, GroupTiming, key[0], row["at_ms"])
    return differences(live, again, set())


def _written_ms(rig: Rig, reported_at_ms: int) -> int:
    """Return when the record of a report was written."""
    with (rig.directory / "recording.jsonl").open("rb") as file:
        lines = (line for line in read_lines([file]) if line.topic.endswith(topics.CLIENT_METRICS.name))
        return min(line.timestamp_ms for line in lines if line.timestamp_ms >= reported_at_ms)


def _engine_of(rig: Rig, until_ms: int | None = None) -> Engine:
    """Return the engine of a replay of the recording, up to a time or of all of it."""
    engine = make_engine("default")
    state = Replay(engine=engine)
    with (rig.directory / "recording.jsonl").open("rb") as file:
        deque(itertools.chain(state.feed(read_lines([file], until_ms)), state.finish()), maxlen=0)
    return engine


def _row_as_of(engine: Engine, kind: type[GroupLag] | type[GroupTiming], group: str, at_ms: int) -> Row:
    """Return an engine's row of a group as of a time, or nothing if it has none."""
    found = (row for row in engine.finish(at_ms) if isinstance(row, kind) and row.group == group)
    return next((dict(json.loads(encode(row))) for row in found), {})


def _without_some(lags: Rows, live: Rows) -> Rows:
    """Return rows of lag without ratios of time, and without slopes where the live row has none.

    A slope needs two probes. A live row is published as soon as there is lag to report; the second probe alone does not
    publish it again.
    """
    found: Rows = {}
    for key, row in lags.items():
        windows = {name: {**each, "rebalancing_ratio": None} for name, each in row["windows"].items()}
        for name, each in live[key]["windows"].items():
            if each["lag_slope"] is None:
                windows[name]["lag_slope"] = None
        found[key] = {**row, "windows": windows}
    return found


def differences(live: Rows, replayed: Rows, ignored: set[str]) -> dict[Any, Any]:
    """Return (live, replayed) of every differing field by key; a row missing on one side differs as a whole."""
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


def _causes(findings: Rows, *states: str) -> dict[str, str]:
    """Return the primary cause of each rebalance (group/id) by the findings in these states.

    A finding replaced by a better explanation is resolved, and its row still names the rebalances.
    """
    primary = [each for each in findings.values() if each["primary"] and each["state"] in states]
    primary.sort(key=lambda each: (each["state"] == "firing", each["updated_at_ms"]))
    return {f"{each['group']}/{name}": each["rule"] for each in primary for name in each["rebalance_ids"]}


def _causes_found(findings: Rows) -> dict[str, str]:
    """Return the primary cause of each rebalance, by findings that fire or fired for at least the minimum time.

    The live and the replayed findings are not read at the same time, and on a slow machine one may be over by the time
    it is read. A finding that was replaced by a better explanation was resolved at once.
    """
    counted = {key: row for key, row in findings.items() if row["state"] == "firing" or _lasted_ms(row) >= _FIRES_MS}
    return _causes(counted, "firing", "resolved")


def _lasted_ms(resolved: Row) -> int:
    return int(resolved["resolved_at_ms"] - resolved["started_at_ms"])


_DIFFERENCES: dict[str, Callable[[Rig, Rows], dict[Any, Any]]] = {
    "rebalance": rebalances_differ,
    "group": groups_differ,
    "impact": impacts_differ,
    "lag": lags_differ,
    "timing": timings_differ,
}


def replay_recording(rig: Rig) -> dict[str, Rows]:
    """Record all available topics and replay them; return rows by kind and key."""
    script = [sys.executable, "-m", "rebalance_deploy"]
    recording = rig.directory / "recording.jsonl"
    with recording.open("wb") as file:
        flags = ["--bootstrap-server", rig.broker.bootstrap, "--to-end"]
        subprocess.run([*script, "record", *flags], stdout=file, check=True, timeout=600)
    answer = subprocess.run(
        [*script, "replay", "--output", "all", recording], capture_output=True, check=True, timeout=600
    )
    found: dict[str, Rows] = {kind: {} for kind in _KEYS}
    for line in answer.stdout.splitlines():
        row = json.loads(line)
        kind = row.pop("kind")
        kind = "impact" if kind.endswith("_impact") else kind
        found[kind][tuple(row.get(part, "") for part in _KEYS[kind])] = row
    return found


#: The fields that identify a row of each kind.
_KEYS = {
    "group": ("group",),
    "rebalance": ("group", "rebalance_id"),
    "commits": ("group", "last_log_offset"),
    "lag": ("group",),
    "impact": ("group", "rebalance_id"),
    "timing": ("group",),
    "finding": ("finding_id",),
}


def rows(rig: Rig, topic: str, key: tuple[str, ...]) -> Rows:
    """Return the latest row per key of one of the stream's topics, by its name without the prefix."""
    name = f"{StreamConfig().topic_prefix}{topic}"
    values = (json.loads(value) for _, value in read_topic(rig.broker.bootstrap, name) if value)
    return {tuple(row.get(part, "") for part in key): row for row in values}
