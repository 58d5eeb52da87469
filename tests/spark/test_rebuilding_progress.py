"""The progress of a rebuild in reading the published rows."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_contract import group_key
from rebalance_kafka.follower import Record
from rebalance_streaming.brokers.cluster import LogEnds
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.spark import rebuilding

CONFIG = StreamConfig()
KEY = group_key(CONFIG.cluster, "payments").encode()


class Ends:
    """Fake bounds of topics: two partitions of groups, one of rebalances."""

    def log_ends(self, topic: str) -> LogEnds:
        """Return the bounds of a topic."""
        first, last = ({0: 10, 1: 0}, {0: 20, 1: 5}) if topic == CONFIG.groups_topic else ({0: 100}, {0: 200})
        return LogEnds(first, last, last)


def test_it_counts_positions_of_both_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction leaves gaps, which are counted with the next record. Undecodable rows count, too."""
    offsets = {CONFIG.groups_topic: [(0, 12), (1, 4), (0, 19)], CONFIG.rebalances_topic: [(0, 149), (0, 199)]}

    def read(_: StreamConfig, topics: list[str], *, name: str) -> Any:
        assert name == "rebuild"
        for partition, offset in offsets[topics[0]]:
            yield Record(topics[0], partition, offset, None, KEY, b"?", ())

    monkeypatch.setattr(rebuilding, "read_rows", read)
    seen: list[tuple[int, int]] = []
    cluster: Any = Ends()
    said: list[str] = []
    published = rebuilding.read_published(CONFIG, cluster, (), said.append, lambda *each: seen.append(each))
    assert seen == [(3, 115), (8, 115), (15, 115), (65, 115), (115, 115)]
    assert published.group_count == 0
    # All have the same key, so that one remains.
    assert said == [
        f"{CONFIG.groups_topic}: 1 published rows cannot be read and are left out, with the totals in them; "
        "the first one is not a valid GroupSnapshot: JSON is malformed: invalid character (byte 0)"
    ]
