"""How a quantity changes with time, told from measurements that jump: memory of a process, size of a directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np

_BLOCKS = 20
#: Standard deviations on each side that hold 95 % of a normal distribution.
_DEVIATIONS = 1.96


@dataclass(frozen=True, slots=True)
class Trend:
    """The level at the beginning, its change per hour as a share of it, and both ends of the 95 % interval of that."""

    level: float
    per_hour: float
    lowest: float
    highest: float


def trend_of(samples: Sequence[tuple[float, float]]) -> Trend:
    """Return the trend of (seconds, quantity), in the order of time: 40 of them or more.

    The time is cut into 20 blocks, and of each the lowest quantity is taken: garbage that waits to be collected comes
    and goes within a block, a leak raises the lowest. The slope is the median of those of all pairs of blocks
    (Theil and Sen), on which some outliers have no bearing; its interval is that of Kendall's rank correlation. What
    is left of a dependence between neighbouring blocks makes the interval too narrow.
    """
    assert len(samples) >= 2 * _BLOCKS, f"{len(samples)} samples are too few"
    blocks = np.array_split(np.asarray(samples), _BLOCKS)
    hours = [float(block[:, 0].mean()) / 3_600 for block in blocks]
    floors = [float(block[:, 1].min()) for block in blocks]
    slopes = sorted((floors[b] - floors[a]) / (hours[b] - hours[a]) for a, b in combinations(range(_BLOCKS), 2))
    spread = _DEVIATIONS * sqrt(_BLOCKS * (_BLOCKS - 1) * (2 * _BLOCKS + 5) / 18)
    first = int((len(slopes) - spread) / 2)
    level = max(float(np.median(floors[: _BLOCKS // 4])), 1e-9)
    return Trend(level, float(np.median(slopes)) / level, slopes[first] / level, slopes[-1 - first] / level)
