"""Causes of lost members, by mechanism."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from detect.departing import LOST_MS, B, episode, gone, losing, said
from detect.losing import AGAIN, STAYS, back, explained, left, silent
from detect.standing_histories import departed
from histories import (
    MINUTE,
    SECOND,
    T0,
    Event,
    commits,
    history,
    member,
    probe,
    rebalance,
    report,
)
from rebalance_contract import CoordinatorAct as Act
from rebalance_contract import CoordinatorEvent, Generation, Member
from rebalance_contract.clients import ASSIGNED, HEARTBEAT_AGE
from rebalance_contract.clients import HEARTBEAT_TOTAL as HEARTBEATS
from rebalance_streaming.detect.episode import EpisodeContext, OtherGroups, make_episode
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rules import losses
from rebalance_streaming.detect.rules.ended_processes import crash
from rebalance_streaming.detect.rules.losses import explain_loss
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import (
    CLEAN,
    FENCED,
    POLL_TIMEOUT,
    REMOVED_BY_ADMIN,
    SESSION_EXPIRED,
    UNKNOWN,
    UNSYNCED,
    Departure,
)
from rebalance_streaming.observed.fingerprints import make_fingerprint
from rebalance_streaming.observed.liveness import ALIVE, GONE, HEALTHY, PAUSED, RESTARTED, STARVED, UNREACHABLE

STREAM, STREAM_AGAIN = (replace(each, client_id="app-StreamThread-1-consumer") for each in (B, AGAIN))


def stalled_reports(*, tick_late_ms: int, switches: int | None, **changes: Any) -> list[Event]:
    """Let the reporter stop for the duration of the session and resume afterwards."""
    before = range(LOST_MS - MINUTE, LOST_MS - 11 * SECOND, SECOND)
    reports = [report(at, B, tick_late_ms=0, voluntary_switches=0, **changes) for at in before]
    switched = None if switches is None else switches * 12
    after = report(LOST_MS + 1_000, B, tick_late_ms=tick_late_ms, voluntary_switches=switched, **changes)
    return [*reports, after, report(LOST_MS + 2_000, B, tick_late_ms=0, **changes)]


KAFKA_PYTHON = {"library": "kafka-python", "library_version": "2.3.0", "interval_ms": 1_000}


#: Members of each kind that causes distinguish: with heartbeats of their own, or not, or that starve, and static ones.
KINDS = (
    B,
    replace(B, client_id="kafkajs"),
    replace(B, client_id="kafka-python-1.4.6"),
    replace(B, group_instance_id="orders-1"),
)
EVERY_LIVENESS = (None, GONE, RESTARTED, STARVED, PAUSED, UNREACHABLE, HEALTHY, ALIVE)


@pytest.mark.parametrize(
    ("likely", "causes"),
    [
        (
            SESSION_EXPIRED,
            {
                *("heartbeat_starvation", "member_crash", "network_partition", "process_pause", "undetermined"),
                *("processing_blocks_heartbeat", "static_member_ghost", "static_session_too_short"),
            },
        ),
        (POLL_TIMEOUT, {"poll_overrun"}),
        (CLEAN, {None}),
        (UNKNOWN, {"undetermined"}),
        (FENCED, {"reconciliation_stuck"}),
        (REMOVED_BY_ADMIN, {"undetermined"}),
        (UNSYNCED, {"undetermined"}),
    ],
)
def test_how_a_member_left_limits_the_causes(likely: str, causes: set[str | None]):
    """Whatever the client is, and whatever is known of its process."""
    found = set()
    for who, liveness, back_s in product(KINDS, EVERY_LIVENESS, (None, 5)):
        of = gone(who, likely, liveness=liveness, back_s=back_s)
        verdict = explain_loss(losing(of, after_s=600), of)
        found.add(None if verdict is None else verdict.rule)
    assert found == causes


@pytest.mark.parametrize(("classes", "expected"), [((SESSION_EXPIRED,), True), ((CLEAN, UNKNOWN), False), ((), True)])
def test_a_cause_is_asked_about_the_departures_that_it_explains(
    monkeypatch: pytest.MonkeyPatch, classes: tuple[str, ...], expected: bool
):
    """One that names no class, about all."""
    of = gone(likely=SESSION_EXPIRED)
    monkeypatch.setattr(losses, "LOSS_RULES", ((crash, classes),))
    assert (explain_loss(losing(of, after_s=600), of) is not None) == expected


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
    """Both stop everything; threads that wait for the interpreter's lock switch contexts constantly."""
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
    """Its subscription shows the library, its way of joining the version; a crash rarely returns twice."""
    who, successor = replace(B, **PLAIN), replace(AGAIN, **PLAIN)
    first = departed(LOST_MS - 5 * MINUTE, replace(who, member_id="b-0"), SESSION_EXPIRED, rule="undetermined")
    of_kind = replace(first.departure, client=make_fingerprint(who, None, "range"), back_as=who)
    past = (replace(first, departure=of_kind),) if again else ()
    gone = left(who, protocol="range")
    known = history(*silent(who), gone, back(successor))
    known.coordinator_log.take([CoordinatorEvent(T0 + at, act, member_id="b-1") for at, act in enumerate(acts)])
    of = make_episode(known, gone, Thresholds(), JudgingTime(LOST_MS + MINUTE), EpisodeContext(past=past))
    assert said(explain_loss(of, of.departures[0])) == expected


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
            id="back later, and it is not known why",
        ),
        pytest.param(
            replace(B, client_id="sarama"),
            [back(replace(AGAIN, client_id="sarama"), after_ms=SECOND)],
            ("process_pause", HINT),
            id="back within seconds",
        ),
        pytest.param(B, [back()], ("undetermined", 0.4), id="back, and nothing is known"),
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
    """By reports, otherwise by library and return; if the causes cannot be separated it is undetermined."""
    assert said(explained(left(who), *silent(), *events)) == expected


