"""Commits with times ahead of all others: clocks of clients and coordinators may be wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.driving import config
from histories import CLUSTER, GROUP, HOUR, SECOND, T0
from rebalance_contract import (
    CommitActivity,
    GroupLag,
    GroupWindow,
    OffsetActivity,
    TopicCommits,
    TopicOffsets,
)
from rebalance_streaming.engine.engine import Engine


def commit(number: int, stated_ms: int, recorded_ms: int) -> CommitActivity:
    topic = TopicCommits([0], [number], [stated_ms], [stated_ms], [number], [1])
    counts = ((recorded_ms - recorded_ms % 5_000, 1),)
    return CommitActivity(CLUSTER, GROUP, 7, number, number, 5_000, counts, {"orders": topic})


def probe(end: int, at_ms: int) -> OffsetActivity:
    return OffsetActivity(CLUSTER, GROUP, at_ms, ends={"orders": TopicOffsets([0], [end])})


def windows(ahead: CommitActivity) -> dict[str, GroupWindow]:
    """Return the windows of a group with growing lag after half an hour that began with a row with a time ahead."""
    engine = Engine(replace(config(), cluster=CLUSTER))
    engine.apply(probe(100, T0), T0)
    engine.apply(commit(1, T0, T0), T0)
    engine.apply(ahead, T0 + SECOND)
    at_ms = T0
    for number in range(3, 63):
        at_ms += 30 * SECOND
        engine.apply(probe(1_000 * number, at_ms), at_ms)
        engine.apply(commit(number, at_ms + 5 * SECOND, at_ms + 5 * SECOND), at_ms + 5 * SECOND)
        engine.advance(at_ms + 6 * SECOND)
    (lag,) = [each for each in engine.finish(at_ms + 6 * SECOND) if isinstance(each, GroupLag)]
    return lag.windows


@pytest.mark.parametrize(
    "ahead",
    [
        pytest.param(commit(2, T0 + 6 * HOUR, T0 + SECOND), id="a client states its own time"),
        pytest.param(commit(2, T0 + 6 * HOUR, T0 + 6 * HOUR), id="a coordinator's clock"),
    ],
)
def test_a_time_ahead_stops_no_window(ahead: CommitActivity):
    """They would have no commits and no lag for six hours."""
    usual, found = windows(commit(2, T0 + SECOND, T0 + SECOND)), windows(ahead)
    assert (usual["5m"].commits, usual["5m"].lag_max) == (10, 62_000 - 61)
    assert found == usual


def test_a_pane_slightly_ahead_stays_where_it_is():
    """Clocks differ by seconds: as in the windows of rebalances, a minute is taken as it is."""
    engine = Engine(replace(config(), cluster=CLUSTER))
    engine.apply(commit(1, T0 + 50 * SECOND, T0 + 50 * SECOND), T0)
    assert engine._lag.pane_times(GROUP) == [(T0 + 50 * SECOND) // 10_000 * 10_000]
