"""What the fold works on: one record of a group's log, and all that is remembered of the group.

Receives what `wire` decoded, hands the fold immutable values. Knows neither Spark nor the clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rebalance_streaming.groups.events import GroupSnapshot, Member
from rebalance_streaming.wire.assignment import Assignment, Subscription, decode_assignment, decode_subscription
from rebalance_streaming.wire.records import GroupMetadataMember, GroupMetadataValue

CONSUMER_PROTOCOL = "consumer"


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A type-2 record with its place in the log.

    `value` is null for a tombstone. `live` is false for records that were in the log before the monitor first
    looked at it: compaction has thinned those, so they describe a state and not a history.
    """

    partition: int
    offset: int
    timestamp_ms: int
    live: bool
    value: GroupMetadataValue | None


@dataclass(frozen=True, slots=True)
class GroupState:
    """Everything remembered of one group between records; serialised whole.

    `joining_since_ms` is set while a group new to the coordinator is in its first join phase, the only one whose
    start the log shows. `revoked_unassigned` says that a cooperative assignor left partitions unassigned that
    members gave up, so that a follow-up generation is due.
    """

    picture: GroupSnapshot
    joining_since_ms: int | None = None
    revoked_unassigned: bool = False


def new_state(cluster: str, group: str) -> GroupState:
    """Return the state of a group of which no record has been read."""
    return GroupState(picture=GroupSnapshot(cluster=cluster, group=group))


def dump_state(state: GroupState) -> bytes:
    """Serialise for the state store. Fields may be added with a default; older blobs then still load."""
    return _encoder.encode(state)


def load_state(blob: bytes) -> GroupState:
    """Read a state back. Raises msgspec.MsgspecError for bytes that are none."""
    return _decoder.decode(blob)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(GroupState)


def read_members(value: GroupMetadataValue) -> tuple[Member, ...]:
    """Return the members of a group record, sorted by id: the record's own order is that of a hash map."""
    consumer = value.protocol_type == CONSUMER_PROTOCOL
    return tuple(sorted((_read_member(member, consumer) for member in value.members), key=lambda m: m.member_id))


def _read_member(member: GroupMetadataMember, consumer: bool) -> Member:
    subscription = decode_subscription(member.subscription) if consumer else None
    return Member(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host.removeprefix("/"),
        group_instance_id=member.group_instance_id,
        session_timeout_ms=member.session_timeout,
        rebalance_timeout_ms=member.rebalance_timeout if member.rebalance_timeout >= 0 else None,
        topics=tuple(sorted(subscription.topics)) if isinstance(subscription, Subscription) else (),
        partitions=_partitions(member.assignment) if consumer else None,
    )


def _partitions(assignment: bytes) -> dict[str, list[int]] | None:
    decoded = decode_assignment(assignment)
    if not isinstance(decoded, Assignment):
        return None
    return {each.topic: sorted(each.partitions) for each in decoded.assigned_partitions}


def leaves_revoked_unassigned(value: GroupMetadataValue) -> bool:
    """Whether members gave up partitions in this generation that nobody got yet (KIP-429's first of two rounds).

    Eager members send no owned partitions, so this is never true for them.
    """
    if value.protocol_type != CONSUMER_PROTOCOL:
        return False
    owned: set[tuple[str, int]] = set()
    given: set[tuple[str, int]] = set()
    for member in value.members:
        subscription, assignment = decode_subscription(member.subscription), decode_assignment(member.assignment)
        if isinstance(subscription, Subscription):
            owned |= {(each.topic, p) for each in subscription.owned_partitions for p in each.partitions}
        if isinstance(assignment, Assignment):
            given |= {(each.topic, p) for each in assignment.assigned_partitions for p in each.partitions}
    return bool(owned - given)
