"""The metrics of a group: each is declared once, as a value, with the function that reads it from the group's facts.

Counters come cumulative from the stream, which counts at the source: sampling the state at each scrape would miss most
rebalances. HELP texts are for the person on call. Labels never hold member ids, generations, offsets or event ids.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from rebalance_contract import (
    CONSUMER_PROTOCOL,
    DURATION_BUCKETS_MS,
    STATES_OF,
    CountedImpact,
    Counters,
    GroupSnapshot,
    GroupState,
    RebalanceOutcome,
    RebalanceReason,
    counters_at,
)
from rebalance_exporters.metrics.series import COUNT, SUM, Exemplar, Metric, Sample, Samples, in_seconds, one_sample
from rebalance_exporters.state.kept import Example, Examples

#: The labels that every metric of a group begins with.
GROUP_LABELS = ("cluster", "group")

#: Codes follow the life cycle of a group, so that a table sorts sensibly; independent of any number of Kafka's.
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

#: The upper bounds of the duration buckets as label values, in seconds.
_BOUNDS = (*((str(bound / 1000),) for bound in DURATION_BUCKETS_MS), ("+Inf",))
_SUM, _COUNT = (SUM,), (COUNT,)
_REASONS = {reason: (reason,) for reason in RebalanceReason}
#: Maximum number of unknown reasons with series, more than a newer stream can have; the rest count as `other`.
_MAX_FOREIGN_REASONS = 16


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One group as its series show it; `owner` is null if the owner file names none.

    `counters` and `cost` are its totals. `settles_ms` is when the latest rebalance adds to the counters what is not in
    them yet, null if nothing is due. `partitions` is the number of partitions of each member, as `count_partitions`
    returns it.
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
        """Return the facts about a group, with the counters as of when the log has been read up to `read_until_ms`."""
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


def _read_rebalances(group: GroupFacts) -> Samples:
    # Known reasons exist from the first scrape on, at 0; reasons that only a newer stream knows are shown too.
    known = group.counters.rebalances
    samples: list[Sample] = [(labels, known.get(reason, 0)) for reason, labels in _REASONS.items()]
    if not known.keys() <= _REASONS.keys():
        samples = _add_foreign(samples, known)
    return samples


def _add_foreign(samples: list[Sample], known: Mapping[str, int]) -> list[Sample]:
    """Return the samples with reasons that this version does not know, which have a limited number of series."""
    foreign = sorted(known.keys() - _REASONS.keys())
    rest = sum(known[reason] for reason in foreign[_MAX_FOREIGN_REASONS:])
    known_samples = [(labels, count + rest * (labels == _REASONS[RebalanceReason.OTHER])) for labels, count in samples]
    return [*known_samples, *(((reason,), known[reason]) for reason in foreign[:_MAX_FOREIGN_REASONS])]


def _exemplify_rebalances(group: GroupFacts) -> Mapping[tuple[str, ...], Exemplar]:
    return {(reason,): _exemplar(example, 1) for reason, example in group.examples.by_reason.items()}


def _exemplar(example: Example, value: float) -> Exemplar:
    return Exemplar(example.rebalance_id, value, example.at_ms / 1000)


def _read_generations(group: GroupFacts) -> Samples:
    counters = group.counters
    if group.snapshot.is_at_least:
        return []  # no probe reports them
    return [
        ((RebalanceOutcome.COMPLETED,), counters.generations_completed),
        ((RebalanceOutcome.ABORTED,), counters.generations_aborted),
    ]


def _read_durations(group: GroupFacts) -> Samples:
    counters = group.counters
    # A stream of another version may have other buckets; their counts must not be shown under wrong bounds.
    if len(counters.durations) != len(_BOUNDS):
        return []
    counts = list(itertools.accumulate(counters.durations))
    return [*zip(_BOUNDS, counts, strict=True), (_SUM, counters.duration_ms / 1000), (_COUNT, counts[-1])]


def _exemplify_durations(group: GroupFacts) -> Mapping[tuple[str, ...], Exemplar]:
    return {
        _BOUNDS[bucket]: _exemplar(example, (example.duration_ms or 0) / 1000)
        for bucket, example in group.examples.by_bucket.items()
    }


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
    """Return the group's assignor: the protocol's name in the consumer protocol, else null."""
    return group.protocol if group.protocol_type == CONSUMER_PROTOCOL else None


def _read_info(group: GroupFacts) -> Samples:
    known = group.snapshot
    coordinator = "" if known.coordinator is None else str(known.coordinator)
    labels = (known.protocol_type, known.protocol, assignor_of(known), coordinator, group.owner, known.counted_from)
    return [(tuple(label or "" for label in labels), 1)]


def count_members(group: GroupSnapshot) -> int | None:
    """Return the number of members, including those left out of the row; null while no group record was read."""
    if group.state is None:
        return None
    return len(group.members) if group.member_count is None else group.member_count


def count_partitions(group: GroupSnapshot) -> list[int] | None:
    """Return the number of partitions of each member.

    Null if an assignment cannot be read, no group record was read, or the row had no room for all of them.
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


