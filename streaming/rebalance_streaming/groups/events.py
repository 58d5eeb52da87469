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

#: What started a rebalance as far as the log alone tells; the catalogue's trigger classes.
REASONS = (
    "first_join",
    "join",
    "departure",
    "replacement",
    "swap",
    "group_emptied",
    "subscription_change",
    "cooperative_followup",
    "leader_rejoin",
)


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group as its last record described it.

    `group_instance_id` is null for a dynamic member. `partitions` maps topic to sorted partition numbers, null
    when the assignment is not in the consumer protocol's form. `rebalance_timeout_ms` is null in records
    older than value version 1.
    """

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    topics: tuple[str, ...] = ()
    partitions: dict[str, list[int]] | None = None


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals of one group since the monitor first saw it; they never go back, not even when the group is deleted.

    `rebalances` has one entry for every reason in `REASONS`, zero included.
    """

    rebalances: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    generations_completed: int = 0
    generations_aborted: int = 0
    members_joined: int = 0
    members_left: int = 0
    members_replaced: int = 0


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """The present picture of one group: topic `…groups`, key `cluster/group`.

    `state` is what the log can tell of a classic group: `Stable` (an assignment is stored), `Empty`, or `Deleted`;
    null before the group's first group record. The states in between live in the coordinator's memory only.
    `type` is `classic`, or null while no group record has been read.
    """

    cluster: str
    group: str
    type: str | None = None
    state: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    generation: int | None = None
    leader: str | None = None
    members: tuple[Member, ...] = ()
    counters: Counters = field(default_factory=Counters)
    first_seen_ms: int | None = None
    last_rebalance_ms: int | None = None
    last_rebalance_id: str | None = None
    updated_at_ms: int | None = None
    log_partition: int | None = None
    log_offset: int | None = None
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One rebalance: topic `…rebalances`, key `cluster/group/rebalance_id`, rewritten as it evolves.

    `generation_from` is the generation before (null when none was known), `generation_to` the one it ended with;
    a distance above 1 means rounds that never got an assignment (`generations_aborted`).
    `join_ended_at_ms` is when the join barrier was released, null when the record's version does not carry it;
    `sync_ms` the time from there to the stored assignment.
    A classic rebalance's start is not in the log, so it is bounded: it lies between `started_after_ms` and
    `started_before_ms`, and its duration between `duration_min_ms` and `duration_max_ms`. Where the log does show
    the start (the first join of a group new to the coordinator) both bounds coincide.
    """

    cluster: str
    group: str
    rebalance_id: str
    reason: str
    generation_from: int | None
    generation_to: int
    generations_aborted: int
    started_after_ms: int | None
    started_before_ms: int
    join_ended_at_ms: int | None
    completed_at_ms: int
    sync_ms: int | None
    duration_min_ms: int
    duration_max_ms: int | None
    protocol: str | None
    leader: str | None
    members_before: tuple[Member, ...]
    members_after: tuple[Member, ...]
    joined: tuple[str, ...]
    left: tuple[str, ...]
    replaced: tuple[tuple[str, str], ...] = ()
    schema_version: int = SCHEMA_VERSION


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


#: What may stand in the status topic, told apart by the field `kind`.
Status = DecodeTotals | QueryStatus

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
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ContractError(f"not a valid {kind.__name__}: {error}") from error


def decode_status(text: bytes) -> Status:
    """Read a value of the status topic, whichever of its kinds it is. Raises ContractError."""
    kind = decode(text, _StatusKind).kind
    if kind == "records":
        return decode(text, DecodeTotals)
    if kind == "query":
        return decode(text, QueryStatus)
    raise ContractError(f"unknown status kind {kind!r}: the stream is newer than this reader; update the exporter")


@dataclass(frozen=True, slots=True)
class _StatusKind:
    kind: str
