"""Packing commits per group and pane."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rebalance_deploy.bench import fill
from rebalance_streaming.groups.commits import LogColumns, summarise
from rebalance_streaming.groups.events import CommitSummary
from rebalance_streaming.wire.commits import KeyCache, decode_commits

PANE_MS = 5_000

# group, partition, offset or null for a tombstone, record time
Commit = tuple[str, int, int | None, int]


def pack(commits: list[Commit]) -> list[CommitSummary]:
    """Pack commits that lie one after the other in one log partition."""
    keys = pa.array([fill.commit_key(group, "t", p) for group, p, _, _ in commits], pa.binary())
    values = [None if offset is None else fill.commit_value(offset, at) for _, _, offset, at in commits]
    rows = len(commits)
    log = LogColumns(
        np.full(rows, 3, dtype=np.int32),
        np.arange(100, 100 + rows),
        np.array([at for *_, at in commits], dtype=np.int64),
    )
    return list(summarise(decode_commits(keys, pa.array(values, pa.binary()), KeyCache()), log, "c", PANE_MS))


def test_the_last_commit_of_a_partition_counts():
    """One row per group and pane, with the last offset, its place in the log and the number of commits."""
    (summary,) = pack([("g", 0, 5, 10_000), ("g", 1, 7, 10_001), ("g", 0, 6, 10_002)])
    assert (summary.group, summary.pane_start_ms, summary.log_partition) == ("g", 10_000, 3)
    topic = summary.topics["t"]
    assert (topic.partitions, topic.offsets, topic.commits) == ([0, 1], [6, 7], [2, 1])
    assert (topic.committed_at_ms, topic.log_offsets) == ([10_002, 10_001], [102, 101])
    assert (summary.first_log_offset, summary.last_log_offset) == (101, 102)


def test_groups_and_panes_are_kept_apart():
    """Two groups, one of them over two panes, are three summaries."""
    found = pack([("a", 0, 1, 1_000), ("b", 0, 1, 1_500), ("a", 0, 2, 6_000)])
    assert [(each.group, each.pane_start_ms) for each in found] == [("a", 0), ("a", 5_000), ("b", 0)]


def test_a_deleted_offset_is_null_with_the_records_time():
    """A tombstone is the pane's last word on its partition."""
    (summary,) = pack([("g", 0, 5, 1_000), ("g", 0, None, 1_200)])
    topic = summary.topics["t"]
    assert (topic.offsets, topic.committed_at_ms, topic.commits) == ([None], [1_200], [2])


def test_nothing_gives_nothing():
    """A batch may be empty, and so may one whose every record is corrupt."""
    assert pack([]) == []


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
    """The columns' result is that of the obvious dictionary."""
    expected: dict[tuple[str, int, int], tuple[int | None, int]] = {}
    for group, partition, offset, at in commits:
        place = (group, at // PANE_MS * PANE_MS, partition)
        expected[place] = (offset, expected.get(place, (None, 0))[1] + 1)
    found = {
        (summary.group, summary.pane_start_ms, partition): (offset, count)
        for summary in pack(commits)
        for topic in summary.topics.values()
        for partition, offset, count in zip(topic.partitions, topic.offsets, topic.commits, strict=True)
    }
    assert found == expected
