"""A fleet in trouble, for the page: recorded incidents beside many calm groups, as rows of the stream's topics.

The incidents are the golden recordings, replayed and shifted in time so that they end just before NOW_MS.
"""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporters.contract_rows import NOW_MS, group_row, lag_row, stream_rows
from exporters.replayed import topic_row
from rebalance_contract import WINDOWS_MS, Counters, GroupSnapshot, GroupWindow, Member, Panes, TopicLag
from rebalance_exporters.state.view import Row, View
from rebalance_streaming.recordings.replay import replay

_FOLDER = Path(__file__).parents[2] / "golden" / "stories"
#: Epoch times, distinguished from durations by their size.
_EPOCH_FROM_MS = 1_000_000_000_000


@dataclass(frozen=True, slots=True)
class Incident:
    """A recording, the name under which its group is shown, and the time of its last record before NOW_MS."""

    recording: str
    group: str
    ended_ms_ago: int


INCIDENTS = (
    Incident("crash_loop-1", "payments-enricher", 12_000),
    Incident("long_batches-sick-1", "orders-projection", 95_000),
    Incident("poll_overrun-1", "checkout-audit", 210_000),
    Incident("rolling_deploy-1", "search-indexer", 330_000),
    Incident("reconciliation_stuck-1", "ledger-writer", 520_000),
)

CALM = (
    "ads-attribution", "basket-events", "billing-export", "cdc-customers", "cdc-inventory", "clickstream-sessions",
    "consent-audit", "coupon-engine", "crm-sync", "delivery-eta", "device-registry", "email-outbox", "feature-store",
    "fraud-features", "fraud-scoring", "geo-lookup", "image-resizer", "invoice-pdf", "iot-gateway", "loyalty-points",
    "mail-bounces", "metrics-rollup", "notification-push", "partner-feed", "price-updates", "product-index",
    "recommendations", "refund-worker", "returns-desk", "session-store", "shipping-labels", "stock-alerts",
    "subscription-billing", "tax-reports", "user-profile", "warehouse-loader",
)  # fmt: skip


def storm_view() -> View:
    """A view that has read all of its rows."""
    view = View(group_expiry_seconds=3600, keep_rebalances=10_000)
    view.apply(storm_rows())
    return view


def storm_rows() -> Iterator[Row]:
    """Yield the status of the stream, the incidents, calm groups, and one group that is currently rebalancing."""
    yield from stream_rows()
    for incident in INCIDENTS:
        yield from replay_incident(incident)
    for number, name in enumerate(CALM):
        yield from calm_rows(name, members=1 + number % 6, lag=37 * (number * 7 % 11))
    yield from calm_rows(
        "warehouse-hourly", 3, lag=5_210, state="PreparingRebalance", rebalancing_since_ms=NOW_MS - 7_000
    )


@functools.cache
def replay_recording(recording: str) -> tuple[dict[str, Any], ...]:
    """Return the rows of a replayed recording."""
    packed = _FOLDER / f"{recording}.jsonl.gz"
    raw = gzip.decompress(packed.read_bytes()) if packed.exists() else packed.with_suffix("").read_bytes()
    return tuple(json.loads(row) for row in replay([raw.splitlines(keepends=True)], output="all"))


def replay_incident(incident: Incident) -> Iterator[Row]:
    """Yield the rows of a replayed recording, as those of another group at another time."""
    rows = replay_recording(incident.recording)
    (recorded,) = (row for row in rows if row["kind"] == "group")
    shift_ms = NOW_MS - incident.ended_ms_ago - recorded["updated_at_ms"]
    for row in rows:
        moved = json.loads(json.dumps(_move(row, shift_ms)).replace(recorded["group"], incident.group))
        moved["cluster"] = "prod"
        if moved["kind"] == "group":
            moved["coordinator"] = 3
        written = topic_row(moved)
        if written is not None:
            yield written


def _move(value: Any, shift_ms: int) -> Any:
    if isinstance(value, dict):
        return {name: _move(each, shift_ms) for name, each in value.items()}
    if isinstance(value, list):
        return [_move(each, shift_ms) for each in value]
    is_epoch = isinstance(value, int) and value > _EPOCH_FROM_MS
    return value + shift_ms if is_epoch else value


def calm_rows(name: str, members: int, lag: int, **changes: Any) -> Iterator[Row]:
    """Yield the rows of a group whose members share twelve partitions of a topic named like the group."""
    present = tuple(
        Member(f"{name}-{number}-4f1c", f"{name}-{number}", f"/10.4.2.{number + 10}", partitions=share)
        for number in range(members)
        for share in ({name: list(range(number, 12, members))},)
    )
    snapshot = GroupSnapshot(
        cluster="prod",
        group=name,
        type="classic",
        state="Stable",
        protocol_type="consumer",
        protocol="cooperative-sticky",
        generation=3 + members,
        leader=present[0].member_id,
        members=present,
        counters=Counters(),
        windows=Panes(),
        first_seen_ms=NOW_MS - 86_400_000,
        last_rebalance_ms=NOW_MS - 50_000_000,
        coordinator=1 + members % 3,
        updated_at_ms=NOW_MS - 50_000_000,
    )
    yield group_row(snapshot, **changes)
    yield lag_row(
        group=name,
        total=lag,
        topics={name: TopicLag([0], [1_000], [lag], lag)},
        windows=dict.fromkeys(WINDOWS_MS, GroupWindow(commits=60, lag_max=lag, lag_slope=0.0)),
    )
