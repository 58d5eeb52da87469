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


def test_a_clock_that_was_set_back_hides_nothing() -> None:
    """It had jumped ahead by an hour for a moment: what was noted then is dropped."""
    horizon = ReadHorizon()
    horizon.note("membership", 1_000, 1_500)
    horizon.note("membership", 3_601_000, 3_601_500)
    horizon.note("membership", 2_000, 2_500)
    assert horizon.until(2_499) == 1_000
    assert horizon.until(2_500) == 2_000


def test_two_threads_may_note_in_another_order() -> None:
    """The later look at the clock is noted first; what it noted is not dropped."""
    horizon = ReadHorizon()
    horizon.note("membership", 1_000, 5_010)
    horizon.note("membership", 1_000, 5_000)
    assert horizon.until(5_009) == 0
    assert horizon.until(5_010) == 1_000


def test_a_diagnosis_that_ends_no_batch_costs_no_memory() -> None:
    """In hours; what is known once it ends one is out of date by a small part of the time that the batch took."""
    horizon, hour_ms = ReadHorizon(), 3_600_000
    horizon.note("membership", 0, 0)
    for now_ms in range(500, 10 * hour_ms, 500):
        horizon.note("membership", now_ms, now_ms)
        assert horizon.until(0) == 0
    assert len(horizon._published["membership"]) < 3_500
    assert 5 * hour_ms - 40_000 < horizon.until(5 * hour_ms) <= 5 * hour_ms
    assert 10 * hour_ms - 80_000 < horizon.until(10 * hour_ms) < 10 * hour_ms
    horizon.note("membership", 10 * hour_ms, 10 * hour_ms)
    assert horizon.until(10 * hour_ms) == 10 * hour_ms


def test_a_batch_of_minutes_loses_no_note() -> None:
    """Twice a second, as the supervision looks."""
    horizon = ReadHorizon()
    for now_ms in range(0, 240_000, 500):
        horizon.note("membership", now_ms, now_ms)
    for began_ms in range(0, 240_000, 500):
        assert horizon.until(began_ms) == began_ms
