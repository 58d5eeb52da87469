"""Evidence for and against: impossible causes are excluded, one sample decides nothing, hints cause no notification."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from detect import departing
from detect.departing import LOST_MS
from detect.standing_histories import departed
from detect.turnover import Run
from detect.views import view_of
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
from rebalance_contract import Evidence, Generation, Member, Rebalance, Replacement, Severity
from rebalance_contract.clients import (
    ASSIGNED,
    CONSUMED_TOTAL,
    HEARTBEAT_AGE,
    HEARTBEAT_RATE,
    POLL_AGE,
    RESPONSE_MAX,
)
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.judged_group import JudgedRebalance
from rebalance_streaming.detect.rules.loops import poison_record
from rebalance_streaming.detect.rules.losses import explain_loss
from rebalance_streaming.detect.rules.patterns import crash_loop, rebalance_storm
from rebalance_streaming.detect.rules.static_members import static_id_conflict, static_member_restart
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.confidence import CERTAIN, CLAIMED, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import CLEAN, POLL_TIMEOUT, SESSION_EXPIRED
from rebalance_streaming.observed.evidence import DECISIVE, MODERATE, WEAK, weigh
from rebalance_streaming.observed.evidence import STRONG as STRONG_EVIDENCE
from rebalance_streaming.observed.liveness import ALIVE, HEALTHY, STARVED
from rebalance_streaming.wire.metrics.report import Point

STAYS = member("a-1", [0, 1])
#: A Java client: it has a heartbeat thread.
JAVA = member("b-1", [2, 3], client_id="consumer-g-1", host="/host-b")


def episode(of: Rebalance, *events: Event, now_ms: int = LOST_MS + 5 * MINUTE, **known: Any) -> Episode:
    """Return the view of a rebalance some minutes later."""
    return departing.episode(of, *events, now_ms=now_ms, **known)


def explained(of: Rebalance, *events: Event, **changes: Any) -> Verdict | None:
    """Return the verdict on the one member that a rebalance lost."""
    looked = episode(of, *events, **changes)
    (departure,) = looked.departures
    return explain_loss(looked, departure)


def silent(silence_s: float = 12.0, from_ms: int = LOST_MS) -> list[Event]:
    """Let a member that commits every five seconds fall silent this long before it is lost."""
    last_ms = from_ms - round(silence_s * SECOND)
    return list(pulse(last_ms - MINUTE, last_ms + 1, [2, 3]))


def left(who: Member = JAVA, **changes: Any) -> Rebalance:
    return lost(LOST_MS, who, [STAYS, who], **changes)


def struck(found: Verdict) -> dict[str, str]:
    """Return the excluded causes with the reasons."""
    return {each.rule: each.why_not for each in found.alternatives if each.impossible}


# --- One place makes a confidence ---


def seen(strength: str, *, against: bool = False) -> Evidence:
    return Evidence("log", "f", "v", "r", strength=strength, against=against)


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        ([], HINT),
        ([seen(WEAK)], HINT),
        ([seen(MODERATE)], PLAUSIBLE),
        ([seen(STRONG_EVIDENCE)], STRONG),
        ([seen(DECISIVE)], CERTAIN),
        ([seen(MODERATE), seen(MODERATE)], STRONG),
        ([seen(STRONG_EVIDENCE), seen(MODERATE)], CERTAIN),
        ([seen(STRONG_EVIDENCE), seen(MODERATE, against=True)], PLAUSIBLE),
        ([seen(MODERATE), seen(STRONG_EVIDENCE, against=True)], HINT),
    ],
)
def test_evidence_adds_up_in_log_odds(evidence: list[Evidence], expected: float):
    """From a hint on, each strength leads to its step; evidence against subtracts as much."""
    assert weigh(HINT, evidence) == expected
    assert weigh(HINT, reversed(evidence)) == expected


def test_what_only_describes_changes_nothing():
    """An observation without a strength is shown and not weighed."""
    assert weigh(PLAUSIBLE, [Evidence("log", "f", "v", "r")]) == PLAUSIBLE


# --- A: reports on time rule a death out ---


def on_time(values: dict[str, float | None] | None = None, **changes: Any) -> Iterator[Event]:
    """Return reports every five seconds before and after the client was lost."""
    for at in range(LOST_MS - MINUTE, LOST_MS + MINUTE, 5 * SECOND):
        yield report(at, JAVA, values, **changes)


@pytest.mark.parametrize(
    "reports",
    [
        [*on_time({HEARTBEAT_RATE: 0.33}, pid=7)],
        [*on_time({}, pid=7)],
        [*on_time({}, process_start_ms=T0)],
        [*on_time({})],
        [
            replace(each, member_id=None, points=(Point(CONSUMED_TOTAL, 100.0 + n),))
            for n, each in enumerate(on_time({CONSUMED_TOTAL: 1.0}))
        ],
    ],
    ids=["beats", "one process id", "one start", "its old member id", "totals that go on"],
)
def test_a_process_that_went_on_reporting_did_not_die(reports: list[Event]):
    """With commits due it was silent for its session; the same process existed before and after."""
    found = explained(left(), *silent(), *reports)
    assert found is not None
    assert found.rule not in ("member_crash", "ungraceful_shutdown", "process_pause")
    assert "before and after" in struck(found)["member_crash"]


def test_reports_of_another_process_are_no_sign_of_life():
    """A later start time under a new member id: the process was restarted."""
    before = [report(at, JAVA, {}, process_start_ms=T0) for at in range(LOST_MS - MINUTE, LOST_MS - 11_000, 5_000)]
    again = replace(JAVA, member_id="b-2")
    after = [report(LOST_MS + at, again, {}, process_start_ms=LOST_MS - 3_000) for at in range(2_000, 40_000, 5_000)]
    found = explained(left(), *silent(), *before, *after)
    assert found is not None
    assert (found.rule, found.confidence) == ("member_crash", CERTAIN)
    assert "member_crash" not in struck(found)


# --- B: one sample decides nothing, and arithmetic comes first ---


def never(at_ms: int) -> Event:
    points = (Point(HEARTBEAT_AGE, None, never=True), Point(ASSIGNED, 2.0))
    return replace(report(at_ms, JAVA), points=points)


def test_one_never_soon_after_a_join_is_no_starved_heartbeat():
    """Its first heartbeat was not due yet; later reports have one. The two losses are classified as clean leaves."""
    came = joined(LOST_MS - 20 * SECOND, JAVA, [STAYS])
    later = [report(LOST_MS - at, JAVA, {HEARTBEAT_AGE: 1.0}) for at in (10_000, 5_000, 500)]
    of = episode(left(), came, never(LOST_MS - 15_000), *later, *pulse(LOST_MS - 17_000, LOST_MS, [2, 3]))
    (departure,) = of.departures
    assert departure.liveness != STARVED
    assert departure.likely == CLEAN
    assert explain_loss(of, departure) is None


def test_a_never_that_stays_is_one():
    """Seven seconds after it got its partitions, again, and to the end."""
    came = joined(LOST_MS - 20 * SECOND, JAVA, [STAYS])
    silent = [never(LOST_MS - at) for at in (15_000, 10_000, 5_000, 500)]
    found = explained(left(), came, *silent, report(LOST_MS + 4_500, JAVA, {}))
    assert found is not None
    assert (found.rule, found.confidence) == ("heartbeat_starvation", CERTAIN)


def test_a_poll_of_nine_seconds_ago_is_far_from_a_limit_of_five_minutes():
    """It fetched, waited and sent heartbeats: it cannot have exceeded max.poll.interval, and the finding says why."""
    reports = list(on_time({HEARTBEAT_AGE: 1.0, POLL_AGE: 9.0}, pid=7))
    of = episode(left(), *silent(), *reports)
    (departure,) = of.departures
    assert (departure.liveness, departure.likely) == (HEALTHY, SESSION_EXPIRED)
    found = explain_loss(of, departure)
    assert found is not None
    assert (found.rule, found.confidence) == ("undetermined", HINT)
    assert struck(found)["poll_overrun"].endswith("before it was gone, max.poll.interval is 300 s")


def test_who_just_came_has_no_limit_behind_it():
    """It was a member for half a minute, whatever its statistics look like: the limit is five minutes."""
    came = joined(LOST_MS - 30 * SECOND, JAVA, [STAYS])
    burst = [
        replace(
            report(LOST_MS - at, JAVA, {HEARTBEAT_AGE: 1.0}), observed_ms=LOST_MS + SECOND, format="librdkafka_stats"
        )
        for at in range(20_000, 0, -2_000)
    ]
    found = explained(left(), came, *silent(11), *burst)
    assert found is not None
    assert found.rule != "poll_overrun"
    assert struck(found)["poll_overrun"].startswith("in the group for 3")


def test_a_session_that_a_commit_renewed_has_not_run_out():
    """Seven seconds of silence with a session of ten: it left, and no cause of an expiry is claimed."""
    assert explained(left(), *silent(7)) is None


@pytest.mark.parametrize("stale", [False, True])
def test_an_end_before_the_commit_says_nothing(stale: bool):
    """Three owners die at one record; an end offset older than the commit must not exclude that."""
    names = [member(f"m{n}-1", [0, 1]) for n in range(3)]
    deaths = [
        departed(T0 + (5 + n) * MINUTE, each, SESSION_EXPIRED, rule="member_crash") for n, each in enumerate(names)
    ]
    deaths = [replace(each, departure=replace(each.departure, joined_ms=each.left_ms - 30_000)) for each in deaths]
    events: list[Event] = [snapshot(T0, *names), commits(T0 + 4 * MINUTE, {0: 30, 1: 10})]
    for n, each in enumerate(deaths):
        end = 22 if stale and n == 1 else 50
        events += [
            probe(each.left_ms - 20_000, ends={0: end, 1: 900}),
            commits(each.left_ms - 10_000, {1: 20 + n}),
            rebalance(each.left_ms, [each.member], [], took_ms=0),
        ]
    found = list(poison_record(view_of(history(*events), T0 + 9 * MINUTE, past=tuple(deaths))))
    assert [each.subject.partitions for each in found] == [("orders-0",)]


# --- D: expiry or a leave in order ---


@pytest.mark.parametrize(
    ("session_s", "silence_s", "expected"),
    [(6, 4.5, CLEAN), (6, 5.2, CLEAN), (6, 7, SESSION_EXPIRED), (10, 6, CLEAN), (10, 12, SESSION_EXPIRED)],
)
def test_within_the_commit_interval_a_silence_is_no_expiry(session_s: int, silence_s: float, expected: str):
    """A commit renews the session: a member that is gone less than a session after one has left."""
    who = replace(JAVA, session_timeout_ms=session_s * SECOND)
    (departure,) = episode(left(who), *silent(silence_s)).departures
    assert departure.likely == expected


def test_a_probe_that_missed_it_during_the_barrier_bounds_its_end():
    """The others waited for half a minute, and five seconds after its last commit it was not among them: it left."""
    came = member("c-1", [2, 3])
    gone = rebalance(LOST_MS, [STAYS, JAVA], [STAYS, came], took_ms=30_020)
    there = probe(LOST_MS + 1_000, "PreparingRebalance", [STAYS, JAVA, came])
    missed = [probe(LOST_MS + at, "PreparingRebalance", [STAYS, came]) for at in (4_000, 9_000, 14_000)]
    beats = pulse(LOST_MS - MINUTE, LOST_MS + 1, [2, 3])
    (departure,) = episode(gone, *beats, there, *missed).departures
    assert departure.likely == CLEAN
    assert departure.latest_ms <= LOST_MS + 5_000
    (unseen,) = episode(gone, *beats).departures
    assert unseen.likely != CLEAN


def test_a_join_of_the_same_generation_may_have_come_after():
    """Its session had expired when the rebalance began: the newcomer joined afterwards, beside no ghost."""
    again = replace(JAVA, member_id="b-2")
    swap = rebalance(LOST_MS - 2_000, [STAYS, JAVA], [STAYS, again], took_ms=2_020)
    found = explained(swap, *silent(14))
    assert found is not None
    assert found.rule != "ungraceful_shutdown"
    ghost = rebalance(LOST_MS - 8_000, [STAYS, JAVA], [STAYS, again], took_ms=8_020)
    beside = explained(ghost, *silent(12))
    assert beside is not None
    assert beside.rule == "ungraceful_shutdown"


@pytest.mark.parametrize(
    ("started_s", "expected"),
    [(2, "ungraceful_shutdown"), (12, "member_crash")],
    ids=["before its session can have run out", "afterwards"],
)
def test_reports_show_whether_the_next_process_was_there_before_the_loss(started_s: int, expected: str):
    """The last report was 14 s before the loss, the session is 10 s: the start of the next process decides."""
    swap = rebalance(LOST_MS - 2_000, [STAYS, JAVA], [STAYS, replace(JAVA, member_id="b-2")], took_ms=2_020)
    ended_ms, again = LOST_MS - 14_000, replace(JAVA, member_id="b-2")
    before = [report(at, JAVA, {}, process_start_ms=T0) for at in range(ended_ms - MINUTE, ended_ms + 1, 5_000)]
    started_ms = ended_ms + started_s * SECOND
    after = [report(LOST_MS + at, again, {}, process_start_ms=started_ms) for at in range(1_000, 40_000, 5_000)]
    found = explained(swap, *silent(14), *before, *after)
    assert found is not None
    assert found.rule == expected


# --- F: confidence and severity follow the evidence ---


def sibling(lost_s: int, back_s: int, host: str = "/host-c") -> Any:
    """Return another member of the program that was lost and returned after this time."""
    who = member("c-1", [4], client_id="consumer-g-1", host=host)
    at_ms = LOST_MS - lost_s * SECOND
    again = {"back_as": replace(who, member_id="c-2"), "back_ms": at_ms + back_s * SECOND}
    return departed(at_ms, who, SESSION_EXPIRED, rule="undetermined", **again)


@pytest.mark.parametrize(
    ("siblings", "after_s", "expected"),
    [
        ([], 150, ("member_crash", STRONG)),
        ([sibling(200, 180)], 150, ("undetermined", HINT)),
        ([sibling(200, 180)], 600, ("member_crash", PLAUSIBLE)),
        ([sibling(200, 180, host="/host-b")], 150, ("undetermined", HINT)),
    ],
    ids=["nobody came back", "others of its program did", "long after", "others of its host did"],
)
def test_that_others_came_back_speaks_against_a_death(siblings: list[Any], after_s: int, expected: tuple[str, float]):
    """A pause or a network cut ends for all; a member that is away no longer than the others were may return too."""
    found = explained(left(), *silent(), now_ms=LOST_MS + after_s * SECOND, past=siblings)
    assert found is not None
    assert (found.rule, found.confidence) == expected
    if siblings and after_s == 600:
        assert any(each.against for each in found.evidence)


def test_every_observation_has_a_source_and_a_span():
    """The evidence of a loss has the times of its observation."""
    found = explained(left(), *silent())
    assert found is not None
    spans = [(each.source, each.from_ms, each.until_ms) for each in found.evidence if each.field == "silence"]
    assert spans == [("commits", LOST_MS - 12 * SECOND, LOST_MS)]


def test_a_hint_wakes_nobody():
    """Slow responses reported by two clients of one host are a hint at the coordinator: no ticket, no page."""
    members = [member(f"m{n}-1", [n], host="/one") for n in range(2)]
    slow = [
        report(at, each, {RESPONSE_MAX: 8_000.0, HEARTBEAT_AGE: 1.0})
        for each in members
        for at in range(T0, T0 + 5 * MINUTE, 5 * SECOND)
    ]
    evicted = lost(T0 + 4 * MINUTE, member("x-1", [5]), [*members, member("x-1", [5])])
    run = Run().live(T0 + 5 * MINUTE, snapshot(T0, *members), *slow, evicted)
    found = run.finding("coordinator_overload")
    assert (found.confidence, found.severity) == (HINT, Severity.INFO)


def test_restarts_on_one_host_and_a_conflict_are_both_hints():
    """Three replacements on one host: the log does not show which, so both have a confidence of at most 0.5."""
    swaps = tuple(Replacement(T0 + n * MINUTE, "ia", f"ia-{n}", f"ia-{n + 1}", "h1", "h1") for n in range(3))
    who = member("ia-3", [0], group_instance_id="ia")
    seen_now = view_of(history(snapshot(T0, who, replacements=swaps)), T0 + 4 * MINUTE)
    said = [*static_id_conflict(seen_now), *static_member_restart(seen_now)]
    assert [(each.rule, each.confidence) for each in said] == [
        ("static_id_conflict", HINT),
        ("static_member_restart", HINT),
    ]


def deploying(*, again: bool) -> Any:
    """Let five instances be replaced one after the other, each killed; or one of them five times."""
    names = [member(f"m{0 if again else n}-{n}", [n], host="/h" if again else f"/h{n}") for n in range(5)]
    events, past = [], []
    for n, each in enumerate(names):
        at_ms = T0 + (20 + n) * MINUTE
        gone = lost(at_ms, each, [STAYS, each])
        events.append(gone)
        past.append(departed(at_ms, each, SESSION_EXPIRED, rule="ungraceful_shutdown", of=gone.rebalance_id))
    causes = dict.fromkeys((each.rebalance_id for each in events), "ungraceful_shutdown")
    known = history(snapshot(T0, STAYS), *events)
    return view_of(known, T0 + 26 * MINUTE, past=tuple(past), causes=causes)


@pytest.mark.parametrize(("again", "severity"), [(False, Severity.INFO), (True, Severity.TICKET)])
def test_a_storm_in_which_nobody_goes_twice_is_a_deploys(again: bool, severity: Severity):
    """Before all instances are replaced it is not recognised as a deploy yet, but it is no ticket for a storm."""
    (found,) = rebalance_storm(deploying(again=again))
    assert found.severity == severity


# --- G: a pattern takes over nothing that has a cause of its own ---


def verdict(rule: str, confidence: float, *ids: str, claims: bool = False) -> Verdict:
    return Verdict(rule=rule, confidence=confidence, summary="", started_at_ms=T0, rebalance_ids=ids, claims=claims)


@pytest.mark.parametrize(
    ("own", "confidence", "claim", "resists"),
    [
        ("poll_overrun", STRONG, "crash_loop", True),
        ("poll_overrun", PLAUSIBLE, "crash_loop", True),
        ("poll_overrun", HINT, "crash_loop", False),
        ("member_crash", CERTAIN, "crash_loop", False),
        ("undetermined", HINT, "crash_loop", False),
        ("scale_out", STRONG, "short_lived_consumers", False),
        ("heartbeat_starvation", CERTAIN, "rolling_deploy", True),
        ("poll_overrun", STRONG, "poison_record", False),
    ],
)
def test_a_rebalance_with_evidence_of_its_own_resists_a_pattern(own: str, confidence: float, claim: str, resists: bool):
    """A rebalance with another known mechanism keeps its cause; parts of the pattern and unexplained ones do not."""
    of = left()
    judged = JudgedRebalance(of, (verdict(own, confidence),), {}, T0)
    assert judged.resists(verdict(claim, STRONG, of.rebalance_id, claims=True)) == resists


def test_an_overrun_that_repeats_is_no_loop_of_deaths():
    """Some losses among a client's overruns look like deaths: it leaves by itself, again and again."""
    past, events = [], []
    for n in range(8):
        who = member(f"b-{n}", [2])
        at_ms = T0 + (20 + n) * MINUTE
        of = lost(at_ms, who, [STAYS, who])
        events += [joined(at_ms - 30_000, who, [STAYS]), of]
        likely, rule = (SESSION_EXPIRED, "member_crash") if n % 2 else (POLL_TIMEOUT, "poll_overrun")
        past.append(departed(at_ms, who, likely, rule=rule, of=of.rebalance_id))
    seen_now = view_of(history(snapshot(T0, STAYS), *events), T0 + 29 * MINUTE, past=tuple(past))
    assert list(crash_loop(seen_now)) == []


