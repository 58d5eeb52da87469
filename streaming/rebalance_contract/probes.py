"""Answers of coordinators, partition leaders and ZooKeeper about a group."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rebalance_contract.groups import Partitions
from rebalance_contract.sets import AnyGroupState, AnyGroupType

PROBE_SCHEMA = "rebalance-monitor/probe/1"
#: Interval in milliseconds at which a prober publishes everything about a group again; in between, only changes.
PROBE_REPEAT_MS = 60_000
#: The fields of a probe that have offsets by topic and partition.
OFFSET_FIELDS = ("end_offsets", "stable_offsets", "start_offsets", "committed_offsets")


@dataclass(frozen=True, slots=True)
class ProbedMember:
    """A member as a coordinator described it. `member_epoch` is null if the API does not report it.

    `session_created_ms` is when a ZooKeeper-based member registered there, null for all others.
    """

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None = None
    member_epoch: int | None = None
    partitions: Partitions | None = None
    session_created_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The answer of a coordinator or ZooKeeper about one group: topic `…probes`, key group.

    An absent field (`UNSET`) was not requested this time; null was requested and is unknown. So a cheap probe of the
    state and a full one have the same form. `state` is Kafka's own name, compared case-insensitively. `settled_at_ms`
    is when a group that is not stable now, or whose members have changed, was last seen stable or empty.
    `unlisted_at_ms` is when the coordinator last listed its groups without this one, if the group is new.
    `end_offsets`, `stable_offsets` (last stable offsets) and `start_offsets` (of the oldest record in a partition) are
    topic -> partition number as text -> offset. `committed_offsets` has the same form: the coordinator's committed
    offsets, for readers that did not see the commits. `topic_ids` maps topic names to ids (Kafka's 22 characters).
    `errors` are sentences for people.
    """

    schema: str = PROBE_SCHEMA
    probed_at_ms: int
    cluster: str
    group: str
    state: AnyGroupState | msgspec.UnsetType | None = msgspec.UNSET
    settled_at_ms: int | msgspec.UnsetType | None = msgspec.UNSET
    unlisted_at_ms: int | msgspec.UnsetType | None = msgspec.UNSET
    type: AnyGroupType | msgspec.UnsetType | None = msgspec.UNSET
    protocol: str | msgspec.UnsetType | None = msgspec.UNSET
    assignor: str | msgspec.UnsetType | None = msgspec.UNSET
    coordinator_id: int | msgspec.UnsetType | None = msgspec.UNSET
    group_epoch: int | msgspec.UnsetType | None = msgspec.UNSET
    members: tuple[ProbedMember, ...] | msgspec.UnsetType | None = msgspec.UNSET
    end_offsets: dict[str, dict[str, int | None]] | msgspec.UnsetType = msgspec.UNSET
    stable_offsets: dict[str, dict[str, int | None]] | msgspec.UnsetType = msgspec.UNSET
    start_offsets: dict[str, dict[str, int | None]] | msgspec.UnsetType = msgspec.UNSET
    committed_offsets: dict[str, dict[str, int | None]] | msgspec.UnsetType = msgspec.UNSET
    topic_ids: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    owners: dict[str, dict[str, str]] | msgspec.UnsetType = msgspec.UNSET
    errors: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
