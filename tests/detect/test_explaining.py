"""When the causes of a group's rebalances are found again: seldom for old ones, but in time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from detect.turnover import Run, hear, outage
from histories import CLUSTER, GROUP, MINUTE, SECOND, T0, joined, lost, member, pulse, report, snapshot
from rebalance_contract import CoordinatorAct, CoordinatorActivity, CoordinatorEvent
from rebalance_contract.clients import HEARTBEAT_AGE, POLL_AGE
from rebalance_streaming.detect import explaining
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.rank import explain
from rebalance_streaming.detect.verdict import Verdict

A, B = member("a-1", [0, 1]), member("b-1", [2, 3])
#: The id of each rebalance, once for each time that it was explained.
Explained = Counter[str]


@pytest.fixture
def explained(monkeypatch: pytest.MonkeyPatch) -> Explained:
    """Count how often each rebalance is explained."""
    found = Explained()

    def count(of: Episode) -> tuple[Verdict, ...]:
        found[of.rebalance.rebalance_id] += 1
        return explain(of)

    monkeypatch.setattr(explaining, "explain", count)
    return found


def await_turn(run: Run, explained: Explained, rebalance_id: str) -> None:
    """Let the group's snapshot change each second until a rebalance has just been explained again."""
    before = explained[rebalance_id]
    while explained[rebalance_id] == before:
        (known,) = (each.history.snapshot for each in run.detector._judged_groups.values())
        assert known is not None
        changed = replace(known, generation=(known.generation or 0) + 1, updated_at_ms=run.now_ms)
        run.live(run.now_ms + SECOND, changed)


def test_a_group_that_rebalances_all_the_time_is_not_explained_all_the_time(explained: Explained):
    """Each rebalance is explained a dozen times, although the group is judged once a second while dozens are recent."""
    begun = range(T0 + MINUTE, T0 + 3 * MINUTE, 6 * SECOND)
    swings = [lost(at, B, [A, B]) if turn % 2 else joined(at, B, [A]) for turn, at in enumerate(begun)]
    shapes = [snapshot(at, A, generation=at) for at in range(T0, T0 + 3 * MINUTE, SECOND)]
    run = Run().live(T0 + 3 * MINUTE + 30 * SECOND, *shapes, *swings)
    assert len(run.causes()) == len(begun)
    assert max(explained.values()) <= 15


def test_what_arrives_late_explains_an_old_rebalance_within_half_a_minute(explained: Explained):
    """A line of the coordinator's log, when it was just explained and nothing else is new of the group."""
    gone = lost(T0 + MINUTE, B, [A, B])
    run = Run().live(T0 + 5 * MINUTE, snapshot(T0, A, B), *pulse(T0, T0 + MINUTE, [0, 1, 2, 3]), gone)
    await_turn(run, explained, gone.rebalance_id)
    assert run.causes() == {gone.rebalance_id: "scale_in"}
    line = CoordinatorEvent(gone.started_before_ms, CoordinatorAct.EXPIRED, member_id=B.member_id)
    run.detector.take_coordinator(CoordinatorActivity(CLUSTER, GROUP, T0 + MINUTE, (line,)))
    since_ms = run.now_ms
    run.live(since_ms + SECOND)
    assert run.causes() == {gone.rebalance_id: "scale_in"}
    run.live(since_ms + 35 * SECOND)
    assert run.causes() != {gone.rebalance_id: "scale_in"}


def test_a_later_rebalance_is_explained_again_with_the_one_it_builds_on(explained: Explained):
    """A loss is understood once its client has not reported for long enough; the return has the same cause at once."""
    slow = replace(B, session_timeout_ms=45_000)
    reports = [report(at, slow, {POLL_AGE: 0.5, HEARTBEAT_AGE: 1.0}, interval_ms=60_000) for at in (T0, T0 + MINUTE)]
    gone, back = (
        lost(T0 + 110 * SECOND, slow, [A, slow]),
        joined(T0 + 150 * SECOND, replace(slow, member_id="b-2"), [A]),
    )
    run = Run().live(T0 + 185 * SECOND, snapshot(T0, A, slow), *reports, gone, back)
    await_turn(run, explained, back.rebalance_id)
    assert set(run.causes().values()) == {"undetermined"}
    while run.causes()[gone.rebalance_id] == "undetermined":
        run.live(run.now_ms + SECOND)
    assert run.causes() == dict.fromkeys((gone.rebalance_id, back.rebalance_id), "member_crash")


def test_losses_of_other_groups_explain_one_again_at_once(explained: Explained):
    """Also if their rows arrive minutes later, and it was just explained."""
    events = outage(2, 1)
    run = Run().live(T0 + 5 * MINUTE, *(each for each in events if each.group == "g0"))
    await_turn(run, explained, "0-1")
    before = explained["0-1"]
    for each in events:
        if each.group == "g1":
            hear(run.detector, each)
    run.live(run.now_ms + 2 * SECOND)
    assert explained["1-1"]
    assert explained["0-1"] > before
