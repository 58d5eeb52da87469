"""The measured lag of a group: measurements of a certain time are kept, whatever the probe interval."""

from __future__ import annotations

import pytest

from rebalance_streaming.engine.measured_lag import MeasuredLag

SECOND = 1_000


def measured(*, every_ms: int, count: int) -> MeasuredLag:
    found = MeasuredLag()
    for number in range(count):
        assert found.add(number * every_ms, number)
        found.drop_old()
    return found


@pytest.mark.parametrize(("every_ms", "kept"), [(10 * SECOND, 200), (62 * SECOND, 39), (3_600 * SECOND, 4)])
def test_measurements_of_a_while_are_kept(every_ms: int, kept: int):
    """With rare probes hours of measurements are not kept, except always one before the last."""
    found = measured(every_ms=every_ms, count=1_000)
    assert list(found) == [(number * every_ms, number) for number in range(1_000 - kept, 1_000)]
    assert found.oldest_ms == (1_000 - kept) * every_ms


def test_only_what_is_newer_is_added():
    """A probe that is read again, or late, changes nothing."""
    found = measured(every_ms=SECOND, count=3)
    assert not found.add(2 * SECOND, 7)
    assert not found.add(SECOND, 7)
    assert list(found) == [(0, 0), (SECOND, 1), (2 * SECOND, 2)]
    assert not found.drop_old()


def test_of_nothing_nothing_is_dropped():
    """There is no oldest measurement either."""
    assert not MeasuredLag().drop_old()
    assert MeasuredLag().oldest_ms is None


def test_a_lag_that_no_array_holds_is_the_largest():
    """Invented end offsets may add up to any number."""
    found = MeasuredLag()
    found.add(0, 2**70)
    assert list(found) == [(0, 2**63 - 1)]
