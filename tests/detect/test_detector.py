"""A cluster's groups under judgement: when findings are published, once per rebalance, in any order of the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from detect.turnover import Run, hear, outage
from histories import (
    CLUSTER,
    GROUP,
    HOUR,
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
    rebalance_id,
    report,
    silenced,
    snapshot,
)
from rebalance_contract import (
    CommitActivity,
    CommitGap,
    CoordinatorAct,
    CoordinatorActivity,
    CoordinatorEvent,
    Finding,
    Generation,
    Rebalance,
    Severity,
    decode,
    encode,
)
from rebalance_contract.clients import HEARTBEAT_AGE, POLL_AGE
from rebalance_streaming.detect.config import DetectConfig, FindingSilence, Override
from rebalance_streaming.detect.detector import Detector
from rebalance_streaming.detect.judge import GroupJudge
from rebalance_streaming.detect.judged_group import JudgedGroup
from rebalance_streaming.detect.judgement import Judgement

A, B, C = member("a-1", [0, 1]), member("b-1", [2, 3]), member("c-1", [4, 5])
A2 = member("a-2", [0, 1])
#: The delay of a judgement after the end of a rebalance, counted from its beginning.
JUDGED_MS = 3 * SECOND + DetectConfig().settle_ms

# --- When ---


def test_a_rebalance_is_judged_once_late_rows_are_there():
    """Not before it has settled, then once; an unchanged finding is not published again."""
    run = Run().live(T0 + MINUTE + JUDGED_MS - 1, snapshot(T0, A), joined(T0 + MINUTE, B, [A]))
    assert run.published == []
    run.live(T0 + 3 * MINUTE)
    assert [each.rule for each in run.published] == ["scale_out"]
    assert run.causes() == {rebalance_id(T0 + MINUTE): "scale_out"}
    assert run.detector.causes(GROUP) == {rebalance_id(T0 + MINUTE): "scale_out"}
    assert run.detector.causes("another") == {}


def test_an_end_judges_everything_at_once():
    """`finish` waits for nothing, because no more rows will arrive."""
    run = Run().live(T0 + MINUTE + 4 * SECOND, snapshot(T0, A), joined(T0 + MINUTE, B, [A]))
    assert [each.rule for each in run.detector.finish().findings] == ["scale_out"]
    assert run.detector.finish() == Judgement()


def test_a_rebalance_that_goes_on_and_on_is_judged_on_the_way():
    """Each further generation postpones its end but not its judgement."""
    run = Run().live(T0 + MINUTE, snapshot(T0, A))
    ends_ms = [T0 + MINUTE + 3_000 + number * 5_000 for number in range(12)]
    rounds = [
        Generation(
            2 + number, "join", join_ended_at_ms=at - 20, assigned_at_ms=at, joined=("b-1",) if not number else ()
        )
        for number, at in enumerate(ends_ms)
    ]
    for number, at in enumerate(ends_ms):
        known = tuple(rounds[: number + 1])
        run.live(at + 1, joined(T0 + MINUTE, B, [A], took_ms=at - T0 - MINUTE, generations=known))
    assert run.causes() == {rebalance_id(T0 + MINUTE): "scale_out"}
    first_ms = run.published[0].detected_at_ms
    assert T0 + MINUTE + JUDGED_MS <= first_ms <= T0 + MINUTE + JUDGED_MS + 2 * SECOND


def test_a_rebalance_that_has_not_ended_is_not_judged():
    """An ongoing rebalance has no cause yet, not even at the end."""
    going_on = joined(T0 + MINUTE, B, [A], outcome="ongoing", completed_at_ms=None, join_ended_at_ms=None)
    run = Run().live(T0 + 3 * MINUTE, snapshot(T0, A), going_on)
    run.detector.finish()
    assert run.causes() == {}


def test_what_an_earlier_run_judged_is_history():
    """A rebalance that ended before the diagnosis had all inputs is not judged, but it is known."""
    old, new = joined(T0 + MINUTE, B, [A]), joined(T0 + 3 * MINUTE, C, [A, B])
    run = Run(judge_from_ms=T0 + 2 * MINUTE).live(T0 + 5 * MINUTE, snapshot(T0, A), old, new)
    assert set(run.causes()) == {rebalance_id(T0 + 3 * MINUTE)}


def test_quiet_groups_are_looked_at_while_others_are_busy():
    """The finding of a quiet group is resolved after ten minutes, however busy its neighbours are."""
    busy = [replace(snapshot(T0 + n * SECOND, A), group="busy", generation=n) for n in range(1, 1_000, 2)]
    quiet = joined(T0 + MINUTE, B, [A])
    run = Run().live(T0 + 999 * SECOND, *busy, snapshot(T0 + 2 * SECOND, A), quiet)
    assert run.finding("scale_out").state == "resolved"
    assert run.finding("scale_out").updated_at_ms <= T0 + 11 * MINUTE + 3 * SECOND + 31 * SECOND


# --- One primary cause each ---


def test_a_departure_is_judged_again_when_the_member_returns():
    """At first it may be a scale-in; once the instance is back it was a restart, and the first finding is withdrawn."""
    gone, back = lost(T0 + MINUTE, B, [A, B]), joined(T0 + 2 * MINUTE, member("b-2", [2, 3]), [A])
    beats = pulse(T0, T0 + MINUTE, [0, 1, 2, 3])
    run = Run().live(T0 + MINUTE + 40 * SECOND, snapshot(T0, A, B), *beats, gone)
    assert run.causes() == {gone.rebalance_id: "scale_in"}
    run.live(T0 + 3 * MINUTE, back)
    assert run.causes() == {gone.rebalance_id: "rolling_deploy", back.rebalance_id: "rolling_deploy"}
    assert [(each.rule, each.state) for each in run.withdrawn] == [("scale_in", "resolved")]
    assert "scale_in" not in run.rules()


def deploy(start_ms: int) -> list[Event]:
    """Let three instances be replaced one after the other, each with a clean leave."""
    names, events, alive = ("a", "b", "c"), [], {"a": A, "b": B, "c": C}
    for number, name in enumerate(names):
        at, new = start_ms + number * MINUTE, replace(alive[name], member_id=f"{name}-2")
        events.append(lost(at, alive[name], list(alive.values())))
        others = [each for key, each in alive.items() if key != name]
        events.append(joined(at + 20 * SECOND, new, others))
        alive[name] = new
    return [snapshot(T0, A, B, C), *pulse(T0, start_ms + 4 * MINUTE, range(6)), *events]


def test_a_pattern_claims_the_rebalances_it_explains():
    """A deploy of three replaces six single verdicts; each rebalance keeps exactly one primary cause."""
    events = deploy(T0 + 5 * MINUTE)
    run = Run().live(T0 + 10 * MINUTE, *events)
    ids = {each.rebalance_id for each in events if isinstance(each, Rebalance)}
    assert run.causes() == dict.fromkeys(ids, "rolling_deploy")
    (deployed,) = [each for each in run.detector.findings.all() if each.primary]
    assert deployed.rebalances == len(ids)
    assert "3 of 3 instances were replaced once each" in deployed.summary
    assert not [each for each in run.detector.findings.all() if each.rule in ("scale_in", "scale_out")]


def test_a_round_that_follows_has_the_cause_of_the_one_before():
    """The second round of a cooperative assignor has no separate reason."""
    first = joined(T0 + MINUTE, B, [A])
    after = rebalance(T0 + MINUTE + 5 * SECOND, [A, B], [A, B], reason="cooperative_followup")
    run = Run().live(T0 + 3 * MINUTE, snapshot(T0, A), first, after)
    assert run.causes() == {first.rebalance_id: "scale_out", after.rebalance_id: "scale_out"}
    assert run.finding("scale_out").rebalances == 2


def test_a_round_that_follows_nothing_known_is_undetermined():
    """If the previous rebalance was not judged, its cause cannot be inherited."""
    first = joined(T0 + MINUTE, B, [A])
    after = rebalance(T0 + MINUTE + 5 * SECOND, [A, B], [A, B], reason="cooperative_followup")
    run = Run(judge_from_ms=T0 + MINUTE + 6 * SECOND).live(T0 + 3 * MINUTE, snapshot(T0, A), first, after)
    assert run.causes() == {after.rebalance_id: "undetermined"}


@pytest.mark.parametrize(("times", "severity"), [(1, Severity.INFO), (2, Severity.INFO), (3, Severity.TICKET)])
def test_what_nothing_explains_is_a_ticket_when_it_recurs(times: int, severity: str):
    """Three within a day."""
    rounds = [unexplained(T0 + (1 + n) * 10 * MINUTE) for n in range(times)]
    run = Run().live(T0 + 45 * MINUTE, snapshot(T0, A, B), *rounds, step_ms=5 * SECOND)
    assert {each.severity for each in run.detector.findings.all() if each.rule == "undetermined"} == {severity}


@pytest.mark.parametrize(
    ("took_minutes", "silent_minutes", "severity"),
    [(14, 14, Severity.INFO), (15, 15, Severity.TICKET), (1, 240, Severity.INFO)],
    ids=["below 1 % of a day", "1 % of a day", "an idle night"],
)
def test_what_nothing_explains_is_a_ticket_where_rebalances_cost_much(
    took_minutes: int, silent_minutes: int, severity: str
):
    """A hundredth of a day is 14.4 minutes; a topic without new records for hours costs nothing."""
    began_ms = T0 + 2 * MINUTE
    gaps = tuple(CommitGap("orders", p, began_ms, began_ms + silent_minutes * MINUTE) for p in range(4))
    costly = joined(began_ms, B, [A], took_ms=took_minutes * MINUTE)
    after = unexplained(T0 + 20 * MINUTE)
    run = Run().live(
        T0 + 22 * MINUTE, snapshot(T0, A), snapshot(T0 + 19 * MINUTE, A, B), costly, silenced(costly, *gaps), after
    )
    found = {each.severity for each in run.detector.findings.all() if after.rebalance_id in each.rebalance_ids}
    assert (run.causes()[after.rebalance_id], found) == ("undetermined", {severity})


def test_who_did_not_sync_counts_with_those_over_their_poll_limit():
    """The coordinator allows the same time-out for both; otherwise it would appear to have left by itself."""
    run = Run().live(T0 + 105 * SECOND, *overrun())
    fields = {"member_id": "b-1", "reason": "did not send its sync request in time"}
    line = CoordinatorEvent(T0 + 90 * SECOND - 100, CoordinatorAct.EVICTED, **fields)
    run.detector.take_coordinator(CoordinatorActivity(CLUSTER, GROUP, T0 + 85 * SECOND, (line,)))
    run.live(T0 + 4 * MINUTE)
    assert "did not ask for its" in run.finding("undetermined").summary
    assert [(each.expired, each.poll_timeout) for each in run.timed_out] == [((), ("b-1",))]


def unexplained(at_ms: int) -> Rebalance:
    """Return a rebalance in which nothing changed."""
    return rebalance(at_ms, [A, B], [A, B], reason="metadata")


def test_members_that_timed_out_are_reported_once():
    """As soon as it is known how they left, and only once even if the rebalance is judged again."""
    run = Run().live(T0 + 4 * MINUTE, *overrun())
    (reported,) = run.timed_out
    assert (reported.group, reported.expired, reported.poll_timeout) == (GROUP, (), ("b-1",))
    run.live(T0 + 8 * MINUTE, snapshot(T0 + 5 * MINUTE, A))
    assert run.timed_out == [reported]


def test_a_departure_understood_later_is_reported_then():
    """At first only as gone; once its client has not reported for long enough, as an expired session."""
    slow = replace(B, session_timeout_ms=45_000)
    reports = [report(at, slow, {POLL_AGE: 0.5, HEARTBEAT_AGE: 1.0}, interval_ms=60_000) for at in (T0, T0 + MINUTE)]
    gone = lost(T0 + 110 * SECOND, slow, [A, slow])
    run = Run().live(T0 + 140 * SECOND, snapshot(T0, A, slow), *reports, gone)
    assert run.causes() == {gone.rebalance_id: "undetermined"}
    assert run.timed_out == []
    run.live(T0 + 6 * MINUTE, snapshot(T0 + 5 * MINUTE, A))
    assert run.causes() == {gone.rebalance_id: "member_crash"}
    assert [each.expired for each in run.timed_out] == [("b-1",)]


# --- Standing conditions ---


def standing_still(until_ms: int) -> list[Event]:
    """Commits stop after a minute, while probes keep seeing new records."""
    worked = [commits(T0 + at * SECOND, dict.fromkeys(range(4), 100 + at)) for at in range(0, 61, 5)]
    ends = [probe(at, ends=dict.fromkeys(range(4), 200 + (at - T0) // SECOND)) for at in range(T0, until_ms, 7_000)]
    return [snapshot(T0 - HOUR, member("a-1", range(4))), *worked, *ends]


def test_a_condition_is_reported_within_a_second_of_its_time():
    """Five minutes after the last commit, whenever rows arrived in between; resolved as soon as commits resume."""
    due_ms = T0 + MINUTE + 5 * MINUTE
    run = Run().live(T0 + 8 * MINUTE, *standing_still(T0 + 8 * MINUTE))
    found = run.finding("stalled_consumer")
    assert due_ms <= found.detected_at_ms <= due_ms + SECOND
    again = [commits(T0 + 8 * MINUTE + at * SECOND, dict.fromkeys(range(4), 9_000)) for at in (1, 6)]
    run.live(T0 + 8 * MINUTE + 20 * SECOND, *again)
    over = run.finding("stalled_consumer")
    assert over.state == "resolved"
    assert over.resolved_at_ms is not None
    assert over.resolved_at_ms <= T0 + 8 * MINUTE + 15 * SECOND


def test_a_group_at_rest_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    """With no deadline pending, no rule is evaluated until something changes or the next sweep is due."""
    asked: list[int] = []
    monkeypatch.setattr(GroupJudge, "judge", _counting(GroupJudge.judge, asked))
    run = Run().live(T0 + 10 * MINUTE, snapshot(T0 - HOUR, A, B), commits(T0, dict.fromkeys(range(4), 5)))
    assert len(asked) <= 4
    run.live(T0 + 11 * MINUTE, *[probe(T0 + 10 * MINUTE + at * SECOND, "Stable") for at in range(1, 60, 5)])
    assert len(asked) <= 6


def _counting(judge: Callable[..., list[Finding]], asked: list[int]) -> Callable[..., list[Finding]]:
    def counted(self: GroupJudge, judged_group: object, now_ms: int) -> list[Finding]:
        asked.append(now_ms)
        return judge(self, judged_group, now_ms)

    return counted


def test_groups_that_were_put_off_come_first(monkeypatch: pytest.MonkeyPatch):
    """More groups change each second than can be judged: those late in the alphabet have their turns as well."""
    judged: list[str] = []
    monkeypatch.setattr(GroupJudge, "judge", _naming(GroupJudge.judge, judged))
    names = [f"g{number}" for number in range(6)]
    run = Run()
    for second in range(1, 13):
        for name in names:
            run.detector.take_group(replace(snapshot(T0 + second, A), group=name))
        run.detector.advance(T0 + second * SECOND, 2)
    assert judged == names * 4


def test_waiting_rebalances_come_first_but_not_for_ever(monkeypatch: pytest.MonkeyPatch):
    """Where rebalances alone take every turn, another group comes after those of its first minute, not after all."""
    judged: list[str] = []
    monkeypatch.setattr(GroupJudge, "judge", _naming(GroupJudge.judge, judged))
    detector = Run().detector
    detector.take_group(replace(snapshot(T0, A), group="calm"))
    for second in range(1, 121):
        busy = replace(joined(T0 + second * SECOND, B, [A]), group=f"busy-{second}")
        detector.take_rebalance(busy)
        detector.advance(T0 + second * SECOND, 1)
    assert judged[0] == "busy-1"
    assert 60 <= judged.index("calm") < 110


def _naming(judge: Callable[..., list[Finding]], judged: list[str]) -> Callable[..., list[Finding]]:
    def named(self: GroupJudge, judged_group: JudgedGroup, now_ms: int) -> list[Finding]:
        judged.append(judged_group.history.group)
        return judge(self, judged_group, now_ms)

    return named


# --- Settings ---


def overrun(group: str = GROUP) -> list[Event]:
    """Let a member stop polling for its 30 s and leave."""
    slow = replace(B, rebalance_timeout_ms=30_000)
    events: list[Event] = [snapshot(T0, A, slow), *pulse(T0, T0 + MINUTE, [0, 1, 2, 3])]
    events += [*pulse(T0 + MINUTE, T0 + 100 * SECOND, [0, 1]), lost(T0 + 90 * SECOND, slow, [A, slow])]
    return [replace(each, group=group) for each in events]


def test_a_silenced_finding_is_kept_and_notifies_nobody():
    """It stays informational; the same finding of another group is a ticket, as is this one's once the silence ends."""
    silence = FindingSilence(group="noisy.*", rule="poll_.*", until_ms=T0 + 5 * MINUTE)
    run = Run(DetectConfig(silences=(silence,))).live(T0 + 4 * MINUTE, *overrun("noisy-1"), *overrun("other"))
    found = {each.group: each for each in run.detector.findings.all() if each.rule == "poll_overrun"}
    assert {name: each.severity for name, each in found.items()} == {"noisy-1": Severity.INFO, "other": Severity.TICKET}
    run.live(T0 + 6 * MINUTE)
    assert {each.severity for each in run.detector.findings.all() if each.rule == "poll_overrun"} == {Severity.TICKET}


