"""Recent measurements of the lag of one group, kept in compact arrays because every group of a cluster has them.

Knows nothing of rebalances.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

#: Lag is watched for 15 minutes after a rebalance, and the row of the rebalance may come late. Measurements are kept
#: for longer than both, but at most the latest 200. The last few before a long pause are kept for rebalances that begin
#: after it.
_KEPT_MS, _MOST, _FEWEST = 2_400_000, 200, 4
_LARGEST = 2**63 - 1


class MeasuredLag:
    """Times in epoch milliseconds, and records, oldest first."""

    __slots__ = ("_lags", "_times")

    def __init__(self) -> None:
        self._times, self._lags = array("q"), array("q")

    def __len__(self) -> int:
        return len(self._times)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._times, self._lags, strict=True)

    @property
    def oldest_ms(self) -> int | None:
        """Time of the oldest measurement; null without any."""
        return self._times[0] if self._times else None

    def add(self, at_ms: int, lag: int) -> bool:
        """Add a measurement and return true if it is newer than all others."""
        if self._times and at_ms <= self._times[-1]:
            return False
        self._times.append(at_ms)
        self._lags.append(min(lag, _LARGEST))
        return True

    def drop_old(self) -> bool:
        """Drop old measurements; return whether there were any."""
        newest_ms, count = self._times[-1] if self._times else 0, len(self._times)
        dropped = max(0, count - _MOST)
        while dropped < count - _FEWEST and newest_ms - self._times[dropped] > _KEPT_MS:
            dropped += 1
        del self._times[:dropped], self._lags[:dropped]
        return dropped > 0
