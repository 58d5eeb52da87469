"""Members lost because they did not poll, and those close to the limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from detect import departing
from detect.departing import LOST_MS, A, B, said
from detect.views import view_of
from histories import MINUTE, SECOND, T0, Event, history, member, probe, rebalance, report, snapshot
from rebalance_contract import Evidence, EvidenceSource, Generation, Member
from rebalance_contract.clients import POLL_GAP_MAX
from rebalance_streaming.detect.episode import Episode, EpisodeContext, make_episode
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rules.losses import LOSS_RULES
from rebalance_streaming.detect.rules.polling import (
    barrier_holder,
    longest_reported_gap,
    poll_overrun,
    poll_overrun_risk,
    static_stall,
)
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import CLEAN, POLL_TIMEOUT, SESSION_EXPIRED, UNKNOWN, UNSYNCED, Departure
from rebalance_streaming.observed.liveness import GONE, RESTARTED
from rebalance_streaming.wire.metrics.report import ClientConfig

C, NEW = member("c-1", [4]), member("n-1", [2, 3])
SEEN = (Evidence(EvidenceSource.LOG, "seen", "by the departure", "kept"),)


def gone(who: Member = B, likely: str = POLL_TIMEOUT, **changes: Any) -> Departure:
    """Return how a member left after an overrun."""
    return departing.gone(who, likely, rule="poll_overrun", evidence=SEEN, **changes)


def episode(*departures: Departure, events: tuple[Event, ...] = (), wait_s: int = 3, joins: Member = NEW) -> Episode:
    """Return a rebalance that `joins` triggered and that lost these members after a wait."""
    start_ms = LOST_MS - wait_s * SECOND
    of = rebalance(start_ms, [A, *(each.member for each in departures)], [A, joins], took_ms=wait_s * SECOND + 20)
    return replace(departing.episode(of, *events), departures=departures)


# --- Batches that took too long ---


def test_other_departures_are_no_overruns():
    """Only members that left by poll time-out are overruns."""
    assert dict(LOSS_RULES)[poll_overrun] == (POLL_TIMEOUT,)


def test_an_overrun_is_reported_with_limit_return_and_batch():
    """Out after 300 s without a poll, back 450 s later: beginning, confidence, and advice by its formula."""
    of = gone(back_s=450, confidence=CERTAIN, liveness="not_polling")
    reported = report(T0, B, config=ClientConfig(max_poll_records=500))
    found = poll_overrun(episode(of, events=(reported,)), of)
    assert said(found) == ("poll_overrun", CERTAIN)
    assert found is not None
    assert found.summary == (
        "b (/host-b) did not poll within max.poll.interval (300 s) and left the group; it came back 450 s later."
    )
    assert found.started_at_ms == LOST_MS - 300 * SECOND
    assert [each.member_id for each in found.subject.members] == ["b-1"]
    assert (found.advice[0].current, found.advice[0].proposed) == ("500", "at most 100")
    assert [each.rule for each in found.alternatives] == ["heartbeat_starvation"]
    assert (found.evidence, found.missing) == (SEEN, ())


def test_timeouts_that_are_alike_are_not_distinguished():
    """aiokafka's session equals its rebalance time-out: crash and starvation remain possible, and are named."""
    who = member("b-1", [2, 3], client_id="aiokafka-0.8.1", rebalance_timeout_ms=10_000)
    of = gone(who, classes=(POLL_TIMEOUT, SESSION_EXPIRED), confidence=PLAUSIBLE, back_s=20)
    found = poll_overrun(episode(of), of)
    assert said(found) == ("poll_overrun", PLAUSIBLE)
    assert found is not None
    assert {each.rule for each in found.alternatives} == {"member_crash", "heartbeat_starvation"}
    assert found.missing == ("client metrics of /host-b: reports on time, late or missing would separate these",)
    assert "within max.poll.interval and left" in found.summary
    assert [each.parameter for each in found.advice] == ["code"]


def test_an_overrun_that_may_be_a_session_is_a_hint_until_it_is_back():
    """A member that exceeded its limit rejoins with its next poll; one that died or is locked out does not."""
    alike = gone(classes=(POLL_TIMEOUT, SESSION_EXPIRED), confidence=PLAUSIBLE)
    assert said(poll_overrun(episode(alike), alike)) == ("poll_overrun", HINT)
    alone = gone(confidence=PLAUSIBLE)
    assert said(poll_overrun(episode(alone), alone)) == ("poll_overrun", PLAUSIBLE)


def test_a_leave_that_only_looks_orderly_is_named_as_the_alternative():
    """It committed until its limit was over: a clean leave would look the same."""
    found = poll_overrun(episode(of := gone(classes=(POLL_TIMEOUT, CLEAN))), of)
    assert found is not None
    assert [each.rule for each in found.alternatives] == ["scale_in"]


