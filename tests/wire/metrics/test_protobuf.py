"""The table-driven protobuf reader: what it reads, and how it fails."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_streaming.wire.errors import BadLength, BadText, BadVarint, DecodeError, Truncated
from rebalance_streaming.wire.metrics import protobuf
from rebalance_streaming.wire.metrics.protobuf import BadMessage, Field, Message, Scalar, read_message, read_uvarint
from wire.metrics.payloads import field, uvarint

INNER: Message = {1: Field("text", Scalar.TEXT)}
EVERYTHING: Message = {
    1: Field("text", Scalar.TEXT),
    2: Field("int", Scalar.INT),
    3: Field("bool", Scalar.BOOL),
    4: Field("double", Scalar.DOUBLE),
    5: Field("unsigned", Scalar.FIXED64),
    6: Field("signed", Scalar.SFIXED64),
    7: Field("inner", INNER),
    8: Field("many", INNER, repeated=True),
}


def test_every_kind_of_field_is_read() -> None:
    """Text, numbers of every kind and messages are returned by their names."""
    raw = b"".join(
        [
            field(1, "ü"),
            field(2, -5),
            field(3, 1),
            field(4, -math.inf),
            field(5, -1, fixed=True),
            field(6, -2, fixed=True),
            field(7, field(1, "in")),
            field(8, b""),
            field(8, field(1, "b")),
        ]
    )
    assert read_message(raw, EVERYTHING) == {
        "text": "ü",
        "int": -5,
        "bool": True,
        "double": -math.inf,
        "unsigned": 2**64 - 1,
        "signed": -2,
        "inner": {"text": "in"},
        "many": [{}, {"text": "b"}],
    }


def test_fields_that_nobody_wants_are_skipped() -> None:
    """Newer writers add fields of any wire type; the last occurrence of a non-repeated field counts."""
    unknown = field(9, "x") + field(10, 2**64 - 1) + field(11, 1.0) + uvarint(12 << 3 | 5) + b"four"
    assert read_message(unknown + field(1, "a") + unknown + field(1, "b"), EVERYTHING) == {"text": "b"}
    assert read_message(b"", EVERYTHING) == {}


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        pytest.param(b"\x0a", Truncated, id="no length"),
        pytest.param(b"\x0a\x05abc", BadLength, id="a length past the end"),
        pytest.param(b"\x0a" + uvarint(2**63), BadLength, id="a length of half of all numbers"),
        pytest.param(b"\x3a\x02\x0a\x05", BadLength, id="a length past the end of its message"),
        pytest.param(b"\x21abc", Truncated, id="half a double"),
        pytest.param(b"\x65abc", Truncated, id="half a fixed32"),
        pytest.param(b"\x80" * 10 + b"\x01", BadVarint, id="a varint of eleven bytes"),
        pytest.param(b"\x10" + b"\xff" * 9 + b"\x7f", BadVarint, id="a varint of 70 bits"),
        pytest.param(b"\x10\x80", Truncated, id="half a varint"),
        pytest.param(b"\x0a\x01\xff", BadText, id="text that is not UTF-8"),
        pytest.param(b"\x02\x00", BadMessage, id="field number 0"),
        pytest.param(b"\x0b\x0c", BadMessage, id="a group"),
        pytest.param(b"\x0e", BadMessage, id="wire type 6"),
        pytest.param(b"\x08\x01", BadMessage, id="a varint where text is wanted"),
        pytest.param(b"\x38\x01", BadMessage, id="a varint where a message is wanted"),
    ],
)
def test_bytes_that_are_no_message_are_refused(raw: bytes, error: type[DecodeError]) -> None:
    """Each error has its own message, and none reads beyond its message."""
    with pytest.raises(error):
        read_message(raw, EVERYTHING)


def test_messages_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two bytes are a message, so their number is bounded in addition to their length."""
    monkeypatch.setattr(protobuf, "MIN_MESSAGES", 100)
    monkeypatch.setattr(protobuf, "BYTES_PER_MESSAGE", 1_000)
    assert len(read_message(field(8, b"") * 99, EVERYTHING)["many"]) == 99
    with pytest.raises(BadMessage):
        read_message(field(8, b"") * 100, EVERYTHING)


@pytest.mark.generated
@given(st.integers(0, 2**64 - 1))
def test_varints_come_back(number: int) -> None:
    """Encoded varints are read back, to the byte."""
    raw = uvarint(number)
    assert read_uvarint(raw, 0, len(raw)) == (number, len(raw))


@pytest.mark.generated
@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail_otherwise(raw: bytes) -> None:
    """Any bytes are a message or a DecodeError."""
    try:
        read_message(raw, EVERYTHING)
    except DecodeError as error:
        assert str(error)  # noqa: PT017 - both outcomes are right
