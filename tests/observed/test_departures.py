"""How a member left, by its commits, the probes, the coordinator's records and its client's reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

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
    probe,
    pulse,
    rebalance,
    report,
    snapshot,
)
from observed.leaving import LOST_MS, STAYS, B, judged, left
from rebalance_contract import EvidenceSource, Generation, Member, Rebalance
from rebalance_contract.clients import HEARTBEAT_AGE, POLL_AGE
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departed_members import find_departures
from rebalance_streaming.observed.departure_times import awaited_evidence
from rebalance_streaming.observed.departures import (
    CLEAN,
    FENCED,
    POLL_TIMEOUT,
    SESSION_EXPIRED,
    UNKNOWN,
    Departure,
    session_of,
)
from rebalance_streaming.observed.liveness import GONE, STARVED

SHORT = {"session_timeout_ms": 6_000, "rebalance_timeout_ms": 11_000}
AIOKAFKA = {"client_id": "aiokafka-0.8.1", "rebalance_timeout_ms": 10_000}


def moving(from_ms: int, to_ms: int, numbers: Sequence[int], every_ms: int = 5 * SECOND) -> list[Event]:
    """Return commits of changed positions: one offset further each time, as with librdkafka and Sarama."""
    return [commits(at, dict.fromkeys(numbers, at // 100)) for at in range(from_ms, to_ms + 1, every_ms)]


@pytest.mark.parametrize(
    ("silence_s", "changes", "classes", "confidence"),
    [
        (0.0, {}, (CLEAN,), STRONG),
        (5.0, {}, (CLEAN,), STRONG),
        (6.0, {}, (CLEAN,), STRONG),
        (9.0, {}, (CLEAN,), STRONG),
        (10.0, {}, (SESSION_EXPIRED,), STRONG),
        (12.0, {}, (SESSION_EXPIRED,), STRONG),
        (18.0, {}, (SESSION_EXPIRED,), STRONG),
        (25.0, {}, (UNKNOWN,), HINT),
        (298.0, {}, (UNKNOWN,), HINT),
        (300.0, {}, (POLL_TIMEOUT,), STRONG),
        (304.0, {}, (POLL_TIMEOUT,), STRONG),
        (400.0, {}, (POLL_TIMEOUT, UNKNOWN), PLAUSIBLE),
        (12.0, {"session_timeout_ms": 45_000}, (UNKNOWN,), HINT),
        (47.0, {"session_timeout_ms": 45_000}, (SESSION_EXPIRED,), STRONG),
        (304.0, {"client_id": "sarama"}, (UNKNOWN,), HINT),
        (6.0, {"rebalance_timeout_ms": 11_000}, (UNKNOWN, CLEAN, POLL_TIMEOUT), PLAUSIBLE),
        (5.5, SHORT, (UNKNOWN, CLEAN, POLL_TIMEOUT, SESSION_EXPIRED), PLAUSIBLE),
        (6.0, {"rebalance_timeout_ms": 11_000, "client_id": "consumer-1"}, (CLEAN,), STRONG),
        (4.0, {"rebalance_timeout_ms": 11_000}, (CLEAN,), STRONG),
        (400.0, {"client_id": "kgo"}, (UNKNOWN,), HINT),
        (10.0, AIOKAFKA, (SESSION_EXPIRED,), STRONG),
        (12.5, AIOKAFKA, (SESSION_EXPIRED,), STRONG),
        (10.0, {"rebalance_timeout_ms": 10_000}, (POLL_TIMEOUT, SESSION_EXPIRED), PLAUSIBLE),
        (46.0, {"session_timeout_ms": None}, (SESSION_EXPIRED,), STRONG),
    ],
)
def test_a_silence_is_compared_with_both_timeouts(
    silence_s: float, changes: dict[str, Any], classes: tuple[str, ...], confidence: float
):
    """For a member that commits every five seconds; if both time-outs match, both are named with less confidence."""
    who, last_ms = replace(B, **changes), LOST_MS - round(silence_s * SECOND)
    beats = pulse(last_ms - MINUTE, last_ms + 1, [2, 3])
    found = judged(left(who), *beats)
    assert (found.classes, round(found.confidence, 2)) == (classes, round(confidence, 2))
    assert (found.silence_ms, found.due) == (round(silence_s * SECOND), True)
    assert {each.source for each in found.evidence} == {EvidenceSource.COMMITS}


@pytest.mark.parametrize(
    ("instance", "age_s", "lag", "classes"),
    [
        ("i", 0.0, 50, (POLL_TIMEOUT,)),
        (None, 0.0, 50, (UNKNOWN,)),
        ("i", 0.0, 0, (UNKNOWN,)),
    ],
    ids=["static", "who would leave itself", "nothing waited"],
)
def test_a_callback_inside_poll_overruns_the_limit_of_a_static_member(
    instance: str | None, age_s: float, lag: int, classes: tuple[str, ...]
):
    """Its reports say that it is inside the client; with records waiting it would have committed."""
    who = replace(B, group_instance_id=instance, rebalance_timeout_ms=20_000)
    last_ms = LOST_MS - 24 * SECOND
    values = {POLL_AGE: age_s, HEARTBEAT_AGE: 1.0}
    reports = [report(at, who, values, pid=1) for at in range(LOST_MS - MINUTE, LOST_MS + MINUTE, 5 * SECOND)]
    ends = {2: last_ms // 100 + lag, 3: last_ms // 100 + lag}
    probes = [probe(at, ends=ends) for at in (last_ms, LOST_MS - SECOND)]
    found = judged(left(who), *moving(last_ms - MINUTE, last_ms, [2, 3]), *probes, *reports)
    assert found.classes == classes


@pytest.mark.parametrize(
    ("silence_s", "assignor", "likely"),
    [
        (10.0, "roundrobin", SESSION_EXPIRED),
        (10.0, "range", POLL_TIMEOUT),
        (9.0, "roundrobin", POLL_TIMEOUT),
    ],
)
def test_timeouts_and_assignor_of_aiokafka_stand_for_its_name(silence_s: float, assignor: str, likely: str):
    """Its rebalance time-out equals its session; causes excluded by its times stay excluded."""
    who, last_ms = replace(B, rebalance_timeout_ms=10_000), LOST_MS - round(silence_s * SECOND)
    beats = pulse(last_ms - MINUTE, last_ms + 1, [2, 3])
    assert judged(left(who, protocol=assignor), *beats).likely == likely


def test_the_assignor_of_a_group_that_emptied_is_that_of_the_rebalance_before():
    """After a start no snapshot has it: only the latest snapshot exists, which has no members."""
    who, last_ms = replace(B, rebalance_timeout_ms=10_000), LOST_MS - 10 * SECOND
    beats = pulse(last_ms - MINUTE, last_ms + 1, [2, 3])
    came = joined(T0, who, [], protocol="roundrobin")
    emptied = lost(LOST_MS, who, [who], protocol=None)
    assert judged(emptied, *beats, came, snapshot(LOST_MS)).likely == SESSION_EXPIRED
    assert judged(emptied, *beats, snapshot(LOST_MS)).likely == POLL_TIMEOUT


@pytest.mark.parametrize(
    ("life_s", "classes", "confidence"),
    [
        (299.5, (CLEAN,), PLAUSIBLE),
        (300.0, (POLL_TIMEOUT, CLEAN), PLAUSIBLE),
        (301.0, (POLL_TIMEOUT, CLEAN), PLAUSIBLE),
        (301.5, (CLEAN,), PLAUSIBLE),
    ],
)
def test_who_commits_to_the_end_may_still_have_stopped_polling(
    life_s: float, classes: tuple[str, ...], confidence: float
):
    """The only member commits from a separate thread, and leaves at the moment its limit is over."""
    from_ms = LOST_MS - round(life_s * SECOND)
    formed = rebalance(from_ms - 3 * SECOND, [], [B], took_ms=3 * SECOND)
    emptied = rebalance(LOST_MS, [B], [], took_ms=0, join_ended_at_ms=LOST_MS)
    beats = [commits(at, dict.fromkeys([2, 3], at // 100)) for at in range(from_ms + 2_000, LOST_MS, 5 * SECOND)]
    found = judged(emptied, formed, *beats)
    assert (found.classes, found.confidence) == (classes, confidence)
    assert ("rebalance_timeout" in {each.field for each in found.evidence}) == (POLL_TIMEOUT in classes)


def test_a_limit_as_short_as_a_commit_interval_is_recognised_by_the_moment():
    """Its last commit may be later than its last poll: at its limit it stalled, later it may have left."""
    who = replace(B, session_timeout_ms=6_000, rebalance_timeout_ms=8_000)

    def gone(life_ms: int) -> Departure:
        formed = rebalance(LOST_MS - life_ms - 3 * SECOND, [], [who], took_ms=3 * SECOND)
        emptied = rebalance(LOST_MS, [who], [], took_ms=0, join_ended_at_ms=LOST_MS)
        return judged(emptied, formed, *(commits(LOST_MS - at, {2: -at, 3: 7}) for at in (13_000, 8_000, 3_000)))

    assert gone(8_300).classes == (POLL_TIMEOUT, CLEAN)
    assert gone(14_000).classes == (UNKNOWN, CLEAN, POLL_TIMEOUT)


def test_a_client_that_reports_its_polls_is_believed():
    """It polled to the end, so it left cleanly however long it was a member, as with a deploy every five minutes."""
    from_ms = LOST_MS - 300_500
    formed = rebalance(from_ms - 3 * SECOND, [], [B], took_ms=3 * SECOND)
    emptied = rebalance(LOST_MS, [B], [], took_ms=0, join_ended_at_ms=LOST_MS)
    beats = [commits(at, dict.fromkeys([2, 3], at // 100)) for at in range(from_ms + 2_000, LOST_MS, 5 * SECOND)]
    reports = [report(at, B, {POLL_AGE: 0.2, HEARTBEAT_AGE: 1.0}) for at in range(from_ms, LOST_MS, 5 * SECOND)]
    assert judged(emptied, formed, *beats).likely == POLL_TIMEOUT
    assert judged(emptied, formed, *beats, *reports).likely == CLEAN


@pytest.mark.parametrize(
    ("life_s", "classes", "confidence"),
    [
        (299.5, (CLEAN,), PLAUSIBLE),
        (300.5, (POLL_TIMEOUT, CLEAN), PLAUSIBLE),
        (304.5, (POLL_TIMEOUT, CLEAN), PLAUSIBLE),
        (305.5, (CLEAN,), PLAUSIBLE),
    ],
)
def test_of_several_members_the_moment_is_known_less_well(life_s: float, classes: tuple[str, ...], confidence: float):
    """It left within a range of four seconds: that its limit was over within it is weaker evidence."""
    formed = joined(LOST_MS - round(life_s * SECOND) - 3_000, B, [STAYS])
    beats = [commits(at, dict.fromkeys([2, 3], at // 100)) for at in range(LOST_MS - 290_000, LOST_MS, 5 * SECOND)]
    found = judged(left(started_after_ms=LOST_MS - 10_000, took_ms=9_020), formed, *beats)
    assert found.to_ms - found.from_ms == 4_000
    assert (found.classes, round(found.confidence, 2)) == (classes, round(confidence, 2))


def test_a_limit_of_seconds_is_recognised_by_a_moment_known_to_the_second():
    """Its last commit bounds its departure, however late the others noticed."""
    who = replace(B, rebalance_timeout_ms=4_000)
    formed = joined(LOST_MS - 4_300 - 3_000, who, [STAYS])
    beats = [commits(at, dict.fromkeys([2, 3], at // 100)) for at in range(LOST_MS - 4_000, LOST_MS, 1_000)]
    assert judged(left(who), formed, *beats).likely == POLL_TIMEOUT
    found = judged(left(who, started_after_ms=LOST_MS - 10_000, took_ms=9_020), formed, *beats)
    assert (found.likely, found.from_ms) == (POLL_TIMEOUT, LOST_MS - 1_000)


def test_a_commit_before_the_others_were_released_is_its_own():
    """No other member owned its partitions until then: it left after that commit, so cleanly."""
    who = replace(B, session_timeout_ms=6_000)
    formed = joined(LOST_MS - 30_000, who, [STAYS])
    beats = [commits(at, dict.fromkeys([2, 3], at // 100)) for at in range(LOST_MS - 27_000, LOST_MS - 6_000, 5_000)]
    gone = left(who, started_after_ms=LOST_MS - 10_000, took_ms=0)
    assert judged(gone, formed, *beats).likely == SESSION_EXPIRED
    closing = commits(LOST_MS - 100, dict.fromkeys([2, 3], LOST_MS // 100))
    assert judged(gone, formed, *beats, closing).likely == CLEAN


def test_of_a_summary_of_two_owners_the_first_commit_is_that_of_the_one_who_left():
    """The next owner commits within the same pane: its first commit is that of the close, known only by its time."""
    who = replace(B, session_timeout_ms=6_000)
    formed = joined(LOST_MS - 30_000, who, [STAYS])
    beats = [commits(at, dict.fromkeys([2, 3], at // 100)) for at in range(LOST_MS - 27_000, LOST_MS - 6_000, 5_000)]
    gone = left(who, started_after_ms=LOST_MS - 10_000, took_ms=0)
    both = commits(LOST_MS + 2_000, dict.fromkeys([2, 3], LOST_MS // 100))
    topics = {name: replace(each, first_at_ms=[LOST_MS - 100] * 2) for name, each in both.topics.items()}
    assert judged(gone, formed, *beats, both).likely == SESSION_EXPIRED
    assert judged(gone, formed, *beats, replace(both, topics=topics)).likely == CLEAN


def test_a_commit_on_the_way_does_not_hide_the_limit():
    """The demo's consumer: batches of eleven seconds, a limit of six, the same session, commits of changes only."""
    who = replace(B, session_timeout_ms=6_000, rebalance_timeout_ms=6_000)
    formed = joined(LOST_MS - 6_300 - 3_000, who, [STAYS])
    found = judged(
        left(who, started_after_ms=LOST_MS - 2_000, took_ms=9_020), formed, commits(LOST_MS - 4_500, {2: 7, 3: 7})
    )
    assert (found.likely, found.silence_ms) == (POLL_TIMEOUT, 3_500)


