"""Leader and coordinator: rejoin loops, slow assignors, and brokers that move, hang, or cannot answer or store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from detect.standing_histories import departed, moved, replayed
from detect.views import view_of
from histories import (
    HOUR,
    MINUTE,
    SECOND,
    T0,
    Event,
    commits,
    history,
    member,
    probe,
    rebalance,
    rebalance_id,
    report,
    snapshot,
)
from rebalance_contract import (
    CoordinatorAct,
    CoordinatorEvent,
    CoordinatorTrigger,
    Generation,
    Member,
    Moves,
    Rebalance,
    Severity,
)
from rebalance_contract.clients import ANY_RESPONSE_MAX, RESPONSE_MAX
from rebalance_streaming.detect.episode import EpisodeContext, make_episode
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rank import explain
from rebalance_streaming.detect.rules.coordinator import (
    coordinator_overload,
    coordinator_stuck_rebalance,
    offsets_topic_unhealthy,
)
from rebalance_streaming.detect.rules.leader import assignor_slow_or_failing, leader_rejoin_loop
from rebalance_streaming.detect.rules.registry import CONDITIONS
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import SESSION_EXPIRED

A, B, C = member("a-1", [0, 1]), member("b-1", [2, 3]), member("c-1", [4])
NOW = T0 + HOUR


# --- The leader ---


def rejoin(at_ms: int, reason: str = "leader_rejoin", *, rounds: int = 1, **changes: Any) -> Rebalance:
    generations = tuple(
        Generation(i + 2, reason, join_ended_at_ms=at_ms + i * SECOND, assigned_at_ms=at_ms + i * SECOND)
        for i in range(rounds)
    )
    return rebalance(at_ms, [A, B], [A, B], took_ms=SECOND, **{"reason": reason, "generations": generations, **changes})


def every(ms: int, count: int, **changes: Any) -> list[Event]:
    return [rejoin(NOW - (count - i) * ms, **changes) for i in range(count)]


def chain(count: int, apart_s: int = 5) -> Rebalance:
    """Make a formation followed by the leader's rejoins, each soon enough to be part of the same rebalance."""
    at_ms = NOW - 2 * MINUTE
    times = [at_ms + 3_000 + i * apart_s * SECOND for i in range(count + 1)]
    first = Generation(1, "first_join", join_ended_at_ms=times[0], assigned_at_ms=times[0], joined=("a-1", "b-1"))
    later = (Generation(i + 1, "leader_rejoin", join_ended_at_ms=t, assigned_at_ms=t) for i, t in enumerate(times) if i)
    took_ms = times[-1] - at_ms
    return rebalance(at_ms, [], [A, B], took_ms=took_ms, reason="first_join", generations=(first, *later))


@pytest.mark.parametrize(("count", "expected"), [(8, True), (6, True), (4, False), (1, False)])
def test_a_chain_behind_a_formation_keeps_its_own_reason(count: int, expected: bool):
    """Rejoins seconds apart are one rebalance but still a loop; a few accompany joins."""
    of = chain(count)
    found = list(leader_rejoin_loop(view_of(history(snapshot(NOW, A, B), of), NOW)))
    assert [each.rebalance_ids for each in found] == ([(of.rebalance_id,)] if expected else [])
    if count == 8:
        assert "8 times within 35.0 s" in found[0].summary


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(every(2 * MINUTE, 3), (Severity.TICKET, None), id="three in six minutes"),
        pytest.param(every(2 * MINUTE, 2), None, id="two"),
        pytest.param(every(8 * MINUTE, 4), None, id="one in eight minutes"),
        pytest.param(
            every(10 * MINUTE, 4), (Severity.TICKET, "metadata_refresh"), id="each ten minutes: Sarama's check"
        ),
        pytest.param(every(20 * SECOND, 1, rounds=14), (Severity.PAGE, None), id="14 within one episode"),
        pytest.param(every(2 * MINUTE, 3, joined=("c-1",)), None, id="somebody joined"),
        pytest.param(every(2 * MINUTE, 3, moves=Moves(moved={"orders": [1]})), None, id="partitions moved"),
        pytest.param(every(2 * MINUTE, 3, reason="topic_metadata_change"), None, id="topics changed"),
        pytest.param(every(MINUTE, 6, reason="connect_internal"), None, id="connectors were changed"),
        pytest.param(
            every(MINUTE // 2, 16, reason="connect_internal"),
            (Severity.TICKET, "connect_config_view"),
            id="Connect, far too often",
        ),
    ],
)
def test_a_leader_that_rejoins_without_need(events: list[Event], expected: tuple[str, str | None] | None):
    """Same members, topics and assignment, again and again; the loop claims these rebalances."""
    found = list(leader_rejoin_loop(view_of(history(snapshot(NOW, A, B), *events), NOW)))
    assert [(each.severity, each.variant) for each in found] == ([] if expected is None else [expected])
    if found:
        assert (found[0].claims, len(found[0].rebalance_ids)) == (True, len(events))
        assert [each.member_id for each in found[0].subject.members] == ["a-1"]


