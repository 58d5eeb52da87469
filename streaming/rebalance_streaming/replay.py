"""Recorded log lines in, the stream's rows out: the same decoding, folding and diagnosis without Spark or cluster.

A recording has one JSON object per line, as `rebalance-monitor record` writes them: `topic` (absent: the offsets
topic), `partition`, `offset`, `timestamp_ms`, `key_hex`, `value_hex` (null: a tombstone), and `received_at_ms` where
the recorder noted its clock. Of one log partition, the commits and the other records must each be in the order of their
offsets. Time is taken from the records, and what the stream does by timer is done when the records have passed it.
Topics that are neither the offsets topic nor the monitor's own are read as client metrics.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.detect.detector import Detector
from rebalance_streaming.groups import episodes, events
from rebalance_streaming.groups.commits import LogColumns, summarise
from rebalance_streaming.groups.fold import FOLDED_TYPES, GROUP_METADATA, fold, settle
from rebalance_streaming.groups.lagging import note_lag
from rebalance_streaming.groups.leaving import note_timed_out
from rebalance_streaming.groups.model import GroupRecord, GroupState, new_state
from rebalance_streaming.groups.probing import observe
from rebalance_streaming.groups.silences import CommitRhythm, note_silences
from rebalance_streaming.groups.simple import Committing, note_commit
from rebalance_streaming.wire.commits import KeyCache, decode_commits
from rebalance_streaming.wire.decode import Outcome, decode_record
from rebalance_streaming.wire.metrics.errors import UndecodableError
from rebalance_streaming.wire.metrics.formats import decode_metrics

OFFSETS_TOPIC = "__consumer_offsets"
PROBES_SUFFIX = "probes"
#: Ends of the names of topics the monitor writes: a replay makes them itself.
_OWN_SUFFIXES = (".groups", ".rebalances", ".commits", ".findings", ".status", ".heartbeats")

#: What may be asked for, and the kinds of rows each answers with.
OUTPUTS = {
    "findings": ("finding",),
    "rebalances": ("rebalance",),
    "groups": ("group",),
    "commits": ("commits",),
    "all": ("rebalance", "group", "commits", "finding"),
}

_CHUNK = 20_000
_COMMIT_KEYS = ("0000", "0001")
_CACHED_KEYS = 1_000_000
#: How often a diagnosis looks at what happened, in the recording's own time; less often where nothing is recorded.
_TICK_MS, _IDLE_TICKS = 1_000, 500


class ReplayError(ValueError):
    """A recording that cannot be read; the text names the line and what is wrong with it."""


class Line(msgspec.Struct):
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


_line_decoder = msgspec.json.Decoder(Line)


@dataclass(slots=True)
class Replay:
    """Feeds lines into the folds. `cluster` is the name the rows carry, `pane_ms` the width of a commit summary."""

    cluster: str = "default"
    pane_ms: int = 5_000
    detector: Detector | None = None
    states: dict[str, GroupState] = field(default_factory=dict)
    lines: int = 0
    skipped: int = 0
    _rebalances: dict[tuple[str, str], events.Rebalance] = field(default_factory=dict)
    _due: list[tuple[int, str]] = field(default_factory=list)
    _rhythm: CommitRhythm = field(default_factory=CommitRhythm)
    _silences: list[tuple[int, str, events.Silence]] = field(default_factory=list)
    _committing: dict[str, Committing] = field(default_factory=dict)
    _sources: dict[tuple[str, int], list[Line]] = field(default_factory=dict)
    _cache: KeyCache = field(default_factory=lambda: KeyCache(_CACHED_KEYS))
    _summaries: list[tuple[int, events.CommitSummary]] = field(default_factory=list)
    _now_ms: int = 0
    _judged_ms: int = 0

    def feed(self, lines: Iterable[Line]) -> Iterator[dict[str, Any]]:
        """Take lines; yields commit summaries, the contract's objects with their `kind`, and keeps what else there is.

        A recorder reads topics and partitions in turns, so that only all lines together tell what came first.
        """
        for chunk in _chunks(lines):
            self.lines += len(chunk)
            yield from self._pack([line for line in chunk if _is_commit(line)])
            for line in chunk:
                if not line.control and not _is_commit(line):
                    self._sources.setdefault((line.topic, line.partition), []).append(line)

    def finish(self) -> Iterator[dict[str, Any]]:
        """Yield rebalances in the order of their end, as they stand at the recording's end, groups, and findings."""
        self._silences.sort(key=lambda each: each[0], reverse=True)
        self._summaries.sort(key=lambda each: each[0], reverse=True)
        for line in heapq.merge(*self._sources.values(), key=lambda line: line.timestamp_ms):
            self._hear(line.timestamp_ms)
            self._take(line)
        self._hear(None)
        self._hear_commits(None)
        for group, commit in self._committing.items():
            self.states[group] = note_commit(self.states.get(group) or new_state(self.cluster, group), commit)
        for state in self.states.values():
            if state.episode is not None:
                self.states[state.picture.group] = settle(state, self._now_ms + episodes.SETTLE_AFTER_MS)
        if self.detector is not None:
            self._judge_until(self._now_ms)
            self.detector.finish()
            self.detector.disturbances()
            self._note_timed_out(self.detector)
        for rebalance in sorted(self._rebalances.values(), key=_end_of):
            yield _row("rebalance", rebalance)
        for group in sorted(self.states):
            yield _row("group", self.states[group].picture)
        if self.detector is not None:
            for finding in self.detector.book.findings():
                yield _row("finding", finding)

    def _pack(self, lines: list[Line]) -> Iterator[dict[str, Any]]:
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
        for ended in self._rhythm.take(commits, log):
            for each in ended.silences:
                self._silences.append((each.resumed_at_ms, ended.group, each))
        for summary in summarise(commits, log, self.cluster, self.pane_ms):
            self._committing.setdefault(
                summary.group,
                Committing(summary.group, summary.log_partition, summary.last_log_offset, summary.pane_start_ms),
            )
            if self.detector is not None:
                self._summaries.append((_last_commit_ms(summary), summary))
            yield _row("commits", summary)

    def _take(self, line: Line) -> None:
        self._settle_until(line.timestamp_ms)
        self._hear_commits(line.timestamp_ms)
        self._judge_until(line.timestamp_ms)
        if line.topic == OFFSETS_TOPIC:
            self._fold(line)
        elif line.topic.endswith(PROBES_SUFFIX):
            self._observe(line)
        elif self.detector is not None and not line.topic.endswith(_OWN_SUFFIXES):
            self._report(line, self.detector)
        else:
            self.skipped += 1

    def _report(self, line: Line, detector: Detector) -> None:
        try:
            reports = decode_metrics(_bytes(line.key_hex), _bytes(line.value_hex), line.timestamp_ms, _headers(line))
        except UndecodableError:
            self.skipped += 1
            return
        for report in reports:
            detector.take_report(report)

    def _hear_commits(self, until_ms: int | None) -> None:
        """Tell the diagnosis of commits up to a time, or all."""
        while self._summaries and (until_ms is None or self._summaries[-1][0] < until_ms):
            at_ms, summary = self._summaries.pop()
            if self.detector is not None:
                self._judge_until(at_ms)
                self.detector.take_commits(summary)
            self._now_ms = max(self._now_ms, at_ms)

    def _judge_until(self, now_ms: int) -> None:
        """Let the diagnosis look at every moment up to a time, as the clock would have."""
        if self.detector is None:
            return
        if self._judged_ms == 0:
            self._judged_ms = self.detector.now_ms = now_ms
        step = max(_TICK_MS, (now_ms - self._judged_ms) // _IDLE_TICKS)
        while self._judged_ms + step <= now_ms:
            self._judged_ms += step
            self.detector.advance(self._judged_ms)
            self.detector.disturbances()
            self._note_timed_out(self.detector)

    def _note_timed_out(self, detector: Detector) -> None:
        """Count how members left, as far as that is known by now."""
        for left in detector.timed_out():
            before = self.states[left.group]
            self._keep(left.group, before, note_timed_out(before, left), ())

    def _hear(self, until_ms: int | None) -> None:
        """Note the gaps between commits that ended before a time, or all."""
        while self._silences and (until_ms is None or self._silences[-1][0] < until_ms):
            _, group, silence = self._silences.pop()
            if group in self.states:
                before = self.states[group]
                self._keep(group, before, *note_silences(before, [silence]))

    def _fold(self, line: Line) -> None:
        record = decode_record(_bytes(line.key_hex), _bytes(line.value_hex))
        if record.record_type not in FOLDED_TYPES or record.outcome not in (Outcome.DECODED, Outcome.TOMBSTONE):
            self.skipped += 1
            return
        group = record.key.group if record.record_type == GROUP_METADATA else record.key.group_id
        before = self.states.get(group) or new_state(self.cluster, group)
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
        self._keep(group, before, *fold(before, at))

    def _observe(self, line: Line) -> None:
        text = _bytes(line.value_hex)
        try:
            probe = events.decode(text or b"", events.Probe)
        except events.ContractError:
            self.skipped += 1
            return
        before = self.states.get(probe.group) or new_state(self.cluster, probe.group)
        self._keep(probe.group, before, *observe(before, probe))
        if self.detector is not None:
            self.detector.take_probe(probe)
            for around in self.detector.lags():
                state = self.states[around.group]
                self._keep(around.group, state, *note_lag(state, around))

    def _keep(
        self, group: str, before: GroupState, after: GroupState, rebalances: tuple[events.Rebalance, ...]
    ) -> None:
        self.states[group] = after
        for rebalance in rebalances:
            self._rebalances[group, rebalance.rebalance_id] = rebalance
            if self.detector is not None:
                self.detector.take_rebalance(rebalance)
        if self.detector is not None and after.picture != before.picture:
            self.detector.take_group(after.picture)
        due = episodes.settles_at_ms(after)
        if due is not None and due != episodes.settles_at_ms(before):
            heapq.heappush(self._due, (due, group))

    def _settle_until(self, now_ms: int) -> None:
        """Do what the stream's timers would have done by now."""
        self._now_ms = max(self._now_ms, now_ms)
        while self._due and self._due[0][0] <= self._now_ms:
            _, group = heapq.heappop(self._due)
            self.states[group] = settle(self.states[group], self._now_ms)


def read_lines(files: Iterable[Iterable[bytes | str]], until_ms: int | None = None) -> Iterator[Line]:
    """Read recordings, several merged by time, up to and including `until_ms`. Raises ReplayError for a bad line."""
    readings = [_parse(file) for file in files]
    lines = readings[0] if len(readings) == 1 else heapq.merge(*readings, key=lambda line: line.timestamp_ms)
    return (line for line in lines if until_ms is None or line.timestamp_ms <= until_ms)


def _parse(file: Iterable[bytes | str]) -> Iterator[Line]:
    name = getattr(file, "name", "the input")
    for number, text in enumerate(file, start=1):
        if not text.strip():
            continue
        try:
            yield _line_decoder.decode(text)
        except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ReplayError(
                f"{name} line {number}: {error}; a recording has partition, offset, timestamp_ms, key_hex and value_hex"
            ) from None


def _chunks(lines: Iterable[Line]) -> Iterator[list[Line]]:
    iterator = iter(lines)
    while chunk := list(itertools.islice(iterator, _CHUNK)):
        yield chunk


def _is_commit(line: Line) -> bool:
    key = line.key_hex
    return key is not None and key[:4] in _COMMIT_KEYS and line.topic == OFFSETS_TOPIC


def _bytes(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise ReplayError(f"key_hex or value_hex is not hexadecimal: {error}") from None


def _end_of(rebalance: events.Rebalance) -> tuple[bool, int, str]:
    """Sort rebalances by their end, those that go on last."""
    end_ms = rebalance.completed_at_ms
    return end_ms is None, rebalance.started_before_ms if end_ms is None else end_ms, rebalance.rebalance_id


def _last_commit_ms(summary: events.CommitSummary) -> int:
    return max(max(topic.committed_at_ms) for topic in summary.topics.values())


def _headers(line: Line) -> dict[str, bytes | None]:
    """Return the headers of a line: hexadecimal text by name, as the recorder writes them."""
    pairs = line.headers.items() if isinstance(line.headers, dict) else line.headers or ()
    found: dict[str, bytes | None] = {}
    for pair in pairs:
        if isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str):
            found[pair[0]] = _bytes(pair[1]) if isinstance(pair[1], str) else None
    return found


def _row(kind: str, row: Any) -> dict[str, Any]:
    return {"kind": kind, **msgspec.to_builtins(row)}


def replay(
    files: Iterable[Iterable[bytes | str]],
    *,
    output: str = "rebalances",
    until_ms: int | None = None,
    detect: DetectConfig | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> Iterator[bytes]:
    """Yield the rows of a replay as JSON lines without line ends. Raises ReplayError for what is no recording.

    Findings come last, each once, as it stood at the end.
    """
    wanted = OUTPUTS[output]
    state = Replay()
    if {"finding", "group"} & set(wanted):
        # A group's totals tell how members left, which only the diagnosis finds out.
        state.detector = Detector(state.cluster, detect)
    for row in itertools.chain(state.feed(read_lines(files, until_ms)), state.finish()):
        if row["kind"] in wanted:
            yield msgspec.json.encode(row)
    notify(f"replayed {state.lines} lines, {len(state.states)} groups, {state.skipped} lines that tell nothing here")
