"""The impact of rebalances: from rows in any order, with repetitions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest

from histories import T0, member, rebalance
from rebalance_contract import CommitGap, CountedImpact, GroupImpact, Rebalance, RebalanceImpact
from rebalance_streaming.engine.impact import ImpactTracker

SECOND = 1_000
A, B = member("a-1", [0]), member("b-1", [1])
FIRST = rebalance(T0, [A], [A, B], took_ms=30 * SECOND)
LATER = rebalance(T0 + 300 * SECOND, [A, B], [A])
#: Lag before both rebalances, between them and after: (milliseconds from T0, records).
LAGS = [(-5_000, 10), (20_000, 40), (299_000, 40), (305_000, 60), (360_000, 35)]


def rows_of(tracker: ImpactTracker) -> dict[str, RebalanceImpact]:
    return {row.rebalance_id: row for row in tracker.changed() if isinstance(row, RebalanceImpact)}


def silence(partition: int, from_ms: int, to_ms: int) -> CommitGap:
    return CommitGap("orders", partition, from_ms, to_ms)


def test_time_is_lost_from_the_start_of_the_rebalance_to_the_next_commit():
    """Or from the last commit if that was later; each partition once."""
    tracker = ImpactTracker("prod")
    tracker.take_rebalance(FIRST)
    gaps = [silence(0, T0 - 4_000, T0 + 31_000), silence(1, T0 + 2_000, T0 + 30_500)]
    tracker.take_commit_gaps(FIRST.group, gaps)
    (row,) = rows_of(tracker).values()
    assert row.silences == tuple(gaps)
    assert row.lost_partition_ms == 31_000 + 28_500
    assert tracker.changed() == []


@pytest.mark.parametrize(
    "gap",
    [silence(0, T0 - 20_000, T0 - 1_000), silence(1, T0 + 30_001, T0 + 50_000)],
    ids=["over before", "begun after"],
)
def test_other_gaps_are_not_its_own(gap: CommitGap):
    """Gaps that ended before it began, or began after its end."""
    tracker = ImpactTracker("prod")
    tracker.take_rebalance(FIRST)
    tracker.take_commit_gaps(FIRST.group, [gap])
    assert rows_of(tracker) == {}


def test_what_silences_cost_does_not_fall_when_others_take_their_place():
    """A group with irregular commits has more gaps than are kept, for hours."""
    tracker = ImpactTracker("prod")
    tracker.take_rebalance(FIRST)
    tracker.take_commit_gaps(FIRST.group, [silence(0, T0 - 4_000, T0 + 31_000), silence(0, T0 + 9_000, T0 + 32_000)])
    lost_ms = rows_of(tracker)[FIRST.rebalance_id].lost_partition_ms
    for batch in range(12):
        later = [(number % 7, T0 + number * 40 * SECOND) for number in range(500 * batch + 1, 500 * batch + 501)]
        tracker.take_commit_gaps(FIRST.group, [silence(place, at_ms, at_ms + 9_000) for place, at_ms in later])
    assert rows_of(tracker) == {}
    tracker.take_rebalance(replace(FIRST, leader="b-1"))
    assert rows_of(tracker) == {}
    assert tracker.lost_ms(FIRST.group, 0) == lost_ms


def test_silences_wait_an_hour_for_their_rebalance():
    """A group that never rebalances keeps them no longer, however it commits."""

    def cost(waited_ms: int) -> dict[str, RebalanceImpact]:
        tracker = ImpactTracker("prod")
        tracker.take_commit_gaps(FIRST.group, [silence(0, T0 - 4_000, T0 + 31_000)])
        tracker.take_commit_gaps(FIRST.group, [silence(1, T0 + waited_ms, T0 + 31_000 + waited_ms)])
        tracker.take_rebalance(FIRST)
        return rows_of(tracker)

    assert cost(3_600 * SECOND)[FIRST.rebalance_id].lost_partition_ms == 31_000
    assert cost(3_600 * SECOND + 1) == {}


def test_of_a_forgotten_group_nothing_changed():
    """Another group's did."""
    tracker = ImpactTracker("prod")
    for group in ("one", "two"):
        tracker.take_rebalance(replace(FIRST, group=group))
        tracker.take_commit_gaps(group, [silence(0, T0 - 4_000, T0 + 31_000)])
    tracker.forget_group("one")
    assert {row.group for row in tracker.changed()} == {"two"}