def test_ignored_groups_are_not_judged():
    """Members of console consumer groups join and leave as their users please."""
    run = Run().live(T0 + 3 * MINUTE, *overrun("console-consumer-12"), *overrun())
    assert {each.group for each in run.detector.findings.all()} == {GROUP}


def test_overrides_change_one_groups_thresholds():
    """A group with an override resolves a finding sooner than the others."""
    override = Override("quick", {"resolve_after_ms": MINUTE})
    run = Run(DetectConfig(overrides=(override,))).live(T0 + 4 * MINUTE, *overrun("quick"), *overrun("slow"))
    states = {each.group: each.state for each in run.detector.findings.all() if each.rule == "poll_overrun"}
    assert states == {"quick": "resolved", "slow": "firing"}


@pytest.mark.parametrize(("scale", "state"), [(1.0, "firing"), (0.2, "resolved")])
def test_windows_can_be_scaled(scale: float, state: str):
    """A window of ten minutes becomes two at a scale of one fifth."""
    run = Run(DetectConfig(window_scale=scale)).live(T0 + 4 * MINUTE, *overrun())
    assert run.finding("poll_overrun").state == state


def test_a_cause_pages_only_while_consumption_is_harmed():
    """The same departure is a ticket in a group without lag, and a page if records wait and more arrive."""
    waiting = [probe(T0 + at * SECOND, ends={0: 200 + at, 1: 200 + at}) for at in range(0, 600, 30)]
    run = Run().live(T0 + 8 * MINUTE, *overrun(), *waiting[:16])
    assert run.finding("poll_overrun").severity == Severity.PAGE
    assert Run().live(T0 + 8 * MINUTE, *overrun()).finding("poll_overrun").severity == Severity.TICKET


