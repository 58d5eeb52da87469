"""Measures the memory of end offsets in the diagnosis: bytes that probes add per partition of an active topic.

Counted by tracemalloc, so without the allocator's overhead. It includes the memory for the groups' lag.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

from rebalance_contract import CommitActivity, OffsetActivity, TopicCommits, TopicOffsets
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.engine.engine import Engine, EngineConfig
from rebalance_streaming.wire.records import OFFSETS_TOPIC

_TOPICS, _READERS = 4, 3
_START_MS, _DAY_SECONDS, _RECENT_SECONDS = 1_790_000_000_000, 86_400, 900
#: Interval of the prober's reports on an active topic; a minute is enough for all but the last half hour of a day.
_PROBE_SECONDS, _SELDOM_SECONDS = 5, 60
#: Partitions get 1 to this many records a second.
_MOST_RECORDS = 50


def measure() -> Iterator[str]:
    """Yield the table's lines: by number of partitions and of groups per topic, for a quarter of an hour and a day."""
    yield f"{_TOPICS} topics, whose partitions get 1 to {_MOST_RECORDS} records/s; probed every {_PROBE_SECONDS} s"
    yield ""
    yield "| what probes add, bytes per partition of a topic | in 15 minutes | in a day |"
    yield "|---|---:|---:|"
    for partitions, readers in ((100, 1), (100, _READERS), (6, 1)):
        quarter, day = (
            _bytes_per_partition(partitions, readers, seconds) for seconds in (_RECENT_SECONDS, _DAY_SECONDS)
        )
        what = f"{partitions} partitions, {readers} {'group' if readers == 1 else 'groups'} per topic"
        yield f"| {what} | {quarter:,.0f} | {day:,.0f} |"


def _bytes_per_partition(partitions: int, readers: int, seconds: int) -> float:
    """Return the bytes per partition after `seconds` of simulated probes, without those of commits."""
    gc.collect()
    tracemalloc.start()
    engine = Engine(EngineConfig(cluster="bench", source_topic=OFFSETS_TOPIC, detect=DetectConfig()))
    engine.advance(_START_MS)
    for topic in range(_TOPICS):
        for reader in range(readers):
            engine.apply(_commits(topic, reader, partitions), _START_MS)
    engine.advance(_START_MS)
    before = _used_bytes()
    often = range(max(1, seconds - 2 * _RECENT_SECONDS), seconds + 1, _PROBE_SECONDS)
    for second in (*range(1, often.start, _SELDOM_SECONDS), *often):
        now_ms = _START_MS + second * 1_000
        for topic in range(_TOPICS):
            ends = {f"topic-{topic}": _ends(partitions, second)}
            for reader in range(readers):
                engine.apply(OffsetActivity("bench", _group(topic, reader), now_ms, ends, ends), now_ms)
    used = _used_bytes() - before
    tracemalloc.stop()
    return used / (_TOPICS * partitions)


def _used_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _group(topic: int, reader: int) -> str:
    return f"group-{topic}-{reader}"


def _ends(partitions: int, second: int) -> TopicOffsets:
    each = range(partitions)
    return TopicOffsets(list(each), [10**9 + (1 + number * 7 % _MOST_RECORDS) * second for number in each])


def _commits(topic: int, reader: int, partitions: int) -> CommitActivity:
    each, times = list(range(partitions)), [_START_MS - 100] * partitions
    commits = TopicCommits(each, [10**9] * partitions, times, times, each, [1] * partitions)
    pane = (_START_MS - _START_MS % 5_000, partitions)
    return CommitActivity("bench", _group(topic, reader), 0, topic, topic, 5_000, (pane,), {f"topic-{topic}": commits})
