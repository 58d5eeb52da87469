"""The monitor's own metrics: what it read, how far it has read, what it left out. Rendered anew at each scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rebalance_contract import DiagnosisStatus, QuarantineTotals, QueryStatus, WatchedTopic
from rebalance_contract.api import Readiness
from rebalance_exporters.metrics.series import Metric, Samples, in_seconds, one_sample
from rebalance_exporters.state.fleet import FleetSnapshot
from rebalance_exporters.state.health import ReadProgress, read_share, status_age_seconds

#: Record types of `__consumer_offsets` by Kafka's names in snake case; 0 and 1 are two key versions of one type.
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


@dataclass(frozen=True, slots=True)
class Reload:
    """Whether the last reading of a settings file succeeded, and when one last succeeded, in epoch milliseconds."""

    file: str
    successful: bool
    succeeded_ms: int


@dataclass(frozen=True, slots=True)
class MonitorState:
    """The source of the monitor's own metrics; groups and series are those of the exposition being rendered."""

    fleet: FleetSnapshot
    progress: ReadProgress
    readiness: Readiness
    now_ms: int
    version: str
    exported_groups: int
    dropped_groups: int
    series: int
    dropped_series: Mapping[str, int]
    reloads: tuple[Reload, ...] = ()


def _read_records(state: MonitorState) -> Samples:
    totals: Counter[tuple[str, ...]] = Counter()
    for row in state.fleet.records:
        for record in row.records:
            kind = RECORD_TYPES.get(record.type, str(record.type))
            version = "none" if record.value_version is None else str(record.value_version)
            totals[row.cluster, record.query, kind, version, record.outcome] += record.count
    return sorted(totals.items())


def _per_query(read: Callable[[QueryStatus], float | None]) -> Callable[[MonitorState], Samples]:
    """Turn a reader of one query's status into a reader of all queries."""

    def read_all(state: MonitorState) -> Samples:
        values = [((status.cluster, status.query), read(status)) for status in state.fleet.queries]
        return [(labels, value) for labels, value in values if value is not None]

    return read_all


def _read_status_age(state: MonitorState) -> Samples:
    return [
        ((status.cluster, status.query), status_age_seconds(status, state.now_ms)) for status in state.fleet.queries
    ]


def _per_cluster(read: Callable[[DiagnosisStatus, int], float | None]) -> Callable[[MonitorState], Samples]:
    """Turn a reader of one cluster's diagnosis, and of the time, into a reader of all clusters."""

    def read_all(state: MonitorState) -> Samples:
        values = [((name,), read(status, state.now_ms)) for name, status in sorted(state.fleet.diagnoses.items())]
        return [(labels, value) for labels, value in values if value is not None]

    return read_all


def _read_quarantined(state: MonitorState) -> Samples:
    """Return the sums of what the diagnosis has set aside since its start, and of what each part of other queries has.

    The diagnosis and the other queries have different stages, so a restart of one does not lower the other's counts.
    """
    totals: Counter[tuple[str, ...]] = Counter()
    statuses: list[DiagnosisStatus | QuarantineTotals] = [*state.fleet.diagnoses.values(), *state.fleet.quarantines]
    for status in statuses:
        for each in status.quarantined:
            totals[status.cluster, each.stage, each.reason] += each.count
    return sorted(totals.items())


def _per_input(read: Callable[[WatchedTopic], int]) -> Callable[[MonitorState], Samples]:
    """Turn a reader of one input of a query into a reader of all inputs of all queries."""

    def read_all(state: MonitorState) -> Samples:
        totals: Counter[tuple[str, ...]] = Counter()
        for log in state.fleet.logs:
            for topic in log.topics:
                totals[log.cluster, log.query, topic.topic] += read(topic)
        return sorted(totals.items())

    return read_all


def _read_diagnosed(state: MonitorState) -> Samples:
    return [
        ((cluster, kind), count)
        for cluster, status in sorted(state.fleet.diagnoses.items())
        for kind, count in (
            ("known", status.groups),
            ("committing", status.committing_groups),
            ("with_lag", status.groups_with_lag),
            ("awaiting_ends", status.groups_awaiting_ends),
        )
    ]


def _read_reports(state: MonitorState) -> Samples:
    totals: Counter[tuple[str, ...]] = Counter()
    for row in state.fleet.reports:
        for each in row.reports:
            totals[row.cluster, each.topic, each.outcome] += each.count
    return sorted(totals.items())


