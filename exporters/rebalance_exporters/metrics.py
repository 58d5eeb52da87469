"""The table of metrics: each is declared once, as a value, with the way to read it from what is known.

Counters come cumulative from the stream, which counts at the source: a state that is sampled at a scrape misses most
rebalances. HELP texts are for the person on call. Labels never hold member ids, generations, offsets or event ids.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from rebalance_contract import (
    DURATION_BUCKETS_MS,
    STATES_OF,
    WINDOWS_MS,
    AlertSilence,
    CountedImpact,
    Counters,
    Finding,
    FindingState,
    GroupLag,
    GroupSnapshot,
    GroupState,
    GroupTiming,
    GroupWindow,
    MemberTiming,
    RebalanceOutcome,
    RebalanceReason,
    TimingWindow,
    counters_at,
    gravity,
)
from rebalance_exporters.kept import Example, Examples, GroupFindings
from rebalance_exporters.series import COUNT, SUM, Exemplar, Metric, Sample, Samples, in_seconds, one_sample

#: The labels that every metric of a group begins with.
GROUP_LABELS = ("cluster", "group")

#: Numbers follow the way a group takes, so that a table sorts sensibly; kept apart from any number of Kafka's.
STATE_CODES: Mapping[str, int] = {
    GroupState.DELETED: 0,
    GroupState.EMPTY: 1,
    GroupState.PREPARING_REBALANCE: 2,
    GroupState.COMPLETING_REBALANCE: 3,
    GroupState.ASSIGNING: 4,
    GroupState.RECONCILING: 5,
    GroupState.STABLE: 6,
    GroupState.NOT_READY: 7,
}

#: The buckets of a duration as labels, in seconds.
_BOUNDS = (*((str(bound / 1000),) for bound in DURATION_BUCKETS_MS), ("+Inf",))
_SUM, _COUNT = (SUM,), (COUNT,)
_REASONS = {reason: (reason,) for reason in RebalanceReason}
_ReadFindings = Callable[[GroupFindings], Samples]
#: Names in the label `who`; of a disturbance that hits hundreds of members, none is the culprit. Whoever connects to
#: Kafka chooses how long a name is.
_MAX_NAMES, _MAX_NAME_LENGTH = 3, 120
#: More reasons than a newer stream can know of; any beyond them count as one.
_MAX_FOREIGN_REASONS = 16


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One group as its series tell it; `owner` is null where the owner file names none.

    `counters` and `cost` are its totals. `settles_ms` is when the latest rebalance adds to the counters what is not in
    them yet, null when nothing is due. `partitions` are those of each member; null when one assignment cannot be read
    or no group record was.
    """

    snapshot: GroupSnapshot
    owner: str | None
    examples: Examples
    partitions: list[int] | None
    counters: Counters
    cost: CountedImpact
    settles_ms: int | None

    @classmethod
    def about(
        cls,
        snapshot: GroupSnapshot,
        owner: str | None = None,
        examples: Examples | None = None,
        cost: CountedImpact | None = None,
        read_until_ms: int | None = None,
    ) -> Self:
        """Put the facts about a group together, as of when the log has been read up to a time."""
        counters = counters_at(snapshot, read_until_ms)
        due = snapshot.settlement if counters is snapshot.counters else None
        return cls(
            snapshot,
            owner,
            examples or Examples(),
            count_partitions(snapshot),
            counters,
            cost or CountedImpact(),
            None if due is None else due.at_ms,
        )


@dataclass(frozen=True, slots=True)
class LagMoment:
    """A group's lag seen from now: a reading that changes although nothing happened."""

    lag: GroupLag
    now_ms: int


def _read_rebalances(group: GroupFacts) -> Samples:
    # A reason that a newer stream knows is shown too; those known here exist from the first scrape on, at 0.
    known = group.counters.rebalances
    samples: list[Sample] = [(labels, known.get(reason, 0)) for reason, labels in _REASONS.items()]
    if not known.keys() <= _REASONS.keys():
        samples = _add_foreign(samples, known)
    return samples


def _add_foreign(samples: list[Sample], known: Mapping[str, int]) -> list[Sample]:
    """Add reasons that this version does not know; whoever invents them by the thousand gets no series for each."""
    foreign = sorted(known.keys() - _REASONS.keys())
    rest = sum(known[reason] for reason in foreign[_MAX_FOREIGN_REASONS:])
    told = [(labels, count + rest * (labels == _REASONS[RebalanceReason.OTHER])) for labels, count in samples]
    return [*told, *(((reason,), known[reason]) for reason in foreign[:_MAX_FOREIGN_REASONS])]


