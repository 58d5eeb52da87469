"""Rebuilds a group's state from its published rows when the original state is lost.

Receives the last row of a group and that of its latest rebalance; returns a state to continue the fold with. Rows do
not contain everything: the names of topic ids, and whether a follow-up generation is due, are learned again.
"""

from __future__ import annotations

from dataclasses import replace

from rebalance_contract import GroupSnapshot, GroupType, Rebalance, settled
from rebalance_streaming.groups.episodes import unassigned
from rebalance_streaming.groups.model import FoldState, LatestRebalance


def rebuild_state(snapshot: GroupSnapshot, latest: Rebalance | None) -> FoldState:
    """Return the state that a group's last row describes.

    `latest` is the rebalance that the row refers to as its last one, null when its row is gone: then the pending
    settlement is added to the totals at once, and the next generation begins another rebalance.
    """
    if latest is None:
        due, is_classic = snapshot.settlement, snapshot.type == GroupType.CLASSIC
        added = (
            snapshot if due is None else replace(snapshot, counters=settled(snapshot.counters, due), settlement=None)
        )
        joining_since_ms = snapshot.rebalancing_since_ms if is_classic else None
        return FoldState(added, joining_since_ms=joining_since_ms, last_generation=snapshot.generation)
    episode = LatestRebalance(
        latest,
        settled=snapshot.settlement is None and latest.completed_at_ms is not None,
        spread_until_ms=latest.completed_at_ms or latest.started_before_ms,
        # If a row lists only some generations, those without an assignment may be counted as aborted already.
        left_out_unassigned=max(0, -unassigned(latest.generations)),
    )
    return FoldState(snapshot, last_generation=snapshot.generation or latest.generation_to, episode=episode)
