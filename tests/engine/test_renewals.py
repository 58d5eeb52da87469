"""What stands is published again once a day: topics drop rows that nobody renews."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from engine.driving import config
from histories import CLUSTER, HOUR, MINUTE, SECOND, T0, member, picture, pulse, rebalance
from rebalance_contract import Finding, GroupImpact, GroupLag
from rebalance_streaming.engine.engine import Engine
from rebalance_streaming.engine.rows import Output

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
