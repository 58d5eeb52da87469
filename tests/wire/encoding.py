"""An encoder of the wire formats, for tests: uses the decoder's field declarations, but is implemented independently.

The product never writes these records; tests need bytes of any version with any content.
"""

from __future__ import annotations

import struct as packing
from typing import Any

from rebalance_streaming.wire.records import RecordType
from rebalance_streaming.wire.schema import FieldSpec, Kind, specs

_FIXED = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "int64": ">q"}


def uvarint(value: int) -> bytes:
    """Encode a base-128 number, least significant group first."""
    if value < 0x80:
        return bytes([value])
    return bytes([value & 0x7F | 0x80]) + uvarint(value >> 7)


def tagged_section(fields: dict[int, bytes]) -> bytes:
    """Encode a tagged section, in the order given."""
    return uvarint(len(fields)) + b"".join(
        uvarint(tag) + uvarint(len(payload)) + payload for tag, payload in fields.items()
    )


def encode_key(record_type: RecordType, key: Any) -> bytes:
    """Encode a record's key, type number first."""
    return packing.pack(">h", record_type.number) + encode_struct(key, 0, flexible=False)


def encode_value(
    record_type: RecordType, value: Any, version: int, *, unknown_tags: dict[int, bytes] | None = None
) -> bytes:
    """Encode a record's value, version number first."""
    flexible = version >= record_type.flexible_from
    return packing.pack(">h", version) + encode_struct(value, version, flexible=flexible, unknown_tags=unknown_tags)


def encode_versioned(structure: Any, version: int) -> bytes:
    """Encode an embedded structure behind its version."""
    return packing.pack(">h", version) + encode_struct(structure, version, flexible=False)


def encode_struct(
    structure: Any, version: int, *, flexible: bool, unknown_tags: dict[int, bytes] | None = None
) -> bytes:
    """Encode one version of a structure. Tagged fields with their default are left out, as Kafka does."""
    encoded, tagged = b"", {}
    for name, spec, default in specs(type(structure)):
        value = getattr(structure, name)
        if not spec.is_in(version):
            continue
        if spec.tag is None:
            encoded += encode_field(value, spec, version, flexible=flexible)
        elif value != default:
            tagged[spec.tag] = encode_field(value, spec, version, flexible=flexible)
    if not flexible:
        return encoded
    return encoded + tagged_section(dict(sorted((tagged | (unknown_tags or {})).items())))


def encode_field(value: Any, spec: FieldSpec, version: int, *, flexible: bool) -> bytes:
    """Encode one field's value, null included."""
    kind = spec.kind
    if kind.name in _FIXED:
        return packing.pack(_FIXED[kind.name], value)
    if kind.name == "uuid":
        return bytes(value.bytes)
    if kind.name == "struct":
        return _nullable_mark(value, spec) + (
            b"" if value is None else encode_struct(value, version, flexible=flexible)
        )
    if value is None:
        return _length(-1, kind, flexible=flexible)
    if kind.element is not None:
        elements = [encode_field(each, FieldSpec(kind.element), version, flexible=flexible) for each in value]
        return _length(len(elements), kind, flexible=flexible) + b"".join(elements)
    raw = value.encode() if kind.name == "string" else value
    return _length(len(raw), kind, flexible=flexible) + bytes(raw)


def _length(length: int, kind: Kind, *, flexible: bool) -> bytes:
    if flexible:
        return uvarint(length + 1)
    return packing.pack(">h" if kind.name == "string" else ">i", length)


def _nullable_mark(value: Any, spec: FieldSpec) -> bytes:
    if not spec.nullable:
        return b""
    if spec.tag is not None:
        return b"\x00" if value is None else b"\x01"
    return b"\xff" if value is None else b"\x01"
