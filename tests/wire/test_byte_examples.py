"""Small records written out byte by byte, and their meaning.

They were built from Kafka's schema files, and decoded and encoded again by independent implementations. T0 is
2026-01-01T00:00:00Z.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from rebalance_streaming.wire import assignment as embedded
from rebalance_streaming.wire import records as r
from rebalance_streaming.wire.decode import DecodedKey, Outcome, decode_key, decode_record
from rebalance_streaming.wire.partitioner import partition_for_group

T0 = 1_767_225_600_000
ORDERS = UUID("00112233-4455-6677-8899-aabbccddeeff")
ORDERS_HEX = "00112233445566778899aabbccddeeff"

KEYS = [
    ("00010002673100066f726465727300000003", 1, r.OffsetCommitKey("g1", "orders", 3)),
    ("00000002673100066f726465727300000003", 0, r.OffsetCommitKey("g1", "orders", 3)),
    ("000200026731", 2, r.GroupMetadataKey("g1")),
    ("000300026731", 3, r.GroupKey("g1")),
    ("000400026731", 4, r.GroupKey("g1")),
    ("00050002673100026d31", 5, r.MemberKey("g1", "m1")),
    ("000600026731", 6, r.GroupKey("g1")),
    ("00070002673100026d31", 7, r.MemberKey("g1", "m1")),
    ("00080002673100026d31", 8, r.MemberKey("g1", "m1")),
    ("00100002673100056f72642e2a", 16, r.RegularExpressionKey("g1", "ord.*")),
    ("000a0002736700026d31", 10, r.MemberKey("sg", "m1")),
    ("000b00027367", 11, r.GroupKey("sg")),
    ("00110003617070", 17, r.GroupKey("app")),
]


@pytest.mark.parametrize(("raw", "number", "key"), KEYS)
def test_keys(raw: str, number: int, key: Any) -> None:
    """A key's first two bytes are the record type, the others its fields."""
    read = decode_key(bytes.fromhex(raw))
    assert isinstance(read, DecodedKey)
    assert (read.record_type.number, read.key) == (number, key)


SUBSCRIPTION = bytes.fromhex("00010000000100066f7264657273ffffffff00000000")
TWO_PARTITIONS = bytes.fromhex("00010000000100066f7264657273000000020000000000000001ffffffff")
ONE_PARTITION = bytes.fromhex("00010000000100066f72646572730000000100000002ffffffff")
MEMBER_1 = r.GroupMetadataMember("c1-aaaa", None, "c1", "/10.0.0.1", 300_000, 45_000, SUBSCRIPTION, TWO_PARTITIONS)
MEMBER_2 = r.GroupMetadataMember("i2-bbbb", "i2", "c2", "/10.0.0.2", 300_000, 45_000, SUBSCRIPTION, ONE_PARTITION)
V0_MEMBER = r.GroupMetadataMember("c1-aaaa", None, "c1", "/10.0.0.1", -1, 45_000, SUBSCRIPTION, TWO_PARTITIONS)
GROUP = r.GroupMetadataValue("consumer", 5, "range", "c1-aaaa", T0, (MEMBER_1, MEMBER_2))
CLASSIC = r.ClassicMemberMetadata(45_000, (r.ClassicProtocol("range", SUBSCRIPTION),))


def owned(*partitions: int, epochs: tuple[int, ...] | None = None) -> tuple[Any, ...]:
    """Return partitions of orders as in a current assignment."""
    return (r.OwnedTopicPartitions(ORDERS, partitions, epochs),)


