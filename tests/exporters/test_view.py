from dataclasses import replace

import pytest

from exporters.contract_rows import (
    NOW_MS,
    PAYMENTS,
    commits_row,
    group_row,
    make_view,
    query_row,
    rebalance_row,
    records_row,
)
from exporters.test_overview import finding_row
from rebalance_exporters.view import COMMITS, FINDINGS, GROUPS, REBALANCES, STATUS, TOPICS, Row
from rebalance_streaming.groups.events import RecordCount

KEY = ("prod", "payments")
HOUR_MS = 3_600_000


def test_rows_overwrite_by_key() -> None:
    """A repeated or newer row replaces the earlier one and nothing is counted twice."""
    view = make_view(group_row(), group_row(), group_row(generation=8), query_row(), query_row(input_rows=5))
    picture = view.picture()
    assert picture.groups == {KEY: replace(PAYMENTS, generation=8)}
    assert [status.input_rows for status in picture.queries] == [5]


def test_a_picture_does_not_change() -> None:
    """Whoever holds a picture sees one moment, whatever arrives meanwhile."""
    view = make_view(group_row(), commits_row(10))
    before = view.picture()
    view.apply(
        [group_row(group="other"), group_row(generation=9), commits_row(20), Row(GROUPS, b"prod/payments", None)]
    )
    assert before.groups == {KEY: PAYMENTS}
    assert before.commits[KEY].last_log_offset == 10


def test_groups_stay_the_same_object_while_nothing_changes() -> None:
    """Repetitions and commits of other rows cause no group to be rendered again."""
    view = make_view(group_row())
    before = view.picture().groups
    view.apply([group_row(), commits_row(10), query_row()])
    assert view.picture().groups is before


def test_tombstones_forget() -> None:
    """A null value removes what its key stands for, in every topic."""
    view = make_view(group_row(), rebalance_row("1"), query_row(), records_row(), commits_row(5))
    view.apply(
        [
            Row(GROUPS, b"prod/payments", None),
            Row(REBALANCES, b"prod/payments/1", None),
            Row(STATUS, b"prod/query/membership", None),
            Row(STATUS, b"prod/records", None),
            Row(COMMITS, b"payments", None),
        ]
    )
    picture = view.picture()
    assert (picture.groups, picture.queries, picture.records, picture.commits) == ({}, (), (), {})
    assert view.rebalances(KEY) == []
    assert not any(picture.contract_errors.values())


@pytest.mark.parametrize(
    "row",
    [
        Row(GROUPS, b"prod/payments", b"not json"),
        Row(GROUPS, b"prod/payments", b"\xff\xfe"),
        Row(GROUPS, b"prod/payments", b'{"cluster": "prod"}'),
        Row(GROUPS, b"prod/payments", b'{"cluster": "prod", "group": "payments", "generation": "seven"}'),
        Row(GROUPS, b"prod/payments", b'{"cluster": "prod", "group": "another"}'),
        Row(GROUPS, None, b"{}"),
        Row(REBALANCES, b"prod/payments/1", b"{}"),
        Row(REBALANCES, b"prod/payments/2", rebalance_row("1").value),
        Row(COMMITS, b"payments", b"[]"),
        Row(STATUS, b"prod/records", b'{"kind": "from the future"}'),
        Row(STATUS, b"prod/records", query_row().value),
        Row(STATUS, b"prod/query/commits", query_row("membership").value),
    ],
)
def test_a_broken_row_is_counted_and_harmless(row: Row) -> None:
    """What does not follow the contract is counted by topic, and the rows around it are taken over."""
    view = make_view(group_row(), row, group_row(group="after"))
    picture = view.picture()
    assert picture.contract_errors == {topic: int(topic == row.topic) for topic in TOPICS}
    assert sorted(picture.groups) == [("prod", "after"), KEY]


def test_commit_rows_without_a_key_are_the_streams_own() -> None:
    """The commits topic carries rows that are not for readers: they are no error and no commit."""
    picture = make_view(Row(COMMITS, None, b"anything")).picture()
    assert picture.commits == {}
    assert not any(picture.contract_errors.values())


def test_repeated_summaries_count_no_commits() -> None:
    """At-least-once delivery does not inflate the count, and a late repetition does not turn back the time."""
    rows = [
        commits_row(10, NOW_MS - 9000, commits=10),
        commits_row(20, NOW_MS - 4000, commits=5),
        commits_row(10, NOW_MS - 9000, commits=10),
        commits_row(20, NOW_MS - 4000, commits=5),
    ]
    progress = make_view(*rows).picture().commits[KEY]
    assert (progress.commits, progress.last_commit_ms, progress.last_log_offset) == (15, NOW_MS - 4000, 20)


