"""Rebalances that Kafka Streams and Kafka Connect plan themselves."""

from __future__ import annotations

from typing import Any

import pytest

from detect.standing_histories import replayed
from detect.views import said_by, view_of
from histories import MINUTE, SECOND, T0, Event, history, member, rebalance, snapshot
from rebalance_contract import Generation, Rebalance, Severity
from rebalance_streaming.detect.rules.scheduled import connect_scheduled_rebalance, streams_probing_rebalance
from rebalance_streaming.observed.confidence import PLAUSIBLE, STRONG
from rebalance_streaming.observed.history import GroupHistory

A, B = member("a-StreamThread-1", [0]), member("b-StreamThread-1", [1])


def internal(at_ms: int, reason: str = "streams_internal", *, protocol: str = "stream", **changes: Any) -> Rebalance:
    return rebalance(
        at_ms,
        [A, B],
        [A, B],
        took_ms=2 * SECOND,
        **{"reason": reason, "generations": (Generation(2, reason),), "protocol": protocol, **changes},
    )


def probing(*spacings_s: int, **changes: Any) -> GroupHistory:
    """Return a scale-out followed by rebalances at these intervals."""
    at_ms = T0
    events: list[Event] = [rebalance(at_ms, [A], [A, B], took_ms=2 * SECOND, protocol="stream")]
    for spacing in spacings_s:
        at_ms += spacing * SECOND
        events.append(internal(at_ms, **changes))
    return history(snapshot(at_ms, A, B, protocol="stream"), *events)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param(probing(600), (1, STRONG, Severity.INFO), id="once, ten minutes after a scale-out"),
        pytest.param(probing(602, 603, 602), (3, STRONG, Severity.INFO), id="three times"),
        pytest.param(probing(*[602] * 14), (14, STRONG, Severity.TICKET), id="for more than two hours"),
        pytest.param(probing(122, 122, 122), (3, PLAUSIBLE, Severity.INFO), id="every two minutes"),
        pytest.param(probing(122, 300, 77), None, id="at random"),
        pytest.param(probing(10, 10, 10, 10), None, id="seconds apart"),
        pytest.param(probing(602, protocol="cooperative-sticky"), None, id="no Streams"),
        pytest.param(probing(602, joined=("c-1",)), None, id="somebody came"),
        pytest.param(probing(602, reason="leader_rejoin"), None, id="another reason"),
    ],
)
def test_streams_probes_every_ten_minutes(known: GroupHistory, expected: tuple[int, float, str] | None):
    """Regular intervals without any change, from assignment to assignment; the finding claims these rebalances."""
    found = list(streams_probing_rebalance(view_of(known, T0 + 300 * MINUTE)))
    assert [(len(each.rebalance_ids), each.confidence, each.severity) for each in found] == (
        [] if expected is None else [expected]
    )
    assert all(each.claims for each in found)


def connected(delay_s: int, *, reason: str = "connect_internal", left: bool = True) -> GroupHistory:
    before = [A, B, member("c-1")] if left else [A, B]
    events = [
        rebalance(T0, before, [A, B], took_ms=SECOND, protocol="sessioned"),
        internal(T0 + SECOND + delay_s * SECOND, reason, protocol="sessioned"),
    ]
    return history(snapshot(T0, A, B, protocol="sessioned", protocol_type="connect"), *events)


@pytest.mark.parametrize(
    ("known", "confidence"),
    [
        pytest.param(connected(301), STRONG, id="the default delay"),
        pytest.param(connected(60), PLAUSIBLE, id="a shorter delay"),
        pytest.param(connected(900), None, id="much later"),
        pytest.param(connected(3), None, id="at once: belongs to the departure"),
        pytest.param(connected(301, left=False), None, id="nobody left"),
        pytest.param(connected(301, reason="leader_rejoin"), None, id="no Connect"),
    ],
)
def test_connect_hands_out_tasks_after_a_delay(known: GroupHistory, confidence: float | None):
    """A worker left, and the remaining workers rebalance once more after scheduled.rebalance.max.delay."""
    found = list(connect_scheduled_rebalance(view_of(known, T0 + 20 * MINUTE)))
    assert [each.confidence for each in found] == ([] if confidence is None else [confidence])
    for each in found:
        assert each.rebalance_ids == (known.in_order()[-1].rebalance_id,)
        assert each.claims


def test_a_recorded_worker_is_waited_for():
    """Recorded: two workers, one stops; after the configured delay of 8 s the other takes its tasks."""
    known = replayed("connect-workers")
    assert known.snapshot is not None
    (found,) = connect_scheduled_rebalance(view_of(known, T0))
    (late,) = [each for each in known.in_order() if each.reason == "connect_internal"]
    assert found.rebalance_ids == (late.rebalance_id,)
    assert "waited 8.0 s" in found.summary


def test_recorded_streams_and_consumers_plan_nothing():
    """Recorded: Streams instances that join and leave within a minute, and plain consumers."""
    for scenario in ("streams-classic-protocol", "classic-java-coop-join-leave", "enforce-rebalance-java-sticky"):
        known = replayed(scenario)
        assert said_by(connect_scheduled_rebalance, streams_probing_rebalance, of=view_of(known, T0)) == []
