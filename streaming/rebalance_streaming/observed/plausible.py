"""Whether a row is plausible. Rows are well-formed when they get here, but may contain any values.

An implausible row changes nothing. Partition numbers are bounded because arrays are as long as the highest number, and
times because a time far ahead would make all later rows look old.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

from rebalance_contract import (
    CommitActivity,
    CoordinatorActivity,
    CountActivity,
    CountedImpact,
    DecodeTotals,
    Finding,
    GroupImpact,
    GroupLag,
    GroupSnapshot,
    OffsetActivity,
    Probe,
    ProbeActivity,
    Rebalance,
    RebalanceImpact,
    ReportTotals,
)
from rebalance_streaming.activity.offsets import known_of
from rebalance_streaming.activity.probes import MAX_OFFSET, MOST_PARTITIONS

MOST_TOPICS = 10_000
#: More records than a partition gets in nine years at a million a second; sums over all partitions fit 64 bits.
LARGEST_OFFSET = 2**48
#: Clocks differ by hours at worst, and a row may contain a timeout in the future.
_AHEAD_MS = 24 * 3_600_000
#: More records than a task reads in a batch; totals of a million rows fit 64 bits.
_LARGEST_COUNT = 2**40
#: Milliseconds of all partitions of the largest topic over centuries; the cost of many rebalances fits 64 bits.
_LARGEST_TOTAL = 2**52
#: Types and versions of records are 16-bit numbers.
_LARGEST_VERSION = 2**15
#: Kafka's records store the length of a string in 16 bits.
_LONGEST_ID_BYTES = 32_767
#: How far the partitions in a probe may exceed the known partitions of a topic.
_ALWAYS_PARTITIONS, _AHEAD_FACTOR = 64, 4


class ImplausibleError(ValueError):
    """A row whose values cannot be true, or would cost more than any real ones."""


def check(row: object, now_ms: int) -> None:
    """Raise ImplausibleError for a row that cannot be true at `now_ms`; kinds not listed here are not checked.

    Nothing of an implausible row may be processed, because some of the state is shared by all groups.
    """
    _check_group_id(row.probe.group if isinstance(row, ProbeActivity) else getattr(row, "group", ""))
    match row:
        case GroupSnapshot():
            _check_group(row, now_ms)
        case Rebalance():
            _check_rebalance(row, now_ms)
        case CommitActivity():
            _check_commits(row, now_ms)
        case OffsetActivity():
            _check_ends(row, now_ms)
        case ProbeActivity():
            _check_probe(row.probe, now_ms)
        case CoordinatorActivity():
            _check_events(row, now_ms)
        case CountActivity():
            _check_counts(row)


def check_restored(row: object, now_ms: int = 0) -> None:
    """Raise ImplausibleError for an earlier run's row that cannot be true. `now_ms`: 0 while it is not known.

    Anybody with write access to the topics may have written it, and it is restored before anything else is known.
    """
    _check_group_id(getattr(row, "group", ""))
    match row:
        case GroupLag():
            _check_lag(row, now_ms)
        case RebalanceImpact():
            _check_impact(row, now_ms)
        case GroupImpact():
            _check_impacts(row, now_ms)
        case Finding():
            _check_times((row.started_at_ms, row.detected_at_ms, row.updated_at_ms, row.resolved_at_ms), now_ms)
            _check_totals((row.rebalances,))
        case DecodeTotals():
            _check_positions(row.positions)
            _check_totals(each.count for each in row.records)
        case ReportTotals():
            _check_positions(row.positions)
            _check_totals(each.count for each in row.reports)


def _check_group_id(group: str) -> None:
    # A character has at most four bytes.
    if len(group) > _LONGEST_ID_BYTES // 4 and len(group.encode(errors="replace")) > _LONGEST_ID_BYTES:
        raise ImplausibleError("a group id longer than Kafka's records can have")


def _check_group(snapshot: GroupSnapshot, now_ms: int) -> None:
    """Raise ImplausibleError for a snapshot that cannot be true. `now_ms` is 0 while the time is not known."""
    times = (snapshot.first_seen_ms, snapshot.last_rebalance_ms, snapshot.updated_at_ms, snapshot.rebalancing_since_ms)
    _check_times((*times, *(each.state_since_ms for each in snapshot.members)), now_ms)
    _check_times((each.at_ms for each in snapshot.replacements), now_ms)
    _check_partitions(p for member in snapshot.members for of in (member.partitions or {}).values() for p in of)


def _check_rebalance(rebalance: Rebalance, now_ms: int) -> None:
    """Raise ImplausibleError for a rebalance that cannot be true."""
    times = (rebalance.started_after_ms, rebalance.started_before_ms, rebalance.completed_at_ms)
    _check_times((*times, rebalance.join_ended_at_ms), now_ms)
    for each in rebalance.generations:
        _check_times((each.started_at_ms, each.join_ended_at_ms, each.assigned_at_ms), now_ms)
    members = (*rebalance.members_before, *rebalance.members_after, *rebalance.passing)
    _check_partitions(p for member in members for of in (member.partitions or {}).values() for p in of)


def _check_commits(row: CommitActivity, now_ms: int) -> None:
    """Raise ImplausibleError for commits that cannot be true."""
    if not 0 <= row.log_partition < MOST_PARTITIONS:
        raise ImplausibleError("a partition of the log that cannot be")
    if row.pane_ms < 1:
        raise ImplausibleError("a pane shorter than 1 ms")
    numbers = (row.first_log_offset, row.last_log_offset, row.log_era, row.pane_ms)
    _check_numbers([*numbers, *chain.from_iterable(row.pane_counts)])
    if not 0 < len(row.topics) <= MOST_TOPICS:
        raise ImplausibleError("no topic, or more topics than can be")
    for each in row.topics.values():
        times = (each.committed_at_ms, each.first_at_ms)
        others: tuple[Sequence[int | None], ...] = (each.offsets, each.log_offsets, each.commits)
        lengths = {len(each.partitions), *map(len, times), *map(len, others)}
        if len(lengths) > 1 or 0 in lengths:
            raise ImplausibleError("columns of different lengths, or empty ones")
        _check_partitions((min(each.partitions), max(each.partitions)))
        _check_times((bound(column) for column in times for bound in (min, max)), now_ms)
        _check_numbers([*chain.from_iterable(others)])


def _check_counts(row: CountActivity) -> None:
    """Raise ImplausibleError for counts that no task can have made."""
    if not 0 <= row.partition < MOST_PARTITIONS or not -1 <= row.last_offset <= MAX_OFFSET:
        raise ImplausibleError("a position in a topic that cannot be")
    if not 0 <= row.log_era <= _LARGEST_COUNT or not all(0 <= count <= _LARGEST_COUNT for *_, count in row.counts):
        raise ImplausibleError("a number of records, or of eras, that cannot be")
    if not all(number is None or abs(number) <= _LARGEST_VERSION for *kind, _, _ in row.counts for number in kind):
        raise ImplausibleError("a type or version that no record has")


def _check_events(row: CoordinatorActivity, now_ms: int) -> None:
    """Raise ImplausibleError for events that no coordinator can have logged."""
    _check_times((row.pane_start_ms, *(each.at_ms for each in row.events)), now_ms)


def _check_probe(probe: Probe, now_ms: int) -> None:
    """Raise ImplausibleError for a probe that cannot be true."""
    _check_times((probe.probed_at_ms,), now_ms)
    for owners in probe.owners.values() if isinstance(probe.owners, dict) else ():
        _check_partitions(_numbers(owners))


def _check_ends(row: OffsetActivity, now_ms: int) -> None:
    """Raise ImplausibleError for probed offsets that cannot be true."""
    _check_times((row.probed_at_ms,), now_ms)
    kinds = (row.ends, row.stable_ends, row.starts, row.committed)
    if max(map(len, kinds)) > MOST_TOPICS:
        raise ImplausibleError("more topics than can be")
    reported = [each for kind in kinds for each in kind.values()]
    if any(len(each.partitions) != len(each.offsets) for each in reported):
        raise ImplausibleError("columns of different lengths")
    # All topics at once: with thousands of topics of one partition each, two calls per topic would dominate the check.
    _check_partitions(chain.from_iterable(each.partitions for each in reported))
    _check_numbers(list(chain.from_iterable(each.offsets for each in reported)))


def _check_lag(row: GroupLag, now_ms: int) -> None:
    """Raise ImplausibleError for lag that no run can have published."""
    _check_times((row.at_ms, row.first_commit_ms, row.last_commit_ms), now_ms)
    _check_totals((row.commits,))
    _check_numbers((row.last_log_offset, row.log_era))
    _check_partitions(() if row.log_partition is None else (row.log_partition,))
    if len(row.topics) > MOST_TOPICS:
        raise ImplausibleError("more topics than can be")
    for each in row.topics.values():
        if len(each.partitions) != len(each.committed):
            raise ImplausibleError("columns of different lengths")
        _check_partitions(each.partitions)
        if any(one >= other for one, other in pairwise(each.partitions)):
            raise ImplausibleError("partitions that are not in their order")
        _check_numbers(each.committed)


def _check_impact(row: RebalanceImpact, now_ms: int) -> None:
    """Raise ImplausibleError for a cost that no rebalance can have had."""
    _check_times((row.lag_recovered_at_ms, row.prepared_at_ms), now_ms)
    _check_times((t for each in row.silences for t in (each.last_commit_ms, each.resumed_at_ms)), now_ms)
    _check_partitions(each.partition for each in row.silences)
    _check_totals((row.lost_partition_ms,))
    _check_numbers((row.lag_before, row.lag_peak))


def _check_impacts(row: GroupImpact, now_ms: int) -> None:
    """Raise ImplausibleError for totals that no group's rebalances can have."""
    shares: tuple[CountedImpact, ...] = (row.earlier, *row.counted.values())
    _check_times((max(0, row.closed_until_ms), *(each.started_at_ms for each in shares)), now_ms)
    _check_totals(
        n for each in shares for n in (each.members_expired, each.members_poll_timeout, each.lost_partition_ms)
    )


