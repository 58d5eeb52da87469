"""Offsets of one topic by partition, as arrays; -1 stands for "not known".

What a probe reports of a topic, it reports of all its partitions: the place in the array is the partition. What groups
commit may be of any partition, so that those arrays are as long as there are partitions, beside an array of their
numbers, sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from rebalance_contract import TopicOffsets

Ints = npt.NDArray[np.int64]
UNKNOWN = -1
#: Up to so many partitions of a topic are taken one by one: a call of numpy costs as much as a dozen such turns.
FEW = 16


def known_of(numbers: Sequence[int | None]) -> Sequence[int]:
    """Return the numbers that are known: most often all, so that looking for one that is not comes first."""
    return [each for each in numbers if each is not None] if None in numbers else cast("Sequence[int]", numbers)


def as_array(offsets: Sequence[int | None]) -> Ints:
    """Return offsets as an array."""
    numbers = [UNKNOWN if each is None else each for each in offsets] if None in offsets else offsets
    return np.array(numbers, dtype=np.int64)


def filled(*shape: int) -> Ints:
    """Return an array of which nothing is known."""
    # np.full is made of the same two calls, and takes three times as long for a few partitions.
    array = np.empty(shape, dtype=np.int64)
    array.fill(UNKNOWN)
    return array


def grown(array: Ints, size: int) -> Ints:
    """Return an array with at least so many partitions, of which nothing is known; itself where it has them."""
    missing = size - array.shape[-1]
    if missing <= 0:
        return array
    added = filled(*array.shape[:-1], missing)
    return np.concatenate((array, added), axis=-1) if array.size else added


def places(known: Ints, partitions: Ints) -> Ints | None:
    """Return where each partition stands among the known ones, sorted; null when one of them is not known."""
    if not len(known):
        return None
    at = known.searchsorted(partitions)
    if len(known) == len(partitions) and (known == partitions).all():
        return at
    if (at == len(known)).any() or (known[at] != partitions).any():
        return None
    return at


def widened(columns: Ints, known: Ints, partitions: Ints) -> Ints:
    """Return columns of the known partitions as columns of more partitions; both are sorted."""
    wider = filled(*columns.shape[:-1], len(partitions))
    wider[..., partitions.searchsorted(known)] = columns
    return wider


def put(offsets: Ints, reported: TopicOffsets) -> tuple[bool, bool]:
    """Write offsets into their places; returns whether one is another than before, and whether one is lower.

    One that is not known now, as of a partition without a leader, stays what it was.
    """
    if len(reported.partitions) <= FEW:
        return _put_few(offsets, reported)
    before, now = offsets[reported.partitions], as_array(reported.offsets)
    now = np.where(now == UNKNOWN, before, now)
    offsets[reported.partitions] = now
    return bool((now != before).any()), bool((now < before).any())


def _put_few(offsets: Ints, reported: TopicOffsets) -> tuple[bool, bool]:
    is_changed = is_lower = False
    for partition, offset in zip(reported.partitions, reported.offsets, strict=True):
        before = offsets[partition]
        if offset is not None and offset not in (UNKNOWN, before):
            offsets[partition] = offset
            is_changed, is_lower = True, is_lower or offset < before
    return is_changed, bool(is_lower)