def test_a_loop_that_ended_keeps_its_rebalances():
    """Hours later it still explains them; otherwise they would become unexplained again."""
    known = history(snapshot(NOW, A, B), *every(2 * MINUTE, 3))
    assert [len(each.rebalance_ids) for each in leader_rejoin_loop(view_of(known, NOW + 5 * HOUR))] == [3]


def test_changes_of_topics_that_probes_saw_are_no_loop():
    """The leader rejoined for a reason."""
    causes = {rebalance_id(NOW - i * 2 * MINUTE): "topic_metadata_change" for i in range(1, 4)}
    known = history(snapshot(NOW, A, B), *every(2 * MINUTE, 3))
    assert not list(leader_rejoin_loop(view_of(known, NOW, causes=causes)))


def test_two_enforced_rebalances_are_recorded_and_no_loop():
    """Recorded: a Java leader calls enforceRebalance() twice; a third call would be a loop."""
    known = replayed("enforce-rebalance-java-sticky")
    assert not list(leader_rejoin_loop(view_of(known, NOW)))
    (pure,) = [each for each in known.in_order() if each.reason == "leader_rejoin"]
    for i in (1, 2):
        at_ms = pure.started_before_ms + i * MINUTE
        known.take_rebalance(replace(pure, rebalance_id=f"again-{i}", started_before_ms=at_ms))
    assert [len(each.rebalance_ids) for each in leader_rejoin_loop(view_of(known, NOW))] == [3]


def synced(sync_ms: int, *, minutes_ago: int = 1, **changes: Any) -> Rebalance:
    at_ms = NOW - minutes_ago * MINUTE
    generation = Generation(2, "join", join_ended_at_ms=at_ms, assigned_at_ms=at_ms + sync_ms, joined=("b-1",))
    described: dict[str, Any] = {"generations": (generation,), "sync_ms": sync_ms, **changes}
    return rebalance(at_ms, [A], [A, B], took_ms=sync_ms, **described)


def aborted(count: int, *, minutes_ago: int, joined: tuple[str, ...] = (), **changes: Any) -> Rebalance:
    at_ms = NOW - minutes_ago * MINUTE
    generation = Generation(3, "departure", aborted_before=count, assigned_at_ms=at_ms, joined=joined, left=("c-1",))
    return rebalance(at_ms, [A, B, C], [A, B], generations=(generation,), generations_aborted=count, **changes)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([synced(900)], [], id="as usual"),
        pytest.param([synced(6_000)], [("slow", Severity.INFO, CERTAIN)], id="6 s"),
        pytest.param([synced(31_000)], [("slow", Severity.TICKET, CERTAIN)], id="31 s"),
        pytest.param([synced(31_000, minutes_ago=30)], [], id="half an hour ago"),
        pytest.param([synced(31_000, type="consumer")], [], id="no leader there"),
        pytest.param([aborted(1, minutes_ago=9)], [], id="one round lost"),
        pytest.param(
            [aborted(1, minutes_ago=9), aborted(1, minutes_ago=5)], [("failing", None, PLAUSIBLE)], id="two rebalances"
        ),
        pytest.param(
            [aborted(1, minutes_ago=i, joined=("d-1", "e-1")) for i in (9, 5)], [], id="interrupted by arrivals"
        ),
    ],
)
def test_a_slow_or_failing_assignor(events: list[Event], expected: list[tuple[str, str | None, float]]):
    """The log shows the sync phase; rounds without a record count only if no arrival interrupted them."""
    found = list(assignor_slow_or_failing(view_of(history(snapshot(NOW, A, B), *events), NOW)))
    assert [(each.variant, each.severity, each.confidence) for each in found] == expected
    assert all(each.subject.members[0].member_id == "a-1" for each in found if each.variant == "slow")


