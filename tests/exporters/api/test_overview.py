from dataclasses import replace
from typing import Any, get_type_hints

import pytest

from exporters.contract_rows import NOW_MS, diagnosis_row, group_row, make_view, probed_lag_row, query_row, totals_row
from rebalance_contract import (
    CountedImpact,
    Finding,
    GroupSnapshot,
    GroupTiming,
    Member,
    Subject,
    TimingWindow,
    encode,
)
from rebalance_contract.api import Overview, OverviewRow, Readiness
from rebalance_exporters.api.overview import COPIED, make_overview
from rebalance_exporters.owners import Owners
from rebalance_exporters.state.view import FINDINGS, HEARTBEATS, Row, View

FINDING = Finding(
    finding_id="f1",
    cluster="prod",
    group="payments",
    rule="crash_loop",
    severity="ticket",
    state="firing",
    primary=True,
    confidence=0.9,
    subject=Subject(),
    started_at_ms=NOW_MS - 5_000,
    detected_at_ms=NOW_MS,
    updated_at_ms=NOW_MS,
    resolved_at_ms=None,
    summary="c-1 comes and goes",
)


def finding_row(subject: str = "", **changes: Any) -> Row:
    """A finding, about the group payments unless changed, under its key."""
    finding = replace(FINDING, **changes)
    return Row(FINDINGS, f"{finding.cluster}/{finding.group}/{finding.rule}/{subject}".encode(), encode(finding))


def overview(view: View, now_ms: int = NOW_MS, cluster: str | None = None) -> Overview:
    """The overview as of a time."""
    ready = Readiness(True, "ready")
    fleet = view.fleet()
    return make_overview(fleet, ready, now_ms, version="1", owners=Owners(), cluster=cluster)


def row_of(view: View, now_ms: int = NOW_MS) -> OverviewRow:
    """The row of the one group there is."""
    (row,) = overview(view, now_ms).groups
    return row


def test_what_a_row_copies_is_the_groups_own() -> None:
    """A field of the same name has the same type in both; computed fields are not copied."""
    of_row, of_group = get_type_hints(OverviewRow), get_type_hints(GroupSnapshot)
    assert {"cluster", "group", "state", "coordinator"} <= set(COPIED)
    assert {name: of_row[name] for name in COPIED} == {name: of_group[name] for name in COPIED}


def test_a_row_says_all_that_is_known() -> None:
    """Counts, windows, lag, heartbeats and open findings of one group, from all the topics."""
    worst = TimingWindow(heartbeat_age_max_ms=2_000, heartbeat_headroom=0.8, poll_gap_max_ms=12_500)
    timing = GroupTiming("prod", "payments", NOW_MS, {"5m": worst}, ())
    view = make_view(
        group_row(coordinator=3),
        diagnosis_row(),
        probed_lag_row(1_000, last_commit_ms=NOW_MS - 4_000),
        totals_row(CountedImpact(lost_partition_ms=12_500)),
        Row(HEARTBEATS, b"prod/payments", encode(timing)),
        finding_row(),
    )
    row = row_of(view)
    assert (row.state, row.state_since_ms, row.protocol, row.coordinator) == ("Stable", NOW_MS - 90_500, "range", 3)
    assert (row.members, row.idle_members, row.assigned_partitions) == (3, 1, 4)
    assert (row.rebalances_total, row.lag, row.commit_age_ms) == (6, 1_000, 4_000)
    assert (row.time_lag_ms, row.lag_slope, row.lost_partition_seconds_total) == (30_000, -0.5, 12.5)
    assert [window.lost_partition_seconds for window in row.windows.values()] == [0, 12, 12]
    assert (row.heartbeat_headroom_ratio, row.poll_gap_max_seconds) == (0.8, 12.5)
    assert (row.windows["5m"].rebalances, row.windows["5m"].generation_changes) == (2, 4)
    assert row.windows["1m"].rebalancing_ratio == 0.05
    assert [mark.finding_id for mark in row.findings] == ["f1"]


def test_the_unknown_is_null() -> None:
    """Fields of a group without further rows are null."""
    nothing = dict.fromkeys(("type", "state", "protocol_type", "protocol", "generation", "last_rebalance_ms"))
    row = row_of(make_view(group_row(**nothing, members=())))
    unknown = (row.state, row.state_since_ms, row.members, row.idle_members, row.lag, row.commit_age_ms, row.lag_slope)
    assert set(unknown) == {None}
    assert (row.heartbeat_headroom_ratio, row.poll_gap_max_seconds, row.owner, row.findings) == (None, None, None, ())


