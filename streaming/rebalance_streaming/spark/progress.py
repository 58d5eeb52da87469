"""The health of the queries, published to the status topic.

Spark's progress of each query is polled a few times a second: this transfers one short text per batch from the JVM,
whereas a listener would transfer every offset of every batch as an object. Independent of what the queries do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from rebalance_contract import QueryStatus

#: Name of the observed metric with the newest timestamp of a batch.
_NEWEST = "newest"

#: Start of Spark's status message for a query that has not checked its inputs yet (StreamExecution.scala).
_STARTING = "Initializing"

#: topic -> partition -> position.
Positions = dict[str, dict[int, int]]


def observe_newest(rows: DataFrame, newest_ms: Column) -> DataFrame:
    """Let Spark report the highest value of `newest_ms` with the progress of each batch.

    Spark computes it row by row, outside the generated code. So there must be few rows: for each record of the log it
    takes a tenth of the processor time of reading it.
    """
    return rows.observe(_NEWEST, F.max(newest_ms).alias(_NEWEST))


@dataclass(frozen=True, slots=True)
class CatchUp:
    """What a query must have read to be caught up: the partitions of its log up to their ends at the start."""

    topic: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]

    def reached(self, processed: Mapping[int, int]) -> bool:
        """Whether every partition that had records at the start has been read up to its end at that time."""
        return all(processed.get(p, 0) >= end for p, end in self.ends.items() if end > self.starts.get(p, 0))

    @property
    def wanted(self) -> int:
        """Number of log positions between start and end."""
        return sum(max(0, end - self.starts.get(p, 0)) for p, end in self.ends.items())

    def read(self, processed: Mapping[int, int]) -> int:
        """Return how many of these positions have been processed."""
        return sum(max(0, min(end, processed.get(p, 0)) - self.starts.get(p, 0)) for p, end in self.ends.items())


@dataclass(slots=True)
class QueryWatch:
    """The status of one query over all its runs.

    `clock` returns seconds and never goes back: how long a batch takes must not depend on the time of day being set.
    """

    status: QueryStatus
    catch_up: CatchUp | None
    clock: Callable[[], float] = time.monotonic
    positions: Positions = field(default_factory=dict)
    #: The last known ends of the inputs' partitions, by topic.
    ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    _resumed: Positions | None = None
    _is_first: bool = True
    _batch: tuple[str, int] | None = None
    _run: str = ""
    #: When the running batch began, or the last look without one, in seconds of `clock`; null before the first look.
    _batch_since: float | None = None

    def begin(self) -> None:
        """Reset before a start of the query; its first batch shows the position from which it continues."""
        self._is_first, self.positions = True, {}

    def take_resumed(self) -> Positions | None:
        """Return, once, the position from which a started query continues; null before its first batch is reported."""
        resumed, self._resumed = self._resumed, None
        return resumed

    def look(self, query: StreamingQuery, now_ms: int) -> None:
        """Process what Spark reports of a running query."""
        java: Any = query._jsq
        steady = self.clock()
        if self.status.read_until_ms > now_ms:
            # The time of day was set back: what happens from now on is not known yet.
            self.status = replace(self.status, read_until_ms=now_ms)
        if str(query.runId) != self._run:
            # The first batch of a new run may hang too, so measure its duration from here.
            self._run, self._batch_since = str(query.runId), steady
        progress = java.lastProgress()
        if progress is not None and (str(query.runId), progress.batchId()) != self._batch:
            self._batch, self._batch_since = (str(query.runId), progress.batchId()), steady
            self._after_batch(json.loads(progress.json()), now_ms)
        said = java.status()
        busy = bool(said.isTriggerActive())
        if not busy:
            self._batch_since = steady
        looked = not busy and not str(said.message()).startswith(_STARTING)
        if looked and not said.isDataAvailable() and self._batch is not None:
            # The last check of the inputs, at most one trigger ago, found no records.
            self._idle(now_ms)
        if busy:
            self._note_arrived()
        self.status = replace(self.status, updated_at_ms=now_ms, error=None)

    def busy_seconds(self) -> float:
        """Return the duration of the running batch so far, 0 at a look between batches."""
        return 0.0 if self._batch_since is None else self.clock() - self._batch_since

    def _idle(self, now_ms: int) -> None:
        read_until_ms = max(self.status.read_until_ms, now_ms - self.status.trigger_ms)
        self.status = replace(
            self.status,
            caught_up=True,
            last_batch_at_ms=now_ms,
            source_lag_records=0,
            read_until_ms=read_until_ms,
            read_records=self.status.wanted_records,
        )

    def _after_batch(self, progress: dict[str, Any], now_ms: int) -> None:
        if self._is_first:
            self._resumed, self._is_first = _positions(progress, "startOffset"), False
        for topic, found in _positions(progress, "endOffset").items():
            self.positions.setdefault(topic, {}).update(found)
        catch_up, status = self.catch_up, self.status
        topic = "" if catch_up is None else catch_up.topic
        processed = self.positions.get(topic, {})
        behind = _unread(processed, _positions(progress, "latestOffset").get(topic, {}))
        state = progress.get("stateOperators") or [{}]
        started_ms = _started_ms(progress)
        ended_ms = started_ms + progress["batchDuration"]
        # With a backlog the newest record says how old the picture is, otherwise the batch's start does.
        known_ms = _newest_ms(progress) if behind else started_ms
        self.status = replace(
            status,
            caught_up=status.caught_up or catch_up is None or catch_up.reached(processed),
            last_batch_at_ms=now_ms,
            batch_id=progress["batchId"],
            batch_ms=progress["batchDuration"],
            input_rows=progress["numInputRows"],
            source_lag_records=behind,
            event_delay_ms=None if catch_up is None or known_ms is None else max(0, ended_ms - known_ms),
            state_rows=state[0].get("numRowsTotal"),
            state_bytes=state[0].get("memoryUsedBytes"),
            read_until_ms=status.read_until_ms if behind else max(status.read_until_ms, started_ms),
            read_records=0 if catch_up is None else catch_up.read(processed),
        )

    def _note_arrived(self) -> None:
        """Add records that reach the log during a batch to the lag, which Spark reports only after the batch."""
        topic = "" if self.catch_up is None else self.catch_up.topic
        processed, ends = self.positions.get(topic), self.ends.get(topic)
        if processed and ends:
            behind = max(self.status.source_lag_records or 0, _unread(processed, ends))
            self.status = replace(self.status, source_lag_records=behind)


def _unread(processed: Mapping[int, int], ends: Mapping[int, int]) -> int:
    return sum(max(0, end - processed.get(p, 0)) for p, end in ends.items())


def _newest_ms(progress: dict[str, Any]) -> int | None:
    observed = (progress.get("observedMetrics") or {}).get(_NEWEST) or {}
    newest_ms: int | None = observed.get(_NEWEST)
    return newest_ms


def _started_ms(progress: dict[str, Any]) -> int:
    return int(datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000)


def _positions(progress: dict[str, Any], which: str) -> Positions:
    """Return the positions by topic and partition in one of the progress report's offset fields."""
    found: Positions = {}
    for source in progress["sources"]:
        offsets = source.get(which) or {}
        # Depending on the code path, Spark reports offsets as a JSON object or as text with JSON.
        offsets = json.loads(offsets) if isinstance(offsets, str) else offsets
        if not isinstance(offsets, dict):
            # Only Kafka's sources have positions by topic and partition.
            continue
        for topic, partitions in offsets.items():
            found.setdefault(topic, {}).update({int(p): int(at) for p, at in partitions.items()})
    return found