@pytest.mark.parametrize(
    ("client_id", "protocol", "expected"),
    [("rdkafka", "range", True), ("kafkajs", "RoundRobinAssigner", False), ("connect-1", "sessioned", False)],
)
def test_the_broker_assigns_where_clients_let_it(client_id: str, protocol: str, expected: bool):
    """KIP-848 is for clients that support it, and not for Connect."""
    who = [replace(each, client_id=client_id) for each in (A, B)]
    failing = [aborted(1, minutes_ago=9, protocol=protocol), aborted(1, minutes_ago=5, protocol=protocol)]
    for events in ([synced(31_000)], failing):
        (found,) = assignor_slow_or_failing(view_of(history(snapshot(NOW, *who, protocol=protocol), *events), NOW))
        assert ("group.protocol" in {each.parameter for each in found.advice}) == expected


def test_a_recorded_slow_assignor_is_named():
    """Recorded: a Java assignor that takes 4 s; with a limit of 3 s its leader is named, but not its lost round."""
    known = replayed("slow-assignor-java-join-during-sync")
    last = max(each.completed_at_ms or 0 for each in known.in_order())
    strict = replace(Thresholds(), sync_warn_ms=3_000, young_ms=0)
    assert not list(assignor_slow_or_failing(view_of(known, last, thresholds=replace(strict, sync_warn_ms=5_000))))
    (found,) = assignor_slow_or_failing(view_of(known, last, thresholds=strict))
    assert (found.variant, found.subject.members[0].client_id) == ("slow", "a")


# --- Stuck ---


def seen(state: str, minutes: float, *, members: list[Member] | None = None, every_s: int = 30) -> list[Event]:
    """Probe a state for some minutes, until now."""
    times = range(round(minutes * 60), -1, -every_s)
    return [probe(NOW - at * SECOND, state, members) for at in times]


S = [replace(A, group_instance_id="ia"), replace(B, group_instance_id="ib")]


@pytest.mark.parametrize(
    ("events", "confidence"),
    [
        pytest.param(seen("PreparingRebalance", 7, members=[A, B]), STRONG, id="preparing for 7 min"),
        pytest.param(seen("CompletingRebalance", 7), CERTAIN, id="completing for 7 min"),
        pytest.param(seen("PreparingRebalance", 5.5, members=[A, B]), None, id="a member stalls for 5.5 min"),
        pytest.param(seen("PreparingRebalance", 7, members=S), PLAUSIBLE, id="only static ones"),
        pytest.param(seen("PreparingRebalance", 7, members=[A, member("new-1")]), PLAUSIBLE, id="a stranger waits"),
        pytest.param(seen("Stable", 7), None, id="stable"),
        pytest.param(seen("PreparingRebalance", 7, every_s=140), None, id="seldom seen"),
        pytest.param([*seen("PreparingRebalance", 7), probe(NOW + SECOND, "Stable")], None, id="released in the end"),
        pytest.param(
            [
                each
                for i in range(14, -1, -1)
                for each in [probe(NOW - i * 30 * SECOND, "PreparingRebalance" if i % 5 else "CompletingRebalance")]
            ],
            None,
            id="it moves on",
        ),
    ],
)
def test_a_coordinator_must_not_exceed_the_rebalance_timeout(events: list[Event], confidence: float | None):
    """Five minutes, with a tolerance of one: a longer state violates the protocol and causes a page."""
    found = list(coordinator_stuck_rebalance(view_of(history(snapshot(T0, A, B), *events), NOW + 2 * SECOND)))
    assert [(each.confidence, each.severity) for each in found] == (
        [] if confidence is None else [(confidence, Severity.PAGE)]
    )


