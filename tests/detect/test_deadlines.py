"""What time alone changes is found in time, in groups that rebalanced lately and of which nothing new is heard."""

from __future__ import annotations

from dataclasses import replace

import pytest

from detect.turnover import Run, outage
from histories import MINUTE, SECOND, T0, Event, commits, joined, lost, member, probe, pulse, report, snapshot
from rebalance_contract import Severity

A, B = member("a-1", [0, 1]), member("b-1", [2, 3])


@pytest.mark.parametrize("apart_ms", [0, 7 * SECOND])
def test_groups_are_told_at_once_that_the_cluster_is_disturbed(apart_ms: int):
    """Their findings have it as their parent a second later, even if none lost a member at the same moment."""
    run = Run().live(T0 + 2 * MINUTE + 20 * SECOND, *outage(3, 2, apart_ms=apart_ms))
    while all(each.group for each in run.detector.findings.all()):
        run.live(run.now_ms + SECOND)
        assert run.now_ms < T0 + 4 * MINUTE
    run.live(run.now_ms + SECOND)
    of_groups = [each for each in run.detector.findings.all() if each.group]
    assert len(of_groups) == 3
    assert all(each.parent for each in of_groups)


def test_what_time_alone_brings_about_is_judged_in_time():
    """Of a group that rebalanced lately, of which nothing new is heard: harm begins, and a join phase is not seen on.

    Consumption stands still for five minutes although records arrived, and the prober dies while members join.
    """
    slow = replace(B, rebalance_timeout_ms=30_000)
    worked = [*pulse(T0, T0 + MINUTE, [0, 1, 2, 3]), *pulse(T0 + MINUTE, T0 + 100 * SECOND, [0, 1])]
    # Once the loss is judged and published, there are new records for a minute.
    ends = {at: dict.fromkeys((0, 1), 100 + min(at, 50) + max(0, min(at, 200) - 130)) for at in range(0, 420, 10)}
    settled = [probe(T0 + at * SECOND, "Stable", [A] if at > 93 else [A, slow], ends=ends[at]) for at in ends]
    gone = [lost(T0 + 90 * SECOND, slow, [A, slow]), snapshot(T0 + 93 * SECOND, A, generation=2)]
    stands = commits(T0 + 100 * SECOND, {0: 150, 1: 150})
    run = Run().live(T0 + 399 * SECOND, snapshot(T0, A, slow), *worked, *settled[:40], *gone, stands)
    assert {each.severity for each in run.published if each.primary} == {Severity.TICKET}
    run.live(T0 + 401 * SECOND, settled[40])
    assert run.finding("poll_overrun").severity == Severity.PAGE

    begun = [probe(T0 + at * SECOND, "PreparingRebalance", [A, B]) for at in range(180, 240, 5)]
    met = [snapshot(T0, A), joined(T0 + MINUTE, B, [A]), snapshot(T0 + 63 * SECOND, A, B, generation=2)]
    run = Run().live(T0 + 4 * MINUTE, *met, *begun)
    assert run.finding("stalled_member_join_barrier").state == "firing"
    run.live(T0 + 6 * MINUTE)
    assert run.finding("stalled_member_join_barrier").state == "resolved"


def test_a_rewind_ends_ten_minutes_later_though_nothing_arrives():
    """Of a group that rebalanced after it."""
    worked = [commits(at, dict.fromkeys(range(4), 1000 + (at - T0) // SECOND)) for at in range(T0, T0 + 180_000, 5_000)]
    ends = [probe(at, "Stable", ends=dict.fromkeys(range(4), 5_000)) for at in range(T0, T0 + 4 * MINUTE, 10 * SECOND)]
    rewound, gone = commits(T0 + 181 * SECOND, {0: 100}), lost(T0 + 4 * MINUTE, B, [A, B])
    run = Run().live(T0 + 12 * MINUTE, snapshot(T0, A, B), *worked, *ends, rewound, gone)
    assert run.finding("offset_rewind").state == "firing"
    run.live(T0 + 14 * MINUTE)
    assert run.finding("offset_rewind").state == "resolved"


def test_a_report_completes_a_crash_loop():
    """Two deaths and the starts of four processes: the third death was not seen."""
    events: list[Event] = [snapshot(T0, A)]
    for turn, (came_s, left_s) in enumerate(((120, 150), (180, 210), (250, 280)), 1):
        each = member(f"b-{turn}", [2, 3])
        events += [joined(T0 + came_s * SECOND, each, [A]), lost(T0 + left_s * SECOND, each, [A, each])]
    started = [
        report(T0 + at * SECOND, member("b-9"), process_start_ms=T0 + at * SECOND, pid=at, member_id=None)
        for at in (175, 245, 370)
    ]
    run = Run().live(T0 + 6 * MINUTE, *events, *started[:2])
    assert "crash_loop" not in run.rules()
    run.live(T0 + 7 * MINUTE, started[2])
    assert run.finding("crash_loop").primary


def test_a_rebalance_that_goes_on_becomes_a_storm_by_its_duration_alone():
    """A KIP-848 group that nobody probes: once it has rebalanced for three of the last ten minutes."""
    kind = {"type": "consumer", "protocol": "uniform"}
    earlier = lost(T0 + MINUTE, B, [A, B], took_ms=30 * SECOND, **kind)
    lasting = joined(T0 + 3 * MINUTE, B, [A], outcome="ongoing", completed_at_ms=None, join_ended_at_ms=None, **kind)
    run = Run().live(T0 + 5 * MINUTE + 29 * SECOND, snapshot(T0, A, B, **kind), earlier, lasting)
    assert "rebalance_storm" not in run.rules()
    run.live(T0 + 5 * MINUTE + 35 * SECOND)
    assert run.finding("rebalance_storm").state == "firing"
