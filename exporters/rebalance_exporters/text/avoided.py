"""Texts of what a setting would have avoided, for the terminal, the report and the API."""

from __future__ import annotations

from collections.abc import Callable

from rebalance_contract.api_reports import Avoided, EstimateRange
from rebalance_exporters.text.figures import amount, length


def saved(avoided: Avoided) -> str:
    """Return what would have been avoided as text."""
    parts = []
    if avoided.rebalances.high:
        count = between(avoided.rebalances, amount)
        parts.append(f"{count} {'rebalance' if avoided.rebalances.high == 1 else 'rebalances'}")
    if avoided.lost_partition_ms.high:
        parts.append(f"{between(avoided.lost_partition_ms, length)} of lost time")
    if avoided.rebalancing_ms.high and not avoided.lost_partition_ms.high:
        parts.append(f"{between(avoided.rebalancing_ms, length)} of rebalancing")
    return " and ".join(parts) or "nothing"


def between(bounds: EstimateRange, write: Callable[[int], str] = amount) -> str:
    """Return a range of numbers as text."""
    low, high = write(bounds.low), write(bounds.high)
    if low == high:
        return low
    return f"{low} to {high}" if bounds.low else f"at most {high}"
