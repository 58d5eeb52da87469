"""Why members were lost: the founding stories as timelines, and each mechanism with what it is mistaken for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from detect.looks import asked
from detect.standing_histories import departed
from detect.turnover import Run
from histories import (
    MINUTE,
    SECOND,
    T0,
    Event,
    commits,
    history,
    joined,
    lost,
    member,
    picture,
    probe,
    pulse,
    rebalance,
    report,
)
from rebalance_contract import CoordinatorAct as Act
from rebalance_contract import CoordinatorEvent, Generation, Member, Rebalance
from rebalance_contract.clients import ASSIGNED, HEARTBEAT_AGE
from rebalance_contract.clients import HEARTBEAT_TOTAL as HEARTBEATS
from rebalance_streaming.detect.episode import Episode, EpisodeContext, OtherGroups, look_at
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rules.losses import explain_loss
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import SESSION_EXPIRED, Departure
from rebalance_streaming.observed.fingerprints import fingerprint

LOST_MS = T0 + 20 * MINUTE
STAYS = member("a-1", [0, 1])
B, AGAIN = member("b-1", [2, 3]), member("b-2", [2, 3])

STREAM, STREAM_AGAIN = (replace(each, client_id="app-StreamThread-1-consumer") for each in (B, AGAIN))


def episode(
    rebalance: Rebalance, *events: Event, now_ms: int = LOST_MS + MINUTE, known: EpisodeContext | None = None
) -> Episode:
    """Look at a rebalance after these events."""
    return look_at(history(*events, rebalance), rebalance, Thresholds(), JudgingTime(now_ms), known or EpisodeContext())


def explained(rebalance: Rebalance, *events: Event, **changes: Any) -> Verdict | None:
    """Return what is said of the one member that a rebalance lost."""
    of = episode(rebalance, *events, **changes)
    (departure,) = of.departures
    return asked(explain_loss, of, departure)


def said(verdict: Verdict | None) -> tuple[str, float] | None:
    return None if verdict is None else (verdict.rule, verdict.confidence)


def silent(who: Member = B, silence_s: float = 12.0) -> list[Event]:
    """Let a member that commits every five seconds fall silent so long before it is lost."""
    last_ms = LOST_MS - round(silence_s * SECOND)
    return list(pulse(last_ms - MINUTE, last_ms + 1, [2, 3]))


def left(who: Member = B, **changes: Any) -> Rebalance:
    return lost(LOST_MS, who, [STAYS, who], **changes)


def back(who: Member = AGAIN, after_ms: int = MINUTE) -> Rebalance:
    """Let a member join later."""
    return joined(LOST_MS + after_ms, who, [STAYS])


# --- Story B: a rebalance waits for somebody who does not poll ---


def waits(
    start_ms: int, wait_ms: int, *, old: Member, new: Member, listed: Sequence[Member] | None = None
) -> list[Event]:
    """Let a member join, the group prepare for so long, seen by probes, and the old member be out at the end."""
    names = (old, new) if listed is None else listed
    times = range(start_ms, start_ms + wait_ms, 5 * SECOND)
    probes = [probe(at, "PreparingRebalance", list(names)) for at in times]
    return [*probes, rebalance(start_ms, [old], [new], took_ms=wait_ms + 20)]


C1, C2 = (
    member("c1-1", [0, 1, 2], session_timeout_ms=45_000),
    member("c2-1", [0, 1, 2], session_timeout_ms=45_000),
)


def story_b(wait_s: int, *, old: Member = C1, **changes: Any) -> Run:
    """Let c1 poll once at the beginning and c2 join after a minute."""
    told = [picture(T0, old), commits(T0, {0: 10, 1: 10, 2: 10})]
    return Run().live(T0 + 7 * MINUTE, *told, *waits(T0 + MINUTE, wait_s * SECOND, old=old, new=C2, **changes))


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


def test_story_b_is_told_while_it_lasts():
    """Five seconds in, probes show who is awaited; at 65 the release is foretold, at most five minutes away."""
    told = [picture(T0, C1), commits(T0, {0: 10, 1: 10, 2: 10})]
    probes = [event for event in waits(T0 + MINUTE, 20 * SECOND, old=C1, new=C2) if not isinstance(event, Rebalance)]
    run = Run().live(T0 + 80 * SECOND, *told, *probes)
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
    """Nobody but the group's own time-out ends the wait, 360 s into the story."""
    run = story_b(wait_s, old=replace(C1, **changes))
    assert run.finding("stalled_member_join_barrier").primary


