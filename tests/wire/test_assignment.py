"""The bytes of classic members' subscriptions and assignments, in the forms that clients really send."""

from __future__ import annotations

import pytest

from rebalance_streaming.wire.assignment import (
    Assignment,
    Opaque,
    ProtocolTopicPartitions,
    Subscription,
    Versioned,
    WorkerState,
    decode_assignment,
    decode_subscription,
    decode_worker_state,
    read_assignment,
    read_subscription,
)
from wire.encoding import encode_versioned

OWNED = (ProtocolTopicPartitions("orders", (0, 1)),)
FULL = Subscription(("orders",), b"u", OWNED, 4, "r1")


@pytest.mark.parametrize("version", [4, 17, 32_767])
def test_a_newer_version_is_read_as_the_newest_known(version: int) -> None:
    """Versions only append: bytes after the known fields are counted and ignored."""
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
    """A negative version is invalid, and so is a truncated one."""
    assert isinstance(decode_subscription(raw), Opaque)
    assert isinstance(decode_assignment(raw), Opaque)


def test_no_bytes_are_an_assignment_but_no_subscription() -> None:
    """The leader may omit a member, which gives it nothing; a member cannot join without a subscription."""
    assert decode_assignment(b"") == Assignment((), None)
    assert isinstance(decode_subscription(b""), Opaque)


def test_schema_registrys_json_is_not_misread_as_a_subscription() -> None:
    """Its first two bytes would be version 31522; no topic count matches, so it stays opaque."""
    assert isinstance(decode_subscription(b'{"version":1,"host":"sr1"'), Opaque)


STATE = WorkerState("http://w1:8083/", 7)


@pytest.mark.parametrize(("version", "behind"), [(0, b""), (1, b"\xff\xff\xff\xff"), (2, b"\0\0\0\2ab"), (9, b"new")])
def test_a_worker_of_connect_says_how_far_it_read(version: int, behind: bytes) -> None:
    """Its assignment follows since KIP-415, and is not needed."""
    raw = encode_versioned(STATE, 0)
    assert decode_worker_state(version.to_bytes(2, "big") + raw[2:] + behind) == STATE


def test_a_worker_state_that_ends_early_or_lies_is_opaque() -> None:
    """Every truncation, lengths below zero and beyond the end, invalid text, and an impossible version."""
    raw = encode_versioned(STATE, 0)
    lies = [raw[:2] + length + raw[4:] for length in (b"\xff\xff", b"\x80\x00", b"\x7f\xff")]
    broken = [*(raw[:end] for end in range(len(raw))), *lies, b"\xff\xff" + raw[2:], raw[:4] + b"\xff" + raw[5:]]
    assert all(isinstance(decode_worker_state(each), Opaque) for each in broken)
