"""Packing commits per group and pane."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_contract import CommitActivity, encode
from rebalance_contract.activity import MAX_ACTIVITY_BYTES
from rebalance_devtools.bench import fill
from rebalance_streaming.activity.commits import LogColumns, LogEra, pack_commits
from rebalance_streaming.engine.lag import LagTable
from rebalance_streaming.observed.plausible import check
from rebalance_streaming.wire.commits import KeyCache, decode_commits

PANE_MS = 5_000

# group, partition, offset (null for a tombstone), record time
Commit = tuple[str, int, int | None, int]


def pack(
    commits: list[Commit],
    eras: dict[int, LogEra] | None = None,
    *,
    reported_ms: Sequence[int] = (),
    probed_ms: Mapping[str, Sequence[int]] = MappingProxyType({}),
    batch_ms: int | None = None,
) -> list[CommitActivity]:
    """Pack commits that are consecutive in one log partition; their commit times are those of their records."""
    keys = pa.array([fill.commit_key(group, "t", p) for group, p, _, _ in commits], pa.binary())
    times = reported_ms or [at for *_, at in commits]
    values = [
        None if offset is None else fill.commit_value(offset, at)
        for (_, _, offset, _), at in zip(commits, times, strict=True)
    ]
    rows = len(commits)
    log = LogColumns(
        np.full(rows, 3, dtype=np.int32),
        np.arange(100, 100 + rows),
        np.array([at for *_, at in commits], dtype=np.int64),
    )
    batch = decode_commits(keys, pa.array(values, pa.binary()), KeyCache())
    return list(pack_commits(batch, log, "c", PANE_MS, eras or {}, probed_ms=probed_ms, batch_ms=batch_ms))


def test_the_last_commit_of_a_partition_counts():
    """One row per group and pane, with the last offset, its position in the log and the number of commits."""
    (summary,) = pack([("g", 0, 5, 10_000), ("g", 1, 7, 10_001), ("g", 0, 6, 10_002)])
    assert (summary.group, summary.pane_counts, summary.log_partition) == ("g", ((10_000, 3),), 3)
    topic = summary.topics["t"]
    assert (topic.partitions, topic.offsets, topic.commits) == ([0, 1], [6, 7], [2, 1])
    assert (topic.committed_at_ms, topic.log_offsets) == ([10_002, 10_001], [102, 101])
    assert topic.first_at_ms == [10_000, 10_001]
    assert (summary.first_log_offset, summary.last_log_offset) == (100, 102)


def test_groups_and_panes_are_kept_apart():
    """Two groups, one of them with commits in two panes, give three summaries."""
    found = pack([("a", 0, 1, 1_000), ("b", 0, 1, 1_500), ("a", 0, 2, 6_000)])
    assert [(each.group, each.pane_counts[0][0]) for each in found] == [("a", 0), ("a", 5_000), ("b", 0)]


def test_a_deleted_offset_is_null_with_the_records_time():
    """A tombstone is the latest state of its partition in the pane."""
    (summary,) = pack([("g", 0, 5, 1_000), ("g", 0, None, 1_200)])
    topic = summary.topics["t"]
    assert (topic.offsets, topic.committed_at_ms, topic.commits) == ([None], [1_200], [2])


@pytest.mark.parametrize("offset", [-1, -2, -(2**63)])
def test_an_offset_below_0_is_none(offset: int):
    """A Sarama client may commit -1, which brokers store; the commits of the group's other partitions still count."""
    (row,) = pack([("g", 0, 5, 1_000), ("g", 0, offset, 1_200), ("g", 1, 7, 1_300)])
    check(row, 1_300)
    assert (row.topics["t"].offsets, row.topics["t"].committed_at_ms) == ([None, 7], [1_200, 1_300])


def test_an_offset_that_no_log_reaches_spoils_no_row():
    """A client that seeks to the largest possible offset commits that offset."""
    (row,) = pack([("g", 0, 2**63 - 1, 1_000), ("g", 1, 7, 1_000)])
    check(row, 1_000)
    assert row.topics["t"].offsets == [2**62, 7]


@pytest.mark.parametrize(("reported_ms", "expected_ms"), [(-1, 50_000), (10**15, 50_000), (2**63 - 1, 50_000), (7, 7)])
def test_a_commits_time_that_cannot_be_is_its_records(reported_ms: int, expected_ms: int):
    """In the first version of OffsetCommit clients set the commit time themselves, whatever their clocks show."""
    (row,) = pack([("g", 0, 5, 50_000), ("g", 1, 5, 50_000)], reported_ms=[reported_ms, 50_000])
    check(row, 50_000)
    assert row.topics["t"].committed_at_ms == row.topics["t"].first_at_ms == [expected_ms, 50_000]


