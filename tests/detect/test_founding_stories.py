"""Causes of lost members: the founding stories as short histories, with their advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from detect.departing import LOST_MS, B, episode, said
from detect.losing import AGAIN, STAYS, explained, left, silent
from detect.turnover import Run
from histories import (
    MINUTE,
    SECOND,
    T0,
    Event,
    commits,
    joined,
    lost,
    member,
    probe,
    pulse,
    rebalance,
    report,
    snapshot,
)
from rebalance_contract import Generation, Member, Rebalance
from rebalance_contract.clients import HEARTBEAT_AGE
from rebalance_streaming.detect.rules.losses import explain_loss
from rebalance_streaming.observed.confidence import CERTAIN, PLAUSIBLE, STRONG

# --- Story B: a rebalance waits for somebody who does not poll ---


def waits(
    start_ms: int, wait_ms: int, *, old: Member, new: Member, listed: Sequence[Member] | None = None
) -> list[Event]:
    """Let a member join, probes see the group prepare for this long, and the old member be out at the end."""
    names = (old, new) if listed is None else listed
    times = range(start_ms, start_ms + wait_ms, 5 * SECOND)
    probes = [probe(at, "PreparingRebalance", list(names)) for at in times]
    return [*probes, rebalance(start_ms, [old], [new], took_ms=wait_ms + 20)]


C1, C2 = (
    member("c1-1", [0, 1, 2], session_timeout_ms=45_000),
    member("c2-1", [0, 1, 2], session_timeout_ms=45_000),
)


def story_b(wait_s: int, *, old: Member = C1, **changes: Any) -> Run:
    """c1 polls once at the beginning and c2 joins after a minute."""
    known = [snapshot(T0, old), commits(T0, {0: 10, 1: 10, 2: 10})]
    return Run().live(T0 + 7 * MINUTE, *known, *waits(T0 + MINUTE, wait_s * SECOND, old=old, new=C2, **changes))


def test_story_b_names_who_did_not_poll_and_how_long_the_others_waited():
    """c1 polls at 0, c2 joins at 60; the group is released at 300, when c1's max.poll.interval has passed."""
    run = story_b(240)
    found = run.finding("stalled_member_join_barrier")
    assert (found.primary, found.confidence, found.severity) == (True, STRONG, "ticket")
    assert [each.client_id for each in found.subject.members] == ["c1"]
    assert "c1 (/host-c1) did not call poll() and so did not rejoin; the others waited 240 s" in found.summary
    assert found.rebalances == 1
    assert "rebalance_storm" not in run.rules()
    assert {each.parameter for each in found.advice} >= {"code", "max.poll.interval.ms"}


def test_story_b_is_reported_while_it_lasts():
    """Five seconds in, probes show which member is awaited; at 65 s the release is predicted within five minutes."""
    known = [snapshot(T0, C1), commits(T0, {0: 10, 1: 10, 2: 10})]
    probes = [event for event in waits(T0 + MINUTE, 20 * SECOND, old=C1, new=C2) if not isinstance(event, Rebalance)]
    run = Run().live(T0 + 80 * SECOND, *known, *probes)
    found = run.finding("stalled_member_join_barrier")
    assert [each.client_id for each in found.subject.members] == ["c1"]
    assert "released after at most" in found.summary
    assert found.detected_at_ms <= T0 + MINUTE + 11 * SECOND


@pytest.mark.parametrize(
    ("wait_s", "changes"),
    [(300, {"group_instance_id": "i"}), (300, {"client_id": "sarama"})],
    ids=["a static member", "a client that enforces no limit"],
)
def test_story_b_of_a_member_that_does_not_leave_by_itself(wait_s: int, changes: dict[str, Any]):
    """Only the group's own time-out ends the wait, at 360 s."""
    run = story_b(wait_s, old=replace(C1, **changes))
    assert run.finding("stalled_member_join_barrier").primary


