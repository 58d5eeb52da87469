"""Panes and windows: what is counted when, in any order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_contract import KEPT_PANES, PANE_MS, Panes
from rebalance_streaming.groups.windows import add, add_rebalancing, windows_at

NOW = 1_000_000_000


def test_windows_slide_and_empty_themselves():
    """An event is in all windows, then only in the longer ones, then in none."""
    panes = add(Panes(), NOW, NOW, rebalances=1, generations_completed=2)
    assert [w.rebalances for w in windows_at(panes, NOW).values()] == [1, 1, 1]
    assert [w.generations_completed for w in windows_at(panes, NOW + 120_000).values()] == [0, 2, 2]
    assert [w.rebalances for w in windows_at(panes, NOW + 1_000_000).values()] == [0, 0, 0]


def test_the_share_of_time_spent_rebalancing():
    """30 s of the last minute; an ongoing rebalance counts up to now."""
    panes = add_rebalancing(Panes(), NOW - 30_000, NOW, NOW)
    assert windows_at(panes, NOW)["1m"].rebalancing_ratio == 0.5
    assert windows_at(panes, NOW)["5m"].rebalancing_ratio == 0.1
    assert windows_at(Panes(), NOW, rebalancing_since_ms=NOW - 15_000)["1m"].rebalancing_ratio == 0.25
    assert windows_at(Panes(), NOW, rebalancing_since_ms=NOW - 3_600_000)["1m"].rebalancing_ratio == 1.0


def test_what_is_older_than_the_ring_is_only_counted():
    """A record that comes a quarter of an hour late changes no window."""
    panes = add(add(Panes(), NOW, NOW, rebalances=1), NOW - KEPT_PANES * PANE_MS, NOW, rebalances=1)
    assert (panes.late, len(panes.panes)) == (1, 1)


def test_a_time_in_the_future_is_not_believed():
    """A broker whose clock is an hour ahead must not push everything else out of the windows."""
    panes = add(Panes(), NOW + 3_600_000, NOW, rebalances=1)
    assert (panes.future, windows_at(panes, NOW)["1m"].rebalances) == (1, 1)


@pytest.mark.generated
@given(st.permutations([(at, until) for at in range(0, 600_000, 47_000) for until in (at + 3_000, at + 25_000)]))
def test_the_order_of_events_does_not_matter(stretches: list[tuple[int, int]]):
    """Replay and live stream may see them in different batches."""
    shuffled = ordered = Panes()
    for begin, end in stretches:
        shuffled = add_rebalancing(
            add(shuffled, NOW + begin, NOW + end, rebalances=1), NOW + begin, NOW + end, NOW + end
        )
    for begin, end in sorted(stretches):
        ordered = add_rebalancing(add(ordered, NOW + begin, NOW + end, rebalances=1), NOW + begin, NOW + end, NOW + end)
    assert shuffled.panes == ordered.panes