def test_nothing_gives_nothing():
    """A batch may be empty, and so may one that contains only corrupt records."""
    assert pack([]) == []


@pytest.mark.generated
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]),
            st.integers(0, 2),
            st.none() | st.integers(0, 9),
            st.integers(0, 3).map(lambda n: n * 4_000),
        )
    )
)
def test_summaries_say_what_a_plain_loop_would(commits: list[Commit]):
    """The columnar result equals that of a plain dictionary: by the group's latest pane until then."""
    expected: dict[tuple[str, int, int], tuple[int | None, int]] = {}
    panes: Counter[tuple[str, int]] = Counter()
    latest: dict[str, int] = {}
    for group, partition, offset, at in commits:
        pane_ms = at // PANE_MS * PANE_MS
        panes[group, pane_ms] += 1
        latest[group] = max(pane_ms, latest.get(group, 0))
        place = (group, latest[group], partition)
        expected[place] = (offset, expected.get(place, (None, 0))[1] + 1)
    rows = pack(commits)
    found = {
        (summary.group, summary.pane_counts[-1][0], partition): (offset, count)
        for summary in rows
        for topic in summary.topics.values()
        for partition, offset, count in zip(topic.partitions, topic.offsets, topic.commits, strict=True)
    }
    assert found == expected
    counted: Counter[tuple[str, int]] = Counter()
    for row in rows:
        counted.update({(row.group, pane_ms): count for pane_ms, count in row.pane_counts})
    assert counted == panes


@pytest.mark.generated
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2), st.integers(0, 9), st.integers(0, 90_000))),
    st.lists(st.integers(0, 90_000)),
    st.sampled_from([None, 1_000]),
)
def test_the_rows_of_a_group_are_apart_in_the_log(commits: list[Commit], probes: list[int], batch_ms: int | None):
    """Whatever the times of records and probes are: each row begins after the previous one, and no commit is lost."""
    ends: dict[str, int] = {}
    for row in pack(commits, probed_ms={"a": probes}, batch_ms=batch_ms):
        assert row.first_log_offset > ends.get(row.group, -1)
        ends[row.group] = row.last_log_offset
        assert sum(count for _, count in row.pane_counts) == row.commits
    assert ends == {group: 100 + number for number, (group, *_) in enumerate(commits)}


@pytest.mark.parametrize("back_ms", [2_000, 12_000, 60_000])
def test_a_coordinators_clock_that_goes_back_loses_no_commit(back_ms: int):
    """A group moves to a broker with a slower clock: one batch or one for each commit, the result is the same."""
    times = [100_000 + 1_000 * number - (back_ms if number >= 10 else 0) for number in range(20)]
    commits: list[Commit] = [("g", number % 4, 100 + number, at) for number, at in enumerate(times)]
    single, table = LagTable(), LagTable()
    for number, (row,) in enumerate(pack([each]) for each in commits):
        single.take_commits(replace(row, first_log_offset=number, last_log_offset=number))
    assert all(table.take_commits(row) for row in pack(commits))
    expected, found = single.lag("g", 200_000), table.lag("g", 200_000)
    assert expected is not None
    assert found is not None
    assert (found.commits, found.topics) == (20, expected.topics)
    assert found.topics["t"].committed == [116, 117, 118, 119]
    assert table.windows("g", 200_000) == single.windows("g", 200_000)


def test_a_row_has_the_newest_panes_of_its_commits_only():
    """As many as 15 minutes have, also if clocks differ by hours."""
    commits: list[Commit] = [("g", 0, number, 10_000_000 - number * PANE_MS) for number in range(200)]
    (row,) = pack(commits)
    assert row.commits == 200
    assert row.pane_counts == tuple((10_000_000 - number * PANE_MS, 1) for number in reversed(range(180)))


def test_a_row_ends_where_the_group_was_probed():
    """A commit at the same time is before the probe; other groups keep one row per pane, and no commit is lost."""
    commits: list[Commit] = [("a", 0, 1, 1_000), ("b", 0, 1, 1_500), ("a", 0, 2, 2_000), ("a", 0, 3, 2_001)]
    commits += [("b", 0, 2, 3_000), ("a", 1, 9, 4_000), ("a", 0, 4, 6_000)]
    found = pack(commits, probed_ms={"a": [2_000, 3_500, 3_600, 20_000], "c": [1_200]})
    rows = [(each.group, each.pane_counts, [topic.offsets for topic in each.topics.values()]) for each in found]
    assert rows == [
        ("a", ((0, 2),), [[2]]),
        ("a", ((0, 1),), [[3]]),
        ("a", ((0, 1),), [[9]]),
        ("a", ((5_000, 1),), [[4]]),
        ("b", ((0, 2),), [[2]]),
    ]
    assert [each.last_log_offset for each in found] == [102, 103, 105, 106, 104]


