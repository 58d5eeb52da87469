"""The overview: one row per group with its present values, for tables and the live page.

Receives a snapshot of the fleet and the time; returns objects to encode as JSON. Does not depend on HTTP.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from rebalance_contract import (
    WINDOWS_MS,
    AlertSilence,
    Finding,
    GroupLag,
    GroupSnapshot,
    GroupState,
    GroupWindow,
    Participant,
)
from rebalance_contract.api import FindingMark, Overview, OverviewRow, OverviewWindow, Readiness, SilenceMark
from rebalance_exporters.metrics.groups import assignor_of, count_members, count_partitions
from rebalance_exporters.owners import Owners
from rebalance_exporters.state.fleet import FleetSnapshot
from rebalance_exporters.state.kept import GroupKey

#: The window of values that a row shows for one window only: long enough for a trend, short enough to be current.
_SHOWN_WINDOW = "5m"
#: Fields that a row computes although the group has a field of the same name.
_COMPUTED = frozenset({"protocol", "members", "windows"})
#: Fields copied from the group: a field added to OverviewRow need not be added here.
COPIED = tuple(
    sorted({each.name for each in fields(OverviewRow)} & {each.name for each in fields(GroupSnapshot)} - _COMPUTED)
)


def make_overview(
    fleet: FleetSnapshot,
    readiness: Readiness,
    now_ms: int,
    *,
    version: str,
    owners: Owners,
    cluster: str | None = None,
) -> Overview:
    """Return the overview of all groups, or of those of one cluster."""
    keys, own = (key for key in sorted(fleet.groups) if cluster in {None, key[0]}), readiness.of(cluster)
    return Overview(
        at_ms=now_ms,
        version=version,
        ready=own.ready,
        ready_text=own.text,
        data_age_ms=data_age_ms(fleet, now_ms, cluster),
        groups=tuple(make_row(key, fleet, now_ms, owners) for key in keys),
    )


def data_age_ms(fleet: FleetSnapshot, now_ms: int, cluster: str | None = None) -> int | None:
    """Return the age of the oldest membership status of all clusters, or of one, in ms; null if there is none."""
    updates_ms = [
        s.updated_at_ms for s in fleet.queries if s.query == Participant.MEMBERSHIP and cluster in {None, s.cluster}
    ]
    return max(0, now_ms - min(updates_ms)) if updates_ms else None


def make_row(key: GroupKey, fleet: FleetSnapshot, now_ms: int, owners: Owners) -> OverviewRow:
    """Return the row of a group, which must be in the snapshot."""
    group, findings = fleet.groups[key], fleet.findings.get(key)
    present = group.state != GroupState.DELETED
    counts = count_partitions(group)
    known, timing = fleet.live_lag(key, now_ms), fleet.live_timing(key, now_ms)
    lag = known if present else None
    shown = lag.windows.get(_SHOWN_WINDOW) if lag else None
    last_commit_ms = lag.last_commit_ms if lag else None
    reported = timing.windows.get(_SHOWN_WINDOW) if timing and present else None
    gap_ms = reported.poll_gap_max_ms if reported else None
    return OverviewRow(
        **{name: getattr(group, name) for name in COPIED},
        state_since_ms=_since_ms(group),
        protocol=assignor_of(group),
        members=count_members(group),
        idle_members=None if counts is None else counts.count(0),
        assigned_partitions=None if counts is None else sum(counts),
        owner=owners.team_of(*key),
        windows=_windows(known),
        rebalances_total=sum(group.counters.rebalances.values()),
        lost_partition_seconds_total=None if group.is_at_least else fleet.cost(key).lost_partition_ms / 1000,
        lag=lag.total if lag else None,
        time_lag_ms=lag.time_lag_ms(now_ms) if lag else None,
        last_commit_ms=last_commit_ms,
        commit_age_ms=None if last_commit_ms is None else max(0, now_ms - last_commit_ms),
        lag_slope=shown.lag_slope if shown else None,
        heartbeat_headroom_ratio=reported.heartbeat_headroom if reported else None,
        poll_gap_max_seconds=None if gap_ms is None else gap_ms / 1000,
        findings=_marks(findings.firing() if findings else ()),
        silence=_silence_mark(fleet.silences.in_force(key, now_ms)),
    )


def _since_ms(group: GroupSnapshot) -> int | None:
    if group.state == GroupState.DELETED:
        return group.updated_at_ms
    return group.last_rebalance_ms if group.rebalancing_since_ms is None else group.rebalancing_since_ms


def _windows(lag: GroupLag | None) -> dict[str, OverviewWindow]:
    known = lag.windows if lag else {}
    return {name: _window(known[name]) for name in WINDOWS_MS if name in known}


def _window(window: GroupWindow) -> OverviewWindow:
    return OverviewWindow(
        rebalances=window.rebalances,
        generation_changes=window.generation_changes,
        rebalancing_ratio=round(window.rebalancing_ratio, 4),
        lost_partition_seconds=None if window.lost_partition_ms is None else window.lost_partition_ms / 1000,
    )


def _silence_mark(silence: AlertSilence | None) -> SilenceMark | None:
    if silence is None:
        return None
    return SilenceMark(
        silence.silence_id,
        silence.kind,
        silence.ends_at_ms,
        silence.created_by,
        silence.reason,
        silence.on_behalf_of,
        silence.version,
    )


def _marks(findings: Iterable[Finding]) -> tuple[FindingMark, ...]:
    return tuple(
        FindingMark(
            finding_id=each.finding_id,
            rule=each.rule,
            severity=each.severity,
            summary=each.summary,
            confidence=each.confidence,
            state=each.state,
            started_at_ms=each.started_at_ms,
            primary=each.primary,
        )
        for each in findings
    )
