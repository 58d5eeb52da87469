"""What a rebalance did to its group's lag: lag before it, the peak since, and when the group recovered.

Lag is known only when commits and end offsets arrive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rebalance_contract import Rebalance

#: Lag is watched for this long after a rebalance ended; lag that remains then has another reason.
WATCHED_MS = 900_000


@dataclass(frozen=True, slots=True)
class LagAround:
    """Lag of a group, in records, around one of its rebalances; `recovered_at_ms` is null until it has recovered."""

    before: int
    peak: int
    recovered_at_ms: int | None = None


def lag_around(
    rebalance: Rebalance,
    measured: Iterable[tuple[int, int]],
    next_started_ms: int | None = None,
    known: LagAround | None = None,
) -> LagAround | None:
    """Return what is known of the lag around a rebalance; null while nothing was measured since it began.

    `measured` are (time in ms, records), oldest first; those from `next_started_ms` on, when the group's next rebalance
    began, belong to that one. `known` comes from earlier measurements, not among these, and is continued. If there is
    neither `known` nor a measurement from before the rebalance began, the first measurement during it is used; one
    after its end is not.
    """
    started_ms, completed_ms = rebalance.started_before_ms, rebalance.completed_at_ms
    before: int | None = None
    around = known
    for at_ms, lag in measured:
        if at_ms < started_ms:
            before = lag
            continue
        is_over = completed_ms is not None and at_ms > completed_ms
        is_of_next = next_started_ms is not None and at_ms >= next_started_ms
        if is_of_next or (completed_ms is not None and at_ms - completed_ms > WATCHED_MS):
            break
        if around is None:
            if before is None and is_over:
                break
            start = lag if before is None else before
            around = LagAround(start, start)
        if around.recovered_at_ms is not None:
            break
        around = replace(around, peak=max(around.peak, lag))
        if is_over and lag <= around.before:
            around = replace(around, recovered_at_ms=at_ms)
    return around
