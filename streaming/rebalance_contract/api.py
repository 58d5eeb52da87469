"""What the exporter's API answers: the exporter writes these rows, the terminal reads, `openapi.py` describes them.

Objects of the topics go out as the contract has them; here is what is put around them. A field that is added has a
default: a terminal may be newer than the exporter that it asks. Null means that something cannot be known, as in rows.
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
    gravity,
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
#: What stands below the path of a group, and above the id of one of its rebalances.
REBALANCES = "rebalances"
#: What stands below the path of a group for which settings would have avoided its rebalances.
ADVICE = "advice"
#: The most groups, causes or settings that a report can be asked for.
LONGEST_REPORT = 1_000
#: The most silences that are listed: all that are in force or to come, and some that ended.
MOST_SILENCES = 500


@dataclass(frozen=True, slots=True)
class OverviewWindow:
    """Sums over one sliding window, which ends when the diagnosis last looked at the group.

    `rebalancing_ratio` is the share of the window spent rebalancing, 0 to 1; `lost_partition_seconds` is added up over
    partitions. What no probe reports is null where the log is not read: generations and lost time.
    """

    rebalances: int
    generation_changes: int | None
    rebalancing_ratio: float
    lost_partition_seconds: float | None


@dataclass(frozen=True, slots=True)
class FindingMark:
    """A finding in a row: enough to show and to link it."""

    finding_id: str
    rule: str
    severity: AnySeverity
    summary: str
    confidence: float
    state: FindingState
    started_at_ms: int
    primary: bool


def reading_order(finding: Finding | FindingMark) -> tuple[int, bool, float, int]:
    """Return what findings are sorted by: severity, then causes, then how sure they are, then oldest first.

    Alerts, dashboards and the page have the same order, so that all of them show the same finding first. Information
    calls for nothing, so there the latest comes first: how a group formed is sure, and hours ago.
    """
    is_info = finding.severity == Severity.INFO
    latest = (0.0, -finding.started_at_ms) if is_info else (-finding.confidence, finding.started_at_ms)
    return -gravity(finding.severity), not finding.primary, *latest


@dataclass(frozen=True, slots=True)
class SilenceMark:
    """The silence that holds a group's alerts back now, or the deploy announced for now: enough to show and to end it.

    `created_by`, `on_behalf_of` and `version` as in a silence.
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
        """Whether nobody is to be called while it is in force; a deploy explains rebalances, and holds nothing back."""
        return self.kind != SilenceKind.DEPLOY


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """One group now. Null means that it cannot be known, never zero.

    `state_since_ms`: when its rebalance began or, if none goes on, when the last one ended. `members`, `idle_members`
    and `assigned_partitions` are null while no group record was read, the latter two also where an assignment is in no
    known form. `coordinator` is a broker's id. `windows` are named 1m, 5m and 15m. Lag is in records, `lag_slope` in
    records per second over five minutes; both, the windows and the age of commits are absent while the diagnosis is
    silent. `heartbeat_headroom_ratio` (1 to 0) and `poll_gap_max_seconds` are the worst any member reported in five
    minutes. `findings` are those that fire, gravest first. `silence` is null while nobody holds their alerts back and
    no deploy is announced. `counted_from` is `probes` where the log is not read: then all counts are at least so many.
    `protocol_type` is consumer, connect or whatever the clients call it; null in groups without one. `first_seen_ms` is
    since when `rebalances_total` counts; null where nobody noted it.
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

    @property
    def is_at_least(self) -> bool:
        """Whether its counts are lower bounds: they are counted from probes."""
        return self.counted_from != CountedFrom.LOG

    @property
    def is_silenced(self) -> bool:
        """Whether nobody is to be called for it now."""
        return self.silence is not None and self.silence.holds_alerts

    def rebalances_in(self, window: str) -> int | None:
        """Return how often the group rebalanced in a window; null where that is not known."""
        known = self.windows.get(window)
        return None if known is None else known.rebalances


@dataclass(frozen=True, slots=True)
class Overview:
    """All groups now.

    `data_age_ms` is how long ago the stream last published a status; with several streams, the one that is furthest
    behind; null: none has published one.
    """

    at_ms: int
    version: str
    ready: bool
    ready_text: str
    data_age_ms: int | None
    groups: tuple[OverviewRow, ...]


@dataclass(frozen=True, slots=True)
class GroupsAnswer:
    """The present snapshots of groups, by cluster and name, with the totals that are certain now.

    `next` is what to ask for with `after` to get those that come next; null where none do.
    """

    groups: tuple[GroupSnapshot, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of a sentence; `is_name`: somebody else's word, which may be of any script and direction."""

    text: str
    is_name: bool = False


