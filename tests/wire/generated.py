"""Hypothesis strategies for records: valid ones from the field declarations, and bytes that are nearly valid."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from goldens import all_data_records, key_of, value_of
from rebalance_streaming.wire.records import RECORD_TYPES, RecordType
from rebalance_streaming.wire.schema import FieldSpec, specs
from wire.encoding import encode_key, encode_value

_RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


@cache
def structures(of: type[Any], version: int) -> st.SearchStrategy[Any]:
    """Return instances of a structure; fields missing in the version have their defaults."""
    fields = {
        name: field_values(spec, version) if spec.is_in(version) else st.just(default)
        for name, spec, default in specs(of)
    }
    return st.builds(of, **fields)


@cache
def field_values(spec: FieldSpec, version: int) -> st.SearchStrategy[Any]:
    """Return valid values of a field."""
    kind = spec.kind
    values: st.SearchStrategy[Any]
    if kind.name in _RANGES:
        smallest, largest = _RANGES[kind.name]
        values = st.integers(smallest, largest)
    elif kind.name == "uuid":
        values = st.uuids()
    elif kind.name == "string":
        values = st.text(max_size=200)
    elif kind.name == "bytes":
        values = st.binary(max_size=200)
    elif kind.element is not None:
        values = st.lists(field_values(FieldSpec(kind.element), version), max_size=3).map(tuple)
    else:
        assert kind.struct is not None
        values = structures(kind.struct, version)
    return st.none() | values if spec.nullable else values


@st.composite
def legal_records(draw: st.DrawFn, *, flexible: bool = False) -> tuple[RecordType, Any, int, Any]:
    """Return (type, key, value version, value) of any type and version; `flexible`: only with tagged fields."""
    of = [each for each in RECORD_TYPES.values() if not flexible or each.flexible_from <= each.newest]
    record_type = draw(st.sampled_from(of))
    version = draw(st.integers(record_type.flexible_from if flexible else 0, record_type.newest))
    return (
        record_type,
        draw(structures(record_type.key, 0)),
        version,
        draw(structures(record_type.value, version)),
    )


@cache
def distinct_goldens() -> tuple[tuple[bytes, bytes], ...]:
    """Return (key, value) of one golden record per type, value version and approximate length of the value."""
    chosen: dict[tuple[int, int, int], tuple[bytes, bytes]] = {}
    for record in all_data_records():
        key, value = key_of(record), value_of(record)
        if value is not None:
            decoded = record["decoded"]
            chosen.setdefault((decoded["type"], decoded["value_version"], len(value).bit_length()), (key, value))
    return tuple(chosen.values())


@st.composite
def mutated(draw: st.DrawFn, raw: bytes) -> bytes:
    """Return bytes with a few of them changed, removed or inserted."""
    changed = bytearray(raw)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(changed)))
        removed = draw(st.integers(0, 3))
        changed[start : start + removed] = draw(_INSERTED)
    return bytes(changed)


#: Counts and lengths that an attacker would choose: huge, negative, varints that never end.
HOSTILE_LENGTHS = (
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\xff" * 10,
    b"\x7f\xff",
    b"\x80\x00",
    b"\x00",
)
_INSERTED = st.binary(max_size=3) | st.sampled_from(HOSTILE_LENGTHS)


@st.composite
def hostile_records(draw: st.DrawFn) -> tuple[bytes | None, bytes | None]:
    """Return key and value of any kind: null, random, valid, golden, or a damaged form of these."""
    record_type, key, version, value = draw(legal_records())
    keys = st.sampled_from([encode_key(record_type, key), *(key for key, _ in distinct_goldens())])
    values = st.sampled_from([encode_value(record_type, value, version), *(value for _, value in distinct_goldens())])
    some_key = draw(keys)
    return (
        draw(st.none() | st.just(some_key) | mutated(some_key) | st.binary(max_size=40)),
        draw(st.none() | values | values.flatmap(mutated) | st.binary(max_size=80)),
    )