def test_the_order_of_rows_does_not_matter():
    """The row of a rebalance may arrive after the gap that it caused, because another query writes it."""

    def row_after(order: tuple[int, ...]) -> RebalanceImpact:
        tracker = ImpactTracker("prod")
        steps = [
            lambda: tracker.take_rebalance(replace(FIRST, outcome="ongoing", completed_at_ms=None)),
            lambda: tracker.take_commit_gaps(FIRST.group, [silence(0, T0, T0 + 20_000)]),
            lambda: tracker.take_commit_gaps(FIRST.group, [silence(1, T0 + 1_000, T0 + 25_000)]),
        ]
        for step in order:
            steps[step]()
        tracker.take_rebalance(FIRST)
        (row,) = rows_of(tracker).values()
        return row

    assert len({row_after(order) for order in itertools.permutations(range(3))}) == 1


def test_a_rebalance_that_is_judged_again_replaces_what_it_added():
    """Totals count each departure once, however often and by whichever run it is reported."""
    tracker = ImpactTracker("prod")
    for each in (FIRST, LATER):
        tracker.take_rebalance(each)
    tracker.take_timeouts(FIRST.group, FIRST.rebalance_id, ["x"], [])
    tracker.take_timeouts(LATER.group, LATER.rebalance_id, [], ["b-1"])
    tracker.take_timeouts(FIRST.group, FIRST.rebalance_id, ["x", "y"], [])
    (totals,) = [row for row in tracker.changed() if isinstance(row, GroupImpact)]
    assert totals.totals() == CountedImpact(2, 1, 0)
    again = ImpactTracker("prod")
    again.restore(totals)
    again.take_rebalance(FIRST)
    again.take_timeouts(FIRST.group, FIRST.rebalance_id, ["x", "y"], [])
    assert not [row for row in again.changed() if isinstance(row, GroupImpact)]


def test_how_a_member_left_is_counted_as_it_was_reported_first():
    """A later judgement, or one after a restart, adds members; it does not reclassify any."""
    tracker = ImpactTracker("prod")
    tracker.restore(RebalanceImpact("prod", FIRST.group, FIRST.rebalance_id, expired=("x",), poll_timeout=()))
    tracker.take_rebalance(FIRST)
    tracker.take_timeouts(FIRST.group, FIRST.rebalance_id, ["y"], ["x", "z"])
    known = rows_of(tracker)[FIRST.rebalance_id]
    assert (known.expired, known.poll_timeout) == (("x", "y"), ("z",))


