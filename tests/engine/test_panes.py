"""A ring of panes equals a dictionary of the last quarter of an hour."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_contract import KEPT_PANES
from rebalance_streaming.engine.panes import PaneRing

#: A step of time, which may be slightly negative or skip more than all panes, and a number.
puts = st.lists(
    st.tuples(st.integers(-5, 5) | st.integers(-200, 200), st.integers(0, 3) | st.integers(0, 2**62)), max_size=60
)


@pytest.mark.generated
@given(puts)
def test_a_ring_is_a_dictionary_that_forgets(steps: list[tuple[int, int]]):
    """In any order of values: old panes are skipped, newer ones push old ones out."""
    ring, known, pane = PaneRing(), dict[int, int](), 1_000_000
    for step, number in steps:
        pane += step
        ring[pane] = number
        newest = max([pane, *known])
        known[pane] = number
        known = {at: value for at, value in known.items() if at > newest - KEPT_PANES}
    assert ring.panes() == sorted(known)
    panes, numbers = ring.items()
    assert dict(zip(panes.tolist(), numbers.tolist(), strict=True)) == known
    assert [ring[at] for at in range(pane - 3, pane + 3)] == [known.get(at) for at in range(pane - 3, pane + 3)]


def test_an_empty_ring_knows_nothing():
    ring = PaneRing()
    assert (ring.panes(), ring[3]) == ([], None)


def test_a_number_too_large_for_an_array_is_the_largest():
    """Lags add up to more than one partition can have."""
    ring = PaneRing()
    ring[7] = 2**70
    assert ring[7] == 2**63 - 1
