"""When unchanged probes of groups are published again."""

import itertools
from collections import Counter

import pytest

from rebalance_exporters.prober.repeats import AGAIN_SECONDS, LONGEST_SECONDS, RepeatSchedule


def turns(groups: int, seconds: int) -> dict[str, list[int]]:
    """Return when each group was published, checked every two seconds."""
    repeats, reported = RepeatSchedule(), {f"group-{number}": list[int]() for number in range(groups)}
    for now in range(0, seconds, 2):
        for group, times in reported.items():
            if repeats.take_turn(group, float(now)):
                times.append(now)
    return reported


def test_few_groups_are_published_again_within_a_minute():
    """First at its own time in the second minute, then once a minute."""
    for times in turns(30, 400).values():
        pauses = [after - before for before, after in itertools.pairwise(times)]
        assert AGAIN_SECONDS <= pauses[0] <= 2 * AGAIN_SECONDS + 2
        assert all(abs(pause - AGAIN_SECONDS) <= 2 for pause in pauses[1:])


def test_turns_of_many_groups_are_spread():
    """1,500 groups take 75 seconds: never much more than 20 a second, except for the first publication."""
    reported = turns(1_500, 300)
    assert all(len(times) >= 3 for times in reported.values())
    per_second = Counter(now for times in reported.values() for now in times if now > 0)
    # Checked every two seconds; while the groups become known, the time is shorter.
    assert max(per_second.values()) <= 2 * 5 * 20
    late = [count for now, count in per_second.items() if now > 180]
    assert max(late) <= 2 * 2 * 20


@pytest.mark.parametrize(("groups", "seconds"), [(1, AGAIN_SECONDS), (5_000, 250.0), (50_000, LONGEST_SECONDS)])
def test_the_more_groups_the_longer(groups, seconds):
    """Up to the look-back of a starting stream."""
    repeats = RepeatSchedule()
    for number in range(groups):
        repeats.take_turn(f"group-{number}", 0.0)
    assert repeats.seconds == seconds


def test_a_group_that_comes_back_is_new():
    """Forgotten groups use no memory."""
    repeats = RepeatSchedule()
    repeats.take_turn("g", 0.0)
    repeats.forget(())
    assert repeats.take_turn("g", 1.0)