def test_a_member_that_stays_away_crashed_rather_than_starved():
    """A starved or suspended member is back within a few sessions."""
    assert said(explained(left(), *silent(), now_ms=LOST_MS + 20 * SECOND)) == ("member_crash", HINT)
    assert said(explained(left(), *silent(), now_ms=LOST_MS + 30 * SECOND)) == ("member_crash", PLAUSIBLE)


def turned_away(*, until_s: int = 30, **values: float) -> list[Event]:
    """Return a client's reports in time, as a member by its own account, until some time after its removal."""
    sample = {HEARTBEATS: 0.0, ASSIGNED: 2.0, **values}
    times = range(LOST_MS - MINUTE, LOST_MS + until_s * SECOND, 5 * SECOND)
    return [
        report(at, B, {**sample, HEARTBEATS: (at - LOST_MS + MINUTE) / 3_000}, tick_late_ms=0, pid=1) for at in times
    ]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (turned_away(), ("join_rejected", STRONG)),
        (turned_away(until_s=15), ("join_rejected", STRONG)),
        (turned_away(until_s=9), ("undetermined", HINT)),
        ([*turned_away(), back()], ("undetermined", HINT)),
        (turned_away(**{ASSIGNED: 0.0}), ("undetermined", HINT)),
    ],
    ids=["goes on", "three heartbeats later", "not known yet", "back", "closed its consumer"],
)
def test_who_beats_and_is_removed_and_not_let_in_was_turned_away(events: list[Event], expected: tuple[str, float]):
    """A coordinator that accepts its heartbeats keeps it, one that does not know it lets it join at once."""
    assert said(explained(left(), *silent(), *events)) == expected


