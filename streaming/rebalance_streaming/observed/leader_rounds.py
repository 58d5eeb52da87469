"""Generations that changed nothing: needless rejoins of a leader, and follow-ups of cooperative rebalances.

All of it is in the log. How many are too many is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from rebalance_contract import STREAMS_ASSIGNOR, Generation, GroupType, Rebalance, RebalanceReason
from rebalance_streaming.observed.history import GroupHistory

_FOLLOW_UP, _STREAMS = RebalanceReason.COOPERATIVE_FOLLOWUP, RebalanceReason.STREAMS_INTERNAL


@dataclass(frozen=True, slots=True)
class Round:
    """A generation that changed nothing, when it began or was complete, and the rebalance it belongs to."""

    at_ms: int
    generation: Generation
    rebalance: Rebalance

    @property
    def joins(self) -> int:
        """How many rounds of joins it took."""
        return 1 + self.generation.aborted_before


def pure_rejoins(rebalance: Rebalance, least: int) -> list[Round]:
    """Return the generations that changed no member, no topic and no partition's owner.

    In a rebalance with other generations, a few of these are normal after joins; only runs of at least `least` count.
    """
    if rebalance.type != GroupType.CLASSIC:
        return []
    kinds = [(pure, [place for place, _ in run]) for pure, run in groupby(enumerate(rebalance.generations), _is_pure)]
    runs = [places for pure, places in kinds if pure]
    if len(runs) == len(kinds):
        moved = rebalance.moves is not None and bool(rebalance.moves.moved)
        runs = [] if rebalance.joined or rebalance.left or moved else runs
    else:
        runs = [places for places in runs if len(places) >= least]
    return [_rejoin(rebalance, place) for places in runs for place in places]


def _is_pure(numbered: tuple[int, Generation]) -> bool:
    _, generation = numbered
    reasons = (RebalanceReason.LEADER_REJOIN, RebalanceReason.CONNECT_INTERNAL)
    return generation.reason in reasons and not generation.joined and not generation.left


def _rejoin(rebalance: Rebalance, place: int) -> Round:
    generation = rebalance.generations[place]
    at_ms = rebalance.started_before_ms if place == 0 else generation.join_ended_at_ms or generation.assigned_at_ms
    return Round(at_ms or rebalance.started_before_ms, generation, rebalance)


def follow_ups(history: GroupHistory) -> Iterator[Round | None]:
    """Yield follow-ups in order, and null for every other generation."""
    for rebalance in history.in_order():
        reasons = (_FOLLOW_UP, _STREAMS) if rebalance.protocol == STREAMS_ASSIGNOR else (_FOLLOW_UP,)
        for generation in rebalance.generations:
            at_ms = generation.assigned_at_ms or generation.join_ended_at_ms or rebalance.started_before_ms
            same = generation.reason in reasons and not generation.joined and not generation.left
            yield Round(at_ms, generation, rebalance) if same else None
