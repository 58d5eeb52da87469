"""Recorded log lines in, the stream's rows out: the same decoding, folding and diagnosis without Spark or cluster.

A recording has one JSON object per line, as `rebalance-monitor record` writes them: `topic` (absent: the offsets
topic), `partition`, `offset`, `timestamp_ms`, `key_hex`, `value_hex` (null: a tombstone), and `received_at_ms` where
the recorder noted its clock. Of one log partition, the commits and the other records must each be in the order of their
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
from rebalance_streaming.compressed import uncompressed
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.engine.engine import Engine, EngineConfig
from rebalance_streaming.engine.rows import Input, Output, decode_silence
from rebalance_streaming.groups.fold import FOLDED_TYPES, GROUP_METADATA, fold
from rebalance_streaming.groups.model import FoldState, GroupRecord, new_state
from rebalance_streaming.groups.probed import fold_probe
from rebalance_streaming.groups.probing import observe
from rebalance_streaming.outputs import OUTPUTS
from rebalance_streaming.wire.broker_logs.decode import ToUtc, in_utc
from rebalance_streaming.wire.commits import KeyCache, decode_commits
from rebalance_streaming.wire.decode import Outcome, decode_record
from rebalance_streaming.wire.records import OFFSET_COMMIT_PREFIXES, OFFSETS_TOPIC

PROBES_SUFFIX, BROKER_LOGS_SUFFIX = topics.PROBES.name, topics.BROKER_LOGS.name
_SILENCES_SUFFIX = f".{topics.SILENCES.name}"
#: Ends of the names of topics the stream writes: a replay makes them itself.
_OWN_SUFFIXES = tuple(f".{each.name}" for each in topics.TOPICS if set(each.writers) <= set(QUERIES))

#: What a line of a coordinator has, in whichever envelope.
_LOG_MARKS = (b"[GroupCoordinator ", b"[GroupMetadataManager ")

#: What rows of a replay carry unless something else is asked for.
CLUSTER, PANE_MS = "default", 5_000

_CHUNK = 20_000
_COMMIT_KEYS = tuple(each.hex() for each in OFFSET_COMMIT_PREFIXES)
_CACHED_KEYS = 1_000_000
#: How often a diagnosis looks at what happened, in the recording's own time; less often where nothing is recorded.
_TICK_MS, _IDLE_TICKS = 1_000, 500


class ReplayError(ValueError):
    """A recording that cannot be read; the text names the line and what is wrong with it."""


class RecordedLine(msgspec.Struct):
    """One line of a recording. `control` and `read_committed` are there in recordings made from log segments."""

    partition: int
    offset: int
    timestamp_ms: int
    key_hex: str | None
    value_hex: str | None
    topic: str = OFFSETS_TOPIC
    received_at_ms: int | None = None
    control: bool = False
    read_committed: bool = True
    headers: dict[str, str | None] | list[Any] | None = None


_line_decoder = msgspec.json.Decoder(RecordedLine)


@dataclass(slots=True)
class ReplayProgress:
    """How far a replay is, for whoever watches it from another thread: lines read, then rows and records judged.

    `to_judge` is null until all lines were read.
    """

    lines: int = 0
    judged: int = 0
    to_judge: int | None = None


@dataclass(slots=True)
class Replay:
    """Drives the folds and the engine from lines. `cluster` is the name the rows carry, `pane_ms` a commit row's width.

    `engine`: null leaves the diagnosis out, and with it lag, impact and findings. `to_utc` turns brokers' local times,
    where their logs have such, into UTC. `without_log`: as with `sources.log = false`.
    """

    cluster: str = CLUSTER
    pane_ms: int = PANE_MS
    engine: Engine | None = None
    to_utc: ToUtc = in_utc
    without_log: bool = False
    progress: ReplayProgress = field(default_factory=ReplayProgress)
    states: dict[str, FoldState] = field(default_factory=dict)
    skipped: int = 0
    _rebalances: dict[tuple[str, str], contract.Rebalance] = field(default_factory=dict)
    _impacts: dict[tuple[str, str], contract.RebalanceImpact | contract.GroupImpact] = field(default_factory=dict)
    _sources: dict[tuple[str, int], list[RecordedLine]] = field(default_factory=dict)
    _cache: KeyCache = field(default_factory=lambda: KeyCache(_CACHED_KEYS))
    _commits: list[contract.CommitActivity] = field(default_factory=list)
    _told: list[contract.CoordinatorActivity] = field(default_factory=list)
    _committing: dict[str, contract.GroupLag] = field(default_factory=dict)
    _now_ms: int = 0
    _advanced_ms: int = 0

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
            yield from self._pack([line for line in chunk if _is_commit(line)])
            for line in chunk:
                if not line.control and not _is_commit(line) and not self._take_log_line(line):
                    self._sources.setdefault((line.topic, line.partition), []).append(line)

    def take_logs(self, rows: Iterable[contract.CoordinatorActivity]) -> None:
        """Take what groups' coordinators told, before `finish`; the engine learns of it at its times."""
        self._told += rows

    def finish(self) -> Iterator[dict[str, Any]]:
        """Yield rebalances in the order of their end, groups, impact, lag, timing and findings as of the end."""
        self._commits.sort(key=lambda each: each.last_commit_ms, reverse=True)
        self._told.sort(key=_told_ms, reverse=True)
        self.progress.to_judge = len(self._commits) + len(self._told) + sum(map(len, self._sources.values()))
        for line in heapq.merge(*self._sources.values(), key=lambda line: line.timestamp_ms):
            self._take_packed(line.timestamp_ms)
            self._advance_to(line.timestamp_ms)
            self._take(line)
            self.progress.judged += 1
        self._take_packed(None)
        for rebalance in sorted(self._rebalances.values(), key=_end_of):
            yield _row("rebalance", rebalance)
        for group in sorted({*self.states, *self._committing}):
            yield _row("group", self._group(group))
        if self.engine is not None:
            yield from self._finish(self.engine)

    def _finish(self, engine: Engine) -> Iterator[dict[str, Any]]:
        """Yield what the engine has told at the end."""
        self._advance_to(self._now_ms)
        rows = engine.finish(self._now_ms)
        self._keep_impacts(rows)
        for impact in self._impacts.values():
            yield _row(impact.kind, impact)
        for row in rows:
            kind = _KINDS.get(type(row))
            if kind is not None:
                yield _row(kind, row)

    def _group(self, group: str) -> contract.GroupSnapshot:
        """Return a group's picture at the end, with what the end of its last rebalance adds to the totals."""
        state, commits = self.states.get(group), self._committing.get(group)
        picture = new_state(self.cluster, group).picture if state is None else state.picture
        if commits is not None:
            picture = contract.with_commits(picture, commits)
        if picture.settlement is None:
            return picture
        return replace(picture, counters=contract.settled(picture.counters, picture.settlement), settlement=None)

    def _pack(self, lines: list[RecordedLine]) -> Iterator[dict[str, Any]]:
        visible = [line for line in lines if line.read_committed and not line.control]
        self.skipped += len(lines) - len(visible)
        if not visible:
            return
        keys = pa.array([_bytes(line.key_hex) for line in visible], type=pa.binary())
        values = pa.array([_bytes(line.value_hex) for line in visible], type=pa.binary())
        log = LogColumns(
            np.array([line.partition for line in visible], dtype=np.int32),
            np.array([line.offset for line in visible], dtype=np.int64),
            np.array([line.timestamp_ms for line in visible], dtype=np.int64),
        )
        commits = decode_commits(keys, values, self._cache)
        for row in pack_commits(commits, log, self.cluster, self.pane_ms):
            self._commits.append(row)
            self._note_committing(row)
            yield _row("commits", row)

    def _note_committing(self, row: contract.CommitActivity) -> None:
        """Keep what makes a group known of which there is nothing but commits."""
        known, times = self._committing.get(row.group), [min(each.first_at_ms) for each in row.topics.values()]
        self._committing[row.group] = contract.GroupLag(
            self.cluster,
            row.group,
            row.last_commit_ms,
            first_commit_ms=min(times) if known is None else known.first_commit_ms,
            last_commit_ms=row.last_commit_ms,
            log_partition=row.log_partition,
            last_log_offset=row.last_log_offset,
        )

    def _take(self, line: RecordedLine) -> None:
        self._now_ms = max(self._now_ms, line.timestamp_ms)
        if line.topic == OFFSETS_TOPIC:
            self._fold(line)
        elif line.topic.endswith(PROBES_SUFFIX):
            self._observe(line)
        elif line.topic.endswith(_SILENCES_SUFFIX):
            self._announce(line)
        elif self.engine is not None and not line.topic.endswith(_OWN_SUFFIXES):
            self._report(line, self.engine)
        else:
            self.skipped += 1

    def _take_log_line(self, line: RecordedLine) -> bool:
        """Take up a line that holds lines of a broker's log; returns whether it does."""
        if line.topic == OFFSETS_TOPIC or line.topic.endswith((PROBES_SUFFIX, _SILENCES_SUFFIX, *_OWN_SUFFIXES)):
            return False
        value = _bytes(line.value_hex)
        if not line.topic.endswith(BROKER_LOGS_SUFFIX) and not any(mark in (value or b"") for mark in _LOG_MARKS):
            return False
        packing = LogPacking(self.cluster, self.pane_ms)
        packing.take(value, line.timestamp_ms, self.to_utc)
        rows = list(packing.rows())
        self.skipped += not rows
        self.take_logs(rows)
        return True

    def _take_packed(self, until_ms: int | None) -> None:
        """Tell the engine of commits, and of what coordinators told, up to a time, or of all."""
        while True:
            commits_ms = self._commits[-1].last_commit_ms if self._commits else None
            told_ms = _told_ms(self._told[-1]) if self._told else None
            at_ms = min((each for each in (commits_ms, told_ms) if each is not None), default=None)
            if at_ms is None or (until_ms is not None and at_ms >= until_ms):
                return
            row: Input = self._commits.pop() if at_ms == commits_ms else self._told.pop()
            self._advance_to(at_ms)
            self._tell(row, at_ms)
            self.progress.judged += 1
            self._now_ms = max(self._now_ms, at_ms)

    def _report(self, line: RecordedLine, engine: Engine) -> None:
        message = MetricRecord(
            line.topic, _bytes(line.key_hex), _bytes(line.value_hex), line.timestamp_ms, _headers(line)
        )
        packed = pack_messages([message], {}, cluster=self.cluster, pane_ms=self.pane_ms, seconds=None)
        self.skipped += not packed.rows
        for _, row in packed.rows:
            engine.apply(row, line.timestamp_ms)

    def _fold(self, line: RecordedLine) -> None:
        record = decode_record(_bytes(line.key_hex), _bytes(line.value_hex))
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
            probe = contract.decode(_bytes(line.value_hex) or b"", contract.Probe)
            rows = list(unpack_probe(_bytes(line.value_hex) or b"", probe.cluster, line.timestamp_ms))
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
            row = decode_silence(_bytes(line.value_hex) or b"")
        except contract.ContractError:
            self.skipped += 1
            return
        self._tell(replace(row, cluster=self.cluster), line.timestamp_ms)

    def _keep(self, group: str, each: GroupRecord | contract.Probe, at_ms: int) -> None:
        before = self.states.get(group) or new_state(self.cluster, group)
        if isinstance(each, contract.Probe):
            after, rebalances = (fold_probe if self.without_log else observe)(before, each)
        else:
            after, rebalances = fold(before, each)
        if after is before and not rebalances:
            return
        self.states[group] = after
        for rebalance in rebalances:
            self._rebalances[group, rebalance.rebalance_id] = rebalance
            self._tell(rebalance, at_ms)
        if after.picture != before.picture:
            self._tell(after.picture, at_ms)

    def _tell(self, row: Input, at_ms: int) -> None:
        if self.engine is not None:
            self.engine.apply(row, at_ms)

    def _advance_to(self, now_ms: int) -> None:
        """Tell the engine every moment up to a time, as the clock would have."""
        if self.engine is None:
            return
        self._advanced_ms = self._advanced_ms or now_ms - _TICK_MS
        step = max(_TICK_MS, (now_ms - self._advanced_ms) // _IDLE_TICKS)
        while self._advanced_ms + step <= now_ms:
            self._advanced_ms += step
            self._keep_impacts(self.engine.advance(self._advanced_ms))

    def _keep_impacts(self, rows: Iterable[Output]) -> None:
        """Keep what is not repeated at the end; everything else is."""
        for row in rows:
            if isinstance(row, contract.RebalanceImpact):
                self._impacts[row.group, row.rebalance_id] = row
            elif isinstance(row, contract.GroupImpact):
                self._impacts[row.group, ""] = row


def read_lines(
    files: Iterable[Iterable[bytes | str]],
    until_ms: int | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> Iterator[RecordedLine]:
    """Read recordings, compressed by gzip or not, several merged by time, up to and including `until_ms`.

    A last line that is cut off is left out and told to `notify`. Raises ReplayError for any other bad line.
    """
    readings = [_parse(file, notify) for file in files]
    lines = readings[0] if len(readings) == 1 else heapq.merge(*readings, key=lambda line: line.timestamp_ms)
    return (line for line in lines if until_ms is None or line.timestamp_ms <= until_ms)


def _parse(file: Iterable[bytes | str], notify: Callable[[str], None]) -> Iterator[RecordedLine]:
    name = getattr(file, "name", "the input")
    numbered = enumerate(uncompressed(file, name, ReplayError), start=1)
    for number, text in numbered:
        if not text.strip():
            continue
        try:
            yield _checked(_line_decoder.decode(text))
        except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
            if not text.endswith(_line_end(text)) and next(numbered, None) is None:
                notify(f"{name} line {number} is cut off and left out; the recorder was stopped while it wrote")
                return
            raise ReplayError(
                f"{name} line {number}: {error}; a recording has partition, offset, timestamp_ms, key_hex and value_hex"
            ) from None
        except ReplayError as error:
            raise ReplayError(f"{name} line {number}: {error}") from None


def _line_end(text: bytes | str) -> Any:
    return b"\n" if isinstance(text, bytes) else "\n"


def _checked(line: RecordedLine) -> RecordedLine:
    """Return the line; raises ReplayError here, where its number is known, for what is no hexadecimal text."""
    for text in (line.key_hex, line.value_hex):
        _bytes(text)
    if line.headers:
        _headers(line)
    return line


def _chunks(lines: Iterable[RecordedLine]) -> Iterator[list[RecordedLine]]:
    iterator = iter(lines)
    while chunk := list(itertools.islice(iterator, _CHUNK)):
        yield chunk


def _is_commit(line: RecordedLine) -> bool:
    key = line.key_hex
    return key is not None and key[:4] in _COMMIT_KEYS and line.topic == OFFSETS_TOPIC


def _bytes(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise ReplayError(f"key_hex or value_hex is not hexadecimal: {error}") from None


def _told_ms(row: contract.CoordinatorActivity) -> int:
    """Return when the last event of a row was written, as its reader would have had it."""
    return row.events[-1].at_ms if row.events else row.pane_start_ms


def _end_of(rebalance: contract.Rebalance) -> tuple[bool, int, str]:
    """Sort rebalances by their end, those that go on last."""
    end_ms = rebalance.completed_at_ms
    return end_ms is None, rebalance.started_before_ms if end_ms is None else end_ms, rebalance.rebalance_id


def _headers(line: RecordedLine) -> dict[str, bytes | None]:
    """Return the headers of a line: hexadecimal text by name, as the recorder writes them."""
    pairs = line.headers.items() if isinstance(line.headers, dict) else line.headers or ()
    found: dict[str, bytes | None] = {}
    for pair in pairs:
        if isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str):
            found[pair[0]] = _bytes(pair[1]) if isinstance(pair[1], str) else None
    return found


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
    state = Replay(to_utc=to_utc, without_log=without_log, progress=progress or ReplayProgress())
    state.take_logs(logs if until_ms is None else (each for each in logs if _told_ms(each) <= until_ms))
    if {"finding", "lag", "rebalance_impact", "timing"} & set(wanted):
        state.engine = make_engine(state.cluster, detect)
    for row in itertools.chain(state.feed(read_lines(files, until_ms, notify)), state.finish()):
        if row["kind"] in wanted:
            yield msgspec.json.encode(row)
    lines, groups = state.progress.lines, len(state.states)
    notify(f"replayed {lines} lines, {groups} groups, {state.skipped} lines that tell nothing here")


def make_engine(cluster: str, detect: DetectConfig | None = None) -> Engine:
    """Return an engine for recordings."""
    return Engine(EngineConfig(cluster=cluster, source_topic=OFFSETS_TOPIC, detect=detect or DetectConfig()))