def test_a_limit_that_is_not_reported_has_no_number():
    """Records of old brokers lack it: no limit is invented, and the client's report is used if there is one."""
    who = replace(B, rebalance_timeout_ms=None)
    of = gone(who)
    found = poll_overrun(episode(of), of)
    assert found is not None
    assert "within max.poll.interval and left" in found.summary
    assert [each.parameter for each in found.advice] == ["code"]
    reported = report(T0, who, config=ClientConfig(max_poll_interval_ms=300_000))
    found = poll_overrun(episode(of, events=(reported,)), of)
    assert found is not None
    assert "(300 s)" in found.summary
    assert found.started_at_ms == LOST_MS - 300 * SECOND


# --- Static members ---

STATIC = replace(B, group_instance_id="i", session_timeout_ms=45_000)
LONG = replace(STATIC, session_timeout_ms=600_000)
SHORT = replace(STATIC, session_timeout_ms=6_000, rebalance_timeout_ms=10_000)


@pytest.mark.parametrize(
    ("who", "changes", "expected"),
    [
        (STATIC, {"silence_ms": 345_000}, ("static_stalled_member", STRONG)),
        (STATIC, {"silence_ms": 345_000, "confidence": 0.6}, ("static_stalled_member", PLAUSIBLE)),
        (STATIC, {"silence_ms": 60_000}, None),
        (LONG, {"silence_ms": 603_000}, None),
        (LONG, {"silence_ms": 901_000}, ("static_stalled_member", STRONG)),
        (SHORT, {"silence_ms": 7_000}, None),
        (SHORT, {"silence_ms": 13_000}, None),
        (SHORT, {"silence_ms": 16_000}, ("static_stalled_member", STRONG)),
        (STATIC, {"silence_ms": 345_000, "liveness": GONE}, None),
        (STATIC, {"silence_ms": 345_000, "liveness": RESTARTED}, None),
        (replace(STATIC, client_id="kgo"), {"silence_ms": 345_000}, None),
        (STATIC, {"silence_ms": None}, None),
        (replace(STATIC, rebalance_timeout_ms=None), {"silence_ms": 345_000}, None),
        (B, {"silence_ms": 345_000}, None),
    ],
    ids=[
        *("limit and session", "less sure", "its session alone", "a session that is longer than its limit"),
        *("the limit and a long session", "short limits, its session", "its session and a commit interval"),
        *("short limits, both", "its process ended", "another process", "a client without a limit"),
        *("no commit was due", "no limit", "dynamic"),
    ],
)
def test_a_static_member_that_stops_polling_says_no_good_bye(
    who: Member, changes: dict[str, Any], expected: tuple[str, float] | None
):
    """It is out at its limit plus its session, silent for both; shorter silences have another cause."""
    of = gone(who, **{"confidence": STRONG, **changes})
    found = static_stall(episode(of), of)
    assert said(found) == expected
    if found is not None:
        silence_ms = changes["silence_ms"]
        assert found.started_at_ms == LOST_MS - silence_ms
        assert "i (/host-b) stopped polling and kept its partitions for " in found.summary


# --- Members that delayed a rebalance ---


def listed(wait_s: int, *members: Member) -> tuple[Event, ...]:
    """Return probes that see the group prepare."""
    times = range(LOST_MS - wait_s * SECOND, LOST_MS, 5 * SECOND)
    return tuple(probe(at, "PreparingRebalance", members) for at in times)


@pytest.mark.parametrize(
    ("likely", "wait_s", "expected"),
    [
        (POLL_TIMEOUT, 240, STRONG),
        (POLL_TIMEOUT, 9, None),
        (UNKNOWN, 60, STRONG),
        (UNKNOWN, 12, None),
        (SESSION_EXPIRED, 12, None),
    ],
    ids=["its limit", "no wait", "beyond its session", "within its session", "its session"],
)
def test_who_was_out_at_the_end_held_the_others(likely: str, wait_s: int, expected: float | None):
    """Out by its limit, or a member for longer than its session: it sent heartbeats and did not join."""
    of = gone(likely=likely, in_barrier=True)
    found = barrier_holder(episode(of, events=listed(wait_s, A, B, NEW), wait_s=wait_s), of)
    assert (None if found is None else found.confidence) == expected
    if found is not None:
        assert f"the others waited {wait_s if wait_s >= 100 else f'{wait_s}.0'} s, until it was out" in found.summary
        assert found.started_at_ms == LOST_MS - wait_s * SECOND
        assert found.evidence[0].source == EvidenceSource.PROBES
        assert found.evidence[1:] == SEEN
        assert found.missing == ()
        assert found.advice[1].current == "300000"


def test_a_limit_below_the_session_is_what_ended_the_wait():
    """No commit was due from it, but its limit is the shorter time-out: less confidence."""
    who = replace(B, session_timeout_ms=45_000, rebalance_timeout_ms=20_000)
    of = gone(who, UNKNOWN, in_barrier=True)
    found = barrier_holder(episode(of, events=listed(20, A, who, NEW), wait_s=20), of)
    assert said(found) == ("stalled_member_join_barrier", PLAUSIBLE)


