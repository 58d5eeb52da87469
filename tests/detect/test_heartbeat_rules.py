"""Members lost by session expiry while their process existed: which mechanism caused it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from detect import departing
from detect.departing import LOST_MS, A, B, gone, said
from detect.standing_histories import departed
from histories import MINUTE, SECOND, Event, member, rebalance, report
from rebalance_contract import GroupType, Member
from rebalance_contract.client_settings import JAVA
from rebalance_streaming.detect.episode import Episode, OtherGroups
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rules.heartbeats import (
    blocked_heartbeat,
    pause,
    starvation,
    starvation_variant,
    unreachable,
)
from rebalance_streaming.detect.rules.losses import LOSS_RULES, LossRule, explain_loss
from rebalance_streaming.observed.clients import LossReports
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import CLEAN, POLL_TIMEOUT, SESSION_EXPIRED, Departure
from rebalance_streaming.observed.fingerprints import make_fingerprint
from rebalance_streaming.observed.liveness import GONE, HEALTHY, PAUSED, RESTARTED, STARVED, UNREACHABLE
from rebalance_streaming.wire.metrics.report import ClientConfig

C = member("c-1", [4])


def loss_reports(**changes: Any) -> LossReports:
    """Return the reports of the time before, of a client that reports in time."""
    fields: dict[str, Any] = {
        **dict.fromkeys(LossReports.__dataclass_fields__),
        "interval_ms": 5_000,
        "last_report_ms": LOST_MS - 1_000,
        "witnesses": 3,
        "undelivered": 0,
        "late_ms": 0,
        "stood_still_ms": 0,
        "restarted": False,
        "same_process": False,
    }
    return LossReports(**{**fields, **changes})


def episode(*departures: Departure, events: tuple[Event, ...] = (), spared: Member = A, **known: Any) -> Episode:
    """Return a rebalance that lost these members while `spared` stayed."""
    of = rebalance(LOST_MS, [spared, *(each.member for each in departures)], [spared])
    return replace(departing.episode(of, *events, **known), departures=departures)


def kafka_python(version: str, **changes: Any) -> Member:
    return replace(B, client_id=f"kafka-python-{version}", **changes)


@pytest.mark.parametrize("rule", [starvation, blocked_heartbeat, pause, unreachable])
def test_only_an_expired_session_is_their_matter(rule: LossRule):
    """Members that left by poll time-out or cleanly were not removed for missing heartbeats."""
    assert dict(LOSS_RULES)[rule] == (SESSION_EXPIRED,)


# --- Starvation ---


@pytest.mark.parametrize(
    ("client_id", "variant"),
    [
        ("kafka-python-1.3.5", None),
        ("kafka-python-1.4.0", "idle_lock"),
        ("kafka-python-1.4.6", "idle_lock"),
        ("kafka-python-1.4.7", "deadlock"),
        ("kafka-python-2.0.1", "deadlock"),
        ("kafka-python-2.0.2", "lock_contention"),
        ("kafka-python-2.2.7", "lock_contention"),
        ("kafka-python-2.2.8", None),
        ("kafka-python-3.0.0", None),
        ("aiokafka-0.8.1", "event_loop_blocked"),
        ("consumer-g-1", None),
    ],
)
def test_a_version_starves_in_its_own_way(client_id: str, variant: str | None):
    """The idle lock until 1.4.6, the deadlock until 2.0.1, contention until 2.2.7, nothing known afterwards."""
    assert starvation_variant(gone(replace(B, client_id=client_id))) == variant


@pytest.mark.parametrize(
    ("client_id", "variant", "advised"),
    [
        ("kafka-python-1.4.6", "idle_lock", {"upgrade", "metadata_max_age_ms"}),
        ("kafka-python-2.2.3", "lock_contention", {"upgrade", "code"}),
        ("aiokafka-0.8.1", "event_loop_blocked", {"code"}),
        ("consumer-g-1", "lock", set()),
    ],
)
def test_reports_make_starvation_certain(client_id: str, variant: str, advised: set[str]):
    """The process ran and sent no heartbeats: certain for any client, with the mechanism of its library."""
    of = gone(replace(B, client_id=client_id), liveness=STARVED, loss_reports=loss_reports())
    found = starvation(episode(of), of)
    assert found is not None
    assert (found.rule, found.confidence, found.variant) == ("heartbeat_starvation", CERTAIN, variant)
    assert {each.parameter for each in found.advice} == advised
    assert [each.member_id for each in found.subject.members] == ["b-1"]
    assert "poll_overrun" in {each.rule for each in found.alternatives}
    assert found.missing == ()
    assert found.started_at_ms == LOST_MS - 10 * SECOND


@pytest.mark.parametrize(
    ("changes", "earlier", "expected"),
    [
        ({"arriving": 0, "back_s": 20}, False, ("heartbeat_starvation", PLAUSIBLE)),
        ({"arriving": 0, "back_s": 20}, True, ("heartbeat_starvation", STRONG)),
        ({"arriving": None, "back_s": 20}, False, ("heartbeat_starvation", PLAUSIBLE)),
        ({"arriving": 50, "back_s": 20}, False, None),
        ({"arriving": 0}, False, None),
    ],
    ids=["idle and back", "not for the first time", "no end offsets", "busy", "not back"],
)
def test_without_reports_version_idleness_and_return_decide(
    changes: dict[str, Any], earlier: bool, expected: tuple[str, float] | None
):
    """Story A from the log and probes alone; a member that is busy or stays away may have died instead."""
    who = kafka_python("1.4.6")
    of = gone(who, **changes)
    past = departed(LOST_MS - 6 * MINUTE, who, SESSION_EXPIRED, rule="heartbeat_starvation")
    found = starvation(episode(of, past=[past] if earlier else []), of)
    assert said(found) == expected
    if found is not None:
        assert "member_crash" in {each.rule for each in found.alternatives}
        assert found.variant == "idle_lock"


@pytest.mark.parametrize(
    ("changes", "earlier", "expected"),
    [
        ({"arriving": 50, "back_s": 20}, False, ("heartbeat_starvation", PLAUSIBLE)),
        ({"arriving": 50, "back_s": 20}, True, ("heartbeat_starvation", STRONG)),
        ({"arriving": None, "back_s": 20}, False, ("heartbeat_starvation", PLAUSIBLE)),
        ({"arriving": 0, "back_s": 20}, False, None),
        ({"arriving": 50}, False, None),
    ],
    ids=["busy and back", "not for the first time", "no end offsets", "idle", "not back"],
)
@pytest.mark.parametrize("client_id", ["aiokafka-0.8.1", "billing"])
def test_without_reports_work_and_return_show_a_blocked_loop(
    client_id: str, changes: dict[str, Any], earlier: bool, expected: tuple[str, float] | None
):
    """aiokafka, recognised by its name or a rebalance time-out equal to its session: processing blocks its loop."""
    who = replace(B, client_id=client_id, session_timeout_ms=10_000, rebalance_timeout_ms=10_000)
    of = gone(who, client=make_fingerprint(who, None, "roundrobin"), **changes)
    past = departed(LOST_MS - 6 * MINUTE, who, SESSION_EXPIRED, rule="heartbeat_starvation")
    found = starvation(episode(of, past=[past] if earlier else []), of)
    assert said(found) == expected
    assert found is None or found.variant == "event_loop_blocked"


def test_who_left_by_itself_before_is_no_aiokafka():
    """librdkafka with the smallest allowed poll limit, which equals its session time-out."""
    who = replace(B, session_timeout_ms=10_000, rebalance_timeout_ms=10_000)
    of = gone(who, client=make_fingerprint(who, None, "roundrobin"), arriving=50, back_s=5)
    earlier = departed(LOST_MS - MINUTE, who, POLL_TIMEOUT, rule="poll_overrun")
    assert starvation(episode(of), of) is not None
    assert starvation(episode(of, past=[earlier]), of) is None


def test_a_version_without_the_fault_does_not_starve_unseen():
    """kafka-python 2.3.0 that is lost while idle and returns: without reports it is not claimed."""
    of = gone(kafka_python("2.3.0"), arriving=0, back_s=20)
    assert starvation(episode(of), of) is None


@pytest.mark.parametrize(
    ("who", "seen", "expected"),
    [
        (kafka_python("2.3.0"), {"switches_per_second": 200.0}, ("heartbeat_starvation", STRONG)),
        (kafka_python("2.3.0"), {"switches_per_second": 2.0, "cpu_share": 0.9}, None),
        (kafka_python("2.3.0"), {"cpu_share": 0.9}, ("heartbeat_starvation", PLAUSIBLE)),
        (kafka_python("2.3.0"), {"cpu_share": 0.1}, None),
        (kafka_python("2.2.3"), {}, ("heartbeat_starvation", PLAUSIBLE)),
        (replace(B, client_id="consumer-g-1"), {"switches_per_second": 200.0}, None),
    ],
    ids=["asked for the lock", "frozen", "computed", "did nothing", "prone", "no such lock"],
)
def test_a_process_that_stood_still_may_have_held_its_interpreter(
    who: Member, seen: dict[str, Any], expected: tuple[str, float] | None
):
    """Story D: a native call stops reports and heartbeats alike; threads that wait for the lock switch constantly."""
    of = gone(who, liveness=PAUSED, loss_reports=loss_reports(stood_still_ms=11_000, **seen))
    found = starvation(episode(of), of)
    assert said(found) == expected
    if found is None:
        assert said(explain_loss(episode(of), of)) == ("process_pause", STRONG)
    else:
        assert (found.variant, found.alternatives[0].rule) == ("native_code", "process_pause")


# --- Clients that beat on the processing path ---

WITHOUT_THREAD = [
    kafka_python("1.3.5"),
    replace(B, client_id="consumer-1", session_timeout_ms=30_000, rebalance_timeout_ms=30_000),
    replace(B, client_id="kafkajs"),
]


@pytest.mark.parametrize("who", WITHOUT_THREAD, ids=lambda each: each.client_id)
@pytest.mark.parametrize(
    ("liveness", "arriving", "expected"),
    [
        (None, 20, ("processing_blocks_heartbeat", STRONG)),
        (None, None, ("processing_blocks_heartbeat", PLAUSIBLE)),
        (STARVED, None, ("processing_blocks_heartbeat", STRONG)),
        (UNREACHABLE, 20, ("network_partition", STRONG)),
        (GONE, 20, ("member_crash", STRONG)),
        (RESTARTED, 20, ("member_crash", STRONG)),
        (HEALTHY, 20, ("undetermined", 0.4)),
    ],
)
def test_a_client_without_a_thread_of_its_own_was_busy(
    who: Member, liveness: str | None, arriving: int | None, expected: tuple[str, float]
):
    """Its heartbeats cannot be starved, they wait for the processing; unless its reports show another cause."""
    back_s = 20 if liveness is None else None
    of = gone(
        who,
        liveness=liveness,
        arriving=arriving,
        back_s=back_s,
        loss_reports=None if liveness is None else loss_reports(),
    )
    found = explain_loss(episode(of), of)
    assert said(found) == expected
    if found is not None and found.rule == "processing_blocks_heartbeat":
        assert "session.timeout.ms" in {each.parameter for each in found.advice}
        assert (found.missing == ()) == (liveness is not None or of.confidence >= STRONG)


@pytest.mark.parametrize(("after_s", "rule"), [(20, "processing_blocks_heartbeat"), (60, "member_crash")])
def test_work_ends_and_death_does_not(after_s: int, rule: str):
    """A client without a heartbeat thread that does not return for three sessions, at least 30 s, has died."""
    of = gone(kafka_python("1.3.5"), liveness=None, arriving=20)
    time = JudgingTime(LOST_MS + after_s * SECOND)
    found = explain_loss(replace(episode(of), time=time), of)
    assert found is not None
    assert found.rule == rule
    if after_s == 20:
        assert time.due_ms == LOST_MS + 30 * SECOND


@pytest.mark.parametrize(
    ("who", "expected"),
    list(zip(WITHOUT_THREAD, ["process_pause", "process_pause", "processing_blocks_heartbeat"], strict=True)),
)
def test_a_frozen_process_is_no_busy_one(who: Member, expected: str):
    """Reports from another thread stopped as well, so the process was suspended; kafkajs has a single thread."""
    of = gone(who, liveness=PAUSED, loss_reports=loss_reports(stood_still_ms=40_000, switches_per_second=0.0))
    found = explain_loss(episode(of), of)
    assert found is not None
    assert found.rule == expected


# --- Pauses ---


def test_a_session_outlasts_a_pause_as_long_as_the_one_seen():
    """Removed after 10 s, it was suspended for 120 s: max(45, 2 x 120 + 3) s, and the summary has the duration."""
    of = gone(liveness=PAUSED, silence_ms=12_000, loss_reports=loss_reports(stood_still_ms=120_000))
    found = pause(episode(of), of)
    assert said(found) == ("process_pause", STRONG)
    assert found is not None
    assert found.advice[0].parameter == "session.timeout.ms"
    assert (found.advice[0].current, found.advice[0].proposed) == ("10000", "243000")
    assert "stood still as a whole for about 120 s" in found.summary
    assert found.started_at_ms == LOST_MS - 12_000
    assert found.subject.hosts == ("/host-b",)


def test_a_paused_member_of_a_newer_group_has_the_groups_session():
    """Its client rejects session.timeout.ms; the group's setting is 45 s by default, and at most 60 s."""
    who = replace(B, session_timeout_ms=None, epoch=3)
    of = gone(who, liveness=PAUSED, silence_ms=50_000, loss_reports=loss_reports(stood_still_ms=50_000))
    known = episode(of)
    for kind in (GroupType.CONSUMER, GroupType.SHARE, GroupType.STREAMS):
        found = pause(replace(known, rebalance=replace(known.rebalance, type=kind)), of)
        assert found is not None
        first = found.advice[0]
        assert (first.parameter, first.proposed) == (f"{kind}.session.timeout.ms (of the group)", "60000")


