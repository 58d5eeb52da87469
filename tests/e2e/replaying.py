"""Compares a replayed recording of the stream's input with what the stream published."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from e2e.rig import Rig, read_topic
from rebalance_contract import (
    Finding,
    GroupLag,
    GroupSnapshot,
    GroupTiming,
    Probe,
    Rebalance,
    decode,
    encode,
    settled,
    topics,
)
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.findings import subject_key
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.engine.engine import Engine
from rebalance_streaming.recordings.recording import read_lines
from rebalance_streaming.recordings.replay import Replay, make_engine
from waiting import wait_for

#: Minimum time for which a finding about a past event fires.
_FIRES_MS = Thresholds().resolve_after_ms

#: One of the stream's rows, as JSON.
Row = dict[str, Any]
#: Rows by the fields that form their key.
Rows = dict[tuple[Any, ...], Row]


def assert_replay_agrees(rig: Rig) -> None:
    """Check that a replayed recording of the stream's input has the same rows.

    All fields are compared except those that the functions below name, with the reason. Findings are compared in the
    fields that do not depend on when they were judged; the other fields are compared on recordings, where both can be
    judged up to the same moment (tests/engine/test_live_and_replay.py). Nothing is written to the topics of the groups:
    lag is 0 or not known.
    """

    def findings_differ(findings: Rows) -> dict[str, Any]:
        live = rows(rig, "findings", ("finding_id",))
        causes, again = _causes_found(live), _causes_found(findings)
        judged = {"/".join(each) for each in _rebalances(rig)}
        if causes != again or causes.keys() != judged:
            return {"live": causes, "replayed": again}
        return differences(_lasting(live), _lasting(findings), set())

    _await_agreement(rig, _DIFFERENCES, findings_differ)


def _rebalances(rig: Rig) -> Rows:
    """Return the published rebalances by group and id; rows written by an earlier version get today's fields."""
    found = rows(rig, "rebalances", ("group", "rebalance_id"))
    read = {key: json.loads(encode(decode(json.dumps(row).encode(), Rebalance))) for key, row in found.items()}
    return {key: {name: value for name, value in row.items() if name in found[key]} for key, row in read.items()}


def assert_facts_and_causes_agree(rig: Rig, judged: Callable[[str], bool]) -> None:
    """Check that a replayed recording of the stream's input has the same groups, rebalances and causes.

    Bounds and durations of rebalances are left out: what a probe says of one counts while it is the latest, and a fault
    may delay the probe beyond that. `judged` names the groups whose causes are compared: those that were found,
    including ones that are over by now.
    """

    def causes_differ(findings: Rows) -> dict[str, Any]:
        both = "firing", "resolved"
        live, replayed = _causes(rows(rig, "findings", ("finding_id",)), *both), _causes(findings, *both)
        reported = {each for each in live.keys() | replayed.keys() if judged(each.rpartition("/")[0])}
        return {each: (live.get(each), replayed.get(each)) for each in reported if live.get(each) != replayed.get(each)}

    _await_agreement(rig, _FACTS, causes_differ)


def _await_agreement(
    rig: Rig,
    rows_differ: Mapping[str, Callable[[Rig, Rows], dict[Any, Any]]],
    causes_differ: Callable[[Rows], dict[str, Any]],
) -> None:
    found: dict[str, Any] = {}

    def agreed() -> bool:
        # The diagnosis publishes its results a moment later. Also, the longer a member stays away the more likely it
        # has crashed, so both sets of causes must be read at about the same time.
        replayed = replay_recording(rig)
        found.clear()
        found.update({kind: differ(rig, replayed[kind]) for kind, differ in rows_differ.items()})
        found["cause"] = causes_differ(replayed["finding"])
        return not any(found.values())

    wait_for(agreed, lambda: f"the same rows replayed and live, not {found}", 420, every=2)


#: Bounds of when a rebalance began and of how long it took.
_BOUNDS = frozenset({"started_after_ms", "started_before_ms", "duration_min_ms", "duration_max_ms"})


def rebalances_differ(rig: Rig, replayed: Rows, ignored: frozenset[str] = frozenset()) -> dict[Any, Any]:
    """Return the differing fields by rebalance, without ignored ones and any that an earlier version did not write."""
    live = _rebalances(rig)
    written = {key: live.get(key, row).keys() for key, row in replayed.items()}
    known = {key: {name: value for name, value in row.items() if name in written[key]} for key, row in replayed.items()}
    return differences(live, known, ignored)


