"""Runs the live stream's own code over the lines of a recording, in memory: no Spark, no Kafka, no other process.

The three queries read in micro-batches of arbitrary length and duration, each at its own times. Their rows are written
to topics as bytes and read from there: the activity query by the packer of its tasks, the membership query by its
processor over a state store, the diagnosis by the worker of its process, with ticks in between. The clock is that of
the recording.
"""

from __future__ import annotations

import base64
import itertools
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pyarrow as pa

from rebalance_contract import CommitActivity, topics
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.diagnosis import worker as diagnosis
from rebalance_streaming.diagnosis.frames import InputRow, Start, Tick
from rebalance_streaming.diagnosis.horizon import ReadHorizon
from rebalance_streaming.diagnosis.restoring import decode_restored
from rebalance_streaming.diagnosis.row_order import in_order
from rebalance_streaming.engine.rows import DIAGNOSED, decode_input
from rebalance_streaming.recordings.recording import RecordedLine
from rebalance_streaming.spark import activity, membership
from rebalance_streaming.wire.records import OFFSETS_TOPIC
from spark.packing import PACKER_SCHEMA
from spark.state import Store

CONFIG = StreamConfig()
MEMBERSHIP, ACTIVITY, DIAGNOSIS = "membership", "activity", "diagnosis"
#: Time between two looks of the simulation, in milliseconds: everything begins and ends at a multiple of it.
STEP_MS = 50
_LOOK_MS = 1_000
_DAY_MS = 86_400_000

_SOURCE_SCHEMA = pa.schema([membership.ARROW_SCHEMA.field(name) for name in membership.SOURCE_COLUMNS])
#: As in the membership query.
_DESCRIBES_GROUP = re.compile(rb'"(state|topic_ids|coordinator_id)":')

#: Topic, key and value of a row; a null value is a tombstone.
Written = tuple[str, str, bytes | None]


@dataclass(slots=True)
class Topic:
    """One of the monitor's topics, with one partition: (time of writing, key, value), and the latest value by key."""

    rows: list[tuple[int, str, bytes | None]] = field(default_factory=list)
    latest: dict[str, bytes] = field(default_factory=dict)

    def write(self, at_ms: int, key: str, value: bytes | None) -> None:
        """Append a row."""
        self.rows.append((at_ms, key, value))
        if value is None:
            self.latest.pop(key, None)
        else:
            self.latest[key] = value


@dataclass(frozen=True, slots=True)
class Pace:
    """Shortest and longest time of a query between two batches, and of a batch, in milliseconds."""

    pause_ms: tuple[int, int]
    batch_ms: tuple[int, int] = (STEP_MS, 10 * STEP_MS)


#: The default triggers; a busy machine; one on which batches take as long as a rebalance.
QUICK = {MEMBERSHIP: Pace((500, 500)), ACTIVITY: Pace((1_000, 1_000)), DIAGNOSIS: Pace((500, 500))}
BUSY = {
    MEMBERSHIP: Pace((500, 4_000), (100, 2_000)),
    ACTIVITY: Pace((1_000, 6_000), (100, 3_000)),
    DIAGNOSIS: Pace((500, 3_000), (50, 500)),
}
SLOW = {
    MEMBERSHIP: Pace((500, 15_000), (1_000, 8_000)),
    ACTIVITY: Pace((1_000, 20_000), (1_000, 10_000)),
    DIAGNOSIS: Pace((500, 10_000), (500, 2_000)),
}


@dataclass(slots=True)
class _Query:
    """A query: what it has read, and its running batch, which began and ends at a time."""

    pace: Pace
    next_ms: int
    read: int = 0
    batch: Sequence[RecordedLine] | None = None
    began_ms: int = 0
    ends_ms: int = 0