def test_a_log_made_anew_counts_again() -> None:
    """When the group moved to another partition of the log, its offsets begin anew and are no repetition."""
    progress = make_view(commits_row(900), commits_row(3, log_partition=8)).picture().commits[KEY]
    assert (progress.commits, progress.log_partition, progress.last_log_offset) == (20, 8, 3)


@pytest.mark.parametrize(
    ("deleted_ago_ms", "state", "kept"),
    [
        (HOUR_MS - 1, "Deleted", True),
        (HOUR_MS, "Deleted", False),
        (50 * HOUR_MS, "Empty", True),
        (50 * HOUR_MS, None, True),
    ],
)
def test_deleted_groups_expire(deleted_ago_ms: int, state: str | None, kept: bool) -> None:
    """Only a deletion ends a group's series, and only after the expiry."""
    view = make_view(group_row(state=state, updated_at_ms=NOW_MS - deleted_ago_ms))
    view.forget_expired(NOW_MS)
    assert bool(view.picture().groups) == kept


def test_commits_of_unknown_groups_expire() -> None:
    """A client that commits without being a member is remembered for as long as a deleted group; memory is bounded."""
    view = make_view(commits_row(5, NOW_MS - HOUR_MS), commits_row(5, NOW_MS, group="recent"))
    view.forget_expired(NOW_MS)
    assert set(view.picture().commits) == {("prod", "recent")}


def test_commits_of_a_known_group_are_remembered() -> None:
    """A member that stopped committing long ago is news, so its last commit stays known."""
    view = make_view(group_row(), commits_row(5, NOW_MS - 50 * HOUR_MS))
    view.forget_expired(NOW_MS)
    assert view.picture().commits[KEY].last_commit_ms == NOW_MS - 50 * HOUR_MS


def test_the_latest_rebalances_are_kept() -> None:
    """No more than the limit is held, and a group's come newest first."""
    rows = [rebalance_row(str(n), NOW_MS + n) for n in range(5)]
    kept = make_view(*rows, rows[-1]).rebalances(KEY)
    assert [rebalance.rebalance_id for rebalance in kept] == ["4", "3", "2"]


def test_totals_of_the_stream_are_taken_as_they_are() -> None:
    """Decode totals come cumulative: the last row says all."""
    first = RecordCount("membership", 2, 3, "decoded", 10)
    (totals,) = make_view(records_row(first), records_row(replace(first, count=11))).picture().records
    assert [record.count for record in totals.records] == [11]


def test_the_latest_begun_are_kept_in_whatever_order_they_come() -> None:
    """Two exporters that hear of rebalances in different orders keep the same ones."""
    rows = [rebalance_row(str(n), NOW_MS + n) for n in (4, 0, 3, 1, 2)]
    kept = make_view(*rows, Row(REBALANCES, b"prod/payments/3", None)).rebalances(KEY)
    assert [rebalance.rebalance_id for rebalance in kept] == ["4", "2"]


def test_totals_of_withdrawn_findings_go_with_their_group() -> None:
    """Memory is bounded: nothing is left of a group that was forgotten and has no findings."""
    view = make_view(group_row(), finding_row())
    assert view.picture().findings[KEY].fired == {("crash_loop", "ticket"): 1}
    view.apply([Row(FINDINGS, b"prod/payments/crash_loop/", None), Row(GROUPS, b"prod/payments", None)])
    view.forget_expired(NOW_MS)
    assert view.picture().findings == {}


def test_a_finding_fires_once_until_it_fires_again() -> None:
    """A rewritten finding is the same one; one that was resolved and is back counts again."""
    rows = [finding_row(), finding_row(confidence=0.5), finding_row(state="resolved", resolved_at_ms=NOW_MS)]
    view = make_view(*rows, finding_row(), finding_row("another"))
    assert view.picture().findings[KEY].fired == {("crash_loop", "ticket"): 3}


def test_lag_that_slid_to_the_same_is_the_same_object() -> None:
    """A quiet group is not written again at every scrape because its windows were looked at."""
    view = make_view(group_row(), commits_row(5, NOW_MS - HOUR_MS))
    view.slide_windows(NOW_MS)
    before = view.picture().lags[KEY]
    view.slide_windows(NOW_MS + 10_000)
    assert view.picture().lags[KEY] is before
