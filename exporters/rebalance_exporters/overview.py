"""One row per group for people: what a table or a live page shows of it now.

Receives a picture and the time; hands on objects that become JSON. Nothing here knows HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rebalance_exporters.health import MEMBERSHIP, Readiness
from rebalance_exporters.kept import GroupKey
from rebalance_exporters.metrics import assignor_of, count_partitions
from rebalance_exporters.owners import Owners
from rebalance_exporters.view import DELETED, Picture
from rebalance_streaming.groups.events import Finding, GroupSnapshot
from rebalance_streaming.groups.windows import WINDOWS_MS, Window, windows_at

#: The window of what a row shows once: long enough to see a trend, short enough to be about now.
_SHOWN_WINDOW = "5m"

#: Tells how many partition-milliseconds a group lost since a time, null where that is not known.
ReadLost = Callable[[GroupKey, int], int | None]


@dataclass(frozen=True, slots=True)
class OverviewWindow:
    """Sums over one sliding window. `lost_partition_seconds` is null where older rebalances are no longer kept."""

    rebalances: int
    generation_changes: int
    rebalancing_ratio: float
    lost_partition_seconds: float | None


@dataclass(frozen=True, slots=True)
class FindingMark:
    """A finding in a row: enough to show and to link it."""

    finding_id: str
    rule: str
    severity: str
    summary: str
    confidence: float
    state: str
    started_at_ms: int
    primary: bool


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """One group now. Null means that it cannot be known, never zero.

    `state_since_ms`: when its rebalance began or, if none goes on, when the last one ended. `members`, `idle_members`
    and `assigned_partitions` are null while no group record was read, the latter two also where an assignment is in no
    known form. `coordinator` is a broker's id. Lag is in records, `lag_slope` in records per second over five minutes;
    `heartbeat_headroom_ratio` (1 to 0) and `poll_gap_max_seconds` are the worst any member reported in five minutes.
    `findings` are those that fire, gravest first.
    """

    cluster: str
    group: str
    state: str | None
    state_since_ms: int | None
    type: str | None
    protocol: str | None
    generation: int | None
    members: int | None
    idle_members: int | None
    assigned_partitions: int | None
    coordinator: int | None
    owner: str | None
    windows: Mapping[str, OverviewWindow]
    rebalances_total: int
    lost_partition_seconds_total: float
    last_rebalance_ms: int | None
    lag: int | None
    time_lag_ms: int | None
    commit_age_ms: int | None
    lag_slope: float | None
    heartbeat_headroom_ratio: float | None
    poll_gap_max_seconds: float | None
    findings: tuple[FindingMark, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """All groups now. `data_age_ms` is how old the stalest stream's last sign of life is, null while there was none."""

    at_ms: int
    version: str
    ready: bool
    ready_text: str
    data_age_ms: int | None
    groups: tuple[OverviewRow, ...]


def make_overview(
    picture: Picture,
    readiness: Readiness,
    now_ms: int,
    *,
    version: str,
    owners: Owners,
    read_lost: ReadLost,
    cluster: str | None = None,
) -> Overview:
    """Put the overview of all groups together, or of those of one cluster."""
    keys = (key for key in sorted(picture.groups) if cluster in {None, key[0]})
    return Overview(
        at_ms=now_ms,
        version=version,
        ready=readiness.ready,
        ready_text=readiness.text,
        data_age_ms=data_age_ms(picture, now_ms, cluster),
        groups=tuple(make_row(key, picture, now_ms, owners, read_lost) for key in keys),
    )


def data_age_ms(picture: Picture, now_ms: int, cluster: str | None = None) -> int | None:
    """Return how long ago the membership query of any cluster (or of one) last gave a sign of life, at most."""
    told = [s.updated_at_ms for s in picture.queries if s.query == MEMBERSHIP and cluster in {None, s.cluster}]
    return max(0, now_ms - min(told)) if told else None


def make_row(key: GroupKey, picture: Picture, now_ms: int, owners: Owners, read_lost: ReadLost) -> OverviewRow:
    """Return the row of a group that the picture has."""
    group, findings = picture.groups[key], picture.findings.get(key)
    present = group.state != DELETED
    counts = count_partitions(group)
    lags, commits, timing = picture.lags.get(key), picture.commits.get(key), picture.timings.get(key)
    lag = lags.lag if lags and present else None
    reported = timing.windows.get(_SHOWN_WINDOW) if timing and present else None
    gap_ms = reported.poll_gap_max_ms if reported else None
    return OverviewRow(
        cluster=group.cluster,
        group=group.group,
        state=group.state,
        state_since_ms=_since_ms(group),
        type=group.type,
        protocol=assignor_of(group),
        generation=group.generation,
        members=None if group.state is None else len(group.members),
        idle_members=None if counts is None else counts.count(0),
        assigned_partitions=None if counts is None else sum(counts),
        coordinator=group.coordinator,
        owner=owners.team_of(*key),
        windows=_windows(group, now_ms, read_lost),
        rebalances_total=sum(group.counters.rebalances.values()),
        lost_partition_seconds_total=group.counters.lost_partition_ms / 1000,
        last_rebalance_ms=group.last_rebalance_ms,
        lag=lags.total if lags and present else None,
        time_lag_ms=None if lag is None else lag.time_ms,
        commit_age_ms=max(0, now_ms - commits.last_commit_ms) if commits and present else None,
        lag_slope=lags.windows[_SHOWN_WINDOW].lag_slope if lags and present else None,
        heartbeat_headroom_ratio=reported.heartbeat_headroom if reported else None,
        poll_gap_max_seconds=None if gap_ms is None else gap_ms / 1000,
        findings=_marks(findings.firing() if findings else ()),
    )


def _since_ms(group: GroupSnapshot) -> int | None:
    if group.state == DELETED:
        return group.updated_at_ms
    return group.last_rebalance_ms if group.rebalancing_since_ms is None else group.rebalancing_since_ms


def _windows(group: GroupSnapshot, now_ms: int, read_lost: ReadLost) -> dict[str, OverviewWindow]:
    sums = windows_at(group.windows, now_ms, group.rebalancing_since_ms)
    key = (group.cluster, group.group)
    return {name: _window(sums[name], read_lost(key, now_ms - length)) for name, length in WINDOWS_MS.items()}


def _window(window: Window, lost_ms: int | None) -> OverviewWindow:
    return OverviewWindow(
        rebalances=window.rebalances,
        generation_changes=window.generations_completed + window.generations_aborted,
        rebalancing_ratio=round(window.rebalancing_ratio, 4),
        lost_partition_seconds=None if lost_ms is None else lost_ms / 1000,
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