def test_a_short_pause_needs_the_usual_session():
    """Twice 12 s plus a heartbeat is less than the default of 45 s."""
    of = gone(liveness=PAUSED, silence_ms=12_000, loss_reports=loss_reports(stood_still_ms=11_000))
    found = pause(episode(of), of)
    assert found is not None
    assert found.advice[0].proposed == "45000"


@pytest.mark.parametrize(
    ("neighbour", "expected", "named"),
    [
        (None, PLAUSIBLE, ["b-1", "c-1"]),
        (GONE, PLAUSIBLE, ["b-1", "c-1"]),
        (STARVED, None, ["b-1"]),
        (RESTARTED, None, ["b-1"]),
        (UNREACHABLE, None, ["b-1"]),
    ],
)
def test_members_of_a_host_stood_still_together_unless_more_is_known(
    neighbour: str | None, expected: float | None, named: list[str]
):
    """One member reported the pause; a silent neighbour shared it, but not one with a cause of its own."""
    frozen = gone(liveness=PAUSED, loss_reports=loss_reports(stood_still_ms=11_000))
    other = gone(replace(C, host=B.host), liveness=neighbour)
    of = episode(frozen, other)
    first, second = pause(of, frozen), pause(of, other)
    assert first is not None
    assert [each.member_id for each in first.subject.members] == named
    assert (None if second is None else second.confidence) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, HINT),
        ({"client_id": "kafka-python-2.3.0"}, None),
        ({"client_id": "billing"}, None),
        ({"host": "/elsewhere"}, None),
    ],
    ids=["cannot starve", "may starve", "unknown client", "another host"],
)
def test_a_host_that_thaws_at_once_stood_still(changes: dict[str, Any], expected: float | None):
    """No reports: two members of one host, back within seconds of each other, whose heartbeats cannot be starved.

    No other member of the host shows whether it was reachable meanwhile.
    """
    one = gone(replace(B, client_id="kgo"), back_s=1)
    two = gone(replace(C, **{"client_id": "kgo", "host": B.host, **changes}), back_s=2)
    found = pause(episode(one, two), one)
    assert (None if found is None else found.confidence) == expected


