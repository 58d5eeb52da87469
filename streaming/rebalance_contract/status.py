"""Rows of the status topic: the health of the monitor itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalance_contract.codec import SCHEMA_VERSION, decode_tagged
from rebalance_contract.sets import AnyCountedFrom, CountedFrom, StatusKind


@dataclass(frozen=True, slots=True)
class RecordCount:
    """Number of records of one kind with one outcome.

    `query` is the query that read them. `type` is Kafka's record type, null if the key contains none or one that does
    not exist in Kafka; `value_version` is null in the same cases and for tombstones.
    """

    query: str
    type: int | None
    value_version: int | None
    outcome: str
    count: int


@dataclass(frozen=True, slots=True)
class DecodeTotals:
    """Records read by one query since its totals began: topic `…status`, key `cluster/records/query`.

    Exact across restarts: `positions` has, by `topic/partition`, the log era and the offset up to which records are
    counted.
    """

    cluster: str
    query: str
    records: tuple[RecordCount, ...]
    positions: dict[str, tuple[int, int]] = field(default_factory=dict)
    kind: StatusKind = StatusKind.RECORDS
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """Health of one query: topic `…status`, key `cluster/query/name`, at least every few seconds.

    `caught_up` becomes true once everything that was in the log when the process started has been processed, and stays
    true. `source_lag_records` counts log positions between the last processed batch and the log end (an upper bound of
    records: transaction markers and compacted records leave gaps). `event_delay_ms` is how old the picture of the log
    is at the end of a batch: the time since the batch started or, with `source_lag_records` left over, the age of the
    newest record of the log that it read; null if not known, and for the diagnosis. `last_batch_at_ms` is when the
    query last finished a batch or found nothing new to read; `batch_ms` is the duration of that batch, `input_rows` the
    number of records it read. `state_rows` and `state_bytes` are the size of the query's state, null for a query
    without one.
    `read_until_ms`: everything that was written to its inputs before this time has been processed; 0 while that is not
    known. Of the `wanted_records` log positions that existed at the start, `read_records` have been processed.
    `restarts` counts how often the query ended and was restarted since the process started; `error` is why it does not
    run now, null while it runs. `is_stalled`: a batch makes no progress. `counted_from` is `probes` if the log is not
    read (`sources.log = false`); fields about the log then refer to the topic of probes. `epoch`, `host` and `pid`
    belong to the process, which owns the query's outputs unless there is a status with a higher epoch
    (`rebalance_contract.epochs`); they are 0, empty and null in rows of a version without epochs.
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
    read_until_ms: int = 0
    read_records: int = 0
    wanted_records: int = 0
    restarts: int = 0
    error: str | None = None
    is_stalled: bool = False
    counted_from: AnyCountedFrom = CountedFrom.LOG
    epoch: int = 0
    host: str = ""
    pid: int | None = None
    kind: StatusKind = StatusKind.QUERY
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class ReportCount:
    """Number of messages of a client-metrics topic with one outcome: `decoded`, or why they could not be decoded."""

    topic: str
    outcome: str
    count: int


@dataclass(frozen=True, slots=True)
class ReportTotals:
    """Client metrics read since the totals began: topic `…status`, key `cluster/client_metrics`.

    `positions` as in `DecodeTotals`.
    """

    cluster: str
    reports: tuple[ReportCount, ...]
    positions: dict[str, tuple[int, int]] = field(default_factory=dict)
    kind: StatusKind = StatusKind.CLIENT_METRICS
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class WatchedPartition:
    """The remembered state of one partition of an input; left out while all fields have their initial values.

    `era` counts how often the partition was truncated or recreated: only era and offset together identify a record.
    `skipped_to` is the position up to which records that were deleted before they were read have been counted.
    `awaited_from`: the partition was truncated, and from this position on the query has read nothing of the new era;
    null once it is known where reading continues.
    """

    partition: int
    era: int = 0
    skipped_to: int = 0
    awaited_from: int | None = None


