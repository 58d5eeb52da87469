"""The report on a period: sums by group, by cause and by setting, compared with the period before."""

import itertools
import random
from dataclasses import replace

import pytest

from exporters.contract_rows import NOW_MS, group_row, impact_row, make_view
from exporters.past import CODE, DAY_MS, RECORDS, SESSION, cause_row, costly_rows, past_row
from rebalance_contract import Advice
from rebalance_contract.api import Readiness
from rebalance_contract.api_reports import GroupName, PeriodReport, PeriodSums
from rebalance_exporters.api.period import PARTS, Period, make_report
from rebalance_exporters.owners import Owners
from rebalance_exporters.state.view import FINDINGS, Row, View

WEEK = Period(NOW_MS - 7 * DAY_MS, NOW_MS)


def roomy(*rows: Row, keep: int = 1_000) -> View:
    """A view with room for this many rebalances."""
    view = View(group_expiry_seconds=3600, keep_rebalances=keep)
    view.apply(rows)
    return view


def report(view: View, period: Period = WEEK) -> PeriodReport:
    """The report on a period, as of its end."""
    ready = Readiness(True, "ready")
    return make_report(view.past(), view.fleet(), ready, NOW_MS, period, version="1", owners=Owners())


def test_a_period_has_what_began_in_it() -> None:
    """The beginning is inclusive and the end exclusive, so that no rebalance is in two periods."""
    starts = {"early": WEEK.since_ms - 1, "first": WEEK.since_ms, "last": NOW_MS - 1, "late": NOW_MS}
    reported = report(roomy(*(past_row(name, at_ms, group=name) for name, at_ms in starts.items())))
    assert [each.group for each in reported.groups] == ["first", "last"]
    assert reported.sums.rebalances == 2
    assert [part.sums.rebalances for part in reported.parts] == [1, *[0] * (PARTS - 2), 1]
    assert [reported.parts[0].from_ms, reported.parts[-1].from_ms] == [WEEK.since_ms, NOW_MS - 7 * DAY_MS // PARTS]


def test_groups_come_by_the_time_they_lost() -> None:
    """Then by the time they rebalanced; each with its sums, and the number of rebalances without a reported impact."""
    view = roomy(
        *costly_rows("1", NOW_MS - 5_000, 700, group="b"),
        *costly_rows("2", NOW_MS - 4_000, 300, group="b", took_ms=9_000),
        *costly_rows("3", NOW_MS - 3_000, 2_000, group="c"),
        past_row("4", NOW_MS - 2_000, group="d", took_ms=4_000),
        past_row("5", NOW_MS - 1_000, group="a", took_ms=None),
        group_row(),
    )
    reported = report(view)
    assert [(each.group, each.sums) for each in reported.groups] == [
        ("c", PeriodSums(1, 1_000, 2_000)),
        ("b", PeriodSums(2, 10_000, 1_000)),
        ("d", PeriodSums(1, 4_000, 0, 1)),
        ("a", PeriodSums(1, 0, 0, 1)),
    ]
    assert [(each.slowest_ms, each.slowest_id) for each in reported.groups[1::2]] == [(9_000, "2"), (None, None)]
    assert reported.sums == PeriodSums(5, 15_000, 3_000, 2)
    assert (reported.rebalanced_groups, reported.known_groups) == (4, 1)
    assert [each.group for each in report(view, WEEK._replace(limit=2)).groups] == ["c", "b"]
    assert report(view, WEEK._replace(limit=2)).rebalanced_groups == 4


def test_a_cluster_has_its_own_report() -> None:
    """It contains nothing of another cluster."""
    view = roomy(past_row("1", NOW_MS - 1, cluster="dev"), past_row("2", NOW_MS - 2), group_row(cluster="dev"))
    reported = report(view, WEEK._replace(cluster="dev"))
    assert ([each.cluster for each in reported.groups], reported.sums.rebalances, reported.known_groups) == (
        ["dev"],
        1,
        1,
    )


def test_causes_are_those_of_the_rebalances() -> None:
    """By rule, over all groups; the rest is unexplained. A finding that is not primary causes nothing."""
    reported = report(
        roomy(
            *costly_rows("1", NOW_MS - 5_000, 100),
            *costly_rows("2", NOW_MS - 4_000, 200),
            *costly_rows("3", NOW_MS - 3_000, 900, group="other"),
            *costly_rows("4", NOW_MS - 2_000, 50),
            cause_row("1", "2"),
            cause_row("3", group="other", rule="poll_overrun"),
            cause_row("4", rule="duplicate_processing", primary=False),
        )
    )
    assert [(each.rule, each.groups, each.sums) for each in reported.causes] == [
        ("poll_overrun", 1, PeriodSums(1, 1_000, 900)),
        ("crash_loop", 1, PeriodSums(2, 2_000, 300)),
    ]
    assert reported.unexplained == PeriodSums(1, 1_000, 50)
    of_payments = reported.groups[1]
    assert [(each.rule, each.sums.rebalances) for each in of_payments.causes] == [("crash_loop", 2)]


def test_a_cause_outlives_its_finding() -> None:
    """The finding is forgotten an hour after it resolved, and when it recurs it names other rebalances."""
    resolved = cause_row("1", updated_at_ms=NOW_MS - 5 * DAY_MS, state="resolved", resolved_at_ms=NOW_MS - 5 * DAY_MS)
    view = roomy(past_row("1", NOW_MS - 5 * DAY_MS), resolved, past_row("2", NOW_MS - DAY_MS))
    view.forget_expired(NOW_MS)
    assert not view.fleet().findings
    view.apply([cause_row("2")])
    assert [(each.rule, each.sums.rebalances) for each in report(view).causes] == [("crash_loop", 2)]


def test_a_better_explanation_replaces_a_cause() -> None:
    """In any order of reading; a withdrawn finding keeps no rebalances that another one explains."""
    before = cause_row("1", updated_at_ms=NOW_MS - 9_000)
    better = cause_row("1", rule="poll_overrun", finding_id="f2")
    gone = Row(FINDINGS, before.key, None)
    for rows in ([before, better], [better, before], [before, better, gone], [before, gone, better]):
        reported = report(roomy(past_row("1", NOW_MS - 10_000), *rows))
        assert [each.rule for each in reported.causes] == ["poll_overrun"]
    withdrawn = report(roomy(past_row("1", NOW_MS - 10_000), before, gone))
    assert (withdrawn.causes, withdrawn.unexplained.rebalances) == ((), 1)


def test_causes_are_bounded() -> None:
    """Ten for each kept rebalance, oldest dropped first; with room for none, none is kept."""
    ids = [str(number) for number in range(40)]
    view = make_view(*(cause_row(each) for each in ids), past_row("9", NOW_MS - 9), past_row("10", NOW_MS - 8))
    assert {kept.rebalance_id: cause is not None for kept, cause in view.past().rebalances} == {"9": False, "10": True}
    assert roomy(cause_row(*ids), keep=0).past().rebalances == []


def test_words_of_strangers_are_short() -> None:
    """A short part of a finding of a megabyte is kept, and withdrawing it still works."""
    long = cause_row("1", finding_id="f" * 9_000, rule="r" * 9_000, advice=(Advice("p" * 9_000, "c", "x", "y"),) * 99)
    view = roomy(past_row("1", NOW_MS - 1), long)
    ((_, cause),) = view.past().rebalances
    assert cause is not None
    assert (len(cause.rule), len(cause.advice), len(cause.advice[0].parameter)) == (300, 8, 300)
    view.apply([Row(FINDINGS, long.key, None)])
    assert view.past().rebalances[0][1] is None


def test_settings_come_by_the_time_lost_that_they_explain() -> None:
    """One entry per setting, current and proposed value, with the affected groups; code is not a setting."""
    reported = report(
        roomy(
            *costly_rows("1", NOW_MS - 5_000, 100),
            *costly_rows("2", NOW_MS - 4_000, 700, group="other"),
            *costly_rows("3", NOW_MS - 3_000, 500, group="third"),
            cause_row("1", advice=(SESSION, CODE)),
            cause_row("2", group="other", rule="poll_overrun", advice=(SESSION,)),
            cause_row("3", group="third", rule="poll_overrun", advice=(RECORDS, replace(RECORDS, proposed="1"))),
        )
    )
    session, records = reported.settings
    assert (session.parameter, session.current, session.proposed) == ("session.timeout.ms", "10000", "45000")
    assert (session.sums, session.rules) == (PeriodSums(2, 2_000, 800), ("crash_loop", "poll_overrun"))
    assert session.groups == (GroupName("prod", "other"), GroupName("prod", "payments"))
    assert (records.parameter, records.proposed, records.sums) == (
        "max.poll.records",
        "at most 124",
        PeriodSums(1, 1_000, 500),
    )
    assert records.group_count == 1


def test_a_setting_has_its_latest_value() -> None:
    """A finding that is updated may propose another value; the time lost before counts for it too."""
    early = cause_row("1", updated_at_ms=NOW_MS - 9_000, advice=(SESSION,))
    late = cause_row("2", subject="c-2", finding_id="f2", advice=(replace(SESSION, proposed="60000"),))
    for rows in ([early, late], [late, early]):
        view = roomy(*costly_rows("1", NOW_MS - 9_999, 100), *costly_rows("2", NOW_MS - 5_000, 200), *rows)
        (setting,) = report(view).settings
        assert (setting.proposed, setting.sums.lost_partition_ms) == ("60000", 300)


def test_many_groups_of_a_setting_are_counted() -> None:
    """The ten that lost most are named."""
    groups = [f"g{number:02}" for number in range(12)]
    rows = [costly_rows(name, NOW_MS - 9_000, 100 + number, group=name) for number, name in enumerate(groups)]
    causes = [cause_row(name, group=name, advice=(SESSION,)) for name in groups]
    (setting,) = report(roomy(*itertools.chain(*rows), *causes)).settings
    assert ([each.group for each in setting.groups], setting.group_count) == (groups[:1:-1], 12)


def test_what_changed_is_listed_where_the_period_before_is_known() -> None:
    """Groups by the change of their lost time, including those without any now; causes with their earlier cost."""
    before_ms = WEEK.since_ms - 7 * DAY_MS
    reported = report(
        roomy(
            *costly_rows("0", before_ms, 10, group="steady"),
            *costly_rows("1", before_ms + 1, 5_000, group="cured"),
            *costly_rows("2", WEEK.since_ms - 1, 100),
            *costly_rows("3", WEEK.since_ms, 2_100),
            *costly_rows("4", WEEK.since_ms, 10, group="steady"),
            cause_row("2", "3"),
        )
    )
    assert reported.before == PeriodSums(3, 3_000, 5_110)
    assert [(each.group, each.sums.lost_partition_ms, each.before) for each in reported.changed] == [
        ("cured", 0, PeriodSums(1, 1_000, 5_000)),
        ("payments", 2_100, PeriodSums(1, 1_000, 100)),
    ]
    assert [each.group for each in reported.groups] == ["payments", "steady"]
    (cause,) = reported.causes
    assert (cause.sums, cause.before) == (PeriodSums(1, 1_000, 2_100), PeriodSums(1, 1_000, 100))


@pytest.mark.parametrize("late_ms", [1, 8 * DAY_MS])
def test_nothing_is_compared_with_what_is_not_known(late_ms: int) -> None:
    """If the exporter's memory begins within the previous period, or later, the report says since when it has data."""
    begun_ms = WEEK.since_ms - 7 * DAY_MS + late_ms
    reported = report(roomy(past_row("1", begun_ms), *costly_rows("2", NOW_MS - 1, 7)))
    assert (reported.before, reported.changed, reported.kept_since_ms) == (None, (), begun_ms)
    assert {each.before for each in reported.groups} == {None}


def test_it_says_how_far_back_it_had_room() -> None:
    """The report says when too few rebalances are kept for the period."""
    rows = [past_row(str(number), NOW_MS - 10_000 + number) for number in range(5)]
    reported = report(roomy(*rows, keep=3))
    assert (reported.dropped_until_ms, reported.kept_since_ms, reported.sums.rebalances) == (
        NOW_MS - 9_999,
        NOW_MS - 9_998,
        3,
    )
    assert report(roomy(*rows)).dropped_until_ms is None
    empty = report(roomy())
    assert (empty.kept_since_ms, empty.sums, empty.groups, empty.before) == (None, PeriodSums(), (), None)


def test_two_exporters_report_the_same() -> None:
    """Whatever the order of the rows of the topics."""
    rows = [costly_rows(str(number), NOW_MS - 9_000 * number, 50 * (number % 3)) for number in range(1, 20)]
    rows += [[cause_row(str(number), rule=f"r{number % 4}", advice=(SESSION, RECORDS))] for number in range(1, 20)]
    reported = report(roomy(*itertools.chain(*rows)))
    chance = random.Random(7)
    for _ in range(5):
        chance.shuffle(rows)
        assert report(roomy(*(row for several in rows for row in several[:: chance.choice((1, -1))]))) == reported


def test_what_a_rebalance_costs_may_be_corrected() -> None:
    """The last row counts."""
    view = roomy(*costly_rows("1", NOW_MS - 1_000, 100), impact_row("1", lost_partition_ms=900))
    assert report(view).sums.lost_partition_ms == 900
