"""How members join and leave: static ones that share an id, stall or are gone; autoscalers, deploys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from detect.standing_histories import departed, replayed
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
    EvidenceSource,
    GroupType,
    Member,
    Replacement,
    Severity,
)
from rebalance_contract.clients import POLL_AGE
from rebalance_streaming.detect.episode import ExplainedDeparture
from rebalance_streaming.detect.rules import membership
from rebalance_streaming.detect.rules.membership import (
    autoscaler_flapping,
    static_membership_missing,
)
from rebalance_streaming.detect.rules.registry import CONDITIONS
from rebalance_streaming.detect.rules.static_members import (
    random_instance_ids,
    static_id_conflict,
    static_member_ghost,
    static_member_restart,
    static_session_too_short,
    static_stalled_member,
)
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import CLEAN, POLL_TIMEOUT, SESSION_EXPIRED, UNKNOWN
from rebalance_streaming.observed.history import GroupHistory

A, B = member("a-1", [0, 1]), member("b-1", [2, 3])
SA, SB = replace(A, group_instance_id="ia"), replace(B, group_instance_id="ib")
NOW = T0 + 20 * MINUTE


# --- Names of static members ---


def swapped(*route: str, every_ms: int = MINUTE) -> tuple[Replacement, ...]:
    """Let the instance `ia` move between hosts, the last time a minute ago."""
    return tuple(
        Replacement(NOW - (len(route) - 1 - i) * every_ms, "ia", f"ia-{i}", f"ia-{i + 1}", old, new)
        for i, (old, new) in enumerate(pairwise(route))
    )


def processes(*pids: int, until: Sequence[int] = (0, 0)) -> list[Event]:
    """Return reports each 5 s of processes with the instance id `ia`, each until some seconds ago."""
    return [
        report(NOW - at * SECOND, SA, instance_id="ia", member_id=None, pid=pid)
        for pid, last in zip(pids, until, strict=False)
        for at in range(60, last - 1, -5)
    ]


def named(*client_ids: str) -> list[Event]:
    """Return reports for 20 s of one process after the other with the instance id `ia`."""
    first = NOW - len(client_ids) * 30 * SECOND
    return [
        report(first + (30 * i + at) * SECOND, SA, instance_id="ia", client_id=name, member_id=None, pid=i)
        for i, name in enumerate(client_ids)
        for at in range(0, 21, 5)
    ]


@pytest.mark.parametrize(
    ("route", "reports", "expected"),
    [
        pytest.param(("h1", "h2"), [], None, id="one move"),
        pytest.param(("h1", "h2", "h1"), [], (STRONG, Severity.PAGE), id="there and back"),
        pytest.param(("h1", "h2", "h1", "h2"), [], (CERTAIN, Severity.PAGE), id="to and fro"),
        pytest.param(("h1", "h2", "h3", "h4"), [], None, id="rescheduled thrice"),
        pytest.param(("h1", "h1", "h1"), [], None, id="two restarts in place"),
        pytest.param(("h1", "h1", "h1", "h1"), [], (HINT, Severity.TICKET), id="three in place"),
        pytest.param(("h1",) * 4, named("m", "m", "m", "m"), None, id="each began when the one before was gone"),
        pytest.param(("h1",) * 4, processes(1, 2, until=(40, 40)), (HINT, Severity.TICKET), id="in place, overlapping"),
        pytest.param((), processes(1, 2), (CERTAIN, Severity.TICKET), id="two processes report (KIP-848 logs nothing)"),
        pytest.param((), processes(1, 2, until=(58, 0)), None, id="one process after the other"),
        pytest.param(("h", "h"), named("m", "m", "m"), None, id="one program, started thrice"),
        pytest.param(("h", "h"), named("m", "n"), None, id="renamed by a deploy"),
        pytest.param(("h", "h", "h"), named("m", "n", "m"), (STRONG, Severity.TICKET), id="two programs in turns"),
        pytest.param((), named("m", "n", "m", "n"), (CERTAIN, Severity.TICKET), id="to and fro, without a record"),
        pytest.param((), [], None, id="nothing"),
    ],
)
def test_two_processes_of_one_name_fence_each_other(
    route: tuple[str, ...], reports: list[Event], expected: tuple[float, str] | None
):
    """Alternating hosts, or two processes at a time; a restart, or one process per host, is no conflict."""
    known = history(snapshot(T0, SA, SB, replacements=swapped(*route)), *reports)
    found = list(static_id_conflict(view_of(known, NOW)))
    assert [(each.confidence, each.severity) for each in found] == ([] if expected is None else [expected])
    restarts = list(static_member_restart(view_of(known, NOW)))
    assert bool(restarts) == ((expected is None or expected[0] == HINT) and bool(route))
    assert all(each.severity == Severity.INFO for each in restarts)
    for each in (*found, *restarts):
        assert {m.group_instance_id for m in each.subject.members} == {"ia"}


def test_instances_are_judged_apart():
    """The processes of one instance id say nothing about another, for each of the rules."""
    restarted = tuple(replace(each, group_instance_id="ib") for each in swapped("h1", "h2"))
    alone = report(NOW, SB, instance_id="ib", member_id=None, pid=9)
    known = history(snapshot(T0, SA, SB, replacements=(*swapped("h1", "h1"), *restarted)), *processes(1, 2), alone)
    (conflict,) = static_id_conflict(view_of(known, NOW))
    (restart,) = static_member_restart(view_of(known, NOW))
    assert [m.group_instance_id for m in (*conflict.subject.members, *restart.subject.members)] == ["ia", "ia", "ib"]


@pytest.mark.parametrize(("programs", "confidence"), [(4, STRONG), (2, PLAUSIBLE), (0, HINT)])
def test_how_sure_restarts_on_one_host_are(programs: int, confidence: float):
    """Reports of all processes, of some, or of none."""
    known = history(snapshot(T0, SA, SB, replacements=swapped(*("h1",) * 4)), *named(*("m",) * programs))
    (found,) = static_member_restart(view_of(known, NOW))
    assert found.confidence == confidence


def test_both_sides_of_a_conflict_are_named():
    """Which was fenced last, and by which, with the ids of the log and the names of the reports."""
    known = history(
        snapshot(T0, SA, SB, replacements=swapped("h1", "h2", "h1")),
        report(NOW - 2 * MINUTE, SA, instance_id="ia", client_id="app", member_id="ia-1", pid=1, host="h2"),
    )
    (found,) = static_id_conflict(view_of(known, NOW))
    sides = [(each.member_id, each.client_id, each.host) for each in found.subject.members]
    assert sides == [("ia-1", "app", "h2"), ("ia-2", None, "h1")]


OWNER = replace(SA, member_id="ia-1", session_timeout_ms=None)


def refused(*seconds_ago: int, owner: str = "ia-1") -> list[CoordinatorEvent]:
    """Return log lines of a KIP-848 coordinator that rejected joins with the instance id of a member."""
    ids = {"member_id": "ia-9", "instance_id": "ia", "replaced_id": owner}
    return [CoordinatorEvent(NOW - each * SECOND, CoordinatorAct.REFUSED, **ids) for each in seconds_ago]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (refused(80), PLAUSIBLE),
        (refused(80, 40, 1), PLAUSIBLE),
        (refused(60, 1), None),
        (refused(80, owner="ia-0"), None),
        (refused(11 * 60), None),
        ([], None),
    ],
    ids=["a session ago", "again and again", "its ghost may be there", "an owner that is gone", "long ago", "never"],
)
def test_who_is_refused_for_longer_than_a_session_meets_another_that_lives(
    lines: list[CoordinatorEvent], expected: float | None
):
    """A killed process is rejected until its own old member is removed, and no longer."""
    known = history(snapshot(T0, OWNER, SB, type=GroupType.CONSUMER))
    known.coordinator_log.take(lines)
    found = list(static_id_conflict(view_of(known, NOW)))
    assert [each.confidence for each in found] == ([] if expected is None else [expected])
    for each in found:
        assert [m.member_id for m in each.subject.members] == ["ia-1", "ia-9"]
        assert "the one that came later is refused" in each.summary
        assert [e.value for e in each.evidence if e.source == EvidenceSource.BROKER_LOG] == [
            f"{len(lines)} times, the id is ia-1's"
        ]


@pytest.mark.parametrize(
    ("life", "expected"),
    [
        (commits(NOW - 30 * SECOND, {0: 9}), CERTAIN),
        (report(NOW - 30 * SECOND, OWNER), CERTAIN),
        (report(NOW - 30 * SECOND, replace(OWNER, member_id="ia-9")), PLAUSIBLE),
        (commits(NOW - 90 * SECOND, {0: 9}), PLAUSIBLE),
        (report(NOW - 75 * SECOND, OWNER), PLAUSIBLE),
    ],
    ids=["it committed", "it reported", "who is refused reported", "before", "as long ago as clocks are apart"],
)
def test_who_has_the_name_is_alive_by_its_own_signs(life: Event, expected: float):
    """Brokers may allow sessions of many minutes: until then the owner may be the rejected client's old member."""
    known = history(snapshot(T0, OWNER, SB, type=GroupType.CONSUMER), life)
    known.coordinator_log.take(refused(80, 1))
    (found,) = static_id_conflict(view_of(known, NOW))
    assert found.confidence == expected


