"""Packs decoded offset commits into one summary per group and pane, without Python per record.

Receives columns from `wire.commits`; hands on rows of the output contract. Python runs per group and topic only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rebalance_streaming.groups.events import CommitSummary, TopicCommits
from rebalance_streaming.wire.commits import CommitBatch
from rebalance_streaming.wire.decode import Outcome

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LogColumns:
    """Where each row of a batch stands in the log, and its record timestamp in epoch milliseconds."""

    partition: npt.NDArray[np.int32]
    offset: Ints
    timestamp_ms: Ints


@dataclass(frozen=True, slots=True)
class _Last:
    """The last commit per (key, pane), sorted by group, pane, topic and partition."""

    group: Ints
    pane: Ints
    topic: Ints
    partition: Ints
    log_partition: Ints
    committed: Ints
    offset: Ints
    deleted: npt.NDArray[np.bool_]
    log_offset: Ints
    commits: Ints


def summarise(batch: CommitBatch, log: LogColumns, cluster: str, pane_ms: int) -> Iterator[CommitSummary]:
    """Yield one summary per group and pane of the rows, which must be in log order within a partition.

    A pane is a stretch of `pane_ms` of record time. A deleted offset (tombstone) counts as the pane's last word on
    its partition, with the record's own time.
    """
    groups, topics = batch.keys.groups, batch.keys.topics
    last = _last_per_key_and_pane(batch, log, pane_ms)
    for start, end in _runs(last.group, last.pane):
        yield CommitSummary(
            cluster=cluster,
            group=groups[last.group[start]],
            pane_start_ms=int(last.pane[start]) * pane_ms,
            pane_ms=pane_ms,
            log_partition=int(last.log_partition[start]),
            first_log_offset=int(last.log_offset[start:end].min()),
            last_log_offset=int(last.log_offset[start:end].max()),
            topics={
                topics[last.topic[start + a]]: _topic(last, start + a, start + b)
                for a, b in _runs(last.topic[start:end])
            },
        )


def _last_per_key_and_pane(batch: CommitBatch, log: LogColumns, pane_ms: int) -> _Last:
    keys = batch.keys
    usable = np.flatnonzero((batch.key_code >= 0) & (batch.outcome <= Outcome.TOMBSTONE))
    key = batch.key_code[usable].astype(np.int64)
    panes, pane_code = np.unique(log.timestamp_ms[usable] // pane_ms, return_inverse=True)
    distinct, slot = np.unique(key * max(1, len(panes)) + pane_code, return_inverse=True)
    # Assigning to a repeated index keeps the last value, which is the last row in log order.
    row = np.empty(len(distinct), dtype=np.int64)
    row[slot] = usable
    commits = np.bincount(slot, minlength=len(distinct))
    key, pane = np.divmod(distinct, max(1, len(panes)))
    order = np.lexsort((keys.partition[key], keys.topic_code[key], pane, keys.group_code[key]))
    row, key = row[order], key[order]
    deleted = batch.outcome[row] == Outcome.TOMBSTONE
    return _Last(
        group=keys.group_code[key],
        pane=panes[pane[order]],
        topic=keys.topic_code[key],
        partition=keys.partition[key],
        log_partition=log.partition[row].astype(np.int64),
        committed=np.where(deleted, log.timestamp_ms[row], batch.commit_timestamp_ms[row]),
        offset=batch.offset[row],
        deleted=deleted,
        log_offset=log.offset[row],
        commits=commits[order],
    )


def _topic(last: _Last, start: int, end: int) -> TopicCommits:
    offsets: list[int | None] = last.offset[start:end].tolist()
    for i in np.flatnonzero(last.deleted[start:end]).tolist():
        offsets[i] = None
    return TopicCommits(
        partitions=last.partition[start:end].tolist(),
        offsets=offsets,
        committed_at_ms=last.committed[start:end].tolist(),
        log_offsets=last.log_offset[start:end].tolist(),
        commits=last.commits[start:end].tolist(),
    )


def _runs(*columns: Ints) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of every run of rows equal in all columns."""
    length = len(columns[0])
    if length == 0:
        return
    changed = np.zeros(length - 1, dtype=np.bool_)
    for column in columns:
        changed |= column[1:] != column[:-1]
    edges = [0, *(np.flatnonzero(changed) + 1).tolist(), length]
    yield from itertools.pairwise(edges)
