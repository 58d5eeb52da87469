"""What a rebalance did to its group's lag: lag before it, the peak since, and when the group recovered.

Lag is known only when commits and end offsets arrive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
    ends_ms = (None if completed_ms is None else completed_ms + WATCHED_MS + 1, next_started_ms)
    until_ms = min((each for each in ends_ms if each is not None), default=None)
    before, peak, recovered_ms = (None, 0, None) if known is None else (known.before, known.peak, known.recovered_at_ms)
    earlier: int | None = None
    for at_ms, lag in measured:
        if at_ms < started_ms:
            earlier = lag
            continue
        if recovered_ms is not None or (until_ms is not None and at_ms >= until_ms):
            break
        is_over = completed_ms is not None and at_ms > completed_ms
        if before is None:
            if earlier is None and is_over:
                break
            before = lag if earlier is None else earlier
            peak = before
        peak = max(peak, lag)
        if is_over and lag <= before:
            recovered_ms = at_ms
    return None if before is None else LagAround(before, peak, recovered_ms)
