"""Schedules the repetition of each group's publications. Pure: `now` is in seconds of any steady clock.

A reader that starts late, or misses a message, has everything again within a minute, once all groups have had their
first turn. With so many groups that this would keep readers busy, it takes longer. The groups' turns are spread over
that time.
"""

from __future__ import annotations

from collections.abc import Collection

from rebalance_contract.probes import PROBE_REPEAT_MS
from rebalance_contract.turns import next_turn

#: Everything is published again after this long,
AGAIN_SECONDS = PROBE_REPEAT_MS / 1_000
#: or at this number of groups per second, if that takes longer,
MOST_PER_SECOND = 20
#: but at most after this time: a stream that starts reads the last 15 minutes.
LONGEST_SECONDS = 600.0


class RepeatSchedule:
    """Remembers when each group is due to be published in full again."""

    def __init__(self) -> None:
        #: In milliseconds of the caller's clock.
        self._due: dict[str, int] = {}

    @property
    def seconds(self) -> float:
        """Maximum time between two full publications of a group."""
        return min(LONGEST_SECONDS, max(AGAIN_SECONDS, len(self._due) / MOST_PER_SECOND))

    def take_turn(self, group: str, now: float) -> bool:
        """Return whether a group is new or due; if so it counts as published until its next turn in the period."""
        due_ms, now_ms = self._due.get(group), int(now * 1000)
        if due_ms is not None and now_ms < due_ms:
            return False
        # Added first, because the period depends on the number of groups.
        self._due[group] = now_ms
        period_ms = int(self.seconds * 1000)
        self._due[group] = next_turn(group, now_ms if due_ms is not None else now_ms + period_ms, period_ms)
        return True

    def forget(self, present: Collection[str]) -> None:
        """Forget all groups except these."""
        for group in self._due.keys() - set(present):
            del self._due[group]