def test_unreadable_assignments_are_not_counted() -> None:
    """One member with an unknown assignment makes the sums unknown, not smaller."""
    row = row_of(make_view(group_row(members=(Member("a", "a", "h", partitions=None),))))
    assert (row.members, row.assigned_partitions, row.idle_members) == (1, None, None)


@pytest.mark.parametrize(
    ("changes", "since_ms"),
    [
        ({"rebalancing_since_ms": NOW_MS - 7_000, "state": "PreparingRebalance"}, NOW_MS - 7_000),
        ({"state": "Deleted", "updated_at_ms": NOW_MS - 1_000}, NOW_MS - 1_000),
        ({}, NOW_MS - 90_500),
    ],
)
def test_a_state_has_a_beginning(changes: dict[str, Any], since_ms: int) -> None:
    """A rebalance since it began, a settled group since its last one ended, a deleted one since its deletion."""
    assert row_of(make_view(group_row(**changes))).state_since_ms == since_ms


def test_the_gravest_finding_comes_first() -> None:
    """Pages before tickets, then causes, by confidence and age; resolved ones are left out."""
    view = make_view(
        group_row(),
        finding_row("a", finding_id="info", severity="info", started_at_ms=NOW_MS - 99_000),
        finding_row("b", finding_id="secondary", severity="page", primary=False, confidence=0.99),
        finding_row("c", finding_id="unsure", severity="page", confidence=0.5, started_at_ms=NOW_MS - 99_000),
        finding_row("e", finding_id="newer", severity="page", confidence=0.9, started_at_ms=NOW_MS),
        finding_row("f", finding_id="older", severity="page", confidence=0.9, started_at_ms=NOW_MS - 1),
        finding_row("d", finding_id="over", severity="page", state="resolved", resolved_at_ms=NOW_MS),
    )
    assert [mark.finding_id for mark in row_of(view).findings] == ["older", "newer", "unsure", "secondary", "info"]


def test_a_withdrawn_finding_is_gone() -> None:
    """A tombstone removes the finding from the row."""
    view = make_view(group_row(), finding_row())
    view.apply([Row(FINDINGS, b"prod/payments/crash_loop/", None)])
    assert row_of(view).findings == ()


def test_what_the_diagnosis_no_longer_reports_is_unknown() -> None:
    """While it is silent, lag, windows and the age of commits are null; values from the log alone stay."""
    view = make_view(group_row(), diagnosis_row(), probed_lag_row())
    for row in (row_of(view, NOW_MS + 60_000), row_of(make_view(group_row(), probed_lag_row()))):
        assert (row.windows, row.lag, row.time_lag_ms, row.commit_age_ms, row.lag_slope) == ({}, None, None, None, None)
        assert (row.state, row.members, row.rebalances_total) == ("Stable", 3, 6)


def test_a_deleted_group_has_no_lag() -> None:
    """Its last windows stay, but no records wait for it any more."""
    row = row_of(make_view(group_row(state="Deleted"), diagnosis_row(), probed_lag_row()))
    assert (row.lag, row.time_lag_ms, row.commit_age_ms) == (None, None, None)
    assert set(row.windows) == {"1m", "5m", "15m"}


def test_members_that_a_row_had_no_room_for_count() -> None:
    """Their number is known, their partitions are not."""
    row = row_of(make_view(group_row(is_truncated=True, member_count=10_000)))
    assert (row.members, row.idle_members, row.assigned_partitions) == (10_000, None, None)


def test_the_age_is_that_of_the_stalest_stream() -> None:
    """Of two clusters the more outdated one counts, and for a request of one cluster only that one."""
    rows = [query_row(updated_at_ms=NOW_MS - 2_000), query_row(cluster="test", updated_at_ms=NOW_MS - 9_000)]
    view = make_view(group_row(), group_row(cluster="test"), *rows)
    assert overview(view).data_age_ms == 9_000
    alone = overview(view, cluster="prod")
    assert (alone.data_age_ms, [row.cluster for row in alone.groups]) == (2_000, ["prod"])
    assert overview(make_view()).data_age_ms is None