def _exemplify_rebalances(group: GroupFacts) -> Mapping[tuple[str, ...], Exemplar]:
    return {(reason,): _exemplar(example, 1) for reason, example in group.examples.by_reason.items()}


def _exemplar(example: Example, value: float) -> Exemplar:
    return Exemplar(example.rebalance_id, value, example.at_ms / 1000)


def _read_generations(group: GroupFacts) -> Samples:
    counters = group.counters
    return [
        ((RebalanceOutcome.COMPLETED,), counters.generations_completed),
        ((RebalanceOutcome.ABORTED,), counters.generations_aborted),
    ]


def _read_durations(group: GroupFacts) -> Samples:
    counters = group.counters
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


def _per_window(read: Callable[[GroupWindow], float | None]) -> Callable[[GroupLag], Samples]:
    """Make a reading of one window a reading of all of them, by the names that there are."""

    def read_all(lag: GroupLag) -> Samples:
        known = lag.windows
        windows = [(name, known[name]) for name in WINDOWS_MS if name in known]
        return [((name,), value) for name, window in windows if (value := read(window)) is not None]

    return read_all


def _read_member_changes(group: GroupFacts) -> Samples:
    counters = group.counters
    changes = {
        "joined": counters.members_joined,
        "left": counters.members_left,
        "expired": group.cost.members_expired,
        "poll_timeout": group.cost.members_poll_timeout,
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


def count_members(group: GroupSnapshot) -> int | None:
    """Return how many members a group has, those left out of its row included; null while no group record was read."""
    if group.state is None:
        return None
    return len(group.members) if group.member_count is None else group.member_count


def count_partitions(group: GroupSnapshot) -> list[int] | None:
    """Return the partitions of each member.

    Null when one assignment cannot be read, no group record was, or the row had no room for all of them.
    """
    if group.state is None or group.is_truncated:
        return None
    counts = []
    for member in group.members:
        if member.partitions is None:
            return None
        counts.append(sum(map(len, member.partitions.values())))
    return counts


def _read_assigned(group: GroupFacts) -> Samples:
    return one_sample(None if group.partitions is None else sum(group.partitions))


def _read_largest(group: GroupFacts) -> Samples:
    return one_sample(max(group.partitions) if group.partitions else None)


def _read_idle(group: GroupFacts) -> Samples:
    return one_sample(None if group.partitions is None else group.partitions.count(0))


def _read_topic_lag(lag: GroupLag) -> Samples:
    topics = lag.topics
    return [((name,), total) for name in sorted(topics) if (total := topics[name].total) is not None]


def _read_topic_committed(lag: GroupLag) -> Samples:
    # Only what topic_lag counts too, or the two would not add up to what came in.
    return [
        ((name,), sum(at for at, lag in zip(topic.committed, topic.lags, strict=True) if lag is not None))
        for name, topic in sorted(lag.topics.items())
        if topic.total is not None and not topic.is_truncated
    ]


def _read_partition_lag(lag: GroupLag) -> Samples:
    return [
        ((name, str(partition)), records)
        for name, topic in sorted(lag.topics.items())
        for partition, records in zip(topic.partitions, topic.lags, strict=True)
        if records is not None
    ]


def _read_active(of: GroupFindings) -> Samples:
    active: dict[tuple[str, str], int] = {}
    for finding in of.findings:
        kind = (finding.rule, finding.severity)
        active[kind] = max(active.get(kind, 0), int(finding.state == FindingState.FIRING))
    return sorted(active.items())


def _per_open_finding(read: Callable[[Finding], float], choose: Callable[[float, float], float]) -> _ReadFindings:
    """Make a reading of one finding a reading of the open ones; of several of one rule and severity, one counts."""

    def read_all(of: GroupFindings) -> Samples:
        values: dict[tuple[str, ...], float] = {}
        for finding in of.firing():
            kind, value = (finding.rule, finding.severity), read(finding)
            values[kind] = choose(value, values.get(kind, value))
        return sorted(values.items())

    return read_all


def _read_finding_info(of: GroupFindings) -> Samples:
    told: dict[tuple[str, str], tuple[str, ...]] = {}
    for finding in of.firing():
        told.setdefault((finding.rule, finding.severity), (_name_subject(finding), *_first_change(finding)))
    return [((*kind, *labels), 1) for kind, labels in sorted(told.items())]


def _name_subject(finding: Finding) -> str:
    """Return who a finding is about by names that outlive a member id; empty where it is the group as a whole."""
    members = [
        f"{each.group_instance_id or each.client_id or '?'}@{(each.host or '?').removeprefix('/')}"
        for each in finding.subject.members
    ]
    names = list(dict.fromkeys(members or [host.removeprefix("/") for host in finding.subject.hosts]))
    more = len(names) - _MAX_NAMES
    shown = [name if len(name) <= _MAX_NAME_LENGTH else f"{name[:_MAX_NAME_LENGTH]}..." for name in names[:_MAX_NAMES]]
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _first_change(finding: Finding) -> tuple[str, str, str]:
    """Return what to change, its value now and the proposed one: a setting before code, operation or an upgrade."""
    advice = sorted(finding.advice, key=lambda each: (each.current is None, "." not in each.parameter))
    return (advice[0].parameter, advice[0].current or "", advice[0].proposed) if advice else ("", "", "")


def _per_timing_window(read: Callable[[TimingWindow], float | None]) -> Callable[[GroupTiming], Samples]:
    def read_all(timing: GroupTiming) -> Samples:
        known = timing.windows
        windows = [(name, known[name]) for name in WINDOWS_MS if name in known]
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


def _read_commit_age(moment: LagMoment) -> Samples:
    last_ms = moment.lag.last_commit_ms
    return one_sample(None if last_ms is None else max(0, moment.now_ms - last_ms) / 1000)


def _read_time_lag(moment: LagMoment) -> Samples:
    return one_sample(in_seconds(moment.lag.time_lag_ms(moment.now_ms)))


def _read_state_seconds(spent: Mapping[str, float]) -> Samples:
    return [((state,), seconds) for state, seconds in spent.items()]


def complete_states(group: GroupSnapshot, seconds: Mapping[str, float]) -> dict[str, float]:
    """Return seconds for every state the group's type can be in, and others it was in, always in one order."""
    states = {*STATES_OF.get(group.type or "", ()), *seconds} - {GroupState.DELETED}
    return {state: seconds.get(state, 0.0) for state in sorted(states)}


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
        lambda group: one_sample(group.cost.lost_partition_ms / 1000),
    ),
    Metric(
        "moved_partitions_total",
        "counter",
        "Partitions that changed from one member to another, a restarted member being the same. Counted 20 s after the "
        "end of the rebalance.",
        (),
        lambda group: one_sample(group.counters.partitions_moved),
    ),
    Metric(
        "member_changes_total",
        "counter",
        "Members that joined, left or were replaced (came back under a new id within the rebalance). Those whose "
        "session (`expired`) or poll limit (`poll_timeout`) was over count there as well, as soon as the diagnosis "
        "knows: 20 s later, never of groups it ignores. So do not sum over `change`.",
        ("change",),
        _read_member_changes,
    ),
    Metric(
        "last_rebalance_timestamp_seconds",
        "gauge",
        "When the group's last rebalance was completed, or began if it goes on, in seconds since 1970. Absent while "
        "none was seen.",
        (),
        lambda group: one_sample(in_seconds(group.snapshot.last_rebalance_ms)),
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
        lambda group: one_sample(group.snapshot.generation),
    ),
    Metric(
        "group_members",
        "gauge",
        "Members of the group after its last rebalance.",
        (),
        lambda group: one_sample(count_members(group.snapshot)),
    ),
    Metric(
        "group_state_code",
        "gauge",
        f"The group's last known state as a number, as decoration for tables: {_STATE_LIST}. "
        "Sampled at scrapes it misses most rebalances: alert on kafka_rebalance_rebalances_total instead.",
        (),
        lambda group: one_sample(STATE_CODES.get(group.snapshot.state or "")),
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

#: Rendered once per lag row of a group.
WINDOW_METRICS: tuple[Metric[GroupLag], ...] = (
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

#: Rendered once per lag row of a group.
LAG_METRICS: tuple[Metric[GroupLag], ...] = (
    Metric(
        "group_lag",
        "gauge",
        "Records between what the group committed and the end of its partitions, as of the last probe. Absent while no "
        "end offset is known: without `rebalance-monitor probe` nobody knows.",
        (),
        lambda lag: one_sample(lag.total),
    ),
    Metric("topic_lag", "gauge", "The group's lag per topic, in records.", ("topic",), _read_topic_lag),
    Metric(
        "topic_committed_offset",
        "gauge",
        "Offsets the group has committed, added up over the topic's partitions whose end is known. Its growth is what "
        "the group gets done; with the growth of topic_lag it is what comes in. Take deriv(), not rate(): it falls "
        "when offsets are reset. Absent where the row had no room for all partitions.",
        ("topic",),
        _read_topic_committed,
    ),
    Metric(
        "window_commits",
        "gauge",
        "Offset commits of the last 1, 5 and 15 minutes.",
        _WINDOW,
        _per_window(lambda window: window.commits),
    ),
    Metric(
        "window_lag_max",
        "gauge",
        "Largest lag probed in the last 1, 5 and 15 minutes, in records.",
        _WINDOW,
        _per_window(lambda window: window.lag_max),
    ),
    Metric(
        "window_lag_slope",
        "gauge",
        "How fast the lag grows (or, below 0, shrinks) over the last 1, 5 and 15 minutes, in records per second.",
        _WINDOW,
        _per_window(lambda window: window.lag_slope),
    ),
)

#: Off by default: a series per committed partition.
PARTITION_LAG: Metric[GroupLag] = Metric(
    "partition_lag", "gauge", "The group's lag per partition, in records.", ("topic", "partition"), _read_partition_lag
)

_FINDING = ("rule", "severity")

#: Rendered once per change of a group's findings.
FINDING_METRICS: tuple[Metric[GroupFindings], ...] = (
    Metric(
        "finding_active",
        "gauge",
        "1 while a finding of this diagnosis is open for the group and nobody has silenced it, 0 for a while after. "
        "`rule` is explained in docs/diagnoses.md; /api/v1/findings has evidence and advice. Group is empty where it "
        "is about the cluster.",
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
    Metric(
        "finding_severity_code",
        "gauge",
        "How grave the open findings of this diagnosis are, so that a table sorts sensibly: 3 page, 2 ticket, 1 info. "
        "A severity that this version does not know is as grave as any. Absent while none is open.",
        _FINDING,
        _per_open_finding(lambda finding: gravity(finding.severity) + 1, max),
    ),
    Metric(
        "finding_confidence",
        "gauge",
        "Probability, 0 to 1, that the diagnosis is right; of several open findings of it, the largest. Absent while "
        "none is open.",
        _FINDING,
        _per_open_finding(lambda finding: finding.confidence, max),
    ),
    Metric(
        "finding_primary",
        "gauge",
        "1 if an open finding of this diagnosis is the cause given for rebalances, or of a trouble without one; 0 if "
        "it follows from a cause, or is a setting worth changing. Absent while none is open.",
        _FINDING,
        _per_open_finding(lambda finding: int(finding.primary), max),
    ),
    Metric(
        "finding_start_timestamp_seconds",
        "gauge",
        "Since when a finding of this diagnosis is open, in seconds since 1970: the oldest of several. Absent while "
        "none is open.",
        _FINDING,
        _per_open_finding(lambda finding: finding.started_at_ms / 1000, min),
    ),
    Metric(
        "finding_info",
        "gauge",
        "Always 1 while a finding of this diagnosis is open: join it on cluster, group, rule and severity to name who "
        "it is about and what to change first. `who` has clients as name@host, three at most, and is empty where it is "
        "the group; `parameter` is a setting, or code, operation or upgrade; `current` is empty where it is not known. "
        "Of several findings the oldest, the cause first.",
        (*_FINDING, "who", "parameter", "current", "proposed"),
        _read_finding_info,
    ),
)

#: Rendered once per silence that comes into force.
SILENCE_METRICS: tuple[Metric[AlertSilence], ...] = (
    Metric(
        "group_silenced",
        "gauge",
        "1 while somebody has silenced the group's alerts, or announced a deploy of it (`kind`): finding_active is 0 "
        "then, and no alert of the rules fires. Counts and lag are as ever. Absent otherwise. Group is empty for what "
        "is about the cluster; /api/v1/silences says who, why and until when.",
        ("kind",),
        lambda silence: [((silence.kind,), 1)],
    ),
)

#: Rendered once per report of a group's clients: only where clients report.
TIMING_METRICS: tuple[Metric[GroupTiming], ...] = (
    Metric(
        "window_heartbeat_age_max_seconds",
        "gauge",
        "Oldest last heartbeat that a member reported in the last 1, 5 and 15 minutes.",
        _WINDOW,
        _per_timing_window(lambda window: in_seconds(window.heartbeat_age_max_ms)),
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
        _per_timing_window(lambda window: in_seconds(window.poll_gap_max_ms)),
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
        _per_member(lambda member: in_seconds(member.heartbeat_age_ms)),
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
        _per_member(lambda member: in_seconds(member.poll_age_ms)),
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
COMMIT_AGE: Metric[LagMoment] = Metric(
    "group_commit_age_seconds",
    "gauge",
    "Time since the group's last offset commit. A group that has work and whose age grows does not get on. Absent "
    "while no commit was read, and while the diagnosis is silent.",
    (),
    _read_commit_age,
)

#: Rendered at every scrape.
TIME_LAG: Metric[LagMoment] = Metric(
    "group_time_lag_seconds",
    "gauge",
    "How long the oldest record that the group has not committed has been there: at most this, and less by no more "
    "than an eighth or one probe interval. A lower bound only for records older than the prober's memory.",
    (),
    _read_time_lag,
)