class Live:
    """A stream that watches a cluster from before its first record on."""

    def __init__(self, lines: Iterable[RecordedLine], pace: dict[str, Pace], chance: random.Random) -> None:
        found = [line for line in lines if not line.control]
        self._lines = sorted(found, key=lambda line: line.timestamp_ms)
        self._pace, self._chance = pace, chance
        self.topics: dict[str, Topic] = {}
        self.now_ms = self._lines[0].timestamp_ms // STEP_MS * STEP_MS - 2_000
        self.epoch = 0
        self._store = Store(CONFIG, {}, None)
        self._committed = {MEMBERSHIP: 0, ACTIVITY: 0}
        #: Batches that were begun and not committed: a start repeats them, with the same records.
        self._begun: dict[str, Sequence[RecordedLine]] = {}
        self.said: list[str] = []
        self.start()

    # --- The process ---

    def start(self) -> None:
        """Start all queries, from where they had committed, and a diagnosis that looks back."""
        self.epoch += 1
        self._queries = {name: _Query(self._pace[name], self.now_ms) for name in (MEMBERSHIP, ACTIVITY, DIAGNOSIS)}
        for name, read in self._committed.items():
            self._queries[name].read = read
            if name in self._begun:
                self._begin(self._queries[name], self._begun[name])
        self._horizon = ReadHorizon()
        self.start_diagnosis()

    def start_diagnosis(self) -> None:
        """Start the process of the diagnosis, which restores its rows and reads the recent past again."""
        since_ms = self.now_ms - int(CONFIG.diagnosis_lookback_minutes * 60_000)
        begin = Start(CONFIG, DetectConfig(), since_ms, self.epoch)
        self._worker = diagnosis.DiagnosisWorker(begin, _Sink(self), self.said.append)
        for topic in (topics.FINDINGS, topics.LAG, topics.IMPACT, topics.STATUS):
            for value in list(self.topic(topic.name).latest.values()):
                row = decode_restored(topic.name, value)
                if row is not None:
                    self._worker.engine.restore(row, self.now_ms)
        from_ms = {
            topics.GROUPS.name: 0,
            topics.REBALANCES.name: since_ms - _DAY_MS,
            topics.ACTIVITY.name: since_ms,
            topics.SILENCES.name: 0,
        }
        self._taken = {
            name: next((i for i, row in enumerate(self.topic(name).rows) if row[0] >= at), len(self.topic(name).rows))
            for name, at in from_ms.items()
        }
        self._read_from_ms = self.now_ms
        self._looked_ms = 0
        query = self._queries[DIAGNOSIS]
        query.batch, query.next_ms = None, self.now_ms

    def kill(self) -> None:
        """Kill the whole stream, after the rows of running batches were written and before these were committed."""
        for name in (MEMBERSHIP, ACTIVITY):
            query = self._queries[name]
            if query.batch is not None:
                before = deepcopy(self._store.buckets)
                self._write(name, query.batch)
                self._store.buckets = before

    # --- Time ---

    def run_until(self, end_ms: int) -> None:
        """Let time pass."""
        with self._clock():
            while self.now_ms < end_ms:
                self.now_ms += STEP_MS
                self._step()

    def _step(self) -> None:
        for name in (MEMBERSHIP, ACTIVITY):
            self._step_query(name)
        has_taken = self._step_diagnosis()
        if has_taken or self.now_ms - self._looked_ms >= _LOOK_MS:
            self._looked_ms = self.now_ms
            for name in (MEMBERSHIP, ACTIVITY):
                query = self._queries[name]
                if query.batch is None and not self._unread(query):
                    self._horizon.note(name, self.now_ms - STEP_MS, self.now_ms)
            read_until_ms = self._horizon.until(self._queries[DIAGNOSIS].began_ms)
            self._worker.tick(Tick(self.now_ms, read_until_ms, self.caught_up))

    @property
    def caught_up(self) -> bool:
        """Whether everything from before the start has been read and diagnosed."""
        return self._queries[DIAGNOSIS].began_ms > self._read_from_ms

    def _unread(self, query: _Query) -> list[RecordedLine]:
        rest = itertools.islice(self._lines, query.read, None)
        return list(itertools.takewhile(lambda line: line.timestamp_ms <= self.now_ms, rest))

    def _step_query(self, name: str) -> None:
        query = self._queries[name]
        if query.batch is not None and self.now_ms >= query.ends_ms:
            self._write(name, query.batch)
            query.read += len(query.batch)
            self._committed[name] = query.read
            self._begun.pop(name)
            query.batch = None
            self._horizon.note(name, query.began_ms, self.now_ms)
            query.next_ms = max(self.now_ms, query.began_ms + self._any_of(query.pace.pause_ms))
        if query.batch is None and self.now_ms >= query.next_ms:
            found = self._unread(query)
            if found:
                self._begun[name] = found
                self._begin(query, found)

    def _begin(self, query: _Query, batch: Sequence[RecordedLine]) -> None:
        query.batch, query.began_ms = batch, self.now_ms
        query.ends_ms = self.now_ms + self._any_of(query.pace.batch_ms)

    def _step_diagnosis(self) -> bool:
        query = self._queries[DIAGNOSIS]
        if self.now_ms < query.next_ms:
            return False
        query.began_ms = self.now_ms
        query.next_ms = self.now_ms + self._any_of(query.pace.pause_ms)
        rows = list(self._rows())
        self._worker.take(in_order(rows))
        return bool(rows)

    def _rows(self) -> Iterator[InputRow]:
        for each in DIAGNOSED:
            written = self.topic(each.name).rows
            for offset in range(self._taken[each.name], len(written)):
                at_ms, key, value = written[offset]
                yield InputRow(each.name, 0, offset, at_ms, key.encode(), value, None)
            self._taken[each.name] = len(written)

    def _any_of(self, bounds: tuple[int, int]) -> int:
        return self._chance.randint(*bounds)

    @contextmanager
    def _clock(self) -> Iterator[None]:
        with ExitStack() as stack:
            for module in (membership, activity, diagnosis):
                stack.enter_context(mock.patch.object(module, "epoch_ms", self._read_clock))
            yield

    def _read_clock(self) -> int:
        return self.now_ms

    # --- Topics ---

    def topic(self, name: str) -> Topic:
        """Return one of the monitor's topics by its name without the prefix."""
        return self.topics.setdefault(name, Topic())

    def activity(self) -> Iterator[CommitActivity]:
        """Yield every row of commits that was written, repeated ones included."""
        for _, key, value in self.topic(topics.ACTIVITY.name).rows:
            row = decode_input(topics.ACTIVITY.name, key.encode(), value)
            if isinstance(row, CommitActivity):
                yield row

    def _write(self, name: str, batch: Sequence[RecordedLine]) -> None:
        for topic, key, value in _QUERIES[name](self, batch):
            self.topic(topic.removeprefix(CONFIG.topic_prefix)).write(self.now_ms, key, value)

    def _fold(self, batch: Sequence[RecordedLine]) -> Iterable[Written]:
        """Return the rows of a batch of the membership query."""
        wanted = [line for line in batch if _is_of_membership(line)]
        rows = [
            (line.topic, line.partition, line.offset, line.timestamp_ms, line.key, line.value)
            for line in self._chance.sample(wanted, len(wanted))
        ]
        names = membership.SOURCE_COLUMNS
        source = pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in rows], _SOURCE_SCHEMA)
        parts = membership._make_addressing(CONFIG, {})(iter([source]))
        found = [row for part in parts for row in part.to_pylist()]
        return self._store.batch([tuple(row.values()) for row in found], membership.AddressedRow._fields)

    def _pack(self, batch: Sequence[RecordedLine]) -> Iterable[Written]:
        """Return the rows of a batch of the activity query."""
        wanted = [line for line in batch if _is_of_activity(line)]
        places = sorted({(line.topic, line.partition) for line in wanted})
        self._chance.shuffle(places)
        order = {place: i for i, place in enumerate(places)}
        wanted.sort(key=lambda line: order[line.topic, line.partition])
        packer = activity.ActivityPacker(CONFIG, {})
        rows = packer.pack(pa.RecordBatch.from_pylist([_source_row(line) for line in wanted], PACKER_SCHEMA))
        topic = topics.ACTIVITY.name
        return [(topic, key.decode(errors="replace"), value) for key, value in (*rows, *packer.counts())]


