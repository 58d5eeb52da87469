"""Splits probes into packed rows with the offsets of partitions, and one row with the other answers about a group.

Takes the text of one message of the probes topic; returns rows of the contract. Implausible values are rejected or
corrected: offsets and partition numbers must be in Kafka's ranges, and no probe is from the future.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from rebalance_contract import (
    MAX_ACTIVITY_BYTES,
    OFFSET_FIELDS,
    ContractError,
    OffsetActivity,
    Probe,
    ProbeActivity,
    TopicOffsets,
    decode,
)
from rebalance_streaming.wire.records import LONGEST_TOPIC

#: Maximum number of partitions, higher than in any topic that a group is known to read. A higher partition number is a
#: mistake or an attack, and memory use grows with it.
MOST_PARTITIONS = 20_000
MAX_OFFSET = 2**62
#: Maximum size of a partition in JSON: its number and its offset.
_BYTES_PER_PARTITION = 32

Offsets = dict[str, dict[str, int | None]]


def unpack_probe(
    text: bytes, cluster: str, recorded_ms: int, read_ms: int
) -> Iterator[tuple[str, OffsetActivity | ProbeActivity]]:
    """Yield (key, row) for a probe's content; nothing for a probe of another cluster. Raises ContractError.

    `recorded_ms` is the time of its record, `read_ms` the time of reading; the earlier one limits the probe's own time.
    """
    probe = decode(text, Probe)
    if probe.cluster != cluster:
        return
    # A prober's clock that is ahead must not suppress later probes.
    probe = replace(probe, probed_at_ms=max(0, min(probe.probed_at_ms, recorded_ms, read_ms)))
    yield from ((probe.group, row) for row in _offsets(probe))
    nothing: dict[str, Any] = dict.fromkeys(OFFSET_FIELDS, msgspec.UNSET)
    rest = replace(probe, **nothing)
    if rest != Probe(probed_at_ms=probe.probed_at_ms, cluster=probe.cluster, group=probe.group, schema=probe.schema):
        yield probe.group, ProbeActivity(rest)


def _offsets(probe: Probe) -> Iterator[OffsetActivity]:
    row = OffsetActivity(probe.cluster, probe.group, probe.probed_at_ms)
    if isinstance(probe.end_offsets, dict):
        yield from (replace(row, ends=part) for part in _parts(probe.end_offsets))
    if isinstance(probe.stable_offsets, dict):
        yield from (replace(row, stable_ends=part) for part in _parts(probe.stable_offsets))
    if isinstance(probe.start_offsets, dict):
        yield from (replace(row, starts=part) for part in _parts(probe.start_offsets))
    if isinstance(probe.committed_offsets, dict):
        # An empty row reports that the coordinator has no committed offsets.
        held = [*_parts(probe.committed_offsets)] or [{}]
        yield from (replace(row, committed=part, is_all_committed=True) for part in held)


def _parts(reported: Offsets) -> Iterator[dict[str, TopicOffsets]]:
    """Yield offsets split into parts that each fit into a row of the activity topic."""
    part: dict[str, TopicOffsets] = {}
    size, limit = 0, MAX_ACTIVITY_BYTES // 2
    for topic, offsets in reported.items():
        if len(topic) > LONGEST_TOPIC:
            raise ContractError("a topic's name has more than 249 characters, which Kafka does not allow")
        rows = sorted((_partition(name), _offset(offset)) for name, offset in offsets.items())
        at_once = limit // _BYTES_PER_PARTITION
        for start in range(0, max(1, len(rows)), at_once):
            chunk = rows[start : start + at_once]
            cost = len(topic) + _BYTES_PER_PARTITION * (1 + len(chunk))
            if part and (size + cost > limit or topic in part):
                yield part
                part, size = {}, 0
            part[topic] = TopicOffsets([p for p, _ in chunk], [None if o < 0 else o for _, o in chunk])
            size += cost
    if part:
        yield part


def _partition(name: str) -> int:
    if not name.isascii() or not name.isdigit() or len(name) > 9 or int(name) >= MOST_PARTITIONS:
        raise ContractError(f"{name[:40]!r} is no partition number below {MOST_PARTITIONS}")
    return int(name)


def _offset(offset: int | None) -> int:
    """Return an offset, or -1 if it is not known."""
    if offset is None:
        return -1
    if not 0 <= offset <= MAX_OFFSET:
        raise ContractError(f"{offset} is no offset")
    return offset