VALUES = [
    (0, "0000000000000000006400000000019b76daa800", r.OffsetCommitValue(100, -1, "", T0)),
    (
        1,
        "0001000000000000006400016d0000019b76daa8000000019b7c010400",
        r.OffsetCommitValue(100, -1, "m", T0, T0 + 86_400_000),
    ),
    (1, "0002000000000000006400016d0000019b76daa800", r.OffsetCommitValue(100, -1, "m", T0)),
    (1, "000300000000000000640000000700000000019b76daa800", r.OffsetCommitValue(100, 7, "", T0)),
    (1, "0004000000000000006400000007010000019b76daa80000", r.OffsetCommitValue(100, 7, "", T0)),
    (
        1,
        "0004000000000000006400000007010000019b76daa800010010" + ORDERS_HEX,
        r.OffsetCommitValue(100, 7, "", T0, topic_id=ORDERS),
    ),
    (
        2,
        "00000008636f6e73756d657200000005000572616e6765000763312d6161616100000001000763312d616161610002633100092f31302e"
        "302e302e310000afc80000001600010000000100066f7264657273ffffffff000000000000001e00010000000100066f72646572730000"
        "00020000000000000001ffffffff",
        r.GroupMetadataValue("consumer", 5, "range", "c1-aaaa", -1, (V0_MEMBER,)),
    ),
    (
        2,
        "00030008636f6e73756d657200000005000572616e6765000763312d616161610000019b76daa80000000002000763312d61616161ffff"
        "0002633100092f31302e302e302e31000493e00000afc80000001600010000000100066f7264657273ffffffff000000000000001e0001"
        "0000000100066f7264657273000000020000000000000001ffffffff000769322d62626262000269320002633200092f31302e302e302e"
        "32000493e00000afc80000001600010000000100066f7264657273ffffffff000000000000001a00010000000100066f72646572730000"
        "000100000002ffffffff",
        GROUP,
    ),
    (
        2,
        "000409636f6e73756d6572000000050672616e67650863312d616161610000019b76daa800030863312d61616161000363310a2f31302e"
        "302e302e31000493e00000afc81700010000000100066f7264657273ffffffff000000001f00010000000100066f726465727300000002"
        "0000000000000001ffffffff000869322d626262620369320363320a2f31302e302e302e32000493e00000afc817000100000001000"
        "66f7264657273ffffffff000000001b00010000000100066f72646572730000000100000002ffffffff0000",
        GROUP,
    ),
    (
        2,
        "00030008636f6e73756d657200000006ffffffff0000019b76daa80000000000",
        r.GroupMetadataValue("consumer", 6, None, None, T0, ()),
    ),
    (2, "0003000000000000ffffffff0000019b76daa80000000000", r.GroupMetadataValue("", 0, None, None, T0, ())),
    (3, "00000000000500", r.ConsumerGroupMetadataValue(5)),
    (3, "0000000000050100080102030405060708", r.ConsumerGroupMetadataValue(5, 0x0102030405060708)),
    (
        4,
        f"000002{ORDERS_HEX}076f726465727300000003010000",
        r.GroupPartitionMetadataValue((r.TopicMetadata(ORDERS, "orders", 3, ()),)),
    ),
    (
        5,
        "000000000363310a2f31302e302e302e3102076f726465727300000493e00000",
        r.ConsumerGroupMemberMetadataValue(None, None, "c1", "/10.0.0.1", ("orders",), None, 300_000, None),
    ),
    (
        5,
        "000000000363310a2f31302e302e302e3102076f726465727301000493e000010025010000afc8020672616e6765170001000000010006"
        "6f7264657273ffffffff000000000000",
        r.ConsumerGroupMemberMetadataValue(None, None, "c1", "/10.0.0.1", ("orders",), "", 300_000, None, CLASSIC),
    ),
    (6, "00000000000500", r.TargetAssignmentMetadataValue(5)),
    (6, "0000000000050100080000019b76daa800", r.TargetAssignmentMetadataValue(5, T0)),
    (
        7,
        f"000002{ORDERS_HEX}0300000000000000010000",
        r.TargetAssignmentMemberValue((r.TopicPartitions(ORDERS, (0, 1)),)),
    ),
    (
        8,
        f"000000000005000000040002{ORDERS_HEX}030000000000000001000100",
        r.ConsumerGroupCurrentMemberAssignmentValue(5, 4, 0, owned(0, 1), ()),
    ),
    (
        8,
        f"000000000004000000040102{ORDERS_HEX}0200000000010005020000000202{ORDERS_HEX}0200000001010005020000000300",
        r.ConsumerGroupCurrentMemberAssignmentValue(4, 4, 1, owned(0, epochs=(2,)), owned(1, epochs=(3,))),
    ),
    (
        8,
        f"0000fffffffe000000040002{ORDERS_HEX}0300000000000000010100090300000000000000000100",
        r.ConsumerGroupCurrentMemberAssignmentValue(-2, 4, 0, owned(0, 1, epochs=(0, 0)), ()),
    ),
    (
        16,
        "000002076f7264657273000000000000004d0000019b76daa80000",
        r.ConsumerGroupRegularExpressionValue(("orders",), 77, T0),
    ),
    (
        10,
        "0000000363310a2f31302e302e302e3102076f726465727300",
        r.ShareGroupMemberMetadataValue(None, "c1", "/10.0.0.1", ("orders",)),
    ),
    (11, "000000000002000000000000000100", r.ShareGroupMetadataValue(2, 1)),
    (12, "0000000000020100080000019b76daa800", r.TargetAssignmentMetadataValue(2, T0)),
    (
        13,
        f"000002{ORDERS_HEX}02000000000000",
        r.TargetAssignmentMemberValue((r.TopicPartitions(ORDERS, (0,)),)),
    ),
    (
        14,
        f"000000000002000000010002{ORDERS_HEX}02000000000000",
        r.ShareGroupCurrentMemberAssignmentValue(2, 1, 0, (r.TopicPartitions(ORDERS, (0,)),)),
    ),
    (
        15,
        f"000002{ORDERS_HEX}076f726465727302000000010002{ORDERS_HEX}076f72646572730200000000000100",
        r.ShareGroupStatePartitionMetadataValue(
            (r.NamedTopicPartitions(ORDERS, "orders", (1,)),), (r.NamedTopicPartitions(ORDERS, "orders", (0,)),), ()
        ),
    ),
    (17, "000000000003000000000000000101000400000000", r.StreamsGroupMetadataValue(3, 1, 0)),
    (
        19,
        "000000000363310a2f31302e302e302e31000493e0000000000370310102681f90000100",
        r.StreamsGroupMemberMetadataValue(None, None, "c1", "/10.0.0.1", 300_000, 0, "p1", r.Endpoint("h", 8080), ()),
    ),
    (
        19,
        "000000000363310a2f31302e302e302e31000493e000000000037031ff0100",
        r.StreamsGroupMemberMetadataValue(None, None, "c1", "/10.0.0.1", 300_000, 0, "p1", None, ()),
    ),
    (20, "00000000000300", r.TargetAssignmentMetadataValue(3)),
    (
        21,
        "0000020230020000000000010100",
        r.StreamsGroupTargetAssignmentMemberValue((r.TaskIds("0", (0,)),), (), ()),
    ),
    (
        22,
        "000000000003000000020102023002000000000100050200000003010101010100",
        r.StreamsGroupCurrentMemberAssignmentValue(3, 2, 1, (r.OwnedTaskIds("0", (0,), (3,)),), (), (), (), (), ()),
    ),
    (
        23,
        "00000000000002023002076f726465727301010101010000",
        r.StreamsGroupTopologyValue(0, (r.Subtopology("0", ("orders",), (), (), (), (), ()),)),
    ),
]


