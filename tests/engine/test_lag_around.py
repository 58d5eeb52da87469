"""What a rebalance did to its group's lag."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groups.records import Log, member
from rebalance_contract import Rebalance
from rebalance_streaming.engine.lag_around import LagAround, watch_lag
from rebalance_streaming.groups.fold import fold
from rebalance_streaming.groups.model import new_state

A, B = (member(f"{name}-1", client_id=name) for name in "ab")


def grown() -> Rebalance:
    """Return the rebalance in which a second member joined."""
    state, found = new_state("test", "g"), []
    for record in Log().write(1, A).write(2, A, B).records:
        state, rebalances = fold(state, record)
        found += rebalances
    return found[-1]


REBALANCE = grown()
DONE_MS = REBALANCE.completed_at_ms or 0


def watched(*measurements: tuple[int, int], before: int | None = None) -> LagAround | None:
    """Watch lag measured so many milliseconds after the end of the rebalance: (when, records)."""
    around = None
    for after_ms, lag in measurements:
        around = watch_lag(around, REBALANCE, lag, before, DONE_MS + after_ms)
    return around


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
    """Made up is what is back to what it was, after the rebalance ended, and it is told once."""
    around = watched(*measurements, before=before)
    assert around is not None
    recovered = None if expected[2] is None else DONE_MS + expected[2]
    assert (around.before, around.peak, around.recovered_at_ms) == (*expected[:2], recovered)
    assert (around.group, around.rebalance_id) == ("g", REBALANCE.rebalance_id)


def test_a_first_measurement_after_the_end_tells_nothing():
    """It is neither what was before nor a recovery."""
    assert watched((5_000, 90), before=None) is None
    assert watched((5_000, 90), (10_000, 0), before=None) is None


def test_the_next_rebalance_begins_anew():
    """What was known belongs to the one before; that it was not made up by then stays so."""
    around = watched((5_000, 90), before=10)
    after = watch_lag(around, replace(REBALANCE, rebalance_id="next"), 80, 90, DONE_MS + 60_000)
    assert after == LagAround("g", "next", 90, 90, DONE_MS + 60_000)
    ongoing = replace(REBALANCE, rebalance_id="next", completed_at_ms=None)
    assert watch_lag(around, ongoing, 80, 90, DONE_MS + 60_000) == LagAround("g", "next", 90, 90)


@given(
    before=st.integers(0, 100),
    lags=st.lists(st.tuples(st.integers(-5_000, 60_000), st.integers(0, 200)), min_size=1, max_size=12),
)
def test_the_peak_is_never_below_what_was_before(before: int, lags: list[tuple[int, int]]):
    """And lag that is made up was once at or below it, after the end."""
    around = watched(*sorted(lags), before=before)
    assert around is not None
    assert around.before == before <= around.peak
    ended = [at for at, lag in sorted(lags) if at > 0 and lag <= before]
    assert around.recovered_at_ms == (DONE_MS + ended[0] if ended else None)