def test_old_replacements_are_history():
    """After ten minutes they are irrelevant."""
    known = history(snapshot(T0, SA, SB, replacements=swapped("h1", "h2", "h1", "h2")))
    later = view_of(known, NOW + 11 * MINUTE)
    assert not list(static_id_conflict(later))
    assert not list(static_member_restart(later))


def test_a_new_name_at_each_start_is_a_ghost_factory():
    """Many more instance ids in a day than members; a stable set of ids is none."""
    starts = [
        rebalance(T0 + i * MINUTE, [SB], [replace(SA, member_id=f"r{i}-1", group_instance_id=f"pod-{i}"), SB])
        for i in range(7)
    ]
    (found,) = random_instance_ids(view_of(history(snapshot(T0, SA, SB), *starts), NOW))
    assert (found.rule, found.variant, found.confidence) == ("static_member_ghost", "random_instance_ids", STRONG)
    same = [rebalance(T0 + i * MINUTE, [SB], [SA, SB]) for i in range(7)]
    assert not list(random_instance_ids(view_of(history(snapshot(T0, SA, SB), *same), NOW)))


# --- Away for longer than the session ---


def away(for_s: int | None, who: Member = SA, likely: str = SESSION_EXPIRED, **changes: Any) -> ExplainedDeparture:
    left_ms = NOW - 15 * MINUTE
    back_ms = None if for_s is None else left_ms + for_s * SECOND
    return departed(left_ms, who, likely, rule="undetermined", back_ms=back_ms, **changes)