def overrunning(hours: float) -> Iterator[Event]:
    """Let one client, in one process, exceed a limit of 30 s every two minutes, while another keeps working."""
    limit = {"rebalance_timeout_ms": 30_000}
    yield snapshot(T0, STAYS)
    rounds = int(hours * 30)
    for n in range(rounds):
        who = member(f"b-{n}", [2, 3], **limit)
        came_ms = T0 + 10 * MINUTE + n * 2 * MINUTE
        gone_ms = came_ms + 3_000 + 30_300
        yield joined(came_ms, who, [STAYS])
        yield lost(gone_ms, who, [STAYS, who], took_ms=1_000)
    yield from pulse(T0 + 9 * MINUTE, T0 + 10 * MINUTE + rounds * 2 * MINUTE, [0, 1])


@pytest.mark.generated
@pytest.mark.parametrize("hours", [0.3, 1.5])
def test_what_is_right_after_minutes_is_right_after_hours(hours: float):
    """The demo without interaction: each rebalance keeps its cause, and no pattern claims any of them."""
    run = Run().live(T0 + 10 * MINUTE + round(hours * 60 + 10) * MINUTE, *overrunning(hours), step_ms=15 * SECOND)
    causes = run.causes()
    first = [*causes][:1]
    rest = {name: cause for name, cause in causes.items() if name not in first}
    assert set(rest.values()) <= {"poll_overrun"}
    assert "crash_loop" not in run.rules()
    assert run.finding("poll_overrun").confidence >= CLAIMED


