"""What the exporter's API answers, where it is not an object of the contract itself.

A null means "not known", as in the contract; fields this version does not know are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalance_contract import Finding, FindingState, Rebalance, RebalanceImpact


@dataclass(frozen=True, slots=True)
class WindowRow:
    """One sliding window of a group; the ratio is the share of the window spent rebalancing, 0 to 1."""

    rebalances: int | None = None
    generation_changes: int | None = None
    rebalancing_ratio: float | None = None
    lost_partition_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A firing finding of a group in short."""

    finding_id: str
    rule: str
    severity: str
    summary: str = ""
    confidence: float | None = None
    state: str = FindingState.FIRING
    started_at_ms: int | None = None
    primary: bool = False


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """One group in the overview. `windows` are named 1m, 5m and 15m; `findings` come gravest first."""

    cluster: str
    group: str
    state: str | None = None
    state_since_ms: int | None = None
    type: str | None = None
    protocol: str | None = None
    generation: int | None = None
    members: int | None = None
    idle_members: int | None = None
    assigned_partitions: int | None = None
    coordinator: int | None = None
    owner: str | None = None
    windows: Mapping[str, WindowRow] = field(default_factory=dict)
    rebalances_total: int | None = None
    lost_partition_seconds_total: float | None = None
    last_rebalance_ms: int | None = None
    lag: int | None = None
    time_lag_ms: float | None = None
    commit_age_ms: float | None = None
    lag_slope: float | None = None
    heartbeat_headroom_ratio: float | None = None
    poll_gap_max_seconds: float | None = None
    findings: tuple[FindingRow, ...] = ()

    def window(self, name: str) -> WindowRow:
        """Return a window; an empty one where the exporter tells none."""
        return self.windows.get(name, _EMPTY)


_EMPTY = WindowRow()


@dataclass(frozen=True, slots=True)
class Overview:
    """All groups at once, by the exporter's clock. `data_age_ms` is how old the stream's last word is."""

    at_ms: int
    ready: bool
    groups: tuple[OverviewRow, ...]
    ready_text: str = ""
    data_age_ms: int | None = None
    version: str = ""


@dataclass(frozen=True, slots=True)
class RebalanceRow(Rebalance):
    """A rebalance and what it cost, which is null while the diagnosis has told nothing."""

    impact: RebalanceImpact | None = None


@dataclass(frozen=True, slots=True)
class RebalanceList:
    """The rebalances of a group that the exporter keeps, newest first."""

    rebalances: tuple[RebalanceRow, ...]


@dataclass(frozen=True, slots=True)
class RebalanceAnswer:
    """One rebalance with the findings about it, the primary one first."""

    rebalance: RebalanceRow
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class FindingList:
    """Findings in no promised order."""

    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Gone:
    """A group that the exporter forgot."""

    cluster: str
    group: str


@dataclass(frozen=True, slots=True)
class StatusNews:
    """Whether what is served can be trusted, as the event stream tells it every few seconds."""

    at_ms: int
    ready: bool
    ready_text: str = ""
    data_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the API did not do what it was asked, and the names that look like the one asked for."""

    error: str
    did_you_mean: tuple[str, ...] = ()
