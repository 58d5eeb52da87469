"""The table of metrics: each is declared once, as a value, with the way to read it from what is known.

Counters come cumulative from the stream, which counts at the source: a state that is sampled at a scrape misses most
rebalances. HELP texts are for the person on call. Labels never hold member ids, generations, offsets or event ids.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from rebalance_exporters.health import Readiness, ReadProgress, status_age_seconds
from rebalance_exporters.view import FIRING, CommitProgress, GroupFindings, LagProgress, Picture
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
Samples = Iterable[Sample]
_S = TypeVar("_S")


@dataclass(frozen=True, slots=True)
class Metric(Generic[_S]):
    """One metric: `name` without the prefix, `read` gives (label values, value) in the order of `labels`.

    No sample means that the value cannot be known; a counter's name ends in `_total`. A histogram's readings are those
    of its buckets, cumulative with the label `le`, and two more, `SUM` and `COUNT` in its place.
    """

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...]
    read: Callable[[_S], Samples]

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


@dataclass(frozen=True, slots=True)
class CommitMoment:
    """A group's commits seen from now: the only reading of a group that changes although nothing happened."""

    progress: CommitProgress
    now_ms: int


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
    dropped_series_total: int


def _one(value: float | None) -> Samples:
    return [] if value is None else [((), value)]


def _read_rebalances(group: GroupSnapshot) -> Samples:
    # A reason that a newer stream knows is shown too; those known here exist from the first scrape on, at 0.
    counts = dict.fromkeys(REASONS, 0) | group.counters.rebalances
    return [((reason,), count) for reason, count in counts.items()]


def _read_generations(group: GroupSnapshot) -> Samples:
    counters = group.counters
    return [(("completed",), counters.generations_completed), (("aborted",), counters.generations_aborted)]


def _read_durations(group: GroupSnapshot) -> Samples:
    counts = list(itertools.accumulate(group.counters.durations))
    bounds = [str(bound / 1000) for bound in DURATION_BUCKETS_MS]
    buckets = [((bound,), count) for bound, count in zip([*bounds, "+Inf"], counts, strict=True)]
    return [*buckets, ((SUM,), group.counters.duration_ms / 1000), ((COUNT,), counts[-1])]


def _per_window(read: Callable[[Window], float]) -> Callable[[Windows], Samples]:
    """Make a reading of one window a reading of all of them."""

    def read_all(windows: Windows) -> Samples:
        return [((name,), read(window)) for name, window in windows.items()]

    return read_all


def _read_member_changes(group: GroupSnapshot) -> Samples:
    counters = group.counters
    changes = {"joined": counters.members_joined, "left": counters.members_left, "replaced": counters.members_replaced}
    return [((change,), count) for change, count in changes.items()]


def _read_info(group: GroupSnapshot) -> Samples:
    # Only in the consumer protocol is the protocol's name the assignor's; Connect and others name formats there.
    assignor = group.protocol if group.protocol_type == "consumer" else None
    return [((group.protocol_type or "", group.protocol or "", assignor or ""), 1)]


def _count_partitions(group: GroupSnapshot) -> list[int] | None:
    """Return the partitions of each member; null when one assignment cannot be read or no group record was."""
    if group.state is None:
        return None
    counts = []
    for member in group.members:
        if member.partitions is None:
            return None
        counts.append(sum(len(partitions) for partitions in member.partitions.values()))
    return counts


def _read_assigned(group: GroupSnapshot) -> Samples:
    counts = _count_partitions(group)
    return _one(None if counts is None else sum(counts))


def _read_idle(group: GroupSnapshot) -> Samples:
    counts = _count_partitions(group)
    return _one(None if counts is None else counts.count(0))


def _per_lag_window(read: Callable[[LagWindow], float | None]) -> Callable[[LagProgress], Samples]:
    def read_all(progress: LagProgress) -> Samples:
        values = [((name,), read(window)) for name, window in progress.windows.items()]
        return [(labels, value) for labels, value in values if value is not None]

    return read_all


def _read_topic_lag(progress: LagProgress) -> Samples:
    return [] if progress.lag is None else [((name,), topic.total) for name, topic in progress.lag.topics.items()]


def _read_partition_lag(progress: LagProgress) -> Samples:
    return [
        ((name, str(partition)), lag)
        for name, topic in (progress.lag.topics.items() if progress.lag else ())
        for partition, lag in zip(topic.partitions, topic.lags, strict=True)
    ]


def _read_active(of: GroupFindings) -> Samples:
    active: dict[tuple[str, str], int] = {}
    for finding in of.findings:
        kind = (finding.rule, finding.severity)
        active[kind] = max(active.get(kind, 0), int(finding.state == FIRING))
    return active.items()


