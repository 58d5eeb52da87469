"""Which client a report is from: identity fields in every spelling, and what can be derived from others.

Receives tags, labels, attributes and record headers; returns the client's identity in them. Existing groups are not
known here, so a client id only proposes a group. Nothing is guessed: a field that no source contains stays null.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from rebalance_streaming.wire.metrics.report import Report
from rebalance_streaming.wire.metrics.values import as_text

_LONGEST_KEY = 128
_CACHED = 2048


class Identity(NamedTuple):
    """What identifies a client; null where the payload does not contain it."""

    client_id: str | None = None
    group_id: str | None = None
    member_id: str | None = None
    instance_id: str | None = None
    host: str | None = None
    library: str | None = None
    library_version: str | None = None


#: Other spellings, from KIP-714's resource attributes and OpenTelemetry's conventions.
_OTHER_NAMES = {"group_member_id": "member_id", "group_instance_id": "instance_id", "host_name": "host"}
_LABELS = frozenset(("topic", "partition", "node_id"))

_MEMBER_SUFFIX = re.compile(r"(.+)-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.DOTALL)
_JAVA_DEFAULT = re.compile(r"consumer-(.+)-\d+", re.DOTALL | re.ASCII)
_KAFKA_PYTHON_DEFAULT = re.compile(r"kafka-python-(\d[\w.+\-]*)", re.ASCII)
_LIBRDKAFKA_NAME = re.compile(r"(.*)#([a-z]+)-\d+", re.DOTALL | re.ASCII)


@lru_cache(_CACHED)
def _plain(key: str) -> str:
    return key.lower().replace("-", "_").replace(".", "_")


@lru_cache(_CACHED)
def _field(key: str) -> str | None:
    plain = _plain(key)
    field = _OTHER_NAMES.get(plain, plain)
    return field if field in Identity._fields else None


def read_identity(tags: Mapping[str, object]) -> Identity:
    """Return the identity in tags, with `_`, `-` or `.` in their names; of two spellings the first counts."""
    found: dict[str, str] = {}
    for key, raw in tags.items():
        field = _field(key) if len(key) <= _LONGEST_KEY else None
        text = as_text(raw) if field else None
        if field and text and field not in found:
            found[field] = text
    return Identity(**found)


def read_labels(tags: Mapping[str, object]) -> dict[str, str]:
    """Return the tags that distinguish points of one metric, under their normalised names."""
    return {
        _plain(key): text
        for key, raw in tags.items()
        if len(key) <= _LONGEST_KEY and _plain(key) in _LABELS and (text := as_text(raw)) is not None
    }


def read_headers(headers: Mapping[str, bytes | None]) -> Identity:
    """Return a client's identity in record headers; values that are not UTF-8 are ignored."""
    return read_identity({key: _decoded(raw) for key, raw in headers.items()})


def _decoded(raw: bytes | None) -> str | None:
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return None


def complete(report: Report, headers: Identity, defaults: Identity) -> Report:
    """Add identity that the payload lacks: from headers, then derived from known fields, then from defaults."""
    found: dict[str, Any] = {}
    _add_missing(report, found, headers)
    _add_missing(report, found, _identity_by_ids(report, found))
    _add_missing(report, found, defaults)
    return replace(report, **found) if found else report


def _add_missing(report: Report, found: dict[str, str], source: Identity) -> None:
    for field, text in zip(Identity._fields, source, strict=True):
        if text is not None and field not in found and getattr(report, field) is None:
            found[field] = text


def _identity_by_ids(report: Report, found: Mapping[str, str]) -> Identity:
    client_id = report.client_id or found.get("client_id")
    member_id = report.member_id or found.get("member_id")
    # The id of a static member starts with its instance id instead.
    if client_id is None and member_id and not (report.instance_id or found.get("instance_id")):
        client_id = client_id_of_member(member_id)
    version = _KAFKA_PYTHON_DEFAULT.fullmatch(client_id) if client_id else None
    library = report.library or found.get("library")
    if version is None or library not in (None, "kafka-python"):
        return Identity(client_id=client_id)
    return Identity(client_id=client_id, library="kafka-python", library_version=version[1])


def client_id_of_member(member_id: str) -> str | None:
    """Return the client id (for static members the instance id) that a broker put before a classic member's UUID.

    Null for ids that members chose themselves, as in the new protocol: they are bare UUIDs.
    """
    found = _MEMBER_SUFFIX.fullmatch(member_id)
    return found[1] if found else None


def group_candidates(client_id: str) -> str | None:
    """Return the group in a client id that has the form of the Java consumer's default; null for any other.

    `consumer-<group>-<n>`: only usable if this group exists; the older form `consumer-<n>` contains no group.
    """
    found = _JAVA_DEFAULT.fullmatch(client_id)
    return found[1] if found else None


def split_librdkafka_name(name: str) -> tuple[str | None, str] | None:
    """Return client id and kind (`consumer`, `producer`) of a librdkafka handle's name; null for any other text."""
    found = _LIBRDKAFKA_NAME.fullmatch(name)
    return (found[1] or None, found[2]) if found else None