def groups_differ(rig: Rig, replayed: Rows, read: Callable[[Row], Row] | None = None) -> dict[Any, Any]:
    """Return the differing fields by group; `read` returns what to compare of a row, null: `as_settled`.

    Groups that only commit have a row in the replay; in live operation they have a row of lag, and their row of groups
    has at most the coordinator that a probe found.
    """
    simple = {key for key, row in replayed.items() if row["type"] == "simple"}
    live = {key: row for key, row in rows(rig, "groups", ("group",)).items() if row["type"] or key not in simple}
    replayed = {key: row for key, row in replayed.items() if key not in simple}
    compared = read or as_settled
    return differences(*({key: compared(row) for key, row in each.items()} for each in (live, replayed)), set())


def _without_durations(row: Row) -> Row:
    """Return a group's row without durations, and without panes that have nothing else."""
    row = as_settled(row)
    counters = {name: value for name, value in row["counters"].items() if name not in ("durations", "duration_ms")}
    panes = [{name: n for name, n in pane.items() if name != "rebalancing_ms"} for pane in row["windows"]["panes"]]
    counted = [pane for pane in panes if any(n for name, n in pane.items() if name != "start_ms")]
    return {**row, "counters": counters, "windows": {**row["windows"], "panes": counted}}


def as_settled(row: Row) -> Row:
    """Return a group's row after its last rebalance was added to its totals, as readers of the totals see it.

    A row of an earlier version lacks later fields, which are left out again.
    """
    read = decode(json.dumps(row).encode(), GroupSnapshot)
    if read.settlement is None:
        return row
    counters: Row = json.loads(encode(settled(read.counters, read.settlement)))
    known = {name: value for name, value in counters.items() if name in row["counters"]}
    return {**row, "settlement": None, "counters": known}


#: Fields that say what was measured at probes.
_LAG_AROUND = {"lag_before", "lag_peak", "lag_recovered_at_ms"}


def impacts_differ(rig: Rig, replayed: Rows) -> dict[Any, Any]:
    """Return the differing fields by rebalance, or by group for the totals.

    A probe is read a moment after it was made, and the stream may have read a group's first commit in between: it then
    knows the lag at that probe, which is not known in a replay. Rows of such groups may differ in lag.
    """
    live = rows(rig, "impact", ("group", "rebalance_id"))
    overtaken = _overtaken(rig) if live != replayed else set()
    unsure = {key for key in live.keys() | replayed.keys() if key[0] in overtaken}
    found = differences(_of(live, unsure), _of(replayed, unsure), _LAG_AROUND)
    # Without lag these rows, or the shares of these rebalances, may be empty on one side and missing on the other.
    found = {key: values for key, values in found.items() if not _is_nothing(values)}
    return found | differences(_without(live, unsure), _without(replayed, unsure), set())


def _of(found: Rows, keys: Collection[tuple[Any, ...]]) -> Rows:
    return {key: _with_costs(row) for key, row in found.items() if key in keys}


def _without(found: Rows, keys: Collection[tuple[Any, ...]]) -> Rows:
    return {key: row for key, row in found.items() if key not in keys}


def _with_costs(row: Row) -> Row:
    """Return a row of impact; of a group's totals without shares that cost nothing."""
    if "counted" not in row:
        return row
    return {**row, "counted": {name: share for name, share in row["counted"].items() if _is_cost(share)}}


def _is_cost(share: Row) -> bool:
    return any(value for field, value in share.items() if field != "started_at_ms")


def _is_nothing(values: Any) -> bool:
    """Whether a difference is a row that one side does not have, and that says nothing apart from lag."""
    if not isinstance(values, tuple):
        return False
    row: Row = next(each for each in values if each is not None)
    if "counted" in row:
        return not row["counted"] and not _is_cost(row["earlier"])
    return not row["silences"] and row["expired"] is None and row["poll_timeout"] is None


#: How soon the stream reads a record once it was written.
_READ_WITHIN_MS = 1_000


def _overtaken(rig: Rig) -> set[str]:
    """Return the groups whose first commit may have been read before a probe that was made before it."""
    first = {key[0]: row["first_commit_ms"] for key, row in rows(rig, "lag", ("group",)).items()}
    found = set()
    with (rig.directory / "recording.jsonl").open("rb") as file:
        for line in read_lines([file]):
            if line.topic.endswith(topics.PROBES.name) and line.value is not None:
                probe = decode(line.value, Probe)
                first_ms = first.get(probe.group)
                if first_ms is not None and probe.probed_at_ms < first_ms <= line.timestamp_ms + _READ_WITHIN_MS:
                    found.add(probe.group)
    return found