def test_a_pane_has_a_row_for_each_batch():
    """The rows of a pane have its start, and together its commits."""
    commits: list[Commit] = [("g", 0, 1, 5_100), ("g", 0, 2, 5_900), ("g", 0, 3, 6_000), ("g", 0, 4, 10_000)]
    found = pack(commits, probed_ms={"g": [5_500]}, batch_ms=1_000)
    assert [each.pane_counts for each in found] == [((5_000, 1),), ((5_000, 1),), ((5_000, 1),), ((10_000, 1),)]
    assert [each.topics["t"].offsets for each in found] == [[1], [2], [3], [4]]
    assert {each.pane_ms for each in found} == {PANE_MS}
    (history, _) = pack(commits, {3: LogEra(first_live=103)}, batch_ms=1_000)
    assert (history.is_history, history.commits) == (True, 3)


def test_a_probe_changes_the_order_of_no_commits():
    """A coordinator's clock that goes back across a probe: the later record still comes in the later row."""
    found = pack([("g", 0, 5, 2_500), ("g", 0, 6, 1_900), ("g", 0, 7, 2_600)], probed_ms={"g": [2_000]})
    assert [each.topics["t"].offsets for each in found] == [[7]]
    found = pack([("g", 0, 5, 1_500), ("g", 0, 6, 2_500), ("g", 0, 7, 1_600)], probed_ms={"g": [2_000]})
    assert [each.topics["t"].offsets for each in found] == [[5], [7]]
    assert [each.last_log_offset for each in found] == [100, 102]


HISTORY = {3: LogEra(first_live=104)}


def test_history_is_one_row_per_group_however_long_it_is():
    """Before the monitor's first look only positions count; the last quarter of an hour keeps its counts by pane."""
    old, new = 1_000_000, 1_000_000 + 3_600_000
    found = pack([("g", 0, 1, old), ("g", 0, 2, new), ("g", 1, 3, new + 12_000), ("g", 1, 4, new + 13_000)], HISTORY)
    (row,) = found
    assert row.is_history
    assert row.topics["t"].offsets == [2, 4]
    assert row.pane_counts == ((new // 10_000 * 10_000, 1), ((new + 12_000) // 10_000 * 10_000, 2))
    assert row.commits == 4


def test_history_is_not_divided_by_probes():
    """It only gives a position."""
    found = pack([("g", 0, number, 1_000 * number) for number in range(1, 5)], HISTORY, probed_ms={"g": [2_000]})
    assert [(each.is_history, each.commits) for each in found] == [(True, 4)]


def test_what_comes_after_the_first_look_is_by_pane():
    """One log partition has both, and each row is of one kind."""
    commits: list[Commit] = [("g", 0, number, 1_000_000 + 6_000 * number) for number in range(6)]
    found = pack(commits, HISTORY)
    assert [(each.is_history, each.commits) for each in found] == [(True, 4), (False, 1), (False, 1)]
    assert [each.last_log_offset for each in found] == [103, 104, 105]
    # Each commit counts once.
    assert [sum(count for _, count in each.pane_counts) for each in found] == [4, 1, 1]


def test_a_large_group_is_cut_into_rows_that_fit():
    """Each row is below the limit, later rows have later log positions, and together they have every partition."""
    commits: list[Commit] = [("g", p, 7, 10_000) for p in range(6_000)]
    found = pack(commits)
    assert len(found) > 1
    assert all(len(encode(each)) <= MAX_ACTIVITY_BYTES for each in found)
    assert [each.last_log_offset for each in found] == sorted(each.last_log_offset for each in found)
    assert sorted(p for each in found for p in each.topics["t"].partitions) == list(range(6_000))
    assert sum(count for each in found for _, count in each.pane_counts) == 6_000


def test_the_era_of_the_log_is_in_the_rows():
    """A truncated or recreated log begins another era, whose positions are later than all earlier ones."""
    (row,) = pack([("g", 0, 1, 1_000)], {3: LogEra(first_live=0, number=2)})
    assert (row.log_era, row.is_history) == (2, False)
