"""What a rebalance spent its time on, as a table: pure."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_contract import Generation, GroupType, Rebalance
from rebalance_exporters.terminal.figures import UNKNOWN, Clock, span
from rebalance_exporters.terminal.report import Column, Grid
from rebalance_exporters.terminal.words import bounds

_COLUMNS = (Column("PHASE"), Column("DURATION", right=True), Column("UNTIL"))

_Row = tuple[str, str, str]


def tell_phases(rebalance: Rebalance, clock: Clock) -> Grid:
    """Return one row per phase, in order of time; of a classic group one more for each later generation."""
    rows = _tell_classic(rebalance, clock) if rebalance.type == GroupType.CLASSIC else _tell_newer(rebalance, clock)
    return Grid("Phases", _COLUMNS, (*rows, *_tell_end(rebalance)))


def _tell_classic(rebalance: Rebalance, clock: Clock) -> Iterator[_Row]:
    first, *later = rebalance.generations
    released_ms = rebalance.join_ended_at_ms
    if not rebalance.members_after and not later:
        yield "until nobody was left", _since_start(rebalance, rebalance.completed_at_ms), _at(released_ms, clock)
        return
    yield "join: until all members were there", _since_start(rebalance, released_ms), _at(released_ms, clock)
    if rebalance.sync_ms is not None:
        yield "sync: the leader assigns the partitions", span(rebalance.sync_ms), _at(first.assigned_at_ms, clock)
    before_ms = first.assigned_at_ms
    for each in later:
        yield _tell_generation(each, before_ms, clock)
        before_ms = each.assigned_at_ms


def _tell_newer(rebalance: Rebalance, clock: Clock) -> Iterator[_Row]:
    assigned_ms = rebalance.generations[-1].assigned_at_ms if rebalance.generations else None
    if rebalance.assigning_ms is not None:
        yield "assigning: the coordinator decides", span(rebalance.assigning_ms), _at(assigned_ms, clock)
    if rebalance.reconciling_ms is not None:
        what = "reconciling: members hand over and take up"
        yield what, span(rebalance.reconciling_ms), _at(rebalance.completed_at_ms, clock)


def _tell_generation(generation: Generation, before_ms: int | None, clock: Clock) -> _Row:
    aborted = f", {generation.aborted_before} before it without an assignment" if generation.aborted_before else ""
    what = f"generation {generation.generation}: {generation.reason.replace('_', ' ')}{aborted}"
    if before_ms is None or generation.assigned_at_ms is None:
        return what, UNKNOWN, _at(generation.assigned_at_ms, clock)
    return what, span(max(0, generation.assigned_at_ms - before_ms)), _at(generation.assigned_at_ms, clock)


def _tell_end(rebalance: Rebalance) -> Iterator[_Row]:
    if rebalance.completed_at_ms is None:
        yield "still going on", UNKNOWN, UNKNOWN


def _since_start(rebalance: Rebalance, until_ms: int | None) -> str:
    if until_ms is None:
        return UNKNOWN
    low_ms = max(0, until_ms - rebalance.started_before_ms)
    earliest = rebalance.started_after_ms
    return bounds(low_ms, None if earliest is None else max(low_ms, until_ms - earliest))


def _at(at_ms: int | None, clock: Clock) -> str:
    return UNKNOWN if at_ms is None else clock.time(at_ms)
