"""What several rules ask of rebalances: who led, how long an assignment took, who went how often.

Receives rebalances and what they consist of, and knows no group. Holds no threshold and says nothing of causes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rebalance_contract import Generation, Member, Partitions, Rebalance
from rebalance_streaming.observed.departures import Slot, slot_of


def leader_of(rebalance: Rebalance) -> Member | None:
    """Return the leader that a rebalance ended with; null where it is not known."""
    return next((each for each in rebalance.members_after if each.member_id == rebalance.leader), None)


def sync_ms(generation: Generation) -> int:
    """Return the time from the barrier's release to the stored assignment; 0 where one is not known."""
    released, assigned = generation.join_ended_at_ms, generation.assigned_at_ms
    return 0 if released is None or assigned is None else max(0, assigned - released)


def widths(rebalances: Iterable[Rebalance]) -> Counter[Slot]:
    """Return how many members one slot held at a time: clients that share a name and a host cannot be distinguished."""
    width: Counter[Slot] = Counter()
    for each in rebalances:
        for members in (each.members_before, each.members_after):
            width |= Counter(map(slot_of, members))
    return width


def went_again(slots: Iterable[Slot], width: Counter[Slot]) -> set[Slot]:
    """Return the slots that went more often than they hold members at a time; one of no known width holds one."""
    return {slot for slot, times in Counter(slots).items() if times > max(1, width[slot])}


def size_of(partitions: Partitions | None) -> int:
    """Return how many partitions there are."""
    return sum(len(numbers) for numbers in (partitions or {}).values())
