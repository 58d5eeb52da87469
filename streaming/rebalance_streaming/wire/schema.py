"""Record formats as data: dataclass fields declare their encoding, and plans made from them read the bytes.

A format is a frozen dataclass whose fields are declared with `wire`. A plan is made once per (dataclass, version). A
new version or record only has to be declared; it needs no reader of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rebalance_streaming.wire import primitives
from rebalance_streaming.wire.errors import BadLength, BadTag
from rebalance_streaming.wire.primitives import Reader, need, read_int8, read_uvarint


@dataclass(frozen=True, slots=True)
class Kind:
    """Encoding of a value: a fixed-width type, or "string", "bytes", "array" or "struct"."""

    name: str
    fixed: Reader | None = None
    width: int = 1
    element: Kind | None = None
    struct: type[Any] | None = None


INT8 = Kind("int8", primitives.read_int8, 1)
INT16 = Kind("int16", primitives.read_int16, 2)
UINT16 = Kind("uint16", primitives.read_uint16, 2)
INT32 = Kind("int32", primitives.read_int32, 4)
INT64 = Kind("int64", primitives.read_int64, 8)
UUID_KIND = Kind("uuid", primitives.read_uuid, 16)
STRING = Kind("string")
BYTES = Kind("bytes")


def array(element: Kind) -> Kind:
    """Return the kind of an array of `element`."""
    return Kind("array", element=element)


def struct(of: type[Any]) -> Kind:
    """Return the kind of a nested structure."""
    return Kind("struct", struct=of)


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field's encoding: its kind, the versions that contain it, its tag (null: not tagged), whether null is legal."""

    kind: Kind
    since: int = 0
    until: int = 32_767
    tag: int | None = None
    nullable: bool = False

    def is_in(self, version: int) -> bool:
        """Whether the field is part of a version."""
        return self.since <= version <= self.until


def wire(
    kind: Kind,
    *,
    since: int = 0,
    until: int = 32_767,
    tag: int | None = None,
    nullable: bool = False,
    default: Any = dataclasses.MISSING,
) -> Any:
    """Declare a field. `default` is its value in versions without it, and where a tagged field is absent."""
    return dataclasses.field(default=default, metadata={"wire": FieldSpec(kind, since, until, tag, nullable)})


def specs(of: type[Any]) -> list[tuple[str, FieldSpec, Any]]:
    """Return (name, encoding, default) of every field; the default is None for fields without one."""
    return [
        (each.name, each.metadata["wire"], None if each.default is dataclasses.MISSING else each.default)
        for each in dataclasses.fields(of)
    ]


@dataclass(frozen=True, slots=True)
class Plan:
    """How to read one version of a structure.

    `template` has the value of every field that is not read; `steps` are (index, reader) in wire order; `tagged`
    maps a tag to (index, reader). `smallest` is the minimum size of the structure in bytes.
    """

    build: Callable[..., Any]
    template: tuple[Any, ...]
    steps: tuple[tuple[int, Reader], ...]
    tagged: dict[int, tuple[int, Reader]]
    flexible: bool
    smallest: int

    def read(self, buffer: bytes, position: int) -> tuple[Any, int]:
        """Read the structure at `position`. Raises DecodeError."""
        values = list(self.template)
        for index, reader in self.steps:
            values[index], position = reader(buffer, position)
        if self.flexible:
            position = self._read_tags(buffer, position, values)
        return self.build(*values), position

    def read_leading(self, buffer: bytes, position: int, required: int) -> tuple[Any, int]:
        """Read a structure whose writer may have stopped after the first `required` fields. Raises DecodeError.

        Fields that are missing at the buffer's end have their defaults.
        """
        values = list(self.template)
        for number, (index, reader) in enumerate(self.steps):
            if number >= required and position == len(buffer):
                break
            values[index], position = reader(buffer, position)
        return self.build(*values), position

    def _read_tags(self, buffer: bytes, position: int, values: list[Any]) -> int:
        """Read the tagged section; unknown tags are skipped by their size (KIP-482, KIP-915)."""
        count, position = read_uvarint(buffer, position)
        previous = -1
        for _ in range(count):
            tag, position = read_uvarint(buffer, position)
            size, position = read_uvarint(buffer, position)
            end = need(buffer, position, size)
            if tag <= previous:
                # Kafka writes tags in ascending order, so it did not write this section.
                raise BadTag(f"tag {tag} after {previous}")
            previous = tag
            if tag in self.tagged:
                index, reader = self.tagged[tag]
                values[index], position = reader(buffer, position)
                if position != end:
                    raise BadTag(f"tag {tag} claims {size} bytes and takes another number")
            position = end
        return position


_PLANS: dict[tuple[type[Any], int, bool], Plan] = {}


def plan_for(of: type[Any], version: int, *, flexible: bool) -> Plan:
    """Return the plan of a structure's version; it is made at first use."""
    wanted = of, version, flexible
    plan = _PLANS.get(wanted)
    if plan is None:
        plan = _PLANS[wanted] = _make_plan(of, version, flexible)
    return plan


def _make_plan(of: type[Any], version: int, flexible: bool) -> Plan:
    declared = specs(of)
    steps, tagged = [], {}
    smallest = 1 if flexible else 0
    for index, (_, spec, _) in enumerate(declared):
        if not spec.is_in(version):
            continue
        reader = _reader(spec, version, flexible)
        if spec.tag is None:
            steps.append((index, reader))
            smallest += 1 if spec.nullable else _smallest(spec.kind, version, flexible)
        else:
            tagged[spec.tag] = (index, reader)
    template = tuple(default for _, _, default in declared)
    return Plan(of, template, tuple(steps), tagged, flexible, smallest)


def _reader(spec: FieldSpec, version: int, flexible: bool) -> Reader:
    kind = spec.kind
    if kind.fixed is not None:
        return kind.fixed
    if kind.name == "string":
        return primitives.string_reader(compact=flexible, nullable=spec.nullable)
    if kind.name == "bytes":
        return primitives.bytes_reader(compact=flexible, nullable=spec.nullable)
    if kind.element is not None:
        element = _reader(FieldSpec(kind.element), version, flexible)
        smallest = _smallest(kind.element, version, flexible)
        return primitives.array_reader(element, smallest, compact=flexible, nullable=spec.nullable)
    assert kind.struct is not None, kind
    read = plan_for(kind.struct, version, flexible=flexible).read
    return _nullable_struct(read, in_tag=spec.tag is not None) if spec.nullable else read


def _nullable_struct(read: Reader, *, in_tag: bool) -> Reader:
    """Return the reader of a structure that may be null: marked by a varint inside a tag, by an int8 elsewhere."""

    def read_nullable(buffer: bytes, position: int) -> tuple[Any, int]:
        mark, position = (read_uvarint if in_tag else read_int8)(buffer, position)
        absent = 0 if in_tag else primitives.NULL
        if mark == absent:
            return None, position
        if mark != 1:
            raise BadLength(f"{mark} is no mark of a nullable structure")
        return read(buffer, position)

    return read_nullable


def _smallest(kind: Kind, version: int, flexible: bool) -> int:
    if kind.fixed is not None:
        return kind.width
    if kind.struct is not None:
        return max(1, plan_for(kind.struct, version, flexible=flexible).smallest)
    return 1 if flexible else 2
