"""The order of packed commits among probes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from rebalance_contract import CommitActivity, OffsetActivity, Probe, ProbeActivity, TopicCommits, TopicOffsets
from rebalance_streaming.activity.ordering import CommitTimes, probe_times, probed_at

T0 = 1_000_000


def commits(at_ms: int, pane_ms: int = T0, group: str = "g") -> CommitActivity:
    """Return a row of one commit in a pane of 5 s."""
    topic = TopicCommits([0], [1], [at_ms], [at_ms], [1], [1])
    return CommitActivity("c", group, 7, 1, 1, 5_000, ((pane_ms, 1),), {"orders": topic})


def test_rows_of_commits_have_the_time_of_their_last_commit():
    """Each group on its own."""
    times = CommitTimes()
    assert [times.of(commits(T0 + 3_000)), times.of(commits(T0 + 1_000, group="h"))] == [T0 + 3_000, T0 + 1_000]


def test_the_rows_of_a_group_stay_in_the_order_of_the_log():
    """A row is ignored once a later one of its group was read, so a clock that went back must not change the order."""
    times = CommitTimes()
    assert [times.of(commits(T0 + 3_000)), times.of(commits(T0 + 1_000)), times.of(commits(T0 + 4_000))] == [
        T0 + 3_000,
        T0 + 3_000,
        T0 + 4_000,
    ]


def test_a_client_that_sets_the_times_of_its_commits_moves_them_within_their_pane_only():
    """Until OffsetCommit version 1 they are the client's; its row would wait for hours otherwise."""
    times = CommitTimes()
    assert [times.of(commits(T0 - 7_200_000)), times.of(commits(T0 + 7_200_000))] == [T0, T0 + 4_999]
    history = replace(commits(T0 - 60_000), is_history=True)
    assert CommitTimes().of(history) == T0 - 60_000


def test_lag_is_measured_when_the_ends_of_partitions_were_probed():
    """Other answers about a group measure nothing; the rows of one probe count once."""
    ends = OffsetActivity("c", "g", T0, ends={"orders": TopicOffsets([0], [5])})
    state = ProbeActivity(Probe(probed_at_ms=T0 + 1, cluster="c", group="g", state="Stable"))
    starts = OffsetActivity("c", "g", T0 + 2, starts={"orders": TopicOffsets([0], [0])})
    found: defaultdict[str, list[int]] = defaultdict(list)
    probe_times([ends, ends, state, starts, replace(ends, group="h", probed_at_ms=T0 + 3)], found)
    assert {group: times for group, times in found.items() if times} == {"g": [T0], "h": [T0 + 3]}
    assert [probed_at(ends), probed_at(state)] == [T0, T0 + 1]
