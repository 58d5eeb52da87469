"""The commits query: offset commits in, one row per group and pane out. Stateless.

What it counted goes out beside, under a null key, because a stateless task cannot keep totals: the membership query
adds them up exactly. So do two rare pieces of news for the groups' own state: which groups commit, for those of which
the log has nothing else, and gaps between commits that have ended.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rebalance_streaming.config import StreamConfig
from rebalance_streaming.groups import events, notices
from rebalance_streaming.groups.commits import LogColumns, summarise
from rebalance_streaming.groups.silences import CommitRhythm
from rebalance_streaming.groups.simple import Committing
from rebalance_streaming.spark.envelopes import SourceTally, is_offset_commit
from rebalance_streaming.wire.commits import CommitBatch, KeyCache, decode_commits
from rebalance_streaming.wire.decode import Outcome

SCHEMA = "key binary, value binary"
_ARROW_SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])
#: Distinct keys remembered per worker process: 10,000 groups of 100 partitions.
_CACHED_KEYS = 1_000_000
#: Groups remembered per worker process as spoken of; then all are spoken of again, which changes nothing.
_ANNOUNCED_GROUPS = 100_000

Row = tuple[bytes | None, bytes]


def summarise_commits(log: DataFrame, config: StreamConfig) -> DataFrame:
    """Return rows (key, value) for the commits topic."""
    return (
        log.where(is_offset_commit())
        .select("partition", "offset", F.unix_millis("timestamp").alias("timestamp_ms"), "key", "value")
        .coalesce(config.source_tasks)
        .mapInArrow(_make_packer(config.cluster, config.pane_ms), SCHEMA)
    )


def _make_packer(cluster: str, pane_ms: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        cache, tally, announced = _key_cache(), SourceTally("commits"), _announced()
        for batch in batches:
            commits = decode_commits(batch.column(3), batch.column(4), cache)
            log = LogColumns(*(batch.column(i).to_numpy(zero_copy_only=False) for i in range(3)))
            _count(tally, commits, log)
            summaries = list(summarise(commits, log, cluster, pane_ms))
            rows: list[Row] = [(summary.group.encode(), events.encode(summary)) for summary in summaries]
            new = {each.group: each for each in summaries if each.group not in announced}
            if new:
                rows.append((None, notices.dump(_announce(new.values()))))
                announced |= new.keys()
            ended = _rhythm().take(commits, log)
            if ended:
                rows.append((None, notices.dump(notices.Silent(tuple(ended)))))
            yield _to_arrow(rows)
        yield _to_arrow([(None, notices.dump(notices.Counted(each))) for each in tally.results()])

    return pack


def _announce(summaries: Iterable[events.CommitSummary]) -> notices.Commits:
    return notices.Commits(
        tuple(
            Committing(each.group, each.log_partition, each.last_log_offset, each.pane_start_ms) for each in summaries
        )
    )


@functools.cache
def _announced_groups() -> set[str]:
    return set()


def _announced() -> set[str]:
    """Return the groups this worker process has spoken of."""
    groups = _announced_groups()
    if len(groups) > _ANNOUNCED_GROUPS:
        groups.clear()
    return groups


@functools.cache
def _rhythm() -> CommitRhythm:
    """Return this worker process's memory of when partitions were committed; a new process begins without one."""
    return CommitRhythm()


@functools.cache
def _key_cache() -> KeyCache:
    """Return this worker process's memory of keys: Spark keeps workers, and a live stream's keys repeat."""
    return KeyCache(_CACHED_KEYS)


def _count(tally: SourceTally, commits: CommitBatch, log: LogColumns) -> None:
    """Count rows per (log partition, record type, value version, outcome).

    The four are packed into one integer each row, because sorting integers is ten times faster than sorting rows.
    """
    parts = [column.astype(np.int64) for column in (commits.record_type, commits.value_version, commits.outcome)]
    kind = ((log.partition.astype(np.int64) << 16 | parts[0] & 0xFFFF) << 16 | parts[1] & 0xFFFF) << 8 | parts[2]
    _, first, slot, sizes = np.unique(kind, return_index=True, return_inverse=True, return_counts=True)
    newest = np.zeros(len(sizes), dtype=np.int64)
    newest[slot] = log.offset
    for row, count, last in zip(first.tolist(), sizes.tolist(), newest.tolist(), strict=True):
        record_type, version, outcome = (int(part[row]) for part in parts)
        tally.add(int(log.partition[row]), last, (record_type, version, Outcome(outcome)), count)


def _to_arrow(rows: list[Row]) -> pa.RecordBatch:
    arrays = [pa.array([row[i] for row in rows], type=pa.binary()) for i in range(2)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW_SCHEMA)
