"""Heartbeat and poll timing of members and groups, as their clients report it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from histories import CLUSTER, GROUP, MINUTE, SECOND, T0, Event, history, member, report, snapshot
from rebalance_contract import GroupTiming, Member, MemberTiming
from rebalance_contract.clients import ASSIGNED, HEARTBEAT_AGE, HEARTBEAT_RATE, POLL_AGE, RESPONSE_MAX
from rebalance_streaming.observed.heartbeats import time_group
from rebalance_streaming.wire.metrics.report import ClientConfig, Point

NOW = T0 + 20 * MINUTE
A, B = member("a-1", [0]), member("b-1", [1])


def timed(*events: Event, members: tuple[Member, ...] = (A, B)) -> GroupTiming | None:
    return time_group(history(snapshot(T0, *members), *events), NOW)


def one(*events: Event, members: tuple[Member, ...] = (A, B)) -> MemberTiming:
    """Return the timing of the only member that reported."""
    timing = timed(*events, members=members)
    assert timing is not None
    (found,) = timing.members
    return found


def test_without_reports_there_is_no_timing():
    """The log has none; reports of others and those older than a quarter of an hour do not count."""
    assert timed() is None
    assert time_group(history(report(NOW, A)), NOW) is None
    assert timed(report(NOW, member("x-1"), {HEARTBEAT_AGE: 1.0})) is None
    assert timed(report(NOW - 15 * MINUTE - 1, A, {HEARTBEAT_AGE: 1.0})) is None
    assert timed(report(NOW - 15 * MINUTE, A, {HEARTBEAT_AGE: 1.0})) is not None


def test_a_member_as_it_last_reported():
    """Ages in milliseconds, headroom as the rest of session and poll interval, and the delay of the report."""
    values = {HEARTBEAT_AGE: 2.5, HEARTBEAT_RATE: 0.33, RESPONSE_MAX: 40.0, POLL_AGE: 60.0, ASSIGNED: 1.0}
    last = replace(report(NOW - SECOND, A, values, library="kafka-python", tick_late_ms=3), observed_ms=NOW - 400)
    timing = timed(report(NOW - MINUTE, A, {HEARTBEAT_AGE: 9.0}), last)
    assert timing is not None
    assert (timing.cluster, timing.group, timing.at_ms) == (CLUSTER, GROUP, NOW)
    assert timing.members == (
        MemberTiming(
            "a-1",
            "a",
            "/host-a",
            "kafka-python",
            NOW - SECOND,
            heartbeat_age_ms=2_500,
            heartbeat_headroom=0.75,
            heartbeat_rate=0.33,
            heartbeat_response_ms=40,
            poll_age_ms=60_000,
            poll_headroom=0.8,
            delivery_ms=600,
            tick_late_ms=3,
        ),
    )


def test_what_is_not_reported_is_null():
    """A missing age is not zero, and gives no headroom."""
    found = one(report(NOW, A))
    assert (found.heartbeat_age_ms, found.heartbeat_headroom, found.heartbeat_rate) == (None, None, None)
    assert (found.poll_age_ms, found.poll_headroom, found.heartbeat_response_ms) == (None, None, None)


def test_a_headroom_falls_below_nothing_when_the_session_has_passed():
    """12 s of a session of 10 s: it is exceeded by a fifth."""
    assert one(report(NOW, A, {HEARTBEAT_AGE: 12.0})).heartbeat_headroom == -0.2


@pytest.mark.parametrize("assigned", [0.0, None, 2.0])
def test_a_member_that_joins_sends_no_heartbeats_by_design(assigned: float | None):
    """Without partitions its age may grow: it is shown, but not compared with the session, and in no window."""
    values = {HEARTBEAT_AGE: 30.0} if assigned is None else {HEARTBEAT_AGE: 30.0, ASSIGNED: assigned}
    timing = timed(report(NOW, A, values))
    assert timing is not None
    joins = assigned == 0
    assert timing.members[0].heartbeat_age_ms == 30_000
    assert timing.members[0].heartbeat_headroom == (None if joins else -2.0)
    assert timing.windows["1m"].heartbeat_headroom == (None if joins else -2.0)
    assert timing.windows["1m"].heartbeat_age_max_ms == (None if joins else 30_000)
    assert timing.windows["1m"].reports == 1


def test_a_heartbeat_that_was_never_sent_has_no_age():
    """Clients report `never` before the first one: that is not an age since the epoch."""
    never = replace(report(NOW, A), points=(Point(HEARTBEAT_AGE, None, never=True),))
    assert one(never).heartbeat_age_ms is None


@pytest.mark.parametrize(
    ("changes", "config", "expected"),
    [
        ({}, ClientConfig(), 0.5),
        ({}, ClientConfig(session_timeout_ms=50_000), 0.5),
        ({"session_timeout_ms": None}, ClientConfig(session_timeout_ms=50_000), 0.9),
        ({"session_timeout_ms": None}, ClientConfig(), 0.889),
    ],
    ids=["record", "record before client", "client", "the broker's default"],
)
def test_the_session_is_the_groups_word(changes: dict[str, Any], config: ClientConfig, expected: float):
    """The coordinator uses the time-out in the join request; KIP-848 records lack it."""
    who = replace(A, **changes)
    assert one(report(NOW, who, {HEARTBEAT_AGE: 5.0}, config=config), members=(who,)).heartbeat_headroom == expected


@pytest.mark.parametrize(
    ("changes", "config", "expected"),
    [
        ({}, ClientConfig(), 0.8),
        ({}, ClientConfig(max_poll_interval_ms=120_000), 0.5),
        ({"client_id": "aiokafka-0.8.1", "rebalance_timeout_ms": 10_000}, ClientConfig(), None),
        ({"rebalance_timeout_ms": None}, ClientConfig(), None),
    ],
    ids=["record", "reported", "another timeout in the record", "no record"],
)
def test_the_poll_limit_is_the_clients_word(changes: dict[str, Any], config: ClientConfig, expected: float | None):
    """The records of most clients have it; aiokafka writes its session there."""
    who = replace(A, **changes)
    assert one(report(NOW, who, {POLL_AGE: 60.0}, config=config), members=(who,)).poll_headroom == expected


def test_windows_keep_the_worst_of_all_members():
    """The largest age and the least headroom of one, five and fifteen minutes, each member by its own limits."""
    slow = replace(B, session_timeout_ms=45_000, rebalance_timeout_ms=600_000)
    events = [
        report(NOW - 10 * MINUTE, A, {HEARTBEAT_AGE: 9.0, POLL_AGE: 200.0}),
        report(NOW - 3 * MINUTE, slow, {HEARTBEAT_AGE: 12.0, POLL_AGE: 240.0}),
        report(NOW - 2 * MINUTE, A, {HEARTBEAT_AGE: 6.0, POLL_AGE: 20.0}),
        report(NOW - 30 * SECOND, slow, {HEARTBEAT_AGE: 3.0}),
        report(NOW - 20 * SECOND, A, {HEARTBEAT_AGE: 1.0, POLL_AGE: 30.0}),
    ]
    timing = timed(*events, members=(A, slow))
    assert timing is not None
    assert timing.windows.keys() == {"1m", "5m", "15m"}
    read = {
        name: (each.heartbeat_age_max_ms, each.heartbeat_headroom, each.poll_gap_max_ms, each.poll_headroom)
        for name, each in timing.windows.items()
    }
    assert read["1m"] == (3_000, 0.9, 30_000, 0.9)
    assert read["5m"] == (12_000, 0.4, 240_000, 0.6)
    assert read["15m"] == (12_000, 0.1, 240_000, 0.333)
    assert [timing.windows[name].reports for name in ("1m", "5m", "15m")] == [2, 4, 5]


def test_a_member_keeps_its_clients_history_over_a_rejoin():
    """Under a new id it is the same process: its earlier reports count in the windows."""
    again = replace(A, member_id="a-2")
    timing = timed(
        report(NOW - 2 * MINUTE, A, {HEARTBEAT_AGE: 9.5}, pid=7),
        report(NOW, again, {HEARTBEAT_AGE: 0.5}, pid=7),
        members=(again,),
    )
    assert timing is not None
    assert [each.member_id for each in timing.members] == ["a-2"]
    assert timing.windows["5m"].heartbeat_age_max_ms == 9_500
