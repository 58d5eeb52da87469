"""The time up to which the diagnosis knows all events."""

from __future__ import annotations

from rebalance_streaming.diagnosis.horizon import ReadHorizon


def test_what_was_published_counts_once_a_batch_began_after_it() -> None:
    """A batch of the diagnosis that began before may lack the rows, whenever it ended."""
    horizon = ReadHorizon()
    horizon.note("membership", 1_000, 5_000)
    assert horizon.until(4_999) == 0
    assert horizon.until(5_000) == 1_000
    horizon.note("membership", 90_000, 100_000)
    assert horizon.until(99_000) == 1_000
    assert horizon.until(100_500) == 90_000


def test_the_slowest_query_limits_it() -> None:
    """Events that one query has not read yet are unknown."""
    horizon = ReadHorizon()
    assert horizon.until(1_000) == 0
    horizon.note("membership", 90_000, 90_500)
    horizon.note("activity", 0, 90_500)
    assert horizon.until(95_000) == 0
    horizon.note("activity", 80_000, 96_000)
    assert horizon.until(97_000) == 80_000


def test_a_query_that_repeats_itself_is_seen_at_the_first_time() -> None:
    """Its status is read twice a second, and changes with its batches."""
    horizon = ReadHorizon()
    for now_ms in range(5_000, 9_000, 500):
        horizon.note("membership", 1_000, now_ms)
    assert horizon.until(5_000) == 1_000
