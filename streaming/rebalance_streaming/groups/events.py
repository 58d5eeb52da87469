"""The output contract: what the stream publishes and everybody else reads.

Values are JSON in UTF-8 with snake_case keys; times are epoch milliseconds (`*_ms`). `null` always means
"cannot be known from what was read", never zero. A reader ignores fields it does not know and a writer never
changes the meaning of one, so old and new parts of a deployment understand each other; a change that breaks
this raises `SCHEMA_VERSION`.

Delivery is at least once: a row may arrive again after a crash and replaces the earlier one of the same key.
This module knows nothing of Spark, of Kafka clients or of the log's format, and is all that exporters may import.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

SCHEMA_VERSION = 1

#: What started a rebalance; the catalogue's trigger classes.
REASONS = (
    "first_join",
    "join",
    "departure",
    "replacement",
    "swap",
    "group_emptied",
    "subscription_change",
    "topic_metadata_change",
    "cooperative_followup",
    "rack_change",
    "streams_internal",
    "connect_internal",
    "leader_rejoin",
    "other",
)

#: Topic (or, in a streams group, subtopology) -> sorted partition numbers.
Partitions = dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group as its last records described it.

    `group_instance_id` is null for a dynamic member. `partitions` is null when the assignment is not in a known form;
    a topic whose name no record told stands there under its id. `rebalance_timeout_ms` is null in records
    older than value version 1, `session_timeout_ms` where the broker sets it (KIP-848).
    `epoch`, `state` (`stable`, `unrevoked`, `unreleased`, `away` for a static member that said it will return) with
    `state_since_ms`, `target` (what it is to have) and `pending_revocation` exist for members of KIP-848, share and
    streams groups only and are null for others.
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
    state: str | None = None
    state_since_ms: int | None = None
    target: Partitions | None = None
    pending_revocation: Partitions | None = None


#: Length of a pane in milliseconds, and how many are kept: 15 minutes.
PANE_MS, KEPT_PANES = 10_000, 90

#: Upper bounds in milliseconds of the buckets of `Counters.durations`; the last bucket has none.
DURATION_BUCKETS_MS = (100, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000)


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals of one group since the monitor first saw it; they never go back, not even when the group is deleted.

    `rebalances` counts logical rebalances by reason and has one entry for every reason in `REASONS`, zero included.
    `generations_completed` are generations (KIP-848: group epochs) that got an assignment, `generations_aborted`
    those that never did. `resets` counts how often numbering began anew: the group was deleted and came back.
    `durations` counts ended rebalances per bucket of `DURATION_BUCKETS_MS` (not cumulative) and `duration_ms` is
    their sum; where only bounds of a duration are known, the lower one counts.
    A member that came back under a new id within its rebalance is in `members_replaced`, not in `members_left`. Of both
    kinds, `members_expired` and `members_poll_timeout` count those of which the diagnosis found that their session, or
    their poll limit, was over; they follow `settle_ms` after the rebalance, or later.
    """

    rebalances: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    generations_completed: int = 0
    generations_aborted: int = 0
    members_joined: int = 0
    members_left: int = 0
    members_expired: int = 0
    members_poll_timeout: int = 0
    members_replaced: int = 0
    partitions_moved: int = 0
    resets: int = 0
    conversions: int = 0
    durations: list[int] = field(default_factory=lambda: [0] * (len(DURATION_BUCKETS_MS) + 1))
    duration_ms: int = 0
    lost_partition_ms: int = 0


@dataclass(frozen=True, slots=True)
class Pane:
    """What happened in `PANE_MS` of record time, from `start_ms` on."""

    start_ms: int
    generations_completed: int = 0
    generations_aborted: int = 0
    rebalances: int = 0
    rebalancing_ms: int = 0


@dataclass(frozen=True, slots=True)
class Panes:
    """The last 15 minutes of a group in panes, the basis of all sliding windows; only panes in which something was.

    `late` counts events older than the oldest pane kept, which were not added; `future` those dated after the
    reader's clock, which were counted as of now.
    """

    panes: tuple[Pane, ...] = ()
    late: int = 0
    future: int = 0


@dataclass(frozen=True, slots=True)
class Replacement:
    """A static member that came back under a new member id within its session, which costs no rebalance (KIP-345)."""

    at_ms: int
    group_instance_id: str
    old_member_id: str
    new_member_id: str
    old_host: str
    new_host: str


#: How many members a rebalance names that came and went within it.
KEPT_PASSING = 50

