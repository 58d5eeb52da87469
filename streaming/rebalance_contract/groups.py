"""The current snapshot of a group: members, totals, panes of its sliding windows."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace

from rebalance_contract.codec import SCHEMA_VERSION
from rebalance_contract.sets import (
    AnyCountedFrom,
    AnyGroupState,
    AnyGroupType,
    AnyMemberState,
    CountedFrom,
    RebalanceReason,
)

#: Default session time-out in milliseconds, of clients since Kafka 3.0 (KIP-735) and of brokers (KIP-848).
USUAL_SESSION_MS = 45_000

#: Values of `protocol_type` for consumers and for workers of Connect. Other libraries may use any text.
CONSUMER_PROTOCOL, CONNECT_PROTOCOL = "consumer", "connect"
#: The `protocol` of Kafka Streams in a classic group; it does not identify the assignor.
STREAMS_ASSIGNOR = "stream"

#: Topic -> sorted partition numbers. A streams group's tasks are listed under the topics that they read, or under their
#: subtopology if the log does not contain the topics (a pattern, or a topology that was not read).
Partitions = dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group as its last records described it.

    `group_instance_id` is null for a dynamic member. `partitions` is null if the assignment is not in a known format; a
    topic whose name is in no record is listed by its id. `rebalance_timeout_ms` is null in records older than value
    version 1, `session_timeout_ms` if the broker sets it (KIP-848).
    `epoch`, `state` (`away`: a static member that announced its return; `unknown (N)`: a number of a newer Kafka) with
    `state_since_ms`, `target` (its target assignment) and `pending_revocation` exist only for members of KIP-848, share
    and streams groups and are null for others.
    `subscription_version` is the version of the subscription that it joined with and `user_data_bytes` the length of
    the assignor's data in it, null if it sent none; libraries differ in both. Both are null outside of the consumer
    protocol, in groups of other types, and in rows older than these fields.
    `config_offset` is the offset up to which a worker of Connect had read its config topic when it joined (-1:
    nothing); null for all others and in rows older than the field.
    """

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None = None
    rack_id: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    topics: tuple[str, ...] = ()
    topic_regex: str | None = None
    partitions: Partitions | None = None
    epoch: int | None = None
    state: AnyMemberState | None = None
    state_since_ms: int | None = None
    target: Partitions | None = None
    pending_revocation: Partitions | None = None
    subscription_version: int | None = None
    user_data_bytes: int | None = None
    config_offset: int | None = None


#: Length of a pane in milliseconds, and how many are kept: 15 minutes.
PANE_MS, KEPT_PANES = 10_000, 90