def _per_timing_window(read: Callable[[TimingWindow], float | None]) -> Callable[[GroupTiming], Samples]:
    def read_all(timing: GroupTiming) -> Samples:
        values = [((name,), read(window)) for name, window in timing.windows.items()]
        return [(labels, value) for labels, value in values if value is not None]

    return read_all


def _per_member(read: Callable[[MemberTiming], float | None]) -> Callable[[GroupTiming], Samples]:
    """Make a reading of one member a reading of all; of clients that share a name and a host, the largest counts."""

    def read_all(timing: GroupTiming) -> Samples:
        values: dict[tuple[str, ...], float] = {}
        for member in timing.members:
            value, labels = read(member), (member.client_id or "", member.host or "")
            if value is not None:
                values[labels] = max(value, values.get(labels, value))
        return values.items()

    return read_all


def _read_commit_age(moment: CommitMoment) -> Samples:
    return _one(max(0, moment.now_ms - moment.progress.last_commit_ms) / 1000)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


_STATE_LIST = ", ".join(f"{code} {state}" for state, code in STATE_CODES.items())

#: Rendered once per change of a group.
GROUP_METRICS: tuple[Metric[GroupSnapshot], ...] = (
    Metric(
        "rebalances_total",
        "counter",
        "Logical rebalances, by what started them: generations that follow each other before the group settled "
        "are one. Counted from the log, so none between two scrapes is missed.",
        ("reason",),
        _read_rebalances,
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
    ),
    Metric(
        "lost_partition_seconds_total",
        "counter",
        "Partition-seconds that passed during rebalances without a commit, from gaps of 7.5 s or more: an upper bound "
        "by up to a commit interval each, and nothing for shorter ones.",
        (),
        lambda group: _one(group.counters.lost_partition_ms / 1000),
    ),
    Metric(
        "moved_partitions_total",
        "counter",
        "Partitions that changed from one member to another, a restarted member being the same. Counted 20 s after the "
        "end of the rebalance.",
        (),
        lambda group: _one(group.counters.partitions_moved),
    ),
    Metric(
        "member_changes_total",
        "counter",
        "Members that joined, left or were replaced (a static member that came back under a new id).",
        ("change",),
        _read_member_changes,
    ),
    Metric(
        "last_rebalance_timestamp_seconds",
        "gauge",
        "When the group's last rebalance was completed, or began if it goes on, in seconds since 1970. Absent while "
        "none was seen.",
        (),
        lambda group: _one(_seconds(group.last_rebalance_ms)),
    ),
    Metric(
        "group_info",
        "gauge",
        "Always 1: join it on cluster and group to add the protocol or the assignor to another query.",
        ("protocol_type", "protocol", "assignor"),
        _read_info,
    ),
    Metric(
        "group_generation",
        "gauge",
        "The group's present generation. It starts again when a group is deleted and made anew: do not take rates.",
        (),
        lambda group: _one(group.generation),
    ),
    Metric(
        "group_members",
        "gauge",
        "Members of the group after its last rebalance.",
        (),
        lambda group: _one(None if group.state is None else len(group.members)),
    ),
    Metric(
        "group_state_code",
        "gauge",
        f"The group's last known state as a number, as decoration for tables: {_STATE_LIST}. "
        "Sampled at scrapes it misses most rebalances: alert on kafka_rebalance_rebalances_total instead.",
        (),
        lambda group: _one(STATE_CODES.get(group.state or "")),
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
        lambda progress: _one(None if progress.lag is None else progress.lag.total),
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
        lambda of: of.fired.items(),
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

#: Rendered at every scrape.
COMMIT_METRICS: tuple[Metric[CommitMoment], ...] = (
    Metric(
        "group_commit_age_seconds",
        "gauge",
        "Time since the group's last offset commit. A group that has work and whose age grows does not get on. Absent "
        "while no commit was read: after a start only the last minutes of commits are.",
        (),
        _read_commit_age,
    ),
)


def _read_records(state: MonitorState) -> Samples:
    totals: Counter[tuple[str, ...]] = Counter()
    for row in state.picture.records:
        for record in row.records:
            kind = RECORD_TYPES.get(record.type, str(record.type))
            version = "none" if record.value_version is None else str(record.value_version)
            totals[row.cluster, record.query, kind, version, record.outcome] += record.count
    return totals.items()


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
    return totals.items()


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
        "Series left out because of a limit, counted once when their group is first left out. Any rise means that "
        "groups are not watched: raise the limit.",
        ("limit",),
        lambda state: [(("groups",), state.dropped_series_total)],
    ),
    Metric(
        "monitor_build_info",
        "gauge",
        "Always 1: the exporter's version.",
        ("version",),
        lambda state: [((state.version,), 1)],
    ),
)
