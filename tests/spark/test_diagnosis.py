"""The diagnosis query: where it starts to read, and what it hands to its process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rebalance_streaming.brokers.cluster import LogEnds
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.spark.diagnosis import _starting_offsets


def test_each_topic_is_read_from_one_answer_about_its_partitions():
    """Another broker may know fewer; whatever is announced is read, and of the past as many rows as are asked for."""
    config = StreamConfig(diagnosis_lookback_rows=30)
    asked: list[str] = []

    def log_ends(topic: str) -> LogEnds:
        asked.append(topic)
        return LogEnds({0: 5, 1: 5}, {0: 100, 1: 20}, {0: 100, 1: 20})

    def offsets_at(_: str, time_ms: int, ends: dict[int, int]) -> dict[int, int]:
        return {partition: min(end, 0 if time_ms == 0 else 90) for partition, end in ends.items()}

    cluster: Any = SimpleNamespace(log_ends=log_ends, offsets_at=offsets_at)
    found = _starting_offsets(cluster, config, 200_000_000)
    assert found == {
        config.groups_topic: {0: 5, 1: 5},
        config.rebalances_topic: {0: 90, 1: 20},
        config.activity_topic: {0: 90, 1: 20},
        config.silences_topic: {0: 70, 1: 0},
    }
    assert sorted(asked) == sorted(found)