_QUERY = ("cluster", "query")
_INPUT = (*_QUERY, "topic")

#: The monitor's own few hundred series.
MONITOR_METRICS: tuple[Metric[MonitorState], ...] = (
    Metric(
        "monitor_ready",
        "gauge",
        "1 when what is exported is complete and fresh. At 0 trust no other series: /-/ready says what is missing.",
        (),
        lambda state: one_sample(int(state.readiness.ready)),
    ),
    Metric(
        "monitor_cluster_ready",
        "gauge",
        "1 when what is exported of a cluster is complete and fresh, whatever other clusters the exporter shows.",
        ("cluster",),
        lambda state: [((name,), int(ready)) for name, ready in sorted(state.readiness.clusters.items())],
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
        "monitor_read_ratio",
        "gauge",
        "Share of what was in the log when a query started that it has processed, 0 to 1. Absent where nothing was.",
        _QUERY,
        _per_query(read_share),
    ),
    Metric(
        "monitor_restarts_total",
        "counter",
        "How often a query ended and was restarted since the stream's process started. If it keeps rising, the data is "
        "late at best, and /-/ready or the stream's log says why the query ends.",
        _QUERY,
        _per_query(lambda status: status.restarts),
    ),
    Metric(
        "monitor_failed",
        "gauge",
        "1 while a query does not run because of an error, which /-/ready names.",
        _QUERY,
        _per_query(lambda status: int(status.error is not None)),
    ),
    Metric(
        "monitor_stalled",
        "gauge",
        "1 while a batch of a query makes no progress.",
        _QUERY,
        _per_query(lambda status: int(status.is_stalled)),
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
        "How late the monitor learns of things, at the end of a batch: the time since it started or, with a backlog, "
        "the age of the newest record that it read.",
        _QUERY,
        _per_query(lambda status: in_seconds(status.event_delay_ms)),
    ),
    Metric(
        "monitor_batch_seconds",
        "gauge",
        "How long a query's last batch took. Longer than its trigger for a while: the stream needs more cores.",
        _QUERY,
        _per_query(lambda status: in_seconds(status.batch_ms)),
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
        "The interval at which a query is meant to run a batch.",
        _QUERY,
        _per_query(lambda status: in_seconds(status.trigger_ms)),
    ),
    Metric(
        "monitor_last_batch_timestamp_seconds",
        "gauge",
        "When a query last finished a batch or found nothing new to read, in seconds since 1970.",
        _QUERY,
        _per_query(lambda status: in_seconds(status.last_batch_at_ms)),
    ),
    Metric(
        "monitor_status_age_seconds",
        "gauge",
        "Time since a query last reported its status. When it grows, the stream is down and all series are stale.",
        _QUERY,
        _read_status_age,
    ),
    Metric(
        "monitor_start_timestamp_seconds",
        "gauge",
        "When a query started, in seconds since 1970.",
        _QUERY,
        _per_query(lambda status: in_seconds(status.started_at_ms)),
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
        "monitor_log_skipped_positions_total",
        "counter",
        "Positions of an input that were gone before a query had read them, an upper bound of records: retention, or "
        "somebody who deletes records, was faster than the stream, or the log was truncated and continued before the "
        "stream looked.",
        _INPUT,
        _per_input(lambda topic: topic.skipped_records),
    ),
    Metric(
        "monitor_log_lost_positions_total",
        "counter",
        "Positions of an input that a query had read and that were truncated later, an upper bound of records.",
        _INPUT,
        _per_input(lambda topic: topic.lost_positions),
    ),
    Metric(
        "monitor_log_rewinds_total",
        "counter",
        "How often a partition of an input was truncated below what was known of it. Any rise: an unclean election, or "
        "somebody restored the topic. The query continues from the new end.",
        _INPUT,
        _per_input(lambda topic: topic.rewinds),
    ),
    Metric(
        "monitor_log_recreations_total",
        "counter",
        "How often an input was deleted and recreated. The query reads it from its beginning.",
        _INPUT,
        _per_input(lambda topic: topic.recreations),
    ),
    Metric(
        "monitor_log_partitions_added_total",
        "counter",
        "Partitions that were added to an input while it was watched.",
        _INPUT,
        _per_input(lambda topic: topic.added_partitions),
    ),
    Metric(
        "monitor_log_partitions_removed_total",
        "counter",
        "Partitions that an input lost: it was deleted, or recreated with fewer.",
        _INPUT,
        _per_input(lambda topic: topic.removed_partitions),
    ),
    Metric(
        "monitor_client_metrics_total",
        "counter",
        "Messages of client metrics, and lines of brokers' logs, by topic and outcome: `decoded`, or why they were not "
        "understood; `other` are lines of a broker that are not about an event of a group.",
        ("cluster", "topic", "outcome"),
        _read_reports,
    ),
    Metric(
        "monitor_late_events_total",
        "counter",
        "Rebalances and generations whose records carry a time too far in the past (late) or ahead (future) for the "
        "sliding windows; future ones count as of now. Counted by each exporter from its own start. Rising: a broker's "
        "clock is wrong.",
        ("cluster", "kind"),
        lambda state: sorted(state.fleet.late_events.items()),
    ),
    Metric(
        "monitor_rows_total",
        "counter",
        "Rows the exporter read from each of the stream's topics.",
        ("topic",),
        lambda state: [((topic,), count) for topic, count in state.fleet.rows.items()],
    ),
    Metric(
        "monitor_contract_errors_total",
        "counter",
        "Rows the exporter left out, by what was wrong with them: `contract` (not the fields that are expected, or a "
        "kind only a newer stream writes), `key`, `text` (no UTF-8), `number`, `time`, `size`, `limit` (more groups or "
        "findings than are held), `superseded` (of a stream that another one took over from: two run), `failed` "
        "(a defect, see the log). Update the exporter, or find out what else writes to the topic.",
        ("topic", "reason"),
        lambda state: list(state.fleet.refused.items()),
    ),
    Metric(
        "monitor_truncated_rows_total",
        "counter",
        "Rows read that lack members, partitions or silences because they would have been too large; counts of them "
        "are complete. Lag counts a topic at a time.",
        ("topic",),
        lambda state: [((topic,), count) for topic, count in state.fleet.truncated.items()],
    ),
    Metric(
        "monitor_kafka_errors_total",
        "counter",
        "Errors the exporter's Kafka client reported; while not ready, /-/ready shows the latest.",
        (),
        lambda state: one_sample(state.progress.kafka_errors),
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
        lambda state: one_sample(state.series),
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
        "monitor_diagnosis_age_seconds",
        "gauge",
        "Time since the diagnosis last reported its status. While it is silent, lag and windows of groups are absent.",
        ("cluster",),
        _per_cluster(lambda status, now_ms: max(0, now_ms - status.updated_at_ms) / 1000),
    ),
    Metric(
        "monitor_diagnosis_delay_seconds",
        "gauge",
        "Age of the newest input that the diagnosis has processed. Absent while that is not known.",
        ("cluster",),
        _per_cluster(
            lambda status, now_ms: max(0, now_ms - status.read_until_ms) / 1000 if status.read_until_ms else None
        ),
    ),
    Metric(
        "monitor_diagnosis_groups",
        "gauge",
        "Groups in the diagnosis: all that are `known`, those `committing`, those of them `with_lag`, and those "
        "`awaiting_ends`, some of whose topics have no probed end offsets yet.",
        ("cluster", "kind"),
        _read_diagnosed,
    ),
    Metric(
        "monitor_quarantined_total",
        "counter",
        "Records, rows, groups or rules that the stream set aside so that the rest goes on, by stage and reason. Any "
        "rise means that something is not counted or not judged; at the stage `client report`, which alerts leave out, "
        "that a client reports a group that neither the log nor a probe has.",
        ("cluster", "stage", "reason"),
        _read_quarantined,
    ),
    Metric(
        "monitor_last_probe_timestamp_seconds",
        "gauge",
        "When the last probe that was read was made, in seconds since 1970. Absent: no prober runs, and lag, "
        "coordinators and the states within a classic rebalance are not known.",
        ("cluster",),
        _per_cluster(lambda status, _: in_seconds(status.probed_at_ms)),
    ),
    Metric(
        "monitor_config_reload_successful",
        "gauge",
        "1 when the file was valid when it was last read. At 0 the previous content stays in effect; the log says why.",
        ("file",),
        lambda state: [((reload.file,), int(reload.successful)) for reload in state.reloads],
    ),
    Metric(
        "monitor_config_reload_success_timestamp_seconds",
        "gauge",
        "When the file was last read successfully, in seconds since 1970. It is read when it changes.",
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
