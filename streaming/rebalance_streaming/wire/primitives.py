"""Readers of single fields: `(buffer, position) -> (value, next position)`.

Every read of bytes goes through `need`, the only bounds check, and every count is compared with the remaining bytes
before anything is allocated for it. Encoding: Kafka's protocol guide and KIP-482 (compact and tagged forms).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

from rebalance_streaming.wire.errors import BadLength, BadText, BadVarint, Truncated

Reader = Callable[[bytes, int], tuple[Any, int]]

_UVARINT_BYTES = 5
_UINT32_MAX = 0xFFFF_FFFF
NULL = -1


def need(buffer: bytes, position: int, size: int) -> int:
    """Return the position after `size` more bytes. Raises Truncated when the buffer ends before."""
    end = position + size
    if end > len(buffer):
        raise Truncated(f"{size} bytes wanted at {position}, the buffer has {len(buffer)}")
    return end


def _fixed(code: str) -> Reader:
    packed = struct.Struct(f">{code}")
    size, unpack = packed.size, packed.unpack_from

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        end = need(buffer, position, size)
        return unpack(buffer, position)[0], end

    return read


read_int8 = _fixed("b")
read_int16 = _fixed("h")
read_uint16 = _fixed("H")
read_int32 = _fixed("i")
read_int64 = _fixed("q")


def read_uuid(buffer: bytes, position: int) -> tuple[UUID, int]:
    """Read 16 raw bytes, most significant first."""
    end = need(buffer, position, 16)
    return UUID(bytes=buffer[position:end]), end


def read_uvarint(buffer: bytes, position: int) -> tuple[int, int]:
    """Read a base-128 number, least significant group first. Raises BadVarint above 32 bits."""
    value = 0
    for index in range(_UVARINT_BYTES):
        need(buffer, position, 1)
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value > _UINT32_MAX:
                break
            return value, position
    raise BadVarint(f"a varint before {position} does not fit into 32 bits")


def read_compact_length(buffer: bytes, position: int) -> tuple[int, int]:
    """Read the length of a compact field: stored plus one, so that 0 means null (returned as -1)."""
    stored, position = read_uvarint(buffer, position)
    return stored - 1, position


def _sized(read_length: Reader, nullable: bool, convert: Callable[[bytes], Any]) -> Reader:
    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        length, position = read_length(buffer, position)
        if length == NULL and nullable:
            return None, position
        if length < 0:
            raise BadLength(f"length {length} before {position}")
        end = need(buffer, position, length)
        return convert(buffer[position:end]), end

    return read


def _as_text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise BadText(f"not UTF-8: {error.reason} at byte {error.start} of a string") from None


def string_reader(*, compact: bool, nullable: bool) -> Reader:
    """Return the reader of a UTF-8 string; null becomes None where allowed."""
    return _sized(read_compact_length if compact else read_int16, nullable, _as_text)


def bytes_reader(*, compact: bool, nullable: bool) -> Reader:
    """Return the reader of a byte array; null becomes None where allowed."""
    return _sized(read_compact_length if compact else read_int32, nullable, bytes)


def array_reader(element: Reader, smallest: int, *, compact: bool, nullable: bool) -> Reader:
    """Return the reader of an array, as a tuple. `smallest` is the minimum size of an element in bytes, at least 1."""
    read_count = read_compact_length if compact else read_int32

    def read(buffer: bytes, position: int) -> tuple[Any, int]:
        count, position = read_count(buffer, position)
        if count == NULL and nullable:
            return None, position
        if count < 0 or count * smallest > len(buffer) - position:
            raise BadLength(f"array of {count} before {position}, {len(buffer) - position} bytes are left")
        elements = []
        for _ in range(count):
            value, position = element(buffer, position)
            elements.append(value)
        return tuple(elements), position

    return read