def test_generations_are_members_of_the_chain():
    """A chain within one rebalance: a member that joined and left later in it was present in between."""
    rounds = (
        Generation(2, "join", joined=("b-2",), join_ended_at_ms=LOST_MS - 12_000, assigned_at_ms=LOST_MS - 12_000),
        Generation(3, "departure", left=("b-1",), join_ended_at_ms=LOST_MS, assigned_at_ms=LOST_MS),
    )
    again = replace(JAVA, member_id="b-2")
    of = rebalance(LOST_MS - 12_000, [STAYS, JAVA], [STAYS, again], took_ms=12_000, generations=rounds)
    found = explained(of, *silent(12, LOST_MS))
    assert found is not None
    assert found.rule == "ungraceful_shutdown"


@pytest.mark.parametrize(("apart_ms", "is_possible"), [(8_000, False), (12_000, True)])
def test_a_join_barrier_renews_the_session(apart_ms: int, is_possible: bool):
    """A session of 10 s has not expired 8 s after the member passed a join barrier, whatever was committed."""
    rounds = (
        Generation(2, "join", joined=("b-2",), join_ended_at_ms=LOST_MS - apart_ms, assigned_at_ms=LOST_MS - apart_ms),
        Generation(3, "departure", left=("b-1",), join_ended_at_ms=LOST_MS, assigned_at_ms=LOST_MS),
    )
    again = replace(JAVA, member_id="b-2")
    of = rebalance(LOST_MS - apart_ms, [STAYS, JAVA], [STAYS, again], took_ms=apart_ms, generations=rounds)
    found = explained(of, *silent(12, LOST_MS))
    assert found is not None
    assert (found.rule != "undetermined") == is_possible


def test_alive_is_less_than_healthy():
    """Reports without heartbeats only show that the process lived."""
    (departure,) = episode(left(), *silent(), *on_time({}, pid=7)).departures
    assert departure.liveness == ALIVE