@pytest.mark.parametrize(("number", "raw", "value"), VALUES)
def test_values(number: int, raw: str, value: Any) -> None:
    """A value's first two bytes are its version, the others that version's fields."""
    behind_the_type = {type(key): bytes.fromhex(raw_key)[2:] for raw_key, _, key in KEYS}
    key = number.to_bytes(2, "big") + behind_the_type[r.RECORD_TYPES[number].key]
    read = decode_record(key, bytes.fromhex(raw))
    assert (read.outcome, read.error) == (Outcome.DECODED, None)
    assert read.value == value


def test_every_record_type_has_an_example() -> None:
    """Only type 9 has none: it existed in early access only, with type 4's format."""
    assert {number for number, _, _ in VALUES} == r.RECORD_TYPES.keys() - {9}
    assert r.RECORD_TYPES[9].value is r.RECORD_TYPES[4].value


ORDERS_0_1 = (embedded.ProtocolTopicPartitions("orders", (0, 1)),)


@pytest.mark.parametrize(
    ("decode", "raw", "structure"),
    [
        pytest.param(
            embedded.decode_subscription,
            "00000000000100066f7264657273ffffffff",
            embedded.Subscription(("orders",)),
            id="subscription 0",
        ),
        pytest.param(
            embedded.decode_subscription,
            "00010000000100066f7264657273ffffffff0000000100066f7264657273000000020000000000000001",
            embedded.Subscription(("orders",), None, ORDERS_0_1),
            id="subscription 1",
        ),
        pytest.param(
            embedded.decode_subscription,
            "00030000000100066f726465727300000004000000040000000100066f72646572730000000200000000000000010000000400027231",
            embedded.Subscription(("orders",), b"\0\0\0\4", ORDERS_0_1, 4, "r1"),
            id="subscription 3, cooperative-sticky",
        ),
        pytest.param(
            embedded.decode_assignment,
            "00000000000100066f7264657273000000020000000000000001ffffffff",
            embedded.Assignment(ORDERS_0_1),
            id="assignment 0",
        ),
        pytest.param(
            embedded.decode_assignment,
            "00030000000100066f7264657273000000020000000000000001ffffffff",
            embedded.Assignment(ORDERS_0_1),
            id="assignment 3",
        ),
        pytest.param(embedded.decode_assignment, "", embedded.Assignment(), id="member not listed by the leader"),
    ],
)
def test_embedded_structures(decode: Any, raw: str, structure: Any) -> None:
    """The members' structures are read in every version and every client's form."""
    assert decode(bytes.fromhex(raw)) == structure


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        ("", 0),
        ("g1", 42),
        ("my-group", 12),
        ("console-consumer-12345", 6),
        ("polygenelubricants", 0),
        ("grüppe", 12),
        ("日本", 47),
        ("😀-group", 43),
        ("connect-cluster", 13),
        ("schema-registry", 29),
    ],
)
def test_a_groups_partition_is_javas(group: str, partition: int) -> None:
    """For 50 partitions; computed by a Java runtime. "polygenelubricants" hashes to the smallest int32."""
    assert partition_for_group(group, 50) == partition
