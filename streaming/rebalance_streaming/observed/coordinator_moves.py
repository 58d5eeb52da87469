"""When a group's coordinator moved to another broker, or got the group back, from probes and brokers' logs."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import pairwise

from rebalance_streaming.observed.history import GroupHistory

#: A failover happened at most this long before a probe sees the new coordinator (AWS quotes 2 min of client errors).
_UNSEEN_MS = 150_000


@dataclass(frozen=True, slots=True)
class CoordinatorMove:
    """A coordinator took over between `from_ms` and `at_ms`, and logged it at `loaded_ms`; null: not known.

    `before` and `after` are brokers; `is_back`: both are the same, which had lost the group and has it again.
    """

    from_ms: int
    at_ms: int
    before: int | None = None
    after: int | None = None
    loaded_ms: int | None = None

    @property
    def is_back(self) -> bool:
        """Whether the same broker got the group back."""
        return self.before is not None and self.before == self.after

    @property
    def is_named(self) -> bool:
        """Whether both brokers are known, and differ."""
        return self.before is not None and self.after is not None and not self.is_back


def find_moves(history: GroupHistory) -> list[CoordinatorMove]:
    """Return when coordinators took over, oldest first: from probes, or the exact time if a broker's log has it."""
    seen = [
        CoordinatorMove(_answered_ms(history, after.at_ms), after.at_ms, before.broker, after.broker)
        for before, after in pairwise(history.coordinators)
    ]
    for load in history.coordinator_log.loads():
        place = bisect_left(seen, load.at_ms, key=lambda each: each.at_ms)
        same = seen[place] if place < len(seen) and seen[place].from_ms <= load.at_ms else None
        if same is None:
            seen.insert(place, CoordinatorMove(load.at_ms, load.at_ms, load.before, load.broker, load.at_ms))
        elif same.loaded_ms is None:
            seen[place] = replace(same, from_ms=load.at_ms, loaded_ms=load.at_ms)
    return seen


def _answered_ms(history: GroupHistory, moved_ms: int) -> int:
    """Return when the former coordinator last answered; the failover came after that."""
    answers = (each.at_ms for each in history.sightings if each.state is not None and each.at_ms < moved_ms)
    return max((moved_ms - _UNSEEN_MS, *answers))
