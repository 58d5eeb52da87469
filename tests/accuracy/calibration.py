"""Shares with confidence intervals for small samples, and the calibration of stated confidences. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from accuracy.outcomes import Claim

#: 95 % of a normal distribution lies within this many standard deviations of its mean.
_Z = 1.96
#: Upper ends of the bins: the confidence steps of the catalogue and values between them.
_BINS = (0.35, 0.55, 0.7, 0.8, 0.87, 0.93, 1.0)


@dataclass(frozen=True, slots=True)
class Bin:
    """Claims of similar confidence, up to `until`: their number, mean confidence, and the share that was right."""

    until: float
    count: int
    said: float
    right: float


def wilson(count: int, of: int) -> tuple[float, float]:
    """Return the 95 % interval of a share by Wilson (JASA 22, 1927), or 0 to 1 if nothing was counted."""
    if of == 0:
        return 0.0, 1.0
    share, square = count / of, _Z**2
    middle = (share + square / (2 * of)) / (1 + square / of)
    half = _Z * math.sqrt(share * (1 - share) / of + square / (4 * of**2)) / (1 + square / of)
    return max(0.0, middle - half), min(1.0, middle + half)


def say_share(count: int, of: int) -> str:
    """Return a share as text: the count, the total, and the percentages between which the true share may lie."""
    if of == 0:
        return "-"
    low, high = wilson(count, of)
    return f"{count} of {of} ({100 * low:.0f}-{100 * high:.0f} %)"


def reliability(claims: Iterable[Claim]) -> list[Bin]:
    """Return the bins that contain claims."""
    claims, bins, low = list(claims), list[Bin](), 0.0
    for until in _BINS:
        inside = [each for each in claims if low < each.confidence <= until]
        low = until
        if inside:
            said = sum(each.confidence for each in inside) / len(inside)
            bins.append(Bin(until, len(inside), said, sum(each.correct for each in inside) / len(inside)))
    return bins


def calibration_error(bins: Sequence[Bin]) -> float | None:
    """Return the expected calibration error (ECE), the mean distance of stated from observed; null if no claims."""
    total = sum(each.count for each in bins)
    return sum(each.count * abs(each.said - each.right) for each in bins) / total if total else None


def quantile(values: Iterable[int], share: float) -> int | None:
    """Return the smallest value that at least this share of the values does not exceed, or null if there are none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None
