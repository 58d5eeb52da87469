"""The monitor's own metrics: what it read, how far it is, what it left out. Rendered anew at each scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rebalance_exporters.health import Readiness, ReadProgress, status_age_seconds
from rebalance_exporters.series import Metric, Samples, in_seconds, one_sample
from rebalance_exporters.view import Picture
from rebalance_streaming.groups.events import GroupSnapshot, QueryStatus

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
        lambda state: one_sample(int(state.readiness.ready)),
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
        "How often a query means to run a batch.",
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
        "Time since a query last gave a sign of life. When it grows, the stream is down and all series are stale.",
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