def test_totals_never_go_back_and_stay_bounded():
    """In a storm only the latest rebalances are kept individually; the sum includes all of them."""
    tracker = ImpactTracker("prod")
    for number in range(250):
        each: Rebalance = rebalance(T0 + number * 60 * SECOND, [A, B], [A])
        tracker.take_rebalance(each)
        tracker.take_timeouts(each.group, each.rebalance_id, ["b-1"], [])
    (totals,) = [row for row in tracker.changed() if isinstance(row, GroupImpact)]
    assert totals.totals().members_expired == 250
    assert len(totals.counted) <= 100
    again = ImpactTracker("prod")
    again.restore(totals)
    old = rebalance(T0, [A, B], [A])
    again.take_rebalance(old)
    again.take_timeouts(old.group, old.rebalance_id, ["b-1"], [])
    assert not [row for row in again.changed() if isinstance(row, GroupImpact)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_lag_belongs_to_the_rebalance_that_was_the_latest_when_it_was_measured(order: tuple[int, ...]):
    """Rebalances and probes come from different queries, in any order."""
    tracker = ImpactTracker("prod")
    steps = [
        lambda: [tracker.take_lag(FIRST.group, lag, T0 + at_ms) for at_ms, lag in LAGS],
        lambda: tracker.take_rebalance(FIRST),
        lambda: tracker.take_rebalance(LATER),
    ]
    for step in order:
        steps[step]()
    impacts = rows_of(tracker)
    first, later = impacts[FIRST.rebalance_id], impacts[LATER.rebalance_id]
    assert (first.lag_before, first.lag_peak, first.lag_recovered_at_ms) == (10, 40, None)
    assert (later.lag_before, later.lag_peak, later.lag_recovered_at_ms) == (40, 60, T0 + 360_000)


def test_lag_of_a_long_watch_outlives_its_measurements():
    """The earlier lag is kept even after more measurements than the memory holds."""
    tracker = ImpactTracker("prod")
    tracker.take_lag(FIRST.group, 10, T0 - SECOND)
    tracker.take_rebalance(FIRST)
    for second in range(1, 400):
        tracker.take_lag(FIRST.group, 50 + second, T0 + second * SECOND)
    tracker.take_lag(FIRST.group, 10, T0 + 401 * SECOND)
    known = rows_of(tracker)[FIRST.rebalance_id]
    assert (known.lag_before, known.lag_peak, known.lag_recovered_at_ms) == (10, 449, T0 + 401 * SECOND)


def test_lag_that_an_earlier_run_measured_is_not_forgotten_at_a_start():
    """The rows that are read again do not go back to before the rebalance: the published values are continued."""
    tracker = ImpactTracker("prod")
    published = RebalanceImpact(
        "prod", FIRST.group, FIRST.rebalance_id, lag_before=10, lag_peak=40, lag_recovered_at_ms=T0 + 60_000
    )
    tracker.restore(published)
    tracker.take_lag(FIRST.group, 8, T0 + 45_000)
    tracker.take_rebalance(FIRST)
    tracker.take_lag(FIRST.group, 9, T0 + 90_000)
    assert tracker.changed() == []


@pytest.mark.parametrize("written", [range(60), range(59, -1, -1), [*range(0, 60, 2), *range(1, 60, 2)]])
@pytest.mark.parametrize("name", ["7-{}", "7-{}-e1", "probe-{}"])
def test_of_many_rebalances_the_latest_are_restored(written: Sequence[int], name: str):
    """Rows of a compacted topic come in any order, and offsets have more digits later; a foreign id takes no place."""
    tracker = ImpactTracker("prod")
    tracker.restore(RebalanceImpact("prod", FIRST.group, "none", expired=("a",)))
    for number in written:
        tracker.restore(RebalanceImpact("prod", FIRST.group, name.format(80 + number), expired=("a",)))
    kept = []
    for number in range(60):
        rebalance_id = name.format(80 + number)
        tracker.take_rebalance(replace(FIRST, rebalance_id=rebalance_id))
        tracker.take_timeouts(FIRST.group, rebalance_id, ["b"], [])
        kept += [number] if rows_of(tracker)[rebalance_id].expired == ("a", "b") else []
    assert kept == list(range(30, 60))


def test_a_probe_that_an_earlier_run_did_not_read_any_more_counts():
    """That run was killed after it had published the group's lag, of a later time than the probe's."""
    tracker = ImpactTracker("prod")
    tracker.restore(RebalanceImpact("prod", FIRST.group, FIRST.rebalance_id, lag_before=10, lag_peak=40))
    tracker.take_rebalance(FIRST)
    tracker.take_lag(FIRST.group, 8, T0 + 60_000)
    assert rows_of(tracker)[FIRST.rebalance_id].lag_recovered_at_ms == T0 + 60_000


def test_lag_that_is_read_again_from_before_a_rebalance_replaces_what_was_published():
    """The last published values may be from a time when the rebalance seemed to be over."""
    tracker = ImpactTracker("prod")
    tracker.restore(
        RebalanceImpact("prod", FIRST.group, FIRST.rebalance_id, lag_before=10, lag_peak=10, lag_recovered_at_ms=T0 + 9)
    )
    tracker.take_rebalance(FIRST)
    for at_ms, lag in ((-5_000, 10), (9, 10), (20_000, 40), (60_000, 7)):
        tracker.take_lag(FIRST.group, lag, T0 + at_ms)
    known = rows_of(tracker)[FIRST.rebalance_id]
    assert (known.lag_before, known.lag_peak, known.lag_recovered_at_ms) == (10, 40, T0 + 60_000)


def test_lag_is_held_against_that_before_the_rebalance():
    """From before it, over its peak, to its recovery; not published again while it is unchanged."""
    tracker = ImpactTracker("prod")
    tracker.take_lag(FIRST.group, 10, T0 - 5_000)
    tracker.take_rebalance(FIRST)
    tracker.take_lag(FIRST.group, 40, T0 + 20_000)
    tracker.take_lag(FIRST.group, 40, T0 + 25_000)
    (row,) = rows_of(tracker).values()
    assert (row.lag_before, row.lag_peak, row.lag_recovered_at_ms) == (10, 40, None)
    assert rows_of(tracker) == {}
    tracker.take_lag(FIRST.group, 5, T0 + 60_000)
    (row,) = rows_of(tracker).values()
    assert (row.lag_peak, row.lag_recovered_at_ms) == (40, T0 + 60_000)