@dataclass(frozen=True, slots=True)
class WatchedTopic:
    """Truncations, recreations and partition changes of one input topic of a query since the totals began.

    `partition_count` and `topic_id` (Kafka's, null from brokers older than 2.8) are the latest ones seen.
    `skipped_records` counts log positions that retention or truncation removed before they were read (an upper bound of
    records, as for every count of positions). `rewinds` counts how often partitions were truncated below the read
    position, `recreations` how often the topic was recreated, `added_partitions` and `removed_partitions` how many
    partitions were added, or removed with the topic. `lost_positions` counts positions that were read and later
    truncated from the log.
    """

    topic: str
    partition_count: int
    topic_id: str | None = None
    skipped_records: int = 0
    lost_positions: int = 0
    rewinds: int = 0
    recreations: int = 0
    added_partitions: int = 0
    removed_partitions: int = 0
    partitions: tuple[WatchedPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class LogTotals:
    """Changes of the inputs of one query: topic `…status`, key `cluster/log/query`, at a start and at each change.

    The totals never decrease: a start restores them, and the eras of the partitions, from this row.
    """

    cluster: str
    query: str
    updated_at_ms: int
    topics: tuple[WatchedTopic, ...] = ()
    kind: StatusKind = StatusKind.LOG
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class QuarantineCount:
    """Number of rows, groups or rules of one stage that were quarantined for one reason."""

    stage: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class QuarantineTotals:
    """Quarantined items of one part of a query's state: topic `…status`, key `cluster/quarantine/query/part`."""

    cluster: str
    query: str
    part: int
    quarantined: tuple[QuarantineCount, ...]
    kind: StatusKind = StatusKind.QUARANTINE
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class DiagnosisStatus:
    """State of the diagnosis: topic `…status`, key `cluster/diagnosis`, every few seconds.

    `groups` counts all known groups, `committing_groups` those with committed offsets, `groups_with_lag` those of them
    whose lag is known, `groups_awaiting_ends` those with topics without probed end offsets yet (a topic that the
    prober requested without success is not awaited). `probed_at_ms` is the time of the latest probe read, null: none.
    """

    cluster: str
    updated_at_ms: int
    read_until_ms: int = 0
    groups: int = 0
    committing_groups: int = 0
    groups_with_lag: int = 0
    groups_awaiting_ends: int = 0
    probed_at_ms: int | None = None
    quarantined: tuple[QuarantineCount, ...] = ()
    kind: StatusKind = StatusKind.DIAGNOSIS
    schema_version: int = SCHEMA_VERSION


#: The row types of the status topic, distinguished by the field `kind`.
Status = DecodeTotals | QueryStatus | ReportTotals | DiagnosisStatus | QuarantineTotals | LogTotals


_ROWS: Mapping[str, type[Status]] = {
    StatusKind.RECORDS: DecodeTotals,
    StatusKind.QUERY: QueryStatus,
    StatusKind.CLIENT_METRICS: ReportTotals,
    StatusKind.DIAGNOSIS: DiagnosisStatus,
    StatusKind.QUARANTINE: QuarantineTotals,
    StatusKind.LOG: LogTotals,
}


def decode_status(text: bytes) -> Status:
    """Return the row in a value of the status topic. Raises ContractError if it is not valid."""
    return decode_tagged(text, _ROWS, "status")


def status_key(row: Status) -> str:
    """Return the key of a row of the status topic.

    `cluster/kind`; for a query `cluster/kind/query`, for the quarantine of a part of its state
    `cluster/kind/query/part`.
    """
    parts = [row.cluster, row.kind]
    if isinstance(row, DecodeTotals | QueryStatus | LogTotals | QuarantineTotals):
        parts.append(row.query)
    if isinstance(row, QuarantineTotals):
        parts.append(str(row.part))
    return "/".join(parts)
