"""Computes the stream's rows from recorded lines with the same decoding, folding and diagnosis, without Spark or Kafka.

All lines are read first; their contents are then folded and judged in the order of their times. Within a log partition
of a recording, commits must be in offset order, and so must all other records. The clock is that of the records: what
the stream does at a certain time is done when records have passed it. Broker log lines are processed at their own
times, whether they come from the recording or from separate log files.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import msgspec

import rebalance_contract as contract
from rebalance_contract import bounds
from rebalance_streaming.activity.ordering import CommitTimes, probe_times
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.engine.engine import Engine, EngineConfig
from rebalance_streaming.engine.rows import Input, Output, Published, encode_published
from rebalance_streaming.groups.fold import fold
from rebalance_streaming.groups.model import FoldState, new_state
from rebalance_streaming.groups.probed import take_probe
from rebalance_streaming.recordings.line_reader import Contents, FoldInput, LineReader
from rebalance_streaming.recordings.outputs import OUTPUTS
from rebalance_streaming.recordings.recording import RecordedLine, read_lines
from rebalance_streaming.wire.broker_logs.decode import ToUtc, in_utc
from rebalance_streaming.wire.records import OFFSETS_TOPIC

_DEFAULTS = StreamConfig()
#: Cluster name and pane length (ms) of a replay's rows: those of a stream without settings.
CLUSTER, PANE_MS = _DEFAULTS.cluster, _DEFAULTS.pane_ms

_CHUNK = 20_000
#: Interval of the diagnosis in the recording's time, and the maximum number of ticks in a gap of the recording.
_TICK_MS, _IDLE_TICKS = 1_000, 500


@dataclass(slots=True)
class ReplayProgress:
    """Progress of a replay, for display by another thread: lines read, then rows and records judged.

    `to_judge` is null until all lines have been read.
    """

    lines: int = 0
    judged: int = 0
    to_judge: int | None = None


@dataclass(slots=True)
class _Waiting:
    """The contents of lines until all have been read and can be ordered, as a recorder alternates between partitions.

    `packed` are rows that have a time of their own, with it and their rank among rows of the same time. `lines` has the
    contents of other lines with their times, by topic and partition.
    """

    packed: list[tuple[int, int, Input]] = field(default_factory=list)
    lines: dict[tuple[str, int], list[tuple[int, Contents]]] = field(default_factory=dict)
    _commit_times: CommitTimes = field(default_factory=CommitTimes)

    def __len__(self) -> int:
        return len(self.packed) + sum(map(len, self.lines.values()))

    def add_commits(self, row: contract.CommitActivity) -> None:
        """Keep packed commits; those of a group come in the order of the log."""
        self.packed.append((self._commit_times.of(row), 0, row))

    def add_logged(self, rows: Iterable[contract.CoordinatorActivity]) -> None:
        """Keep rows of coordinators' log lines."""
        self.packed.extend((_logged_ms(row), 1, row) for row in rows)

    def add_offsets(self, row: contract.OffsetActivity) -> None:
        """Keep probed offsets; they are as of the time of the probe, after the commits until then."""
        self.packed.append((row.probed_at_ms, 2, row))

    def add(self, line: RecordedLine, contents: Contents) -> None:
        """Keep a line's contents with its time; also empty ones, because the time advances the clock."""
        self.lines.setdefault((line.topic, line.partition), []).append((line.timestamp_ms, contents))

    def take(self) -> Iterator[tuple[int, Contents]]:
        """Remove and yield everything in order of time."""
        self.packed.sort(key=itemgetter(0, 1))
        self.packed.reverse()
        for at_ms, contents in heapq.merge(*map(_taken, self.lines.values()), key=itemgetter(0)):
            yield from self._take_packed(at_ms)
            yield at_ms, contents
        yield from self._take_packed(None)

    def _take_packed(self, until_ms: int | None) -> Iterator[tuple[int, Contents]]:
        """Remove and yield the packed rows before a time, or all, from the end of their list."""
        while self.packed and (until_ms is None or self.packed[-1][0] < until_ms):
            at_ms, _, row = self.packed.pop()
            yield at_ms, (row,)


def _taken(lines: list[tuple[int, Contents]]) -> Iterator[tuple[int, Contents]]:
    """Yield the contents of lines, and remove them from the list."""
    lines.reverse()
    while lines:
        yield lines.pop()


