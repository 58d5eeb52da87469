"""Drives an engine as the stream does: rows of recordings in batches, time, stops and starts.

Rows have the times at which they were written. A run keeps what its engine published as compacted topics would: the
latest row of each key. A run that starts after another reads what the live diagnosis reads at its start: the topics it
writes, all groups, the rebalances of a day, and recent activity.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import msgspec

from accuracy.recordings import FAMILIES, FOLDER, read_recording
from rebalance_contract import (
    AlertSilence,
    CommitActivity,
    DecodeTotals,
    Finding,
    FindingState,
    GroupImpact,
    GroupLag,
    GroupSnapshot,
    GroupTiming,
    Rebalance,
    RebalanceImpact,
    ReportTotals,
)
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.engine.engine import Engine, EngineConfig
from rebalance_streaming.engine.rows import Input, Output, address
from rebalance_streaming.recordings.recording import read_lines
from rebalance_streaming.recordings.replay import Replay
from rebalance_streaming.wire.records import OFFSETS_TOPIC

#: (when it was written, row), in the order of these times.
RecordedInputs = list[tuple[int, Input]]
#: The latest rows by topic and key.
Topics = dict[tuple[str, str], Output]

SECOND, MINUTE, DAY = 1_000, 60_000, 86_400_000
#: How long to wait for rows after the last input: rebalances are judged 20 s after their end.
QUIET_MS = 2 * MINUTE


class _RecordedRows(Engine):
    """Records the rows that it is given."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        self.inputs: RecordedInputs = []

    def apply(self, row: Input, at_ms: int) -> None:
        self.inputs.append((at_ms, row))


def config(judge_from_ms: int = 0) -> EngineConfig:
    """Return the engine settings for recordings."""
    detect = DetectConfig()
    return EngineConfig(cluster="default", source_topic=OFFSETS_TOPIC, detect=detect, judge_from_ms=judge_from_ms)


@cache
def recorded_inputs(name: str) -> RecordedInputs:
    """Return the rows that a recording with its brokers' log lines gives an engine."""
    engine = _RecordedRows(config())
    folder = next(each for each in (FOLDER, FAMILIES) if (each / f"{name}.truth.json").exists())
    recording = read_recording(folder / f"{name}.truth.json")
    replay = Replay(engine=engine)
    replay.take_logs(recording.broker_rows())
    for _ in (*replay.feed(read_lines([recording.lines(())])), *replay.finish()):
        pass
    return engine.inputs


def gone_on(inputs: RecordedInputs, minutes: int) -> RecordedInputs:
    """Return inputs extended by some minutes in which groups commit every five seconds as they did last."""
    last = {row.group: row for _, row in inputs if isinstance(row, CommitActivity)}
    longer, end_ms = list(inputs), inputs[-1][0]
    for number in range(1, minutes * 12 + 1):
        at_ms = end_ms + number * 5 * SECOND
        longer += [(at_ms, _moved(row, at_ms - row.last_commit_ms, number)) for row in last.values()]
    return longer


def _moved(row: CommitActivity, later_ms: int, further: int) -> CommitActivity:
    """Return the same commits some time later, with as many more records and log positions."""
    topics = {
        name: replace(
            each,
            offsets=[None if offset is None else offset + further for offset in each.offsets],
            committed_at_ms=[at + later_ms for at in each.committed_at_ms],
            first_at_ms=[at + later_ms for at in each.first_at_ms],
        )
        for name, each in row.topics.items()
    }
    at = row.last_log_offset + further
    counts = tuple((start_ms + later_ms, count) for start_ms, count in row.pane_counts)
    return replace(row, topics=topics, last_log_offset=at, first_log_offset=at, pane_counts=counts)


@dataclass(slots=True)
class Run:
    """One life of an engine, and the content of the topics after it."""

    engine: Engine
    topics: Topics = field(default_factory=dict)
    now_ms: int = 0

    def advance(self, now_ms: int) -> None:
        """Let the engine evaluate a moment."""
        self.now_ms = now_ms
        put(self.topics, self.engine.advance(now_ms))

    def advance_to(self, now_ms: int) -> None:
        """Let the engine evaluate every second up to a moment."""
        self.now_ms = self.now_ms or now_ms - SECOND
        while self.now_ms + SECOND <= now_ms:
            self.advance(self.now_ms + SECOND)

    def take(self, inputs: RecordedInputs) -> None:
        """Take rows at their times."""
        for at_ms, row in inputs:
            self.advance_to(at_ms)
            self.engine.apply(row, at_ms)

    def end(self, end_ms: int) -> None:
        """Wait until a moment, and publish everything as of then."""
        self.advance_to(end_ms)
        self.advance(end_ms)
        # The heartbeats of members when they were last seen depend on when the engine looked.
        for key in [key for key, row in self.topics.items() if isinstance(row, GroupTiming)]:
            del self.topics[key]
        put(self.topics, self.engine.finish(end_ms))


def put(topics: Topics, rows: Iterable[Output]) -> None:
    """Publish rows."""
    for row in rows:
        topic, key, value = address(row)
        if value is None:
            topics.pop((topic, key), None)
        else:
            topics[topic, key] = row


def end_of(inputs: RecordedInputs) -> int:
    """Return when no more changes are expected."""
    return inputs[-1][0] + QUIET_MS


