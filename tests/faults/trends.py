"""The trend of noisy measurements over time, such as the memory of a process or the size of a directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np

_BLOCKS = 20
#: Standard deviations on each side that contain 95 % of a normal distribution.
_DEVIATIONS = 1.96


@dataclass(frozen=True, slots=True)
class Trend:
    """The level at the beginning, the change per hour as a share of it, and the 95 % interval of that change."""

    level: float
    per_hour: float
    lowest: float
    highest: float


def trend_of(samples: Sequence[tuple[float, float]]) -> Trend:
    """Return the trend of at least 40 samples (seconds, quantity) in the order of time.

    The time is divided into 20 blocks, and the lowest quantity of each is used: garbage that waits to be collected
    comes and goes within a block, while a leak raises the lowest value. The slope is the median of the slopes of all
    pairs of blocks (Theil-Sen), which is robust against some outliers; its interval is that of Kendall's rank
    correlation. Remaining correlation between neighbouring blocks makes the interval too narrow.
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
