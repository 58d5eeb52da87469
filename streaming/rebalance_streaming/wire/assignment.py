"""The bytes that classic members carry: what they subscribe to and what their leader gave them.

Which form they have depends on the group's protocol type; everything but "consumer" and "connect" stays opaque.
Source: `ConsumerProtocolSubscription.json`, `ConsumerProtocolAssignment.json`, Connect's `ConnectProtocol` and
`IncrementalCooperativeConnectProtocol`. Never raises: what cannot be read comes back as `Opaque`, bytes kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from rebalance_streaming.wire.errors import BadVersion, DecodeError
from rebalance_streaming.wire.primitives import read_int16
from rebalance_streaming.wire.schema import BYTES, INT16, INT32, INT64, STRING, array, plan_for, struct, wire

NEWEST_CONSUMER_VERSION = 3
NEWEST_CONNECT_VERSION = 2


@dataclass(frozen=True, slots=True)
class Opaque:
    """Bytes that are not in a form known here; `error` says why, null where no form was expected."""

    raw: bytes
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """Partitions of one topic."""

    topic: str = wire(STRING)
    partitions: tuple[int, ...] = wire(array(INT32))


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member sent when it joined.

    `owned_partitions` and `generation_id` are what it claimed to have then, that is before the generation of the
    record; eager members claim nothing. `generation_id` is -1 and `rack_id` null where absent.
    """

    topics: tuple[str, ...] = wire(array(STRING))
    user_data: bytes | None = wire(BYTES, nullable=True, default=None)
    owned_partitions: tuple[TopicPartitions, ...] = wire(array(struct(TopicPartitions)), since=1, default=())
    generation_id: int = wire(INT32, since=2, default=-1)
    rack_id: str | None = wire(STRING, since=3, nullable=True, default=None)


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader gave a member."""

    assigned_partitions: tuple[TopicPartitions, ...] = wire(array(struct(TopicPartitions)), default=())
    user_data: bytes | None = wire(BYTES, nullable=True, default=None)


@dataclass(frozen=True, slots=True)
class StickyUserData:
    """The sticky assignor's memory: what a member had, and in which generation (-1 unknown)."""

    previous_assignment: tuple[TopicPartitions, ...] = wire(array(struct(TopicPartitions)))
    generation: int = wire(INT32, since=1, default=-1)


@dataclass(frozen=True, slots=True)
class ConnectorTasks:
    """Tasks of one connector; -1 stands for the connector itself."""

    connector: str = wire(STRING)
    tasks: tuple[int, ...] = wire(array(INT32))


@dataclass(frozen=True, slots=True)
class ConnectWorkerState:
    """What a Connect worker sent when it joined; `allocation` is a nested assignment, null in version 0."""

    url: str = wire(STRING)
    config_offset: int = wire(INT64)
    allocation: bytes | None = wire(BYTES, since=1, nullable=True, default=None)


@dataclass(frozen=True, slots=True)
class ConnectAssignment:
    """What a Connect leader gave a worker; `delay` is the scheduled rebalance delay in ms."""

    error: int = wire(INT16)
    leader: str = wire(STRING)
    leader_url: str = wire(STRING)
    config_offset: int = wire(INT64)
    assignment: tuple[ConnectorTasks, ...] | None = wire(array(struct(ConnectorTasks)), nullable=True)
    revoked: tuple[ConnectorTasks, ...] | None = wire(array(struct(ConnectorTasks)), since=1, nullable=True, default=())
    delay: int = wire(INT32, since=1, default=0)


@dataclass(frozen=True, slots=True)
class Versioned:
    """An embedded structure with the version it claims and the bytes behind what was read."""

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


def read_subscription(raw: bytes) -> Versioned | Opaque:
    """Read a consumer's subscription with the version it claims."""
    return read_versioned(Subscription, raw, NEWEST_CONSUMER_VERSION)


def read_assignment(raw: bytes) -> Versioned | Opaque:
    """Read a consumer's assignment with the version it claims.

    No bytes at all are legal, the leader did not list the member, and count as version 0 with no partitions.
    """
    return read_versioned(Assignment, raw, NEWEST_CONSUMER_VERSION) if raw else Versioned(0, Assignment(), 0)


def decode_connect_state(raw: bytes) -> ConnectWorkerState | Opaque:
    """Read a Connect worker's state."""
    return _data(read_versioned(ConnectWorkerState, raw, NEWEST_CONNECT_VERSION), ConnectWorkerState)


def decode_connect_assignment(raw: bytes) -> ConnectAssignment | Opaque:
    """Read a Connect worker's assignment."""
    return _data(read_versioned(ConnectAssignment, raw, NEWEST_CONNECT_VERSION), ConnectAssignment)


def _data(read: Versioned | Opaque, kind: type[_T]) -> _T | Opaque:
    if isinstance(read, Opaque):
        return read
    assert isinstance(read.data, kind)
    return read.data


def read_versioned(of: type[Any], raw: bytes, newest: int) -> Versioned | Opaque:
    """Read a structure behind an int16 version.

    A version above the newest is read as the newest, and bytes behind the known fields are ignored: newer versions
    only append (ConsumerProtocol.java). Fields that version 0 lacks may be missing at the end: some clients claim a
    version without sending all its fields, and Connect's own reader tolerates that too.
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


def decode_sticky_user_data(raw: bytes) -> StickyUserData | Opaque:
    """Read the sticky assignor's user data in any of the forms clients write.

    Java and librdkafka: partitions and generation, in the oldest form without generation. kafka-python 3: the same
    behind an int16 of 1. Exactly one of the forms takes all bytes.
    """
    for version, start in ((1, 0), (0, 0), (1, 2)):
        try:
            data, end = plan_for(StickyUserData, version, flexible=False).read(raw, start)
        except DecodeError:
            continue
        if end == len(raw):
            assert isinstance(data, StickyUserData)
            return data
    return Opaque(raw, "not a sticky assignor's user data")
