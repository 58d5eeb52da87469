"""The primary cause of a rebalance, and the secondary diagnoses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest

from detect.departing import LOST_MS, A, B, episode
from histories import MINUTE, SECOND, T0, Event, commits, joined, lost, member, probe, rebalance, report
from rebalance_contract import UNDETERMINED, Generation, Member
from rebalance_contract.clients import HEARTBEAT_AGE
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.rank import explain
from rebalance_streaming.detect.verdict import Verdict, subject_of
from rebalance_streaming.observed.confidence import CERTAIN
from rebalance_streaming.wire.metrics.report import ClientConfig

C = member("c-1", [4])
NEW = member("n-1", [4])


def rules(found: tuple[Verdict, ...]) -> list[str]:
    return [each.rule for each in found]


def who(found: Verdict) -> list[str | None]:
    return [each.client_id for each in found.subject.members]


def beats(until: Mapping[int, int], end_ms: int = LOST_MS) -> list[Event]:
    """Return commits of each partition every five seconds up to its time."""
    first = min(until.values()) - MINUTE
    times = range(first, end_ms, 5 * SECOND)
    due = [(at, {p: 7 for p, last in until.items() if at <= last}) for at in times]
    return [commits(at, offsets) for at, offsets in due if offsets]


def barrier(start_ms: int, end_ms: int, *listed: Member) -> list[Event]:
    return [probe(at, "PreparingRebalance", listed) for at in range(start_ms, end_ms, 5 * SECOND)]


# --- Losses ---


def two_lost(*, quiet_b_s: int, start_s: int = 40) -> Episode:
    """Let `b` trigger a rebalance by falling silent, and `c` be out at its end because it did not poll."""
    start_ms = LOST_MS - start_s * SECOND
    committed = beats({0: LOST_MS, 2: start_ms - quiet_b_s * SECOND, 3: T0, 4: LOST_MS - 301 * SECOND})
    of = rebalance(start_ms, [A, B, C], [A], took_ms=start_s * SECOND + 20)
    return episode(of, *committed, *barrier(start_ms, LOST_MS, A, C))


def test_what_began_it_is_the_cause_however_sure_the_rest():
    """`b` probably crashed; that `c` certainly did not poll while the others waited is a consequence."""
    found = explain(two_lost(quiet_b_s=12))
    assert rules(found[:2]) == ["member_crash", "poll_overrun"]
    assert [who(each) for each in found[:2]] == [["b"], ["c"]]
    assert found[0].confidence < found[1].confidence
    assert "poll_overrun" in {each.rule for each in found[0].alternatives}


def test_members_of_the_same_fault_are_one_diagnosis():
    """`b` exceeded its limit, and so did `c` while the others waited: one cause with two subjects."""
    found = explain(two_lost(quiet_b_s=301))
    assert rules(found).count("poll_overrun") == 1
    assert (found[0].rule, who(found[0])) == ("poll_overrun", ["b", "c"])
    assert found[0].summary.endswith("1 other member likewise.")


def test_the_surest_of_several_losses_speaks():
    """Two left at the same time, one of them explained by its own client's reports."""
    starved = [
        report(at, C, {HEARTBEAT_AGE: max(0, at - LOST_MS + 12_000) / 1000}, tick_late_ms=0)
        for at in range(LOST_MS - MINUTE, LOST_MS + 20_000, 5_000)
    ]
    committed = beats({0: LOST_MS, 2: LOST_MS - 12 * SECOND, 4: LOST_MS - 12 * SECOND})
    found = explain(episode(rebalance(LOST_MS, [A, B, C], [A]), *committed, *starved))
    assert rules(found) == ["heartbeat_starvation", "member_crash"]
    assert found[0].confidence == CERTAIN


def test_an_unknown_loss_is_the_cause_where_nothing_else_is():
    """No commit was due from it: undetermined, with the missing sources, and only once."""
    found = explain(episode(lost(LOST_MS, B, [A, B])))
    assert rules(found) == [UNDETERMINED]
    assert who(found[0]) == ["b"]
    assert found[0].missing


