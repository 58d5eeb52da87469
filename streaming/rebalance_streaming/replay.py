"""Recorded log lines in, the stream's rows out: the same decoding, folding and diagnosis without Spark or cluster.

Of one log partition of a recording, the commits and the other records must each be in the order of their
offsets. Time is taken from the records: what the stream does once a time is over is done when records have passed it.
Deploys that were announced are taken from the topic of silences. Topics that are neither the offsets topic nor the
monitor's own are read as client metrics, and what is none as lines of brokers' logs, whose events come at their own
times as those of log files do that a replay is given beside.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

import rebalance_contract as contract
from rebalance_contract import QUERIES, bounds, topics
from rebalance_streaming.activity.broker_logs import LogPacking
from rebalance_streaming.activity.clients import MetricRecord, pack_messages
from rebalance_streaming.activity.commits import LogColumns, pack_commits
from rebalance_streaming.activity.probes import unpack_probe
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.engine.engine import Engine, EngineConfig
from rebalance_streaming.engine.rows import Input, Output, decode_silence
from rebalance_streaming.groups.fold import FOLDED_TYPES, GROUP_METADATA, fold
from rebalance_streaming.groups.model import FoldState, GroupRecord, new_state
from rebalance_streaming.groups.probed import fold_probe
from rebalance_streaming.groups.probing import observe
from rebalance_streaming.outputs import OUTPUTS
from rebalance_streaming.recording import RecordedLine, read_lines
from rebalance_streaming.wire.broker_logs.decode import ToUtc, in_utc
from rebalance_streaming.wire.commits import KeyCache, decode_commits
from rebalance_streaming.wire.decode import Outcome, decode_record
from rebalance_streaming.wire.records import OFFSETS_TOPIC

PROBES_SUFFIX, BROKER_LOGS_SUFFIX = topics.PROBES.name, topics.BROKER_LOGS.name
_SILENCES_SUFFIX = f".{topics.SILENCES.name}"
#: Ends of the names of topics the stream writes: a replay makes them itself.
_OWN_SUFFIXES = tuple(f".{each.name}" for each in topics.TOPICS if set(each.writers) <= set(QUERIES))

#: What a line of a coordinator has, in whichever envelope.
_LOG_MARKS = (b"[GroupCoordinator ", b"[GroupMetadataManager ")

#: What rows of a replay carry unless something else is asked for.
CLUSTER, PANE_MS = "default", 5_000

_CHUNK = 20_000
_CACHED_KEYS = 1_000_000
#: How often a diagnosis looks at what happened, in the recording's own time; less often where nothing is recorded.
_TICK_MS, _IDLE_TICKS = 1_000, 500


@dataclass(slots=True)
class ReplayProgress:
    """How far a replay is, for whoever watches it from another thread: lines read, then rows and records judged.

    `to_judge` is null until all lines were read.
    """

    lines: int = 0
    judged: int = 0
    to_judge: int | None = None


@dataclass(slots=True)
class _PackedRows:
    """Rows that are packed while lines are read, commits and what coordinators told, until their times have come."""

    commits: list[contract.CommitActivity] = field(default_factory=list)
    told: list[contract.CoordinatorActivity] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.commits) + len(self.told)

    def sort(self) -> None:
        """Put them in the order of their times, the latest first: they are taken from the end."""
        self.commits.sort(key=lambda each: each.last_commit_ms, reverse=True)
        self.told.sort(key=_told_ms, reverse=True)

    def take_until(self, until_ms: int | None) -> Iterator[tuple[int, Input]]:
        """Take out rows of before a time, or all, each with its time."""
        while True:
            commits_ms = self.commits[-1].last_commit_ms if self.commits else None
            told_ms = _told_ms(self.told[-1]) if self.told else None
            at_ms = min((each for each in (commits_ms, told_ms) if each is not None), default=None)
            if at_ms is None or (until_ms is not None and at_ms >= until_ms):
                return
            yield at_ms, self.commits.pop() if at_ms == commits_ms else self.told.pop()


@dataclass(slots=True)
class _Groups:
    """What the log and probes tell of groups: their states, rebalances, and the commits of those with nothing else."""

    cluster: str
    states: dict[str, FoldState] = field(default_factory=dict)
    rebalances: dict[tuple[str, str], contract.Rebalance] = field(default_factory=dict)
    committing: dict[str, contract.GroupLag] = field(default_factory=dict)

    def note_commits(self, row: contract.CommitActivity) -> None:
        """Keep what makes a group known of which there is nothing but commits."""
        known, times = self.committing.get(row.group), [min(each.first_at_ms) for each in row.topics.values()]
        self.committing[row.group] = contract.GroupLag(
            self.cluster,
            row.group,
            row.last_commit_ms,
            first_commit_ms=min(times) if known is None else known.first_commit_ms,
            last_commit_ms=row.last_commit_ms,
            log_partition=row.log_partition,
            last_log_offset=row.last_log_offset,
        )

    def fold(self, group: str, each: GroupRecord | contract.Probe, *, without_log: bool) -> Iterator[Input]:
        """Fold a record or a probe; yields what it changed: rebalances, then the group's picture."""
        before = self.states.get(group) or new_state(self.cluster, group)
        if isinstance(each, contract.Probe):
            after, rebalances = (fold_probe if without_log else observe)(before, each)
        else:
            after, rebalances = fold(before, each)
        if after is before and not rebalances:
            return
        self.states[group] = after
        for rebalance in rebalances:
            self.rebalances[group, rebalance.rebalance_id] = rebalance
            yield rebalance
        if after.picture != before.picture:
            yield after.picture

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield rebalances in the order of their end, then each group's picture."""
        for rebalance in sorted(self.rebalances.values(), key=_end_of):
            yield _row("rebalance", rebalance)
        for group in sorted({*self.states, *self.committing}):
            yield _row("group", self._picture(group))

    def _picture(self, group: str) -> contract.GroupSnapshot:
        """Return a group's picture at the end, with what the end of its last rebalance adds to the totals."""
        state, commits = self.states.get(group), self.committing.get(group)
        picture = new_state(self.cluster, group).picture if state is None else state.picture
        if commits is not None:
            picture = contract.with_commits(picture, commits)
        if picture.settlement is None:
            return picture
        return replace(picture, counters=contract.settled(picture.counters, picture.settlement), settlement=None)


