"""Packs decoded offset commits into one row per group and pane, vectorised with numpy.

Takes columns from `wire.commits`; returns rows of the contract. Python code runs per group and topic, not per record.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from rebalance_contract import KEPT_PANES, MAX_ACTIVITY_BYTES, PANE_MS, CommitActivity, TopicCommits
from rebalance_streaming.wire.commits import CommitBatch
from rebalance_streaming.wire.decode import Outcome
from rebalance_streaming.wire.records import LONGEST_TOPIC

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: Pane number of history: records from before the monitor first read the log.
_HISTORY = -(2**62)
#: Maximum offset in a row, so that sums of offsets do not overflow.
_LARGEST_OFFSET = 2**62
#: The lowest time that a record can have.
_LOWEST_MS = -(2**63)
#: Maximum time by which a commit's own time may be ahead of its record's; up to OffsetCommit version 1 the client sets
#: it.
_AHEAD_MS = 12 * 3_600_000
#: Bits of a time in milliseconds in a sort key, and the latest such time.
_TIME_BITS = 43
_LATEST_MS = (1 << _TIME_BITS) - 1
#: Maximum size of a partition in a row (six numbers), without its topic's name.
_BYTES_PER_PARTITION = 90


@dataclass(frozen=True, slots=True)
class LogEra:
    """How often a log partition was truncated or recreated (`number`), and its first position that is not history."""

    first_live: int
    number: int = 0


@dataclass(frozen=True, slots=True)
class LogColumns:
    """Position in the log of each row of a batch, and its record timestamp in epoch milliseconds."""

    partition: npt.NDArray[np.int32]
    offset: Ints
    timestamp_ms: Ints


@dataclass(frozen=True, slots=True)
class _Behind:
    """Commits whose record is of an earlier pane than those before it in the log, as (slot, pane, number of commits).

    `slot` is an index of the columns of `_Last`, by which these are sorted.
    """

    slot: Ints
    pane: Ints
    commits: Ints


@dataclass(frozen=True, slots=True)
class _Last:
    """First and last commit per (key, pane or batch, part between probes), sorted by group, time and log offset.

    `pane` is the number of the pane, or of the batch if there are several in a pane; `part` is that of the part.
    Neither falls within a group in the order of the log.
    """

    group: Ints
    pane: Ints
    part: Ints
    topic: Ints
    partition: Ints
    log_partition: Ints
    committed: Ints
    first: Ints
    offset: Ints
    deleted: Bools
    log_offset: Ints
    first_log_offset: Ints
    commits: Ints
    history: Bools
    behind: _Behind


def pack_commits(
    batch: CommitBatch,
    log: LogColumns,
    cluster: str,
    pane_ms: int,
    era: Mapping[int, LogEra] = MappingProxyType({}),
    *,
    probed_ms: Mapping[str, Sequence[int]] = MappingProxyType({}),
    batch_ms: int | None = None,
) -> Iterator[CommitActivity]:
    """Yield one row per group and pane of the commits, which must be in log order within a partition.

    A pane is a period of `pane_ms` of record time. A group's rows are in log order: if the time of its records goes
    back, because its coordinator moved to a broker with a slower clock, they stay in the row of the latest pane until
    then, and only `pane_counts` has their own panes. A deleted offset (a tombstone, or a negative offset) is the last
    commit of its partition if it comes last in the pane, with the record's own time. Records from before the monitor
    first read a partition (`era`) only give a position: all their panes are merged into one row per group, however long
    the log is. A row that would exceed the maximum size is split into several, in the order of their last positions in
    the log. `probed_ms` has the times at which end offsets were probed, by group: no row has commits from before and
    after such a time, so that lag can be measured with the commits until then. With `batch_ms`, which must divide
    `pane_ms`, a pane has several rows, as if the records were read in batches of this time.
    """
    name_bytes = _topic_sizes(batch)
    usable = np.flatnonzero((batch.key_code >= 0) & (batch.outcome <= Outcome.TOMBSTONE))
    usable = usable[name_bytes[batch.keys.topic_code[batch.key_code[usable]]] <= LONGEST_TOPIC]
    history = _is_history(log, usable, era)
    unit_ms = batch_ms or pane_ms
    last = _last_per_key_and_pane(batch, log, usable, unit_ms, history, probed_ms=probed_ms)
    counts = _history_counts(batch, log, usable, history) if history.any() else {}
    for start, end in _runs(last.group, last.part):
        for a, b in _fitting(name_bytes[last.topic[start:end]]):
            common = _Common(cluster, pane_ms, unit_ms, era, counts if a == 0 else {})
            yield _row(last, start + a, start + b, batch, common)


def _topic_sizes(batch: CommitBatch) -> Ints:
    """Return the length in bytes of each topic's name, by topic code; -1 for topics that are not in the batch."""
    sizes = np.full(len(batch.keys.topics), -1, dtype=np.int64)
    for code in np.unique(batch.keys.topic_code[batch.key_code[batch.key_code >= 0]]).tolist():
        sizes[code] = len(batch.keys.topics[code].encode())
    return sizes


