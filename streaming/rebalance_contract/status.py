"""The monitor's own health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalance_contract.codec import SCHEMA_VERSION, ContractError, decode
from rebalance_contract.sets import AnyCountedFrom, CountedFrom, StatusKind


@dataclass(frozen=True, slots=True)
class RecordCount:
    """How many records of one kind ended in one outcome.

    `query` is the reader that met them. `type` is Kafka's record type, null when the key does not say or names one
    that no Kafka has; `value_version` is null for tombstones and likewise.
    """

    query: str
    type: int | None
    value_version: int | None
    outcome: str
    count: int


@dataclass(frozen=True, slots=True)
class DecodeTotals:
    """Records read by one query since its totals began: topic `…status`, key `cluster/records/query`.

    Exact across restarts: `positions` has, by `topic/partition`, up to where the totals hold: era of the log and
    offset.
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

    `caught_up` turns true once everything that was in the log when the process started has been processed, and
    stays true. `source_lag_records` counts log positions between the last processed batch and the log end (an upper
    bound of records: transaction markers and compacted records leave holes). `event_delay_ms` is the time from the
    newest processed record to the end of its batch, null while there was none. `last_batch_at_ms` is when the query
    last finished a batch or found nothing new to read; `batch_ms` is how long that batch took, `input_rows` how
    many records it read. `state_rows` and `state_bytes` are the size of the query's state, null for a query without
    one. `read_until_ms`: everything that was written to its inputs before this time has been processed; 0 while
    that is not known. `read_records` of `wanted_records` log positions that were there at the start have been
    processed. `restarts` counts how often the query ended and was started again since the process started; `error`
    says why it does not run now, null while it does. `is_stalled`: a batch makes no progress. `counted_from`:
    `probes` where the log is not read (`sources.log = false`); what is said of the log here is then meant of the
    topic of probes. `epoch`, `host` and `pid` are those of the process, which owns what the query writes unless
    there is a status with a higher epoch (`rebalance_contract.epochs`); 0, empty and null from a version that takes
    no epoch.
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
    """How many messages of a topic of client metrics ended in one outcome: `decoded`, or why they were not."""

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
    """What is to be remembered of one partition of an input; left out while all of it is as at the beginning.

    `era` counts how often the partition was cut or recreated: an offset means a record only together with it.
    `skipped_to`: up to here, records that were gone before they were read are counted. `awaited_from`: the partition
    was cut, and from here on the query has read nothing of the new era; null once it is known where it goes on.
    """

    partition: int
    era: int = 0
    skipped_to: int = 0
    awaited_from: int | None = None


@dataclass(frozen=True, slots=True)
class WatchedTopic:
    """What befell one input topic of a query since the totals began.

    `partition_count` and `topic_id` (Kafka's, null from brokers older than 2.8) are those seen last.
    `skipped_records` counts log positions that retention or a truncation took before they were read (an upper bound of
    records, as for every count of positions). `rewinds` counts how often partitions were cut below what was read,
    `recreations` how often the topic was recreated, `added_partitions` and `removed_partitions` its growth and, where
    it was deleted, its end. `lost_positions` are those that were read and later cut from the log.
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
    """What befell the inputs of one query: topic `…status`, key `cluster/log/query`, at a start and at each change.

    The totals never fall: a start takes them up again from this row, and with them the eras of the partitions.
    """

    cluster: str
    query: str
    updated_at_ms: int
    topics: tuple[WatchedTopic, ...] = ()
    kind: StatusKind = StatusKind.LOG
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class QuarantineCount:
    """How many rows, groups or rules of one stage were set aside for one reason."""

    stage: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class QuarantineTotals:
    """What one part of a query's state set aside: topic `…status`, key `cluster/quarantine/query/part`."""

    cluster: str
    query: str
    part: int
    quarantined: tuple[QuarantineCount, ...]
    kind: StatusKind = StatusKind.QUARANTINE
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class DiagnosisStatus:
    """What the diagnosis has in hand: topic `…status`, key `cluster/diagnosis`, every few seconds.

    `groups` are all groups it knows, `committing_groups` those with committed offsets, `groups_with_lag` those of them
    whose lag is known, `groups_awaiting_ends` those with topics without probed end offsets yet (a topic that the
    prober asked for in vain is not awaited). `probed_at_ms` is the time of the probe read last, null: none was.
    `activity_positions` is how far it has read the activity topic, by partition.
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
    activity_positions: dict[str, int] = field(default_factory=dict)
    kind: StatusKind = StatusKind.DIAGNOSIS
    schema_version: int = SCHEMA_VERSION


#: What may stand in the status topic, distinguished by the field `kind`.
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
    """Read a value of the status topic, whichever of its kinds it is. Raises ContractError."""
    kind = decode(text, _Kind).kind
    row = _ROWS.get(kind)
    if row is None:
        raise ContractError(f"unknown status kind {kind!r}: the stream is newer than this reader; update the exporter")
    return decode(text, row)


def status_key(row: Status) -> str:
    """Return the key of a row of the status topic.

    `cluster/kind`, of a query `cluster/kind/query`, of what a part of its state set aside
    `cluster/kind/query/part`.
    """
    parts = [row.cluster, row.kind]
    if isinstance(row, DecodeTotals | QueryStatus | LogTotals | QuarantineTotals):
        parts.append(row.query)
    if isinstance(row, QuarantineTotals):
        parts.append(str(row.part))
    return "/".join(parts)


@dataclass(frozen=True, slots=True)
class _Kind:
    kind: str
