"""The contract of every reader: (value, next position) for good bytes, one error class for each kind of bad bytes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_streaming.wire import primitives as p
from rebalance_streaming.wire.errors import BadLength, BadText, BadVarint, DecodeError, Truncated
from wire.encoding import uvarint

PLAIN_STRING = p.string_reader(compact=False, nullable=False)
NULLABLE_STRING = p.string_reader(compact=False, nullable=True)
COMPACT_STRING = p.string_reader(compact=True, nullable=False)
NULLABLE_COMPACT_STRING = p.string_reader(compact=True, nullable=True)
PLAIN_BYTES = p.bytes_reader(compact=False, nullable=False)
COMPACT_BYTES = p.bytes_reader(compact=True, nullable=True)
PLAIN_ARRAY = p.array_reader(p.read_int32, 4, compact=False, nullable=True)
COMPACT_ARRAY = p.array_reader(p.read_int32, 4, compact=True, nullable=True)
STRINGS = p.array_reader(PLAIN_STRING, 2, compact=False, nullable=False)


@pytest.mark.parametrize(
    ("reader", "raw", "value"),
    [
        pytest.param(p.read_int8, "80", -128, id="int8"),
        pytest.param(p.read_int16, "8000", -32_768, id="int16"),
        pytest.param(p.read_uint16, "ffff", 65_535, id="uint16"),
        pytest.param(p.read_int32, "fffffffe", -2, id="int32"),
        pytest.param(p.read_int64, "0000019b76daa800", 1_767_225_600_000, id="int64"),
        pytest.param(
            p.read_uuid,
            "00112233445566778899aabbccddeeff",
            UUID("00112233-4455-6677-8899-aabbccddeeff"),
            id="uuid",
        ),
        pytest.param(p.read_uvarint, "00", 0, id="uvarint of one byte"),
        pytest.param(p.read_uvarint, "ac02", 300, id="uvarint of two bytes"),
        pytest.param(p.read_uvarint, "ffffffff0f", 2**32 - 1, id="the largest uvarint"),
        pytest.param(p.read_uvarint, "8000", 0, id="uvarint longer than it has to be"),
        pytest.param(p.read_compact_length, "00", -1, id="compact length of null"),
        pytest.param(PLAIN_STRING, "0003c3bc21", "ü!", id="string"),
        pytest.param(PLAIN_STRING, "0000", "", id="empty string"),
        pytest.param(NULLABLE_STRING, "ffff", None, id="null string"),
        pytest.param(COMPACT_STRING, "04c3bc21", "ü!", id="compact string"),
        pytest.param(COMPACT_STRING, "01", "", id="empty compact string"),
        pytest.param(NULLABLE_COMPACT_STRING, "00", None, id="null compact string"),
        pytest.param(PLAIN_BYTES, "00000002ff00", b"\xff\0", id="bytes"),
        pytest.param(COMPACT_BYTES, "03ff00", b"\xff\0", id="compact bytes"),
        pytest.param(COMPACT_BYTES, "00", None, id="null compact bytes"),
        pytest.param(PLAIN_ARRAY, "000000020000000100000002", (1, 2), id="array"),
        pytest.param(PLAIN_ARRAY, "ffffffff", None, id="null array"),
        pytest.param(COMPACT_ARRAY, "030000000100000002", (1, 2), id="compact array"),
        pytest.param(COMPACT_ARRAY, "01", (), id="empty compact array"),
        pytest.param(STRINGS, "00000002000000016f", ("", "o"), id="array of strings"),
    ],
)
def test_a_reader_returns_value_and_next_position(reader: p.Reader, raw: str, value: Any) -> None:
    """At any position, and with more bytes after it; every truncation is Truncated or, for a count, BadLength."""
    octets = bytes.fromhex(raw)
    assert reader(b"\x7f" * 3 + octets + b"\x7f", 3) == (value, 3 + len(octets))
    for size in range(len(octets)):
        with pytest.raises((Truncated, BadLength)):
            reader(octets[:size], 0)


@pytest.mark.parametrize(
    ("reader", "raw", "error"),
    [
        pytest.param(PLAIN_STRING, "ffff", BadLength, id="null string where it is not allowed"),
        pytest.param(NULLABLE_STRING, "fffe", BadLength, id="length -2"),
        pytest.param(COMPACT_STRING, "00", BadLength, id="null compact string where it is not allowed"),
        pytest.param(PLAIN_STRING, "0001ff", BadText, id="not UTF-8"),
        pytest.param(PLAIN_STRING, "00036772c3", BadText, id="ends inside a character"),
        pytest.param(PLAIN_STRING, "0003eda080", BadText, id="an encoded surrogate"),
        pytest.param(PLAIN_BYTES, "7fffffff00", Truncated, id="bytes of 2 GiB"),
        pytest.param(PLAIN_ARRAY, "7fffffff00000000", BadLength, id="array of 2^31 - 1"),
        pytest.param(PLAIN_ARRAY, "fffffffe00000000", BadLength, id="array of -2"),
        pytest.param(COMPACT_ARRAY, "ffffffff0f00000000", BadLength, id="compact array of 2^32 - 2"),
        pytest.param(p.read_uvarint, "ffffffff10", BadVarint, id="uvarint of 33 bits"),
        pytest.param(p.read_uvarint, "808080808000", BadVarint, id="uvarint of six bytes"),
    ],
)
def test_bad_bytes_raise_the_error_of_their_cause(reader: p.Reader, raw: str, error: type[DecodeError]) -> None:
    """There is one class per cause, and its text is a clause for people."""
    with pytest.raises(error, match=r"^\S.*\S$"):
        reader(bytes.fromhex(raw), 0)


@pytest.mark.generated
@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_32_bit_number_survives_as_a_varint(value: int) -> None:
    """Nothing is lost at the group borders."""
    assert p.read_uvarint(uvarint(value), 0) == (value, len(uvarint(value)))