@pytest.mark.parametrize(("ended_s", "expected"), [(6, ("member_crash", CERTAIN)), (2, None)])
def test_who_beat_within_its_session_left_by_itself(ended_s: int, expected: tuple[str, float] | None):
    """Commits farther apart than a session are no evidence; a process that has just reported was not expired."""
    who = replace(B, client_id="kgo", session_timeout_ms=6_000)
    slow = [commits(at, {2: at // 100, 3: 7}) for at in range(LOST_MS - 97_000, LOST_MS - 6_000, 15 * SECOND)]
    reports = [
        report(at, who, {"consumer_lag": 1.0}, interval_ms=1_000)
        for at in range(LOST_MS - MINUTE, LOST_MS - ended_s * SECOND + 1, SECOND)
    ]
    assert said(explained(left(who), *slow, *reports)) == expected


def test_a_static_member_that_stopped_polling_keeps_its_partitions():
    """It sends no leave: it is out a session after its limit."""
    who = replace(B, group_instance_id="i")
    found = explained(left(who), *silent(silence_s=310))
    assert said(found) == ("static_stalled_member", PLAUSIBLE)
    assert said(explained(left(), *silent(silence_s=310))) != said(found)


def test_a_coordinator_that_lets_the_session_of_a_static_member_end_does_not_clear_its_application():
    """The coordinator logged that heartbeats ended, as they do at the poll limit of a client that sends no leave."""
    who = replace(B, group_instance_id="i", rebalance_timeout_ms=20_000)
    gone = left(who)
    known = history(*silent(silence_s=28), gone)
    known.coordinator_log.take([CoordinatorEvent(LOST_MS, Act.EXPIRED, member_id="b-1")])
    of = make_episode(known, gone, Thresholds(), JudgingTime(LOST_MS + MINUTE), EpisodeContext())
    found = explain_loss(of, of.departures[0])
    assert said(found) == ("static_stalled_member", STRONG)
    assert found is not None
    assert ("poll_overrun", True) in {(each.rule, each.impossible) for each in found.alternatives}


def test_a_ghost_beside_its_successor_was_killed():
    """It was started again while its old id was still listed, and the others waited until the old session ended."""
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
    """Its restart looks like its crash, and is more likely."""
    assert said(explained(left(STREAM), *silent(), *events)) == expected


@pytest.mark.parametrize(("wait_s", "rule"), [(8, "ungraceful_shutdown"), (20, "stalled_member_join_barrier")])
def test_a_ghost_that_never_committed_is_recognised_by_how_long_it_was_awaited(wait_s: int, rule: str):
    """It joined beside its successor and was awaited for at most its session; a live member is awaited longer."""
    start_ms = LOST_MS - wait_s * SECOND
    probes = [probe(at, "PreparingRebalance", [STAYS, B, AGAIN]) for at in range(start_ms, LOST_MS, 2 * SECOND)]
    gone = rebalance(start_ms, [STAYS, B], [STAYS, AGAIN], took_ms=wait_s * SECOND + 20)
    found = explained(gone, *probes)
    assert found is not None
    assert found.rule == rule


def test_one_host_of_several_groups_is_unreachable():
    """Other groups lost members on the same host at the same time: a hint at the network only."""
    wide = OtherGroups(("other",), ("/host-b",), (1,))
    assert said(explained(left(), *silent(), elsewhere=wide)) == ("network_partition", HINT)
    far = OtherGroups(("other",), ("/host-z",), (1,))
    assert said(explained(left(), *silent(), elsewhere=far)) == ("member_crash", PLAUSIBLE)


@pytest.mark.parametrize(("host", "sure"), [("/h", PLAUSIBLE), ("/elsewhere", HINT)])
def test_members_of_a_host_that_stood_still_together(host: str, sure: float):
    """Two members of one host lost and back at once, whose heartbeats cannot be starved: they were suspended.

    If no other member of the host kept running, the host may have been cut off instead.
    """
    one, two = (member(f"{n}-1", [i], client_id="kgo", host="/h") for i, n in ((2, "b"), (3, "c")))
    stays = replace(STAYS, host=host)
    gone = rebalance(LOST_MS, [stays, one, two], [stays])
    again = rebalance(LOST_MS + SECOND, [stays], [stays, replace(one, member_id="b-2"), replace(two, member_id="c-2")])
    of = episode(gone, *silent(), again)
    found = [explain_loss(of, each) for each in of.departures]
    assert [said(each) for each in found] == [("process_pause", sure)] * 2
    assert found[0] is not None
    assert found[0].subject.hosts == ("/h",)


def test_a_clean_leave_is_no_loss():
    """It committed until it left: no finding."""
    assert explained(left(), *silent(silence_s=2)) is None


def test_a_member_of_which_nothing_was_due_is_undetermined():
    """No commit, no report: three causes remain possible, and the missing sources are named."""
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
    """Every departure has a finding except a clean leave, and each finding names the member that left."""
    who = replace(B, client_id=client_id, group_instance_id=instance)
    of = episode(left(who), *silent(silence_s=silence_s))
    (departure,) = of.departures
    found = explain_loss(of, departure)
    assert (found is None) == (departure.likely == "clean_leave")
    assert found is None or named(departure, found)