@dataclass(frozen=True, slots=True)
class _Common:
    cluster: str
    pane_ms: int
    unit_ms: int
    era: Mapping[int, LogEra]
    counts: Mapping[int, tuple[tuple[int, int], ...]]


def _row(last: _Last, start: int, end: int, batch: CommitBatch, common: _Common) -> CommitActivity:
    group, partition = int(last.group[start]), int(last.log_partition[start])
    history = bool(last.history[start])
    order = start + np.lexsort((last.partition[start:end], last.topic[start:end]))
    pane_counts = common.counts.get(group, ()) if history else _pane_counts(last, start, end, common)
    return CommitActivity(
        cluster=common.cluster,
        group=batch.keys.groups[group],
        log_partition=partition,
        first_log_offset=int(last.first_log_offset[start:end].min()),
        last_log_offset=int(last.log_offset[start:end].max()),
        pane_ms=common.pane_ms,
        pane_counts=pane_counts,
        topics={batch.keys.topics[last.topic[order[a]]]: _topic(last, order[a:b]) for a, b in _runs(last.topic[order])},
        is_history=history,
        log_era=common.era[partition].number if partition in common.era else 0,
    )


def _pane_counts(last: _Last, start: int, end: int, common: _Common) -> tuple[tuple[int, int], ...]:
    """Return the commits of a row by pane of record time: at most the newest panes of 15 minutes."""

    # Rounded down, the lowest times of records would not fit.
    lowest = (_LOWEST_MS + common.pane_ms) // common.unit_ms + 1

    def starts_ms(panes: Ints) -> Ints:
        return np.maximum(panes, lowest) * common.unit_ms // common.pane_ms * common.pane_ms

    count, behind = int(last.commits[start:end].sum()), last.behind
    a, b = np.searchsorted(behind.slot, (start, end)).tolist()
    latest_ms = int(starts_ms(last.pane[start]))
    if a == b:
        return ((latest_ms, count),)
    panes, place = np.unique(np.append(starts_ms(behind.pane[a:b]), latest_ms), return_inverse=True)
    counts = np.zeros(len(panes), dtype=np.int64)
    np.add.at(counts, place, np.append(behind.commits[a:b], count - behind.commits[a:b].sum()))
    kept = np.flatnonzero(counts)[-max(1, KEPT_PANES * PANE_MS // common.pane_ms) :]
    return tuple(zip(panes[kept].tolist(), counts[kept].tolist(), strict=True))


def _last_per_key_and_pane(
    batch: CommitBatch,
    log: LogColumns,
    usable: Ints,
    unit_ms: int,
    history: Bools,
    *,
    probed_ms: Mapping[str, Sequence[int]],
) -> _Last:
    keys = batch.keys
    key = batch.key_code[usable].astype(np.int64)
    parts = _make_parts(batch, log, usable, unit_ms, history, probed_ms=probed_ms)
    panes, part = parts.panes, parts.part
    distinct, slot = np.unique(key * max(1, len(panes)) + part, return_inverse=True)
    # An assignment to a repeated index keeps the last value, so this gives the last row in log order; reversed, the
    # first.
    row, first = np.empty(len(distinct), dtype=np.int64), np.empty(len(distinct), dtype=np.int64)
    row[slot] = usable
    first[slot[::-1]] = usable[::-1]
    commits = np.bincount(slot, minlength=len(distinct))
    key, part = np.divmod(distinct, max(1, len(panes)))
    order = np.lexsort((log.offset[row], part, keys.group_code[key]))
    row, first, key, part = row[order], first[order], key[order], part[order]
    # Brokers store any number that a client commits, and clients treat a negative offset as none.
    deleted = (batch.outcome[row] == Outcome.TOMBSTONE) | (batch.offset[row] < 0)
    return _Last(
        group=keys.group_code[key],
        pane=panes[part],
        part=part,
        topic=keys.topic_code[key],
        partition=keys.partition[key],
        log_partition=log.partition[row].astype(np.int64),
        committed=np.where(deleted, log.timestamp_ms[row], _committed_at(batch, log, row)),
        first=_committed_at(batch, log, first),
        offset=np.minimum(batch.offset[row], _LARGEST_OFFSET),
        deleted=deleted,
        log_offset=log.offset[row],
        first_log_offset=log.offset[first],
        commits=commits[order],
        history=panes[part] == _HISTORY,
        behind=_behind(parts, slot, order),
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """The part of each commit, the pane of each part, and the commits that are behind, with the panes of their own."""

    part: Ints
    panes: Ints
    behind: Ints
    own_panes: Ints


def _make_parts(
    batch: CommitBatch,
    log: LogColumns,
    usable: Ints,
    unit_ms: int,
    history: Bools,
    *,
    probed_ms: Mapping[str, Sequence[int]],
) -> _Parts:
    """Divide commits by pane and at probes. The part of a group's commits never falls in the order of the log.

    Otherwise a row could end before one that its readers have taken, and they would ignore it.
    """
    pane = np.where(history, _HISTORY, log.timestamp_ms[usable] // unit_ms)
    panes, own = np.unique(pane, return_inverse=True)
    part = own
    # Times seldom go back; then no row of any group does.
    if (np.diff(own) < 0).any():
        part = np.where(history, own, _never_falling(own, batch.keys.group_code[batch.key_code[usable]]))
    behind = np.flatnonzero(part != own)
    probes = _probes_before(batch, log, usable, probed_ms)
    if probes is not None:
        of_pane = int(probes.max()) + 1
        parts, part = np.unique(part * of_pane + np.where(history, 0, probes), return_inverse=True)
        panes = panes[parts // of_pane]
    return _Parts(part, panes, behind, pane[behind])


def _behind(parts: _Parts, slot: Ints, order: Ints) -> _Behind:
    """Count the commits that are behind; `slot` has the slot of each commit before slots are put in an order."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    panes, pane = np.unique(parts.own_panes, return_inverse=True)
    of_slot = max(1, len(panes))
    kinds, counts = np.unique(place[slot[parts.behind]] * of_slot + pane, return_counts=True)
    return _Behind(kinds // of_slot, panes[kinds % of_slot], counts)


def _probes_before(
    batch: CommitBatch, log: LogColumns, rows: Ints, probed_ms: Mapping[str, Sequence[int]]
) -> Ints | None:
    """Return the number of probes before each commit, plus a constant for each group; null if no group was probed.

    Within a group it never falls in the order of the log, in which later rows replace earlier ones, whatever times
    clients and coordinators state.
    """
    group = batch.keys.group_code[batch.key_code[rows]]
    names = batch.keys.groups
    probes = (
        [(code, at) for code in np.unique(group).tolist() for at in probed_ms.get(names[code], ())] if probed_ms else []
    )
    if not probes:
        return None
    sorted_probes = np.sort(np.array([(code << _TIME_BITS) + min(max(0, at), _LATEST_MS) for code, at in probes]))
    times = np.clip(_committed_at(batch, log, rows), 0, _LATEST_MS)
    found = sorted_probes.searchsorted((group << _TIME_BITS) + times).astype(np.int64)
    return _never_falling(found, group)


def _never_falling(numbers: Ints, group: Ints) -> Ints:
    """Return the highest of the numbers (0 or more) up to each row of a group, in the order of the log."""
    in_order = np.argsort(group, kind="stable")
    above = group[in_order] * (int(numbers.max(initial=0)) + 1)
    highest = np.empty_like(numbers)
    highest[in_order] = np.maximum.accumulate(numbers[in_order] + above) - above
    return highest


def _committed_at(batch: CommitBatch, log: LogColumns, rows: Ints) -> Ints:
    stated, recorded = batch.commit_timestamp_ms[rows], log.timestamp_ms[rows]
    unusable = (batch.outcome[rows] == Outcome.TOMBSTONE) | (stated < 0) | (stated > recorded + _AHEAD_MS)
    times: Ints = np.where(unusable, recorded, stated)
    return times


def _is_history(log: LogColumns, rows: Ints, era: Mapping[int, LogEra]) -> Bools:
    partition = log.partition[rows].astype(np.int64)
    if not era or not len(rows):
        return np.zeros(len(rows), dtype=np.bool_)
    first_live = np.zeros(int(max(partition.max(), *era)) + 1, dtype=np.int64)
    for number, each in era.items():
        first_live[number] = each.first_live
    history: Bools = log.offset[rows] < first_live[partition]
    return history


def _history_counts(
    batch: CommitBatch, log: LogColumns, usable: Ints, history: Bools
) -> dict[int, tuple[tuple[int, int], ...]]:
    """Return, by group code, the commits of the history per pane of the last 15 minutes, for windows.

    Commits after the history have rows of their own, with their own counts.
    """
    timestamp_ms = log.timestamp_ms[usable]
    counted = history & (timestamp_ms > int(timestamp_ms.max()) - KEPT_PANES * PANE_MS)
    group = batch.keys.group_code[batch.key_code[usable[counted]]]
    pane = timestamp_ms[counted] // PANE_MS
    kinds, counts = np.unique(np.stack((group, pane)), axis=1, return_counts=True)
    found: dict[int, list[tuple[int, int]]] = {}
    for code, number, count in zip(*kinds.tolist(), counts.tolist(), strict=True):
        found.setdefault(code, []).append((number * PANE_MS, count))
    return {code: tuple(panes) for code, panes in found.items()}


def _fitting(name_bytes: Ints) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of runs of partitions that fit into a row of the activity topic, by their topics' sizes."""
    yield from _runs(np.cumsum(name_bytes + _BYTES_PER_PARTITION) // (MAX_ACTIVITY_BYTES // 2))


def _topic(last: _Last, rows: Ints) -> TopicCommits:
    offsets: list[int | None] = last.offset[rows].tolist()
    for i in np.flatnonzero(last.deleted[rows]).tolist():
        offsets[i] = None
    return TopicCommits(
        partitions=last.partition[rows].tolist(),
        offsets=offsets,
        committed_at_ms=last.committed[rows].tolist(),
        first_at_ms=last.first[rows].tolist(),
        log_offsets=last.log_offset[rows].tolist(),
        commits=last.commits[rows].tolist(),
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
