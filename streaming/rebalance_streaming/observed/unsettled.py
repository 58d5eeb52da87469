"""What the latest probes saw of a classic group's rebalance that has no record in the log yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rebalance_contract import GroupState
from rebalance_streaming.observed.history import GroupHistory, Sighting

_REBALANCING = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)


def unsettled(history: GroupHistory) -> Iterator[Sighting]:
    """Yield the latest probes that saw a rebalance since the group's last record, newest first."""
    recorded_ms = (history.snapshot.updated_at_ms if history.snapshot else None) or 0
    for each in reversed(history.sightings):
        if each.state is None:
            continue
        if each.state not in _REBALANCING or each.at_ms < recorded_ms:
            return
        yield each


def count_aborted_syncs(run: Sequence[Sighting]) -> int:
    """Return how often these probes, oldest first, saw a group fall back from its sync phase to its join phase."""
    return sum(
        a.state == GroupState.COMPLETING_REBALANCE and b.state == GroupState.PREPARING_REBALANCE
        for a, b in pairwise(run)
    )
