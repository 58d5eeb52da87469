"""Compares what the live stream published with what a replay of the same lines prints: every field of every row.

The fields that may differ are listed with the reason, and every other field is compared, also one that is added to a
contract later. Rows are compared as the exporter shows them: a group's snapshot with the commits of its lag, and with
its last rebalance added to its totals.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from engine.live import CONFIG, Live
from rebalance_contract import (
    CommitActivity,
    Finding,
    FindingState,
    GroupLag,
    GroupSnapshot,
    GroupTiming,
    TopicCommits,
    counters_at,
    topics,
    with_commits,
)
from rebalance_contract.bounds import encode_group
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.detect.findings import topic_key
from rebalance_streaming.engine.engine import Engine, EngineConfig
from rebalance_streaming.engine.rows import Output
from rebalance_streaming.recordings.recording import RecordedLine
from rebalance_streaming.recordings.replay import Replay
from rebalance_streaming.wire.records import OFFSETS_TOPIC

Row = dict[str, Any]
#: Kind of a row, and its key without the cluster.
Key = tuple[str, str]
Rows = dict[Key, Row]

#: The kinds of rows in the topics of the stream that a replay prints, too; those of impact name theirs themselves.
_TOPICS = {
    topics.GROUPS: "group",
    topics.REBALANCES: "rebalance",
    topics.LAG: "lag",
    topics.IMPACT: None,
    topics.HEARTBEATS: "timing",
    topics.FINDINGS: "finding",
}

_WHEN_LOOKED = "noticed by the stream once it has read the rows, by a replay at the next second of the recording"
_WHILE_HELD = "for how long a condition held is as of the last look while it did"
_WITHDRAWN = "what was said first, with what was known then; a better explanation has replaced it"
#: The path of a row that only one side has, and that is over: a resolved finding, timing of a group without members.
ENDED = "(ended)"
#: The fields that may differ, with the reason, by kind of row and path. The kind of a finding has its rule, or `*`, and
#: tells those that were withdrawn.
MAY_DIFFER: dict[tuple[str, str], str] = {
    ("finding *", "detected_at_ms"): _WHEN_LOOKED,
    ("finding *", "updated_at_ms"): _WHEN_LOOKED,
    ("finding *", ENDED): "what had passed before anyone looked has no finding",
    ("finding * withdrawn", "alternatives[].why_not"): _WITHDRAWN,
    ("finding * withdrawn", "confidence"): _WITHDRAWN,
    ("finding * withdrawn", "subject.members[].member_id"): _WITHDRAWN,
    ("finding member_crash", "evidence[].until_ms"): _WHILE_HELD,
    ("timing", ENDED): "the stream's row of a group without members is the last one of when it had some",
}
#: Texts that may differ in their durations only.
DURATIONS_MAY_DIFFER: dict[tuple[str, str], str] = {
    ("finding duplicate_processing", "summary"): _WHILE_HELD,
    ("finding member_crash", "evidence[].value"): _WHILE_HELD,
    ("finding no_progress_loop", "evidence[].value"): _WHILE_HELD,
    ("finding poll_overrun", "evidence[].value"): "the usual interval is that of the commits before the judgement",
    ("finding reconciliation_stuck", "evidence[].value"): _WHILE_HELD,
    ("finding reconciliation_stuck", "summary"): _WHILE_HELD,
}
_NOT_COUNTED_AGAIN = "records are counted from commits, which are kept for a minute, and not again after a start"
#: What else may differ if the stream was stopped and started.
MAY_DIFFER_AFTER_STARTS: dict[tuple[str, str], str] = {
    ("finding duplicate_processing", "evidence[].value"): _NOT_COUNTED_AGAIN,
    ("finding duplicate_processing", "rebalance_ids"): _NOT_COUNTED_AGAIN,
    ("finding duplicate_processing", "rebalances"): _NOT_COUNTED_AGAIN,
    ("finding duplicate_processing", "summary"): _NOT_COUNTED_AGAIN,
    ("finding rebalance_storm", "started_at_ms"): "it begins when it is noticed, and a start looks back",
    ("finding rebalance_storm", "finding_id"): "it contains the beginning",
}
#: In place of the time at which a finding ended, if that is when its end was noticed.
_NOTICED = "when noticed"
_DURATION = re.compile(r"\d+(\.\d+)? (ms|s|min|h)\b")


@dataclass(frozen=True, slots=True)
class Place:
    """A field of a row: its kind (for findings with the rule), and its path without the numbers of list elements."""

    kind: str
    path: str


class _Watched(Engine):
    """An engine of a replay that remembers which findings it published as resolved."""

    def __init__(self) -> None:
        config = EngineConfig(cluster=CONFIG.cluster, source_topic=OFFSETS_TOPIC, detect=DetectConfig())
        super().__init__(config)
        self.resolved: dict[str, Finding] = {}

    def advance(self, now_ms: int, read_until_ms: int | None = None, most: int | None = None) -> list[Output]:
        """Advance, and remember."""
        rows = super().advance(now_ms, read_until_ms, most)
        for row in rows:
            if isinstance(row, Finding):
                self.resolved[topic_key(row)] = row
        return rows

    def rows_at(self, at_ms: int) -> Rows:
        """Return lag and timing of each group as of a time, after the end of the replay."""
        kinds = {GroupLag: "lag", GroupTiming: "timing"}
        return {
            (kinds[type(row)], row.group): _as_json(row)
            for row in self.finish(at_ms)
            if isinstance(row, GroupLag | GroupTiming)
        }


def published(live: Live) -> Rows:
    """Return the latest rows of a stream, as the exporter shows them."""
    found: Rows = {}
    for topic, kind in _TOPICS.items():
        for key, value in live.topic(topic.name).latest.items():
            row = json.loads(value)
            found[kind or row["kind"], _without_cluster(key)] = _noticed(row)
    lags = {name: _read(row, GroupLag) for (kind, name), row in found.items() if kind == "lag"}
    snapshots = {name: _read(row, GroupSnapshot) for (kind, name), row in found.items() if kind == "group"}
    for name in lags.keys() | snapshots.keys():
        snapshot = with_commits(snapshots.get(name), lags[name]) if name in lags else snapshots[name]
        settled = replace(snapshot, counters=counters_at(snapshot, live.now_ms), settlement=None)
        found["group", name] = json.loads(encode_group(settled))
    return _with_parents(found) | _commits(live.activity())


def replayed(lines: Iterable[RecordedLine], live: Rows) -> Rows:
    """Return the rows of a replay; lag and timing as of the times of the stream's rows.

    A finding that was withdrawn is not printed, but the stream published its end; the engine returned the same.
    """
    engine = _Watched()
    replay = Replay(engine=engine)
    printed = [*replay.feed(lines), *replay.finish()]
    found: Rows = {}
    commits = []
    for row in map(_as_json, printed):
        kind = row["kind"] if row["kind"].endswith("_impact") else row.pop("kind")
        if kind == "commits":
            commits.append(_read({**row, "kind": kind}, CommitActivity))
        else:
            found[kind, _key_of(kind, row)] = _noticed(row)
    for key, finding in engine.resolved.items():
        if finding.state == FindingState.RESOLVED:
            found.setdefault(("finding", _without_cluster(key)), _noticed(_as_json(finding)))
    for at_ms in {row["at_ms"] for row in live.values() if "at_ms" in row}:
        as_of = engine.rows_at(at_ms)
        found |= {key: row for key, row in as_of.items() if key in found and live.get(key, {}).get("at_ms") == at_ms}
    return _with_parents(found) | _commits(commits)


def _with_parents(rows: Rows) -> Rows:
    """Return rows in which findings name the key of their parent in place of its id, which contains its beginning."""
    keys = {row["finding_id"]: key[1] for key, row in rows.items() if key[0] == "finding"}
    return {
        key: {**row, "parent": keys.get(row["parent"], row["parent"])} if key[0] == "finding" else row
        for key, row in rows.items()
    }


def _noticed(row: Row) -> Row:
    """Return a row; for a finding that ended when this was noticed, without the time of that."""
    ended = row.get("resolved_at_ms") is not None and row["resolved_at_ms"] == row["updated_at_ms"]
    return {**row, "resolved_at_ms": _NOTICED} if ended else row


def _key_of(kind: str, row: Row) -> str:
    if kind == "finding":
        return _without_cluster(topic_key(_read(row, Finding)))
    return f"{row['group']}/{row['rebalance_id']}" if "rebalance_id" in row else str(row["group"])


def _without_cluster(key: str) -> str:
    return key.partition("/")[2]


def _read(row: Row, kind: type[Any]) -> Any:
    return msgspec.convert(row, kind)


def _as_json(row: Any) -> Row:
    found: Row = json.loads(msgspec.json.encode(row))
    return found


# --- Commits: rows of a pane may be divided anywhere ---


@dataclass(slots=True)
class _Pane:
    """All rows of a group and pane, as one."""

    row: CommitActivity
    places: dict[tuple[str, int], list[int | None]] = field(default_factory=dict)


def _commits(rows: Iterable[CommitActivity]) -> Rows:
    """Return the commits of each group and pane as one row; repeated rows are ignored, as the engine does."""
    panes: dict[tuple[str, int], list[CommitActivity]] = {}
    read_to: dict[str, int] = {}
    for row in rows:
        if row.last_log_offset > read_to.get(row.group, -1):
            read_to[row.group] = row.last_log_offset
            panes.setdefault((row.group, row.pane_counts[0][0]), []).append(row)
    return {("commits", f"{group}/{pane}"): _as_json(_joined(rows)) for (group, pane), rows in panes.items()}


def _joined(rows: list[CommitActivity]) -> CommitActivity:
    """Return consecutive rows of a pane as one."""
    found: dict[str, dict[int, TopicCommits]] = {}
    for row in rows:
        for name, each in row.topics.items():
            for column in zip(*(getattr(each, part) for part in TopicCommits.__slots__), strict=True):
                one = TopicCommits(*([value] for value in column))
                known = found.setdefault(name, {}).get(one.partitions[0])
                if known is not None:
                    one = replace(one, first_at_ms=known.first_at_ms, commits=[known.commits[0] + one.commits[0]])
                found[name][one.partitions[0]] = one
    joined = {
        name: TopicCommits(*([getattr(of[p], part)[0] for p in sorted(of)] for part in TopicCommits.__slots__))
        for name, of in sorted(found.items())
    }
    counts = ((rows[0].pane_counts[0][0], sum(count for row in rows for _, count in row.pane_counts)),)
    return replace(
        rows[0],
        first_log_offset=min(row.first_log_offset for row in rows),
        last_log_offset=max(row.last_log_offset for row in rows),
        pane_counts=counts,
        topics=joined,
    )


# --- Differences ---


def differences(live: Rows, replay: Rows) -> dict[tuple[Place, Key], Any]:
    """Return (live, replayed) of every field that differs; a row that only one has differs as a whole."""
    found: dict[tuple[Place, Key], Any] = {}
    for key in live.keys() | replay.keys():
        one, other = live.get(key), replay.get(key)
        if one == other:
            continue
        kind = _kind_of(key, one or other or {})
        if one is None or other is None:
            found[Place(kind, ENDED if _is_over(one or other or {}, live, key) else ""), key] = one, other
            continue
        left, right = dict(leaves(one)), dict(leaves(other))
        for path in left.keys() | right.keys():
            a, b = left.get(path), right.get(path)
            if a != b:
                found[Place(kind, re.sub(r"\[\d+\]", "[]", path)), (key[0], f"{key[1]} {path}")] = a, b
    return found


def _kind_of(key: Key, row: Row) -> str:
    if key[0] != "finding":
        return key[0]
    is_withdrawn = row["resolved_at_ms"] == _NOTICED and row["primary"]
    return f"finding {row['rule']}{' withdrawn' if is_withdrawn else ''}"


def _is_over(row: Row, live: Rows, key: Key) -> bool:
    if key[0] == "timing":
        return not live["group", key[1]]["members"]
    return row.get("state") == FindingState.RESOLVED


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of everything in a row that has no fields of its own; lists of plain values are one."""
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from leaves(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        yield f"{path}[]", len(value)
        for number, each in enumerate(value):
            yield from leaves(each, f"{path}[{number}]")
    else:
        yield path, value


def reasons(place: Place, values: tuple[Any, Any], *, started: bool = False) -> list[tuple[str, str]]:
    """Return the entries of the lists that allow a difference; `started`: the stream was stopped and started."""
    names, finding = [place.kind], re.fullmatch(r"(finding \w+)( withdrawn)?", place.kind)
    if finding is not None:
        names += [finding[1], "finding *", f"finding *{finding[2] or ''}"]
    entries = [(name, place.path) for name in dict.fromkeys(names)]
    listed = MAY_DIFFER | MAY_DIFFER_AFTER_STARTS if started else MAY_DIFFER
    found = [each for each in entries if each in listed]
    if all(isinstance(each, str) for each in values):
        one, other = (_DURATION.sub("…", each) for each in values)
        found += [each for each in entries if one == other and each in DURATIONS_MAY_DIFFER]
    return found
