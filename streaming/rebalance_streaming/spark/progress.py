"""The stream's own health, published to the status topic.

Receives Spark's progress events of both queries; hands on one `QueryStatus` per query at every batch and at least
every few seconds. Must not slow the queries down: events arrive on Spark's listener thread and publishing only queues.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from rebalance_streaming.groups.events import QueryStatus

Publish = Callable[[QueryStatus], None]

#: Name of the observation that carries the newest timestamp of a batch.
NEWEST = "newest"


@dataclass(frozen=True, slots=True)
class CatchUp:
    """What a query must have read before it counts as caught up: the log's ends when the process started."""

    topic: str
    ends: Mapping[int, int]

    def reached(self, processed: Mapping[int, int]) -> bool:
        """Whether every partition that had records then has been read up to where it ended."""
        return all(processed.get(partition, 0) >= end for partition, end in self.ends.items() if end > 0)


@dataclass(slots=True)
class _Watched:
    status: QueryStatus
    catch_up: CatchUp
    processed: dict[int, int] = field(default_factory=dict)
    #: All that was written before this time has been read; 0: not known yet.
    read_until_ms: int = 0


class ProgressListener(StreamingQueryListener):
    """Turns Spark's events into statuses. Queries are known by name; others are ignored."""

    def __init__(self, publish: Publish, now_ms: Callable[[], int]) -> None:
        self._publish = publish
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._watched: dict[str, _Watched] = {}
        self._names: dict[str, str] = {}

    def watch(self, status: QueryStatus, catch_up: CatchUp) -> None:
        """Expect events of a query; its first status says that it has read nothing."""
        with self._lock:
            self._watched[status.query] = _Watched(status, catch_up)

    def heartbeat(self) -> None:
        """Publish every status again, so that a reader can tell a silent stream from an idle one."""
        with self._lock:
            for watched in self._watched.values():
                watched.status = replace(watched.status, updated_at_ms=self._now_ms())
                self._publish(watched.status)

    def caught_up(self) -> bool:
        """Whether every query has read what was in the log at start."""
        with self._lock:
            return bool(self._watched) and all(each.status.caught_up for each in self._watched.values())

    def read_until_ms(self) -> int:
        """Return the time before which everything written has been read by all queries; 0 before their first batch."""
        with self._lock:
            return min((each.read_until_ms for each in self._watched.values()), default=0)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Learn which run has which name: idle events carry only the run's id."""
        with self._lock:
            self._names[str(event.runId)] = event.name or ""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Publish the query's status after a batch."""
        progress = json.loads(event.progress.json)
        with self._lock:
            watched = self._watched.get(progress.get("name") or "")
            if watched is None:
                return
            watched.processed |= _positions(progress, "endOffset", watched.catch_up.topic)
            watched.status = self._after_batch(watched, progress)
            if not watched.status.source_lag_records:
                watched.read_until_ms = _started_ms(progress)
            self._publish(watched.status)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Note that the query looked and found nothing new, so it has read everything."""
        with self._lock:
            watched = self._watched.get(self._names.get(str(event.runId), ""))
            if watched is None:
                return
            watched.read_until_ms = self._now_ms()
            # Published with the next heartbeat: an idle query says this every second.
            watched.status = replace(
                watched.status, caught_up=True, last_batch_at_ms=self._now_ms(), source_lag_records=0
            )

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """The job notices the end of a query itself."""

    def _after_batch(self, watched: _Watched, progress: dict[str, Any]) -> QueryStatus:
        now = self._now_ms()
        state = progress.get("stateOperators") or [{}]
        newest = ((progress.get("observedMetrics") or {}).get(NEWEST) or {}).get(NEWEST)
        latest = _positions(progress, "latestOffset", watched.catch_up.topic)
        return replace(
            watched.status,
            caught_up=watched.status.caught_up or watched.catch_up.reached(watched.processed),
            updated_at_ms=now,
            last_batch_at_ms=now,
            batch_id=progress["batchId"],
            batch_ms=progress["batchDuration"],
            input_rows=progress["numInputRows"],
            source_lag_records=sum(max(0, end - watched.processed.get(p, 0)) for p, end in latest.items()),
            event_delay_ms=watched.status.event_delay_ms if newest is None else max(0, now - newest),
            state_rows=state[0].get("numRowsTotal"),
            state_bytes=state[0].get("memoryUsedBytes"),
        )


def _started_ms(progress: dict[str, Any]) -> int:
    return int(datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000)


def _positions(progress: dict[str, Any], which: str, topic: str) -> dict[int, int]:
    """Return the positions per partition of one topic in one of the progress report's offset fields."""
    found: dict[int, int] = {}
    for source in progress["sources"]:
        offsets = source.get(which) or {}
        # Spark reports offsets as JSON, nested as text or as an object depending on the path it took.
        offsets = json.loads(offsets) if isinstance(offsets, str) else offsets
        found |= {int(p): int(at) for p, at in (offsets.get(topic) or {}).items()}
    return found