#: How many replacements of static members a group's snapshot keeps.
KEPT_REPLACEMENTS = 10


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """The present picture of one group: topic `…groups`, key `cluster/group`.

    `type` is `classic`, `consumer` (KIP-848), `share`, `streams`, `simple` (commits without members), or null while
    nothing is known. `state` of a classic group is what the log tells, `Stable` (an assignment is stored) or `Empty`,
    unless a probe saw the coordinator in `PreparingRebalance` or `CompletingRebalance` since; of the newer kinds it is
    `Empty`, `Assigning`, `Reconciling`, `NotReady` or `Stable`, all from the log. Null: `Deleted` groups say so, so
    nothing was read yet. `generation` is the classic generation or the group epoch; `assignment_epoch` the epoch of the
    last target assignment, null for classic groups. `replacements` are the latest ones, oldest first.
    """

    cluster: str
    group: str
    type: str | None = None
    state: str | None = None
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
    updated_at_ms: int | None = None
    log_partition: int | None = None
    log_offset: int | None = None
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation, or group epoch, of a rebalance.

    `aborted_before` counts generations since the one before it that never got an assignment. `started_at_ms` is null
    where the log does not show it (classic groups). `join_ended_at_ms` is when the join barrier was released (classic
    only, null when the record's version does not carry it); `assigned_at_ms` when the assignment was stored, null
    while there is none. `fenced` are members removed because they did not give up partitions within their rebalance
    timeout (KIP-848).
    """

    generation: int
    reason: str
    aborted_before: int = 0
    started_at_ms: int | None = None
    join_ended_at_ms: int | None = None
    assigned_at_ms: int | None = None
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    replaced: tuple[tuple[str, str], ...] = ()
    fenced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Moves:
    """What a rebalance did to partitions, comparing owners before and after by identity, not by member id.

    `moved` changed from one owner to another, `kept` stayed, `gained` had no owner before, `lost` have none after.
    `ping_ponged` were taken from their owner and given back within the rebalance.
    """

    moved: Partitions = field(default_factory=dict)
    kept: int = 0
    gained: int = 0
    lost: int = 0
    ping_ponged: Partitions = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Silence:
    """An unusual gap between two commits of a partition, of at least 7.5 s, by the times of their records."""

    topic: str
    partition: int
    last_commit_ms: int
    resumed_at_ms: int


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One logical rebalance: topic `…rebalances`, key `cluster/group/rebalance_id`, rewritten as it evolves.

    Several generations are one logical rebalance when they follow each other so closely that the group was never
    really stable in between, or when a cooperative assignor needs a second round. `outcome` is `ongoing`, `completed`
    (the group was stable, or empty, at the end) or `aborted` (it was deleted meanwhile).

    `generation_from` is the generation before (null when none was known), `generation_to` the one it ended with.
    `join_ended_at_ms`, `sync_ms` belong to its first generation of a classic group; `assigning_ms` (until the target
    assignment was there) and `reconciling_ms` (from there until every member had it) to the newer kinds.
    A classic rebalance's start is not in the log, so it is bounded: it lies between `started_after_ms` and
    `started_before_ms`, and its duration between `duration_min_ms` and `duration_max_ms`. Where the start is known
    (the first join of a group new to the coordinator, every KIP-848 group) both bounds coincide; a probe that saw it
    narrows them. Durations and `completed_at_ms` are null while it is ongoing.
    `joined`, `left` and `replaced` are the net change over all generations; `passing` are members that came and went
    in between. `first_offender` is the member whose
    arrival, departure or change set it off, null when several came into question. `moves` is null when assignments
    are not in a known form.
    `silences` are the gaps in commits that overlap it, told when they end, seconds later; `lost_partition_ms` is their
    time after its start, an upper bound of what the partitions stood still, by up to one commit interval each.
    `lag_before` is the group's lag in records when last probed before it, `lag_peak` the most since, and
    `lag_recovered_at_ms` when it was back to what it was: null if the next rebalance came first, or not within 15
    minutes. All three are null without probes of end offsets.
    """

    cluster: str
    group: str
    rebalance_id: str
    type: str
    reason: str
    outcome: str
    generation_from: int | None
    generation_to: int
    generations: tuple[Generation, ...]
    generations_aborted: int
    started_after_ms: int | None
    started_before_ms: int
    join_ended_at_ms: int | None
    completed_at_ms: int | None
    sync_ms: int | None
    duration_min_ms: int | None
    duration_max_ms: int | None
    protocol: str | None
    leader: str | None
    members_before: tuple[Member, ...]
    members_after: tuple[Member, ...]
    joined: tuple[str, ...]
    left: tuple[str, ...]
    replaced: tuple[tuple[str, str], ...] = ()
    passing: tuple[Member, ...] = ()
    first_offender: str | None = None
    assigning_ms: int | None = None
    reconciling_ms: int | None = None
    moves: Moves | None = None
    silences: tuple[Silence, ...] = ()
    lost_partition_ms: int = 0
    lag_before: int | None = None
    lag_peak: int | None = None
    lag_recovered_at_ms: int | None = None
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class SubjectMember:
    """A member as findings name it. `member_id` is the latest one; null where only the client is known."""

    member_id: str | None
    client_id: str | None = None
    host: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """Who or what a finding is about. `partitions` are written `topic-partition`; all empty: the group as a whole."""

    members: tuple[SubjectMember, ...] = ()
    partitions: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation: `source` is `log`, `commits`, `probes`, `client_metrics` or `zookeeper`; `rule` what it means.

    `value` is text as a person reads it, with its unit.
    """

    source: str
    field: str
    value: str
    rule: str


@dataclass(frozen=True, slots=True)
class Alternative:
    """A diagnosis that was considered and not chosen."""

    rule: str
    why_not: str


@dataclass(frozen=True, slots=True)
class Advice:
    """What to change: a setting's name (or `upgrade`, `code`, `operation`), its value now, and the proposed one.

    `current` is null where it could not be read, `proposed` is a value with unit or a sentence, `formula` its origin.
    """

    parameter: str
    current: str | None
    proposed: str
    formula: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found: topic `…findings`, key `cluster/group/rule/subject`.

    `state` is `firing` or `resolved`. `primary`: it is the cause given for the rebalances in `rebalance_ids` (the
    latest ones; `rebalances` counts all), or of a trouble without a rebalance; what follows from a cause, and settings
    worth changing, are not. Every rebalance has exactly one primary finding, if only `undetermined`.
    `variant` names the mechanism where a diagnosis has several. `confidence` is the probability, 0 to 1, that the
    diagnosis is right. `parent` is the finding that this one is a part of. `group` is empty for findings about a
    whole cluster.
    """

    finding_id: str
    cluster: str
    group: str
    rule: str
    severity: str
    state: str
    primary: bool
    confidence: float
    subject: Subject
    started_at_ms: int
    detected_at_ms: int
    updated_at_ms: int
    resolved_at_ms: int | None
    summary: str
    variant: str | None = None
    rebalances: int = 0
    rebalance_ids: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    missing: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    parent: str | None = None
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class MemberTiming:
    """Heartbeat and poll timing of one client as it last reported. Times in milliseconds; null: not told.

    `heartbeat_headroom` is the share of the session that is left, 1 to 0 and below when it has passed;
    `poll_headroom` that of max.poll.interval. `delivery_ms` is how late the report came, `tick_late_ms` how late its
    own thread woke.
    """

    member_id: str | None
    client_id: str | None
    host: str | None
    library: str | None
    reported_at_ms: int
    heartbeat_age_ms: float | None = None
    heartbeat_headroom: float | None = None
    heartbeat_rate: float | None = None
    heartbeat_response_ms: float | None = None
    poll_age_ms: float | None = None
    poll_headroom: float | None = None
    delivery_ms: int = 0
    tick_late_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TimingWindow:
    """The worst that any member of a group reported in one sliding window; null where nobody told."""

    heartbeat_age_max_ms: float | None = None
    heartbeat_headroom: float | None = None
    poll_gap_max_ms: float | None = None
    poll_headroom: float | None = None
    reports: int = 0


@dataclass(frozen=True, slots=True)
class GroupTiming:
    """Heartbeat timing of one group: topic `…heartbeats`, key `cluster/group`. `windows` are named 1m, 5m and 15m."""

    cluster: str
    group: str
    at_ms: int
    windows: dict[str, TimingWindow]
    members: tuple[MemberTiming, ...]
    schema_version: int = SCHEMA_VERSION


PROBE_SCHEMA = "rebalance-monitor/probe/1"


@dataclass(frozen=True, slots=True)
class ProbedMember:
    """A member as a coordinator described it. `member_epoch` is null where the API does not tell it.

    `session_created_ms` is when a member that lives in ZooKeeper registered there, null for all others.
    """

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None = None
    member_epoch: int | None = None
    partitions: Partitions | None = None
    session_created_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What a coordinator, or ZooKeeper, answered about one group: topic `…probes`, key group.

    A field that is absent (`UNSET`) was not asked this time; null was asked and is unknown. So a cheap probe of
    the state and a full one have one form. `state` is Kafka's own name, compared without regard to case;
    `settled_at_ms` is when a group that is not stable now was last seen stable or empty.
    `end_offsets` and `stable_offsets` (last stable offsets) are topic -> partition number as text -> offset.
    `committed_offsets` are of the same form: what the coordinator has, for readers that did not see the commits.
    `topic_ids` gives the ids of topics by name (Kafka's 22 characters). `errors` are sentences for people.
    """

    schema: str = PROBE_SCHEMA
    probed_at_ms: int
    cluster: str
    group: str
    state: str | msgspec.UnsetType | None = msgspec.UNSET
    settled_at_ms: int | msgspec.UnsetType | None = msgspec.UNSET
    type: str | msgspec.UnsetType | None = msgspec.UNSET
    protocol: str | msgspec.UnsetType | None = msgspec.UNSET
    assignor: str | msgspec.UnsetType | None = msgspec.UNSET
    coordinator_id: int | msgspec.UnsetType | None = msgspec.UNSET
    group_epoch: int | msgspec.UnsetType | None = msgspec.UNSET
    members: tuple[ProbedMember, ...] | msgspec.UnsetType | None = msgspec.UNSET
    end_offsets: dict[str, dict[str, int | None]] | msgspec.UnsetType = msgspec.UNSET
    stable_offsets: dict[str, dict[str, int | None]] | msgspec.UnsetType = msgspec.UNSET
    committed_offsets: dict[str, dict[str, int | None]] | msgspec.UnsetType = msgspec.UNSET
    topic_ids: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    owners: dict[str, dict[str, str]] | msgspec.UnsetType = msgspec.UNSET
    errors: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class TopicCommits:
    """Last commit per partition of one topic, as parallel lists.

    `offsets` holds null where the last record of the pane deleted the committed offset. `committed_at_ms` is the
    coordinator's clock, `log_offsets` the position of that record in the group's log partition, which orders
    commits against group records. `commits` counts the records of the pane.
    """

    partitions: list[int]
    offsets: list[int | None]
    committed_at_ms: list[int]
    log_offsets: list[int]
    commits: list[int]


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """The commits of one group in one pane: topic `…commits`, key group.

    Only commits that a read-committed consumer would see. A pane may be split over several summaries (one per
    micro-batch); within a log partition summaries arrive in order, and one whose `last_log_offset` was seen before
    is a repetition.
    """

    cluster: str
    group: str
    pane_start_ms: int
    pane_ms: int
    log_partition: int
    first_log_offset: int
    last_log_offset: int
    topics: dict[str, TopicCommits]
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class RecordCount:
    """How many records of one kind ended in one outcome.

    `query` is the reader that met them. `type` is Kafka's record type, null when the key does not tell or names one
    that no Kafka has; `value_version` is null for tombstones and likewise.
    """

    query: str
    type: int | None
    value_version: int | None
    outcome: str
    count: int


@dataclass(frozen=True, slots=True)
class DecodeTotals:
    """Records read since the checkpoint was made: topic `…status`, key `cluster/records`. Exact across restarts."""

    cluster: str
    records: tuple[RecordCount, ...]
    kind: str = "records"
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """Health of one of the two queries: topic `…status`, key `cluster/query/name`, at least every few seconds.

    `caught_up` turns true once everything that was in the log when the process started has been processed, and
    stays true. `source_lag_records` counts log positions between the last processed batch and the log end (an upper
    bound of records: transaction markers and compacted records leave holes). `event_delay_ms` is the time from the
    newest processed record to the end of its batch, null while there was none. `last_batch_at_ms` is when the query
    last finished a batch or found nothing new to read.
    """

    cluster: str
    query: str
    caught_up: bool
    started_at_ms: int
    updated_at_ms: int
    trigger_ms: int
    batch_id: int | None = None
    last_batch_at_ms: int | None = None
    batch_ms: int | None = None
    input_rows: int = 0
    source_lag_records: int | None = None
    event_delay_ms: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    kind: str = "query"
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class ReportCount:
    """How many messages of a topic of client metrics ended in one outcome: `decoded`, or why they were not."""

    topic: str
    outcome: str
    count: int


@dataclass(frozen=True, slots=True)
class ReportTotals:
    """Client metrics read since the stream started: topic `…status`, key `cluster/client_metrics`."""

    cluster: str
    reports: tuple[ReportCount, ...]
    kind: str = "client_metrics"
    schema_version: int = SCHEMA_VERSION


#: What may stand in the status topic, told apart by the field `kind`.
Status = DecodeTotals | QueryStatus | ReportTotals

_T = TypeVar("_T")
_encoder = msgspec.json.Encoder()


class ContractError(ValueError):
    """A value that does not follow the contract; the text names the field and what was expected."""


def encode(event: Any) -> bytes:
    """Return the JSON text of any event of this module."""
    return _encoder.encode(event)


def decode(text: bytes, kind: type[_T]) -> _T:
    """Read one event back. Raises ContractError when the text is not one."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ContractError(f"not a valid {kind.__name__}: {error}") from error


def decode_status(text: bytes) -> Status:
    """Read a value of the status topic, whichever of its kinds it is. Raises ContractError."""
    kind = decode(text, _StatusKind).kind
    if kind == "records":
        return decode(text, DecodeTotals)
    if kind == "query":
        return decode(text, QueryStatus)
    if kind == "client_metrics":
        return decode(text, ReportTotals)
    raise ContractError(f"unknown status kind {kind!r}: the stream is newer than this reader; update the exporter")


@dataclass(frozen=True, slots=True)
class _StatusKind:
    kind: str