def test_a_member_that_came_left_and_came_back_in_one_rebalance_has_left():
    """KIP-848 clients return under their own id: it is in the list before and after."""
    rounds = (
        Generation(2, "join", joined=("b-1",), assigned_at_ms=LOST_MS - 5_000),
        Generation(3, "departure", left=("b-1",), assigned_at_ms=LOST_MS - 2_000),
        Generation(4, "join", joined=("b-1",), assigned_at_ms=LOST_MS),
    )
    of = joined(LOST_MS - 6_000, B, [STAYS], took_ms=6_000, type="consumer", join_ended_at_ms=None, generations=rounds)
    assert judged(of).member == B


ENDS = {2: LOST_MS // 100, 3: LOST_MS // 100}


@pytest.mark.parametrize(
    ("silence_s", "ends", "classes", "confidence"),
    [
        (3, None, (CLEAN,), PLAUSIBLE),
        (9, None, (CLEAN,), PLAUSIBLE),
        (12, None, (SESSION_EXPIRED,), PLAUSIBLE),
        (12, ENDS, (SESSION_EXPIRED,), STRONG),
        (12, {2: (LOST_MS - 12_000) // 100, 3: (LOST_MS - 12_000) // 100}, (UNKNOWN,), HINT),
    ],
    ids=["just committed", "its session was renewed", "no end offsets", "records waited", "nothing to commit"],
)
def test_a_client_that_commits_only_changes_is_silent_when_idle(
    silence_s: int, ends: dict[int, int] | None, classes: tuple[str, ...], confidence: float
):
    """Its silence counts if records waited, less if that is unknown, and not at all if there were none."""
    last_ms = LOST_MS - silence_s * SECOND
    events = moving(last_ms - MINUTE, last_ms, [2, 3])
    probes = [] if ends is None else [probe(LOST_MS - 20 * SECOND, ends=ends), probe(LOST_MS - SECOND, ends=ends)]
    found = judged(left(), *events, *probes)
    assert (found.classes, found.confidence) == (classes, confidence)


def test_a_rhythm_is_that_of_the_program():
    """A member with a recent assignment is judged by the commits of the others, which run the same program."""
    alone = commits(LOST_MS - 12 * SECOND, {2: 5, 3: 5})
    beats = [*pulse(LOST_MS - MINUTE, LOST_MS - 12 * SECOND, [0, 1]), alone, *pulse(LOST_MS - 10_000, LOST_MS, [0, 1])]
    assert judged(left(), *beats).classes == (SESSION_EXPIRED,)
    assert judged(left(), *beats).confidence == STRONG
    assert judged(left(), alone).likely == UNKNOWN
    another = lost(LOST_MS, B, [replace(STAYS, topics=("other",)), B])
    assert judged(another, *beats).likely == UNKNOWN


@pytest.mark.parametrize(
    ("life_s", "changes", "likely", "confidence"),
    [
        (10.0, {}, SESSION_EXPIRED, PLAUSIBLE),
        (12.0, {}, SESSION_EXPIRED, PLAUSIBLE),
        (14.0, {}, UNKNOWN, HINT),
        (301.0, {}, POLL_TIMEOUT, PLAUSIBLE),
        (304.4, {}, POLL_TIMEOUT, PLAUSIBLE),
        (306.0, {}, UNKNOWN, HINT),
        (301.0, {"client_id": "sarama"}, UNKNOWN, HINT),
    ],
)
def test_a_member_that_never_committed_is_judged_by_the_length_of_its_life(
    life_s: float, changes: dict[str, Any], likely: str, confidence: float
):
    """A single poll, or not one heartbeat; earlier commits of its partitions were another member's."""
    who = replace(B, **changes)
    came = joined(LOST_MS - round(life_s * SECOND) - 3_000, who, [STAYS])
    others = pulse(T0, came.started_before_ms, [2, 3])
    found = judged(left(who), *others, came)
    assert (found.likely, found.confidence, found.silence_ms) == (likely, confidence, None)
    assert found.joined_ms == came.completed_at_ms


def test_without_any_sign_nothing_is_said():
    """No commit, no probe, no report and no known beginning: unknown, without evidence."""
    found = judged(left())
    assert (found.classes, found.confidence, found.evidence) == ((UNKNOWN,), HINT, ())
    assert (found.joined_ms, found.silence_ms, found.lag, found.arriving, found.liveness) == (None,) * 5


def test_a_member_that_kept_its_partitions_is_fenced():
    """KIP-848: the coordinator itself says so."""
    who = replace(B, session_timeout_ms=None)
    fenced = Generation(2, "departure", left=("b-1",), fenced=("b-1",), assigned_at_ms=LOST_MS)
    found = judged(left(who, type="consumer", generations=(fenced,), join_ended_at_ms=None))
    assert (found.classes, found.confidence) == ((FENCED,), CERTAIN)
    assert found.evidence[0].source == EvidenceSource.LOG
    assert found.session_ms == session_of(who) == 45_000


# --- Client reports ---


def beating(age_s: float | None, *, until_ms: int = LOST_MS + 20 * SECOND, grows: bool = False) -> list[Event]:
    """Return the client's reports every five seconds, with this heartbeat age or one that grows since it stopped."""
    times = range(LOST_MS - MINUTE, until_ms, 5 * SECOND)
    stop_ms = LOST_MS - 12 * SECOND
    ages = {at: (max(0, at - stop_ms) / 1000 if grows else age_s) for at in times}
    return [report(at, B, {HEARTBEAT_AGE: ages[at]}, tick_late_ms=0) for at in times]


def test_reports_decide_where_commits_only_hint():
    """The heartbeat age grew while reports were in time: it is certain, and commits agree."""
    found = judged(left(), *pulse(T0, LOST_MS - 11 * SECOND, [2, 3]), *beating(0, grows=True))
    assert (found.liveness, found.classes, found.confidence) == (STARVED, (SESSION_EXPIRED,), CERTAIN)
    assert [each.source for each in found.evidence] == [EvidenceSource.CLIENT_METRICS, EvidenceSource.COMMITS]


@pytest.mark.parametrize(
    ("quiet_s", "likely", "confidence"),
    [(11, SESSION_EXPIRED, STRONG), (4, CLEAN, PLAUSIBLE), (40, UNKNOWN, HINT)],
)
def test_a_process_that_ended_was_removed_a_session_later_or_at_once(quiet_s: int, likely: str, confidence: float):
    """If no commit was due, the end of its reports shows whether it left cleanly or was missed."""
    reports = [
        report(LOST_MS - quiet_s * SECOND - back, B, {HEARTBEAT_AGE: 1.0}, tick_late_ms=0)
        for back in range(60 * SECOND, -1, -5 * SECOND)
    ]
    found = judged(left(), *reports)
    assert found.liveness == GONE
    assert (found.likely, found.confidence) == (likely, confidence)


def test_reports_of_others_are_not_its_own():
    """Another client's reports are no evidence about this member."""
    others = [report(LOST_MS - at, STAYS, {HEARTBEAT_AGE: 1.0}) for at in range(MINUTE, 0, -5_000)]
    found = judged(left(), *others)
    assert (found.liveness, found.loss_reports) == (None, None)


# --- Time of departure ---


def barrier(end_ms: int, *, listed: Sequence[Member] = (STAYS, B)) -> list[Event]:
    """Return probes that see the group prepare a rebalance in the minute before."""
    return [
        probe(at, "PreparingRebalance", [*listed, member("c-1")]) for at in range(end_ms - MINUTE, end_ms, 5 * SECOND)
    ]


def swap_after(wait_ms: int) -> Rebalance:
    """Return a rebalance in which `c` joins and `b` leaves in one generation of this duration."""
    return rebalance(LOST_MS - wait_ms, [B], [member("c-1", [2, 3])], took_ms=wait_ms + 20)


def test_probes_show_that_it_was_awaited():
    """Listed while the others waited: it left at the release; not listed: it had left before."""
    gone = swap_after(MINUTE)
    found = judged(gone, *barrier(LOST_MS))
    assert found.in_barrier
    assert LOST_MS - SECOND <= found.from_ms <= found.to_ms == gone.join_ended_at_ms
    assert not judged(gone, *barrier(LOST_MS, listed=())).in_barrier
    assert not judged(gone).in_barrier
    evidence = awaited_evidence(history(*barrier(LOST_MS), gone), gone, found)
    assert (evidence.source, evidence.value) == (
        EvidenceSource.PROBES,
        "listed until 5.0 s before the others were released",
    )


def test_a_newcomer_waits_for_it_even_where_nobody_looks():
    """A member joined and only this one left: the barrier ended when it was out."""
    found = judged(swap_after(MINUTE))
    assert (found.from_ms, found.to_ms) == (LOST_MS, LOST_MS)


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (left(), (LOST_MS, LOST_MS)),
        (left(started_after_ms=None), (LOST_MS - 1_020, LOST_MS)),
        (left(started_after_ms=LOST_MS - MINUTE), (LOST_MS - 1_020, LOST_MS)),
        (left(started_after_ms=None, took_ms=9_020), (LOST_MS - 4_000, LOST_MS)),
        (left(started_before_ms=LOST_MS + 2_980, started_after_ms=None), (LOST_MS - 1_020, LOST_MS + 1_480)),
        (left(type="consumer"), (LOST_MS, LOST_MS)),
        (lost(LOST_MS, B, [B]), (LOST_MS, LOST_MS)),
    ],
    ids=[
        "probed",
        "unbounded",
        "bounded long before",
        "others were late",
        "only the release known",
        "kip-848",
        "emptied",
    ],
)
def test_when_it_left_is_bounded(gone: Rebalance, expected: tuple[int, int]):
    """By the probes, otherwise by the time that the others take to notice and to rejoin."""
    found = judged(gone)
    assert (found.from_ms, found.to_ms) == expected


def test_members_that_only_passed_through_departed_too():
    """Each generation of a rebalance is evaluated, and each member belongs to the one that lost it."""
    came = member("c-1", [2, 3])
    first = Generation(2, "join", join_ended_at_ms=LOST_MS, assigned_at_ms=LOST_MS, joined=("c-1",))
    then = Generation(3, "departure", join_ended_at_ms=LOST_MS + MINUTE, assigned_at_ms=LOST_MS + MINUTE, left=("c-1",))
    passed = rebalance(LOST_MS, [STAYS], [STAYS], took_ms=MINUTE, generations=(first, then), passing=(came,))
    found = judged(passed)
    assert (found.member, found.joined_ms) == (came, LOST_MS)
    assert found.to_ms == LOST_MS + MINUTE - 1_500


# --- Kept measurements ---


def test_what_was_measured_at_first_is_kept():
    """Commits are forgotten within a minute: a later judgement uses the silence measured then."""
    gone, last_ms = left(), LOST_MS - 12 * SECOND
    beats = pulse(last_ms - MINUTE, last_ms + 1, [2, 3])
    (first,) = find_departures(history(snapshot(T0, STAYS, B), *beats, gone), gone, {}, LOST_MS + 20 * SECOND)
    (later,) = find_departures(history(gone), gone, {"b-1": first}, LOST_MS + 5 * MINUTE)
    assert (later.classes, later.silence_ms, later.confidence) == (first.classes, first.silence_ms, first.confidence)
    assert first.likely == SESSION_EXPIRED


def test_nobody_left():
    """A rebalance without departures has none."""
    came = joined(LOST_MS, B, [STAYS])
    assert find_departures(history(came), came, {}, LOST_MS + MINUTE) == ()
