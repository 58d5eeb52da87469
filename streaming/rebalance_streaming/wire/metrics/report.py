"""What every client metric format is decoded into: one report per client and moment.

Canonical metric names, their units and what they mean are Kafka's own, normalised (see `names`). Nothing here is ever
invented: what a format does not carry is null.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from rebalance_contract import ClientConfig

__all__ = ["ClientConfig", "Point", "Report", "Temporality"]


class Temporality(enum.StrEnum):
    """How values of one metric that follow each other relate: `delta` ones must be added up, others replace."""

    GAUGE = "gauge"
    CUMULATIVE = "cumulative"
    DELTA = "delta"


@dataclass(frozen=True, slots=True)
class Point:
    """One value. `value` is null when the client said there is none; `never` when it said that it never happened.

    `labels` holds what distinguishes points of one metric (`topic`, `partition`, `node_id`); often empty.
    """

    metric: str
    value: float | None
    labels: dict[str, str] = field(default_factory=dict)
    temporality: Temporality = Temporality.GAUGE
    never: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What one client said at one moment.

    `observed_ms` is the time of the carrying Kafka record, `emitted_ms` the time inside the payload (the former where
    the format has none); order and ages use the latter. `interval_ms` is how often the client means to report,
    `tick_late_ms` how much later than due its reporting thread woke. `process_start_ms` with `host` and `pid` identify
    a process; formats that only have an age have the start computed from it. `cpu_s` is processor time used so far,
    `voluntary_switches` how often its threads gave the processor up.
    `last_poll_return_ms` is when the application last got records, null when not reported or while it waits inside the
    client, since `waiting_since_ms`; `records_in_last_poll` how many it got, `records_done` how many of them are done.
    `reason` is librdkafka's text of why it last rebalanced and
    `join_state` its own state, both verbatim. `statistics_age_ms` says how old the metrics were when sent.
    `implausible` counts what was reported and taken out because nothing can have such a value.
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
