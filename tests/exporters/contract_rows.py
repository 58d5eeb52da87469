"""Rows of the stream's topics for tests, made through the contract's own encoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rebalance_exporters.view import COMMITS, GROUPS, REBALANCES, STATUS, Row, View
from rebalance_streaming.groups.events import (
    CommitSummary,
    Counters,
    DecodeTotals,
    Generation,
    GroupSnapshot,
    Member,
    Pane,
    Panes,
    QueryStatus,
    Rebalance,
    RecordCount,
    TopicCommits,
    encode,
)

NOW_MS = 1_790_000_000_000

PAYMENTS = GroupSnapshot(
    cluster="prod",
    group="payments",
    type="classic",
    state="Stable",
    protocol_type="consumer",
    protocol="range",
    generation=7,
    leader="c-1",
    members=(
        Member("c-1", "c", "/10.0.0.1", partitions={"orders": [0, 1], "refunds": [0]}),
        Member("c-2", "c", "/10.0.0.2", partitions={"orders": [2]}),
        Member("c-3", "c", "/10.0.0.3", partitions={}),
    ),
    counters=Counters(
        rebalances=Counters().rebalances | {"join": 4, "departure": 2},
        generations_completed=6,
        generations_aborted=1,
        members_joined=5,
        members_left=4,
        members_expired=2,
        members_poll_timeout=1,
        members_replaced=3,
        partitions_moved=9,
        durations=[0, 2, 0, 3, 0, 0, 0, 1, 0, 0, 0],
        duration_ms=45_250,
    ),
    windows=Panes(
        (
            Pane(NOW_MS - 300_000, generations_completed=2, generations_aborted=1, rebalances=1, rebalancing_ms=6_000),
            Pane(NOW_MS - 20_000, generations_completed=1, rebalances=1, rebalancing_ms=3_000),
        )
    ),
    first_seen_ms=NOW_MS - 3_600_000,
    last_rebalance_ms=NOW_MS - 90_500,
    last_rebalance_id="0-42",
    updated_at_ms=NOW_MS - 90_000,
    log_partition=3,
    log_offset=42,
)


def make_view(*rows: Row) -> View:
    """A view with an hour of expiry that has taken the rows over."""
    view = View(group_expiry_seconds=3600, keep_rebalances=3)
    view.apply(rows)
    return view


def group_row(snapshot: GroupSnapshot = PAYMENTS, **changes: Any) -> Row:
    """A snapshot of PAYMENTS with changes, under its key."""
    snapshot = replace(snapshot, **changes)
    return Row(GROUPS, f"{snapshot.cluster}/{snapshot.group}".encode(), encode(snapshot))


def commits_row(last_log_offset: int, committed_at_ms: int = NOW_MS, commits: int = 10, **changes: Any) -> Row:
    """A summary with two partitions; the later commit is of `committed_at_ms`."""
    topic = TopicCommits([0, 1], [5, None], [committed_at_ms - 100, committed_at_ms], [1, 2], [commits - 1, 1])
    summary = CommitSummary("prod", "payments", NOW_MS - 5000, 5000, 3, 0, last_log_offset, {"orders": topic})
    summary = replace(summary, **changes)
    return Row(COMMITS, summary.group.encode(), encode(summary))


def query_row(query: str = "membership", **changes: Any) -> Row:
    """The status of a query that is well, with changes."""
    status = QueryStatus("prod", query, True, NOW_MS - 60_000, NOW_MS - 1_000, 500, last_batch_at_ms=NOW_MS - 1_000)
    status = replace(status, **changes)
    return Row(STATUS, f"{status.cluster}/query/{status.query}".encode(), encode(status))


def records_row(*counts: RecordCount, cluster: str = "prod") -> Row:
    """Decode totals of one cluster."""
    return Row(STATUS, f"{cluster}/records".encode(), encode(DecodeTotals(cluster, counts)))


def rebalance_row(rebalance_id: str, completed_at_ms: int = NOW_MS, group: str = "payments") -> Row:
    """A completed rebalance of three members."""
    rebalance = Rebalance(
        cluster="prod",
        group=group,
        rebalance_id=rebalance_id,
        type="classic",
        reason="join",
        outcome="completed",
        generations=(Generation(7, "join", assigned_at_ms=completed_at_ms, joined=("c-1",)),),
        generation_from=6,
        generation_to=7,
        generations_aborted=0,
        started_after_ms=None,
        started_before_ms=completed_at_ms - 50,
        join_ended_at_ms=None,
        completed_at_ms=completed_at_ms,
        sync_ms=None,
        duration_min_ms=50,
        duration_max_ms=None,
        protocol="range",
        leader="c-1",
        members_before=(),
        members_after=PAYMENTS.members,
        joined=("c-1",),
        left=(),
    )
    return Row(REBALANCES, f"prod/{group}/{rebalance_id}".encode(), encode(rebalance))
