from rebalance_exporters.state.state_times import StateTimes, fold_state, seconds_by_state


def fold_all(*reported: tuple[str | None, int]) -> StateTimes:
    """Fold states reported at times in milliseconds."""
    times = None
    for state, at_ms in reported:
        times = fold_state(times, state, at_ms)
    assert times is not None
    return times


def test_time_belongs_to_the_state_that_lasted() -> None:
    """Between two changes the earlier state counts, the current one up to now, and a repetition changes nothing."""
    times = fold_all(("Stable", 1_000), ("Stable", 4_000), ("PreparingRebalance", 11_000), ("Stable", 13_500))
    assert seconds_by_state(times, 20_000) == {"Stable": 16.5, "PreparingRebalance": 2.5}


def test_a_state_that_lasts_stays_the_same_object() -> None:
    """Holders of the object can detect by identity that nothing changed."""
    times = fold_all(("Stable", 1_000))
    assert fold_state(times, "Stable", 9_000) is times


def test_time_never_goes_back() -> None:
    """A broker whose clock is behind another's does not reduce the time of any state."""
    times = fold_all(("Stable", 10_000), ("Empty", 8_000), ("Stable", 12_000))
    assert seconds_by_state(times, 11_000) == {"Stable": 0, "Empty": 2}


def test_what_is_not_known_is_not_counted() -> None:
    """A group without a known state spends no time in any."""
    assert seconds_by_state(fold_all((None, 0)), 99_000) == {}
    assert seconds_by_state(fold_all((None, 0), ("Stable", 5_000)), 6_000) == {"Stable": 1}
