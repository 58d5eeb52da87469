"""Advice from the exporter's state: for one group, and for all groups in a report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from exporters.advice.test_estimator import pause
from exporters.contract_rows import NOW_MS, group_row
from exporters.past import RECORDS, cause_row
from rebalance_contract import encode
from rebalance_contract.api import Readiness
from rebalance_contract.api_reports import AdviceAnswer, EstimateRange, PeriodWorth
from rebalance_exporters.advice.absences import PastRebalance
from rebalance_exporters.advice.answers import find_worth, make_answer
from rebalance_exporters.state.view import IMPACT, REBALANCES, Row, View

READY = Readiness(True, "ready")
DAY_MS = 86_400_000


def rows_of(rebalances: list[PastRebalance], **changes: Any) -> list[Row]:
    """The rows of rebalances and of their impact."""
    rows = []
    for each in rebalances:
        rebalance = replace(each.rebalance, **changes)
        key = f"{rebalance.cluster}/{rebalance.group}/{rebalance.rebalance_id}".encode()
        rows.append(Row(REBALANCES, key, encode(rebalance)))
        if each.impact is not None:
            rows.append(Row(IMPACT, key, encode(replace(each.impact, **changes))))
    return rows


def view_of(*rows: Row) -> View:
    """A view that has read the rows."""
    view = View(group_expiry_seconds=3600, keep_rebalances=100)
    view.apply(rows)
    return view


def paused(at_s: float = 0, group: str = "payments", cluster: str = "prod") -> list[Row]:
    """A member of a group is lost by session expiry, and rejoins: two rebalances with their cause."""
    rebalances = pause(at_s)
    names = [each.rebalance.rebalance_id for each in rebalances]
    cause = cause_row(*names, rule="process_pause", group=group, cluster=cluster, advice=(RECORDS,))
    return [*rows_of(rebalances, group=group, cluster=cluster), cause]


def answer(view: View, since_ms: int = 0, group: str = "payments") -> AdviceAnswer:
    """The API's answer for a group."""
    key = ("prod", group)
    return make_answer(view.past(key), key, READY, since_ms, NOW_MS + DAY_MS)


def worth(view: View, limit: int = 9) -> dict[str, PeriodWorth]:
    """The report's estimates, by setting."""
    found = find_worth(view.past().rebalances, NOW_MS - 1, NOW_MS + DAY_MS, limit)
    return {each.setting: each for each in found}


def test_the_cause_of_a_rebalance_makes_its_estimate_certain() -> None:
    """With a finding it is certain; without one the same is possible."""
    reported = answer(view_of(*paused(), group_row()))
    assert (reported.sums.rebalances, reported.kept_since_ms, reported.cluster) == (2, NOW_MS, "prod")
    assert [(each.setting, each.avoided.rebalances) for each in reported.estimates] == [
        ("session.timeout.ms", EstimateRange(2, 2))
    ]
    assert len(reported.useless) == 7
    bare = answer(view_of(*rows_of(pause())))
    found = {each.setting: each.avoided.rebalances for each in bare.estimates}
    assert found["session.timeout.ms"] == EstimateRange(0, 2)


def test_a_hint_leaves_it_open() -> None:
    """An unsure cause does not count, for the session and for records alike."""
    rebalances = pause(rule=None)
    names = [each.rebalance.rebalance_id for each in rebalances]
    hint = cause_row(*names, rule="process_pause", group="payments", cluster="prod", confidence=0.4, advice=(RECORDS,))
    (session, *_) = answer(view_of(*rows_of(rebalances), hint)).estimates
    assert (session.setting, session.avoided.rebalances) == ("session.timeout.ms", EstimateRange(0, 2))


def test_only_what_began_since_then_counts() -> None:
    """The loss was before, the return after."""
    reported = answer(view_of(*paused()), since_ms=NOW_MS + 1)
    assert (reported.sums.rebalances, reported.estimates[0].avoided.rebalances) == (1, EstimateRange(1, 1))
    assert answer(view_of(*paused()), since_ms=NOW_MS + DAY_MS).sums.rebalances == 0


def test_other_groups_are_not_in_it() -> None:
    """A known group without rebalances has no estimates."""
    reported = answer(view_of(*paused(group="other"), group_row()))
    assert (reported.sums.rebalances, reported.estimates, reported.kept_since_ms) == (0, (), None)


def test_a_report_adds_up_groups() -> None:
    """Each with its own value; the list has the maximum length."""
    view = view_of(*paused(), *paused(at_s=100, group="other"), *paused(at_s=200, group="third", cluster="dev"))
    found = worth(view)["session.timeout.ms"]
    assert (found.avoided.rebalances, found.group_count) == (EstimateRange(6, 6), 3)
    assert {(each.cluster, each.group, each.proposed) for each in found.groups} == {
        ("prod", "payments", "30000"),
        ("prod", "other", "30000"),
        ("dev", "third", "30000"),
    }
    assert worth(view, limit=0) == {}
