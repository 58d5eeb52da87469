"""Decides what to publish about a group, and when. Pure: times are arguments, `now` in seconds of any steady clock."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import Any

import msgspec

from rebalance_contract import CONSUMER_PROTOCOL, UNSETTLED_STATES, Probe
from rebalance_exporters.prober.answers import Described, Listed
from rebalance_exporters.prober.repeats import RepeatSchedule

#: Interval for unstable groups, so that readers learn sooner that the state lasts.
UNSTABLE_AGAIN_SECONDS = 10.0

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
    """Return the probe of a described group; without an answer its state is not set and its members are unknown.

    If the client may not describe the group, its state is taken from the list. Only in the consumer protocol is the
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
        assignor=described.protocol if described.protocol_type in ("", CONSUMER_PROTOCOL) else None,
        group_epoch=msgspec.UNSET if described.epoch is None else described.epoch,
        members=described.members,
        errors=(),
    )


def asked_fields(probe: Probe) -> dict[str, Any]:
    """Return the fields of a probe that were requested, without those that every probe has."""
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
        self._repeats = RepeatSchedule()

    def admit(self, probe: Probe, now: float) -> bool:
        """Return whether to publish a probe: it has news, or the last one is old. If so it counts as published."""
        last = self._groups.setdefault(probe.group, _Published())
        asked = asked_fields(probe)
        lasts = probe.state in UNSETTLED_STATES and now - last.at >= UNSTABLE_AGAIN_SECONDS
        is_new = any(name not in last.fields or last.fields[name] != value for name, value in asked.items())
        if not self._repeats.take_turn(probe.group, now) and not is_new and not lasts:
            return False
        last.fields |= asked
        last.at = now
        return True

    def forget(self, present: Collection[str]) -> None:
        """Forget all groups except these."""
        for group in self._groups.keys() - set(present):
            del self._groups[group]
        self._repeats.forget(present)