@dataclass(slots=True)
class _Groups:
    """Groups as reported by the log and probes: their states, rebalances, and commits for groups with nothing else.

    `reads_log`: probes supplement the log; otherwise they are the only source.
    """

    cluster: str
    reads_log: bool = True
    states: dict[str, FoldState] = field(default_factory=dict)
    rebalances: dict[tuple[str, str], contract.Rebalance] = field(default_factory=dict)
    committing: dict[str, contract.GroupLag] = field(default_factory=dict)

    def note_commits(self, row: contract.CommitActivity) -> None:
        """Keep the data for the snapshot of a group that has only commits."""
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

    def fold(self, each: FoldInput) -> Iterator[Input]:
        """Fold a record or a probe; yield the changed rows: rebalances, then the group's snapshot."""
        group, what = each.group, each.what
        before = self.states.get(group) or new_state(self.cluster, group)
        if isinstance(what, contract.Probe):
            after, rebalances = take_probe(before, what, reads_log=self.reads_log)
        else:
            after, rebalances = fold(before, what)
        if after is before and not rebalances:
            return
        self.states[group] = after
        for rebalance in rebalances:
            self.rebalances[group, rebalance.rebalance_id] = rebalance
            yield rebalance
        if after.snapshot != before.snapshot:
            yield after.snapshot

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield rebalances sorted by end, then each group's snapshot."""
        for rebalance in sorted(self.rebalances.values(), key=_end_of):
            yield _row("rebalance", rebalance)
        for group in sorted({*self.states, *self.committing}):
            yield _row("group", self._snapshot(group))

    def _snapshot(self, group: str) -> contract.GroupSnapshot:
        """Return a group's final snapshot, with the settlement of its last rebalance added to the totals."""
        state, commits = self.states.get(group), self.committing.get(group)
        snapshot = new_state(self.cluster, group).snapshot if state is None else state.snapshot
        if commits is not None:
            snapshot = contract.with_commits(snapshot, commits)
        if snapshot.settlement is None:
            return snapshot
        return replace(snapshot, counters=contract.settled(snapshot.counters, snapshot.settlement), settlement=None)


