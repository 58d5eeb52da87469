"""What stands is published again once a day: topics drop rows that nobody renews."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from engine.driving import config
from histories import CLUSTER, GROUP, HOUR, MINUTE, SECOND, T0, commits, member, picture, pulse, rebalance
from rebalance_contract import Finding, FindingState, GroupImpact, GroupLag
from rebalance_streaming.engine.engine import Engine
from rebalance_streaming.engine.rows import GroupGone, Output, RowGone, address

A, B = member("a-1", [0], session_timeout_ms=5_000), member("b-1", [1], session_timeout_ms=5_000)


def quiet() -> tuple[Engine, int]:
    """Return an engine that knows a group which rebalanced and has been quiet for hours, and the time."""
    engine = Engine(replace(config(), cluster=CLUSTER))
    for row in (
        *pulse(T0 - MINUTE, T0, [0, 1]),
        picture(T0, A, B),
        rebalance(T0, [A], [A, B]),
        *pulse(T0 + 20 * SECOND, T0 + MINUTE, [0, 1]),
    ):
        engine.apply(row, T0)
    now_ms = T0
    while now_ms < T0 + 2 * HOUR:
        now_ms += MINUTE
        engine.advance(now_ms)
    return engine, now_ms


def kinds(rows: list[Output]) -> Counter[type]:
    return Counter(type(each) for each in rows if isinstance(each, GroupLag | GroupImpact | Finding))


def test_each_row_that_stands_comes_again_within_a_day_and_once():
    """Lag, totals and what is firing; the rows are those of before."""
    engine, now_ms = quiet()
    told = [each for minute in range(1, 24 * 60 + 1) for each in engine.advance(now_ms + minute * MINUTE)]
    assert kinds(told) == {GroupLag: 1, GroupImpact: 1, Finding: 1}


def test_of_a_group_that_is_forgotten_nothing_stays():
    """Its rows get tombstones, once, and none of another cluster's; none of them is renewed."""
    engine, now_ms = quiet()
    engine.apply(GroupGone("another", GROUP), now_ms)
    engine.apply(GroupGone(CLUSTER, GROUP), now_ms)
    told = [each for minute in range(1, 24 * 60 + 1) for each in engine.advance(now_ms + minute * MINUTE)]
    gone = [address(each) for each in told if isinstance(each, RowGone)]
    assert sorted(gone) == [(topic, f"{CLUSTER}/{GROUP}", None) for topic in ("heartbeats", "impact", "lag")]
    assert [each.state for each in told if isinstance(each, Finding)] == [FindingState.RESOLVED]
    assert set(kinds(told)) == {Finding}


def test_a_group_that_comes_back_stands_after_the_tombstones():
    """It is deleted, forgotten and there again before anything is told: its new rows are the last under their keys."""
    engine, now_ms = quiet()
    engine.apply(GroupGone(CLUSTER, GROUP), now_ms)
    engine.apply(picture(now_ms, A), now_ms)
    told = [address(each) for each in engine.advance(now_ms + MINUTE)]
    latest = {(topic, key): value for topic, key, value in told}
    assert latest["lag", f"{CLUSTER}/{GROUP}"] is not None
    assert latest["impact", f"{CLUSTER}/{GROUP}"] is None


def test_a_group_of_which_only_a_row_is_left_is_not_renewed():
    """Its last offsets expired and it has no record: what an earlier run told of it may go when the topic drops it."""
    engine, now_ms = quiet()
    lag = next(each for each in engine.finish(now_ms) if isinstance(each, GroupLag))
    again = Engine(replace(config(), cluster=CLUSTER))
    again.restore(lag)
    deleted = commits(now_ms, dict.fromkeys([0, 1]))
    again.apply(replace(deleted, last_log_offset=(lag.last_log_offset or 0) + 1), now_ms)
    told = [each for minute in range(1, 48 * 60 + 1) for each in again.advance(now_ms + minute * MINUTE)]
    lags = [each for each in told if isinstance(each, GroupLag)]
    assert not any(each.topics for each in lags)
    # While it slides out of the windows.
    assert max(each.at_ms for each in lags) <= now_ms + 20 * MINUTE
