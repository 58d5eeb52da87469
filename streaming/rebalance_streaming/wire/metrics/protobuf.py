"""A reader of protobuf messages by a table of wanted fields; all others are skipped.

Receives arbitrary bytes; returns the dictionaries that the message has as JSON, so that one piece of code reads both.
Every length is compared with the remaining bytes, and the nesting of the tables is limited.
Encoding: protobuf.dev, "Encoding"; groups (wire types 3 and 4) are obsolete and refused.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rebalance_streaming.wire.errors import BadLength, BadText, BadVarint, DecodeError, Truncated

#: Number of messages that any record may contain. Above that a message must have this many bytes on average: an
#: attribute of two messages has twelve. Empty ones have two bytes each, but take thirty times as many as dictionaries.
MIN_MESSAGES, BYTES_PER_MESSAGE = 1_000, 6

_UVARINT_BYTES = 10
_UINT64 = 2**64
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_read_double = struct.Struct("<d").unpack_from
_read_uint64 = struct.Struct("<Q").unpack_from
_read_int64 = struct.Struct("<q").unpack_from


class BadMessage(DecodeError):  # noqa: N818 - as in wire.errors
    """A field number, wire type or number of messages that no writer uses."""


class Scalar(Enum):
    """Encoding of a field that is not a message: wire type, and meaning of its bits."""

    TEXT = (_BYTES, "utf-8")
    INT = (_VARINT, "signed")
    BOOL = (_VARINT, "bool")
    DOUBLE = (_FIXED64, "double")
    FIXED64 = (_FIXED64, "unsigned")
    SFIXED64 = (_FIXED64, "signed")


@dataclass(frozen=True, slots=True)
class Field:
    """A wanted field: its name in JSON, its kind, and whether it may be repeated."""

    name: str
    kind: Scalar | Mapping[int, Field]
    repeated: bool = False
    #: Wire type, and the fields if it is a message; derived from `kind`, stored because it is needed for every field.
    wire_type: int = field(init=False)
    message: Mapping[int, Field] | None = field(init=False)

    def __post_init__(self) -> None:
        kind = self.kind
        object.__setattr__(self, "wire_type", kind.value[0] if isinstance(kind, Scalar) else _BYTES)
        object.__setattr__(self, "message", None if isinstance(kind, Scalar) else kind)


Message = Mapping[int, Field]


@dataclass(slots=True)
class _Budget:
    messages: int


def read_message(raw: bytes, message: Message) -> dict[str, Any]:
    """Read a whole message. Raises DecodeError for bytes that are none.

    A field that is not repeated has its last value, as in protobuf; an absent field is missing in the result.
    """
    return _read(raw, 0, len(raw), message, _Budget(MIN_MESSAGES + len(raw) // BYTES_PER_MESSAGE))


def _read(raw: bytes, position: int, end: int, message: Message, budget: _Budget) -> dict[str, Any]:
    budget.messages -= 1
    if budget.messages < 0:
        raise BadMessage("more messages than its bytes can mean")
    found: dict[str, Any] = {}
    while position < end:
        tag, position = read_uvarint(raw, position, end)
        start, position, number = _span(raw, position, end, tag & 7)
        if not 1 <= tag >> 3 < 2**29:
            raise BadMessage(f"field number {tag >> 3} before {start}")
        wanted = message.get(tag >> 3)
        if wanted is None:
            continue
        if tag & 7 != wanted.wire_type:
            raise BadMessage(f"field {wanted.name} has wire type {tag & 7}")
        value: Any
        if wanted.message is not None:
            value = _read(raw, start, position, wanted.message, budget)
        else:
            value = _scalar(raw, start, position, number, wanted.kind)
        if wanted.repeated:
            found.setdefault(wanted.name, []).append(value)
        else:
            found[wanted.name] = value
    return found


def _span(raw: bytes, position: int, end: int, wire_type: int) -> tuple[int, int, int]:
    """Return where a field's content starts and ends, and its number if it is a varint."""
    if wire_type == _VARINT:
        number, after = read_uvarint(raw, position, end)
        return position, after, number
    if wire_type == _BYTES:
        if position < end and raw[position] < 0x80:
            size = raw[position]
            position += 1
        else:
            size, position = read_uvarint(raw, position, end)
        if size > end - position:
            raise BadLength(f"length {size} at {position}, {end - position} bytes are left")
        return position, position + size, 0
    size = 8 if wire_type == _FIXED64 else 4 if wire_type == _FIXED32 else 0
    if not size:
        raise BadMessage(f"wire type {wire_type} before {position}")
    if size > end - position:
        raise Truncated(f"{size} bytes wanted at {position}, {end - position} are left")
    return position, position + size, 0


def _scalar(raw: bytes, start: int, end: int, number: int, kind: Scalar | Message) -> Any:
    if kind is Scalar.TEXT:
        return _text(raw, start, end)
    if kind is Scalar.BOOL:
        return number != 0
    if kind is Scalar.INT:
        return number - _UINT64 if number >= _UINT64 // 2 else number
    read = _read_double if kind is Scalar.DOUBLE else _read_int64 if kind is Scalar.SFIXED64 else _read_uint64
    return read(raw, start)[0]


def _text(raw: bytes, start: int, end: int) -> str:
    try:
        return raw[start:end].decode()
    except UnicodeDecodeError as error:
        raise BadText(f"not UTF-8: {error.reason} at byte {start + error.start}") from None


def read_uvarint(raw: bytes, position: int, end: int) -> tuple[int, int]:
    """Read a base-128 number, least significant group first. Raises Truncated, and BadVarint above 64 bits."""
    if position < end and raw[position] < 0x80:
        return raw[position], position + 1
    value = 0
    for index in range(_UVARINT_BYTES):
        if position >= end:
            raise Truncated(f"a varint ends behind {end}")
        byte = raw[position]
        position += 1
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >= _UINT64:
                break
            return value, position
    raise BadVarint(f"a varint before {position} does not fit into 64 bits")
