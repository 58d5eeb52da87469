from dataclasses import replace
from typing import Any

import pytest

from exporters.contract_rows import NOW_MS, commits_row, group_row, make_view, query_row, rebalance_row
from rebalance_exporters.health import Readiness
from rebalance_exporters.kept import KeptRebalances, keep_rebalance
from rebalance_exporters.overview import Overview, OverviewRow, make_overview
from rebalance_exporters.owners import Owners
from rebalance_exporters.view import FINDINGS, HEARTBEATS, PROBES, Row, View
from rebalance_streaming.groups.events import (
    Finding,
    GroupTiming,
    Member,
    Probe,
    Rebalance,
    Silence,
    Subject,
    TimingWindow,
    decode,
    encode,
)

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
    """A finding about the group payments, with changes, under its key."""
    finding = replace(FINDING, **changes)
    return Row(FINDINGS, f"prod/payments/{finding.rule}/{subject}".encode(), encode(finding))


def overview(view: View, now_ms: int = NOW_MS, cluster: str | None = None) -> Overview:
    """The overview as of a time."""
    ready = Readiness(True, "ready")
    picture = view.picture()
    return make_overview(picture, ready, now_ms, version="1", owners=Owners(), read_lost=view.lost_ms, cluster=cluster)


def row_of(view: View, now_ms: int = NOW_MS) -> OverviewRow:
    """The row of the one group there is."""
    (row,) = overview(view, now_ms).groups
    return row


def silent_rebalance(*silences: Silence, started_ms: int = NOW_MS - 60_000) -> Rebalance:
    """A rebalance that partitions were silent in."""
    value = rebalance_row("1").value
    assert value is not None
    return replace(decode(value, Rebalance), started_before_ms=started_ms, silences=silences)


def test_a_row_says_all_that_is_known() -> None:
    """Counts, windows, lag, heartbeats and open findings of one group, from all the topics."""
    ends = {"orders": {"0": 1_005, "1": None}}
    worst = TimingWindow(heartbeat_age_max_ms=2_000, heartbeat_headroom=0.8, poll_gap_max_ms=12_500)
    timing = GroupTiming("prod", "payments", NOW_MS, {"5m": worst}, ())
    view = make_view(
        group_row(coordinator=3),
        commits_row(5, NOW_MS - 4_000),
        Row(
            PROBES, b"payments", encode(Probe(probed_at_ms=NOW_MS, cluster="prod", group="payments", end_offsets=ends))
        ),
        Row(HEARTBEATS, b"prod/payments", encode(timing)),
        finding_row(),
    )
    row = row_of(view)
    assert (row.state, row.state_since_ms, row.protocol, row.coordinator) == ("Stable", NOW_MS - 90_500, "range", 3)
    assert (row.members, row.idle_members, row.assigned_partitions) == (3, 1, 4)
    assert (row.rebalances_total, row.lag, row.commit_age_ms) == (6, 1_000, 4_000)
    assert (row.heartbeat_headroom_ratio, row.poll_gap_max_seconds) == (0.8, 12.5)
    assert (row.windows["5m"].rebalances, row.windows["5m"].generation_changes) == (2, 4)
    assert row.windows["1m"].rebalancing_ratio == 0.05
    assert [mark.finding_id for mark in row.findings] == ["f1"]


def test_the_unknown_is_null() -> None:
    """A group of which nothing but its existence is known claims nothing."""
    nothing = dict.fromkeys(("type", "state", "protocol_type", "protocol", "generation", "last_rebalance_ms"))
    row = row_of(make_view(group_row(**nothing, members=())))
    unknown = (row.state, row.state_since_ms, row.members, row.idle_members, row.lag, row.commit_age_ms, row.lag_slope)
    assert set(unknown) == {None}
    assert (row.heartbeat_headroom_ratio, row.poll_gap_max_seconds, row.owner, row.findings) == (None, None, None, ())


def test_unreadable_assignments_are_not_counted() -> None:
    """One member whose assignment is in no known form makes the sums unknown, not smaller."""
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
    """Pages before tickets, causes before what follows from them; what is resolved is left out."""
    view = make_view(
        group_row(),
        finding_row("a", finding_id="info", severity="info", started_at_ms=NOW_MS - 99_000),
        finding_row("b", finding_id="secondary", severity="page", primary=False),
        finding_row("c", finding_id="page", severity="page"),
        finding_row("d", finding_id="over", severity="page", state="resolved", resolved_at_ms=NOW_MS),
    )
    assert [mark.finding_id for mark in row_of(view).findings] == ["page", "secondary", "info"]


def test_a_withdrawn_finding_is_gone() -> None:
    """A tombstone takes the finding out of the row."""
    view = make_view(group_row(), finding_row())
    view.apply([Row(FINDINGS, b"prod/payments/crash_loop/", None)])
    assert row_of(view).findings == ()


def test_lost_time_is_summed_per_window() -> None:
    """Only what was lost after the rebalance began counts, in the windows in which it was lost."""
    since_ms = NOW_MS - NOW_MS % 10_000
    silences = (
        Silence("orders", 0, since_ms - 95_000, since_ms - 80_000),
        Silence("orders", 1, since_ms - 85_000, since_ms - 80_000),
        Silence("orders", 2, since_ms - 40_000, since_ms - 31_000),
    )
    kept = KeptRebalances(10)
    kept.put(keep_rebalance(silent_rebalance(*silences, started_ms=since_ms - 90_000), b"{}"))
    group = ("prod", "payments")
    assert kept.lost_ms(group, since_ms - 900_000) == 10_000 + 5_000 + 9_000
    assert kept.lost_ms(group, since_ms - 60_000) == 9_000
    assert kept.lost_ms(("prod", "other"), 0) == 0


def test_what_was_lost_in_forgotten_rebalances_is_unknown() -> None:
    """When rebalances of the window had to go, their lost time is null and not less."""
    kept = KeptRebalances(1)
    for number in range(2):
        rebalance = replace(silent_rebalance(), rebalance_id=str(number), completed_at_ms=NOW_MS - 30_000 + number)
        kept.put(keep_rebalance(rebalance, b"{}"))
    assert kept.lost_ms(("prod", "payments"), NOW_MS - 60_000) is None
    assert kept.lost_ms(("prod", "payments"), NOW_MS - 20_000) == 0


def test_the_age_is_that_of_the_stalest_stream() -> None:
    """Of two clusters the one that was silent for longer counts, and each alone where it is asked for."""
    rows = [query_row(updated_at_ms=NOW_MS - 2_000), query_row(cluster="test", updated_at_ms=NOW_MS - 9_000)]
    view = make_view(group_row(), group_row(cluster="test"), *rows)
    assert overview(view).data_age_ms == 9_000
    alone = overview(view, cluster="prod")
    assert (alone.data_age_ms, [row.cluster for row in alone.groups]) == (2_000, ["prod"])
    assert overview(make_view()).data_age_ms is None
