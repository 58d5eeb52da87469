"""Bytes that records store for classic members: their subscription, and the assignment from their leader.

Their format depends on the group's protocol type; this module reads that of "consumer", and of "connect" the
worker's own state. Source: `ConsumerProtocolSubscription.json`, `ConsumerProtocolAssignment.json`,
`ConnectProtocol.java`, `IncrementalCooperativeConnectProtocol.java`. Never raises: unreadable bytes are returned as
`Opaque`, unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from rebalance_streaming.wire.errors import BadVersion, DecodeError
from rebalance_streaming.wire.primitives import read_int16
from rebalance_streaming.wire.schema import BYTES, INT32, INT64, STRING, array, plan_for, struct, wire

NEWEST_CONSUMER_VERSION = 3
#: Later versions append to the same two fields.
_CONNECT_VERSION = 0


@dataclass(frozen=True, slots=True)
class Opaque:
    """Bytes in an unknown format; `error` is the reason, null where no format was expected."""

    raw: bytes
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ProtocolTopicPartitions:
    """Partitions of one topic, by name, as in the consumer protocol."""

    topic: str = wire(STRING)
    partitions: tuple[int, ...] = wire(array(INT32))


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member sent when it joined.

    `owned_partitions` and `generation_id` are the member's claims at that time, before the generation of the record;
    eager members claim nothing. `generation_id` is -1 and `rack_id` null where absent.
    """

    topics: tuple[str, ...] = wire(array(STRING))
    user_data: bytes | None = wire(BYTES, nullable=True, default=None)
    owned_partitions: tuple[ProtocolTopicPartitions, ...] = wire(
        array(struct(ProtocolTopicPartitions)), since=1, default=()
    )
    generation_id: int = wire(INT32, since=2, default=-1)
    rack_id: str | None = wire(STRING, since=3, nullable=True, default=None)


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader assigned to a member."""

    assigned_partitions: tuple[ProtocolTopicPartitions, ...] = wire(array(struct(ProtocolTopicPartitions)), default=())
    user_data: bytes | None = wire(BYTES, nullable=True, default=None)


@dataclass(frozen=True, slots=True)
class WorkerState:
    """State that a Connect worker sent when it joined: its REST address, and its position in the config topic.

    `config_offset` is the offset of the last record that it applied, -1 for none.
    """

    url: str = wire(STRING)
    config_offset: int = wire(INT64)


@dataclass(frozen=True, slots=True)
class Versioned:
    """An embedded structure with the version it claims and the number of bytes after the part that was read."""

    version: int
    data: Any
    bytes_left: int


_T = TypeVar("_T")


def decode_subscription(raw: bytes) -> Subscription | Opaque:
    """Read a consumer's subscription."""
    return _data(read_subscription(raw), Subscription)


def decode_assignment(raw: bytes) -> Assignment | Opaque:
    """Read a consumer's assignment."""
    return _data(read_assignment(raw), Assignment)


def decode_worker_state(raw: bytes) -> WorkerState | Opaque:
    """Read the state that a Connect worker sent when it joined."""
    return _data(read_versioned(WorkerState, raw, _CONNECT_VERSION), WorkerState)


def read_subscription(raw: bytes) -> Versioned | Opaque:
    """Read a consumer's subscription with the version it claims."""
    return read_versioned(Subscription, raw, NEWEST_CONSUMER_VERSION)


def read_assignment(raw: bytes) -> Versioned | Opaque:
    """Read a consumer's assignment with the version it claims.

    Empty bytes are legal (the leader did not list the member) and count as version 0 without partitions.
    """
    return read_versioned(Assignment, raw, NEWEST_CONSUMER_VERSION) if raw else Versioned(0, Assignment(), 0)


def _data(read: Versioned | Opaque, kind: type[_T]) -> _T | Opaque:
    if isinstance(read, Opaque):
        return read
    assert isinstance(read.data, kind)
    return read.data


def read_versioned(of: type[Any], raw: bytes, newest: int) -> Versioned | Opaque:
    """Read a structure after an int16 version.

    A version above the newest is read as the newest, and bytes after the known fields are ignored: newer versions
    only append (ConsumerProtocol.java). Fields that version 0 lacks may be missing at the end: some clients claim a
    version without sending all its fields.
    """
    try:
        version, position = read_int16(raw, 0)
        if version < 0:
            raise BadVersion(f"version {version}")
        required = len(plan_for(of, 0, flexible=False).steps)
        data, end = plan_for(of, min(version, newest), flexible=False).read_leading(raw, position, required)
    except DecodeError as error:
        return Opaque(raw, str(error))
    return Versioned(version, data, len(raw) - end)
