"""What to publish about a group, and when. Pure: times are arguments, `now` in seconds of any steady clock.

A reader that comes late, or misses a message, has the whole picture again within a minute.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import msgspec

from rebalance_exporters.prober.answers import UNSTABLE, Described, Listed
from rebalance_streaming.groups.events import Probe

#: Everything known is published again after this long.
AGAIN_SECONDS = 60.0
#: In an unstable state a reader is told sooner that it lasts.
UNSTABLE_AGAIN_SECONDS = 10.0

Offsets = dict[str, dict[str, int | None]]
PartitionKey = tuple[str, int]
_HEAD = frozenset({"schema", "probed_at_ms", "cluster", "group"})
_FIELDS = tuple(each.name for each in fields(Probe) if each.name not in _HEAD)


def probe_listed(cluster: str, listed: Listed, now_ms: int) -> Probe:
    """Return the probe of a group that was only listed: state, type and coordinator."""
    return Probe(
        probed_at_ms=now_ms,
        cluster=cluster,
        group=listed.group,
        state=listed.state,
        type=listed.type,
        coordinator_id=listed.coordinator_id,
    )


def probe_described(cluster: str, listed: Listed, described: Described, now_ms: int) -> Probe:
    """Return the probe of a classic group; without an answer its state was not asked and its members are unknown.

    A client that may not describe it still knows its state from the list. Only in the consumer protocol is the
    chosen protocol's name the assignor's.
    """
    if described.state is None:
        return Probe(
            probed_at_ms=now_ms,
            cluster=cluster,
            group=listed.group,
            state=listed.state if described.denied else msgspec.UNSET,
            type=listed.type,
            coordinator_id=listed.coordinator_id,
            members=None,
            errors=(described.error,) if described.error else (),
        )
    return Probe(
        probed_at_ms=now_ms,
        cluster=cluster,
        group=listed.group,
        state=described.state,
        type=listed.type,
        coordinator_id=listed.coordinator_id,
        protocol=described.protocol,
        assignor=described.protocol if described.protocol_type == "consumer" else None,
        members=described.members,
        errors=(),
    )


def asked_fields(probe: Probe) -> dict[str, Any]:
    """Return the fields of a probe that were asked, without those every probe has."""
    values = ((name, getattr(probe, name)) for name in _FIELDS)
    return {name: value for name, value in values if value is not msgspec.UNSET}


@dataclass(slots=True)
class _Published:
    fields: dict[str, Any] = field(default_factory=dict)
    at: float = float("-inf")


class Publications:
    """Remembers what was published last about each group."""

    def __init__(self) -> None:
        self._groups: dict[str, _Published] = {}

    def admit(self, probe: Probe, now: float) -> bool:
        """Whether to publish a probe: it says something new, or the last one was long ago. Counts as published then."""
        last = self._groups.setdefault(probe.group, _Published())
        asked = asked_fields(probe)
        wait = UNSTABLE_AGAIN_SECONDS if probe.state in UNSTABLE else AGAIN_SECONDS
        is_new = any(name not in last.fields or last.fields[name] != value for name, value in asked.items())
        if not is_new and now - last.at < wait:
            return False
        last.fields |= asked
        last.at = now
        return True

    def forget(self, present: Collection[str]) -> None:
        """Drop the memory of all groups but these."""
        for group in self._groups.keys() - set(present):
            del self._groups[group]


@dataclass(slots=True)
class _Position:
    """One of a partition's offsets, null when unknown, and the round in which it became that."""

    offset: int | None
    round: int


@dataclass(slots=True)
class _Told:
    """What a group was told: up to which round, of which topics, and when all of it."""

    round: int = 0
    topics: frozenset[str] = frozenset()
    all_at: float = float("-inf")


class OffsetPublications:
    """Remembers offsets of all partitions once, however many groups use them, and how far each group was told."""

    def __init__(self) -> None:
        self._round = 0
        self._positions: dict[str, dict[PartitionKey, _Position]] = {"end": {}, "stable": {}}
        self._told: dict[str, _Told] = {}

    def note(self, end: Mapping[PartitionKey, int | None], stable: Mapping[PartitionKey, int | None]) -> None:
        """Take in what one round of asking found; a partition that was not asked keeps what it had."""
        self._round += 1
        for kind, offsets in (("end", end), ("stable", stable)):
            positions = self._positions[kind]
            for key, offset in offsets.items():
                known = positions.get(key)
                if known is None or known.offset != offset:
                    positions[key] = _Position(offset, self._round)

    def choose(self, group: str, partitions: Mapping[str, int], now: float) -> tuple[Offsets, Offsets]:
        """Return a group's end and stable offsets that changed since it was last told, all of them when that is due.

        `partitions` is how many each of its topics has. The group counts as told.
        """
        told = self._told.setdefault(group, _Told())
        wanted = frozenset(partitions)
        is_due = now - told.all_at >= AGAIN_SECONDS
        since = {topic: told.round if topic in told.topics and not is_due else 0 for topic in wanted}
        end, stable = (self._changed(kind, since, partitions) for kind in ("end", "stable"))
        self._told[group] = _Told(self._round, wanted, now if is_due else told.all_at)
        return end, stable

    def _changed(self, kind: str, since: Mapping[str, int], partitions: Mapping[str, int]) -> Offsets:
        positions = self._positions[kind]
        changed: Offsets = {}
        for topic, told_round in since.items():
            for partition in range(partitions.get(topic, 0)):
                position = positions.get((topic, partition))
                if position is not None and position.round > told_round:
                    changed.setdefault(topic, {})[str(partition)] = position.offset
        return changed

    def forget(self, groups: Collection[str], topics: Collection[str]) -> None:
        """Drop the memory of all groups and topics but these."""
        self._told = {group: told for group, told in self._told.items() if group in groups}
        for kind, positions in self._positions.items():
            self._positions[kind] = {key: position for key, position in positions.items() if key[0] in topics}