_QUERIES: dict[str, Callable[[Live, Sequence[RecordedLine]], Iterable[Written]]] = {
    MEMBERSHIP: Live._fold,
    ACTIVITY: Live._pack,
}


@dataclass(frozen=True, slots=True)
class _Sink:
    live: Live

    def put(self, topic: str, key: str, value: bytes | None) -> None:
        """Write a row of the diagnosis."""
        self.live.topic(topic.removeprefix(CONFIG.topic_prefix)).write(self.live.now_ms, key, value)

    def send(self) -> None:
        """Do nothing."""


def _is_of_membership(line: RecordedLine) -> bool:
    if line.topic == OFFSETS_TOPIC:
        return not line.is_commit
    return line.topic == CONFIG.probes_topic and _DESCRIBES_GROUP.search(line.value or b"") is not None


def _is_of_activity(line: RecordedLine) -> bool:
    return line.is_commit and line.read_committed if line.topic == OFFSETS_TOPIC else True


def _source_row(line: RecordedLine) -> dict[str, Any]:
    value = line.value
    headers = [
        {"key": name, "value": None if text is None else base64.b64encode(text).decode()}
        for name, text in line.named_headers().items()
    ]
    return {
        "topic": line.topic,
        "partition": line.partition,
        "offset": line.offset,
        "timestamp_ms": line.timestamp_ms,
        "key": line.key,
        "value": value,
        "size": None if value is None else len(value),
        "headers": json.dumps(headers),
    }