def test_a_record_in_between_shows_that_it_goes_on():
    """Several rebalances in a row look the same to probes; the log distinguishes them."""
    known = history(snapshot(NOW - 3 * MINUTE, A, B), *seen("PreparingRebalance", 7))
    assert not list(coordinator_stuck_rebalance(view_of(known, NOW)))


# --- Slow, or unable to store ---


def answered(
    *ms: float, metric: str = RESPONSE_MAX, host: str | None = None, since: int = T0, **changes: Any
) -> list[Event]:
    members = [replace(each, host=host or each.host) for each in (member(f"m{i}-1") for i in range(len(ms)))]
    reports = zip(members, ms, strict=True)
    reporting = [report(NOW - 5 * SECOND, each, {metric: value}, **changes) for each, value in reports]
    return [snapshot(since, *members), *reporting]


@pytest.mark.parametrize(
    ("events", "confidence"),
    [
        pytest.param(answered(1_500, 3_000), PLAUSIBLE, id="both wait"),
        pytest.param(answered(1_500, 3_000, host="h"), HINT, id="both on one host"),
        pytest.param(answered(1_500, 3_000, 20), HINT, id="one is answered at once"),
        pytest.param(answered(1_500, 30), None, id="one waits"),
        pytest.param(answered(1_500, 1_500, 20, 20, 20), None, id="a minority"),
        pytest.param(answered(30, 20), None, id="healthy"),
        pytest.param(answered(1_500, 3_000, tick_late_ms=4_000), None, id="slow themselves"),
        pytest.param([*moved(NOW - 2 * MINUTE), *answered(1_500, 3_000)], None, id="it just moved"),
        pytest.param(
            [*moved(NOW - 2 * MINUTE), probe(NOW - MINUTE, "Stable", coordinator_id=1), *answered(1_500, 3_000, 20)],
            PLAUSIBLE,
            id="it moves again and again",
        ),
        pytest.param([snapshot(T0, A, B)], None, id="nothing reported"),
        pytest.param(answered(1_500, 3_000, metric=ANY_RESPONSE_MAX), PLAUSIBLE, id="any request"),
        pytest.param(
            answered(1_500, 3_000, metric=ANY_RESPONSE_MAX, since=NOW - MINUTE), None, id="any request after a join"
        ),
    ],
)
def test_a_slow_coordinator_shows_in_several_clients(events: list[Event], confidence: float | None):
    """At least two, and at least half of them, none slow itself; plausible at most, if all on several hosts wait."""
    found = list(coordinator_overload(view_of(history(*events), NOW)))
    assert [(each.confidence, each.severity) for each in found] == (
        [] if confidence is None else [(confidence, Severity.TICKET)]
    )


def test_evictions_make_a_slow_coordinator_urgent():
    """Responses take half a session time-out, and a member was lost."""
    gone = departed(NOW - MINUTE, A, SESSION_EXPIRED, rule="undetermined")
    known = history(*answered(6_000, 7_000))
    (found,) = coordinator_overload(view_of(known, NOW, past=(gone,)))
    assert found.severity == Severity.PAGE


