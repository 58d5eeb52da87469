"""The lag of a group around a rebalance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from histories import T0, member, rebalance
from rebalance_streaming.engine.lag_around import LagAround, lag_around

A, B = member("a-1"), member("b-1")
DONE_MS = T0 + 10_000
REBALANCE = rebalance(T0, [A], [A, B], took_ms=10_000)


def watched(*measurements: tuple[int, int], before: int | None = None) -> LagAround | None:
    """Return the recovery from lag measured at these times after the end of the rebalance: (milliseconds, records)."""
    earlier = [] if before is None else [(REBALANCE.started_before_ms - 1, before)]
    return lag_around(REBALANCE, [*earlier, *((DONE_MS + after_ms, lag) for after_ms, lag in measurements)])


@pytest.mark.parametrize(
    ("before", "measurements", "expected"),
    [
        (10, [(-500, 40)], (10, 40, None)),
        (10, [(-500, 40), (5_000, 90), (10_000, 30)], (10, 90, None)),
        (10, [(-500, 40), (5_000, 90), (10_000, 10)], (10, 90, 10_000)),
        (10, [(5_000, 90), (10_000, 9), (15_000, 500)], (10, 90, 10_000)),
        (10, [(-500, 5)], (10, 10, None)),
        (10, [(0, 5)], (10, 10, None)),
        (10, [(1, 5)], (10, 10, 1)),
        (None, [(-500, 70), (5_000, 90), (15_000, 70)], (70, 90, 15_000)),
        (0, [(5_000, 0)], (0, 0, 5_000)),
    ],
    ids=[
        "grows meanwhile",
        "not made up",
        "made up",
        "what comes later is another matter",
        "less than before is no end yet",
        "its end is not after it",
        "after it",
        "nothing measured before",
        "no lag at all",
    ],
)
def test_lag_from_before_over_its_peak_to_its_end(
    before: int | None, measurements: list[tuple[int, int]], expected: tuple[int, int, int | None]
):
    """Lag has recovered when it is back to its earlier value after the end of the rebalance; published once."""
    around = watched(*measurements, before=before)
    assert around is not None
    recovered = None if expected[2] is None else DONE_MS + expected[2]
    assert (around.before, around.peak, around.recovered_at_ms) == (*expected[:2], recovered)


def test_a_first_measurement_after_the_end_is_not_used():
    """It is neither the earlier lag nor a recovery."""
    assert watched((5_000, 90), before=None) is None
    assert watched((5_000, 90), (10_000, 0), before=None) is None


def test_what_is_measured_after_the_next_began_is_the_next_ones():
    """Lag that had not recovered by then stays unrecovered."""
    measured = [(REBALANCE.started_before_ms - 1, 10), (DONE_MS + 5_000, 90), (DONE_MS + 60_000, 0)]
    assert lag_around(REBALANCE, measured, DONE_MS + 60_000) == LagAround(10, 90)
    assert lag_around(REBALANCE, measured, DONE_MS + 60_001) == LagAround(10, 90, DONE_MS + 60_000)
    assert lag_around(REBALANCE, measured[:1], None) is None


def test_what_an_earlier_run_knew_goes_on():
    """Even if a measurement from before it is available: the later ones that it is based on are not."""
    known = LagAround(10, 50)
    assert lag_around(REBALANCE, [], None, known) == known
    assert lag_around(REBALANCE, [(DONE_MS + 5_000, 90)], None, known) == LagAround(10, 90)
    assert lag_around(REBALANCE, [(DONE_MS + 5_000, 9)], None, known) == LagAround(10, 50, DONE_MS + 5_000)
    assert lag_around(REBALANCE, [(REBALANCE.started_before_ms - 1, 7), (DONE_MS, 8)], None, known) == known


@pytest.mark.generated
@given(
    before=st.integers(0, 100),
    lags=st.lists(st.tuples(st.integers(-5_000, 60_000), st.integers(0, 200)), min_size=1, max_size=12),
)
def test_the_peak_is_never_below_what_was_before(before: int, lags: list[tuple[int, int]]):
    """Recovered lag was at or below it at least once after the end."""
    around = watched(*sorted(lags), before=before)
    assert around is not None
    assert around.before == before <= around.peak
    ended = [at for at, lag in sorted(lags) if at > 0 and lag <= before]
    assert around.recovered_at_ms == (DONE_MS + ended[0] if ended else None)