@pytest.mark.parametrize(
    ("gone", "proposed"),
    [
        pytest.param(away(30), "60000", id="40 s with a session of 10 s"),
        pytest.param(away(5), "45000", id="15 s"),
        pytest.param(away(None), None, id="not back"),
        pytest.param(away(3_000), None, id="longer than any session"),
        pytest.param(away(30, A), None, id="a dynamic member"),
        pytest.param(away(30, likely=CLEAN), None, id="left in order"),
        pytest.param(away(30, likely=POLL_TIMEOUT), None, id="did not poll"),
        pytest.param(away(30, silence_ms=305_000), None, id="stood still before"),
        pytest.param(away(30, likely=UNKNOWN), None, id="no commit was due"),
    ],
)
def test_a_static_member_away_for_longer_than_its_session(gone: ExplainedDeparture, proposed: str | None):
    """The session should be one and a half times the absence; only expiry and return prove it."""
    found = list(static_session_too_short(view_of(history(snapshot(T0, SA, SB)), NOW, past=(gone,))))
    assert [each.advice[0].proposed for each in found] == ([] if proposed is None else [proposed])
    assert all(each.confidence == STRONG for each in found)


def test_an_expiry_that_is_not_sure_makes_a_plausible_absence():
    """Its silence matches another time-out as well."""
    unsure = away(30, confidence=0.6)
    (found,) = static_session_too_short(view_of(history(snapshot(T0, SA, SB)), NOW, past=(unsure,)))
    assert found.confidence == PLAUSIBLE


def test_advice_taken_ends_the_finding():
    """The finding is resolved once the session is longer than the absence."""
    raised = replace(SA, session_timeout_ms=60_000)
    assert not list(static_session_too_short(view_of(history(snapshot(T0, raised, SB)), NOW, past=(away(30),))))


def test_a_group_sets_the_session_of_the_newer_protocol():
    """The advice has the group's setting, which clients do not have."""
    new = replace(SA, session_timeout_ms=None)
    known = history(snapshot(T0, new, SB, type="consumer"))
    (found,) = static_session_too_short(view_of(known, NOW, past=(away(60, new),)))
    assert found.advice[0].parameter.startswith("consumer.session.timeout.ms")


# --- Static members that do not return ---


