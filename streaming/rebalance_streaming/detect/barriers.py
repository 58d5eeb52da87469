"""How long members waited for each other to join: the join barriers of one rebalance, one per generation.

The log says when a barrier was released, and nothing of when it began (Kafka: ClassicGroup, the state before
CompletingRebalance is not stored): the first generation's start is bounded by the fold, those that follow within the
same rebalance by the first probe that saw the group prepare again.
"""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_streaming.detect.history import PREPARING, GroupHistory
from rebalance_streaming.groups.events import Member, Rebalance


@dataclass(frozen=True, slots=True)
class Barrier:
    """Members waited for each other at least from `from_ms` until `released_ms`.

    `stayed` are the members there before it that are there after the rebalance; `left` those it went on without.
    """

    from_ms: int
    released_ms: int
    stayed: tuple[Member, ...]
    left: frozenset[str]

    @property
    def waited_ms(self) -> int:
        """At least this long members waited."""
        return self.released_ms - self.from_ms


def barriers(history: GroupHistory, rebalance: Rebalance) -> tuple[Barrier, ...]:
    """Return the join barriers of a rebalance in order; none where the log does not tell of any (not classic).

    The first join of an empty group is none: it waits by design (group.initial.rebalance.delay.ms).
    """
    found = []
    there, settled_ms = {member.member_id for member in rebalance.members_before}, None
    for generation in rebalance.generations:
        released_ms = generation.join_ended_at_ms
        if there and released_ms is not None:
            from_ms = rebalance.started_before_ms
            if settled_ms is not None:
                from_ms = generation.started_at_ms or _seen_preparing(history, settled_ms, released_ms)
            stayed = tuple(each for each in rebalance.members_after if each.member_id in there)
            found.append(Barrier(min(from_ms, released_ms), released_ms, stayed, frozenset(generation.left)))
        there = (there | set(generation.joined)) - set(generation.left)
        settled_ms = generation.assigned_at_ms or released_ms
    return tuple(found)


def longest_wait_ms(history: GroupHistory, rebalance: Rebalance) -> int:
    """Return how long members waited at least in the longest barrier of a rebalance; 0 without any."""
    return max((each.waited_ms for each in barriers(history, rebalance)), default=0)


def _seen_preparing(history: GroupHistory, after_ms: int, released_ms: int) -> int:
    """Return when a probe first saw the group prepare; its release when none did."""
    seen = (each.at_ms for each in history.sightings_between(after_ms, released_ms) if each.state == PREPARING)
    return next(seen, released_ms)