def test_story_b_with_a_killed_member_is_no_stall():
    """Killed when the other joins, its session ends the wait after 45 s: it did not fail to poll, it was gone."""
    beats = [commits(at, {0: at // 100, 1: 10, 2: 10}) for at in range(T0, T0 + MINUTE, 5 * SECOND)]
    events = waits(T0 + MINUTE, 45 * SECOND, old=C1, new=C2)
    reports = [report(at, C1, {HEARTBEAT_AGE: 1.0}, tick_late_ms=0) for at in range(T0, T0 + MINUTE, 5 * SECOND)]
    run = Run().live(T0 + 5 * MINUTE, snapshot(T0, C1), *beats, *reports, *events)
    (cause,) = run.causes().values()
    assert cause in ("member_crash", "ungraceful_shutdown")
    assert [each.client_id for each in run.finding(cause).subject.members] == ["c1"]


@pytest.mark.parametrize(
    ("wait_s", "in_barrier", "expected"),
    [
        (240, True, ("stalled_member_join_barrier", STRONG)),
        (60, True, ("stalled_member_join_barrier", STRONG)),
        (240, False, ("stalled_member_join_barrier", PLAUSIBLE)),
        (5, True, ("poll_overrun", STRONG)),
    ],
    ids=["long", "shorter", "unseen", "no wait worth a word"],
)
def test_who_did_not_poll_held_the_barrier(wait_s: int, in_barrier: bool, expected: tuple[str, float]):
    """A newcomer triggered it and the member without a poll is gone: strong with probes, plausible without."""
    start_ms = LOST_MS - wait_s * SECOND
    story = waits(start_ms, wait_s * SECOND, old=B, new=member("c-1", [2, 3]))
    events = [each for each in story if in_barrier or isinstance(each, Rebalance)]
    quiet_ms = LOST_MS - 301 * SECOND
    beats = pulse(quiet_ms - MINUTE, quiet_ms + 1, [2, 3])
    gone = events[-1]
    assert isinstance(gone, Rebalance)
    assert said(explained(gone, *beats, *events[:-1])) == expected


def test_who_is_back_in_the_same_rebalance_was_not_waited_for():
    """Without probes: the joining member is the one that exceeded its limit, and no newcomer."""
    gone = rebalance(LOST_MS, [B, STAYS], [AGAIN, STAYS], took_ms=3 * SECOND)
    quiet_ms = LOST_MS - 301 * SECOND
    assert said(explained(gone, *pulse(quiet_ms - MINUTE, quiet_ms + 1, [2, 3]))) == ("poll_overrun", STRONG)


def test_a_member_lost_before_is_not_the_one_that_held_the_others():
    """One member exceeded its limit and triggered the rebalance; that another was late as well is secondary."""
    start_ms = LOST_MS - 40 * SECOND
    members = [B, member("c-1", [4]), STAYS]
    probes = [probe(at, "PreparingRebalance", members[1:]) for at in range(start_ms, LOST_MS, 5 * SECOND)]
    gone = rebalance(start_ms, members, [STAYS], took_ms=40 * SECOND + 20)
    quiet = pulse(start_ms - 361 * SECOND, start_ms - 300 * SECOND, [2, 3, 4])
    of = episode(gone, *quiet, *probes)
    first, held = sorted(of.departures, key=lambda each: each.member.client_id)
    assert (first.in_barrier, held.in_barrier) == (False, True)
    assert said(explain_loss(of, first)) == ("poll_overrun", STRONG)
    assert said(explain_loss(of, held)) != ("stalled_member_join_barrier", STRONG)


# --- Story C: batches longer than max.poll.interval ---


def test_story_c_names_both_members_and_how_many_records_to_take():
    """750 s per batch with a limit of 300 s: m1 leaves at 300, m2 at 400, both rejoin when their batch is done."""
    m1, m2 = member("m1-1", range(5)), member("m2-1", range(5, 10))
    back_1, back_2 = member("m1-2", range(10)), member("m2-2", range(10))
    start_ms = T0 + 10 * MINUTE

    def at(seconds: int) -> int:
        return start_ms + seconds * SECOND

    emptied = Generation(2, "departure", join_ended_at_ms=at(400), assigned_at_ms=at(400), left=("m1-1", "m2-1"))
    events: list[Event] = [
        snapshot(T0, m1, m2),
        rebalance(at(-4), [], [m1, m2], reason="first_join"),
        *(probe(at(t), "PreparingRebalance", [m1, m2] if t < 300 else [m2]) for t in range(302, 400, 5)),
        rebalance(at(300), [m1, m2], [], took_ms=100 * SECOND, generations=(emptied,)),
        rebalance(at(750), [], [back_1], reason="first_join"),
        rebalance(at(850), [back_1], [back_2], took_ms=203 * SECOND),
        *(probe(at(t), ends=dict.fromkeys(range(10), 500 + t)) for t in range(0, 1_100, 30)),
    ]
    run = Run().live(at(1_100), *events)
    overrun = run.finding("poll_overrun")
    assert overrun.primary
    assert {each.client_id for each in overrun.subject.members} >= {"m1"}
    assert overrun.advice[0].parameter == "max.poll.records"
    assert not [each for each in run.detector.findings.all() for advice in each.advice if "session" in advice.parameter]
    assert "heartbeat_starvation" not in run.rules()
    assert "process_pause" not in run.rules()


def test_the_advice_takes_the_time_until_it_came_back_for_the_batch():
    """Away for 450 s after a limit of 300 s: the batch took 750 s, and 500 records become at most 100."""
    again = joined(LOST_MS + 447 * SECOND, AGAIN, [STAYS])
    found = explained(left(), *silent(silence_s=301), again, now_ms=LOST_MS + 10 * MINUTE)
    assert said(found) == ("poll_overrun", STRONG)
    assert found is not None
    assert "at most 100" in found.advice[0].proposed
    assert "came back 450 s later" in found.summary


# --- Stories A and D: heartbeats that starve ---


def reporting(who: Member, stop_ms: int, end_ms: int, *, library: str, version: str) -> list[Event]:
    """Let a client report in time while its last heartbeat grows old."""
    return [
        report(
            at,
            who,
            {HEARTBEAT_AGE: max(0, at - stop_ms) / 1000},
            library=library,
            library_version=version,
            tick_late_ms=0,
        )
        for at in range(stop_ms - MINUTE, end_ms, 5 * SECOND)
    ]


def story_a(*, metrics: bool) -> Run:
    """One of five idle members starves twice, six minutes apart, and returns each time."""
    others = [member(f"m{n}-1", [10 * n]) for n in range(1, 5)]
    name = {"client_id": "kafka-python-1.4.6", "host": "/host-m0"}
    start_ms, events = T0 + 10 * MINUTE, [snapshot(T0, member("m0-1", [0], **name), *others)]
    beating: Sequence[int] = range(start_ms - MINUTE, start_ms + 14 * MINUTE, 5 * SECOND)
    for turn in (1, 2):
        who, again = member(f"m0-{turn}", [0], **name), member(f"m0-{turn + 1}", [0], **name)
        lost_ms = start_ms + turn * 6 * MINUTE - 30 * SECOND
        events += [lost(lost_ms, who, [who, *others]), joined(lost_ms + 15 * SECOND, again, others)]
        if metrics:
            events += reporting(who, lost_ms - 10 * SECOND, lost_ms + 10_000, library="kafka-python", version="1.4.6")
        beating = [at for at in beating if not lost_ms - 11 * SECOND <= at <= lost_ms + 20 * SECOND]
    everybody = [10 * n for n in range(1, 5)]
    for at in range(start_ms - MINUTE, start_ms + 14 * MINUTE, 5 * SECOND):
        events.append(commits(at, dict.fromkeys([*([0] if at in beating else []), *everybody], 7)))
    events += [probe(at, ends=dict.fromkeys([0, *everybody], 7)) for at in range(T0, start_ms + 14 * MINUTE, MINUTE)]
    return Run().live(start_ms + 14 * MINUTE, *events)


@pytest.mark.parametrize("metrics", [True, False])
def test_story_a_is_a_starved_heartbeat_of_an_idle_client(metrics: bool):
    """kafka-python 1.4.6, idle: certain with client metrics; without them by its version and its returns."""
    run = story_a(metrics=metrics)
    found = run.finding("heartbeat_starvation")
    assert (found.primary, found.variant) == (True, "idle_lock")
    assert found.confidence >= (CERTAIN if metrics else PLAUSIBLE)
    assert {each.client_id for each in found.subject.members} == {"kafka-python-1.4.6"}
    advised = {each.parameter: each.proposed for each in found.advice}
    assert advised["metadata_max_age_ms"] == "3000"
    assert "upgrade" in advised
    assert "poll_overrun" not in run.rules()
    assert set(run.causes().values()) == {"heartbeat_starvation"}


def test_story_d_is_contention_for_the_lock():
    """kafka-python 2.2.x with occasional records and a session time-out of 30 s: upgrade, or sleep in the loop."""
    who = replace(B, client_id="kafka-python-2.2.3", session_timeout_ms=30_000)
    reports = reporting(who, LOST_MS - 30 * SECOND, LOST_MS + 10_000, library="kafka-python", version="2.2.3")
    found = explained(left(who), *reports)
    assert said(found) == ("heartbeat_starvation", CERTAIN)
    assert found is not None
    assert found.variant == "lock_contention"
    assert {each.parameter for each in found.advice} == {"upgrade", "code"}
    assert "poll_overrun" in {each.rule for each in found.alternatives}
