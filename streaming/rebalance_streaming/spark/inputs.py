"""What befalls the inputs of the queries while they run: noticed, said, counted, and acted upon.

Spark's source goes on silently when records are gone before they were read, when a log is cut or recreated, and when
partitions are added. The watcher reports it; a query that is affected is started again, with the partitions and the
eras of the log that hold now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from confluent_kafka import KafkaException

from rebalance_contract import LogTotals
from rebalance_streaming.activity.commits import LogEra
from rebalance_streaming.cluster import Cluster
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.input_watcher import InputWatcher
from rebalance_streaming.log_watch import IncidentKind, Positions, Unread
from rebalance_streaming.spark.activity import ACTIVITY
from rebalance_streaming.spark.diagnosis import DIAGNOSIS
from rebalance_streaming.spark.membership import MEMBERSHIP
from rebalance_streaming.spark.supervision import SupervisedQuery

_PUBLISH_AGAIN_MS = 60_000
_NEEDS_A_START = frozenset({IncidentKind.PARTITIONS_ADDED, IncidentKind.REWOUND, IncidentKind.RECREATED})


def inputs_of(config: StreamConfig) -> dict[str, tuple[str, ...]]:
    """Return the topics that each query reads."""
    return {
        MEMBERSHIP: (*config.log_topics, config.probes_topic),
        ACTIVITY: (*config.log_topics, config.probes_topic, *config.foreign_topics),
        DIAGNOSIS: (config.groups_topic, config.rebalances_topic, config.activity_topic, config.silences_topic),
    }


class WatchedInputs:
    """The inputs of the queries that run here.

    `first_live`: positions before which the log is history; `totals`: what was published last of each query's inputs.
    """

    def __init__(
        self,
        config: StreamConfig,
        cluster: Cluster,
        first_live: Mapping[int, int],
        totals: Iterable[LogTotals],
    ) -> None:
        self._config, self._first_live = config, first_live
        here = {name: topics for name, topics in inputs_of(config).items() if name in config.queries}
        self._watcher = InputWatcher(cluster.fetch_topic_states, here, totals)
        self._published: dict[str, LogTotals] = {}
        self._published_at_ms = 0

    def start(self) -> None:
        """Begin to watch."""
        self._watcher.start()

    def stop(self) -> None:
        """End the watching."""
        self._watcher.stop()

    def eras(self, query: str) -> dict[int, LogEra]:
        """Return the eras of the watched topic's partitions as a query is to be started with.

        Nothing of a later era is history: the monitor was there when it began.
        """
        eras = {partition: LogEra(first_live) for partition, first_live in self._first_live.items()}
        later = self._watcher.eras(query, self._config.source_topic)
        return {**eras, **{partition: LogEra(0, era) for partition, era in later.items()}}

    def unread(self, query: str) -> dict[str, dict[int, Unread]]:
        """Return what a query that is to be started has not read of partitions that were cut or recreated."""
        return self._watcher.unread(query)

    def resume(self, positions: Mapping[str, Mapping[str, Positions]], notify: Callable[[str], None]) -> None:
        """Look what befell the inputs while nobody read, before queries that go on from `positions` are started.

        They begin with the eras that hold now. Brokers that do not answer are asked again while the queries run.
        """
        for query, each in positions.items():
            self._watcher.note(query, each)
        with suppress(KafkaException):
            self._watcher.check_once()
        for incident in self._watcher.take():
            notify(incident.sentence)

    def look(self, queries: Iterable[SupervisedQuery], notify: Callable[[str], None]) -> None:
        """Inform the watcher how far the queries are, and act on what it found."""
        by_name = {each.name: each for each in queries}
        for query in by_name.values():
            resumed = query.watch.take_resumed()
            if resumed:
                # What retention took while nobody read lies between where the query was left and where the log begins.
                self._watcher.note(query.name, resumed)
                with suppress(KafkaException):
                    self._watcher.check_once()
            if query.watch.positions:
                self._watcher.note(query.name, query.watch.positions)
            query.watch.ends = self._watcher.ends()
        for incident in self._watcher.take():
            notify(incident.sentence)
            if incident.kind in _NEEDS_A_START:
                # First: a look meanwhile must not compare with where the query was.
                self._watcher.forget(incident.query)
                by_name[incident.query].renew()

    def changed_totals(self, now_ms: int) -> list[LogTotals]:
        """Return the rows that changed since the last call, and once a minute all: the topic may be recreated."""
        changed = []
        if now_ms - self._published_at_ms >= _PUBLISH_AGAIN_MS:
            self._published_at_ms, self._published = now_ms, {}
        for each in self._watcher.totals(self._config.cluster, 0):
            if each.topics and self._published.get(each.query) != each:
                self._published[each.query] = each
                changed.append(replace(each, updated_at_ms=now_ms))
        return changed