@dataclass(slots=True)
class _EngineDriver:
    """Drives an engine with rows and ticks, like the stream's child process, and keeps rows that it publishes once."""

    engine: Engine
    now_ms: int = 0
    advanced_ms: int = 0
    impacts: dict[tuple[str, str], contract.RebalanceImpact | contract.GroupImpact] = field(default_factory=dict)

    def advance_to(self, now_ms: int) -> None:
        """Advance the engine through every tick up to a time, as a real clock would."""
        self.now_ms = max(self.now_ms, now_ms)
        self.advanced_ms = self.advanced_ms or now_ms - _TICK_MS
        step = max(_TICK_MS, (now_ms - self.advanced_ms) // _IDLE_TICKS)
        while self.advanced_ms + step <= now_ms:
            self.advanced_ms += step
            self._keep_impacts(self.engine.advance(self.advanced_ms))

    def finish(self) -> Iterator[dict[str, Any]]:
        """Yield the latest version of each row of the engine: impact, lag, timing and findings."""
        self.advance_to(self.now_ms)
        rows = self.engine.finish(self.now_ms)
        self._keep_impacts(rows)
        for impact in self.impacts.values():
            yield _row(impact.kind, impact)
        for row in rows:
            if isinstance(row, contract.GroupLag | contract.GroupTiming | contract.Finding):
                yield _row(_KINDS[type(row)], row)

    def _keep_impacts(self, rows: Iterable[Output]) -> None:
        """Keep impact rows, the only ones that the engine does not publish again at the end."""
        for row in rows:
            if isinstance(row, contract.RebalanceImpact):
                self.impacts[row.group, row.rebalance_id] = row
            elif isinstance(row, contract.GroupImpact):
                self.impacts[row.group, ""] = row


class Replay:
    """Drives the folds and the engine with lines. `cluster` is the cluster name in rows, `pane_ms` the pane length.

    `engine`: null for no diagnosis, and so no lag, impact and findings. `to_utc` converts local times in broker logs to
    UTC. `without_log`: as with `sources.log = false`.
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
        self.progress = progress or ReplayProgress()
        self._reader = LineReader(cluster, pane_ms, to_utc, reads_log=not without_log, reads_clients=engine is not None)
        self._waiting = _Waiting()
        self._probed_ms: defaultdict[str, list[int]] = defaultdict(list)
        self._groups = _Groups(cluster, reads_log=not without_log)
        self._driver = None if engine is None else _EngineDriver(engine)

    def feed(self, lines: Iterable[RecordedLine]) -> Iterator[dict[str, Any]]:
        """Read lines; yield packed commits, and keep all other contents for `finish`."""
        for chunk in _chunks(lines):
            self.progress.lines += len(chunk)
            readable = self._reader.readable(chunk)
            for line in readable:
                if not line.control and not line.is_commit:
                    self._keep(line)
            for row in self._reader.pack([line for line in readable if line.is_commit], self._probed_ms):
                self._waiting.add_commits(row)
                self._groups.note_commits(row)
                yield _row("commits", row)

    def take_logs(self, rows: Iterable[contract.CoordinatorActivity]) -> None:
        """Add rows of coordinators' log lines before `finish`; the engine gets them at their times."""
        self._waiting.add_logged(rows)

    def finish(self) -> Iterator[dict[str, Any]]:
        """Yield rebalances sorted by end, then the final groups, impact, lag, timing and findings."""
        self.progress.to_judge = len(self._waiting)
        for at_ms, contents in self._waiting.take():
            if self._driver is not None:
                self._driver.advance_to(at_ms)
            for each in contents:
                self._take(each, at_ms)
            self.progress.judged += 1
        yield from self._groups.rows()
        if self._driver is not None:
            yield from self._driver.finish()

    def summary(self) -> str:
        """Return one line that says how much was replayed."""
        lines, groups, skipped = self.progress.lines, len(self._groups.states), self._reader.skipped
        left_out = f"{_number(skipped, 'line')} skipped (not needed for this output)"
        return f"replayed {_number(lines, 'line')}, {_number(groups, 'group')}, {left_out}"

    def _keep(self, line: RecordedLine) -> None:
        rows = self._reader.log_rows(line)
        if rows is not None:
            self.take_logs(rows)
            return
        contents = self._reader.read(line)
        for each in contents:
            if isinstance(each, contract.OffsetActivity):
                self._waiting.add_offsets(each)
        probe_times((each for each in contents if isinstance(each, contract.OffsetActivity)), self._probed_ms)
        rest = tuple(each for each in contents if not isinstance(each, contract.OffsetActivity))
        self._waiting.add(line, rest)

    def _take(self, each: FoldInput | Input, at_ms: int) -> None:
        """Fold records and probes; pass the resulting rows, and all other rows, to the engine."""
        for row in self._groups.fold(each) if isinstance(each, FoldInput) else (each,):
            if self._driver is not None:
                self._driver.engine.apply(row, at_ms)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _chunks(lines: Iterable[RecordedLine]) -> Iterator[list[RecordedLine]]:
    iterator = iter(lines)
    while chunk := list(itertools.islice(iterator, _CHUNK)):
        yield chunk


def _logged_ms(row: contract.CoordinatorActivity) -> int:
    """Return the time of a row's last event, when its reader would have received it."""
    return row.events[-1].at_ms if row.events else row.pane_start_ms


def _end_of(rebalance: contract.Rebalance) -> tuple[bool, int, str]:
    """Return the sort key of rebalances: by end, ongoing ones last."""
    end_ms = rebalance.completed_at_ms
    return end_ms is None, rebalance.started_before_ms if end_ms is None else end_ms, rebalance.rebalance_id


def _row(
    kind: str, row: contract.GroupSnapshot | contract.Rebalance | contract.CommitActivity | Published
) -> dict[str, Any]:
    """Return a row as the stream publishes it, truncated if necessary and with the counts added by the encoder."""
    # Commits are many, and have no counts; their packer bounds them.
    fields = msgspec.to_builtins(row) if isinstance(row, contract.CommitActivity) else msgspec.json.decode(_encode(row))
    # Overrides the `kind` of rows that have such a field.
    return {**fields, "kind": kind}


def _encode(row: contract.GroupSnapshot | contract.Rebalance | Published) -> bytes:
    if isinstance(row, contract.GroupSnapshot):
        return bounds.encode_group(row)
    if isinstance(row, contract.Rebalance):
        return bounds.encode_rebalance(row)
    return encode_published(row)


#: The rows that an engine publishes again at the end, and their kind in a replay's output.
_KINDS: dict[type[Any], str] = {
    contract.GroupLag: "lag",
    contract.GroupTiming: "timing",
    contract.Finding: "finding",
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
    """Yield the rows of a replay as JSON lines without line ends. Raises ReplayError for an invalid recording.

    `output` is a name of OUTPUTS. `logs` are rows from separate broker log files. Findings come last, each once, in its
    final version. `without_log`: as if the offsets topic may not be read. `progress` is updated meanwhile.
    """
    wanted = OUTPUTS[output]
    judged = {"finding", "lag", "rebalance_impact", "timing"} & set(wanted)
    engine = make_engine(CLUSTER, detect) if judged else None
    state = Replay(engine=engine, to_utc=to_utc, without_log=without_log, progress=progress)
    state.take_logs(logs if until_ms is None else (each for each in logs if _logged_ms(each) <= until_ms))
    for row in itertools.chain(state.feed(read_lines(files, until_ms, notify)), state.finish()):
        if row["kind"] in wanted:
            yield msgspec.json.encode(row)
    notify(state.summary())


def make_engine(cluster: str, detect: DetectConfig | None = None) -> Engine:
    """Return an engine for recordings."""
    return Engine(EngineConfig(cluster=cluster, source_topic=OFFSETS_TOPIC, detect=detect or DetectConfig()))
