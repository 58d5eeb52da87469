"""Lag in offsets and in time, as stories of probes and commits."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_contract import CommitActivity, GroupLag, OffsetActivity, TopicCommits, TopicOffsets
from rebalance_streaming.activity.offsets import FEW
from rebalance_streaming.engine.lag import LagTable

T0 = 1_790_000_000_000


def commit(table: LagTable, offsets: dict[int, int | None], *, at_ms: int = T0, log_offset: int | None = None) -> None:
    """Let group g commit offsets of the topic orders."""
    times = [at_ms] * len(offsets)
    row = TopicCommits(list(offsets), list(offsets.values()), times, times, [], [1] * len(offsets))
    log_offset = at_ms - T0 if log_offset is None else log_offset
    counts = ((at_ms - at_ms % 10_000, len(offsets)),)
    table.take_commits(CommitActivity("c", "g", 3, log_offset, log_offset, 5_000, counts, {"orders": row}))


def probe(
    table: LagTable, ends: dict[int, int | None], *, at_ms: int = T0, stable: dict[int, int | None] | None = None
) -> None:
    """Let the prober see end offsets of the topic orders, and measure the group's lag."""
    offsets = {"orders": TopicOffsets(list(ends), list(ends.values()))}
    stable_offsets = {"orders": TopicOffsets(list(stable), list(stable.values()))} if stable else {}
    table.take_offsets(OffsetActivity("c", "g", at_ms, ends=offsets, stable_ends=stable_offsets))
    table.measure("g", at_ms)


def lag_of(table: LagTable, at_ms: int = T0) -> GroupLag:
    """Return g's lag, which must be known."""
    lag = table.lag("g", at_ms)
    assert lag is not None
    return lag


def test_lag_is_the_end_less_the_committed_offset():
    """Per partition, topic and group; a partition that was never committed has none."""
    table = LagTable()
    commit(table, {0: 10, 2: 30})
    probe(table, {0: 15, 1: 99, 2: 30})
    lag = lag_of(table)
    assert (lag.topics["orders"].partitions, lag.topics["orders"].lags, lag.total) == ([0, 2], [5, 0], 5)


def test_nothing_is_said_without_ends_or_commits():
    """Null, not zero: without the prober the ends are unknown."""
    table = LagTable()
    assert table.lag("g", T0) is None
    commit(table, {0: 10})
    assert lag_of(table).total is None
    assert table.awaits_ends("g")
    probe(table, {0: None})
    assert (lag_of(table).total, lag_of(table).topics["orders"].lags) == (None, [None])
    assert not table.awaits_ends("g")


def test_what_is_news_is_so_to_each_group():
    """A topic's end is, even after another group's probe; a repeated end is not, nor is a topic without one."""
    table = LagTable()

    def is_news(group: str, end: int | None) -> bool:
        ends = TopicOffsets([], []) if end is None else TopicOffsets([0], [end])
        return table.take_offsets(OffsetActivity("c", group, T0, ends={"other" if end is None else "orders": ends}))

    assert [is_news("g", 5), is_news("g", 5), is_news("h", 5), is_news("h", 5)] == [True, False, True, False]
    assert [is_news("g", 6), is_news("h", 6), is_news("h", 6)] == [True, True, False]
    assert [is_news("i", None), is_news("i", None)] == [True, False]


def test_a_commit_newer_than_the_probe_is_no_negative_lag():
    """The end was queried before the commit."""
    table = LagTable()
    probe(table, {0: 10})
    commit(table, {0: 14}, at_ms=T0 + 1_000)
    assert lag_of(table).total == 0


@pytest.mark.parametrize(("reads_committed", "expected"), [(True, 2), (False, 10)])
def test_groups_that_read_committed_are_measured_to_the_last_stable_offset(reads_committed: bool, expected: int):
    """They cannot read records of an open transaction."""
    table = LagTable(lambda group: reads_committed and group == "g")
    commit(table, {0: 10})
    probe(table, {0: 20}, stable={0: 12})
    assert lag_of(table).total == expected


def test_a_commit_of_a_partition_that_does_not_exist_costs_nothing():
    """It has no lag, and no memory is allocated up to its number; lag of known partitions is reported."""
    table = LagTable()
    far = 2**31 - 1
    tracemalloc.start()
    try:
        commit(table, {0: 5, far: 5})
        probe(table, {0: 7, 1: 7})
        lag = lag_of(table)
        _, highest = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (lag.topics["orders"].partitions, lag.topics["orders"].lags, lag.total) == ([0, far], [2, None], 2)
    assert highest < 1_000_000


