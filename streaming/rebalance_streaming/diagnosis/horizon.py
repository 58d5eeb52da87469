"""Up to when the diagnosis knows everything that happened.

What an input query has read reaches the diagnosis only through a batch of the diagnosis that began after the rows were
published. On a busy machine that takes a minute, in which nothing seems to happen; a rule that waits for something
that ceases to happen must not conclude anything from such a time.
"""

from __future__ import annotations

from collections import deque


class ReadHorizon:
    """Combines how far the input queries have read with how far the diagnosis has read what they published.

    All times are epoch milliseconds.
    """

    def __init__(self) -> None:
        #: By input query: when it was seen to have published everything up to a time, oldest first.
        self._published: dict[str, deque[tuple[int, int]]] = {}

    def note(self, query: str, read_until_ms: int, now_ms: int) -> None:
        """Note up to when an input query has read and published its input, as of now."""
        known = self._published.setdefault(query, deque())
        if not known or read_until_ms > known[-1][1]:
            known.append((now_ms, read_until_ms))

    def until(self, diagnosis_began_ms: int) -> int:
        """Return up to when everything is known; `diagnosis_began_ms` is when the diagnosis' latest batch began.

        0 while nothing is known of some query. The start of the batch never decreases.
        """
        reached = []
        for known in self._published.values():
            while len(known) > 1 and known[1][0] <= diagnosis_began_ms:
                known.popleft()
            seen_ms, read_until_ms = known[0]
            reached.append(read_until_ms if seen_ms <= diagnosis_began_ms else 0)
        return min(reached, default=0)
