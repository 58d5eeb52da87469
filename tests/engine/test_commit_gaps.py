"""Gaps between commits that are longer than usual."""

import pytest

from rebalance_contract import CommitActivity, CommitGap, TopicCommits
from rebalance_streaming.activity.offsets import FEW
from rebalance_streaming.engine.commit_gaps import KEPT_GAPS, CommitRhythm, EndedGaps

T0 = 1_000_000


def row(*commits: tuple[int, int], is_history: bool = False) -> CommitActivity:
    """Return packed commits of the topic orders: (partition, milliseconds after T0), in the order of their times."""
    times: dict[int, list[int]] = {}
    for partition, at in commits:
        times.setdefault(partition, []).append(T0 + at)
    topic = TopicCommits(
        list(times),
        [1] * len(times),
        [each[-1] for each in times.values()],
        [each[0] for each in times.values()],
        [0] * len(times),
        [len(each) for each in times.values()],
    )
    return CommitActivity("c", "g", 0, 0, 0, 5_000, (), {"orders": topic}, is_history=is_history)


def take(rhythm: CommitRhythm, *rows: CommitActivity) -> list[tuple[int, int, int]]:
    found = [silence for each in rows for silence in rhythm.take(each)]
    return [(each.partition, each.last_commit_ms - T0, each.resumed_at_ms - T0) for each in found]


def test_a_gap_is_reported_when_it_ends():
    """Regular commits have none; each partition has its own gap."""
    rhythm = CommitRhythm()
    assert take(rhythm, row((0, 0), (1, 0)), row((0, 2_000), (1, 2_000))) == []
    assert take(rhythm, row((0, 4_000)), row((0, 6_000), (1, 11_000))) == [(1, 2_000, 11_000)]
    assert rhythm.take(row((0, 40_000))) == [CommitGap("orders", 0, T0 + 6_000, T0 + 40_000)]


def test_a_slow_rhythm_is_no_silence():
    """Otherwise a partition that is committed once a minute would have a gap with every commit."""
    rhythm = CommitRhythm()
    assert take(rhythm, *(row((0, 60_000 * number)) for number in range(10))) == []
    assert take(rhythm, row((0, 60_000 * 12))) == [(0, 60_000 * 9, 60_000 * 12)]


def test_several_commits_in_one_row_are_a_rhythm():
    """The intervals inside a row follow from the number of commits; the gap before it ends at its first commit."""
    rhythm = CommitRhythm()
    take(rhythm, row((0, 0), (0, 1_000), (0, 2_000), (0, 3_000)))
    assert take(rhythm, row((0, 20_000), (0, 21_000))) == [(0, 3_000, 20_000)]


@pytest.mark.parametrize("partitions", [1, FEW + 1])
def test_a_clock_that_goes_back_within_a_row_makes_no_interval(partitions: int):
    """The average of its intervals would be below 0, and any gap after it unusual."""
    rhythm, numbers = CommitRhythm(), range(partitions)

    def all_at(*times: int) -> CommitActivity:
        return row(*((partition, at) for at in times for partition in numbers))

    rows = (all_at(50_000, 55_000), all_at(60_000, 61_000, 2_000), all_at(63_000))
    assert take(rhythm, *rows) == []
    assert take(rhythm, all_at(90_000)) == [(partition, 63_000, 90_000) for partition in numbers]


def test_history_is_a_rhythm_and_no_silence():
    """The log before the monitor's first look was thinned by compaction, so the gap to it does not count."""
    rhythm = CommitRhythm()
    assert take(rhythm, row((0, 0), (0, 5_000), (0, 10_000), is_history=True), row((0, 60_000), is_history=True)) == []
    assert take(rhythm, row((0, 120_000))) != []


def test_a_new_partition_changes_nothing_for_the_others():
    """Topics may grow while they are committed."""
    rhythm = CommitRhythm()
    take(rhythm, *(row((3, at)) for at in (0, 2_000, 4_000)))
    assert take(rhythm, row((1, 5_000), (3, 6_000), (7, 6_000))) == []
    assert take(rhythm, row((3, 30_000))) == [(3, 6_000, 30_000)]


def test_gaps_wait_until_everything_up_to_their_end_was_read():
    """Then the rebalances that they overlap are known; each gap is taken once."""
    gaps = [CommitGap("orders", 0, T0, T0 + at) for at in (10_000, 30_000, 20_000)]
    ended = EndedGaps()
    ended.add("g", gaps)
    ended.add("h", [])
    assert list(ended.take(T0 + 9_999)) == []
    assert list(ended.take(T0 + 20_000)) == [("g", [gaps[0], gaps[2]])]
    assert list(ended.take(T0 + 20_000)) == []
    assert list(ended.take(None)) == [("g", [gaps[1]])]
    assert list(ended.take(None)) == []


def test_gaps_of_a_group_that_is_gone_and_too_many_gaps_are_dropped():
    """The query whose rows are awaited may be stopped for days."""
    ended = EndedGaps()
    ended.add("gone", [CommitGap("orders", 0, T0, T0 + 10_000)])
    ended.forget_group("gone")
    ended.add("g", [CommitGap("orders", number, T0, T0 + 10_000) for number in range(KEPT_GAPS + 1)])
    ((_, kept),) = ended.take(None)
    assert (len(kept), kept[0].partition) == (KEPT_GAPS, 1)
