"""Helpers of several rules about rebalances: the leader, the duration of an assignment, repeated departures.

Receives rebalances and their parts, not groups; has no thresholds and no causes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rebalance_contract import Generation, Member, Rebalance
from rebalance_streaming.observed.departures import Slot, slot_of


def leader_of(rebalance: Rebalance) -> Member | None:
    """Return the leader at the end of a rebalance; null if it is not known."""
    return next((each for each in rebalance.members_after if each.member_id == rebalance.leader), None)


def sync_ms(generation: Generation) -> int:
    """Return the time (ms) from the barrier's release to the stored assignment; 0 if one of them is not known."""
    released, assigned = generation.join_ended_at_ms, generation.assigned_at_ms
    return 0 if released is None or assigned is None else max(0, assigned - released)


def members_per_slot(rebalances: Iterable[Rebalance]) -> Counter[Slot]:
    """Return the maximum number of members per slot at a time: clients that share a name and a host share a slot."""
    width: Counter[Slot] = Counter()
    for each in rebalances:
        for members in (each.members_before, each.members_after):
            width |= Counter(map(slot_of, members))
    return width


def left_repeatedly(slots: Iterable[Slot], width: Counter[Slot]) -> set[Slot]:
    """Return the slots that left more often than their width, the number of members at a time (default 1)."""
    return {slot for slot, times in Counter(slots).items() if times > max(1, width[slot])}
