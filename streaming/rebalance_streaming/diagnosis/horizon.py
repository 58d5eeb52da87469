"""The time up to which the diagnosis knows everything that happened.

Rows of an input query reach the diagnosis only with a batch of the diagnosis that begins after they were published. On
a busy machine that takes a minute, during which nothing seems to happen; a rule that waits for the absence of events
must not draw conclusions from this time.
"""

from __future__ import annotations

from collections import deque

#: Notes are kept at least this part of the time apart for which the diagnosis has read none of them. So a diagnosis
#: that ends no batch costs little memory: 3,500 notes after a day. What is known is out of date by this part at most.
_APART = 1 / 500
#: By how much later than now something must have been noted for the clock to have been set back: two threads may note
#: in another order than they looked at the clock.
_SET_BACK_MS = 1_000


class ReadHorizon:
    """Combines the progress of the input queries with the progress of the diagnosis in reading their output.

    All times are in epoch milliseconds.
    """

    def __init__(self) -> None:
        #: By input query: (when noted, time up to which it has read and published everything), oldest first.
        self._published: dict[str, deque[tuple[int, int]]] = {}

    def note(self, query: str, read_until_ms: int, now_ms: int) -> None:
        """Note the time up to which an input query has now read and published everything."""
        known = self._published.setdefault(query, deque())
        while known and known[-1][0] > now_ms + _SET_BACK_MS:
            # The clock was set back: what was noted in its future would hide everything until then.
            known.pop()
        # The first one has been read, unless it is the only one.
        is_apart = len(known) < 2 or now_ms - known[-1][0] >= (now_ms - known[1][0]) * _APART
        if not known or (read_until_ms > known[-1][1] and is_apart):
            known.append((now_ms, read_until_ms))

    def until(self, diagnosis_began_ms: int) -> int:
        """Return the time up to which everything is known; `diagnosis_began_ms`: start of the diagnosis' latest batch.

        0 while nothing is known of some query. `diagnosis_began_ms` must not decrease between calls, unless the clock
        was set back.
        """
        reached = []
        for known in self._published.values():
            while len(known) > 1 and known[1][0] <= diagnosis_began_ms:
                known.popleft()
            seen_ms, read_until_ms = known[0]
            reached.append(read_until_ms if seen_ms <= diagnosis_began_ms else 0)
        return min(reached, default=0)