#: Upper bounds in milliseconds of the buckets of `Counters.durations`; the last bucket has none.
DURATION_BUCKETS_MS = (100, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000)


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals of one group since the monitor first saw it; they never decrease, not even when the group is deleted.

    `rebalances` counts logical rebalances by reason and has one entry for every `RebalanceReason`, zero included.
    `generations_completed` are generations (KIP-848: group epochs) that got an assignment, `generations_aborted`
    those that never did. `resets` counts how often numbering restarted: the group was deleted and created again.
    `conversions` counts how often it changed between the classic and the newer protocol.
    `durations` counts ended rebalances per bucket of `DURATION_BUCKETS_MS` (not cumulative) and `duration_ms` is
    the sum of their durations; if only bounds of a duration are known, the lower one counts.
    A member that came back under a new id within its rebalance is in `members_replaced`, not in `members_left`.
    Totals that only the diagnosis can determine (why members left, lost partition time) are in `GroupImpact`.
    """

    rebalances: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RebalanceReason, 0))
    generations_completed: int = 0
    generations_aborted: int = 0
    members_joined: int = 0
    members_left: int = 0
    members_replaced: int = 0
    partitions_moved: int = 0
    resets: int = 0
    conversions: int = 0
    durations: list[int] = field(default_factory=lambda: [0] * (len(DURATION_BUCKETS_MS) + 1))
    duration_ms: int = 0


@dataclass(frozen=True, slots=True)
class Pane:
    """Counts of one pane: `PANE_MS` of record time, from `start_ms` on."""

    start_ms: int
    generations_completed: int = 0
    generations_aborted: int = 0
    rebalances: int = 0
    rebalancing_ms: int = 0


@dataclass(frozen=True, slots=True)
class Panes:
    """The last 15 minutes of a group in panes, the basis of all sliding windows; panes without events are left out.

    `late` counts events older than the oldest pane kept, which were not added; `future` counts events later than the
    reader's clock, which were counted at the current time.
    """

    panes: tuple[Pane, ...] = ()
    late: int = 0
    future: int = 0


@dataclass(frozen=True, slots=True)
class Replacement:
    """A static member that came back under a new member id within its session, without a rebalance (KIP-345)."""

    at_ms: int
    group_instance_id: str
    old_member_id: str
    new_member_id: str
    old_host: str
    new_host: str


#: How many replacements of static members a group's snapshot keeps.
KEPT_REPLACEMENTS = 10


@dataclass(frozen=True, slots=True)
class Settlement:
    """What the latest rebalance adds to the totals once no further generation can belong to it.

    It counts from `at_ms` on, in the time of the log's records: readers of the totals add it when the log has been
    read up to that time (`counters_at`). So the state of a group without further records need not be updated.
    """

    at_ms: int
    duration_ms: int
    partitions_moved: int


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """The current snapshot of one group: topic `…groups`, key `cluster/group`.

    `type` is `consumer` for KIP-848, `simple` for commits without members, null while it is not known. `state` of a
    classic group comes from the log, `Stable` (an assignment is stored) or `Empty`, unless a later probe saw the
    coordinator in `PreparingRebalance` or `CompletingRebalance`; for the newer types all states come from the log.
    It is null while nothing has been read, and `Deleted` for groups that no longer exist. `generation` is the classic
    generation or the group epoch; `assignment_epoch` the epoch of the last target assignment, null for classic groups.
    `replacements` are the latest ones, oldest first. `settlement` is null during a rebalance and once it is included in
    `counters`. `is_truncated`: members, partitions or replacements were left out so that the row fits; `member_count`
    counts all members. `log_offset` is the position of the last record folded; it is valid only within `log_era`, the
    number of times the partition was truncated or recreated.
    `counted_from` is `probes` if the log cannot be read: rebalances and members in `counters` and `windows` are then
    lower bounds, generations are not counted, and `updated_at_ms` is the time of the last probe with a change.
    """

    cluster: str
    group: str
    type: AnyGroupType | None = None
    state: AnyGroupState | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    generation: int | None = None
    assignment_epoch: int | None = None
    leader: str | None = None
    members: tuple[Member, ...] = ()
    counters: Counters = field(default_factory=Counters)
    windows: Panes = field(default_factory=Panes)
    first_seen_ms: int | None = None
    last_rebalance_ms: int | None = None
    last_rebalance_id: str | None = None
    rebalancing_since_ms: int | None = None
    coordinator: int | None = None
    replacements: tuple[Replacement, ...] = ()
    settlement: Settlement | None = None
    updated_at_ms: int | None = None
    log_era: int = 0
    log_partition: int | None = None
    log_offset: int | None = None
    member_count: int | None = None
    is_truncated: bool = False
    counted_from: AnyCountedFrom = CountedFrom.LOG
    schema_version: int = SCHEMA_VERSION

    @property
    def is_at_least(self) -> bool:
        """Whether its totals are lower bounds, because they are counted from probes."""
        return self.counted_from != CountedFrom.LOG


def counters_at(group: GroupSnapshot, read_until_ms: int | None) -> Counters:
    """Return a group's totals at the time up to which the log has been read; if that is null, without settlement."""
    due = group.settlement
    if due is None or read_until_ms is None or read_until_ms < due.at_ms:
        return group.counters
    return settled(group.counters, due)


def settled(counters: Counters, due: Settlement) -> Counters:
    """Return totals with a rebalance's duration and moved partitions added."""
    durations = list(counters.durations)
    durations[bisect_left(DURATION_BUCKETS_MS, due.duration_ms)] += 1
    return replace(
        counters,
        durations=durations,
        duration_ms=counters.duration_ms + due.duration_ms,
        partitions_moved=counters.partitions_moved + due.partitions_moved,
    )