def _check_positions(positions: Mapping[str, tuple[int, int]]) -> None:
    if not all(0 <= era <= _LARGEST_COUNT and -1 <= offset <= MAX_OFFSET for era, offset in positions.values()):
        raise ImplausibleError("a position in a topic that cannot be")


def _check_totals(numbers: Iterable[int]) -> None:
    if not all(0 <= each <= _LARGEST_TOTAL for each in numbers):
        raise ImplausibleError("a total that cannot be")


def may_grow(known: int, probed: Sequence[int]) -> bool:
    """Whether an array of `known` partitions of a topic may grow to the partitions that a probe names.

    An array is as long as the highest number in it, so a message that names partition 19,999 of each of thousands of
    topics would cost thousands of times its own length. Probers report all partitions of a new topic, starting with
    the first, and repeat everything after a minute; a reader that missed the beginning waits for that.
    """
    return max(probed) < max(_ALWAYS_PARTITIONS, _AHEAD_FACTOR * (known + len(probed)))


def _numbers(names: Iterable[str]) -> Iterator[int]:
    for name in names:
        if len(name) > 9 or not name.isascii() or not name.isdigit():
            raise ImplausibleError("a partition that is no number")
        yield int(name)


def _check_partitions(numbers: Iterable[int]) -> None:
    known = list(numbers)
    if known and not 0 <= min(known) <= max(known) < MOST_PARTITIONS:
        raise ImplausibleError("a partition that no topic has")


def _check_numbers(numbers: Sequence[int | None]) -> None:
    known = known_of(numbers)
    if known and not 0 <= min(known) <= max(known) <= MAX_OFFSET:
        raise ImplausibleError("an offset or a count that cannot be")


def _check_times(times: Iterable[int | None], now_ms: int) -> None:
    latest = now_ms + _AHEAD_MS if now_ms else 2**52
    if any(each is not None and not 0 <= each <= latest for each in times):
        raise ImplausibleError("a time that cannot be")
