"""What the watcher of the inputs finds leads to a restart of the query that it concerns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rebalance_streaming.brokers.log_watch import Ends, TopicState
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.spark.inputs import WatchedInputs


def test_a_query_that_was_started_without_a_partition_is_started_again_with_it():
    """Only this query, and once."""
    config = StreamConfig(queries=("membership", "diagnosis"))
    two = TopicState(2, {0: Ends(0, 9), 1: Ends(0, 9)})
    brokers: Any = SimpleNamespace(fetch_topic_states=lambda topics: dict.fromkeys(topics, two))
    renewed, said = list[str](), list[str]()

    def query(name: str) -> Any:
        watch = SimpleNamespace(take_resumed=lambda: None, positions={}, ends={})
        return SimpleNamespace(name=name, watch=watch, renew=lambda: renewed.append(name))

    queries = [query("membership"), query("diagnosis")]
    watched = WatchedInputs(config, brokers, {}, [], lambda _: {})
    both = {0: -2, 1: -2}
    watched.note_start("membership", {config.source_topic: {0: -2}, config.probes_topic: both})
    watched.note_start("diagnosis", {config.groups_topic: both})
    for _ in range(2):
        watched._watcher.check_once()
        watched.look(queries, said.append)
    assert renewed == ["membership"]
    assert len(said) == 1
    assert said[0].startswith(f"the membership query was started without 1 partitions of {config.source_topic}")