def test_a_deleted_offset_leaves_and_a_grown_topic_joins():
    """Expiry or OffsetDelete removes a partition; new partitions appear with their first commit."""
    table = LagTable()
    commit(table, {0: 1, 1: 1})
    commit(table, {1: None, 5: 7}, at_ms=T0 + 5_000)
    probe(table, {0: 2, 1: 2, 5: 9}, at_ms=T0 + 6_000)
    assert lag_of(table).topics["orders"].partitions == [0, 5]
    commit(table, {0: None, 5: None}, at_ms=T0 + 10_000)
    lag = lag_of(table)
    assert (lag.topics, lag.total, lag.commits, lag.last_commit_ms) == ({}, None, 6, T0 + 10_000)


def test_totals_do_not_fall_when_the_last_offset_expires():
    """Neither then nor at a start after it, which reads the recent rows of commits again."""
    before = LagTable()
    commit(before, {0: 10}, log_offset=7)
    commit(before, {0: None}, at_ms=T0 + 5_000, log_offset=8)
    after = LagTable()
    after.restore(lag_of(before))
    commit(after, {0: 10}, log_offset=7)
    commit(after, {0: None}, at_ms=T0 + 5_000, log_offset=8)
    assert (lag_of(after).commits, lag_of(after).last_log_offset) == (2, 8)
    assert LagTable().lag("g", T0) is None


def test_a_repeated_row_changes_nothing():
    """Delivery is at least once, and an older row must not restore an older offset."""
    table = LagTable()
    commit(table, {0: 5}, log_offset=9)
    commit(table, {0: 3}, log_offset=9)
    commit(table, {0: 2}, log_offset=8)
    probe(table, {0: 6})
    assert lag_of(table).total == 1
    assert table.windows("g", T0)["1m"].commits == 1


def test_offsets_nobody_saw_committed_come_from_the_coordinator():
    """A group without commits since the reader began; offsets that were read from the log are newer."""
    table = LagTable()
    commit(table, {0: 50})
    held_offsets = {"orders": TopicOffsets([0, 1, 2], [40, 7, None])}
    table.take_offsets(OffsetActivity("c", "g", T0, committed=held_offsets))
    probe(table, {0: 60, 1: 10, 2: 10})
    assert lag_of(table).topics["orders"].lags == [10, 3]


def held(table: LagTable, offsets: dict[int, int], *, at_ms: int, is_all: bool = True) -> None:
    """Let g's coordinator report its committed offsets of the topic orders."""
    committed = {"orders": TopicOffsets(list(offsets), list(offsets.values()))} if offsets else {}
    table.take_offsets(OffsetActivity("c", "g", at_ms, committed=committed, is_all_committed=is_all))


@pytest.mark.parametrize("others", [0, FEW])
def test_what_a_coordinator_holds_no_more_is_forgotten(others: int):
    """After two probes, as each has several rows; including offsets published by an earlier run, but not read ones."""
    more = dict.fromkeys(range(10, 10 + others), 1)
    table = LagTable()
    commit(table, {9: 50})
    held(table, {0: 40, 1: 7, **more}, at_ms=T0 + 1)
    held(table, {0: 41}, at_ms=T0 + 2)
    held(table, dict(more), at_ms=T0 + 2)
    held(table, {0: 41, **more}, at_ms=T0 + 3)
    assert lag_of(table).topics["orders"].partitions == [0, 9, *more]
    restarted = LagTable()
    restarted.restore(lag_of(table, T0 + 3))
    for passed in (4, 5, 6):
        held(restarted, {}, at_ms=T0 + passed)
    assert lag_of(restarted, T0 + 6).topics == {}


def test_a_probe_with_some_of_the_offsets_forgets_none():
    """Rows of earlier versions do not say whether they are complete."""
    table = LagTable()
    for passed, partition in enumerate((0, 1, 2), start=1):
        held(table, {partition: 5}, at_ms=T0 + passed, is_all=False)
    assert lag_of(table).topics["orders"].partitions == [0, 1, 2]


@pytest.mark.parametrize("others", [0, FEW])
def test_an_end_that_is_not_known_just_now_stays_what_it_was(others: int):
    """If a partition has no leader during one probe, neither its lag nor the age of its lag changes."""
    ends = dict.fromkeys(range(2, 2 + others), 3)
    table = LagTable()
    for passed in range(0, 600, 5):
        probe(table, {0: passed, 1: 100_000 + passed, **ends}, at_ms=T0 + passed * 1_000)
    commit(table, {0: 595, 1: 100_100}, at_ms=T0 + 595_000)
    before = lag_of(table, T0 + 600_000)
    probe(table, {0: 600, 1: None, **ends}, at_ms=T0 + 600_000)
    lag = lag_of(table, T0 + 600_000)
    assert (before.total, lag.total) == (495, 500)
    assert (lag.oldest_unread_ms, lag.oldest_unread_error_ms) == (
        before.oldest_unread_ms,
        before.oldest_unread_error_ms,
    )


