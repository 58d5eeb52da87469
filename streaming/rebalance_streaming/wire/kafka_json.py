"""Typed records as plain JSON values, in the form of Kafka's own JSON converters.

Names are Kafka's (camel case), byte arrays base64, uuids URL-safe base64 of 22 characters. A field that is not in the
version is omitted, and so is a tagged field with its default value, except for a tagged structure that is null.
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from dataclasses import is_dataclass
from typing import Any
from uuid import UUID

from rebalance_streaming.wire.schema import FieldSpec, specs


def to_json(value: Any, version: int) -> Any:
    """Return a decoded structure, or any value inside one, in a form that `json.dumps` accepts."""
    if is_dataclass(value):
        return {
            camel_case(name): to_json(getattr(value, name), version)
            for name, spec, default in specs(type(value))
            if spec.is_in(version) and _is_shown(spec, getattr(value, name), default)
        }
    if isinstance(value, tuple):
        return [to_json(each, version) for each in value]
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, UUID):
        return uuid_text(value)
    return value


def uuid_text(value: UUID) -> str:
    """Return an id as Kafka writes it: URL-safe base64 of 22 characters."""
    return urlsafe_b64encode(value.bytes).decode().rstrip("=")


def _is_shown(spec: FieldSpec, value: Any, default: Any) -> bool:
    return spec.tag is None or spec.kind.struct is not None or value != default


def camel_case(name: str) -> str:
    """Return an attribute's name in Kafka's spelling."""
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)
