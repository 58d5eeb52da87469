"""Positions of groups on a topic: committed offsets by partition, from packed commits and from coordinators.

Receives rows of the activity topic in any order; keeps sorted arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rebalance_contract import TopicCommits, TopicOffsets
from rebalance_streaming.activity.offsets import FEW, UNKNOWN, Ints, as_array


@dataclass(slots=True)
class TopicPositions:
    """What a group has committed on one topic: arrays parallel to `partitions`, which is sorted.

    `committed_ms` is -1 for an offset whose commit was not read; `held_ms` is when the group's coordinator, or an
    earlier run, reported this offset, and -1 where a commit was read.
    """

    partitions: Ints
    committed: Ints
    committed_ms: Ints
    held_ms: Ints

    def at(self, places: Ints) -> TopicPositions:
        """Return the positions at some indexes."""
        return TopicPositions(
            self.partitions[places], self.committed[places], self.committed_ms[places], self.held_ms[places]
        )


def move(topics: dict[str, TopicPositions], topic: str, commits: TopicCommits) -> None:
    """Apply a pane's last commits to a group's positions; a topic without any position is dropped."""
    _put(topics, topic, _with_commits(topics.get(topic), commits))


def _put(topics: dict[str, TopicPositions], topic: str, positions: TopicPositions) -> None:
    if len(positions.partitions):
        topics[topic] = positions
    else:
        topics.pop(topic, None)


def _with_commits(known: TopicPositions | None, commits: TopicCommits, held_ms: int = UNKNOWN) -> TopicPositions:
    """Return the positions with a pane's last commits; a deleted offset removes its partition."""
    if len(commits.partitions) <= FEW and (known is None or len(known.partitions) <= FEW):
        return _with_few_commits(known, commits, held_ms)
    new = np.asarray(commits.partitions, dtype=np.int64)
    offsets = as_array(commits.offsets)
    times = np.asarray(commits.committed_at_ms, dtype=np.int64)
    merged = TopicPositions(new, offsets, times, np.full(len(new), held_ms, dtype=np.int64))
    if known is not None and not np.array_equal(known.partitions, new):
        kept = known.at(np.flatnonzero(~np.isin(known.partitions, new)))
        merged = TopicPositions(
            np.concatenate((kept.partitions, merged.partitions)),
            np.concatenate((kept.committed, merged.committed)),
            np.concatenate((kept.committed_ms, merged.committed_ms)),
            np.concatenate((kept.held_ms, merged.held_ms)),
        )
    order = np.argsort(merged.partitions, kind="stable")
    return merged.at(order[merged.committed[order] != UNKNOWN])


def _with_few_commits(known: TopicPositions | None, commits: TopicCommits, held_ms: int) -> TopicPositions:
    merged: dict[int, tuple[int, int | None, int, int]] = {}
    if known is not None:
        columns = (known.partitions, known.committed, known.committed_ms, known.held_ms)
        merged.update((row[0], row) for row in zip(*(each.tolist() for each in columns), strict=True))
    rows = zip(commits.partitions, commits.offsets, commits.committed_at_ms, strict=True)
    merged.update((row[0], (*row, held_ms)) for row in rows)
    kept = sorted(row for row in merged.values() if row[1] is not None and row[1] != UNKNOWN)
    return TopicPositions(*(np.array([row[i] for row in kept], dtype=np.int64) for i in range(4)))


def learn_committed(topics: dict[str, TopicPositions], topic: str, committed: TopicOffsets, at_ms: int) -> bool:
    """Add offsets that a coordinator held at a time, for partitions without a commit; return whether any is new.

    A commit that was read is as new, or newer, and is kept.
    """
    known, pairs = topics.get(topic), zip(committed.partitions, committed.offsets, strict=True)
    read: set[int] = set()
    before: dict[int, int] = {}
    if known is not None:
        read = set(known.partitions[known.committed_ms != UNKNOWN].tolist())
        before = dict(zip(known.partitions.tolist(), known.committed.tolist(), strict=True))
    held = {partition: offset for partition, offset in pairs if partition not in read and offset is not None}
    if held:
        unknown = [UNKNOWN] * len(held)
        row = TopicCommits(list(held), list(held.values()), unknown, unknown, [], [])
        topics[topic] = _with_commits(known, row, at_ms)
    return any(before.get(partition) != offset for partition, offset in held.items())


def forget_released(topics: dict[str, TopicPositions], held_ms: int) -> bool:
    """Forget offsets that a coordinator held before a time but not at that time; return whether there was any."""
    found = False
    for topic, known in list(topics.items()):
        gone = (known.committed_ms == UNKNOWN) & (known.held_ms < held_ms)
        if gone.any():
            found = True
            _put(topics, topic, known.at(np.flatnonzero(~gone)))
    return found


def is_as_published(read: TopicPositions, published: TopicPositions | None) -> bool:
    """Whether positions that were read again equal those published by an earlier run, which have no times."""
    return (
        published is not None
        and np.array_equal(read.partitions, published.partitions)
        and np.array_equal(read.committed, published.committed)
    )
