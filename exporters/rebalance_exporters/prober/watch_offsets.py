"""The task that watches where partitions end: asks about all topics that groups use, publishes changes per group."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from rebalance_exporters.errors import ExporterError
from rebalance_exporters.prober.committed import CommittedAsker
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.prober.interests import Interest, Interests, all_topics
from rebalance_exporters.prober.metrics import ProbeMetrics
from rebalance_exporters.prober.offsets import OffsetAsker, OffsetRound
from rebalance_exporters.prober.publish import OffsetPublications, Publications
from rebalance_exporters.prober.tasks import Complaints
from rebalance_exporters.prober.topics import Topic, TopicBook
from rebalance_streaming.groups.events import Probe

WHAT = "offsets"


class OffsetWatch:
    """Cycles over the topics that the groups of a cluster use."""

    def __init__(
        self,
        config: ProbeConfig,
        *,
        topics: TopicBook,
        asker: OffsetAsker,
        committed: CommittedAsker,
        interests: Interests,
        publish: Callable[[Probe], None],
        metrics: ProbeMetrics,
        complaints: Complaints,
    ) -> None:
        self._cluster = config.cluster
        self._topics = topics
        self._asker = asker
        self._committed = committed
        self._interests = interests
        self._publish = publish
        self._metrics = metrics
        self._complaints = complaints
        self._offsets = OffsetPublications()
        self._facts = Publications()

    def cycle(self) -> None:
        """Ask and publish once. Raises ExporterError when there was something to ask and nothing was answered."""
        now, now_ms = time.monotonic(), time.time_ns() // 1_000_000
        self._tell_committed(now, now_ms)
        interests = self._interests.now(now_ms)
        topics = self._find_topics(interests, now)
        keys = {(topic.name, number) for topic in topics.values() for number in range(topic.partitions)}
        found = self._asker.ask(list(keys))
        self._metrics.partitions.set(len(found.end))
        self._check(found)
        self._offsets.note(found.end, found.stable)
        for group, interest in interests.items():
            used = [topics[name] for name in interest.topics if name in topics]
            if used:
                facts = _read_facts(interest, used, found.errors)
                self._publish_group(Probe(probed_at_ms=now_ms, cluster=self._cluster, group=group, **facts), used, now)
        self._offsets.forget(interests.keys(), {topic.name for topic in topics.values()})
        self._facts.forget(interests.keys())

    def _tell_committed(self, now: float, now_ms: int) -> None:
        """Publish what coordinators hold of the groups whose turn it is, and learn those groups' topics."""
        found = self._committed.ask(self._interests.names(), now)
        for error in found.errors:
            self._complaints.note(WHAT, error)
        for group, offsets in found.offsets.items():
            if offsets:
                self._interests.note_committed(group, offsets, now_ms)
                self._publish(Probe(probed_at_ms=now_ms, cluster=self._cluster, group=group, committed_offsets=offsets))

    def _find_topics(self, interests: dict[str, Interest], now: float) -> dict[str, Topic]:
        """Return the topics of all interests by the text the interest has, which may be an id."""
        wanted = all_topics(interests)
        self._topics.refresh(wanted, now)
        for error in self._topics.errors:
            self._complaints.note(WHAT, error)
        found = {text: topic for text in wanted if (topic := self._topics.resolve(text)) is not None}
        for topic in found.values():
            if topic.is_denied and topic.error is not None:
                self._complaints.note(WHAT, topic.error)
        return found

    def _check(self, found: OffsetRound) -> None:
        for error in found.errors.values():
            self._complaints.note(WHAT, error)
        if found.end and all(offset is None for offset in found.end.values()):
            raise ExporterError("no leader told where its partitions end")

    def _publish_group(self, facts: Probe, used: list[Topic], now: float) -> None:
        """Publish what is due of a group's offsets, and its facts if they are new or were told long ago."""
        end, stable = self._offsets.choose(facts.group, {topic.name: topic.partitions for topic in used}, now)
        head = facts if self._facts.admit(facts, now) else None
        if end or stable or head:
            self._publish(
                replace(
                    head or Probe(probed_at_ms=facts.probed_at_ms, cluster=facts.cluster, group=facts.group),
                    end_offsets=end or msgspec.UNSET,
                    stable_offsets=stable or msgspec.UNSET,
                )
            )


def _read_facts(interest: Interest, used: list[Topic], errors: dict[str, str]) -> dict[str, Any]:
    """Return what else is told of a group's topics: problems, and ids where its records name topics by id."""
    problems = {problem for topic in used if (problem := topic.error or errors.get(topic.name)) is not None}
    facts: dict[str, Any] = {"errors": tuple(sorted(problems))}
    if interest.wants_ids:
        facts["topic_ids"] = {topic.name: topic.id for topic in used if topic.id is not None}
    return facts
