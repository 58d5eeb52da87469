"""Rows of the stream's topics for tests, encoded with the contract's own encoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rebalance_contract import (
    AlertSilence,
    CountedImpact,
    Counters,
    DecodeTotals,
    DiagnosisStatus,
    Generation,
    GroupImpact,
    GroupLag,
    GroupSnapshot,
    GroupWindow,
    LogTotals,
    Member,
    Pane,
    Panes,
    QuarantineCount,
    QuarantineTotals,
    QueryStatus,
    Rebalance,
    RebalanceImpact,
    RecordCount,
    TopicLag,
    WatchedTopic,
    encode,
)
from rebalance_exporters.state.view import GROUPS, IMPACT, LAG, REBALANCES, SILENCES, STATUS, TOPICS, Row, View

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
    """A view with an expiry of one hour that has read the rows."""
    view = View(group_expiry_seconds=3600, keep_rebalances=3)
    view.apply(rows)
    return view


def group_row(snapshot: GroupSnapshot = PAYMENTS, **changes: Any) -> Row:
    """A snapshot of PAYMENTS with changes, under its key."""
    snapshot = replace(snapshot, **changes)
    return Row(GROUPS, f"{snapshot.cluster}/{snapshot.group}".encode(), encode(snapshot))


#: The windows of PAYMENTS at NOW_MS.
WINDOWS = {
    "1m": GroupWindow(1, 0, 1, 0.05, 4, 1_000, 2.5, 0),
    "5m": GroupWindow(3, 1, 2, 0.03, 10, 1_000, -0.5, 12_000),
    "15m": GroupWindow(3, 1, 2, 0.01, 10, 1_000, None, 12_000),
}


def lag_row(last_log_offset: int | None = 40, last_commit_ms: int | None = NOW_MS, **changes: Any) -> Row:
    """The lag and windows of PAYMENTS with changes; the group commits, and end offsets are not reported."""
    lag = GroupLag(
        "prod",
        "payments",
        NOW_MS,
        topics={"orders": TopicLag([0, 1], [5, 9], [None, None], None)},
        commits=10,
        first_commit_ms=NOW_MS - 3_600_000,
        last_commit_ms=last_commit_ms,
        log_partition=3,
        last_log_offset=last_log_offset,
        windows=WINDOWS,
    )
    lag = replace(lag, **changes)
    return Row(LAG, f"{lag.cluster}/{lag.group}".encode(), encode(lag))


def probed_lag_row(total: int = 1_000, **changes: Any) -> Row:
    """The same with all of the lag on one partition, whose oldest unread record was written 30 s ago."""
    topics = {"orders": TopicLag([0, 1], [5, 9], [total, None], total)}
    return lag_row(**({"total": total, "topics": topics, "oldest_unread_ms": NOW_MS - 30_000} | changes))


def totals_row(cost: CountedImpact, group: str = "payments", **counted: CountedImpact) -> Row:
    """The total impact of rebalances on a group: `cost`, and the impact of some rebalances by id."""
    totals = GroupImpact("prod", group, cost, {name.replace("_", "-"): each for name, each in counted.items()})
    return Row(IMPACT, f"prod/{group}".encode(), encode(totals))


def impact_row(rebalance_id: str, group: str = "payments", **fields: Any) -> Row:
    """The impact of one rebalance."""
    impact = RebalanceImpact(**({"cluster": "prod", "group": group, "rebalance_id": rebalance_id} | fields))
    return Row(IMPACT, f"{impact.cluster}/{group}/{rebalance_id}".encode(), encode(impact))


def diagnosis_row(**changes: Any) -> Row:
    """The status of a healthy diagnosis that receives probes, with changes."""
    status = DiagnosisStatus("prod", NOW_MS - 1_000, read_until_ms=NOW_MS - 2_000, probed_at_ms=NOW_MS - 3_000)
    status = replace(status, **changes)
    return Row(STATUS, f"{status.cluster}/diagnosis".encode(), encode(status))


def stream_rows(**changes: Any) -> list[Row]:
    """The status of all parts of a healthy stream; changes apply to both queries."""
    clusters = {name: changes[name] for name in changes.keys() & {"cluster"}}
    return [query_row(**changes), query_row("activity", **changes), diagnosis_row(**clusters)]


def query_row(query: str = "membership", **changes: Any) -> Row:
    """The status of a healthy query, with changes."""
    status = QueryStatus("prod", query, True, NOW_MS - 60_000, NOW_MS - 1_000, 500, last_batch_at_ms=NOW_MS - 1_000)
    status = replace(status, **({"read_until_ms": NOW_MS - 1_500} | changes))
    return Row(STATUS, f"{status.cluster}/query/{status.query}".encode(), encode(status))


def records_row(*counts: RecordCount, cluster: str = "prod", query: str = "membership") -> Row:
    """Decode totals of one query."""
    return Row(STATUS, f"{cluster}/records/{query}".encode(), encode(DecodeTotals(cluster, query, counts)))


def log_row(*topics: WatchedTopic, cluster: str = "prod", query: str = "membership") -> Row:
    """The input log of one query: truncated or recreated inputs."""
    return Row(STATUS, f"{cluster}/log/{query}".encode(), encode(LogTotals(cluster, query, NOW_MS, topics)))


def quarantine_row(*counts: QuarantineCount, part: int = 0) -> Row:
    """The quarantine of one part of the membership query's state."""
    totals = QuarantineTotals("prod", "membership", part, counts)
    return Row(STATUS, f"prod/quarantine/membership/{part}".encode(), encode(totals))


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


#: Maintenance of PAYMENTS for one hour.
SILENCE = AlertSilence(
    cluster="prod",
    silence_id="5ilence",
    groups=("payments",),
    starts_at_ms=NOW_MS - 60_000,
    ends_at_ms=NOW_MS + 3_540_000,
    created_at_ms=NOW_MS - 60_000,
    created_by="alice",
    reason="database moves",
)


def silence_row(silence: AlertSilence = SILENCE, **changes: Any) -> Row:
    """A silence with changes, under its key."""
    silence = replace(silence, **changes)
    return Row(SILENCES, f"{silence.cluster}/{silence.silence_id}".encode(), encode(silence))


def refused(view: View) -> dict[str, int]:
    """The number of rejected rows by topic, for any reason."""
    counts = view.fleet().refused
    return {topic: sum(count for (of, _), count in counts.items() if of == topic) for topic in TOPICS}
