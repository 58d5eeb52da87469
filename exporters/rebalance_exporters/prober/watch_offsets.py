"""The task that watches start and end offsets of partitions.

It requests them for all topics that groups use, and publishes changes per group.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from rebalance_contract import Probe
from rebalance_exporters.errors import ExporterError
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.prober.interests import Interest, Interests, all_topics
from rebalance_exporters.prober.metrics import ProbeMetrics
from rebalance_exporters.prober.offset_publications import OffsetPublications
from rebalance_exporters.prober.offsets import OffsetAsker, OffsetRound
from rebalance_exporters.prober.repeats import RepeatSchedule
from rebalance_exporters.prober.tasks import ErrorLog
from rebalance_exporters.prober.topics import ProbedTopic, TopicRegistry
from rebalance_kafka.clock import epoch_ms

WHAT = "offsets"
#: Maximum number of errors about a group's topics in one probe.
_MOST_ERRORS = 20


class OffsetWatch:
    """Cycles over the topics that the groups of a cluster use; both cycles are called from one thread."""

    def __init__(
        self,
        config: ProbeConfig,
        *,
        topics: TopicRegistry,
        asker: OffsetAsker,
        interests: Interests,
        publish: Callable[[Probe], None],
        metrics: ProbeMetrics,
        error_log: ErrorLog,
    ) -> None:
        self._cluster = config.cluster
        self._topics = topics
        self._asker = asker
        self._interests = interests
        self._publish = publish
        self._metrics = metrics
        self._error_log = error_log
        self._offsets = OffsetPublications()
        #: The id of each topic whose offsets are known, where brokers report it.
        self._ids: dict[str, str] = {}
        #: Errors and topic ids that were published last, by group.
        self._facts: dict[str, dict[str, Any]] = {}
        self._repeats = RepeatSchedule()
        self._errors: dict[str, str] = {}

    def cycle(self) -> None:
        """Query and publish once. Raises ExporterError if there was something to request and nothing was answered."""
        now, now_ms = time.monotonic(), epoch_ms()
        self._interests.take_fresh()
        interests = self._interests.now(now_ms)
        wanted = all_topics(interests)
        self._topics.refresh(wanted, now)
        topics = self._resolve(wanted)
        self._drop_deleted(topics.values())
        found = self._ask(topics.values(), now)
        self._errors = found.errors
        self._metrics.partitions.set(found.partitions)
        self._publish_groups(interests, topics, now, now_ms)
        names = {topic.name for topic in topics.values()}
        self._asker.forget(names)
        self._offsets.forget(interests.keys(), names)
        self._ids = {name: topic_id for name, topic_id in self._ids.items() if name in names}
        self._facts = {group: facts for group, facts in self._facts.items() if group in interests}
        self._repeats.forget(interests)

    def cycle_fresh(self) -> None:
        """Query and publish new groups and new topics of groups since the last cycle. Raises ExporterError."""
        now, now_ms = time.monotonic(), epoch_ms()
        fresh = self._interests.take_fresh()
        interests = {group: each for group, each in self._interests.now(now_ms).items() if group in fresh}
        wanted = all_topics(interests)
        self._topics.learn(wanted)
        topics = self._resolve(wanted)
        self._drop_deleted(topics.values())
        # For the other topics the answers of the last cycle are used.
        found = self._ask([topic for topic in topics.values() if not self._offsets.knows(topic.name)], now)
        self._errors = {**self._errors, **found.errors}
        self._metrics.partitions.inc(found.partitions)
        self._publish_groups(interests, topics, now, now_ms)

    def _resolve(self, wanted: Iterable[str]) -> dict[str, ProbedTopic]:
        """Return the topics that brokers described, by the text in the interest, which may be an id."""
        for error in self._topics.errors:
            self._error_log.note(WHAT, error)
        found = {text: topic for text in wanted if (topic := self._topics.resolve(text)) is not None}
        for topic in found.values():
            if topic.is_denied and topic.error is not None:
                self._error_log.note(WHAT, topic.error)
        return found

    def _drop_deleted(self, topics: Iterable[ProbedTopic]) -> None:
        """Forget the offsets of topics that were deleted, and of those that were recreated: they have another id."""
        described = {topic.name: topic for topic in topics}.values()
        dropped = [topic.name for topic in described if not topic.partitions or self._is_recreated(topic)]
        self._offsets.drop(dropped)
        self._asker.ask_starts_now(dropped)
        self._ids |= {topic.name: topic.id for topic in described if topic.partitions and topic.id is not None}

    def _is_recreated(self, topic: ProbedTopic) -> bool:
        """Whether a topic has another id than before; false if either is not known."""
        return topic.id is not None and self._ids.get(topic.name, topic.id) != topic.id

    def _ask(self, topics: Iterable[ProbedTopic], now: float) -> OffsetRound:
        """Query the leaders. Raises ExporterError, and keeps the known offsets, if none of them answered."""
        found = self._asker.ask({topic.name: topic for topic in topics if topic.partitions}.values(), now)
        for error in found.failures or found.errors.values():
            self._error_log.note(WHAT, error)
        if found.end and not any(offset is not None for offsets in found.end.values() for offset in offsets):
            raise ExporterError("no leader reported the end offsets of its partitions")
        self._topics.doubt(found.moved)
        self._offsets.note(found.end, found.stable, found.start)
        return found

    def _publish_groups(
        self, interests: Mapping[str, Interest], topics: Mapping[str, ProbedTopic], now: float, now_ms: int
    ) -> None:
        for group, interest in interests.items():
            used = [topics[name] for name in interest.topics if name in topics]
            if used:
                self._publish_group(group, _read_facts(interest, used, self._errors), used, (now, now_ms))

    def _publish_group(
        self, group: str, facts: dict[str, Any], used: list[ProbedTopic], times: tuple[float, int]
    ) -> None:
        """Publish a group's due offsets, and its facts if they are new or were reported long ago."""
        now, now_ms = times
        is_due = self._repeats.take_turn(group, now)
        partitions = {topic.name: topic.partitions for topic in used}
        chosen = self._offsets.choose(group, partitions, all_again=is_due)
        has_facts = is_due or self._facts.get(group) != facts
        if has_facts:
            self._facts[group] = facts
        if has_facts or any(chosen):
            probe = Probe(
                probed_at_ms=now_ms,
                cluster=self._cluster,
                group=group,
                end_offsets=chosen.end or msgspec.UNSET,
                stable_offsets=chosen.stable or msgspec.UNSET,
                start_offsets=chosen.start or msgspec.UNSET,
                **(facts if has_facts else {}),
            )
            self._publish(probe)


def _read_facts(interest: Interest, used: list[ProbedTopic], errors: Mapping[str, str]) -> dict[str, Any]:
    """Return the other facts about a group's topics: errors, and ids if its records name topics by id."""
    problems = sorted({problem for topic in used if (problem := topic.error or errors.get(topic.name)) is not None})
    if len(problems) > _MOST_ERRORS:
        problems[_MOST_ERRORS:] = [f"and {len(problems) - _MOST_ERRORS} more topics with errors"]
    facts: dict[str, Any] = {"errors": tuple(problems)}
    if interest.wants_ids:
        facts["topic_ids"] = {topic.name: topic.id for topic in used if topic.id is not None}
    return facts