def hopping(times: int = 4, *, last: str = "PreparingRebalance") -> list[Event]:
    names = ["PreparingRebalance", "CompletingRebalance"] * times
    events = [probe(NOW - (len(names) - i) * 10 * SECOND, name) for i, name in enumerate(names)]
    return [*events, probe(NOW, last)]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([commits(NOW - 2 * MINUTE, {0: 1}), *hopping()], (PLAUSIBLE, Severity.PAGE), id="commits stopped"),
        pytest.param([commits(NOW - SECOND, {0: 1}), *hopping()], (HINT, Severity.TICKET), id="commits go on"),
        pytest.param(hopping(1), None, id="one rebalance"),
        pytest.param(hopping(last="Stable"), None, id="stable again"),
        pytest.param([aborted(3, minutes_ago=2)], (HINT, Severity.TICKET), id="three rounds without a record"),
        pytest.param([aborted(3, minutes_ago=2, joined=("d-1", "e-1"))], None, id="interrupted by arrivals"),
        pytest.param([aborted(1, minutes_ago=2)], None, id="one round"),
    ],
)
def test_an_offsets_partition_that_cannot_store(events: list[Event], expected: tuple[float, str] | None):
    """Assignments that are never stored while nobody joins or leaves; a hint unless commits have stopped, too."""
    found = list(offsets_topic_unhealthy(view_of(history(snapshot(T0, A, B), *events), NOW)))
    assert [(each.confidence, each.severity) for each in found] == ([] if expected is None else [expected])
    assert all(each.missing for each in found)


LOADED = CoordinatorEvent(NOW - 61 * SECOND, CoordinatorAct.LOADED, broker=2)


@pytest.mark.parametrize(
    ("trigger", "error", "others", "expected"),
    [
        (CoordinatorTrigger.STORE_FAILED, "COORDINATOR_NOT_AVAILABLE", (), ("offsets_topic_unhealthy", CERTAIN)),
        (CoordinatorTrigger.STORE_FAILED, None, (), ("offsets_topic_unhealthy", STRONG)),
        (CoordinatorTrigger.STORE_FAILED, "UNKNOWN_SERVER_ERROR", (), ("offsets_topic_unhealthy", STRONG)),
        (CoordinatorTrigger.STORE_FAILED, "NOT_COORDINATOR", (), ("coordinator_failover", STRONG)),
        (CoordinatorTrigger.STORE_FAILED, "NOT_COORDINATOR", (LOADED,), ("coordinator_failover", PLAUSIBLE)),
        (CoordinatorTrigger.STORE_FAILED, None, (LOADED,), ("coordinator_failover", PLAUSIBLE)),
        (CoordinatorTrigger.STORE_FAILED, "COORDINATOR_NOT_AVAILABLE", (LOADED,), ("offsets_topic_unhealthy", CERTAIN)),
        (CoordinatorTrigger.JOIN, None, (), ("undetermined", HINT)),
    ],
    ids=[
        *("no replicas", "a version that names none", "too large", "another broker's", "the same, and it was seen"),
        *("none named, and a move was seen", "no replicas after a move", "another reason"),
    ],
)
def test_an_assignment_that_its_coordinator_could_not_store_is_the_cause(
    trigger: CoordinatorTrigger, error: str | None, others: tuple[CoordinatorEvent, ...], expected: tuple[str, float]
):
    """The coordinator logged the failure, and its error has the reason; it also explains members lost meanwhile."""
    gone = rebalance(NOW - MINUTE, [A, B], [A], took_ms=20 * SECOND)
    known = history(snapshot(T0, A, B), gone)
    began = CoordinatorEvent(NOW - 50 * SECOND, CoordinatorAct.PREPARING, trigger=trigger, reason=error)
    known.coordinator_log.take([*others, began])
    of = make_episode(known, gone, Thresholds(), JudgingTime(NOW), EpisodeContext())
    first, *rest = explain(of)
    assert (first.rule, first.confidence) == expected
    assert first.rule not in {each.rule for each in rest}
    advised = {each.parameter for each in first.advice}
    assert ("max.message.bytes" in advised) == (error == "UNKNOWN_SERVER_ERROR")


# --- Everywhere ---


def test_a_healthy_group_has_no_finding():
    """Quick syncs, a stable coordinator, responses in time, a deploy with interrupted rounds: no findings."""
    arrivals = [aborted(2, minutes_ago=i, joined=("d-1", "e-1")) for i in (9, 7, 5, 3)]
    events = [synced(900), *arrivals, *seen("Stable", 10), *answered(20, 30), moved(NOW)[0]]
    known = history(snapshot(T0, A, B), *events)
    assert [each.rule for rule in CONDITIONS for each in rule(view_of(known, NOW))] == []
