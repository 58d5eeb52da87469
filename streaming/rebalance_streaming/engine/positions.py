"""Where groups are on a topic: committed offsets by partition, from packed commits and from what a coordinator holds.

Receives rows of the activity topic in any order; keeps sorted arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rebalance_contract import TopicCommits, TopicOffsets
from rebalance_streaming.activity.offsets import FEW, UNKNOWN, Ints, as_array


@dataclass(slots=True)
class TopicPositions:
    """What a group has committed on one topic: arrays by place in `partitions`, sorted."""

    partitions: Ints
    committed: Ints
    committed_ms: Ints


def move(topics: dict[str, TopicPositions], topic: str, commits: TopicCommits) -> None:
    """Move a group on a topic to a pane's last commits; a topic without any position is dropped."""
    positions = _with_commits(topics.get(topic), commits)
    if len(positions.partitions):
        topics[topic] = positions
    else:
        topics.pop(topic, None)


def _with_commits(known: TopicPositions | None, commits: TopicCommits) -> TopicPositions:
    """Return the positions with a pane's last commits; a deleted offset removes its partition."""
    if len(commits.partitions) <= FEW and (known is None or len(known.partitions) <= FEW):
        return _with_few_commits(known, commits)
    new = np.asarray(commits.partitions, dtype=np.int64)
    offsets = as_array(commits.offsets)
    times = np.asarray(commits.committed_at_ms, dtype=np.int64)
    if known is None or np.array_equal(known.partitions, new):
        merged = TopicPositions(new, offsets, times)
    else:
        kept = ~np.isin(known.partitions, new)
        merged = TopicPositions(
            np.concatenate((known.partitions[kept], new)),
            np.concatenate((known.committed[kept], offsets)),
            np.concatenate((known.committed_ms[kept], times)),
        )
    order = np.argsort(merged.partitions, kind="stable")
    order = order[merged.committed[order] != UNKNOWN]
    return TopicPositions(merged.partitions[order], merged.committed[order], merged.committed_ms[order])


def _with_few_commits(known: TopicPositions | None, commits: TopicCommits) -> TopicPositions:
    merged: dict[int, tuple[int, int | None, int]] = {}
    if known is not None:
        before = zip(known.partitions.tolist(), known.committed.tolist(), known.committed_ms.tolist(), strict=True)
        merged.update((row[0], row) for row in before)
    rows = zip(commits.partitions, commits.offsets, commits.committed_at_ms, strict=True)
    merged.update((row[0], row) for row in rows)
    kept = sorted(row for row in merged.values() if row[1] is not None and row[1] != UNKNOWN)
    return TopicPositions(*(np.array([row[i] for row in kept], dtype=np.int64) for i in range(3)))


def learn_committed(topics: dict[str, TopicPositions], topic: str, committed: TopicOffsets) -> bool:
    """Learn what a coordinator holds of partitions of which no commit was read; whether any of it is new.

    A commit that was read is newer, or the same.
    """
    known, pairs = topics.get(topic), zip(committed.partitions, committed.offsets, strict=True)
    read: set[int] = set()
    held: dict[int, int] = {}
    if known is not None:
        read = set(known.partitions[known.committed_ms != UNKNOWN].tolist())
        held = dict(zip(known.partitions.tolist(), known.committed.tolist(), strict=True))
    new = {p: offset for p, offset in pairs if p not in read and offset is not None and held.get(p) != offset}
    if new:
        unknown = [UNKNOWN] * len(new)
        row = TopicCommits(list(new), list(new.values()), unknown, unknown, [], [])
        topics[topic] = _with_commits(known, row)
    return bool(new)


def is_as_told(read: TopicPositions, told: TopicPositions | None) -> bool:
    """Whether positions that were read again are those that an earlier run told, which lack their times."""
    return (
        told is not None
        and np.array_equal(read.partitions, told.partitions)
        and np.array_equal(read.committed, told.committed)
    )