def test_story_b_with_a_killed_member_is_no_stall():
    """Killed when the other joins, its session ends the wait after 45 s: it did not fail to poll, it was gone."""
    beats = [commits(at, {0: at // 100, 1: 10, 2: 10}) for at in range(T0, T0 + MINUTE, 5 * SECOND)]
    events = waits(T0 + MINUTE, 45 * SECOND, old=C1, new=C2)
    reports = [report(at, C1, {HEARTBEAT_AGE: 1.0}, tick_late_ms=0) for at in range(T0, T0 + MINUTE, 5 * SECOND)]
    run = Run().live(T0 + 5 * MINUTE, picture(T0, C1), *beats, *reports, *events)
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
    """A newcomer set it off and the one without a poll is gone: seen by probes it is sure, unseen plausible."""
    start_ms = LOST_MS - wait_s * SECOND
    told = waits(start_ms, wait_s * SECOND, old=B, new=member("c-1", [2, 3]))
    events = [each for each in told if in_barrier or isinstance(each, Rebalance)]
    quiet_ms = LOST_MS - 301 * SECOND
    beats = pulse(quiet_ms - MINUTE, quiet_ms + 1, [2, 3])
    gone = events[-1]
    assert isinstance(gone, Rebalance)
    assert said(explained(gone, *beats, *events[:-1])) == expected


def test_a_member_lost_before_is_not_the_one_that_held_the_others():
    """One overran its limit and so began the rebalance; that another was late as well is secondary."""
    start_ms = LOST_MS - 40 * SECOND
    members = [B, member("c-1", [4]), STAYS]
    probes = [probe(at, "PreparingRebalance", members[1:]) for at in range(start_ms, LOST_MS, 5 * SECOND)]
    gone = rebalance(start_ms, members, [STAYS], took_ms=40 * SECOND + 20)
    quiet = pulse(start_ms - 361 * SECOND, start_ms - 300 * SECOND, [2, 3, 4])
    of = episode(gone, *quiet, *probes)
    first, held = sorted(of.departures, key=lambda each: each.member.client_id)
    assert (first.in_barrier, held.in_barrier) == (False, True)
    assert said(asked(explain_loss, of, first)) == ("poll_overrun", STRONG)
    assert said(asked(explain_loss, of, held)) != ("stalled_member_join_barrier", STRONG)


# --- Story C: batches longer than max.poll.interval ---


def test_story_c_names_both_members_and_how_many_records_to_take():
    """750 s per batch against 300 s: m1 leaves at 300, m2 at 400, both are back when their batch is done."""
    m1, m2 = member("m1-1", range(5)), member("m2-1", range(5, 10))
    back_1, back_2 = member("m1-2", range(10)), member("m2-2", range(10))
    start_ms = T0 + 10 * MINUTE

    def at(seconds: int) -> int:
        return start_ms + seconds * SECOND

    emptied = Generation(2, "departure", join_ended_at_ms=at(400), assigned_at_ms=at(400), left=("m1-1", "m2-1"))
    events: list[Event] = [
        picture(T0, m1, m2),
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
    """Away 450 s after a limit of 300 s: the batch took 750 s, and 500 records become at most 100."""
    again = joined(LOST_MS + 447 * SECOND, AGAIN, [STAYS])
    found = explained(left(), *silent(silence_s=301), again, now_ms=LOST_MS + 10 * MINUTE)
    assert said(found) == ("poll_overrun", STRONG)
    assert found is not None
    assert "at most 100" in found.advice[0].proposed
    assert "came back 450 s later" in found.summary


# --- Stories A and D: heartbeats that starve ---


def reporting(who: Member, stop_ms: int, end_ms: int, *, library: str, version: str) -> list[Event]:
    """Let a client report on time while its last heartbeat grows old."""
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
    """Let one of five idle members starve twice, six minutes apart, and come back each time."""
    others = [member(f"m{n}-1", [10 * n]) for n in range(1, 5)]
    name = {"client_id": "kafka-python-1.4.6", "host": "/host-m0"}
    start_ms, events = T0 + 10 * MINUTE, [picture(T0, member("m0-1", [0], **name), *others)]
    beating = range(start_ms - MINUTE, start_ms + 14 * MINUTE, 5 * SECOND)
    for turn in (1, 2):
        who, again = member(f"m0-{turn}", [0], **name), member(f"m0-{turn + 1}", [0], **name)
        lost_ms = start_ms + turn * 6 * MINUTE - 30 * SECOND
        events += [lost(lost_ms, who, [who, *others]), joined(lost_ms + 15 * SECOND, again, others)]
        if metrics:
            events += reporting(who, lost_ms - 10 * SECOND, lost_ms + 10_000, library="kafka-python", version="1.4.6")
        beating = [at for at in beating if not lost_ms - 11 * SECOND <= at <= lost_ms + 20 * SECOND]  # type: ignore[assignment]
    everybody = [10 * n for n in range(1, 5)]
    for at in range(start_ms - MINUTE, start_ms + 14 * MINUTE, 5 * SECOND):
        events.append(commits(at, dict.fromkeys([*([0] if at in beating else []), *everybody], 7)))
    events += [probe(at, ends=dict.fromkeys([0, *everybody], 7)) for at in range(T0, start_ms + 14 * MINUTE, MINUTE)]
    return Run().live(start_ms + 14 * MINUTE, *events)


@pytest.mark.parametrize("metrics", [True, False])
def test_story_a_is_a_starved_heartbeat_of_an_idle_client(metrics: bool):
    """kafka-python 1.4.6, idle: with client metrics it is certain, without its version and its returns tell."""
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
    """kafka-python 2.2.x with a record now and then and a session of 30 s: upgrade, or sleep in the loop."""
    who = replace(B, client_id="kafka-python-2.2.3", session_timeout_ms=30_000)
    reports = reporting(who, LOST_MS - 30 * SECOND, LOST_MS + 10_000, library="kafka-python", version="2.2.3")
    found = explained(left(who), *reports)
    assert said(found) == ("heartbeat_starvation", CERTAIN)
    assert found is not None
    assert found.variant == "lock_contention"
    assert {each.parameter for each in found.advice} == {"upgrade", "code"}
    assert "poll_overrun" in {each.rule for each in found.alternatives}


# --- Each mechanism ---


def stalled_reports(*, tick_late_ms: int, switches: int | None, **changes: Any) -> list[Event]:
    """Let the reporter stand still for the session and go on after it."""
    before = range(LOST_MS - MINUTE, LOST_MS - 11 * SECOND, SECOND)
    told = [report(at, B, tick_late_ms=0, voluntary_switches=0, **changes) for at in before]
    switched = None if switches is None else switches * 12
    after = report(LOST_MS + 1_000, B, tick_late_ms=tick_late_ms, voluntary_switches=switched, **changes)
    return [*told, after, report(LOST_MS + 2_000, B, tick_late_ms=0, **changes)]


KAFKA_PYTHON = {"library": "kafka-python", "library_version": "2.3.0", "interval_ms": 1_000}


@pytest.mark.parametrize(
    ("switches", "library", "expected"),
    [
        (200, KAFKA_PYTHON, ("heartbeat_starvation", STRONG)),
        (1, KAFKA_PYTHON, ("process_pause", STRONG)),
        (200, {"library": "apache-kafka-java", "interval_ms": 1_000}, ("process_pause", STRONG)),
        (None, {**KAFKA_PYTHON, "library_version": "2.2.3"}, ("heartbeat_starvation", PLAUSIBLE)),
    ],
    ids=["threads asked for the lock", "nothing ran", "no such lock in Java", "a version known for it"],
)
def test_a_held_interpreter_switches_and_a_frozen_process_does_not(
    switches: int | None, library: dict[str, Any], expected: tuple[str, float]
):
    """Both silence everything; threads that wait for the interpreter's lock ask for it all the time."""
    assert said(explained(left(), *stalled_reports(tick_late_ms=11_000, switches=switches, **library))) == expected


PLAIN = {"subscription_version": 0, "user_data_bytes": 0}


@pytest.mark.parametrize(
    ("acts", "again", "expected"),
    [
        ((), False, ("heartbeat_starvation", HINT)),
        ((Act.JOINED,), False, ("heartbeat_starvation", PLAUSIBLE)),
        ((Act.NAMED, Act.JOINED), False, ("heartbeat_starvation", HINT)),
        ((), True, ("heartbeat_starvation", PLAUSIBLE)),
    ],
    ids=["nothing else", "joins the old way", "joins the new way", "lost before"],
)
def test_what_looks_like_kafka_python_and_is_back_starved(
    acts: tuple[Act, ...], again: bool, expected: tuple[str, float]
):
    """Its subscription tells the library, its version shows in how it joins; what dies seldom comes back twice."""
    who, successor = replace(B, **PLAIN), replace(AGAIN, **PLAIN)
    first = departed(LOST_MS - 5 * MINUTE, replace(who, member_id="b-0"), SESSION_EXPIRED, rule="undetermined")
    of_kind = replace(first.departure, client=fingerprint(who, None, "range"), back_as=who)
    past = (replace(first, departure=of_kind),) if again else ()
    gone = left(who, protocol="range")
    known = history(*silent(who), gone, back(successor))
    known.coordinator_log.take([CoordinatorEvent(T0 + at, act, member_id="b-1") for at, act in enumerate(acts)])
    of = look_at(known, gone, Thresholds(), JudgingTime(LOST_MS + MINUTE), EpisodeContext(past=past))
    assert said(asked(explain_loss, of, of.departures[0])) == expected


def gone_reports(*, until_ms: int) -> list[Event]:
    return [
        report(at, B, {HEARTBEAT_AGE: 1.0}, tick_late_ms=0) for at in range(until_ms - MINUTE, until_ms, 5 * SECOND)
    ]


@pytest.mark.parametrize(
    ("who", "events", "expected"),
    [
        pytest.param(B, gone_reports(until_ms=LOST_MS - 9_000), ("member_crash", CERTAIN), id="its reports ended"),
        pytest.param(B, [], ("member_crash", PLAUSIBLE), id="away for a minute"),
        pytest.param(replace(B, client_id="sarama"), [], ("member_crash", STRONG), id="cannot starve"),
        pytest.param(
            replace(B, client_id="sarama"),
            [back(replace(AGAIN, client_id="sarama"))],
            ("member_crash", HINT),
            id="back later, and nothing tells why",
        ),
        pytest.param(
            replace(B, client_id="sarama"),
            [back(replace(AGAIN, client_id="sarama"), after_ms=SECOND)],
            ("process_pause", HINT),
            id="back within seconds",
        ),
        pytest.param(B, [back()], ("undetermined", 0.4), id="back, and nothing tells"),
        pytest.param(
            replace(B, client_id="kafkajs"),
            [back(replace(AGAIN, client_id="kafkajs"))],
            ("processing_blocks_heartbeat", PLAUSIBLE),
            id="beats in turns, back",
        ),
        pytest.param(replace(B, client_id="kafkajs"), [], ("member_crash", PLAUSIBLE), id="beats in turns, gone"),
        pytest.param(replace(B, group_instance_id="i"), [], ("static_member_ghost", PLAUSIBLE), id="static, gone"),
        pytest.param(
            replace(B, group_instance_id="i"),
            [back(replace(AGAIN, group_instance_id="i"))],
            ("static_session_too_short", STRONG),
            id="static, back",
        ),
        pytest.param(
            replace(B, client_id="kafka-python-1.4.6"),
            [back(replace(AGAIN, client_id="kafka-python-1.4.6"))],
            ("heartbeat_starvation", PLAUSIBLE),
            id="a version that starves, back",
        ),
    ],
)
def test_an_expired_session_has_many_causes(who: Member, events: list[Event], expected: tuple[str, float]):
    """By reports, else by library and return; where nothing separates them it is undetermined."""
    assert said(explained(left(who), *silent(), *events)) == expected


def test_a_member_that_stays_away_crashed_rather_than_starved():
    """What starved or stood still is back within a few sessions."""
    assert said(explained(left(), *silent(), now_ms=LOST_MS + 20 * SECOND)) == ("member_crash", HINT)
    assert said(explained(left(), *silent(), now_ms=LOST_MS + 30 * SECOND)) == ("member_crash", PLAUSIBLE)


def turned_away(*, until_s: int = 30, **values: float) -> list[Event]:
    """Let a client report on time until so long after its group removed it, as a member by its own word."""
    told = {HEARTBEATS: 0.0, ASSIGNED: 2.0, **values}
    times = range(LOST_MS - MINUTE, LOST_MS + until_s * SECOND, 5 * SECOND)
    return [report(at, B, {**told, HEARTBEATS: (at - LOST_MS + MINUTE) / 3_000}, tick_late_ms=0, pid=1) for at in times]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (turned_away(), ("join_rejected", STRONG)),
        (turned_away(until_s=10), ("undetermined", HINT)),
        ([*turned_away(), back()], ("undetermined", HINT)),
        (turned_away(**{ASSIGNED: 0.0}), ("undetermined", HINT)),
    ],
    ids=["goes on", "not known yet", "back", "closed its consumer"],
)
def test_who_beats_and_is_removed_and_not_let_in_was_turned_away(events: list[Event], expected: tuple[str, float]):
    """A coordinator that takes its heartbeats keeps it, one that does not know it any more lets it join at once."""
    assert said(explained(left(), *silent(), *events)) == expected


@pytest.mark.parametrize(("ended_s", "expected"), [(6, ("member_crash", STRONG)), (2, None)])
def test_who_beat_within_its_session_left_by_itself(ended_s: int, expected: tuple[str, float] | None):
    """Commits farther apart than a session tell nothing; a process that reported a moment ago was not expired."""
    who = replace(B, client_id="kgo", session_timeout_ms=6_000)
    slow = [commits(at, {2: at // 100, 3: 7}) for at in range(LOST_MS - 97_000, LOST_MS - 6_000, 15 * SECOND)]
    told = [
        report(at, who, {"consumer_lag": 1.0}, interval_ms=1_000)
        for at in range(LOST_MS - MINUTE, LOST_MS - ended_s * SECOND + 1, SECOND)
    ]
    assert said(explained(left(who), *slow, *told)) == expected


def test_a_static_member_that_stopped_polling_keeps_its_partitions():
    """It says no good-bye: it is out a session after its limit."""
    who = replace(B, group_instance_id="i")
    found = explained(left(who), *silent(silence_s=310))
    assert said(found) == ("static_stalled_member", PLAUSIBLE)
    assert said(explained(left(), *silent(silence_s=310))) != said(found)


def test_a_ghost_beside_its_successor_was_killed():
    """It was started again while its old id was still there, and the others waited until that one's session ended."""
    gone = rebalance(LOST_MS - 8 * SECOND, [STAYS, B], [STAYS, AGAIN], took_ms=8_020)
    found = explained(gone, *silent())
    assert said(found) == ("ungraceful_shutdown", HINT)
    assert found is not None
    assert "b-2 of the same client joined" in found.evidence[0].value
    sure = explained(gone, *silent(), *gone_reports(until_ms=LOST_MS - 9_000))
    assert said(sure) == ("ungraceful_shutdown", STRONG)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], ("member_crash", STRONG)),
        ([back(STREAM_AGAIN)], ("ungraceful_shutdown", PLAUSIBLE)),
        ([back(STREAM_AGAIN, after_ms=SECOND)], ("process_pause", HINT)),
    ],
    ids=["stays away", "comes back", "at once"],
)
def test_kafka_streams_closes_without_leaving(events: list[Event], expected: tuple[str, float]):
    """Its restart looks as its death does, and is the likelier of the two."""
    assert said(explained(left(STREAM), *silent(), *events)) == expected


@pytest.mark.parametrize(("wait_s", "rule"), [(8, "ungraceful_shutdown"), (20, "stalled_member_join_barrier")])
def test_a_ghost_that_never_committed_is_told_by_how_long_it_was_awaited(wait_s: int, rule: str):
    """Beside its successor, for its session at most; whoever beats is awaited longer."""
    start_ms = LOST_MS - wait_s * SECOND
    probes = [probe(at, "PreparingRebalance", [STAYS, B, AGAIN]) for at in range(start_ms, LOST_MS, 2 * SECOND)]
    gone = rebalance(start_ms, [STAYS, B], [STAYS, AGAIN], took_ms=wait_s * SECOND + 20)
    found = explained(gone, *probes)
    assert found is not None
    assert found.rule == rule


def test_one_host_of_several_groups_is_unreachable():
    """Other groups lost members of the same host at the same time: a hint at the network, no more."""
    wide = EpisodeContext(elsewhere=OtherGroups(("other",), ("/host-b",), (1,)))
    assert said(explained(left(), *silent(), known=wide)) == ("network_partition", HINT)
    far = EpisodeContext(elsewhere=OtherGroups(("other",), ("/host-z",), (1,)))
    assert said(explained(left(), *silent(), known=far)) == ("member_crash", PLAUSIBLE)


@pytest.mark.parametrize(("host", "sure"), [("/h", PLAUSIBLE), ("/elsewhere", HINT)])
def test_members_of_a_host_that_stood_still_together(host: str, sure: float):
    """Two members of one host lost and back at once, of a library whose heartbeats cannot starve: they paused.

    Unless another member of the host went on, the host may have been cut off.
    """
    one, two = (member(f"{n}-1", [i], client_id="kgo", host="/h") for i, n in ((2, "b"), (3, "c")))
    stays = replace(STAYS, host=host)
    gone = rebalance(LOST_MS, [stays, one, two], [stays])
    again = rebalance(LOST_MS + SECOND, [stays], [stays, replace(one, member_id="b-2"), replace(two, member_id="c-2")])
    of = episode(gone, *silent(), again)
    found = [asked(explain_loss, of, each) for each in of.departures]
    assert [said(each) for each in found] == [("process_pause", sure)] * 2
    assert found[0] is not None
    assert found[0].subject.hosts == ("/h",)


def test_a_clean_leave_is_no_loss():
    """It committed until it went: nothing is said of it."""
    assert explained(left(), *silent(silence_s=2)) is None


def test_a_member_of_which_nothing_was_due_is_undetermined():
    """No commit, no report: three causes stay, and what would tell is named."""
    found = explained(left())
    assert found is not None
    assert (found.rule, {each.rule for each in found.alternatives}) == (
        "undetermined",
        {"scale_in", "member_crash", "poll_overrun"},
    )
    assert found.missing == ("client metrics of /host-b: reports on time, late or missing would separate these",)


def test_a_member_that_kept_its_partitions_was_fenced():
    """KIP-848: neither its session nor its polls, but the partitions it did not give up."""
    fenced = Generation(2, "departure", left=("b-1",), fenced=("b-1",), assigned_at_ms=LOST_MS)
    who = replace(B, session_timeout_ms=None)
    found = explained(left(who, type="consumer", generations=(fenced,), join_ended_at_ms=None))
    assert found is not None
    assert found.rule == "reconciliation_stuck"
    assert found.confidence >= STRONG


def named(departure: Departure, found: Verdict) -> bool:
    return departure.member.member_id in {each.member_id for each in found.subject.members}


@pytest.mark.parametrize("silence_s", [2, 12, 25, 301, 400])
@pytest.mark.parametrize("client_id", ["b", "sarama", "kafkajs", "kafka-python-1.4.6", "rdkafka", "aiokafka-0.8.1"])
@pytest.mark.parametrize("instance", [None, "i"])
def test_whatever_is_said_names_the_member(silence_s: int, client_id: str, instance: str | None):
    """No departure is left without a word except one in order, and each word is about the one that left."""
    who = replace(B, client_id=client_id, group_instance_id=instance)
    of = episode(left(who), *silent(silence_s=silence_s))
    (departure,) = of.departures
    found = asked(explain_loss, of, departure)
    assert (found is None) == (departure.likely == "clean_leave")
    assert found is None or named(departure, found)