def test_a_probe_that_is_older_than_what_is_known_changes_nothing():
    """A probe of a second prober, or from a backlog, does not mean that the topic was recreated."""
    table = LagTable()
    fill(table, 100)
    commit(table, {0: 900}, at_ms=T0 + 100_000)
    before = lag_of(table, T0 + 100_000)
    for passed in range(0, 100, 5):
        probe(table, {0: 10 * passed}, at_ms=T0 + passed * 1_000 + 500)
    assert lag_of(table, T0 + 100_000) == before


def fill(table: LagTable, seconds: int, rate: int = 10) -> None:
    """Probe every 5 s while `rate` records a second arrive in partition 0."""
    for passed in range(0, seconds + 1, 5):
        probe(table, {0: rate * passed}, at_ms=T0 + passed * 1_000)


@pytest.mark.parametrize("behind_seconds", [7, 58, 400])
def test_time_lag_is_the_age_of_the_oldest_unread_record(behind_seconds: int):
    """Within the stated error, which is the probe interval or an eighth of the lag."""
    table, now = LagTable(), 1_200
    fill(table, now)
    commit(table, {0: 10 * (now - behind_seconds)}, at_ms=T0 + now * 1_000)
    lag = lag_of(table, T0 + now * 1_000)
    time_ms, error_ms = lag.time_lag_ms(T0 + now * 1_000), lag.oldest_unread_error_ms
    assert time_ms is not None
    assert not lag.oldest_unread_is_bound
    assert time_ms - error_ms <= behind_seconds * 1_000 <= time_ms
    assert error_ms <= max(10_000, 1.5 * behind_seconds * 1_000 / 8)


def test_a_record_older_than_all_probes_has_a_minimum():
    """Never a guess: at least the time for which the ends have been watched."""
    table = LagTable()
    for passed in (0, 5, 10):
        probe(table, {0: 1_000 + passed}, at_ms=T0 + passed * 1_000)
    commit(table, {0: 10}, at_ms=T0 + 10_000)
    lag = lag_of(table, T0 + 20_000)
    assert (lag.time_lag_ms(T0 + 20_000), lag.oldest_unread_is_bound) == (20_000, True)


def test_a_topic_made_anew_forgets_its_past():
    """The ends decreased: those of the old topic do not apply to the new one."""
    table = LagTable()
    fill(table, 100)
    commit(table, {0: 5}, at_ms=T0 + 100_000)
    probe(table, {0: 8}, at_ms=T0 + 105_000)
    lag = lag_of(table, T0 + 106_000)
    assert (lag.total, lag.oldest_unread_is_bound) == (3, True)


def test_windows_of_lag():
    """The largest lag, its slope in records a second, and the commits counted, over 1, 5 and 15 minutes."""
    table = LagTable()
    for passed in range(0, 301, 10):
        commit(table, {0: 100}, at_ms=T0 + passed * 1_000)
        probe(table, {0: 100 + 3 * passed}, at_ms=T0 + passed * 1_000)
    windows = table.windows("g", T0 + 300_000)
    assert windows["1m"].lag_max == windows["15m"].lag_max == 900
    assert windows["5m"].lag_slope == pytest.approx(3.0)
    assert (windows["1m"].commits, windows["15m"].commits) == (6, 31)
    later = table.windows("g", T0 + 300_000 + 120_000)["1m"]
    assert (later.commits, later.lag_max, later.lag_slope) == (0, 900, None)


@pytest.mark.generated
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["commit", "probe"]),
            st.dictionaries(st.integers(0, 5), st.none() | st.integers(0, 1_000), min_size=1, max_size=4),
            st.integers(0, 60_000),
        ),
        max_size=30,
    )
)
def test_lag_is_never_negative_and_always_a_number(steps: list[tuple[str, dict[int, int | None], int]]):
    """For any answers of brokers, in any order."""
    table = LagTable()
    for number, (what, offsets, at_ms) in enumerate(steps):
        if what == "commit":
            commit(table, offsets, at_ms=T0 + at_ms, log_offset=number)
        else:
            probe(table, offsets, at_ms=T0 + at_ms)
        lag = table.lag("g", T0 + at_ms)
        if lag is not None:
            assert all(each is None or each >= 0 for topic in lag.topics.values() for each in topic.lags)
            time_lag_ms = lag.time_lag_ms(T0 + at_ms)
            assert time_lag_ms is None or time_lag_ms >= 0
            assert lag.oldest_unread_error_ms >= 0


