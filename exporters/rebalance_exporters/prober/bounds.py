"""Splits probes that are too large for a record: offsets go into several, the rest is reported as far as it fits.

A reader merges the offsets and ids of several probes, because each reports only those it names. Members and owners are
read as complete, so the probe's errors say what was left out of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from msgspec import UNSET

from rebalance_contract import OFFSET_FIELDS, Probe, ProbedMember, encode
from rebalance_contract.bounds import MAX_ROW_BYTES
from rebalance_exporters.prober.offset_publications import Offsets

#: Target size of a part, which leaves room for a probe's other fields.
_PART_BYTES = 700_000
#: Maximum length of a partition's entry: its number, its offset and the separators.
_PARTITION_BYTES = 32
#: Maximum length of a topic's id with its quotes, and of the separators around any topic's name.
_ID_BYTES, _TOPIC_BYTES = 30, 8
#: Maximum number and length of a probe's errors.
_MOST_ERRORS, _LONGEST_ERROR = 20, 1_000


def encode_bounded(probe: Probe) -> list[bytes]:
    """Return a probe as JSON texts of at most `MAX_ROW_BYTES`; nearly always there is only one."""
    text = encode(probe)
    if len(text) <= MAX_ROW_BYTES:
        return [text]
    return [encode(part) for part in _split(_shorten_errors(probe))]


def _split(probe: Probe) -> Iterator[Probe]:
    nothing: dict[str, Any] = dict.fromkeys((*OFFSET_FIELDS, "topic_ids"), UNSET)
    rest = replace(probe, **nothing)
    if any(value is not UNSET for value in (rest.state, rest.members, rest.owners, rest.errors)):
        yield _cut_members(rest)
    head = Probe(probed_at_ms=probe.probed_at_ms, cluster=probe.cluster, group=probe.group)
    for name in OFFSET_FIELDS:
        offsets = getattr(probe, name)
        for part in _offset_parts(offsets) if offsets is not UNSET else ():
            part_of: Any = {name: part}
            yield replace(head, **part_of)
    if isinstance(probe.topic_ids, dict):
        for ids in _id_parts(probe.topic_ids):
            yield replace(head, topic_ids=ids)


def _offset_parts(offsets: Offsets) -> Iterator[Offsets]:
    """Yield a group's offsets in parts; a topic may be cut between partitions."""
    part: Offsets = {}
    size = 0
    at_once = _PART_BYTES // _PARTITION_BYTES
    for topic, partitions in offsets.items():
        entries = list(partitions.items())
        # An empty topic is reported too: it means that the topic does not exist or may not be described.
        for at in range(0, max(1, len(entries)), at_once):
            piece = dict(entries[at : at + at_once])
            length = len(topic) + _TOPIC_BYTES + _PARTITION_BYTES * len(piece)
            if (part and size + length > _PART_BYTES) or topic in part:
                yield part
                part, size = {}, 0
            part[topic] = piece
            size += length
    if part:
        yield part


def _id_parts(ids: dict[str, str]) -> Iterator[dict[str, str]]:
    part: dict[str, str] = {}
    size = 0
    for topic, topic_id in ids.items():
        if part and size > _PART_BYTES:
            yield part
            part, size = {}, 0
        part[topic] = topic_id
        size += len(topic) + _TOPIC_BYTES + _ID_BYTES
    if part:
        yield part


def _shorten_errors(probe: Probe) -> Probe:
    if not isinstance(probe.errors, tuple):
        return probe
    errors = tuple(error[:_LONGEST_ERROR] for error in probe.errors[:_MOST_ERRORS])
    more = len(probe.errors) - len(errors)
    return replace(probe, errors=(*errors, f"and {more} more like these") if more else errors)


def _cut_members(probe: Probe) -> Probe:
    """Return a probe that fits: without members' partitions, then without the last members; owners are left out too."""
    if _fits(probe) or not isinstance(probe.members, tuple):
        return probe if _fits(probe) else _without_owners(probe)
    members = tuple(replace(each, partitions=None) for each in probe.members)
    bare = replace(_without_owners(probe), members=members)
    bare = _with_error(bare, "its members' partitions are left out because they are too many for one probe")
    if _fits(bare):
        return bare
    kept = _kept_members(members)
    said = f"{len(kept)} of its {len(probe.members)} members are reported because they are too many for one probe"
    return replace(_with_error(bare, said), members=kept)


def _kept_members(members: Sequence[ProbedMember]) -> tuple[ProbedMember, ...]:
    """Return the first members, as many as fit."""
    sizes = itertools.accumulate(len(encode(each)) + 1 for each in members)
    return tuple(itertools.compress(members, (size <= _PART_BYTES for size in sizes)))


def _without_owners(probe: Probe) -> Probe:
    if not probe.owners:
        return probe
    return _with_error(replace(probe, owners=UNSET), "owners are left out because they are too many for one probe")


def _with_error(probe: Probe, sentence: str) -> Probe:
    known = probe.errors if isinstance(probe.errors, tuple) else ()
    return replace(probe, errors=(*known, sentence))


def _fits(probe: Probe) -> bool:
    return len(encode(probe)) <= MAX_ROW_BYTES
