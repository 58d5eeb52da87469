"""What the coordinator of a group wrote of it in its broker's own log, as typed events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rebalance_contract.codec import SCHEMA_VERSION
from rebalance_contract.sets import AnyAct, AnyTrigger


@dataclass(frozen=True, slots=True)
class CoordinatorEvent:
    """One log line of a group's coordinator; a line that names several members makes one for each.

    `at_ms` is the line's own time, the broker's clock; `exact`: it has one to the millisecond, else it is that of who
    shipped the line, or a whole second. `generation` is the one before for `preparing`, the new one otherwise, and the
    group epoch of KIP-848. `member_id` is the member that did it or that it happened to, of `preparing` the one that
    set it off where it names one, of `assigned` the leader; `replaced_id` the id that a static member had before,
    of `refused` and `fenced` the member that has the instance id.
    `members` counts the group's. `trigger` is reported by `preparing` only. `reason`: what the client gave as its own
    (KIP-800), or the coordinator where it has words of its own; null: none. `broker` wrote the line; null: it does not
    say.
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
    """What a group's coordinators wrote in one pane: topic `…activity`, key group.

    `events` are in the order of their times. A pane holds events by their own times; one of many is reported in several
    rows, and one that is split over micro-batches too. An event that arrives twice is the same event. `is_truncated`:
    there were more than rows may hold.
    """

    cluster: str
    group: str
    pane_start_ms: int
    events: tuple[CoordinatorEvent, ...]
    is_truncated: bool = False
    kind: Literal["coordinator"] = "coordinator"
    schema_version: int = SCHEMA_VERSION
