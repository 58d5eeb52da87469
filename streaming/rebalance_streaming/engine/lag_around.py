"""What a rebalance did to its group's lag: how much there was before, the most since, and when it was made up.

Lag is measured where commits and end offsets pass by.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rebalance_contract import Rebalance

#: Lag is watched for this long after a rebalance ended; what is not made up by then has another reason.
WATCHED_MS = 900_000


@dataclass(frozen=True, slots=True)
class LagAround:
    """Lag of a group, in records, around one of its rebalances; `recovered_at_ms` is null while it is not made up."""

    group: str
    rebalance_id: str
    before: int
    peak: int
    recovered_at_ms: int | None = None


def watch_lag(
    known: LagAround | None, rebalance: Rebalance, lag: int, before: int | None, at_ms: int
) -> LagAround | None:
    """Return what is known of the lag around a rebalance, with one more measurement; null while nothing is.

    `before` is the last measurement before it began, null when there was none: then the first one while it goes on
    stands for it, and one after its end tells nothing.
    """
    around = known
    if around is None or around.rebalance_id != rebalance.rebalance_id:
        if before is None and rebalance.completed_at_ms is not None and at_ms > rebalance.completed_at_ms:
            return known
        start = lag if before is None else before
        around = LagAround(rebalance.group, rebalance.rebalance_id, start, max(start, lag))
    if around.recovered_at_ms is not None:
        return around
    around = replace(around, peak=max(around.peak, lag))
    over = rebalance.completed_at_ms is not None and at_ms > rebalance.completed_at_ms
    return replace(around, recovered_at_ms=at_ms) if over and lag <= around.before else around