def test_one_that_is_lost_twice_is_no_host_that_stood_still():
    """One rebalance as seen by probes may have several losses of one client, which were not in the group together."""
    one = gone(replace(B, client_id="kgo"), back_s=2)
    again = replace(one, member=replace(one.member, member_id="b-2"))
    passed = replace(episode(one), departures=(one, again))
    assert pause(passed, one) is None


def test_a_host_that_thaws_bit_by_bit_did_not_stand_still():
    """A minute between the returns: they were not stopped together; a member that is not back shows nothing."""
    one = gone(replace(B, client_id="kgo"), back_s=1)
    late = gone(replace(C, client_id="kgo", host=B.host), back_s=61)
    assert pause(episode(one, late), one) is None
    assert pause(episode(one, replace(late, back_ms=None, back_as=None)), one) is None


# --- The network ---


def test_reports_that_came_too_late_are_a_cut():
    """Written in time and delivered after the loss: the client ran and had no connection."""
    of = gone(liveness=UNREACHABLE, silence_ms=12_000, loss_reports=loss_reports(undelivered=2, late_ms=20_000))
    found = unreachable(episode(of), of)
    assert said(found) == ("network_partition", STRONG)
    assert found is not None
    assert found.subject.hosts == ("/host-b",)
    assert {each.parameter for each in found.advice} == {"session.timeout.ms", "socket.keepalive.enable"}
    java = replace(of, client=replace(of.client, library=JAVA))
    found = unreachable(episode(java), java)
    assert found is not None
    assert {each.parameter for each in found.advice} == {"session.timeout.ms"}