def one_silent(
    *, silent_s: int = 120, ends: bool = True, both: bool = False, who: Member = SA, since_ms: int = T0
) -> list[Event]:
    """Return commits each 5 s of two members, the first of which stops some seconds ago while records keep arriving."""
    events: list[Event] = [snapshot(since_ms, who, SB)]
    for i in range(60, -1, -1):
        at_ms = NOW - i * 5 * SECOND
        done = 1_000 - 10 * i
        parts = [2, 3] if i * 5 < silent_s else [0, 1, 2, 3]
        if ends:
            events.append(probe(at_ms - SECOND, ends=dict.fromkeys(range(4), done + 5)))
        if not both or parts != [2, 3]:
            events.append(commits(at_ms, dict.fromkeys(parts, done)))
    return events


DEAD = [report(NOW - at * SECOND, SA, pid=1) for at in range(200, 120, -5)]
ALIVE = [report(NOW - at * SECOND, SA, pid=1) for at in range(200, -1, -5)]


@pytest.mark.parametrize(
    ("events", "confidence"),
    [
        pytest.param([*one_silent(), *DEAD], STRONG, id="its client is gone, too"),
        pytest.param(one_silent(), HINT, id="no client metrics"),
        pytest.param([*one_silent(), *ALIVE], None, id="its client runs"),
        pytest.param(one_silent(silent_s=30), None, id="silent for half a minute"),
        pytest.param(one_silent(ends=False), None, id="nobody knows of records"),
        pytest.param(one_silent(both=True), None, id="all are silent"),
        pytest.param(one_silent(who=A), None, id="a dynamic member"),
        pytest.param(one_silent(since_ms=NOW - 30 * SECOND), None, id="just rebalanced"),
    ],
)
def test_a_silent_static_member_whose_process_is_gone_is_a_ghost(events: list[Event], confidence: float | None):
    """It has records and the others continue; only its own reports distinguish a dead process from a stalled one."""
    found = list(static_member_ghost(view_of(history(*events), NOW)))
    assert [each.confidence for each in found] == ([] if confidence is None else [confidence])
    if found:
        assert found[0].subject.partitions == ("orders-0", "orders-1")
        assert {"stalled_consumer", "static_stalled_member"} == {each.rule for each in found[0].alternatives}


def test_a_ghost_with_a_long_session_is_harm():
    """Half an hour without a consumer while lag grows: a page."""
    who = replace(SA, session_timeout_ms=1_800_000)
    known = history(*one_silent(silent_s=295, who=who), *DEAD)
    (found,) = static_member_ghost(view_of(known, NOW + 30 * SECOND))
    assert found.severity == Severity.PAGE


@pytest.mark.parametrize(
    ("gone", "fires"),
    [
        (away(None), True),
        (away(30), False),
        (away(None, A), False),
        (away(None, likely=CLEAN), False),
    ],
    ids=["removed after its session", "came back", "dynamic", "removed by hand"],
)
def test_a_ghost_is_known_for_sure_when_nobody_comes_back(gone: ExplainedDeparture, fires: bool):
    """Ten minutes after its session ended it has no successor."""
    assert bool(list(static_member_ghost(view_of(history(snapshot(T0, SB)), NOW, past=(gone,))))) == fires


# --- Alive, but not polling ---


@pytest.mark.parametrize(
    ("who", "age_s", "fires"),
    [(SA, 400.0, True), (SA, 200.0, False), (A, 400.0, False)],
    ids=["past its limit", "in time", "a dynamic member leaves by itself"],
)
def test_a_static_member_that_does_not_poll_stays(who: Member, age_s: float, fires: bool):
    """Its client runs and reports the time since its last poll."""
    events = [report(NOW - 5 * SECOND, who, {POLL_AGE: age_s})]
    found = list(static_stalled_member(view_of(history(snapshot(T0, who, SB), *events), NOW)))
    assert [each.confidence for each in found] == ([STRONG] if fires else [])
    assert not found or "310 s" in found[0].summary


@pytest.mark.parametrize(
    ("took_s", "who", "fires"),
    [(300, SA, True), (40, SA, False), (300, A, False)],
    ids=["the barrier ran out", "everybody came", "dynamic"],
)
def test_a_barrier_that_ran_out_leaves_a_static_member_in_place(took_s: int, who: Member, fires: bool):
    """It passes the barrier without having joined, keeps its partitions and commits nothing."""
    start = NOW - 500 * SECOND
    quiet = [
        commits(start - 10 * SECOND, dict.fromkeys(range(4), 10)),
        rebalance(start, [who, SB], [who, SB, member("c-1")], took_ms=took_s * SECOND),
        commits(start + 320 * SECOND, {2: 20, 3: 20}),
        probe(NOW - SECOND, ends=dict.fromkeys(range(4), 100)),
    ]
    known = history(snapshot(start + took_s * SECOND, who, SB, member("c-1")), *quiet)
    found = list(static_stalled_member(view_of(known, NOW)))
    assert [each.confidence for each in found] == ([PLAUSIBLE] if fires else [])