@cache
def undisturbed(name: str) -> Run:
    """Return a run that takes a recording row by row."""
    return lived_once(recorded_inputs(name))


def lived_once(inputs: RecordedInputs) -> Run:
    """Return a run that takes inputs row by row."""
    run = Run(Engine(config()))
    run.take(inputs)
    run.end(end_of(inputs))
    return run


def split(inputs: RecordedInputs, after: Collection[int]) -> Run:
    """Return a run that takes rows in batches that end after these places, and evaluates once after each."""
    run = Run(Engine(config()))
    run.advance(inputs[0][0])
    for place, (at_ms, row) in enumerate(inputs):
        run.engine.apply(row, at_ms)
        if place in after:
            run.advance(max(at_ms, run.now_ms))
    run.end(end_of(inputs))
    return run


def interrupted(
    inputs: RecordedInputs, at: int, missed: int = 0, look_back_ms: int = 15 * MINUTE
) -> tuple[Topics, Run]:
    """Return what was published before row `at`, and the run that started `missed` rows later."""
    first = Run(Engine(config()))
    first.take(inputs[:at])
    again = min(len(inputs), at + missed)
    start_ms = inputs[again - 1][0]
    run = Run(Engine(config(start_ms - look_back_ms)), dict(first.topics))
    for row in filter(None, map(_restored, first.topics.values())):
        run.engine.restore(row)
    for at_ms, each in _looked_back(inputs[:again], start_ms - look_back_ms):
        run.engine.apply(each, at_ms)
    run.advance(max(start_ms, first.now_ms))
    run.take(inputs[again:])
    run.end(end_of(inputs))
    return first.topics, run


def _restored(row: Output) -> Any:
    """Return a row as it is read back at a start, or null for one that is not restored."""
    is_open = isinstance(row, Finding) and row.state == FindingState.FIRING
    if not is_open and not isinstance(row, GroupLag | RebalanceImpact | GroupImpact | DecodeTotals | ReportTotals):
        return None
    _, _, value = address(row)
    assert value is not None
    return msgspec.json.decode(value, type=type(row))


def _looked_back(inputs: RecordedInputs, since_ms: int) -> Iterator[tuple[int, Input]]:
    """Yield the rows that are read again at a start: of a compacted topic the latest ones."""
    newest = {row.group: place for place, (_, row) in enumerate(inputs) if isinstance(row, GroupSnapshot)}
    for place, (at_ms, row) in enumerate(inputs):
        if isinstance(row, GroupSnapshot):
            is_read = newest[row.group] == place
        elif isinstance(row, Rebalance):
            is_read = at_ms >= since_ms - DAY
        else:
            is_read = isinstance(row, AlertSilence) or at_ms >= since_ms
        if is_read:
            yield at_ms, row


#: When a finding was noticed, and its first version, depend on when the engine looked.
_NOTICED = {"finding_id", "detected_at_ms", "updated_at_ms", "resolved_at_ms"}
#: Other fields that may differ, by rule. All other fields of all other findings are the same.
_BY_RULE = {
    # Records processed twice are counted from commits, which are kept in memory for a minute.
    "duplicate_processing": {"rebalances", "rebalance_ids", "started_at_ms", "summary", "evidence"},
    # How long a member has kept partitions, and who waits for them, is as of the last look while it did; after 30 s it
    # is a ticket.
    "reconciliation_stuck": {"severity", "summary", "evidence"},
    # Usual commit intervals are those of the latest dozen per partition, at the time of the judgement.
    "poll_overrun": {"evidence"},
    # These have no beginning in the log: they begin when they are noticed.
    "session_timeout_too_short": {"started_at_ms"},
    "rebalance_storm": {"started_at_ms"},
}


def outcome(run: Run) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what a run has published at its end that does not depend on when it looked, by topic and key.

    Only open findings are included: a condition that passed is published only if the engine looked while it held.
    """
    found = {}
    for key, row in run.topics.items():
        if isinstance(row, Finding):
            if row.state == FindingState.FIRING:
                found[key] = _settled(row)
        elif isinstance(row, GroupLag | GroupTiming | RebalanceImpact | GroupImpact | DecodeTotals | ReportTotals):
            found[key] = msgspec.to_builtins(row)
    return found


def _settled(finding: Finding) -> dict[str, Any]:
    left_out = _NOTICED | _BY_RULE.get(finding.rule, set())
    kept = {name: value for name, value in msgspec.to_builtins(finding).items() if name not in left_out}
    # The id of a parent depends on when it was noticed.
    return {**kept, "parent": finding.parent is not None, "rests_on": _sources_of(finding)}


def _sources_of(finding: Finding) -> list[tuple[str, str]]:
    return sorted({(each.source, each.field) for each in finding.evidence})


def differences(one: Run, other: Run) -> dict[tuple[str, str], Any]:
    """Return the differing fields of two runs, by topic and key."""
    left, right = outcome(one), outcome(other)
    found: dict[tuple[str, str], Any] = {}
    for key in left.keys() | right.keys():
        a, b = left.get(key), right.get(key)
        if a is None or b is None:
            found[key] = (a, b)
        elif a != b:
            found[key] = {
                name: (a.get(name), b.get(name)) for name in a.keys() | b.keys() if a.get(name) != b.get(name)
            }
    return found