@pytest.mark.parametrize(
    ("spared_host", "liveness", "likely", "expected"),
    [
        ("/host-a", None, SESSION_EXPIRED, {"b-1", "c-1"}),
        ("/host-a", HEALTHY, SESSION_EXPIRED, {"b-1", "c-1"}),
        ("/host-b", None, SESSION_EXPIRED, {"b-1"}),
        ("/host-a", GONE, SESSION_EXPIRED, {"b-1"}),
        ("/host-a", None, CLEAN, {"b-1"}),
    ],
    ids=["all of the host", "its windowed rate is of before", "somebody spared", "one ended", "one left in order"],
)
def test_a_cut_takes_all_of_its_host(spared_host: str, liveness: str | None, likely: str, expected: set[str]):
    """One client's reports about its connection apply to its neighbours on the host, unless one of them stayed."""
    of = gone(liveness=UNREACHABLE, silence_ms=12_000, loss_reports=loss_reports(undelivered=2, late_ms=20_000))
    beside = gone(replace(C, host=B.host), likely, liveness=liveness)
    found = unreachable(episode(of, beside, spared=replace(A, host=spared_host)), of)
    assert found is not None
    assert {each.member_id for each in found.subject.members} == expected


@pytest.mark.parametrize(
    ("back_s", "session_ms", "spared_host", "client_id", "expected"),
    [
        (25, 6_000, "/host-b", "kgo", ("member_crash", PLAUSIBLE)),
        (25, 6_000, "/host-a", "kgo", ("member_crash", HINT)),
        (14, 4_000, "/host-b", "kgo", ("member_crash", HINT)),
        (25, 10_000, "/host-b", "kgo", ("member_crash", HINT)),
        (25, 6_000, "/host-b", "kafka-python-1.4.6", ("heartbeat_starvation", PLAUSIBLE)),
    ],
    ids=["started again", "its host was lost", "it may have stood still", "within three sessions", "it starves"],
)
def test_who_is_back_late_beside_others_of_its_host_was_started_again(
    back_s: float, session_ms: int, spared_host: str, client_id: str, expected: tuple[str, float]
):
    """Neither its machine nor its network was stopped, and few pauses of one process last for that many sessions."""
    of = gone(replace(B, client_id=client_id, session_timeout_ms=session_ms), back_s=back_s)
    assert said(explain_loss(episode(of, spared=replace(A, host=spared_host)), of)) == expected