# --- Restarts ---


def restarted(
    count: int, *, back_s: int | None = 20, who: Member = A
) -> tuple[list[Event], tuple[ExplainedDeparture, ...]]:
    events: list[Event] = [snapshot(NOW, who, B)]
    gone = []
    for i in range(count):
        at_ms = NOW - (count - i) * HOUR
        new = replace(who, member_id=f"{who.member_id}{i}")
        events.append(rebalance(at_ms, [who, B], [new, B], reason="replacement"))
        back_ms = None if back_s is None else at_ms + back_s * SECOND
        gone.append(departed(at_ms, who, CLEAN, rule="rolling_deploy", back_ms=back_ms))
        who = new
    return events, tuple(gone)


@pytest.mark.parametrize(
    ("story", "fires"),
    [
        (restarted(24), True),
        (restarted(20), False),
        (restarted(24, back_s=400), False),
        (restarted(24, who=SA), False),
    ],
    ids=["24 in a day", "20", "away for minutes", "static already"],
)
def test_many_restarts_want_static_membership(story: tuple[list[Event], tuple[ExplainedDeparture, ...]], fires: bool):
    """More than twenty rebalances a week by restarts, and every member is back at once."""
    events, gone = story
    causes = {each.rebalance_id: "rolling_deploy" for each in gone}
    found = list(static_membership_missing(view_of(history(*events), NOW + MINUTE, past=gone, causes=causes)))
    assert [each.confidence for each in found] == ([STRONG] if fires else [])
    assert not found or [each.proposed for each in found[0].advice][1] == "45000"


@pytest.mark.parametrize(
    ("client_id", "kind", "fires"),
    [("rdkafka", "classic", True), ("kafkajs", "classic", False), ("a", "share", False), ("a", "streams", False)],
)
def test_only_clients_that_can_be_static_are_advised_to_be(client_id: str, kind: str, fires: bool):
    """kafkajs has no instance ids, and share and streams groups reject them."""
    events, gone = restarted(24, who=replace(A, client_id=client_id))
    events[0] = snapshot(NOW, replace(A, client_id=client_id), B, type=kind)
    causes = {each.rebalance_id: "rolling_deploy" for each in gone}
    found = list(static_membership_missing(view_of(history(*events), NOW + MINUTE, past=gone, causes=causes)))
    assert bool(found) == fires


def test_a_name_without_a_longer_session_where_that_is_long_enough():
    """A session of two minutes already outlasts a restart of 20 s."""
    events, gone = restarted(24, who=replace(A, session_timeout_ms=120_000))
    events[0] = snapshot(NOW, *(replace(each, session_timeout_ms=120_000) for each in (A, B)))
    causes = {each.rebalance_id: "rolling_deploy" for each in gone}
    (found,) = static_membership_missing(view_of(history(*events), NOW + MINUTE, past=gone, causes=causes))
    assert [each.parameter for each in found.advice] == ["group.instance.id", "code"]


def test_clients_are_looked_at_only_where_there_were_many_restarts(monkeypatch: pytest.MonkeyPatch):
    """The advice checks each member's client, which is too expensive for every group at each row."""
    asked_of: list[int] = []
    monkeypatch.setattr(membership, "may_be_named", lambda _, members: asked_of.append(len(members)))
    for times in (2, 24):
        events, gone = restarted(times)
        causes = {each.rebalance_id: "rolling_deploy" for each in gone}
        here = view_of(history(*events), NOW + MINUTE, past=gone, causes=causes)
        assert not list(static_membership_missing(here))
    assert asked_of == [2]


def test_restarts_that_are_faults_do_not_count():
    """A member that is lost by session expiry each hour is not advised to be static."""
    events, gone = restarted(24)
    causes = {each.rebalance_id: "heartbeat_starvation" for each in gone}
    assert not list(static_membership_missing(view_of(history(*events), NOW + MINUTE, past=gone, causes=causes)))


# --- Scaling ---