def test_a_failover_explains_losses_that_nobody_else_does():
    """The coordinator had moved half a minute before; but an explicit client report takes precedence."""
    moved = [probe(LOST_MS - MINUTE, coordinator_id=1), probe(LOST_MS - 30 * SECOND, coordinator_id=2)]
    committed = beats({0: LOST_MS, 2: LOST_MS - 12 * SECOND})
    of = lost(LOST_MS, B, [A, B])
    assert rules(explain(episode(of, *moved, *committed))) == ["coordinator_failover", "member_crash"]
    ended = [report(at, B, {HEARTBEAT_AGE: 1.0}, tick_late_ms=0) for at in range(T0, LOST_MS - 9_000, 5_000)]
    found = explain(episode(of, *moved, *committed, *ended))
    assert rules(found) == ["member_crash"]
    assert found[0].confidence == CERTAIN


# --- Waits ---


def grown(wait_s: int, *events: Event, **known: Any) -> tuple[Verdict, ...]:
    """Return the verdicts on a join that made the only old member's group wait this long."""
    of = joined(LOST_MS - wait_s * SECOND, NEW, [B], took_ms=wait_s * SECOND + 20)
    return explain(episode(of, *events, **known))


@pytest.mark.parametrize(
    ("wait_s", "expected"),
    [(240, ["stalled_member_join_barrier", "scale_out"]), (9, ["scale_out"]), (0, ["scale_out"])],
)
def test_a_wanted_rebalance_has_the_cause_of_its_wait(wait_s: int, expected: list[str]):
    """A member joined, and from ten seconds on the reason for the wait is the cause."""
    assert rules(grown(wait_s)) == expected


@pytest.mark.parametrize(("wait_s", "stalled"), [(20, False), (31, True)])
def test_a_wait_of_three_heartbeats_is_ordinary(wait_s: int, stalled: bool):
    """A member with a heartbeat interval of ten seconds learns of a rebalance that late."""
    slow = report(LOST_MS - 5 * MINUTE, B, config=ClientConfig(heartbeat_interval_ms=10_000))
    assert ("stalled_member_join_barrier" in rules(grown(wait_s, slow))) == stalled


def test_what_was_seen_while_it_lasted_counts():
    """Too short a wait by the log, but the live judgement had named a member: it is kept."""
    held = Verdict(
        rule="stalled_member_join_barrier",
        confidence=0.93,
        summary="seen waiting",
        started_at_ms=LOST_MS - 9 * SECOND,
        subject=subject_of(B),
    )
    found = grown(5, held=(held,))
    assert rules(found) == ["stalled_member_join_barrier", "scale_out"]
    assert found[0].summary == "seen waiting"


def test_a_known_loss_comes_before_the_wait_and_an_unknown_one_after():
    """The wait is an effect of a known fault; if the loss is unexplained, the wait is the only known cause."""
    start_ms = LOST_MS - 40 * SECOND
    of = rebalance(start_ms, [A, B], [A], took_ms=40_020)
    quiet = beats({0: LOST_MS, 2: start_ms - 12 * SECOND})
    known, unknown = explain(episode(of, *quiet)), explain(episode(of))
    assert (known[0].rule, known[-1].rule) == ("member_crash", "stalled_member_join_barrier")
    assert rules(unknown) == ["stalled_member_join_barrier", UNDETERMINED]


# --- The rest ---


def test_nothing_known_is_said_so_with_what_is_missing():
    """The leader rejoined and nothing changed: undetermined, and both sources that would decide are named."""
    of = rebalance(LOST_MS, [A, B], [A, B], reason="leader_rejoin")
    (found,) = explain(episode(of))
    assert (found.rule, found.subject.members) == (UNDETERMINED, ())
    assert found.missing == ("client metrics of the group's members", "probes of the group's state")
    assert {each.rule for each in found.alternatives} == {"leader_rejoin_loop", "topic_metadata_change"}


