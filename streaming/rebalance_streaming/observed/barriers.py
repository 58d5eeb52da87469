"""How long members waited for each other to join: the join barriers of one rebalance, one per generation.

The log records when a barrier was released, but not when it began (Kafka: ClassicGroup, the state before
CompletingRebalance is not stored). The coordinator's own log lines contain it, if they are shipped. Without them, the
start of the first generation's barrier is bounded by the fold, and those that follow within the same rebalance by the
first probe that saw the group prepare again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rebalance_contract import GroupState, Member, Rebalance
from rebalance_streaming.observed.history import GroupHistory

#: Possible difference between the clocks of a probe and of the coordinator.
SAME_MS = 500


@dataclass(frozen=True, slots=True)
class Barrier:
    """Members waited for each other at least from `from_ms` until `released_ms`.

    `stayed` are the members before it that remained after it, `left` the ids of those that did not.
    """

    from_ms: int
    released_ms: int
    stayed: tuple[Member, ...]
    left: frozenset[str]

    @property
    def waited_ms(self) -> int:
        """Minimum time that members waited."""
        return self.released_ms - self.from_ms


def barriers(history: GroupHistory, rebalance: Rebalance) -> tuple[Barrier, ...]:
    """Return the join barriers of a rebalance in order; none if the log has none (not classic).

    The first join of an empty group does not count: it waits by design (group.initial.rebalance.delay.ms).
    """
    if rebalance.is_at_least:
        return _seen_barriers(history, rebalance)
    found = []
    known = {m.member_id: m for m in (*rebalance.members_after, *rebalance.passing, *rebalance.members_before)}
    there, settled_ms = {member.member_id for member in rebalance.members_before}, None
    for generation in rebalance.generations:
        released_ms = generation.join_ended_at_ms
        if there and released_ms is not None:
            from_ms = rebalance.started_before_ms
            written_ms = history.coordinator_log.prepared_before(released_ms, settled_ms)
            if written_ms is not None:
                from_ms = written_ms
            elif settled_ms is not None or generation.aborted_before:
                seen_ms = preparing_since(history, settled_ms or from_ms, released_ms)
                from_ms = generation.started_at_ms or seen_ms or released_ms
            stayed = tuple(known[name] for name in sorted(there - set(generation.left)) if name in known)
            found.append(Barrier(min(from_ms, released_ms), released_ms, stayed, frozenset(generation.left)))
        there = (there | set(generation.joined)) - set(generation.left)
        settled_ms = generation.assigned_at_ms or released_ms
    return tuple(found)


def _seen_barriers(history: GroupHistory, rebalance: Rebalance) -> tuple[Barrier, ...]:
    """Return the barriers that probes saw, from the first to the last sighting of each; none if they saw none.

    A wait for a member ends when it is no longer listed: if the group still prepares, it waits for another one.
    Coordinators log when each barrier began and was released, if their lines are shipped.
    """
    end_ms = rebalance.completed_at_ms or rebalance.started_before_ms
    looks = [
        each
        for each in history.sightings_between(rebalance.started_before_ms, end_ms)
        if each.state == GroupState.PREPARING_REBALANCE
    ]
    if not looks or not rebalance.members_before:
        return ()
    after = {each.member_id for each in rebalance.members_after}
    stayed = tuple(each for each in rebalance.members_before if each.member_id in after)
    found, awaited, listed = [], set(rebalance.left), set[str]()
    from_ms = seen_ms = looks[0].at_ms
    for each in looks:
        named = listed if each.members is None else {member.member_id for member in each.members}
        gone = awaited & (listed - named)
        if gone:
            found.append(_as_written(history, rebalance, Barrier(from_ms, seen_ms, stayed, frozenset(gone))))
            awaited, from_ms = awaited - gone, each.at_ms
        seen_ms, listed = each.at_ms, named
    found.append(_as_written(history, rebalance, Barrier(from_ms, seen_ms, stayed, frozenset(awaited))))
    return tuple(found)


def _as_written(history: GroupHistory, rebalance: Rebalance, seen: Barrier) -> Barrier:
    """Return a barrier that probes saw, with the times that its coordinator logged, where there are any."""
    log = history.coordinator_log
    from_ms = log.prepared_before(seen.from_ms, rebalance.started_after_ms)
    released_ms = log.settled_after(seen.released_ms, rebalance.completed_at_ms)
    return replace(seen, from_ms=from_ms or seen.from_ms, released_ms=released_ms or seen.released_ms)


def preparing_since(history: GroupHistory, after_ms: int, until_ms: int) -> int | None:
    """Return since when probes saw a group prepare without a break until `until_ms`; null if the last one did not.

    A probe may be dated slightly later than the state it saw, so one just after `after_ms` belongs to the past state.
    """
    since = None
    for each in reversed([*history.sightings_between(after_ms + SAME_MS, until_ms)]):
        if each.state is None:
            continue
        if each.state != GroupState.PREPARING_REBALANCE:
            break
        since = each.at_ms
    return since


def longest_barrier(history: GroupHistory, rebalance: Rebalance) -> Barrier | None:
    """Return the barrier in which members waited longest; null where none is known."""
    return longest_of(barriers(history, rebalance))


def longest_of(found: Iterable[Barrier]) -> Barrier | None:
    """Return the barrier in which members waited longest; null if there is none."""
    return max(found, key=lambda each: each.waited_ms, default=None)
