"""Watches the inputs of the running queries for lost records, truncation, recreation and new partitions.

Spark's source continues silently if records are deleted before they were read, if a log is truncated or recreated, and
if partitions are added. The watcher reports and counts this; an affected query is restarted with the current partitions
and eras of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from confluent_kafka import KafkaException

from rebalance_contract import LogTotals
from rebalance_kafka.clock import epoch_ms
from rebalance_streaming.activity.commits import LogEra
from rebalance_streaming.brokers.cluster import Cluster
from rebalance_streaming.brokers.input_watcher import InputWatcher
from rebalance_streaming.brokers.kept_eras import without_awaited
from rebalance_streaming.brokers.log_watch import IncidentKind, Positions, Unread
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.spark.activity import ACTIVITY
from rebalance_streaming.spark.diagnosis import DIAGNOSIS
from rebalance_streaming.spark.membership import MEMBERSHIP
from rebalance_streaming.spark.source import StartingOffsets
from rebalance_streaming.spark.supervision import SupervisedQuery

_PUBLISH_AGAIN_MS = 60_000
_NEEDS_A_START = frozenset(
    {IncidentKind.PARTITIONS_ADDED, IncidentKind.PARTITIONS_UNREAD, IncidentKind.REWOUND, IncidentKind.RECREATED}
)


def inputs_of(config: StreamConfig) -> dict[str, tuple[str, ...]]:
    """Return the topics that each query reads."""
    return {
        MEMBERSHIP: (*config.log_topics, config.probes_topic),
        ACTIVITY: (*config.log_topics, config.probes_topic, *config.foreign_topics),
        DIAGNOSIS: (config.groups_topic, config.rebalances_topic, config.activity_topic, config.silences_topic),
    }


class WatchedInputs:
    """The inputs of the queries that run in this process.

    `first_live`: positions before which the log is history; `totals`: the last published totals of each query's inputs.
    `stored` returns the positions from which a stopped query continues, by topic and partition; empty if not known.
    """

    def __init__(
        self,
        config: StreamConfig,
        cluster: Cluster,
        first_live: Mapping[int, int],
        totals: Iterable[LogTotals],
        stored: Callable[[str], Mapping[str, Positions]],
    ) -> None:
        self._config, self._first_live, self._stored = config, first_live, stored
        here = {name: topics for name, topics in inputs_of(config).items() if name in config.queries}
        self._watcher = InputWatcher(cluster.fetch_topic_states, here, totals)
        self._published: dict[str, LogTotals] = {}
        self._published_at_ms = 0

    def start(self, warn: Callable[[str], None]) -> None:
        """Start watching; `warn` is told of unexpected errors."""
        self._watcher.start(warn)

    def stop(self) -> None:
        """Stop watching."""
        self._watcher.stop()

    def eras(self, query: str) -> dict[int, LogEra]:
        """Return the eras of the watched topic's partitions with which to start a query.

        Later eras contain no history, because they began after the monitor first read the log.
        """
        eras = {partition: LogEra(first_live) for partition, first_live in self._first_live.items()}
        later = self._watcher.eras(query, self._config.source_topic)
        return {**eras, **{partition: LogEra(0, era) for partition, era in later.items()}}

    def raise_eras(self, kept: Iterable[LogTotals]) -> None:
        """Raise eras to those that the checkpoint stores, before queries continue."""
        self._watcher.raise_eras(kept)

    def to_keep(self, query: str) -> LogTotals:
        """Return the row of a query's inputs to store in the checkpoint before the query is started."""
        rows = self._watcher.totals(self._config.cluster, epoch_ms())
        return without_awaited(next(each for each in rows if each.query == query))

    def unread(self, query: str) -> dict[str, dict[int, Unread]]:
        """Return the unread records of a query in partitions that were truncated or recreated, before its start."""
        return self._watcher.unread(query)

    def note_start(self, query: str, starts: StartingOffsets) -> None:
        """Note the partitions with which a query is being started, so that any others are reported."""
        self._watcher.note_start(query, {topic: len(partitions) for topic, partitions in starts.items()})

    def resume(self, positions: Mapping[str, Mapping[str, Positions]], notify: Callable[[str], None]) -> None:
        """Check the inputs for truncation or recreation since the last run, before queries continue from `positions`.

        So the queries start with the current eras. If brokers do not answer, the check is repeated while queries run.
        """
        for query, each in positions.items():
            self._watcher.note(query, each)
        with suppress(KafkaException):
            self._watcher.check_once()
        for incident in self._watcher.take():
            notify(incident.sentence)

    def look(self, queries: Iterable[SupervisedQuery], notify: Callable[[str], None]) -> None:
        """Pass the queries' positions to the watcher, report the incidents it found, and restart affected queries."""
        by_name = {each.name: each for each in queries}
        for query in by_name.values():
            resumed = query.watch.take_resumed()
            if resumed:
                # Records that retention deleted since the last run lie between this position and the start of the log.
                self._watcher.note(query.name, resumed)
                with suppress(KafkaException):
                    self._watcher.check_once()
            if query.watch.positions:
                self._watcher.note(query.name, query.watch.positions)
            query.watch.ends = self._watcher.ends()
        for incident in self._watcher.take():
            notify(incident.sentence)
            if incident.kind in _NEEDS_A_START:
                # Before the restart: a check in between must not compare with the query's old positions.
                self._watcher.forget(incident.query)
                by_name[incident.query].renew()
                self._watcher.note_stopped(incident.query, self._stored(incident.query))

    def changed_totals(self, now_ms: int) -> list[LogTotals]:
        """Return the rows changed since the last call; once a minute all rows, as the topic may have been recreated."""
        changed = []
        if now_ms - self._published_at_ms >= _PUBLISH_AGAIN_MS:
            self._published_at_ms, self._published = now_ms, {}
        for each in self._watcher.totals(self._config.cluster, 0):
            if each.topics and self._published.get(each.query) != each:
                self._published[each.query] = each
                changed.append(replace(each, updated_at_ms=now_ms))
        return changed
