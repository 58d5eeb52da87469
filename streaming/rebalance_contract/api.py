"""Responses of the exporter's API: the exporter writes them, the terminal reads them, `openapi.py` describes them.

Rows of the topics are returned unchanged; this module has the objects around them. Added fields need a default, because
a terminal may be newer than the exporter that it queries. Null means that something cannot be known, as in rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rebalance_contract.api_reports import Avoided
from rebalance_contract.findings import Advice, Finding
from rebalance_contract.groups import GroupSnapshot
from rebalance_contract.impact import RebalanceImpact
from rebalance_contract.rebalances import Rebalance
from rebalance_contract.sets import (
    AnyCountedFrom,
    AnyGroupState,
    AnyGroupType,
    AnySeverity,
    AnySilenceKind,
    CountedFrom,
    FindingState,
    Severity,
    SilenceKind,
    severity_rank,
)
from rebalance_contract.silences import AlertSilence

ROOT = "/api/v1"
OVERVIEW_PATH = f"{ROOT}/overview"
GROUPS_PATH = f"{ROOT}/groups"
FINDINGS_PATH = f"{ROOT}/findings"
STREAM_PATH = f"{ROOT}/stream"
SILENCES_PATH = f"{ROOT}/silences"
MESSAGES_PATH = f"{ROOT}/messages"
REPORT_PATH = f"{ROOT}/report"
OPENAPI_PATH = f"{ROOT}/openapi.json"
READY_PATH = "/-/ready"
#: Path segment between a group and the id of one of its rebalances.
REBALANCES = "rebalances"
#: Path segment after a group, for the settings that would have avoided its rebalances.
ADVICE = "advice"
#: Maximum number of groups, causes or settings in a report.
LONGEST_REPORT = 1_000
#: Maximum number of silences listed: all active and future ones, and some that ended.
MOST_SILENCES = 500


@dataclass(frozen=True, slots=True)
class OverviewWindow:
    """Sums over one sliding window, which ends when the diagnosis last processed the group.

    `rebalancing_ratio` is the share of the window spent rebalancing, 0 to 1; `lost_partition_seconds` is the sum over
    partitions. Generations and lost time are null if the log is not read, because no probe reports them.
    """

    rebalances: int
    generation_changes: int | None
    rebalancing_ratio: float
    lost_partition_seconds: float | None


@dataclass(frozen=True, slots=True)
class FindingMark:
    """A finding within a row, with enough fields to show and to link it."""

    finding_id: str
    rule: str
    severity: AnySeverity
    summary: str
    confidence: float
    state: FindingState
    started_at_ms: int
    primary: bool


def reading_order(finding: Finding | FindingMark) -> tuple[int, bool, float, int]:
    """Return the sort key of findings: severity, then primary ones, then confidence, then oldest first.

    Alerts, dashboards and the page use the same order, so that all of them show the same finding first. Information
    requires no action, so there the latest comes first: the formation of a group is certain, but hours old.
    """
    is_info = finding.severity == Severity.INFO
    latest = (0.0, -finding.started_at_ms) if is_info else (-finding.confidence, finding.started_at_ms)
    return -severity_rank(finding.severity), not finding.primary, *latest


@dataclass(frozen=True, slots=True)
class SilenceMark:
    """A group's active silence or announced deploy, with enough fields to show and to end it.

    `created_by`, `on_behalf_of` and `version` are defined as in a silence.
    """

    silence_id: str
    kind: AnySilenceKind
    ends_at_ms: int
    created_by: str
    reason: str
    on_behalf_of: str | None = None
    version: str | None = None

    @property
    def holds_alerts(self) -> bool:
        """Whether alerts are silenced while it is in force; a deploy only explains rebalances and silences nothing."""
        return self.kind != SilenceKind.DEPLOY


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """The current state of one group. Null means that a value cannot be known, never zero.

    `state_since_ms` is when its ongoing rebalance began or, if there is none, when the last one ended. `members`,
    `idle_members` and `assigned_partitions` are null while no group record has been read, the latter two also if an
    assignment is not in a known format. `coordinator` is a broker's id. `windows` are named 1m, 5m and 15m. Lag is in
    records, `lag_slope` in records per second over five minutes; both are null while no prober reports end offsets, and
    they, the windows and the last commit are absent while the diagnosis reports nothing. `heartbeat_headroom_ratio` (1
    to 0) and `poll_gap_max_seconds` are the worst values that any member reported in five minutes. `findings` are the
    firing ones, gravest first. `silence` is null without an active silence or announced deploy. `counted_from` is
    `probes` if the log is not read: then all counts are lower bounds. `protocol_type` is consumer, connect or another
    name chosen by the clients; null in groups without one. `first_seen_ms` is the time since which `rebalances_total`
    counts; null if it is not known. `last_rebalance_id` is the id of the latest rebalance, as `explain --rebalance` and
    the API's paths take it; null before the first one.
    """

    cluster: str
    group: str
    state: AnyGroupState | None
    state_since_ms: int | None
    type: AnyGroupType | None
    protocol: str | None
    generation: int | None
    members: int | None
    idle_members: int | None
    assigned_partitions: int | None
    coordinator: int | None
    owner: str | None
    windows: Mapping[str, OverviewWindow]
    rebalances_total: int
    lost_partition_seconds_total: float | None
    last_rebalance_ms: int | None
    lag: int | None
    time_lag_ms: int | None
    commit_age_ms: int | None
    lag_slope: float | None
    heartbeat_headroom_ratio: float | None
    poll_gap_max_seconds: float | None
    findings: tuple[FindingMark, ...]
    silence: SilenceMark | None = None
    protocol_type: str | None = None
    counted_from: AnyCountedFrom = CountedFrom.LOG
    first_seen_ms: int | None = None
    last_rebalance_id: str | None = None
    last_commit_ms: int | None = None

    @property
    def is_at_least(self) -> bool:
        """Whether its counts are lower bounds, because they are counted from probes."""
        return self.counted_from != CountedFrom.LOG

    @property
    def is_silenced(self) -> bool:
        """Whether its alerts are silenced now."""
        return self.silence is not None and self.silence.holds_alerts

    def rebalances_in(self, window: str) -> int | None:
        """Return the number of rebalances in a window; null if not known."""
        known = self.windows.get(window)
        return None if known is None else known.rebalances


@dataclass(frozen=True, slots=True)
class Overview:
    """The current state of all groups.

    `data_age_ms` is the time since the stream last published a status, the longest one if there are several streams;
    null: none has published one.
    """

    at_ms: int
    version: str
    ready: bool
    ready_text: str
    data_age_ms: int | None
    groups: tuple[OverviewRow, ...]


@dataclass(frozen=True, slots=True)
class GroupsAnswer:
    """The current snapshots of groups, sorted by cluster and name, with the totals that are certain now.

    `next` is the value of `after` that requests the next page; null on the last page.
    """

    groups: tuple[GroupSnapshot, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a sentence; `is_name`: a name from outside, which may be in any script and text direction."""

    text: str
    is_name: bool = False


