"""Metrics that one client reported in one pane, reduced to what the diagnosis needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rebalance_contract.codec import SCHEMA_VERSION

HEARTBEAT_AGE = "coordinator_last_heartbeat_seconds_ago"
HEARTBEAT_RATE = "coordinator_heartbeat_rate"
HEARTBEAT_TOTAL = "coordinator_heartbeat_total"
RESPONSE_MAX = "coordinator_heartbeat_response_time_max"
#: Over all requests to the coordinator, joins and syncs included, in the window of librdkafka's statistics.
ANY_RESPONSE_MAX = "coordinator_response_time_max"
POLL_AGE = "last_poll_seconds_ago"
POLL_GAP_MAX = "time_between_poll_max"
POLL_IDLE = "poll_idle_ratio_avg"
FETCH_RATE = "fetch_manager_fetch_rate"
CONSUMED_RATE = "fetch_manager_records_consumed_rate"
CONSUMED_TOTAL = "fetch_manager_records_consumed_total"
COMMIT_RATE = "coordinator_commit_rate"
COMMIT_TOTAL = "coordinator_commit_total"
ASSIGNED = "coordinator_assigned_partitions"
#: Time since the last rebalance ended; for librdkafka, since partitions were last revoked or assigned.
REBALANCE_AGE = "coordinator_last_rebalance_seconds_ago"
JOIN_RATE = "coordinator_join_rate"
FAILED_REBALANCES = "coordinator_failed_rebalance_total"
REVOKED_LATENCY = "coordinator_partition_revoked_latency_max"
ASSIGNED_LATENCY = "coordinator_partition_assigned_latency_max"
#: Position of a partition up to which records were passed to the application (librdkafka's statistics).
APP_OFFSET = "app_offset"

#: Canonical names of all metrics that a sample may carry.
CLIENT_VALUES = frozenset(
    (
        *(HEARTBEAT_AGE, HEARTBEAT_RATE, HEARTBEAT_TOTAL, RESPONSE_MAX, ANY_RESPONSE_MAX, POLL_AGE, POLL_GAP_MAX),
        POLL_IDLE,
        *(FETCH_RATE, CONSUMED_RATE, CONSUMED_TOTAL, COMMIT_RATE, COMMIT_TOTAL, ASSIGNED, JOIN_RATE),
        *(FAILED_REBALANCES, REVOKED_LATENCY, ASSIGNED_LATENCY, REBALANCE_AGE),
    )
)


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Settings that a client reported, in milliseconds and records; null: not reported, or not a valid value."""

    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    max_poll_interval_ms: int | None = None
    max_poll_records: int | None = None
    fetch_max_wait_ms: int | None = None
    metadata_max_age_ms: int | None = None
    request_timeout_ms: int | None = None
    auto_commit_interval_ms: int | None = None
    group_protocol: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """Figures that a client reported about its process; null: not reported.

    `start_ms` is when it started, `tick_late_ms` how much later than scheduled its reporting thread woke, `cpu_s` the
    processor time used so far, `voluntary_switches` the number of voluntary context switches of its threads.
    """

    start_ms: int | None = None
    tick_late_ms: int | None = None
    cpu_s: float | None = None
    voluntary_switches: int | None = None


@dataclass(frozen=True, slots=True)
class ClientSample:
    """One report of a client.

    `emitted_ms` is the time by its own clock, `observed_ms` the time of the record that contained it. `values` has
    absolute values by canonical name, all finite and none negative; `increments` has counters reported as increments
    since the previous sample: readers add them up, once per `emitted_ms`. `heartbeat_never`: the client reported that
    it has not sent a heartbeat yet. `poll_age_ms` is the time since the application last polled, computed from times in
    the report, 0 while it waits inside poll(); null: not reported, or only in `values`. `reason` is librdkafka's text
    of why it last rebalanced and `join_state` its own state, both verbatim.
    """

    emitted_ms: int
    observed_ms: int
    values: dict[str, float] = field(default_factory=dict)
    increments: dict[str, float] = field(default_factory=dict)
    heartbeat_never: bool = False
    poll_age_ms: int | None = None
    process: ProcessFigures | None = None
    reason: str | None = None
    join_state: str | None = None


@dataclass(frozen=True, slots=True)
class ClientActivity:
    """Reports of one client in one pane: topic `…activity`, key group id, else client id, else empty.

    All reports in a row have the same identity, settings and format; null: not reported. `samples` are sorted by
    `emitted_ms`, at least one. A pane contains records by their own time; one with many samples, or split over
    micro-batches, is reported in several rows. Rows of a client are merged by the times of their samples, so that a
    duplicate row changes nothing. `app_offsets` are the last positions of the pane, by topic and partition, up to which
    librdkafka passed records to the application. `implausible` counts values that were removed because they are
    impossible: zero timeouts, numbers that are not finite, times far from the record's. `is_truncated`: there was more
    than fits into rows, and intermediate samples or partitions were left out.
    """

    cluster: str
    pane_start_ms: int
    samples: tuple[ClientSample, ...]
    group_id: str | None = None
    client_id: str | None = None
    member_id: str | None = None
    instance_id: str | None = None
    host: str | None = None
    pid: int | None = None
    library: str | None = None
    library_version: str | None = None
    format: str | None = None
    interval_ms: int | None = None
    config: ClientConfig = field(default_factory=ClientConfig)
    app_offsets: dict[str, dict[str, int]] = field(default_factory=dict)
    implausible: int = 0
    is_truncated: bool = False
    kind: Literal["clients"] = "clients"
    schema_version: int = SCHEMA_VERSION