def lags_differ(rig: Rig, replayed: Rows) -> dict[Any, Any]:
    """Return the differing fields by group; replayed windows end when the published ones do.

    Slopes are left out where the live row has none.
    """
    live, engine = rows(rig, "lag", ("group",)), _engine_of(rig)
    # Rows of the last groups may still arrive, or have arrived since the replay.
    if replayed.keys() != live.keys():
        return {each: (live.get(each), replayed.get(each)) for each in replayed.keys() ^ live.keys()}
    again = {key: _row_as_of(engine, GroupLag, key[0], row["at_ms"]) for key, row in live.items()}
    return differences(live, _without_slopes(again, live), set())


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


def _without_slopes(lags: Rows, live: Rows) -> Rows:
    """Return rows of lag without slopes where the live row has none.

    A slope needs two probes. A live row is published as soon as there is lag to report; the second probe alone does not
    publish it again.
    """
    found: Rows = {}
    for key, row in lags.items():
        windows = {name: dict(each) for name, each in row["windows"].items()}
        for name, each in live[key]["windows"].items():
            if each["lag_slope"] is None:
                windows[name]["lag_slope"] = None
        found[key] = {**row, "windows": windows}
    return found


def differences(live: Rows, replayed: Rows, ignored: Collection[str]) -> dict[Any, Any]:
    """Return (live, replayed) of every differing field by key; a row missing on one side differs as a whole."""
    found: dict[Any, Any] = {}
    for key in live.keys() | replayed.keys():
        one, other = live.get(key), replayed.get(key)
        if one is None or other is None:
            found[key] = one, other
            continue
        names = (one.keys() | other.keys()) - {*ignored}
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


#: Fields of findings that are the same whenever a rebalance was judged; the beginning of patterns is when they were
#: noticed. Evidence, confidence and advice grow with what is known, and times of notice are those of a process.
_LASTING = ("cluster", "group", "rule", "variant", "primary", "subject", "started_at_ms", "rebalances", "rebalance_ids")


def _lasting(findings: Rows) -> Rows:
    """Return the primary findings of rebalances in the fields that do not depend on when they were judged."""
    counted = [
        row
        for row in findings.values()
        if row["primary"] and row["rebalance_ids"] and (row["state"] == "firing" or _lasted_ms(row) >= _FIRES_MS)
    ]
    found = {}
    for row in counted:
        finding = decode(json.dumps(row).encode(), Finding)
        found[finding.group, finding.rule, subject_key(finding)] = {name: row[name] for name in _LASTING}
    return found


def _lasted_ms(resolved: Row) -> int:
    return int(resolved["resolved_at_ms"] - resolved["started_at_ms"])


_DIFFERENCES: dict[str, Callable[[Rig, Rows], dict[Any, Any]]] = {
    "rebalance": rebalances_differ,
    "group": groups_differ,
    "impact": impacts_differ,
    "lag": lags_differ,
    "timing": timings_differ,
}
_FACTS: dict[str, Callable[[Rig, Rows], dict[Any, Any]]] = {
    "rebalance": partial(rebalances_differ, ignored=_BOUNDS),
    "group": partial(groups_differ, read=_without_durations),
}


def replay_recording(rig: Rig) -> dict[str, Rows]:
    """Record all available topics and replay them; return rows by kind and key."""
    script = [sys.executable, "-m", "rebalance_deploy"]
    recording = rig.directory / "recording.jsonl"
    flags = ["--bootstrap-server", rig.broker.bootstrap, "--to-end"]

    def is_recorded() -> bool:
        # It ends if a broker does not answer in time.
        with recording.open("wb") as file:
            return subprocess.run([*script, "record", *flags], stdout=file, check=False, timeout=600).returncode == 0

    wait_for(is_recorded, "a recording")
    answer = subprocess.run(
        [*script, "replay", "--output", "all", recording], capture_output=True, check=True, timeout=600
    )
    found: dict[str, Rows] = {kind: {} for kind in _KEYS}
    for line in answer.stdout.splitlines():
        row = json.loads(line)
        # Rows of impact have the field themselves.
        kind = "impact" if row["kind"].endswith("_impact") else row.pop("kind")
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