def scaled(
    *sizes: int, every_ms: int = 5 * MINUTE, likely: str = CLEAN
) -> tuple[list[Event], tuple[ExplainedDeparture, ...]]:
    """Change the number of members in steps: newcomers have new names, and the newest leave first."""
    members = [member(f"m{i}-1", [i]) for i in range(sizes[0])]
    events, gone, born = [], [], sizes[0]
    for i, size in enumerate(sizes[1:]):
        at_ms = NOW - (len(sizes) - 1 - i) * every_ms
        before = list(members)
        while len(members) < size:
            members.append(member(f"m{born}-1", [born], host=f"h{born}"))
            born += 1
        for each in members[size:]:
            gone.append(departed(at_ms, each, likely, rule="scale_in"))
        del members[size:]
        events.append(rebalance(at_ms, before, members))
    return [snapshot(NOW, *members), *events], tuple(gone)


@pytest.mark.parametrize(
    ("story", "fires"),
    [
        pytest.param(scaled(3, 6, 3, 6, 3), True, id="up and down and up and down"),
        pytest.param(scaled(3, 6, 4, 6), False, id="two turns"),
        pytest.param(scaled(3, 4, 5, 6, 8), False, id="growing"),
        pytest.param(scaled(3, 6, 3, 6, 3, likely=SESSION_EXPIRED), False, id="lost, not asked to stop"),
        pytest.param(scaled(3, 6, 3, 6, 3, every_ms=20 * SECOND), True, id="in haste"),
        pytest.param(scaled(3, 6, 3, 6, 3, every_ms=15 * SECOND), False, id="too quick for a scaler"),
        pytest.param(scaled(3, 6, 3, 6, 3, every_ms=HOUR), False, id="once in an hour"),
    ],
)
def test_a_scaler_that_cannot_decide(story: tuple[list[Event], tuple[ExplainedDeparture, ...]], fires: bool):
    """Three changes of direction within an hour, all clean, by instances that join and leave."""
    events, gone = story
    found = list(autoscaler_flapping(view_of(history(*events), NOW + MINUTE + SECOND, past=gone)))
    assert [each.confidence for each in found] == ([STRONG] if fires else [])
    assert not found or "3 -> 6 -> 3 -> 6 -> 3" in found[0].summary


def test_a_slow_deploy_is_no_scaler():
    """Each old instance leaves, a new one joins minutes later: the number goes up and down, but no new one leaves."""
    members = [member(f"m{i}-1", [i]) for i in range(4)]
    events: list[Event] = []
    gone = []
    for i in range(4):
        at_ms = NOW - (4 - i) * 6 * MINUTE
        rest = [each for each in members if each.member_id != f"m{i}-1"]
        gone.append(departed(at_ms, members[0], CLEAN, rule="rolling_deploy"))
        events.append(rebalance(at_ms, members, rest))
        members = [*rest, member(f"n{i}-1", [i], host=f"new{i}")]
        events.append(rebalance(at_ms + 3 * MINUTE, rest, members))
    known = history(snapshot(NOW, *members), *events)
    assert not list(autoscaler_flapping(view_of(known, NOW, past=tuple(gone))))


# --- Everywhere ---


def test_a_healthy_group_has_no_finding():
    """Static and dynamic members that commit, after a clean deploy: no findings."""
    events = one_silent(silent_s=0)
    old = replace(A, member_id="a-0")
    gone = departed(NOW - 10 * MINUTE, old, CLEAN, rule="rolling_deploy", back_ms=NOW - 9 * MINUTE)
    known = history(*events, rebalance(NOW - 10 * MINUTE, [old, SB], [SA, SB]))
    causes = {rebalance_id(NOW - 10 * MINUTE): "rolling_deploy"}
    found = [each.rule for rule in CONDITIONS for each in rule(view_of(known, NOW, past=(gone,), causes=causes))]
    assert found == []


@pytest.mark.parametrize("scenario", ["static-java-range-restarts", "static-kp3-range-restarts"])
def test_restarts_of_real_static_members_are_restarts(scenario: str):
    """Recorded: two instances on one host, restarted within 25 s, one of them twice."""
    known = replayed(scenario)
    assert known.snapshot is not None
    seen = view_of(known, known.snapshot.replacements[-1].at_ms + SECOND)
    assert len(list(static_member_restart(seen))) == 2
    assert not list(static_id_conflict(replace(seen, history=_with_members(known))))


def _with_members(known: GroupHistory) -> GroupHistory:
    """Add the members again that had left when the recording ended."""
    assert known.snapshot is not None
    known.snapshot = replace(known.snapshot, members=tuple(known.members.values()))
    return known
