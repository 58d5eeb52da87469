"""Sliding windows over record time: a ring of 10 s panes per group, summed to any window up to 15 minutes.

The order of additions does not matter, and the only clock is the given one, so a replay ends with the same panes as the
live stream. Panes are part of the group's snapshot; a reader sums a window up to its own present time, so the windows
of a silent group become empty without an update.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rebalance_contract import KEPT_PANES, PANE_MS, WINDOWS_MS, Pane, Panes

#: How far ahead of the reader's clock a record's time may be.
TOLERATED_FUTURE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Window:
    """Sums over one window. `rebalancing_ratio` is the share of the window's time spent rebalancing, 0 to 1."""

    generations_completed: int
    generations_aborted: int
    rebalances: int
    rebalancing_ratio: float


def add(
    panes: Panes,
    at_ms: int,
    now_ms: int,
    *,
    generations_completed: int = 0,
    generations_aborted: int = 0,
    rebalances: int = 0,
) -> Panes:
    """Count an event at `at_ms`. One dated too far after `now_ms` counts as of now; one older than the ring as late."""
    counted_ms = believed(at_ms, now_ms)
    panes = replace(panes, future=panes.future + (counted_ms != at_ms))
    start = counted_ms - counted_ms % PANE_MS
    if panes.panes and start <= panes.panes[-1].start_ms - KEPT_PANES * PANE_MS:
        return replace(panes, late=panes.late + 1)
    delta = Pane(start, generations_completed, generations_aborted, rebalances)
    return replace(panes, panes=_merge(panes.panes, [delta]))


def add_rebalancing(panes: Panes, from_ms: int, to_ms: int, now_ms: int) -> Panes:
    """Spread a period of rebalancing over the panes it covers; the part that is older than the ring is dropped."""
    end = believed(to_ms, now_ms)
    newest = max([end, *(pane.start_ms for pane in panes.panes[-1:])])
    begin = max(from_ms, newest - newest % PANE_MS - (KEPT_PANES - 1) * PANE_MS)
    deltas = []
    while begin < end:
        start = begin - begin % PANE_MS
        until = min(end, start + PANE_MS)
        deltas.append(Pane(start, rebalancing_ms=until - begin))
        begin = until
    return replace(panes, panes=_merge(panes.panes, deltas)) if deltas else panes


def windows_at(panes: Panes, now_ms: int, rebalancing_since_ms: int | None = None) -> dict[str, Window]:
    """Return the sums of every window that ends at `now_ms`.

    `rebalancing_since_ms`: start of the ongoing rebalance, which is not in the panes yet; null: none.
    """
    return {name: _sum(panes, now_ms, length, rebalancing_since_ms) for name, length in WINDOWS_MS.items()}


def _sum(panes: Panes, now_ms: int, length_ms: int, since_ms: int | None) -> Window:
    oldest = now_ms - length_ms
    completed = aborted = rebalances = rebalancing_ms = 0
    # One pass in plain Python: an exporter does this three times per group that changed.
    for pane in panes.panes:
        if pane.start_ms + PANE_MS > oldest:
            completed += pane.generations_completed
            aborted += pane.generations_aborted
            rebalances += pane.rebalances
            rebalancing_ms += pane.rebalancing_ms
    going_on = 0 if since_ms is None else max(0, now_ms - max(since_ms, oldest))
    return Window(completed, aborted, rebalances, min(1.0, (rebalancing_ms + going_on) / length_ms))


def believed(at_ms: int, now_ms: int) -> int:
    """Return the time of an event (epoch ms), which is `now_ms` for one dated too far after that."""
    return at_ms if at_ms <= now_ms + TOLERATED_FUTURE_MS else now_ms


def _merge(panes: tuple[Pane, ...], deltas: list[Pane]) -> tuple[Pane, ...]:
    by_start = {pane.start_ms: pane for pane in panes}
    for delta in deltas:
        old = by_start.get(delta.start_ms, Pane(delta.start_ms))
        by_start[delta.start_ms] = Pane(
            delta.start_ms,
            old.generations_completed + delta.generations_completed,
            old.generations_aborted + delta.generations_aborted,
            old.rebalances + delta.rebalances,
            old.rebalancing_ms + delta.rebalancing_ms,
        )
    newest = max(by_start)
    return tuple(by_start[start] for start in sorted(by_start) if start > newest - KEPT_PANES * PANE_MS)