@dataclass(frozen=True, slots=True)
class PhaseText:
    """A phase of a rebalance: its description, duration and end.

    `least_ms` is the duration, or its lower bound; null times are not known.
    """

    what: str
    took: str
    least_ms: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RebalanceText:
    """A rebalance in words, as terminal and page show it.

    `why`: what triggered it, which members left, joined and came back. `members` and `generations`: before and after.
    `steps`: how many generations it took, null for one. `partitions`: how many moved. `without_commits`: which
    partitions had no commits. `lag`: before, at its peak and when it recovered, null if not known.
    """

    why: tuple[TextPart, ...]
    took: str
    members: str
    generations: str
    steps: str | None
    partitions: str
    without_commits: str
    lag: str | None
    phases: tuple[PhaseText, ...]


@dataclass(frozen=True, slots=True)
class RebalanceRow(Rebalance):
    """A rebalance, as docs/schemas/rebalances.schema.json describes it, with its impact and a description in words.

    `impact` is null while the diagnosis has reported none. `deploys` are the deploys announced for its time.
    """

    impact: RebalanceImpact | None = None
    deploys: tuple[AlertSilence, ...] = ()
    text: RebalanceText | None = None


@dataclass(frozen=True, slots=True)
class RebalancesAnswer:
    """The rebalances of a group that the exporter keeps, newest first."""

    rebalances: tuple[RebalanceRow, ...]


# --- Findings ---


