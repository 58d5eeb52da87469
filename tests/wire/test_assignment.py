"""Bytes that classic members carry, in the forms clients really send."""

from __future__ import annotations

import pytest

from goldens import all_data_records, key_of, value_of
from rebalance_streaming.wire.assignment import (
    Assignment,
    ConnectAssignment,
    ConnectWorkerState,
    Opaque,
    StickyUserData,
    Subscription,
    TopicPartitions,
    Versioned,
    decode_assignment,
    decode_connect_assignment,
    decode_connect_state,
    decode_sticky_user_data,
    decode_subscription,
    read_assignment,
    read_subscription,
)
from rebalance_streaming.wire.decode import decode_record
from rebalance_streaming.wire.records import GroupMetadataMember, GroupMetadataValue
from wire.encoding import encode_versioned

OWNED = (TopicPartitions("orders", (0, 1)),)
FULL = Subscription(("orders",), b"u", OWNED, 4, "r1")


def golden_members(protocol_type: str, protocol: str) -> list[GroupMetadataMember]:
    """Return the members of all golden groups of a protocol."""
    values = [decode_record(key_of(each), value_of(each)).value for each in all_data_records()]
    return [
        member
        for value in values
        if isinstance(value, GroupMetadataValue) and (value.protocol_type, value.protocol) == (protocol_type, protocol)
        for member in value.members
    ]


@pytest.mark.parametrize("version", [4, 17, 32_767])
def test_a_newer_version_is_read_as_the_newest_known(version: int) -> None:
    """Versions only append: what stands behind the known fields is counted and ignored."""
    raw = encode_versioned(FULL, 3)
    assert read_subscription(version.to_bytes(2, "big") + raw[2:] + b"new") == Versioned(version, FULL, 3)
    raw = encode_versioned(Assignment(OWNED, b"u"), 3)
    assert read_assignment(version.to_bytes(2, "big") + raw[2:] + b"new") == Versioned(
        version, Assignment(OWNED, b"u"), 3
    )


@pytest.mark.parametrize("claimed", [1, 2, 3, 4])
def test_a_subscription_may_end_behind_its_user_data(claimed: int) -> None:
    """Some clients claim a version without sending its fields: these have their defaults then."""
    raw = claimed.to_bytes(2, "big") + encode_versioned(FULL, 0)[2:]
    assert decode_subscription(raw) == Subscription(("orders",), b"u")


def test_a_subscription_may_not_end_inside_a_field() -> None:
    """Every other truncation stays opaque, with the bytes and the reason kept."""
    raw = encode_versioned(FULL, 3)
    complete = {len(encode_versioned(FULL, version)) for version in range(4)}
    for size in set(range(len(raw))) - complete:
        read = decode_subscription(raw[:size])
        assert isinstance(read, Opaque)
        assert (read.raw, bool(read.error)) == (raw[:size], True)


@pytest.mark.parametrize("raw", [b"\xff\xff" + bytes(20), b"\x80\x00", b"\0"])
def test_a_version_no_client_can_mean_is_opaque(raw: bytes) -> None:
    """A negative version is invalid, and so is half of one."""
    assert isinstance(decode_subscription(raw), Opaque)
    assert isinstance(decode_assignment(raw), Opaque)


def test_no_bytes_are_an_assignment_but_no_subscription() -> None:
    """The leader may leave a member out, which gives it nothing; a member cannot join without subscribing."""
    assert decode_assignment(b"") == Assignment((), None)
    assert isinstance(decode_subscription(b""), Opaque)


def test_schema_registrys_json_is_not_misread_as_a_subscription() -> None:
    """Its first two bytes would be version 31522; as no count of topics fits, it stays opaque."""
    assert isinstance(decode_subscription(b'{"version":1,"host":"sr1"'), Opaque)


def test_sticky_members_of_real_clients_have_readable_user_data() -> None:
    """Java and kafka-python write the sticky assignor's memory in two forms; both are read."""
    subscriptions = [decode_subscription(member.subscription) for member in golden_members("consumer", "sticky")]
    user_data = [each.user_data for each in subscriptions if isinstance(each, Subscription) and each.user_data]
    assert user_data
    for raw in user_data:
        assert isinstance(decode_sticky_user_data(raw), StickyUserData)


@pytest.mark.parametrize("raw", [b"", b"\0\0\0\4", b"\0\0\0\0\0", b"what?"])
def test_other_user_data_is_opaque(raw: bytes) -> None:
    """Only a form that takes all bytes is believed: cooperative-sticky's bare generation is none."""
    assert decode_sticky_user_data(raw) == Opaque(raw, "not a sticky assignor's user data")


def test_connect_workers_of_a_real_cluster_are_read() -> None:
    """Every worker of the recorded Connect cluster has a url and a decodable state and assignment."""
    members = golden_members("connect", "sessioned")
    assert members
    for member in members:
        state, given = decode_connect_state(member.subscription), decode_connect_assignment(member.assignment)
        assert isinstance(state, ConnectWorkerState)
        assert state.url.startswith("http://127.0.0.1:")
        assert isinstance(given, ConnectAssignment)
        assert given.error == 0
        if state.allocation:
            assert isinstance(decode_connect_assignment(state.allocation), ConnectAssignment)


@pytest.mark.parametrize("sent", ["", "ffffffff", "00000000"])
def test_a_connect_assignment_may_lack_its_last_fields(sent: str) -> None:
    """Version 1 may end before the delay, and before the revoked tasks, which may also be null."""
    old = ConnectAssignment(0, "w", "http://w/", 1, ())
    read = decode_connect_assignment(b"\0\1" + encode_versioned(old, 0)[2:] + bytes.fromhex(sent))
    assert isinstance(read, ConnectAssignment)
    assert (read.revoked or (), read.delay) == ((), 0)