# --- Early reports, forgotten groups, restarts ---


def test_reports_that_came_before_their_group_count():
    """Reports of a client that does not name its group, before the group is known, are not lost."""
    early = [report(T0 + at * SECOND, B, {"last_poll_seconds_ago": 1.0}, group_id=None) for at in (1, 6, 11)]
    run = Run().live(T0 + 30 * SECOND, *early, snapshot(T0 + 20 * SECOND, A, B))
    (timing,) = run.detector.timings(T0 + 30 * SECOND)
    assert [(each.member_id, each.poll_age_ms) for each in timing.members] == [("b-1", 1_000)]
    assert timing.windows["1m"].reports == 3


def test_a_group_that_is_gone_has_no_open_findings():
    """Its findings are resolved with it, because nothing could resolve them afterwards."""
    run = Run().live(T0 + 3 * MINUTE, *overrun())
    assert run.finding("poll_overrun").state == "firing"
    run.detector.forget_group(GROUP)
    run.live(T0 + 4 * MINUTE)
    assert run.detector.findings.firing(GROUP) == []
    assert {(each.rule, each.state) for each in run.withdrawn} >= {("poll_overrun", "resolved")}
    assert run.detector.causes(GROUP) == {}


def test_a_restart_goes_on_with_the_findings_that_were_open():
    """The recent past is read again and gives the same finding, with its id and detection time."""
    before = Run().live(T0 + 4 * MINUTE, *overrun())
    published = decode(encode(before.finding("poll_overrun")), Finding)
    seen_ms = published.started_at_ms + SECOND
    published = replace(published, finding_id="0123456789abcdef", detected_at_ms=seen_ms)
    after = Run()
    after.detector.findings.restore(published)
    after.live(T0 + 6 * MINUTE, *overrun())
    found = after.finding("poll_overrun")
    assert (found.finding_id, found.detected_at_ms) == ("0123456789abcdef", seen_ms)
    assert (found.state, found.rebalance_ids) == ("firing", published.rebalance_ids)
    assert after.withdrawn == []


