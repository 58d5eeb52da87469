"""When what was published of a group is published again. Pure: `now` is in seconds of any steady clock.

A reader that comes late, or misses a message, has all of it again within a minute, once all groups have had
their first turn. Where there are so many groups that this alone would keep readers busy, it takes longer. The groups'
turns are spread over that time.
"""

from __future__ import annotations

from collections.abc import Collection

from rebalance_contract.probes import PROBE_REPEAT_MS
from rebalance_contract.turns import next_turn

#: Everything is published again after this long,
AGAIN_SECONDS = PROBE_REPEAT_MS / 1_000
#: or so many groups a second, if that takes longer,
MOST_PER_SECOND = 20
#: but not longer than this: a stream that starts reads the last 15 minutes.
LONGEST_SECONDS = 600.0


class Repeats:
    """Remembers when everything of each group is to be published again."""

    def __init__(self) -> None:
        #: In milliseconds of that clock.
        self._due: dict[str, int] = {}

    @property
    def seconds(self) -> float:
        """How long after a full publication the next one of a group follows, at most."""
        return min(LONGEST_SECONDS, max(AGAIN_SECONDS, len(self._due) / MOST_PER_SECOND))

    def take_turn(self, group: str, now: float) -> bool:
        """Whether a group is due, or new: it counts as published then, and is due again at its own time of the period.

        A new one is not published again within the first period.
        """
        due_ms, now_ms = self._due.get(group), int(now * 1000)
        if due_ms is not None and now_ms < due_ms:
            return False
        # It counts among those that the period is for.
        self._due[group] = now_ms
        period_ms = int(self.seconds * 1000)
        self._due[group] = next_turn(group, now_ms if due_ms is not None else now_ms + period_ms, period_ms)
        return True

    def forget(self, present: Collection[str]) -> None:
        """Drop the memory of all groups but these."""
        for group in self._due.keys() - set(present):
            del self._due[group]