@dataclass(frozen=True, slots=True)
class PhaseText:
    """A phase of a rebalance: what went on, how long, and until when.

    `least_ms` is the length, or its lower bound, where it is known; null times are not known.
    """

    what: str
    took: str
    least_ms: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RebalanceText:
    """A rebalance in words, as terminal and page show it.

    `why`: what set it off, who left, joined and came back. `members` and `generations`: before and after. `steps`: how
    many generations it took, null for one. `partitions`: how many moved. `without_commits`: which partitions stood
    still. `lag`: before, at its peak and when it was back, null where it is not known.
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
    """A rebalance, as docs/schemas/rebalances.schema.json describes it, what it cost, and all of that in words.

    `impact` is null while the diagnosis has reported none. `deploys` are those that were announced for its time.
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
    """What to change, and what that would have avoided of the group's rebalances of the last 24 hours.

    `text` is `avoided` in words. Both are null where it is not known: the advice is no setting that is estimated or
    has no value, the exporter keeps no rebalance of that time, or the answer is about many groups.
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
    """Findings, those that began last first."""

    findings: tuple[FindingRow, ...]


# --- Silences ---


@dataclass(frozen=True, slots=True)
class SilencesAnswer:
    """Silences that are in force or to come, and those that ended lately; those that end last come first.

    `user` is who asks, null where nobody has to log in. `read_only` says why whoever asks can neither make nor end one;
    null where nothing is known against it. `left_out` further ones are known, which end sooner.
    """

    at_ms: int
    silences: tuple[AlertSilence, ...]
    user: str | None = None
    read_only: str | None = None
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class MadeSilence(AlertSilence):
    """A silence as it was made.

    `covered_groups` of the groups that are known now are covered by it; null where an older exporter does not say.
    """

    covered_groups: int | None = None


@dataclass(frozen=True, slots=True)
class SilenceRequest:
    """What is to be silenced, or is deployed, why, and for how long: the body of a POST.

    `groups`, `version` and `on_behalf_of` as in a silence. `starts_at_ms` null: now. `cluster` may be left out where
    the exporter shows only one.
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
    """Why the API did not do what it was asked, and the names that look like the one asked for."""

    error: str
    did_you_mean: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether what is served can be trusted, and one line that says what is awaited, or what is missing for good.

    `share` is how much of what is awaited is done, 0 to 1; null where that cannot be counted, 1 when ready. `partly`:
    not all is ready, but some cluster is, of several that one exporter reads apart. `clusters` says so of each cluster
    of which anything is known, or that has a reader of its own.
    """

    ready: bool
    text: str
    share: float | None = None
    partly: bool = False
    clusters: Mapping[str, bool] = field(default_factory=dict)


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
    """Whether what is shown can be trusted, every few seconds. `data_age_ms` as in the overview."""

    at_ms: int
    ready: bool
    ready_text: str
    data_age_ms: int | None


@dataclass(frozen=True, slots=True)
class Reset:
    """More changed than the exporter remembers: load everything again."""


#: What the data of each event is.
EVENTS: Mapping[EventName, type] = {
    EventName.HELLO: Hello,
    EventName.GROUP: OverviewRow,
    EventName.GONE: Gone,
    EventName.REBALANCE: RebalanceRow,
    EventName.FINDING: Finding,
    EventName.STATUS: StatusNow,
    EventName.RESET: Reset,
}