@dataclass(slots=True)
class _EngineDriver:
    """Gives an engine rows and the time, as the stream's child process does, and keeps what it tells only once."""

    engine: Engine
    advanced_ms: int = 0
    impacts: dict[tuple[str, str], contract.RebalanceImpact | contract.GroupImpact] = field(default_factory=dict)

    def advance_to(self, now_ms: int) -> None:
        """Tell the engine every moment up to a time, as the clock would have."""
        self.advanced_ms = self.advanced_ms or now_ms - _TICK_MS
        step = max(_TICK_MS, (now_ms - self.advanced_ms) // _IDLE_TICKS)
        while self.advanced_ms + step <= now_ms:
            self.advanced_ms += step
            self._keep_impacts(self.engine.advance(self.advanced_ms))

    def finish(self, now_ms: int) -> Iterator[dict[str, Any]]:
        """Yield what the engine has told at the end: impact, lag, timing and findings."""
        self.advance_to(now_ms)
        rows = self.engine.finish(now_ms)
        self._keep_impacts(rows)
        for impact in self.impacts.values():
            yield _row(impact.kind, impact)
        for row in rows:
            kind = _KINDS.get(type(row))
            if kind is not None:
                yield _row(kind, row)

    def _keep_impacts(self, rows: Iterable[Output]) -> None:
        """Keep what is not repeated at the end; everything else is."""
        for row in rows:
            if isinstance(row, contract.RebalanceImpact):
                self.impacts[row.group, row.rebalance_id] = row
            elif isinstance(row, contract.GroupImpact):
                self.impacts[row.group, ""] = row


class Replay:
    """Drives the folds and the engine from lines. `cluster` is the name the rows carry, `pane_ms` a commit row's width.

    `engine`: null leaves the diagnosis out, and with it lag, impact and findings. `to_utc` turns brokers' local times,
    where their logs have such, into UTC. `without_log`: as with `sources.log = false`. `skipped` counts lines that tell
    nothing here.
    """

    def __init__(
        self,
        cluster: str = CLUSTER,
        pane_ms: int = PANE_MS,
        engine: Engine | None = None,
        to_utc: ToUtc = in_utc,
        *,
        without_log: bool = False,
        progress: ReplayProgress | None = None,
    ) -> None:
        self.cluster, self.pane_ms, self.to_utc, self.without_log = cluster, pane_ms, to_utc, without_log
        self.progress, self.skipped = progress or ReplayProgress(), 0
        self._driver = None if engine is None else _EngineDriver(engine)
        self._groups, self._packed = _Groups(cluster), _PackedRows()
        self._lines: dict[tuple[str, int], list[RecordedLine]] = {}
        self._keys = KeyCache(_CACHED_KEYS)
        self._now_ms = 0

    def feed(self, lines: Iterable[RecordedLine]) -> Iterator[dict[str, Any]]:
        """Take lines; yields packed commits as they come, and keeps what else there is.

        A recorder reads topics and partitions in turns, so that only all lines together tell what came first.
        """
        for chunk in _chunks(lines):
            self.progress.lines += len(chunk)
            if self.without_log:
                all_lines = len(chunk)
                chunk[:] = [line for line in chunk if line.topic != OFFSETS_TOPIC]
                self.skipped += all_lines - len(chunk)
            yield from self._pack([line for line in chunk if line.is_commit])
            for line in chunk:
                if not line.control and not line.is_commit and not self._take_log_line(line):
                    self._lines.setdefault((line.topic, line.partition), []).append(line)

    def take_logs(self, rows: Iterable[contract.CoordinatorActivity]) -> None:
        """Take what groups' coordinators told, before `finish`; the engine learns of it at its times."""
        self._packed.told += rows

    def finish(self) -> Iterator[dict[str, Any]]:
        """Yield rebalances in the order of their end, groups, impact, lag, timing and findings as of the end."""
        self._packed.sort()
        self.progress.to_judge = len(self._packed) + sum(map(len, self._lines.values()))
        for line in heapq.merge(*self._lines.values(), key=lambda line: line.timestamp_ms):
            self._take_packed(line.timestamp_ms)
            self._advance_to(line.timestamp_ms)
            self._take(line)
            self.progress.judged += 1
        self._take_packed(None)
        yield from self._groups.rows()
        if self._driver is not None:
            yield from self._driver.finish(self._now_ms)

    def summary(self) -> str:
        """Say in one line how much was replayed."""
        groups = len(self._groups.states)
        return f"replayed {self.progress.lines} lines, {groups} groups, {self.skipped} lines that tell nothing here"

    def _pack(self, lines: list[RecordedLine]) -> Iterator[dict[str, Any]]:
        visible = [line for line in lines if line.read_committed and not line.control]
        self.skipped += len(lines) - len(visible)
        if not visible:
            return
        keys = pa.array([line.key for line in visible], type=pa.binary())
        values = pa.array([line.value for line in visible], type=pa.binary())
        log = LogColumns(
            np.array([line.partition for line in visible], dtype=np.int32),
            np.array([line.offset for line in visible], dtype=np.int64),
            np.array([line.timestamp_ms for line in visible], dtype=np.int64),
        )
        commits = decode_commits(keys, values, self._keys)
        for row in pack_commits(commits, log, self.cluster, self.pane_ms):
            self._packed.commits.append(row)
            self._groups.note_commits(row)
            yield _row("commits", row)

    def _take(self, line: RecordedLine) -> None:
        self._now_ms = max(self._now_ms, line.timestamp_ms)
        if line.topic == OFFSETS_TOPIC:
            self._fold(line)
        elif line.topic.endswith(PROBES_SUFFIX):
            self._observe(line)
        elif line.topic.endswith(_SILENCES_SUFFIX):
            self._announce(line)
        elif self._driver is not None and not line.topic.endswith(_OWN_SUFFIXES):
            self._report(line)
        else:
            self.skipped += 1

    def _take_log_line(self, line: RecordedLine) -> bool:
        """Take up a line that holds lines of a broker's log; returns whether it does."""
        if line.topic == OFFSETS_TOPIC or line.topic.endswith((PROBES_SUFFIX, _SILENCES_SUFFIX, *_OWN_SUFFIXES)):
            return False
        value = line.value
        if not line.topic.endswith(BROKER_LOGS_SUFFIX) and not any(mark in (value or b"") for mark in _LOG_MARKS):
            return False
        packing = LogPacking(self.cluster, self.pane_ms)
        packing.take(value, line.timestamp_ms, self.to_utc)
        rows = list(packing.rows())
        self.skipped += not rows
        self.take_logs(rows)
        return True

    def _take_packed(self, until_ms: int | None) -> None:
        """Tell the engine of what was packed, up to a time, or of all."""
        for at_ms, row in self._packed.take_until(until_ms):
            self._advance_to(at_ms)
            self._tell(row, at_ms)
            self.progress.judged += 1
            self._now_ms = max(self._now_ms, at_ms)

    def _report(self, line: RecordedLine) -> None:
        message = MetricRecord(line.topic, line.key, line.value, line.timestamp_ms, line.named_headers())
        packed = pack_messages([message], {}, cluster=self.cluster, pane_ms=self.pane_ms, seconds=None)
        self.skipped += not packed.rows
        for _, row in packed.rows:
            self._tell(row, line.timestamp_ms)

    def _fold(self, line: RecordedLine) -> None:
        record = decode_record(line.key, line.value)
        if record.record_type not in FOLDED_TYPES or record.outcome not in (Outcome.DECODED, Outcome.TOMBSTONE):
            self.skipped += 1
            return
        at = GroupRecord(
            partition=line.partition,
            offset=line.offset,
            timestamp_ms=line.timestamp_ms,
            live=True,
            value=record.value,
            record_type=record.record_type,
            member_id=getattr(record.key, "member_id", None),
            received_at_ms=line.received_at_ms,
        )
        group = record.key.group if record.record_type == GROUP_METADATA else record.key.group_id
        self._keep(group, at, line.timestamp_ms)

    def _observe(self, line: RecordedLine) -> None:
        try:
            probe = contract.decode(line.value or b"", contract.Probe)
            rows = list(unpack_probe(line.value or b"", probe.cluster, line.timestamp_ms))
        except contract.ContractError:
            self.skipped += 1
            return
        for group, row in rows:
            # A recording's cluster may have had another name.
            if isinstance(row, contract.ProbeActivity):
                self._keep(group, row.probe, line.timestamp_ms)
                self._tell(replace(row, probe=replace(row.probe, cluster=self.cluster)), line.timestamp_ms)
            else:
                self._tell(replace(row, cluster=self.cluster), line.timestamp_ms)

    def _announce(self, line: RecordedLine) -> None:
        try:
            row = decode_silence(line.value or b"")
        except contract.ContractError:
            self.skipped += 1
            return
        self._tell(replace(row, cluster=self.cluster), line.timestamp_ms)

    def _keep(self, group: str, each: GroupRecord | contract.Probe, at_ms: int) -> None:
        for row in self._groups.fold(group, each, without_log=self.without_log):
            self._tell(row, at_ms)

    def _tell(self, row: Input, at_ms: int) -> None:
        if self._driver is not None:
            self._driver.engine.apply(row, at_ms)

    def _advance_to(self, now_ms: int) -> None:
        if self._driver is not None:
            self._driver.advance_to(now_ms)


def _chunks(lines: Iterable[RecordedLine]) -> Iterator[list[RecordedLine]]:
    iterator = iter(lines)
    while chunk := list(itertools.islice(iterator, _CHUNK)):
        yield chunk


def _told_ms(row: contract.CoordinatorActivity) -> int:
    """Return when the last event of a row was written, as its reader would have had it."""
    return row.events[-1].at_ms if row.events else row.pane_start_ms


def _end_of(rebalance: contract.Rebalance) -> tuple[bool, int, str]:
    """Sort rebalances by their end, those that go on last."""
    end_ms = rebalance.completed_at_ms
    return end_ms is None, rebalance.started_before_ms if end_ms is None else end_ms, rebalance.rebalance_id


def _row(kind: str, row: Any) -> dict[str, Any]:
    """Return a row as the stream publishes it: bounded, with what is counted on the way."""
    encode_row = _BOUNDED.get(type(row))
    fields = msgspec.to_builtins(row) if encode_row is None else msgspec.json.decode(encode_row(row))
    # Rows of some topics have a `kind` of their own; of a replay's output this one tells.
    return {**fields, "kind": kind}


#: What an engine tells again at the end, by the kind under which a replay hands it on.
_KINDS: dict[type[Any], str] = {
    contract.GroupLag: "lag",
    contract.GroupTiming: "timing",
    contract.Finding: "finding",
}

_BOUNDED: dict[type[Any], Callable[[Any], bytes]] = {
    contract.GroupSnapshot: bounds.encode_group,
    contract.Rebalance: bounds.encode_rebalance,
    contract.GroupLag: bounds.encode_lag,
    contract.RebalanceImpact: bounds.encode_impact,
    contract.Finding: bounds.encode_finding,
}


def replay(
    files: Iterable[Iterable[bytes | str]],
    *,
    output: str = "rebalances",
    until_ms: int | None = None,
    detect: DetectConfig | None = None,
    logs: Iterable[contract.CoordinatorActivity] = (),
    to_utc: ToUtc = in_utc,
    without_log: bool = False,
    notify: Callable[[str], None] = lambda _: None,
    progress: ReplayProgress | None = None,
) -> Iterator[bytes]:
    """Yield the rows of a replay as JSON lines without line ends. Raises ReplayError for what is no recording.

    `output` is a name of OUTPUTS. `logs` is what brokers' log files beside the recordings told. Findings come last,
    each once, as it stood at the end. `without_log`: as where nobody may read the offsets topic. `progress` says
    meanwhile how far it is.
    """
    wanted = OUTPUTS[output]
    judged = {"finding", "lag", "rebalance_impact", "timing"} & set(wanted)
    engine = make_engine(CLUSTER, detect) if judged else None
    state = Replay(engine=engine, to_utc=to_utc, without_log=without_log, progress=progress)
    state.take_logs(logs if until_ms is None else (each for each in logs if _told_ms(each) <= until_ms))
    for row in itertools.chain(state.feed(read_lines(files, until_ms, notify)), state.finish()):
        if row["kind"] in wanted:
            yield msgspec.json.encode(row)
    notify(state.summary())


def make_engine(cluster: str, detect: DetectConfig | None = None) -> Engine:
    """Return an engine for recordings."""
    return Engine(EngineConfig(cluster=cluster, source_topic=OFFSETS_TOPIC, detect=detect or DetectConfig()))