def test_a_cause_is_not_lost_with_what_it_rested_on():
    """After a restart the earlier commits are not read again, so the rule finds nothing: the existing finding stays."""
    published = Run().live(T0 + 4 * MINUTE, *overrun()).finding("poll_overrun")
    after = Run()
    after.detector.findings.restore(published)
    after.live(T0 + 6 * MINUTE, *(each for each in overrun() if not isinstance(each, CommitActivity)))
    assert after.causes() == dict.fromkeys(published.rebalance_ids, "poll_overrun")
    assert after.finding("poll_overrun").finding_id == published.finding_id
    assert after.withdrawn == []


def test_rebalances_of_before_a_start_keep_their_cause():
    """Rebalances that ended before the rows that are read again are not judged: their existing findings stay."""
    published = Run().live(T0 + 4 * MINUTE, *overrun()).finding("poll_overrun")
    (judged,) = published.rebalance_ids
    after = Run(judge_from_ms=T0)
    after.detector.findings.restore(replace(published, rebalance_ids=("long-ago", judged)))
    earlier = lost(T0 - 20 * MINUTE, B, [A, B], rebalance_id="long-ago")
    after.live(T0 + 5 * MINUTE, earlier, *overrun())
    assert after.causes() == dict.fromkeys(("long-ago", judged), "poll_overrun")
    assert after.finding("poll_overrun").rebalances == 2


