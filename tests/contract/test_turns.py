"""Turns of groups: periodic, and spread over time."""

from collections import Counter

import pytest

from rebalance_contract.turns import next_turn

GROUPS = [f"group-{number}" for number in range(1_000)]


@pytest.mark.parametrize("period_ms", [10_000, 60_000, 250_000])
def test_a_turn_comes_once_in_a_period(period_ms: int) -> None:
    """The turn is later than the given time, at most by a period, and the next one is exactly a period after it."""
    for group in GROUPS:
        first = next_turn(group, 1_790_000_000_123, period_ms)
        assert 0 < first - 1_790_000_000_123 <= period_ms
        assert next_turn(group, first - 1, period_ms) == first
        assert next_turn(group, first, period_ms) == first + period_ms


def test_turns_are_spread_over_the_period() -> None:
    """No tenth of a minute has the turns of more than 140 of 1,000 groups."""
    tenths = Counter(next_turn(group, 0, 60_000) // 6_000 for group in GROUPS)
    assert max(tenths.values()) <= 140
