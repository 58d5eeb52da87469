"""The eras that a checkpoint stores of its queries' inputs, in addition to the rows of the status topic.

The state of a query is valid only with the eras under which it was written: with lower ones, its folds take every new
record for a repetition. The last row in the status topic may be older than the state, because a row was not delivered,
or missing, because the topic was recreated or `stream.topic_prefix` has changed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from rebalance_contract import LogTotals
from rebalance_streaming.brokers.log_watch import LogWatch, TopicWatch, take_up


def without_awaited(totals: LogTotals) -> LogTotals:
    """Return a row as a checkpoint stores it: without the positions from which records of a new era are unread.

    They change as soon as the query reads on, and a checkpoint is written only when a query is started.
    """
    topics = (
        replace(each, partitions=tuple(replace(one, awaited_from=None) for one in each.partitions))
        for each in totals.topics
    )
    return replace(totals, topics=tuple(topics))


def with_kept(watch: LogWatch, kept: LogTotals, inputs: Collection[str]) -> LogWatch:
    """Return a watch with the higher of its own era and the stored one for each partition of these topics.

    Topics that the query no longer reads, such as own topics with another prefix, are left out.
    """
    stored = {topic: each for topic, each in take_up(kept).topics.items() if topic in inputs}
    found = {topic: _later(watch.topics.get(topic), each) for topic, each in stored.items()}
    return replace(watch, topics={**watch.topics, **found})


def _later(known: TopicWatch | None, kept: TopicWatch) -> TopicWatch:
    """Return the later one of two states of a topic; a higher era tells that it is later. `known`: null if unknown."""
    if known is None:
        return kept
    higher = {p: each for p, each in kept.partitions.items() if each.era > known.era(p)}
    totals = kept.totals if higher else known.totals
    topic_id = totals.topic_id or known.totals.topic_id or kept.totals.topic_id
    return replace(known, totals=replace(totals, topic_id=topic_id), partitions={**known.partitions, **higher})