@dataclass(frozen=True, slots=True)
class AdviceRow(Advice):
    """What to change, and which of the group's rebalances of the last 24 hours the change would have avoided.

    `text` is `avoided` in words. Both are null if not known: no estimate exists for the setting, the advice has no
    value, the exporter keeps no rebalance of that time, or the response is about many groups.
    """

    avoided: Avoided | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class FindingRow(Finding):
    """A finding, as docs/schemas/findings.schema.json describes it, with what its advice would have avoided."""

    advice: tuple[AdviceRow, ...] = ()


@dataclass(frozen=True, slots=True)
class RebalanceAnswer:
    """One rebalance with the findings about it, the primary one first."""

    rebalance: RebalanceRow
    findings: tuple[FindingRow, ...]


@dataclass(frozen=True, slots=True)
class FindingsAnswer:
    """Findings, sorted by start, latest first."""

    findings: tuple[FindingRow, ...]


# --- Silences ---


@dataclass(frozen=True, slots=True)
class SilencesAnswer:
    """Active and future silences, and those that ended recently, sorted by end, latest first.

    `user` is the authenticated user, null if no login is required. `read_only` is why the user can neither create nor
    end a silence; null if no such reason is known. `left_out` is the number of further silences, which end earlier.
    """

    at_ms: int
    silences: tuple[AlertSilence, ...]
    user: str | None = None
    read_only: str | None = None
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class MadeSilence(AlertSilence):
    """A silence as it was created.

    `covered_groups` is the number of currently known groups that it covers; null from an older exporter.
    """

    covered_groups: int | None = None


@dataclass(frozen=True, slots=True)
class SilenceRequest:
    """A request to create a silence or announce a deploy: the body of a POST.

    `groups`, `version` and `on_behalf_of` are defined as in a silence. `starts_at_ms` null: now. `cluster` may be
    omitted if the exporter shows only one.
    """

    groups: tuple[str, ...]
    reason: str
    duration_ms: int
    starts_at_ms: int | None = None
    cluster: str | None = None
    kind: SilenceKind = SilenceKind.SILENCE
    version: str | None = None
    on_behalf_of: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the API rejected a request, and names similar to the requested one."""

    error: str
    did_you_mean: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the data served are complete, and one line that says what is awaited, or what is permanently missing.

    `share` is the progress, 0 to 1; null if it cannot be computed, 1 when ready. `partly`: not everything is ready, but
    at least one of several clusters that the exporter reads separately is. `clusters` has the readiness of each cluster
    that has data or its own reader, `texts` its line.
    """

    ready: bool
    text: str
    share: float | None = None
    partly: bool = False
    clusters: Mapping[str, bool] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    def of(self, cluster: str | None) -> Readiness:
        """Return the readiness of one cluster; that of everything if `cluster` is null or not known."""
        if cluster is None or cluster not in self.clusters:
            return self
        ready = self.clusters[cluster]
        return Readiness(ready, self.texts.get(cluster, self.text), 1.0 if ready else None)


# --- The event stream ---


class EventName(StrEnum):
    """The names of server-sent events."""

    HELLO = "hello"
    GROUP = "group"
    GONE = "gone"
    REBALANCE = "rebalance"
    FINDING = "finding"
    STATUS = "status"
    RESET = "reset"


@dataclass(frozen=True, slots=True)
class Hello:
    """The first event: the exporter's time and version."""

    at_ms: int
    version: str


@dataclass(frozen=True, slots=True)
class Gone:
    """A group that is no longer shown."""

    cluster: str
    group: str


@dataclass(frozen=True, slots=True)
class StatusNow:
    """Whether the data shown are complete, every few seconds. `data_age_ms` is defined as in the overview."""

    at_ms: int
    ready: bool
    ready_text: str
    data_age_ms: int | None


@dataclass(frozen=True, slots=True)
class Reset:
    """More has changed than the exporter remembers: the client must load everything again."""


#: The type of each event's data.
EVENTS: Mapping[EventName, type] = {
    EventName.HELLO: Hello,
    EventName.GROUP: OverviewRow,
    EventName.GONE: Gone,
    EventName.REBALANCE: RebalanceRow,
    EventName.FINDING: Finding,
    EventName.STATUS: StatusNow,
    EventName.RESET: Reset,
}