@pytest.mark.parametrize("likely", [POLL_TIMEOUT, SESSION_EXPIRED, UNSYNCED])
def test_a_fault_that_began_it_is_the_cause(likely: str):
    """Another member was lost first; that this one was late as well is a separate finding."""
    first, held = gone(C, likely), gone(in_barrier=True)
    of = episode(first, held, events=listed(240, A, B, NEW), wait_s=240)
    assert barrier_holder(of, held) is None
    orderly = episode(replace(first, classes=(CLEAN,)), held, events=listed(240, A, B, NEW), wait_s=240)
    assert said(barrier_holder(orderly, held)) == ("stalled_member_join_barrier", STRONG)


def test_a_slow_heart_makes_waiting_usual():
    """With heartbeats every ten seconds half a minute of waiting is ordinary, and 31 s are not."""
    reported = report(T0, A, config=ClientConfig(heartbeat_interval_ms=10_000))
    of = gone(in_barrier=True)
    assert barrier_holder(episode(of, events=(reported, *listed(29, A, B)), wait_s=29), of) is None
    assert barrier_holder(episode(of, events=(reported, *listed(31, A, B)), wait_s=31), of) is not None


def test_without_probes_a_newcomer_makes_it_plausible():
    """Without probes: a member that joined while this one was out suggests the wait; the missing source is named."""
    of = gone()
    found = barrier_holder(episode(of), of)
    assert said(found) == ("stalled_member_join_barrier", PLAUSIBLE)
    assert found is not None
    assert found.missing == ("probes of the group's state while it rebalanced",)
    assert "the others waited until it was out" in found.summary
    later = replace(
        episode(of).rebalance,
        generations=(Generation(2, "departure", left=("b-1",)), Generation(3, "join", joined=("n-1",))),
    )
    assert barrier_holder(replace(episode(of), rebalance=later), of) is None  # no member waited
    unmoved = rebalance(LOST_MS, [A, B], [A])
    alone = make_episode(history(unmoved), unmoved, Thresholds(), JudgingTime(LOST_MS + MINUTE), EpisodeContext())
    assert barrier_holder(replace(alone, departures=(of,)), of) is None


# --- Close to the limit ---

NOW = T0 + 30 * MINUTE


def at_risk(gap_s: float, who: Member = A, **config: int) -> list[Verdict]:
    reported = report(NOW - SECOND, who, {POLL_GAP_MAX: gap_s * 1_000}, config=ClientConfig(**config))
    return list(poll_overrun_risk(view_of(history(snapshot(T0, who, B), reported), NOW)))


@pytest.mark.parametrize(("gap_s", "share"), [(150, "50%"), (240, "80%"), (299, "100%")])
def test_a_long_batch_is_reported_with_its_share_of_the_limit(gap_s: int, share: str):
    """From half of it on, with its beginning and the share of max.poll.interval."""
    (found,) = at_risk(gap_s, max_poll_records=500)
    assert found.evidence[1].value == share
    assert found.started_at_ms == NOW - SECOND - gap_s * SECOND
    assert found.advice[0].proposed == f"at most {min(499, int(500 * 150 / gap_s))}"


@pytest.mark.parametrize("gap_s", [300, 550])
def test_a_batch_beyond_the_limit_is_no_risk_any_more(gap_s: int):
    """The member was out and rejoined, which is `poll_overrun`; it did not poll in time."""
    assert at_risk(gap_s, max_poll_interval_ms=300_000) == []


def test_one_record_that_takes_most_of_the_limit_needs_a_longer_one():
    """Two records in 400 of 500 s are 200 s each: one fits; one record of 400 s does not: twice that is advised."""
    (two,) = at_risk(400, max_poll_records=2, max_poll_interval_ms=500_000)
    assert [each.parameter for each in two.advice] == ["max.poll.records", "code"]
    (one,) = at_risk(400, max_poll_records=1, max_poll_interval_ms=500_000)
    assert one.advice[0].proposed.startswith("800000, ")


@pytest.mark.parametrize(
    "who",
    [
        replace(A, client_id="kgo"),
        replace(A, client_id="sarama"),
        replace(A, client_id="aiokafka-0.8.1", rebalance_timeout_ms=10_000),
        replace(A, rebalance_timeout_ms=None),
        replace(A, rebalance_timeout_ms=0),
    ],
    ids=["franz-go", "sarama", "aiokafka", "no limit in the record", "a limit of 0 in the record"],
)
def test_no_limit_no_risk(who: Member):
    """Clients that enforce no limit, or whose limit is in no source."""
    assert at_risk(299, who) == []


def test_the_longest_gap_reported_is_known_to_others():
    """Rules that size a time-out use it; without reports it is unknown."""
    known = view_of(history(snapshot(T0, A, B), report(NOW, A, {POLL_GAP_MAX: 90_500.0})), NOW)
    assert (longest_reported_gap(known, A), longest_reported_gap(known, B)) == (90_500, None)
