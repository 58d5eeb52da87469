"""Log lines of a group's coordinator from its broker's log file, as typed events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rebalance_contract.codec import SCHEMA_VERSION
from rebalance_contract.sets import AnyAct, AnyTrigger


@dataclass(frozen=True, slots=True)
class CoordinatorEvent:
    """One log line of a group's coordinator; a line that names several members becomes one event for each.

    `at_ms` is the line's own time by the broker's clock. `exact`: it has a time in milliseconds; otherwise `at_ms` is
    the log shipper's time, or a whole second. `generation` is the previous one for `preparing`, otherwise the new one,
    and the group epoch for KIP-848. `member_id` is the member that acted or was affected; for `preparing` the one that
    triggered it, if the line names it, and for `assigned` the leader. `replaced_id` is the previous id of a static
    member; for `refused` and `fenced`, the member that owns the instance id. `members` is the number of members of the
    group. `trigger` is reported by `preparing` only. `reason` is the reason given by the client (KIP-800) or the
    coordinator; null: none. `broker` is the broker that wrote the line; null: not known.
    """

    at_ms: int
    act: AnyAct
    generation: int | None = None
    member_id: str | None = None
    instance_id: str | None = None
    replaced_id: str | None = None
    members: int | None = None
    trigger: AnyTrigger | None = None
    reason: str | None = None
    exact: bool = True
    broker: int | None = None


@dataclass(frozen=True, slots=True)
class CoordinatorActivity:
    """Log lines of a group's coordinators in one pane: topic `…activity`, key group.

    `events` are sorted by time. A pane contains events by their own times; one with many events, or split over
    micro-batches, is reported in several rows. Equal events are duplicates of one event. `is_truncated`: there were
    more events than fit into rows.
    """

    cluster: str
    group: str
    pane_start_ms: int
    events: tuple[CoordinatorEvent, ...]
    is_truncated: bool = False
    kind: Literal["coordinator"] = "coordinator"
    schema_version: int = SCHEMA_VERSION
