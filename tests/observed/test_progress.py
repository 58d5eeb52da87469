"""Partitions by their commits and end offsets: positions, rhythms, flow, jumps, in bounded memory."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace
from itertools import combinations

import pytest

from histories import MINUTE, SECOND, T0, Event, commits, history, member, probe
from rebalance_contract import CommitActivity, OffsetActivity, TopicCommits, TopicOffsets
from rebalance_streaming.observed.progress import Flow, Jump, Position, Progress, Rhythm

A, B = member("a-1", [0, 1]), member("b-1", [2, 3])
BOTH = {"orders": [0, 1]}
#: Number of generated examples; in one test, because the overhead of a hundred tests exceeds their work.
SEEDS = range(100)


def progress(*events: Event) -> Progress:
    return history(*events).progress


def steady(turns: int = 4, *, step: int = 10, every_ms: int = 5 * SECOND) -> list[Event]:
    """Two partitions that advance together."""
    return [commits(T0 + turn * every_ms, {0: turn * step, 1: turn * step}) for turn in range(turns)]


def test_shortly_before_the_first_probe_records_came_as_they_did_after_it():
    """The first probes of a late prober cover the time shortly before them; not more, nor with one probe."""
    known = progress(probe(T0, ends={0: 100}), probe(T0 + 20 * SECOND, ends={0: 140}))
    asked = [known.estimated_end_at("orders", 0, T0 + at) for at in (-11_000, -5_000, 0, 10_000, 30_000)]
    assert asked == [None, 90, 100, 120, 140]
    assert progress(probe(T0, ends={0: 100})).estimated_end_at("orders", 0, T0 - 1) is None


def test_a_position_joins_commit_and_end():
    """Lag is only known if both are; a commit newer than the probe has none."""
    known = progress(*steady(), probe(T0, ends={0: 25, 1: 50, 2: 7}, stable={0: 20}))
    assert known.position("orders", 1) == Position("orders", 1, 30, 50, None, T0 + 15_000, T0 + 15_000)
    assert [known.position("orders", p).lag for p in (0, 1, 2, 3)] == [0, 20, None, None]
    assert known.position("orders", 0).stable_end == 20
    assert known.position("orders", 2).end == 7
    assert known.position("payments", 0) == Position("payments", 0, None, None, None, None, None)
    assert (known.total_lag(), known.partition_counts()) == (20, {"orders": 3})


def test_a_summary_that_comes_again_changes_nothing():
    """Delivery is at least once; a late row of the same log partition was applied already."""
    events = steady()
    once, again = progress(*events), progress(*events, *events)
    assert list(once.positions()) == list(again.positions())
    assert once.rhythm(BOTH, T0 + MINUTE) == again.rhythm(BOTH, T0 + MINUTE) == Rhythm(T0 + 15_000, 5_000, False, 4)


@pytest.mark.parametrize("width", [2, 40], ids=["few partitions", "many partitions"])
def test_a_pane_that_comes_in_parts_is_one_commit(width: int):
    """A batch may end within a pane: the memory goes as far back as with one row for each pane."""
    in_parts, whole = Progress(), Progress()
    for pane_ms in range(T0, T0 + MINUTE, 5 * SECOND):
        parts = [_commits_of(width, pane_ms + part * SECOND, pane_ms + part * SECOND + 500) for part in range(5)]
        for each in parts:
            in_parts.take_commits(each)
        whole.take_commits(_commits_of(width, pane_ms, pane_ms + 4_500))
    of_one, before_ms = {"orders": [1]}, T0 + MINUTE
    assert in_parts.rhythm(of_one, before_ms) == whole.rhythm(of_one, before_ms)
    assert in_parts.commit_gaps(of_one) == whole.commit_gaps(of_one)
    assert in_parts.committed_before(("orders", 1), T0 + 5 * SECOND) == (T0 + 4_500, T0 + 4_500)


def _commits_of(width: int, first_ms: int, last_ms: int) -> CommitActivity:
    """Return packed commits of some partitions, each from a first to a last one."""
    row = commits(last_ms, dict.fromkeys(range(width), last_ms))
    return replace(row, topics={"orders": replace(row.topics["orders"], first_at_ms=[first_ms] * width)})


def test_the_time_of_the_last_advance_is_not_that_of_the_last_commit():
    """An unchanged offset committed again only shows that the client polls; the partition does not advance."""
    known = progress(*steady(), *(commits(T0 + 20_000 + n * 5_000, {0: 30}) for n in range(3)))
    standing, moving = known.position("orders", 0), known.position("orders", 1)
    assert (standing.committed_ms, standing.advanced_ms) == (T0 + 30_000, T0 + 15_000)
    assert moving.advanced_ms == T0 + 15_000
    assert known.rhythm({"orders": [0]}, T0 + MINUTE).pulse
    assert not known.rhythm({"orders": [1]}, T0 + MINUTE).pulse


def test_commits_have_a_rhythm_and_a_longest_gap():
    """Commits of one request count once; without three there is no rhythm, without two advances no gap."""
    known = progress(*steady(4))
    assert known.rhythm(BOTH, T0 + 7_000) == Rhythm(T0 + 5_000, None, False, 2)
    assert known.rhythm(BOTH, T0 - 1) == Rhythm(None, None, False, 0)
    assert known.longest_gap_ms(BOTH) == 5_000
    assert progress(*steady(2)).longest_gap_ms(BOTH) is None
    assert known.commits_between(BOTH, T0, T0 + 10_000) == 4
    assert known.committed_before(("orders", 0), T0 + 9_000) == (T0 + 5_000, 10)
    assert known.committed_before(("orders", 0), T0 - 1) is None
    assert known.committed_before(("orders", 9), T0) is None


def test_a_later_era_of_the_log_is_read_at_lower_positions():
    """The watched topic was recreated: its offsets begin at 0 again."""
    known = progress(commits(T0, {0: 10}))
    later = replace(commits(T0 + 5_000, {0: 12}), log_era=1, first_log_offset=0, last_log_offset=0)
    known.take_commits(later)
    known.take_commits(commits(T0 + 6_000, {0: 99}))
    assert known.committed_before(("orders", 0), T0 + 9_000) == (T0 + 5_000, 12)


def test_ends_have_a_history():
    """As last probed before a moment; growth needs two probes within the stretch; a probe may leave partitions out."""
    known = progress(
        probe(T0, ends={0: 10, 1: 10}),
        probe(T0 + 20_000, ends={0: 15}),
        probe(T0 + 40_000, ends={0: 30, 1: None, 2: 4}),
    )
    assert [known.end_at("orders", 0, T0 + at) for at in (-1, 0, 30_000, 90_000)] == [None, 10, 15, 30]
    # It was temporarily unknown.
    assert [known.end_at("orders", 1, T0 + at) for at in (30_000, 40_000)] == [10, 10]
    assert [known.end_at("orders", 2, T0 + at) for at in (30_000, 40_000)] == [None, 4]
    assert known.end_growth("orders", 0, T0) == 20
    assert known.end_growth("orders", 0, T0 + 30_000) is None
    assert known.ends_since() == T0


def test_the_history_of_ends_is_bounded_and_goes_back_a_quarter_of_an_hour():
    """Probes every two seconds are thinned to one in ten."""
    known = progress(*(probe(T0 + n * 2_000, ends={0: n}) for n in range(1_000)))
    assert known.position("orders", 0).end == 999
    assert known.end_at("orders", 0, T0 + 1_998_000 - 14 * MINUTE) is not None
    assert known.end_at("orders", 0, T0 + 1_998_000 - 16 * MINUTE) is None


def test_deleted_offsets_are_listed_until_they_are_committed_again():
    """A tombstone removes the partition from the positions."""
    known = progress(*steady(), commits(T0 + MINUTE, {0: None}))
    assert known.deleted() == [("orders", 0, T0 + MINUTE)]
    assert [each.partition for each in known.positions()] == [1]
    again = progress(*steady(), commits(T0 + MINUTE, {0: None}), commits(T0 + 2 * MINUTE, {0: 3}))
    assert again.deleted() == []


def test_jumps_are_steps_back_and_steps_out_of_proportion():
    """Forward steps must be large compared with the earlier steps, and in absolute terms."""
    known = progress(*steady(), commits(T0 + 20_000, {0: 25, 1: 5_000}), commits(T0 + 25_000, {0: 900, 1: 5_010}))
    assert known.jumps == [
        Jump("orders", 0, T0 + 20_000, 30, 25),
        Jump("orders", 1, T0 + 20_000, 30, 5_000),
    ]


@pytest.mark.parametrize("partitions", [2, 40], ids=["one by one", "as columns"])
@pytest.mark.parametrize(
    ("start", "after", "began"),
    [(35, 40, 35), (40, 40, 40), (41, 40, None), (30, 40, None), (None, 40, None), (35, 5_000, 35)],
    ids=["overtaken", "it goes on where it begins", "it is behind still", "nothing is gone", "not known", "far ahead"],
)
def test_an_offset_that_deletion_overtook_is_a_jump(start: int | None, after: int, began: int | None, partitions: int):
    """However short it is: the records between the earlier commit and the new beginning are gone."""
    every = range(partitions)
    known = progress(
        *(commits(T0 + n * 5_000, dict.fromkeys(every, 10 + 10 * n)) for n in range(3)),
        probe(T0 + 12_000, starts={0: start}),
        commits(T0 + MINUTE, {number: after if number == 0 else 40 for number in every}),
    )
    is_far = after > 1_000
    expected = [Jump("orders", 0, T0 + MINUTE, 30, after, start=began)] if began is not None or is_far else []
    assert known.jumps == expected


def test_a_topic_that_is_recreated_begins_anew():
    """Records lost by the old topic are not lost by the new one."""
    known = progress(
        probe(T0, starts={0: 500}, ends={0: 900}),
        commits(T0 + SECOND, {0: 600}),
        probe(T0 + 2 * SECOND, ends={0: 3}),
        commits(T0 + 3 * SECOND, {0: 3}),
        commits(T0 + 8 * SECOND, {0: 700}),
    )
    assert [(each.before, each.after, each.start) for each in known.jumps] == [(600, 3, None)]


def made_up(seed: int, *topics: str) -> Progress:
    """Return commits of any partitions of these topics at any times, which may go back, with probes of orders."""
    chance = random.Random(seed)
    events: list[Event] = []
    at_ms = T0
    for _ in range(chance.randrange(1, 40)):
        at_ms += chance.choice((0, 40, 5_000, 30_000, 200_000, -3_000))
        some = chance.sample(range(4), chance.randrange(1, 5))
        if chance.random() < 0.3:
            events.append(probe(at_ms, ends={p: chance.choice((5, 20, 40, 60, None)) for p in range(4)}))
        else:
            offsets = {p: chance.choice((None, 0, 10, 20, 30)) for p in some}
            events.append(commits(at_ms, offsets, topic=chance.choice(topics)))
    return progress(*events)


def test_no_gap_is_longer_than_its_bound():
    """For any partitions of a topic: rules only compute gaps if the bound is long."""
    numbers = range(4)
    chosen = [list(part) for size in numbers for part in combinations(numbers, size + 1)]
    for seed in SEEDS:
        known = made_up(seed, "orders", "payments")
        for some in chosen:
            for partitions in ({"orders": some}, {"orders": some, "payments": [0, 3]}):
                bound = known.longest_gap_bound_ms(partitions)
                assert (known.longest_gap_ms(partitions) or 0) <= max(bound, 50), seed


def test_flow_is_that_of_the_partitions_together():
    """Each between its last commit and the last one half a minute before; one unknown end makes it unknown."""
    for seed in SEEDS:
        known = made_up(seed, "orders")
        assert known.flow(30_000) == added_up(known), seed


def added_up(known: Progress) -> Flow | None:
    """Compute the flow partition by partition."""
    positions, produced, consumed = list(known.positions()), 0.0, 0.0
    for each in positions:
        assert each.committed is not None
        assert each.committed_ms is not None
        place = each.topic, each.partition
        before = known.committed_before(place, each.committed_ms - 30_000)
        if before is not None:
            ends = known.end_at(*place, before[0]), known.end_at(*place, each.committed_ms)
            if ends[0] is not None and ends[1] is not None:
                seconds = (each.committed_ms - before[0]) / 1000
                produced += (ends[1] - ends[0]) / seconds
                consumed += (each.committed - before[1]) / seconds
    lags = [each.lag for each in positions]
    if None in lags:
        return None
    return Flow(pytest.approx(produced), pytest.approx(consumed), sum(each or 0 for each in lags), len(lags))


def test_a_probe_costs_what_it_contains():
    """Partition 19,999 of very many topics allocates no arrays of 20,000."""
    known = Progress()
    ends = {f"invented-{number}": TopicOffsets([19_999], [5]) for number in range(1_000)}
    assert not known.take_offsets(OffsetActivity("c", "g", T0, ends, ends))
    assert known.partition_counts() == {}
    assert known.take_offsets(
        OffsetActivity("c", "g", T0, {"whole": TopicOffsets([0, 1], [5, 5])}, {"whole": TopicOffsets([0], [5])})
    )
    assert known.partition_counts() == {"whole": 2}


def test_a_commit_costs_what_it_contains():
    """Likewise for a commit of partition 19,999: the state is as large as what was committed."""
    far = {f"t-{number}": TopicCommits([19_999], [5], [T0], [T0], [1], [1]) for number in range(1_000)}
    tracemalloc.start()
    known = Progress()
    known.take_commits(CommitActivity("c", "g", 0, 1, 1, 5_000, ((T0, 1),), far))
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used < 10_000 * len(far)
    assert known.position("t-7", 19_999).committed == 5
    assert known.position("t-7", 0).committed is None


def test_partitions_come_in_any_order():
    """Columns stay those of their partitions when others are inserted between them."""
    known = progress(
        commits(T0, {5: 50}),
        commits(T0 + 5 * SECOND, {9: 90, 2: 20}),
        commits(T0 + 10 * SECOND, {5: 55, 2: 22, 7: 70}),
        probe(T0 + 11 * SECOND, ends=dict.fromkeys(range(9), 100)),
    )
    assert {at.partition: (at.committed, at.lag) for at in known.positions()} == {
        2: (22, 78),
        5: (55, 45),
        7: (70, 30),
        9: (90, None),
    }
    assert known.committed_before(("orders", 5), T0 + 5 * SECOND) == (T0, 50)
    assert known.commits_between({"orders": [2, 3, 9]}, T0, T0 + MINUTE) == 3
    assert [at.partition for at in known.lagging(45)] == [2]
