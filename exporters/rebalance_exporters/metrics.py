"""The table of metrics: each is declared once, as a value, with the way to read it from what is known.

Counters come cumulative from the stream, which counts at the source: a state that is sampled at a scrape misses most
rebalances. HELP texts are for the person on call. Labels never hold member ids, generations, offsets or event ids.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Self, TypeVar

from rebalance_exporters.health import Readiness, ReadProgress, status_age_seconds
from rebalance_exporters.kept import FIRING, Example, Examples, GroupFindings
from rebalance_exporters.view import DELETED, CommitProgress, LagProgress, Picture
from rebalance_streaming.groups.events import (
    DURATION_BUCKETS_MS,
    REASONS,
    GroupSnapshot,
    GroupTiming,
    MemberTiming,
    QueryStatus,
    TimingWindow,
)
from rebalance_streaming.groups.lag import LagWindow
from rebalance_streaming.groups.windows import Window

PREFIX = "kafka_rebalance_"

#: The labels that every metric of a group begins with.
GROUP_LABELS = ("cluster", "group")

#: Numbers follow the way a group takes, so that a table sorts sensibly; kept apart from any number of Kafka's.
STATE_CODES = {
    "Deleted": 0,
    "Empty": 1,
    "PreparingRebalance": 2,
    "CompletingRebalance": 3,
    "Assigning": 4,
    "Reconciling": 5,
    "Stable": 6,
    "NotReady": 7,
}

#: The states a group of each type can be in, which exist from the first scrape on.
STATES_OF = {
    "classic": ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable"),
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable"),
    "share": ("Empty", "Stable"),
    "streams": ("Empty", "NotReady", "Assigning", "Reconciling", "Stable"),
}

#: Record types of `__consumer_offsets` by Kafka's names in snake case; 0 and 1 are two key versions of one thing.
RECORD_TYPES = {
    None: "none",
    0: "offset_commit",
    1: "offset_commit",
    2: "group_metadata",
    3: "consumer_group_metadata",
    4: "consumer_group_partition_metadata",
    5: "consumer_group_member_metadata",
    6: "consumer_group_target_assignment_metadata",
    7: "consumer_group_target_assignment_member",
    8: "consumer_group_current_member_assignment",
    9: "share_group_partition_metadata",
    10: "share_group_member_metadata",
    11: "share_group_metadata",
    12: "share_group_target_assignment_metadata",
    13: "share_group_target_assignment_member",
    14: "share_group_current_member_assignment",
    15: "share_group_state_partition_metadata",
    16: "consumer_group_regular_expression",
    17: "streams_group_metadata",
    19: "streams_group_member_metadata",
    20: "streams_group_target_assignment_metadata",
    21: "streams_group_target_assignment_member",
    22: "streams_group_current_member_assignment",
    23: "streams_group_topology",
}

#: A group's sliding windows by name, summed up to now: they slide although nothing happens.
Windows = Mapping[str, Window]

Sample = tuple[tuple[str, ...], float]
Samples = Sequence[Sample]
_S = TypeVar("_S")


@dataclass(frozen=True, slots=True)
class Exemplar:
    """An event that stands for a sample: its value, and when it was, in seconds since 1970."""

    rebalance_id: str
    value: float
    timestamp: float


@dataclass(frozen=True, slots=True)
class Metric(Generic[_S]):
    """One metric: `name` without the prefix, `read` gives (label values, value) in the order of `labels`.

    No sample means that the value cannot be known; a counter's name ends in `_total`. A histogram's readings are those
    of its buckets, cumulative with the label `le`, and two last ones with `SUM` and `COUNT` in its place.
    `exemplify` gives exemplars by label values (a histogram's by the bound), which only OpenMetrics can show; null
    where there are none.
    """

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...]
    read: Callable[[_S], Samples]
    exemplify: Callable[[_S], Mapping[tuple[str, ...], Exemplar]] | None = None

    @property
    def full_name(self) -> str:
        """The name of its samples."""
        return PREFIX + self.name

    @property
    def family_name(self) -> str:
        """The name OpenMetrics gives the family: a counter's without its ending."""
        return self.full_name.removesuffix("_total")


#: Stand for a histogram's `_sum` and `_count` where its readings have the bucket's bound.
SUM, COUNT = "sum", "count"

#: The buckets of a duration as labels, in seconds.
_BOUNDS = (*((str(bound / 1000),) for bound in DURATION_BUCKETS_MS), ("+Inf",))
_SUM, _COUNT = (SUM,), (COUNT,)
_REASONS = {reason: (reason,) for reason in REASONS}


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One group as its series tell it; `owner` is null where the owner file names none.

    `partitions` are those of each member; null when one assignment cannot be read or no group record was.
    """

    snapshot: GroupSnapshot
    owner: str | None
    examples: Examples
    partitions: list[int] | None

    @classmethod
    def about(cls, snapshot: GroupSnapshot, owner: str | None = None, examples: Examples | None = None) -> Self:
        """Put the facts about a group together."""
        return cls(snapshot, owner, examples or Examples(), count_partitions(snapshot))


@dataclass(frozen=True, slots=True)
class CommitMoment:
    """A group's commits seen from now: a reading that changes although nothing happened."""

    progress: CommitProgress
    now_ms: int


@dataclass(frozen=True, slots=True)
class Reload:
    """How the last reading of a settings file went, and when it last went well, in epoch milliseconds."""

    file: str
    successful: bool
    succeeded_ms: int


@dataclass(frozen=True, slots=True)
class MonitorState:
    """What the monitor's own metrics are read from; groups and series are those of the exposition being written."""

    picture: Picture
    progress: ReadProgress
    readiness: Readiness
    now_ms: int
    version: str
    exported_groups: int
    dropped_groups: int
    series: int
    dropped_series: Mapping[str, int]
    reloads: tuple[Reload, ...] = ()


def _one(value: float | None) -> Samples:
    return [] if value is None else [((), value)]


def _read_rebalances(group: GroupFacts) -> Samples:
    # A reason that a newer stream knows is shown too; those known here exist from the first scrape on, at 0.
    known = group.snapshot.counters.rebalances
    samples: list[Sample] = [(labels, known.get(reason, 0)) for reason, labels in _REASONS.items()]
    if not known.keys() <= _REASONS.keys():
        samples += [((reason,), known[reason]) for reason in sorted(known.keys() - _REASONS.keys())]
    return samples


def _exemplify_rebalances(group: GroupFacts) -> Mapping[tuple[str, ...], Exemplar]:
    return {(reason,): _exemplar(example, 1) for reason, example in group.examples.by_reason.items()}


def _exemplar(example: Example, value: float) -> Exemplar:
    return Exemplar(example.rebalance_id, value, example.at_ms / 1000)


def _read_generations(group: GroupFacts) -> Samples:
    counters = group.snapshot.counters
    return [(("completed",), counters.generations_completed), (("aborted",), counters.generations_aborted)]


def _read_durations(group: GroupFacts) -> Samples:
    counters = group.snapshot.counters
    # A stream of another version may have other buckets; what cannot be placed must not be shown in a wrong one.
    if len(counters.durations) != len(_BOUNDS):
        return []
    counts = list(itertools.accumulate(counters.durations))
    return [*zip(_BOUNDS, counts, strict=True), (_SUM, counters.duration_ms / 1000), (_COUNT, counts[-1])]


def _exemplify_durations(group: GroupFacts) -> Mapping[tuple[str, ...], Exemplar]:
    return {
        _BOUNDS[bucket]: _exemplar(example, (example.duration_ms or 0) / 1000)
        for bucket, example in group.examples.by_bucket.items()
    }


def _per_window(read: Callable[[Window], float]) -> Callable[[Windows], Samples]:
    """Make a reading of one window a reading of all of them."""

    def read_all(windows: Windows) -> Samples:
        return [((name,), read(window)) for name, window in windows.items()]

    return read_all


def _read_member_changes(group: GroupFacts) -> Samples:
    counters = group.snapshot.counters
    changes = {
        "joined": counters.members_joined,
        "left": counters.members_left,
        "expired": counters.members_expired,
        "poll_timeout": counters.members_poll_timeout,
        "replaced": counters.members_replaced,
    }
    return [((change,), count) for change, count in changes.items()]


def assignor_of(group: GroupSnapshot) -> str | None:
    """Return the group's assignor: only in the consumer protocol is the protocol's name that."""
    return group.protocol if group.protocol_type == "consumer" else None


def _read_info(group: GroupFacts) -> Samples:
    known = group.snapshot
    coordinator = "" if known.coordinator is None else str(known.coordinator)
    labels = (known.protocol_type, known.protocol, assignor_of(known), coordinator, group.owner)
    return [(tuple(label or "" for label in labels), 1)]


def count_partitions(group: GroupSnapshot) -> list[int] | None:
    """Return the partitions of each member; null when one assignment cannot be read or no group record was."""
    if group.state is None:
        return None
    counts = []
    for member in group.members:
        if member.partitions is None:
            return None
        counts.append(sum(map(len, member.partitions.values())))
    return counts


def _read_assigned(group: GroupFacts) -> Samples:
    return _one(None if group.partitions is None else sum(group.partitions))


def _read_largest(group: GroupFacts) -> Samples:
    return _one(max(group.partitions) if group.partitions else None)


def _read_idle(group: GroupFacts) -> Samples:
    return _one(None if group.partitions is None else group.partitions.count(0))


def _per_lag_window(read: Callable[[LagWindow], float | None]) -> Callable[[LagProgress], Samples]:
    def read_all(progress: LagProgress) -> Samples:
        windows = progress.windows.items()
        return [((name,), value) for name, window in windows if (value := read(window)) is not None]

    return read_all


def _read_topic_lag(progress: LagProgress) -> Samples:
    return [((topic,), lag) for topic, lag in progress.by_topic]


def _read_partition_lag(progress: LagProgress) -> Samples:
    return [
        ((name, str(partition)), lag)
        for name, topic in (sorted(progress.lag.topics.items()) if progress.lag else ())
        for partition, lag in zip(topic.partitions, topic.lags, strict=True)
    ]


def _read_active(of: GroupFindings) -> Samples:
    active: dict[tuple[str, str], int] = {}
    for finding in of.findings:
        kind = (finding.rule, finding.severity)
        active[kind] = max(active.get(kind, 0), int(finding.state == FIRING))
    return sorted(active.items())


def _per_timing_window(read: Callable[[TimingWindow], float | None]) -> Callable[[GroupTiming], Samples]:
    def read_all(timing: GroupTiming) -> Samples:
        windows = timing.windows.items()
        return [((name,), value) for name, window in windows if (value := read(window)) is not None]

    return read_all


def _per_member(read: Callable[[MemberTiming], float | None]) -> Callable[[GroupTiming], Samples]:
    """Make a reading of one member a reading of all; of clients that share a name and a host, the largest counts."""

    def read_all(timing: GroupTiming) -> Samples:
        values: dict[tuple[str, ...], float] = {}
        for member in timing.members:
            value, labels = read(member), member_labels(member)
            if value is not None:
                values[labels] = max(value, values.get(labels, value))
        return sorted(values.items())

    return read_all


def member_labels(member: MemberTiming) -> tuple[str, str]:
    """Return what a member is called in labels: names that survive a rejoin."""
    return member.client_id or "", member.host or ""


def _read_commit_age(moment: CommitMoment) -> Samples:
    return _one(max(0, moment.now_ms - moment.progress.last_commit_ms) / 1000)


def _read_state_seconds(spent: Mapping[str, float]) -> Samples:
    return [((state,), seconds) for state, seconds in spent.items()]


def complete_states(group: GroupSnapshot, seconds: Mapping[str, float]) -> dict[str, float]:
    """Return seconds for every state the group's type can be in, and others it was in, always in one order."""
    states = {*STATES_OF.get(group.type or "", ()), *seconds} - {DELETED}
    return {state: seconds.get(state, 0.0) for state in sorted(states)}


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


_STATE_LIST = ", ".join(f"{code} {state}" for state, code in STATE_CODES.items())

#: Rendered once per change of a group.
GROUP_METRICS: tuple[Metric[GroupFacts], ...] = (
    Metric(
        "rebalances_total",
        "counter",
        "Logical rebalances, by what set them off in the log: generations that follow each other before the group "
        "settled are one. Counted by the stream when they begin, so none between two scrapes is missed. Why a member "
        "came or went takes more than the log: that is the rule of kafka_rebalance_findings_total.",
        ("reason",),
        _read_rebalances,
        _exemplify_rebalances,
    ),
    Metric(
        "generations_total",
        "counter",
        "Generations of the group: completed ones got an assignment, aborted ones were overtaken by the next round. "
        "Many aborted ones mean that members come or go faster than the group can settle.",
        ("outcome",),
        _read_generations,
    ),
    Metric(
        "duration_seconds",
        "histogram",
        "How long logical rebalances took, start to stable, counted 20 s after their end. Where only bounds are known "
        "(classic groups without a prober) the lower one.",
        (),
        _read_durations,
        _exemplify_durations,
    ),
    Metric(
        "lost_partition_seconds_total",
        "counter",
        "Partition-seconds that passed during rebalances without a commit, from gaps of 7.5 s or more: an upper bound "
        "by up to a commit interval each, and nothing for shorter ones.",
        (),
        lambda group: _one(group.snapshot.counters.lost_partition_ms / 1000),
    ),
    Metric(
        "moved_partitions_total",
        "counter",
        "Partitions that changed from one member to another, a restarted member being the same. Counted 20 s after the "
        "end of the rebalance.",
        (),
        lambda group: _one(group.snapshot.counters.partitions_moved),
    ),
    Metric(
        "member_changes_total",
        "counter",
        "Members that joined, left or were replaced (a static member that came back under a new id). `left` covers "
        "every way to go; `expired` (its session was over) and `poll_timeout` (its poll limit was) are among them, as "
        "the diagnosis finds 20 s later, and not for groups it ignores.",
        ("change",),
        _read_member_changes,
    ),
    Metric(
        "last_rebalance_timestamp_seconds",
        "gauge",
        "When the group's last rebalance was completed, or began if it goes on, in seconds since 1970. Absent while "
        "none was seen.",
        (),
        lambda group: _one(_seconds(group.snapshot.last_rebalance_ms)),
    ),
    Metric(
        "group_info",
        "gauge",
        "Always 1: join it on cluster and group to add protocol, assignor, coordinator or owner to another query. The "
        "coordinator (a broker's id) is known where `rebalance-monitor probe` runs, the owner from the owner file.",
        ("protocol_type", "protocol", "assignor", "coordinator", "owner"),
        _read_info,
    ),
    Metric(
        "group_generation",
        "gauge",
        "The group's present generation. It starts again when a group is deleted and made anew: do not take rates.",
        (),
        lambda group: _one(group.snapshot.generation),
    ),
    Metric(
        "group_members",
        "gauge",
        "Members of the group after its last rebalance.",
        (),
        lambda group: _one(None if group.snapshot.state is None else len(group.snapshot.members)),
    ),
    Metric(
        "group_state_code",
        "gauge",
        f"The group's last known state as a number, as decoration for tables: {_STATE_LIST}. "
        "Sampled at scrapes it misses most rebalances: alert on kafka_rebalance_rebalances_total instead.",
        (),
        lambda group: _one(STATE_CODES.get(group.snapshot.state or "")),
    ),
    Metric(
        "group_assigned_partitions",
        "gauge",
        "Partitions assigned to members. Absent where the assignments are not in the consumer protocol's form.",
        (),
        _read_assigned,
    ),
    Metric(
        "group_idle_members",
        "gauge",
        "Members without any partition: more members than partitions, or an assignment that is skewed.",
        (),
        _read_idle,
    ),
    Metric(
        "group_member_partitions_max",
        "gauge",
        "Partitions of the member that has the most. Twice the mean or more for long: the assignment is skewed. Absent "
        "where there is no member or an assignment cannot be read.",
        (),
        _read_largest,
    ),
)

_WINDOW = ("window",)

#: Rendered at every scrape for groups in which something happened lately.
WINDOW_METRICS: tuple[Metric[Windows], ...] = (
    Metric(
        "window_generation_changes",
        "gauge",
        "Generations, or group epochs, of the last 1, 5 and 15 minutes, completed and aborted.",
        _WINDOW,
        _per_window(lambda window: window.generations_completed + window.generations_aborted),
    ),
    Metric(
        "window_rebalances",
        "gauge",
        "Logical rebalances of the last 1, 5 and 15 minutes.",
        _WINDOW,
        _per_window(lambda window: window.rebalances),
    ),
    Metric(
        "window_rebalancing_ratio",
        "gauge",
        "Share of the last 1, 5 and 15 minutes that the group spent rebalancing, 0 to 1.",
        _WINDOW,
        _per_window(lambda window: window.rebalancing_ratio),
    ),
)

#: Rendered once per probe of a group.
LAG_METRICS: tuple[Metric[LagProgress], ...] = (
    Metric(
        "group_lag",
        "gauge",
        "Records between what the group committed and the end of its partitions, as of the last probe. Absent while no "
        "end offset is known: without `rebalance-monitor probe` nobody knows.",
        (),
        lambda progress: _one(progress.total),
    ),
    Metric("topic_lag", "gauge", "The group's lag per topic, in records.", ("topic",), _read_topic_lag),
    Metric(
        "group_time_lag_seconds",
        "gauge",
        "How long the oldest record that the group has not committed has been there: at most this, and less by no more "
        "than an eighth or one probe interval. A lower bound only for records older than the prober's memory.",
        (),
        lambda progress: _one(None if progress.lag is None else progress.lag.time_ms / 1000),
    ),
    Metric(
        "window_commits",
        "gauge",
        "Offset commits of the last 1, 5 and 15 minutes.",
        _WINDOW,
        _per_lag_window(lambda window: window.commits),
    ),
    Metric(
        "window_lag_max",
        "gauge",
        "Largest lag probed in the last 1, 5 and 15 minutes, in records.",
        _WINDOW,
        _per_lag_window(lambda window: window.lag_max),
    ),
    Metric(
        "window_lag_slope",
        "gauge",
        "How fast the lag grows (or, below 0, shrinks) over the last 1, 5 and 15 minutes, in records per second.",
        _WINDOW,
        _per_lag_window(lambda window: window.lag_slope),
    ),
)

#: Off by default: a series per committed partition.
PARTITION_LAG: Metric[LagProgress] = Metric(
    "partition_lag", "gauge", "The group's lag per partition, in records.", ("topic", "partition"), _read_partition_lag
)

_FINDING = ("rule", "severity")

#: Rendered once per change of a group's findings.
FINDING_METRICS: tuple[Metric[GroupFindings], ...] = (
    Metric(
        "finding_active",
        "gauge",
        "1 while a finding of this diagnosis is open for the group, 0 for a while after. `rule` is explained in "
        "docs/diagnoses.md; /api/v1/findings has evidence and advice. Group is empty where it is about the cluster.",
        _FINDING,
        _read_active,
    ),
    Metric(
        "findings_total",
        "counter",
        "How often a finding of this diagnosis began to fire, as far as the exporter has read.",
        _FINDING,
        lambda of: sorted(of.fired.items()),
    ),
)

#: Rendered once per report of a group's clients: only where clients report.
TIMING_METRICS: tuple[Metric[GroupTiming], ...] = (
    Metric(
        "window_heartbeat_age_max_seconds",
        "gauge",
        "Oldest last heartbeat that a member reported in the last 1, 5 and 15 minutes.",
        _WINDOW,
        _per_timing_window(lambda window: _seconds(window.heartbeat_age_max_ms)),
    ),
    Metric(
        "window_heartbeat_headroom_ratio",
        "gauge",
        "Smallest share of the session time-out that was left when a member reported, 1 to 0; at 0 it is removed. "
        "Below a third for long: heartbeats are late.",
        _WINDOW,
        _per_timing_window(lambda window: window.heartbeat_headroom),
    ),
    Metric(
        "window_poll_gap_max_seconds",
        "gauge",
        "Longest time since a member's last poll in the last 1, 5 and 15 minutes. Close to max.poll.interval: its "
        "batches are too large.",
        _WINDOW,
        _per_timing_window(lambda window: _seconds(window.poll_gap_max_ms)),
    ),
    Metric(
        "window_poll_headroom_ratio",
        "gauge",
        "Smallest share of max.poll.interval that was left when a member reported, 1 to 0; at 0 it leaves the group. "
        "Below a fifth: the next slow batch costs a rebalance.",
        _WINDOW,
        _per_timing_window(lambda window: window.poll_headroom),
    ),
)

_MEMBER = ("client_id", "host")

#: Off by default: series per member.
MEMBER_METRICS: tuple[Metric[GroupTiming], ...] = (
    Metric(
        "member_heartbeat_age_seconds",
        "gauge",
        "Age of the member's last heartbeat when it last reported.",
        _MEMBER,
        _per_member(lambda member: _seconds(member.heartbeat_age_ms)),
    ),
    Metric(
        "member_heartbeat_headroom_ratio",
        "gauge",
        "Share of the member's session time-out that was left when it last reported.",
        _MEMBER,
        _per_member(lambda member: member.heartbeat_headroom),
    ),
    Metric(
        "member_poll_age_seconds",
        "gauge",
        "Time since the member's last poll when it last reported.",
        _MEMBER,
        _per_member(lambda member: _seconds(member.poll_age_ms)),
    ),
)

#: Rendered at every scrape, from the seconds spent per state.
STATE_SECONDS: Metric[Mapping[str, float]] = Metric(
    "state_seconds_total",
    "counter",
    "Time spent per group state, from the states the stream publishes, since the exporter first read of the group. "
    "Of a classic group only `rebalance-monitor probe` sees the states between Empty and Stable. For the share of "
    "time lost to rebalances take kafka_rebalance_window_rebalancing_ratio, which needs no probe.",
    ("state",),
    _read_state_seconds,
)

#: Rendered at every scrape.
COMMIT_AGE: Metric[CommitMoment] = Metric(
    "group_commit_age_seconds",
    "gauge",
    "Time since the group's last offset commit. A group that has work and whose age grows does not get on. Absent "
    "while no commit was read: after a start only the last minutes of commits are.",
    (),
    _read_commit_age,
)


def _read_records(state: MonitorState) -> Samples:
    totals: Counter[tuple[str, ...]] = Counter()
    for row in state.picture.records:
        for record in row.records:
            kind = RECORD_TYPES.get(record.type, str(record.type))
            version = "none" if record.value_version is None else str(record.value_version)
            totals[row.cluster, record.query, kind, version, record.outcome] += record.count
    return sorted(totals.items())


def _per_query(read: Callable[[QueryStatus], float | None]) -> Callable[[MonitorState], Samples]:
    """Make a reading of one query's status a reading of all of them."""

    def read_all(state: MonitorState) -> Samples:
        values = [((status.cluster, status.query), read(status)) for status in state.picture.queries]
        return [(labels, value) for labels, value in values if value is not None]

    return read_all


def _read_status_age(state: MonitorState) -> Samples:
    return [
        ((status.cluster, status.query), status_age_seconds(status, state.now_ms)) for status in state.picture.queries
    ]


def _read_late(groups: Iterable[GroupSnapshot]) -> Samples:
    totals: Counter[tuple[str, ...]] = Counter()
    for group in groups:
        totals[group.cluster, "late"] += group.windows.late
        totals[group.cluster, "future"] += group.windows.future
    return sorted(totals.items())


_QUERY = ("cluster", "query")

#: The monitor's own few hundred series.
MONITOR_METRICS: tuple[Metric[MonitorState], ...] = (
    Metric(
        "monitor_ready",
        "gauge",
        "1 when the picture is complete and fresh. At 0 trust no other series: /-/ready says what is awaited.",
        (),
        lambda state: _one(int(state.readiness.ready)),
    ),
    Metric(
        "monitor_records_total",
        "counter",
        "Records of the offsets topic by how decoding ended. Unsupported or corrupt ones that grow mean that part of "
        "the log is not understood.",
        ("cluster", "query", "type", "version", "outcome"),
        _read_records,
    ),
    Metric(
        "monitor_caught_up",
        "gauge",
        "1 once a query has processed all that was in the log when it started.",
        _QUERY,
        _per_query(lambda status: int(status.caught_up)),
    ),
    Metric(
        "monitor_source_lag_records",
        "gauge",
        "Log positions between a query's last batch and the end of the log, an upper bound of unread records.",
        _QUERY,
        _per_query(lambda status: status.source_lag_records),
    ),
    Metric(
        "monitor_event_delay_seconds",
        "gauge",
        "Time from the newest processed record to the end of its batch: how late the monitor learns of things.",
        _QUERY,
        _per_query(lambda status: _seconds(status.event_delay_ms)),
    ),
    Metric(
        "monitor_batch_seconds",
        "gauge",
        "How long a query's last batch took. Longer than its trigger for a while: the stream needs more cores.",
        _QUERY,
        _per_query(lambda status: _seconds(status.batch_ms)),
    ),
    Metric(
        "monitor_batch_rows",
        "gauge",
        "Records read by a query's last batch.",
        _QUERY,
        _per_query(lambda status: status.input_rows),
    ),
    Metric(
        "monitor_trigger_seconds",
        "gauge",
        "How often a query means to run a batch.",
        _QUERY,
        _per_query(lambda status: _seconds(status.trigger_ms)),
    ),
    Metric(
        "monitor_last_batch_timestamp_seconds",
        "gauge",
        "When a query last finished a batch or found nothing new to read, in seconds since 1970.",
        _QUERY,
        _per_query(lambda status: _seconds(status.last_batch_at_ms)),
    ),
    Metric(
        "monitor_status_age_seconds",
        "gauge",
        "Time since a query last gave a sign of life. When it grows, the stream is down and all series are stale.",
        _QUERY,
        _read_status_age,
    ),
    Metric(
        "monitor_start_timestamp_seconds",
        "gauge",
        "When a query started, in seconds since 1970.",
        _QUERY,
        _per_query(lambda status: _seconds(status.started_at_ms)),
    ),
    Metric(
        "monitor_state_rows",
        "gauge",
        "Rows of state a query holds, about one per group.",
        _QUERY,
        _per_query(lambda status: status.state_rows),
    ),
    Metric(
        "monitor_state_bytes",
        "gauge",
        "Memory a query's state takes.",
        _QUERY,
        _per_query(lambda status: status.state_bytes),
    ),
    Metric(
        "monitor_client_metrics_total",
        "counter",
        "Messages of client metrics by topic and outcome: `decoded`, or why they were not understood.",
        ("cluster", "topic", "outcome"),
        lambda state: [
            ((totals.cluster, each.topic, each.outcome), each.count)
            for totals in state.picture.reports
            for each in totals.reports
        ],
    ),
    Metric(
        "monitor_late_events_total",
        "counter",
        "Rebalances and generations whose records carry a time too far in the past (late) or ahead (future) for the "
        "sliding windows; future ones count as of now. Rising: a broker's clock is wrong.",
        ("cluster", "kind"),
        lambda state: _read_late(state.picture.groups.values()),
    ),
    Metric(
        "monitor_rows_total",
        "counter",
        "Rows the exporter read from each of the stream's topics.",
        ("topic",),
        lambda state: [((topic,), count) for topic, count in state.picture.rows.items()],
    ),
    Metric(
        "monitor_contract_errors_total",
        "counter",
        "Rows the exporter could not understand and left out: update it, or look for what else writes to the topic.",
        ("topic",),
        lambda state: [((topic,), count) for topic, count in state.picture.contract_errors.items()],
    ),
    Metric(
        "monitor_kafka_errors_total",
        "counter",
        "Errors the exporter's Kafka client reported; while not ready, /-/ready shows the latest.",
        (),
        lambda state: _one(state.progress.kafka_errors),
    ),
    Metric(
        "monitor_groups",
        "gauge",
        "Known groups, by whether they have series here or were dropped because of the limit.",
        ("outcome",),
        lambda state: [(("exported",), state.exported_groups), (("dropped",), state.dropped_groups)],
    ),
    Metric(
        "monitor_series",
        "gauge",
        "Series of groups in this exposition.",
        (),
        lambda state: _one(state.series),
    ),
    Metric(
        "monitor_dropped_series_total",
        "counter",
        "Series left out because of a limit, counted once when their group or member is first left out. Any rise "
        "means that something is not watched: raise the limit.",
        ("limit",),
        lambda state: [((limit,), count) for limit, count in state.dropped_series.items()],
    ),
    Metric(
        "monitor_last_probe_timestamp_seconds",
        "gauge",
        "When the newest probe that was read was made, in seconds since 1970. Absent: nobody probes, and lag, "
        "coordinators and the states within a classic rebalance are not known.",
        ("cluster",),
        lambda state: [((cluster,), totals.last_ms / 1000) for cluster, totals in sorted(state.picture.probes.items())],
    ),
    Metric(
        "monitor_probe_complaints_total",
        "counter",
        "Complaints that came with probes, such as a coordinator that refused to answer, as far as the exporter has "
        "read. The prober's own metrics count what it could not ask at all.",
        ("cluster",),
        lambda state: [((cluster,), totals.errors) for cluster, totals in sorted(state.picture.probes.items())],
    ),
    Metric(
        "monitor_config_reload_successful",
        "gauge",
        "1 when the file was understood when it was last read. At 0 the former content is in force; the log says why.",
        ("file",),
        lambda state: [((reload.file,), int(reload.successful)) for reload in state.reloads],
    ),
    Metric(
        "monitor_config_reload_success_timestamp_seconds",
        "gauge",
        "When the file was last read successfully, in seconds since 1970. SIGHUP reads it again.",
        ("file",),
        lambda state: [((reload.file,), reload.succeeded_ms / 1000) for reload in state.reloads],
    ),
    Metric(
        "monitor_build_info",
        "gauge",
        "Always 1: the exporter's version.",
        ("version",),
        lambda state: [((state.version,), 1)],
    ),
)
