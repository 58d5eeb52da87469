"""Offsets of one topic by partition, as arrays; -1 stands for "not known".

Probes report all partitions of a topic, so there the index in the array is the partition. Groups may commit any subset
of partitions, so these arrays have one element per committed partition, with a sorted array of the partition numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from rebalance_contract import TopicOffsets

Ints = npt.NDArray[np.int64]
UNKNOWN = -1
#: Maximum number of partitions processed in a Python loop; a call of numpy costs as much as a dozen iterations.
FEW = 16


def known_of(numbers: Sequence[int | None]) -> Sequence[int]:
    """Return the known numbers; the input itself in the usual case that all are known."""
    return [each for each in numbers if each is not None] if None in numbers else cast("Sequence[int]", numbers)


def as_array(offsets: Sequence[int | None]) -> Ints:
    """Return offsets as an array, with -1 for null."""
    numbers = [UNKNOWN if each is None else each for each in offsets] if None in offsets else offsets
    return np.array(numbers, dtype=np.int64)


def filled(*shape: int) -> Ints:
    """Return an array filled with -1 (not known)."""
    # np.full does the same with these two calls, but takes three times as long for a few partitions.
    array = np.empty(shape, dtype=np.int64)
    array.fill(UNKNOWN)
    return array


def grown(array: Ints, size: int) -> Ints:
    """Return an array extended to at least `size` partitions with -1; the array itself if it is large enough."""
    missing = size - array.shape[-1]
    if missing <= 0:
        return array
    added = filled(*array.shape[:-1], missing)
    return np.concatenate((array, added), axis=-1) if array.size else added


def places(known: Ints, partitions: Ints) -> Ints | None:
    """Return the index of each partition in the sorted known ones; null if one of them is not known."""
    if not len(known):
        return None
    at = known.searchsorted(partitions)
    if len(known) == len(partitions) and (known == partitions).all():
        return at
    if (at == len(known)).any() or (known[at] != partitions).any():
        return None
    return at


def union(known: Ints, partitions: Ints) -> Ints:
    """Return the sorted partitions of both; `known` must be sorted."""
    if not len(known) and (partitions[1:] > partitions[:-1]).all():
        # The usual first row of a topic; np.union1d takes ten times as long.
        return partitions
    return np.union1d(known, partitions)


def widened(columns: Ints, known: Ints, partitions: Ints) -> Ints:
    """Return columns of the known partitions extended to more partitions; both must be sorted."""
    wider = filled(*columns.shape[:-1], len(partitions))
    wider[..., partitions.searchsorted(known)] = columns
    return wider


def put(offsets: Ints, reported: TopicOffsets) -> tuple[bool, bool]:
    """Write reported offsets to the array; return whether any has changed, and whether any is lower than before.

    If an offset is not known now, for example of a partition without a leader, the old value stays.
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