def test_sources_that_are_there_are_not_missed():
    """With reports and probes no other source is missing."""
    of = rebalance(LOST_MS, [A, B], [A, B], reason="leader_rejoin")
    (found,) = explain(episode(of, probe(LOST_MS - 5 * SECOND, "Stable"), report(LOST_MS - SECOND, A)))
    assert found.missing == ()


def test_every_verdict_is_about_this_rebalance():
    """All secondary verdicts are about the same rebalance, and alternatives are named once."""
    found = explain(two_lost(quiet_b_s=12))
    assert len(found) > 1
    assert {each.rebalance_ids for each in found} == {(f"r{LOST_MS - 40 * SECOND}",)}
    rivals = [each.rule for each in found[0].alternatives]
    assert len(rivals) == len(set(rivals))
    assert found[0].rule not in rivals


# --- Chains ---


@pytest.mark.parametrize(("wait_s", "primary"), [(1, "initial_group_formation"), (20, "topic_metadata_change")])
def test_a_generation_with_a_reason_of_its_own_keeps_it(wait_s: int, primary: str):
    """Partitions were added right after the group formed: both are reported, and the longer part is the cause."""
    formed_ms, grown_ms = LOST_MS + 3_000, LOST_MS + 3_000 + wait_s * SECOND
    rounds = (
        Generation(1, "first_join", join_ended_at_ms=formed_ms, assigned_at_ms=formed_ms, joined=("a-1", "b-1")),
        Generation(2, "topic_metadata_change", join_ended_at_ms=grown_ms, assigned_at_ms=grown_ms),
    )
    took_ms = grown_ms - LOST_MS
    of = rebalance(LOST_MS, [], [A, B], took_ms=took_ms, reason="first_join", generations=rounds)
    found = explain(episode(of))
    assert rules(found)[0] == primary
    assert set(rules(found)) == {"initial_group_formation", "topic_metadata_change"}


@pytest.mark.parametrize(
    ("costs_s", "expected"),
    [
        ((4, 10, 12), "subscription_change"),
        ((4, 12, 10), "topic_metadata_change"),
        ((9, 8, 6), "scale_out"),
        ((9, 9, 9), "scale_out"),
    ],
    ids=["the last", "the second", "what began it", "none more than another"],
)
def test_the_cause_is_that_of_the_part_that_cost_most(costs_s: tuple[int, int, int], expected: str):
    """None of three parts needs to be more than half of the whole."""
    ends = [LOST_MS + each * SECOND for each in accumulate(costs_s)]
    reasons = ("join", "topic_metadata_change", "subscription_change")
    rounds = tuple(
        Generation(n, reason, join_ended_at_ms=end, assigned_at_ms=end, joined=("b-1",) if n == 2 else ())
        for n, (reason, end) in enumerate(zip(reasons, ends, strict=True), 2)
    )
    changed, took_ms = replace(A, topics=("other", *A.topics)), sum(costs_s) * SECOND
    of = rebalance(LOST_MS, [A], [changed, B], took_ms=took_ms, reason="join", generations=rounds)
    found = rules(explain(episode(of)))
    assert found[0] == expected
    assert sorted(found) == ["scale_out", "subscription_change", "topic_metadata_change"]


def test_a_rejoin_that_nothing_called_for_is_no_cause_of_its_own():
    """A follow-up of the formation has its cause."""
    rounds = (
        Generation(1, "first_join", join_ended_at_ms=LOST_MS, assigned_at_ms=LOST_MS, joined=("a-1", "b-1")),
        Generation(2, "leader_rejoin", join_ended_at_ms=LOST_MS + 5_000, assigned_at_ms=LOST_MS + 5_000),
    )
    of = rebalance(LOST_MS - 3_000, [], [A, B], took_ms=8_000, reason="first_join", generations=rounds)
    assert rules(explain(episode(of))) == ["initial_group_formation"]