def _read_static(group: GroupFacts) -> Samples:
    members = None if group.snapshot.is_truncated or group.snapshot.state is None else group.snapshot.members
    return one_sample(None if members is None else sum(each.group_instance_id is not None for each in members))


def _read_state_seconds(spent: Mapping[str, float]) -> Samples:
    return [((state,), seconds) for state, seconds in spent.items()]


def complete_states(group: GroupSnapshot, seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of every state that the group's type can have or the group had, always in the same order."""
    states = {*STATES_OF.get(group.type or "", ()), *seconds} - {GroupState.DELETED}
    return {state: seconds.get(state, 0.0) for state in sorted(states)}


_STATE_LIST = ", ".join(f"{code} {state}" for state, code in STATE_CODES.items())

#: Rendered once per change of a group.
GROUP_METRICS: tuple[Metric[GroupFacts], ...] = (
    Metric(
        "rebalances_total",
        "counter",
        "Logical rebalances, by their trigger in the log: generations that follow each other before the group settles "
        "count as one. Counted by the stream when they begin, so none between two scrapes is missed. Why a member "
        "joined or left needs more than the log: that is the rule of kafka_rebalance_findings_total.",
        ("reason",),
        _read_rebalances,
        _exemplify_rebalances,
    ),
    Metric(
        "generations_total",
        "counter",
        "Generations of the group: completed ones got an assignment, aborted ones were superseded by the next round. "
        "Many aborted ones mean that members join or leave faster than the group can settle.",
        ("outcome",),
        _read_generations,
    ),
    Metric(
        "duration_seconds",
        "histogram",
        "How long logical rebalances took, start to stable, counted 20 s after their end. Where only bounds are known "
        "(classic groups without a prober), the lower bound.",
        (),
        _read_durations,
        _exemplify_durations,
    ),
    Metric(
        "lost_partition_seconds_total",
        "counter",
        "Partition-seconds without a commit during rebalances, from gaps of 7.5 s or more: an upper bound, by up to a "
        "commit interval per gap. Shorter gaps do not count.",
        (),
        lambda group: one_sample(None if group.snapshot.is_at_least else group.cost.lost_partition_ms / 1000),
    ),
    Metric(
        "moved_partitions_total",
        "counter",
        "Partitions that changed from one member to another; a restarted member counts as the same. Counted 20 s after "
        "the end of the rebalance.",
        (),
        lambda group: one_sample(group.counters.partitions_moved),
    ),
    Metric(
        "member_changes_total",
        "counter",
        "Members that joined, left or were replaced (came back under a new id within the rebalance). Members whose "
        "session (`expired`) or poll limit (`poll_timeout`) ran out are counted under these values too, as soon as the "
        "diagnosis knows: 20 s later, and not for groups it ignores. So do not sum over `change`.",
        ("change",),
        _read_member_changes,
    ),
    Metric(
        "last_rebalance_timestamp_seconds",
        "gauge",
        "When the group's last rebalance was completed, or began if it is still going on, in seconds since 1970. "
        "Absent while none was seen.",
        (),
        lambda group: one_sample(in_seconds(group.snapshot.last_rebalance_ms)),
    ),
    Metric(
        "group_info",
        "gauge",
        "Always 1: join it on cluster and group to add protocol, assignor, coordinator or owner to another query. The "
        "coordinator (a broker's id) is known where `rebalance-monitor probe` runs, the owner from the owner file. "
        "`counted_from` is `probes` where the log is not read: all counts of the group are then lower bounds.",
        ("protocol_type", "protocol", "assignor", "coordinator", "owner", "counted_from"),
        _read_info,
    ),
    Metric(
        "group_generation",
        "gauge",
        "The group's present generation. It starts again when a group is deleted and recreated: do not use rate().",
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
        f"The group's last known state as a number, for display in tables: {_STATE_LIST}. "
        "Scrapes miss most rebalances: alert on kafka_rebalance_rebalances_total instead.",
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
        "group_static_members",
        "gauge",
        "Members with a name of their own (group.instance.id), whose restart within the session costs no rebalance. "
        "Absent where the group's row has no room for all members.",
        (),
        _read_static,
        unused="For a list of the groups that could have static members, or a rule that no group of a team lacks them: "
        "it changes seldom, and only with a deployment.",
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

#: Rendered at every scrape, from the seconds spent per state.
STATE_SECONDS: Metric[Mapping[str, float]] = Metric(
    "state_seconds_total",
    "counter",
    "Time spent per group state, from the states the stream publishes, counted by each exporter from its own start. Of "
    "a classic group only `rebalance-monitor probe` sees the states between Empty and Stable. For the share of time "
    "lost to rebalances use kafka_rebalance_window_rebalancing_ratio, which needs no probe.",
    ("state",),
    _read_state_seconds,
)
