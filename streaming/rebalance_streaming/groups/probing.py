"""What a probe adds to the log: that a classic rebalance is going on, and since when.

The states between two records of a classic group exist in the coordinator's memory only (KIP-429, Kafka: ClassicGroup);
a probe that saw the group stable and a later one that saw it preparing give bounds of the start. Probes may arrive
before or after the record they belong to: their own time decides, so the bounds are the same either way.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from rebalance_contract import SETTLED_STATES, STATES_OF, GroupType, Probe, Rebalance, read_state
from rebalance_streaming.groups import windows
from rebalance_streaming.groups.episodes import changed_rebalance, settlement_of, timed
from rebalance_streaming.groups.model import FoldDraft, FoldState
from rebalance_streaming.groups.topic_names import take_probed_names

#: The states of a classic group that are taken from probes.
_STATES = frozenset(STATES_OF[GroupType.CLASSIC])


def observe(state: FoldState, probe: Probe) -> tuple[FoldState, tuple[Rebalance, ...]]:
    """Process a probe. Return the new state and the rebalance whose bounds it narrowed, if any."""
    if state.sighting.probed_ms is not None and probe.probed_at_ms <= state.sighting.probed_ms:
        return state, ()
    draft = FoldDraft.of(state)
    note_surroundings(draft, probe)
    _see_state(draft, probe)
    draft.snapshot = replace(draft.snapshot, settlement=settlement_of(draft.episode))
    return draft.state(), changed_rebalance(state, draft)


def note_surroundings(draft: FoldDraft, probe: Probe) -> None:
    """Note in a draft that the group was probed, who coordinates it, and the names of topics."""
    draft.sighting = replace(draft.sighting, probed_ms=probe.probed_at_ms)
    if probe.coordinator_id is not msgspec.UNSET:
        draft.snapshot = replace(draft.snapshot, coordinator=probe.coordinator_id)
    if probe.topic_ids is not msgspec.UNSET:
        take_probed_names(draft, {topic_id: name for name, topic_id in probe.topic_ids.items()})


def _see_state(draft: FoldDraft, probe: Probe) -> None:
    name = read_state(probe.state) if isinstance(probe.state, str) else None
    if name not in _STATES or draft.snapshot.type not in (None, GroupType.CLASSIC):
        return
    settled, at_ms = name in SETTLED_STATES, probe.probed_at_ms
    if not settled and isinstance(probe.settled_at_ms, int):
        _see_settled(draft, probe.settled_at_ms)
    known_ms = draft.snapshot.updated_at_ms
    if known_ms is not None and at_ms <= known_ms:
        _narrow(draft, at_ms, settled=settled)
        return
    since = None if settled else draft.sighting.rebalancing_ms or at_ms
    draft.sighting = replace(
        draft.sighting, settled_ms=at_ms if settled else draft.sighting.settled_ms, rebalancing_ms=since
    )
    if draft.snapshot.type == GroupType.CLASSIC:
        draft.snapshot = replace(draft.snapshot, state=name, rebalancing_since_ms=since)


def _see_settled(draft: FoldDraft, at_ms: int) -> None:
    """Note that the group was settled at a time for which no probe was published."""
    known_ms, settled_ms = draft.snapshot.updated_at_ms, draft.sighting.settled_ms
    if known_ms is not None and at_ms <= known_ms:
        _narrow(draft, at_ms, settled=True)
    elif settled_ms is None or at_ms > settled_ms:
        draft.sighting = replace(draft.sighting, settled_ms=at_ms)


def _narrow(draft: FoldDraft, at_ms: int, *, settled: bool) -> None:
    """Process a probe older than the last record: it may have seen the start of the rebalance that the record ended."""
    if draft.episode is None or draft.episode.settled:
        return
    rebalance = draft.episode.rebalance
    after_ms, before_ms = rebalance.started_after_ms, rebalance.started_before_ms
    if at_ms > before_ms or (after_ms is not None and at_ms <= after_ms):
        return
    after_ms, before_ms = (at_ms, before_ms) if settled else (after_ms, at_ms)
    narrowed = replace(rebalance, started_after_ms=after_ms, started_before_ms=before_ms)
    draft.episode = replace(draft.episode, rebalance=timed(narrowed))
    if before_ms < rebalance.started_before_ms:
        panes = windows.add_rebalancing(draft.snapshot.windows, before_ms, rebalance.started_before_ms, at_ms)
        draft.snapshot = replace(draft.snapshot, windows=panes)
