"""When the rows of a group's windows are due."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_contract import PANE_MS, WINDOWS_MS
from rebalance_streaming.engine.windows import Schedule

SHORTEST_MS, LONGEST_MS = min(WINDOWS_MS.values()), max(WINDOWS_MS.values())
START_MS = 1_700_000_000_000


def rows_until(end_ms: int, panes: list[int]) -> list[int]:
    """Return when rows are published for a group without events from START_MS on."""
    schedule, made = Schedule(), [START_MS]
    schedule.published("g", START_MS, counted_ms=panes, is_moving=False)
    for now_ms in range(START_MS, end_ms, 500):
        if schedule.take_due(now_ms):
            made.append(now_ms)
            schedule.published("g", now_ms, counted_ms=panes, is_moving=False)
    return made


def counted(panes: list[int], now_ms: int, length_ms: int) -> int:
    """Return how many panes a window that ends now includes."""
    return sum(pane > now_ms - length_ms for pane in panes)


@pytest.mark.generated
@given(st.lists(st.integers(-90, 0), max_size=90))
def test_the_last_row_is_never_much_out_of_date(numbers: list[int]):
    """By a pane in the shortest window, by a minute in the others."""
    panes = [START_MS - START_MS % PANE_MS + number * PANE_MS for number in numbers]
    made = rows_until(START_MS + LONGEST_MS + 120_000, panes)
    for length_ms in WINDOWS_MS.values():
        late_ms = PANE_MS if length_ms == SHORTEST_MS else 60_000
        for pane in panes:
            left_ms = pane + length_ms
            if left_ms > START_MS:
                assert any(left_ms <= at_ms <= left_ms + late_ms + 500 for at_ms in made)
    assert all(counted(panes, made[-1], length_ms) == 0 for length_ms in WINDOWS_MS.values())


def test_a_group_that_commits_no_more_needs_few_rows():
    """One when its last commit leaves the shortest window, then one a minute until the windows are empty."""
    made = rows_until(START_MS + 2 * LONGEST_MS, [START_MS - START_MS % PANE_MS])
    assert len(made) <= 1 + 1 + LONGEST_MS // 60_000 + 1
    assert rows_until(START_MS + LONGEST_MS, []) == [START_MS]


def test_a_rebalancing_group_is_brought_up_to_date_every_few_seconds():
    """It has no events, but the time it has spent rebalancing grows."""
    schedule = Schedule()
    schedule.published("g", START_MS, counted_ms=[], is_moving=True)
    assert not schedule.take_due(START_MS + 4_999)
    assert schedule.take_due(START_MS + 5_000) == ["g"]


def test_something_that_happens_is_shown_at_once_but_not_all_the_time():
    """At least a second lies between two rows of one group."""
    schedule = Schedule()
    schedule.touch("g", START_MS)
    assert schedule.take_due(START_MS) == ["g"]
    schedule.published("g", START_MS, counted_ms=[], is_moving=False)
    schedule.touch("g", START_MS + 100)
    assert not schedule.take_due(START_MS + 999)
    assert schedule.take_due(START_MS + 1_000) == ["g"]


def test_after_the_clock_was_set_back_rows_are_due_within_a_minute():
    """They were planned for times that are far ahead now."""
    schedule, ahead_ms = Schedule(), START_MS + 3_600_000
    schedule.published("g", ahead_ms, counted_ms=[], is_moving=True)
    schedule.turn_back(START_MS)
    assert schedule.take_due(START_MS + 60_000) == ["g"]
    schedule.touch("g", START_MS + 61_000)
    assert schedule.take_due(START_MS + 61_000) == ["g"]