@pytest.mark.parametrize(
    ("spared_host", "back_s", "expected"),
    [("/host-b", 3, PLAUSIBLE), ("/host-b", 300, PLAUSIBLE), ("/host-a", 3, HINT)],
    ids=["soon", "late", "its whole host was lost"],
)
def test_who_comes_back_by_its_own_id_did_not_die(spared_host: str, back_s: float, expected: float):
    """With KIP-848 a process generates its member id itself: no other process can return with it."""
    who = replace(B, session_timeout_ms=None, client_id="app-StreamThread-1-consumer")
    of = replace(gone(who, back_s=back_s), back_as=who)
    found = explain_loss(episode(of, spared=replace(A, host=spared_host)), of)
    assert said(found) == ("process_pause", expected)
    assert found is not None
    assert "by the id of the same process" in found.summary
    assert ("member_crash", True) in {(each.rule, each.impossible) for each in found.alternatives}


@pytest.mark.parametrize(("request_ms", "expected"), [(None, "45000"), (30_000, "45000"), (60_000, "63000")])
def test_a_session_outlasts_one_unanswered_request(request_ms: int | None, expected: str):
    """A half-open connection loses one heartbeat: S > request.timeout + h, where the client reports it."""
    of = gone(liveness=UNREACHABLE, silence_ms=12_000)
    settings = report(LOST_MS - MINUTE, B, config=ClientConfig(request_timeout_ms=request_ms))
    found = unreachable(episode(of, events=(settings,)), of)
    assert found is not None
    assert found.advice[0].proposed == expected


@pytest.mark.parametrize(
    ("elsewhere", "spared_host", "liveness", "expected"),
    [
        (OtherGroups(("other",), ("/host-b",)), "/host-a", None, HINT),
        (OtherGroups(("other",), ("/host-b",)), "/host-b", None, None),
        (OtherGroups(("other",), ("/host-z",)), "/host-a", None, None),
        (OtherGroups(), "/host-a", None, None),
        (OtherGroups(("other",), ("/host-b",)), "/host-a", STARVED, None),
        (OtherGroups(("other",), ("/host-b",)), "/host-a", GONE, None),
    ],
    ids=["whole host", "somebody spared", "another host", "nobody else", "starved", "ended"],
)
def test_a_host_is_cut_off_as_a_whole(
    elsewhere: OtherGroups, spared_host: str, liveness: str | None, expected: float | None
):
    """Other groups lost members on this host, and no member on it was spared: a hint, unless reports say otherwise."""
    of = gone(liveness=liveness)
    found = unreachable(episode(of, spared=replace(A, host=spared_host), elsewhere=elsewhere), of)
    assert (None if found is None else round(found.confidence, 2)) == expected