def test_what_was_published_is_taken_up_again():
    """After a restart positions and totals are there at once, and a counted row is not counted again."""
    before = LagTable()
    commit(before, {0: 10, 1: 5}, log_offset=7)
    row = before.lag("g", T0)
    assert row is not None
    after = LagTable()
    after.restore(row)
    commit(after, {0: 3}, log_offset=7)
    probe(after, {0: 11, 1: 9})
    lag = lag_of(after)
    assert (lag.total, lag.commits, lag.last_commit_ms) == (5, 2, T0)


def test_a_later_era_of_the_log_counts_at_lower_positions():
    """The watched topic was recreated: its offsets begin at 0 again."""
    table = LagTable()
    commit(table, {0: 10}, log_offset=500)
    times = [T0]
    row = TopicCommits([0], [12], times, times, [], [1])
    later = CommitActivity("c", "g", 3, 0, 0, 5_000, ((T0, 1),), {"orders": row}, log_era=1)
    assert table.take_commits(later)
    assert not table.take_commits(later)
    assert lag_of(table).topics["orders"].committed == [12]


def test_what_is_read_again_after_a_restart_is_in_the_windows_and_not_counted_twice():
    """Totals continue from the published row, windows are built from recent rows, the newest position stays."""
    before = LagTable()
    for second in range(5):
        commit(before, {0: second}, at_ms=T0 + second * 1_000)
    after = LagTable()
    after.restore(lag_of(before))
    for second in range(2, 7):
        commit(after, {0: second}, at_ms=T0 + second * 1_000)
        found = lag_of(after)
        assert found.last_log_offset == max(4, second) * 1_000
    assert found.commits == 7
    assert after.windows("g", T0 + 10_000)["1m"].commits == 5
    assert found.topics["orders"].committed == [6]


def test_lag_that_is_measured_again_after_a_restart_is_that_of_then():
    """Earlier probes are compared with the positions of their time; one before all commits gives no lag."""
    steps = [(second * 1_000, second * 10) for second in range(1, 6)]

    def live(table: LagTable) -> LagTable:
        for at_ms, end in steps:
            probe(table, {0: end}, at_ms=T0 + at_ms)
            table.measure("g", T0 + at_ms)
            commit(table, {0: end - 3}, at_ms=T0 + at_ms + 500)
        return table

    before = live(LagTable())
    after = LagTable()
    after.restore(lag_of(before, T0 + 6_000))
    live(after)
    for table in (before, after):
        probe(table, {0: 90}, at_ms=T0 + 7_000)
    assert after.measure("g", T0 + 7_000) == before.measure("g", T0 + 7_000) == 43
    assert after.windows("g", T0 + 10_000) == before.windows("g", T0 + 10_000)


def test_what_is_read_again_counts_as_read():
    """A coordinator's answer changes nothing for partitions whose commits were read."""
    before = LagTable()
    commit(before, {0: 5})
    after = LagTable()
    after.restore(lag_of(before, T0))
    commit(after, {0: 5})
    after.take_offsets(OffsetActivity("c", "g", T0 + 1_000, committed={"orders": TopicOffsets([0, 1], [7, 2])}))
    assert lag_of(after).topics["orders"].committed == [5, 2]


def test_a_probe_costs_what_it_contains():
    """Partition 19,999 of very many topics allocates no arrays of 20,000; a topic reported from partition 0 on does."""
    table = LagTable()
    for number in range(1_000):
        far = {f"invented-{number}": TopicOffsets([19_999], [5])}
        table.take_offsets(OffsetActivity("c", "g", T0, ends=far, stable_ends=far))
    assert len(table.ends) == 0
    commit(table, {0: 1, 19_999: 2})
    for first in range(0, 20_000, 4_000):
        probe(table, dict.fromkeys(range(first, first + 4_000), 10), at_ms=T0 + first)
    assert lag_of(table).topics["orders"].lags == [9, 8]
    probe(table, {19_999: 12}, at_ms=T0 + 60_000)
    assert lag_of(table).topics["orders"].lags == [9, 10]


@pytest.mark.generated
def test_topics_that_nobody_commits_to_are_forgotten_when_there_are_too_many():
    """Those with commits stay."""
    table = LagTable()
    commit(table, {0: 1})
    probe(table, {0: 10})
    for number in range(50_000):
        table.take_offsets(OffsetActivity("c", "g", T0, ends={f"invented-{number}": TopicOffsets([0], [5])}))
    assert len(table.ends) <= 20_001
    assert lag_of(table).total == 9
