"""Trends of memory that grows, and of memory that only fluctuates."""

from __future__ import annotations

import random

import pytest

from faults.trends import trend_of

_SECONDS, _EVERY, _LEVEL = 600, 5, 700.0


def heap(leak_per_hour: float, seed: int = 1, seconds: int = _SECONDS) -> list[tuple[float, float]]:
    """Return the size of a heap in MB that is collected every half a minute, and grows by this share in an hour."""
    chance = random.Random(seed)
    return [
        (float(at), _LEVEL * (1 + leak_per_hour * at / 3_600) + at % 31 + chance.gauss(0, 2))
        for at in range(0, seconds, _EVERY)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_a_heap_that_is_collected_does_not_grow(seed: int):
    """Ten minutes show no growth beyond a few per cent an hour."""
    trend = trend_of(heap(0, seed))
    assert trend.level == pytest.approx(_LEVEL, rel=0.01)
    assert abs(trend.per_hour) < 0.05
    assert trend.lowest < trend.per_hour < trend.highest


@pytest.mark.parametrize("seed", range(20))
def test_a_leak_is_seen(seed: int):
    """Ten minutes show a leak that doubles a process in two hours."""
    trend = trend_of(heap(0.5, seed))
    assert trend.per_hour == pytest.approx(0.5, abs=0.06)
    assert trend.lowest > 0.4


def test_an_hour_resolves_less_than_a_per_cent():
    """So that a limit of 1 %/h is meaningful."""
    assert abs(trend_of(heap(0, seconds=3_600)).per_hour) < 0.005
    assert trend_of(heap(0.02, seconds=3_600)).lowest > 0.01


def test_a_step_is_no_trend():
    """A buffer that is allocated once hardly affects the slope."""
    steps = [(at, value + (100 if at > 540 else 0)) for at, value in heap(0)]
    assert abs(trend_of(steps).per_hour) < 0.1


def test_too_few_samples_tell_nothing():
    """An assertion fails instead of a meaningless result."""
    with pytest.raises(AssertionError, match="39 samples are too few"):
        trend_of(heap(0)[:39])