def test_a_group_that_only_probes_named_before_the_time_was_known_stays():
    """At a start rows are read before the first look, so their age is unknown."""
    detector = Detector("prod")
    hear(detector, probe(T0, "Stable", [A]))
    detector.advance(T0 + MINUTE)
    assert detector.groups() == [GROUP]


def test_a_restart_ends_what_does_not_hold_any_more():
    """A finding that is not found again is resolved when its time is reached."""
    stale = replace(Run().live(T0 + 4 * MINUTE, *overrun()).finding("poll_overrun"), rebalance_ids=("long-ago",))
    after = Run()
    after.detector.findings.restore(replace(stale, updated_at_ms=T0 + MINUTE))
    after.live(T0 + 3 * MINUTE, snapshot(T0, A))
    assert after.detector.findings.firing(GROUP) == []
    assert [each.finding_id for each in after.withdrawn] == [stale.finding_id]


def test_a_count_of_before_a_restart_ends_in_time():
    """Nothing counts it again, and nothing else happens to its group: it ends when its time is over."""
    found = Run().live(T0 + 4 * MINUTE, *overrun()).finding("poll_overrun")
    counted = replace(found, rule="duplicate_processing", primary=False, rebalance_ids=(), updated_at_ms=T0 + MINUTE)
    after = Run()
    after.detector.findings.restore(counted)
    after.live(T0 + 20 * MINUTE, snapshot(T0, A))
    resolved_ms = after.finding("duplicate_processing").resolved_at_ms
    assert resolved_ms is not None
    assert T0 + 11 * MINUTE <= resolved_ms <= T0 + 11 * MINUTE + SECOND


