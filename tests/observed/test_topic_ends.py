"""End offsets of topics are stored once for all groups; each group sees them from its own first probe on."""

from __future__ import annotations

import pytest

from histories import MINUTE, SECOND, T0
from rebalance_contract import CommitActivity, OffsetActivity, TopicCommits, TopicOffsets
from rebalance_streaming.engine.lag import LagTable
from rebalance_streaming.observed.progress import Progress
from rebalance_streaming.observed.topic_ends import ClusterEnds, TopicEnds


def ends_of(*offsets: int) -> dict[str, TopicOffsets]:
    """Return the end offsets of a topic in a probe."""
    return {"orders": TopicOffsets(list(range(len(offsets))), list(offsets))}


def probed(at_ms: int, ends: dict[str, TopicOffsets], stable: dict[str, TopicOffsets] | None = None) -> OffsetActivity:
    """Make a probe."""
    return OffsetActivity("c", "g", at_ms, ends, stable or {})


def two_groups() -> tuple[Progress, Progress]:
    """Return two groups of one cluster."""
    ends = ClusterEnds()
    return Progress(ends), Progress(ends)


def test_groups_that_read_one_topic_get_the_same_moments():
    """A round of probes has a row for each of them; the result does not depend on their number."""
    (one, other), alone = two_groups(), Progress()
    for second in range(0, 1_200, 5):
        at_ms, ends = T0 + second * SECOND, ends_of(second)
        assert one.take_offsets(probed(at_ms, ends, ends))
        assert other.take_offsets(probed(at_ms, ends, ends))
        assert alone.take_offsets(probed(at_ms, ends, ends))
    for back_ms in range(0, 20 * MINUTE, 7 * SECOND):
        at_ms = T0 + 1_200 * SECOND - back_ms
        expected = alone.estimated_end_at("orders", 0, at_ms), alone.end_growth("orders", 0, at_ms)
        assert (one.estimated_end_at("orders", 0, at_ms), one.end_growth("orders", 0, at_ms)) == expected
        assert (other.estimated_end_at("orders", 0, at_ms), other.end_growth("orders", 0, at_ms)) == expected


@pytest.mark.parametrize("begun_s", [600, 605])
def test_a_group_knows_ends_from_its_own_first_probe_on(begun_s: int):
    """Another group's earlier probes do not count for its past; afterwards its view is the same as alone."""
    (one, other), alone = two_groups(), Progress()
    for second in range(0, 1_200, 5):
        at_ms, ends = T0 + second * SECOND, ends_of(second)
        one.take_offsets(probed(at_ms, ends))
        if second >= begun_s:
            other.take_offsets(probed(at_ms, ends))
            alone.take_offsets(probed(at_ms, ends))
        elif second == begun_s - 5:
            assert (other.ends_since(), other.partition_counts(), other.end_at("orders", 0, at_ms)) == (None, {}, None)
    assert (one.ends_since() or 0) < T0 + (begun_s - 5) * SECOND
    assert other.ends_since() == alone.ends_since() == T0 + begun_s * SECOND
    for second in range(begun_s - 20, 1_200, 3):
        at_ms = T0 + second * SECOND
        assert other.estimated_end_at("orders", 0, at_ms) == alone.estimated_end_at("orders", 0, at_ms)
        assert other.end_growth("orders", 0, at_ms) == alone.end_growth("orders", 0, at_ms)
        assert other.first_probe_ms("orders", at_ms) == alone.first_probe_ms("orders", at_ms)
    assert other.first_end("orders", 0) == alone.first_end("orders", 0)


def test_groups_that_come_and_go_take_nothing_of_what_another_one_knows():
    """Console consumers have a new group each: a quarter of an hour is kept, in twice the memory."""
    ends = ClusterEnds()
    known = Progress(ends)
    for second in range(0, 1_800, 5):
        at_ms = T0 + second * SECOND
        known.take_offsets(probed(at_ms, ends_of(second)))
        Progress(ends).take_offsets(probed(at_ms, ends_of(second)))
    assert known.end_at("orders", 0, at_ms - 14 * MINUTE) == second - 14 * 60
    assert len(known_of(ends).recent.times) <= 180


def test_ends_probed_for_one_group_are_news_to_the_other():
    """To each of them once."""
    one, other = two_groups()
    assert one.take_offsets(probed(T0, ends_of(5)))
    assert other.take_offsets(probed(T0, ends_of(5)))
    assert one.take_offsets(probed(T0 + SECOND, ends_of(6)))
    assert other.take_offsets(probed(T0 + SECOND, ends_of(6)))
    assert not one.take_offsets(probed(T0 + 2 * SECOND, ends_of(6)))


def test_a_topic_that_is_made_anew_has_no_day_behind_it():
    """Ends only grow: those before a lower one belong to another topic. Rules see the recreation."""
    ends = ClusterEnds()
    for second in range(0, 60, 5):
        ends.take(probed(T0 + second * SECOND, ends_of(1_000 + second)))
    ends.take(probed(T0 + MINUTE, ends_of(3)))
    known = known_of(ends)
    assert known.day.of_partition(0) == [3]
    assert known.recent.of_partition(0)[-2:] == [1_050, 3]


def test_an_older_probe_changes_nothing():
    """It is from another prober, or from a backlog."""
    ends = ClusterEnds()
    ends.take(probed(T0 + SECOND, ends_of(7), ends_of(7)))
    version = known_of(ends).version
    ends.take(probed(T0, ends_of(5, 5), ends_of(5, 5)))
    assert (known_of(ends).end.tolist(), known_of(ends).stable.tolist()) == ([7], [7])
    assert known_of(ends).version == version


def known_of(ends: ClusterEnds) -> TopicEnds:
    """Return the known end offsets of the topic."""
    known = ends.get("orders")
    assert known is not None
    return known


def test_a_topic_that_nobody_reads_any_more_is_forgotten():
    """A while after its last group, which may return; not while another group reads it."""
    table = LagTable()
    for group in ("a", "b"):
        table.take_offsets(OffsetActivity("c", group, T0, ends=ends_of(5) | {f"of-{group}": TopicOffsets([0], [1])}))
    commits = TopicCommits([0], [1], [T0], [T0], [1], [1])
    table.take_commits(CommitActivity("c", "b", 0, 1, 1, 5_000, ((T0, 1),), {"of-a": commits}))
    table.forget_group("a")
    forget_for(table, T0, 40)
    assert {name for name in ("orders", "of-a", "of-b") if name in table.ends} == {"orders", "of-a", "of-b"}
    table.forget_group("b")
    forget_for(table, T0 + 40 * MINUTE, 14)
    assert len(table.ends) == 3
    forget_for(table, T0 + 54 * MINUTE, 20)
    assert len(table.ends) == 0


def forget_for(table: LagTable, from_ms: int, minutes: int) -> None:
    """Let a table check for unused topics, once a minute."""
    for minute in range(minutes):
        table.forget_unread(from_ms + minute * MINUTE)
