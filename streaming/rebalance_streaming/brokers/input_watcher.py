"""Checks the inputs of the queries periodically while they run, using `log_watch`.

While brokers are unavailable a check takes half a minute, so it runs in a thread of its own. The launcher passes in the
positions of its queries and collects the incidents at any time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

from confluent_kafka import KafkaException

from rebalance_contract import LogTotals
from rebalance_streaming.background import repeat_until
from rebalance_streaming.brokers.kept_eras import with_kept
from rebalance_streaming.brokers.log_watch import (
    Incident,
    IncidentKind,
    LogWatch,
    Positions,
    TopicState,
    Unread,
    compare,
    take_up,
)

_PERIOD_SECONDS, _STOP_SECONDS = 5.0, 1.0
#: Least time between two starts of a query because it was started without a partition.
_UNREAD_AGAIN_SECONDS = 60.0
#: Incidents after which a query is started with all partitions; until then, they are not reported again.
_PARTITIONS_LACK = frozenset({IncidentKind.PARTITIONS_ADDED, IncidentKind.PARTITIONS_UNREAD})

#: Returns the states of topics; `Cluster.fetch_topic_states`.
DescribeTopics = Callable[[Collection[str]], Mapping[str, TopicState]]


class InputWatcher:
    """Watches the inputs of several queries, given as query -> topics, continuing from `totals`."""

    def __init__(
        self,
        fetch: DescribeTopics,
        inputs: Mapping[str, Collection[str]],
        totals: Iterable[LogTotals] = (),
        period_seconds: float = _PERIOD_SECONDS,
    ) -> None:
        known = {each.query: take_up(each) for each in totals}
        self._fetch, self._inputs, self._period_seconds = fetch, inputs, period_seconds
        self._watches = {query: known.get(query) or LogWatch(query) for query in inputs}
        self._positions: dict[str, Mapping[str, Positions]] = {}
        #: The highest positions by query, topic and partition since the last check with an answer for the topic.
        self._reached: dict[str, dict[str, dict[int, int]]] = {query: {} for query in inputs}
        #: The number of partitions with which each query was started, by query and topic.
        self._started: dict[str, Mapping[str, int]] = {}
        self._incidents: list[Incident] = []
        #: The ends of each topic's partitions at its last check.
        self._ends: dict[str, Positions] = {}
        #: Number of the latest check begun, of the latest one compared, and, by query, of the latest one begun when the
        #: query was forgotten.
        self._begun = self._compared = 0
        self._forgotten: dict[str, int] = {}
        #: When partitions without which a query was started may be reported again, in monotonic seconds.
        self._unread_again: dict[str, float] = {}
        #: The queries that are being stopped.
        self._being_stopped: set[str] = set()
        self._lock, self._stopping, self._due = threading.Lock(), threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, warn: Callable[[str], None]) -> None:
        """Start checking the inputs, at once and then every few seconds; `warn` is told of unexpected errors."""
        checking = self._stopping, self._check_and_wait, "the check of the inputs", warn
        self._thread = threading.Thread(target=repeat_until, args=checking, name="input-watcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; if it is waiting for brokers, it ends with the process."""
        self._stopping.set()
        self._due.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def note_start(self, query: str, partition_counts: Mapping[str, int]) -> None:
        """Set the number of partitions, by topic, with which a query is being started."""
        with self._lock:
            self._started[query] = dict(partition_counts)

    def note(self, query: str, positions: Mapping[str, Positions]) -> None:
        """Set a query's positions: the next one to read by topic and partition.

        A position that decreases may mean that the log was truncated. The next check is then made at once, because the
        query takes records of the new era for duplicates until it is restarted with that era.
        """
        with self._lock:
            self._being_stopped.discard(query)
            self._positions[query] = {topic: dict(each) for topic, each in positions.items()}
            if _raise(self._reached[query], positions):
                self._due.set()

    def forget(self, query: str) -> None:
        """Drop the positions of a query that is being stopped. It is not compared until they are known again."""
        with self._lock:
            self._positions.pop(query, None)
            self._started.pop(query, None)
            self._reached[query] = {}
            self._forgotten[query] = self._begun
            self._being_stopped.add(query)

    def note_stopped(self, query: str, positions: Mapping[str, Positions]) -> None:
        """Set the positions from which a stopped query continues, according to its checkpoint.

        Where records of a new era are unread, the start may move the query: its position is known once it has started.
        """
        with self._lock:
            unread = self._watches[query].unread()
            self._positions[query] = {
                topic: {p: at for p, at in each.items() if p not in unread.get(topic, {})}
                for topic, each in positions.items()
            }
            self._being_stopped.discard(query)

    def take(self) -> list[Incident]:
        """Return the incidents since the last call."""
        with self._lock:
            incidents, self._incidents = self._incidents, []
        return incidents

    def ends(self) -> dict[str, Positions]:
        """Return the ends of each topic's partitions at the last check with an answer."""
        with self._lock:
            return dict(self._ends)

    def eras(self, query: str, topic: str) -> dict[int, int]:
        """Return the eras of a topic's partitions with which to start the query; era 0 is left out."""
        with self._lock:
            return self._watches[query].eras(topic)

    def unread(self, query: str) -> dict[str, dict[int, Unread]]:
        """Return the query's unread records in partitions that were truncated or recreated (`LogWatch.unread`)."""
        with self._lock:
            return self._watches[query].unread()

    def raise_eras(self, kept: Iterable[LogTotals]) -> None:
        """Raise eras to those that the checkpoint stores, before the first check."""
        with self._lock:
            for each in kept:
                if (known := self._watches.get(each.query)) is not None:
                    self._watches[each.query] = with_kept(known, each, self._inputs[each.query])

    def totals(self, cluster: str, now_ms: int) -> list[LogTotals]:
        """Return the rows to publish, one per query."""
        with self._lock:
            return [each.publish(cluster, now_ms) for each in self._watches.values()]

    def check_once(self) -> None:
        """Fetch and compare the states of all inputs. A check that is overtaken by a later one is discarded."""
        with self._lock:
            self._begun += 1
            number = self._begun
            # Copied before the fetch, because a position noted later may legitimately lie beyond the ends found.
            positions, being_stopped = dict(self._positions), frozenset(self._being_stopped)
            reached, self._reached = self._reached, {query: {} for query in self._inputs}
        states: Mapping[str, TopicState] = {}
        try:
            states = self._fetch({topic for topics in self._inputs.values() for topic in topics})
        finally:
            # Topics without an answer (all topics if the fetch failed) are compared at the next check.
            with self._lock:
                if number < self._compared:
                    states = {}
                self._compared = max(self._compared, number)
                outdated = {query for query, begun in self._forgotten.items() if number <= begun}
                # One that was being stopped when the check began has no positions in it, even if it has some by now.
                self._compare(states, positions, reached, outdated | being_stopped | self._being_stopped)

    def _compare(
        self,
        states: Mapping[str, TopicState],
        positions: Mapping[str, Mapping[str, Positions]],
        reached: Mapping[str, Mapping[str, Positions]],
        left_out: Collection[str],
    ) -> None:
        self._ends |= {topic: {p: each.latest for p, each in state.ends.items()} for topic, state in states.items()}
        for query, topics in self._inputs.items():
            if query in left_out:
                continue
            seen = {topic: states[topic] for topic in topics if topic in states}
            known = positions.get(query, {})
            started = self._started.get(query, {})
            self._watches[query], incidents = compare(self._watches[query], seen, known, reached[query], started)
            reported = self._without_repetition(query, incidents)
            if any(each.kind in _PARTITIONS_LACK for each in reported):
                self._started.pop(query, None)
            self._incidents += reported
            _raise(self._reached[query], {topic: _unseen(at, seen.get(topic)) for topic, at in reached[query].items()})

    def _without_repetition(self, query: str, incidents: Iterable[Incident]) -> list[Incident]:
        """Leave out partitions that the query was started without a moment ago: one broker's metadata may be old."""
        kept = []
        for each in incidents:
            if each.kind == IncidentKind.PARTITIONS_UNREAD:
                now = time.monotonic()
                if now < self._unread_again.get(query, now):
                    continue
                self._unread_again[query] = now + _UNREAD_AGAIN_SECONDS
            kept.append(each)
        return kept

    def _check_and_wait(self) -> None:
        # An error of the client may be temporary; check_once keeps the positions for the next check.
        with suppress(KafkaException):
            self.check_once()
        self._due.wait(self._period_seconds)
        self._due.clear()


def _unseen(reached: Positions, state: TopicState | None) -> dict[int, int]:
    """Return the positions of partitions without an end in this check; they are compared at the next one."""
    return {partition: at for partition, at in reached.items() if state is None or partition not in state.ends}


def _raise(highest: dict[str, dict[int, int]], positions: Mapping[str, Positions]) -> bool:
    """Update the highest positions; return whether one of the given positions is lower."""
    has_fallen = False
    for topic, each in positions.items():
        known = highest.setdefault(topic, {})
        has_fallen = has_fallen or any(at < known.get(partition, 0) for partition, at in each.items())
        known.update({partition: max(at, known.get(partition, 0)) for partition, at in each.items()})
    return has_fallen