# --- Several groups ---


@pytest.mark.parametrize(
    ("groups", "brokers", "apart_ms", "wide"),
    [(3, 2, 0, True), (2, 2, 0, False), (3, 1, 0, False), (3, 2, 3 * MINUTE, False)],
    ids=["wide", "two groups", "one coordinator", "minutes apart"],
)
def test_what_several_groups_suffer_at_once_is_the_clusters(groups: int, brokers: int, apart_ms: int, wide: bool):
    """Three groups on two hosts and two coordinators within a minute: one finding without a group, with all hosts."""
    run = Run().live(T0 + 12 * MINUTE, *outage(groups, brokers, apart_ms=apart_ms), step_ms=5 * SECOND)
    found = [each for each in run.published if not each.group]
    assert [(each.rule, each.group) for each in found] == ([("cluster_wide_disturbance", "")] if wide else [])
    if wide:
        assert found[0].subject.hosts == ("/host-m0", "/host-m1", "/host-m2")
        assert len(found[0].rebalance_ids) == 3
        assert not found[0].primary
        run.live(T0 + 14 * MINUTE)
        assert [each.state for each in run.published if not each.group] == ["firing", "resolved"]


def test_a_group_without_a_name_takes_no_finding_of_the_cluster():
    """Clients up to 2.1 without a group id commit to the empty group; findings without a group are the cluster's."""
    run = Run().live(T0 + 3 * MINUTE, *outage(3, 2), *overrun(""), step_ms=5 * SECOND)
    assert [(each.rule, each.state) for each in run.published if not each.group] == [
        ("cluster_wide_disturbance", "firing")
    ]
    assert "" not in run.detector.groups()


def test_losses_that_were_none_leave_the_cluster_alone():
    """Later lines of brokers show clean leaves: then the finding about the cluster is withdrawn too."""
    run = Run().live(T0 + 3 * MINUTE, *outage(3, 2), step_ms=5 * SECOND)
    wide = run.finding("cluster_wide_disturbance")
    assert wide.state == "firing"
    for n in range(3):
        fields = {"member_id": f"m{n}-1", "reason": "the consumer is being closed"}
        line = CoordinatorEvent(T0 + 2 * MINUTE - 100, CoordinatorAct.LEFT, **fields)
        run.detector.take_coordinator(CoordinatorActivity(CLUSTER, f"g{n}", T0 + 2 * MINUTE - 5_000, (line,)))
    run.live(T0 + 4 * MINUTE)
    assert run.finding("cluster_wide_disturbance").state == "resolved"
    assert set(run.causes().values()) == {"scale_in"}
