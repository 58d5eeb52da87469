"""The common result of all client metric formats: one report per client and time.

Canonical metric names, units and meanings are Kafka's own, normalised (see `names`). Nothing is guessed: values that a
format does not contain are null.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from rebalance_contract import ClientConfig

__all__ = ["ClientConfig", "Point", "Report", "Temporality"]


class Temporality(enum.StrEnum):
    """How successive values of one metric relate: `delta` values must be added up, others replace earlier ones."""

    GAUGE = "gauge"
    CUMULATIVE = "cumulative"
    DELTA = "delta"


@dataclass(frozen=True, slots=True)
class Point:
    """One value. `value` is null if the client reported none; `never` if it reported that the event never happened.

    `labels` distinguish points of one metric (`topic`, `partition`, `node_id`); often empty.
    """

    metric: str
    value: float | None
    labels: dict[str, str] = field(default_factory=dict)
    temporality: Temporality = Temporality.GAUGE
    never: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What one client reported at one time.

    `observed_ms` is the time of the Kafka record, `emitted_ms` the time inside the payload (the former if the format
    has none); order and ages use the latter. `interval_ms` is the client's intended interval of reports,
    `tick_late_ms` how much later than due its reporting thread woke. `process_start_ms` with `host` and `pid` identify
    a process; for formats that only have an age, the start is computed from it. `cpu_s` is the processor time used so
    far, `voluntary_switches` the number of times that its threads gave the processor up.
    `last_poll_return_ms` is when the application last got records, null when not reported or while it waits inside the
    client, since `waiting_since_ms`; `records_in_last_poll` is the number of records that it got, `records_done` how
    many of them are processed. `reason` is librdkafka's reason for its last rebalance and `join_state` its own state,
    both verbatim. `statistics_age_ms` is the age of the metrics when they were sent.
    `implausible` counts reported values that were removed because they are impossible.
    """

    format: str
    observed_ms: int
    emitted_ms: int
    client_id: str | None = None
    group_id: str | None = None
    member_id: str | None = None
    instance_id: str | None = None
    host: str | None = None
    library: str | None = None
    library_version: str | None = None
    generation: int | None = None
    state: str | None = None
    seq: int | None = None
    interval_ms: int | None = None
    tick_late_ms: int | None = None
    process_start_ms: int | None = None
    pid: int | None = None
    cpu_s: float | None = None
    voluntary_switches: int | None = None
    last_poll_return_ms: int | None = None
    waiting_since_ms: int | None = None
    records_in_last_poll: int | None = None
    records_done: int | None = None
    statistics_age_ms: int | None = None
    join_state: str | None = None
    reason: str | None = None
    config: ClientConfig = field(default_factory=ClientConfig)
    points: tuple[Point, ...] = ()
    implausible: int = 0
