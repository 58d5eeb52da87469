"""Reads the time, the group and the client from a line of a log, beside its message.

Formats differ between loggers: the forms in use are searched for, and a field is null if none is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rebalance_exporters.messages.matching import Hit
from rebalance_exporters.messages.times import read_time

_LONGEST_NAME = 255

_RDKAFKA_NAME = re.compile(r"\|([^|\s]{1,255})#(?:consumer|producer)-\d+\|")

_GROUP_FIELDS = ("groupid", "group_id", "group.id", "group")
_CLIENT_FIELDS = ("clientid", "client_id", "client.id", "memberid", "member_id", "member.id")
# UNKNOWN_MEMBER_ID is an error code, and the text after it is its description.
_NO_FIELD = "unknown_"
_NAME_ENDS = frozenset(" \t,;]})\"'")


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a line; fields that it does not have are null. `at` is the time as written."""

    at: str | None
    group: str | None
    client: str | None


def read_origin(line: str, hits: Iterable[Hit]) -> Origin:
    """Return the origin of a line. Names that it has in no field are taken from the places of its messages."""
    places: dict[str, str] = {}
    for hit in hits:
        for name, value in hit.places.items():
            places.setdefault(name, value)
    group = _read_field(line, _GROUP_FIELDS) or places.get("group")
    client = _read_field(line, _CLIENT_FIELDS) or _read_rdkafka(line) or places.get("client") or places.get("member")
    return Origin(read_time(line), _cut(group), _cut(client))


def _read_rdkafka(line: str) -> str | None:
    found = _RDKAFKA_NAME.search(line)
    return None if found is None else found[1]


def _read_field(line: str, names: Iterable[str]) -> str | None:
    """Return the value of `name=value`, `"name":"value"` or `name: value` for the first name found; null if none."""
    lowered = line.lower()
    for name in names:
        at = lowered.find(name)
        while at >= 0:
            is_field = (at == 0 or not lowered[at - 1].isalnum()) and not lowered.endswith(_NO_FIELD, 0, at)
            value = _read_value(line, at + len(name)) if is_field else None
            if value:
                return value
            at = lowered.find(name, at + 1)
    return None


def _read_value(line: str, at: int) -> str | None:
    rest = line[at : at + 2 * _LONGEST_NAME].lstrip("\"'\\")
    if not rest or rest[0] not in "=:":
        return None
    value = rest[1:].lstrip(" ").lstrip("\"'\\")
    end = next((place for place, each in enumerate(value) if each in _NAME_ENDS), len(value))
    return value[:end].rstrip("\\.") or None


def _cut(name: str | None) -> str | None:
    return None if not name else name[:_LONGEST_NAME]
