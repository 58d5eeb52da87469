"""Wrong settings without an incident: sessions, time-outs, joins, time between polls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from detect.standing_histories import departed
from detect.views import view_of
from histories import HOUR, MINUTE, SECOND, T0, Event, commits, history, member, probe, rebalance, report, snapshot
from rebalance_contract import UNDETERMINED, Generation, Member, Severity
from rebalance_contract.clients import (
    ASSIGNED,
    FAILED_REBALANCES,
    HEARTBEAT_RATE,
    HEARTBEAT_TOTAL,
    JOIN_RATE,
    POLL_AGE,
    POLL_GAP_MAX,
    POLL_IDLE,
)
from rebalance_streaming.detect.episode import ExplainedDeparture
from rebalance_streaming.detect.rules.configuration import (
    initial_delay_too_short,
    join_rejected,
    rebalance_timeout_excessive,
    session_heartbeat_ratio,
    session_timeout_too_short,
)
from rebalance_streaming.detect.rules.polling import poll_overrun_risk
from rebalance_streaming.detect.rules.registry import CONDITIONS
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import POLL_TIMEOUT, SESSION_EXPIRED
from rebalance_streaming.observed.liveness import GONE, PAUSED
from rebalance_streaming.wire.metrics.report import ClientConfig

A, B = member("a-1", [0, 1]), member("b-1", [2, 3])
NOW = T0 + 10 * MINUTE


def reported(**settings: Any) -> list[Event]:
    return [report(NOW - 5 * SECOND, A, config=ClientConfig(**settings))]


def rates(*values: float, every_ms: int = 15 * SECOND) -> list[Event]:
    first = NOW - every_ms * (len(values) - 1)
    return [report(first + i * every_ms, A, {HEARTBEAT_RATE: value}) for i, value in enumerate(values)]


# --- Session and heartbeats ---


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(reported(heartbeat_interval_ms=3_000), None, id="3 s in 10 s"),
        pytest.param(reported(heartbeat_interval_ms=4_000), (Severity.INFO, CERTAIN), id="more than a third"),
        pytest.param(reported(heartbeat_interval_ms=6_000), (Severity.TICKET, CERTAIN), id="more than half"),
        pytest.param(rates(*[1 / 3] * 6), None, id="measured 3 s"),
        pytest.param(rates(*[1 / 6] * 6), (Severity.TICKET, PLAUSIBLE), id="measured 6 s"),
        pytest.param(rates(1 / 6, 1 / 6), None, id="measured for too short a time"),
        pytest.param(rates(*[1 / 3] * 8, 0.05, 0.0, 0.02), None, id="starved: once it was in time"),
        pytest.param([], None, id="nothing reported"),
    ],
)
def test_three_heartbeats_fit_into_a_session(events: list[Event], expected: tuple[str, float] | None):
    """Reported intervals are used as they are, measured ones only at their best; an interval is never guessed."""
    found = list(session_heartbeat_ratio(view_of(history(snapshot(T0, A, B), *events), NOW)))
    assert [(each.severity, each.confidence) for each in found] == ([] if expected is None else [expected])
    if found:
        assert [each.member_id for each in found[0].subject.members] == ["a-1"]
        assert (found[0].advice[0].parameter, found[0].advice[0].proposed) == ("heartbeat.interval.ms", "3000")


def test_story_c_had_exactly_a_third():
    """10 s of 30 s are allowed, reported or measured slightly late."""
    exact = replace(A, session_timeout_ms=30_000)
    for events in (reported(heartbeat_interval_ms=10_000), rates(*[1 / 10.4] * 8)):
        assert not list(session_heartbeat_ratio(view_of(history(snapshot(T0, exact, B), *events), NOW)))


def test_a_session_of_no_length_has_no_share():
    """Unknown clients may join with a session time-out of 0."""
    member = replace(A, session_timeout_ms=0)
    events = reported(heartbeat_interval_ms=3_000)
    assert not list(session_heartbeat_ratio(view_of(history(snapshot(T0, member, B), *events), NOW)))


def test_counted_heartbeats_are_as_good_as_a_rate():
    """A client that only has a counter is measured by its best minute."""
    beats = [report(NOW - 120_000 + i * 30_000, A, {HEARTBEAT_TOTAL: 5.0 * i}) for i in range(5)]
    (found,) = session_heartbeat_ratio(view_of(history(snapshot(T0, A, B), *beats), NOW))
    assert "every 6.0 s" in found.summary


def evicted(
    minute: int, who: Member, *, back_after_ms: int | None = 5_000, liveness: str | None = None
) -> ExplainedDeparture:
    left_ms = NOW - minute * MINUTE
    back_ms = None if back_after_ms is None else left_ms + back_after_ms
    return departed(left_ms, who, SESSION_EXPIRED, rule=UNDETERMINED, back_ms=back_ms, liveness=liveness)


@pytest.mark.parametrize(
    ("departures", "expected"),
    [
        pytest.param([evicted(50, A), evicted(9, B)], True, id="two members, back at once"),
        pytest.param([evicted(50, A)], False, id="once"),
        pytest.param([evicted(50, A), evicted(9, B, back_after_ms=21_000)], False, id="back after two sessions"),
        pytest.param([evicted(50, A), evicted(9, B, back_after_ms=None)], False, id="not back"),
        pytest.param([evicted(50, A), evicted(9, B, liveness=GONE)], False, id="a crash"),
        pytest.param([evicted(50, A), replace(evicted(9, B), rule="heartbeat_starvation")], False, id="starved"),
        pytest.param([evicted(25 * 60, A), evicted(9, B)], False, id="two days"),
        pytest.param(
            [departed(NOW - MINUTE * i, A, POLL_TIMEOUT, rule="poll_overrun") for i in (5, 9)],
            False,
            id="poll timeouts",
        ),
    ],
)
def test_a_session_is_too_short_if_it_ends_for_a_moment(departures: list[ExplainedDeparture], expected: bool):
    """Only repeated losses that a longer session outlasts count, not poll time-outs, crashes or starved clients."""
    found = list(session_timeout_too_short(view_of(history(snapshot(T0, A, B)), NOW, past=tuple(departures))))
    assert [(each.severity, each.confidence) for each in found] == ([(Severity.INFO, HINT)] if expected else [])
    if found:
        assert found[0].advice[0].proposed == "45000"
        assert {each.rule for each in found[0].alternatives} == {"heartbeat_starvation", "member_crash"}
        assert found[0].missing


@pytest.mark.parametrize(
    ("client_id", "liveness", "expected"),
    [
        ("rdkafka", None, (Severity.TICKET, PLAUSIBLE)),
        ("kafka-python-2.0.2", None, (Severity.INFO, HINT)),
        ("kafka-python-2.0.2", PAUSED, (Severity.TICKET, STRONG)),
    ],
    ids=["cannot starve", "may starve", "was seen to stand still"],
)
def test_a_longer_session_must_not_hide_starvation(client_id: str, liveness: str | None, expected: tuple[str, float]):
    """If heartbeats may be starved it is a hint, until the client's own reports rule this out."""
    who = replace(A, client_id=client_id)
    gone = (evicted(50, who, liveness=liveness), evicted(9, who, liveness=liveness))
    (found,) = session_timeout_too_short(view_of(history(snapshot(T0, who, B)), NOW, past=gone))
    assert (found.severity, found.confidence) == expected


def test_a_short_session_is_a_better_word_than_a_hint():
    """A session time-out below ten seconds is a fact, whatever caused the losses."""
    who = replace(A, session_timeout_ms=6_000)
    gone = (evicted(50, who), evicted(9, who))
    (found,) = session_timeout_too_short(view_of(history(snapshot(T0, who, B)), NOW, past=gone))
    assert (found.variant, found.confidence) == ("setting", CERTAIN)


def test_a_return_under_another_id_is_found_in_the_rebalances():
    """A departure that was explained before the return is looked up again."""
    again = replace(A, member_id="a-2")
    events = [rebalance(NOW - 50 * MINUTE + 8 * SECOND, [B], [again, B])]
    departures = (evicted(50, A, back_after_ms=None), evicted(9, B))
    assert list(session_timeout_too_short(view_of(history(snapshot(T0, A, B), *events), NOW, past=departures)))


@pytest.mark.parametrize(("session", "fires"), [(6_000, True), (9_999, True), (10_000, False), (45_000, False)])
def test_a_session_below_ten_seconds_is_noted(session: int, fires: bool):
    """It is a fact and not a problem yet: Severity.INFO. Groups without a session time-out have no finding."""
    one = replace(A, session_timeout_ms=session)
    found = list(session_timeout_too_short(view_of(history(snapshot(T0, one, B)), NOW)))
    assert [(each.severity, each.confidence) for each in found] == ([(Severity.INFO, CERTAIN)] if fires else [])
    new = replace(A, session_timeout_ms=None)
    assert not list(session_timeout_too_short(view_of(history(snapshot(T0, new, type="consumer")), NOW)))


def test_a_setting_is_noted_while_the_group_is_empty_for_a_moment():
    """A group whose only member is lost again and again would have it anew each time; it ends ten minutes later."""
    one = replace(A, session_timeout_ms=6_000)
    left_ms = NOW - 5 * MINUTE
    empty = history(snapshot(T0, one), rebalance(left_ms, [one], []), snapshot(left_ms, state="Empty"))
    (alone,) = session_timeout_too_short(view_of(history(snapshot(T0, one)), NOW))
    (found,) = session_timeout_too_short(view_of(empty, NOW))
    assert found.subject == alone.subject
    assert not list(session_timeout_too_short(view_of(empty, left_ms + 11 * MINUTE)))
    deleted = history(snapshot(T0, one), rebalance(left_ms, [one], []), snapshot(left_ms, state="Deleted"))
    assert not list(session_timeout_too_short(view_of(deleted, NOW)))


@pytest.mark.parametrize(
    ("timeout", "fires"), [(300_000, False), (900_000, False), (3_600_000, True), (2**31 - 1, True)]
)
def test_an_excessive_rebalance_timeout_names_who_sets_it(timeout: int, fires: bool):
    """The group waits for the largest one: its owner and the recommended value are named."""
    one = replace(A, rebalance_timeout_ms=timeout)
    found = list(rebalance_timeout_excessive(view_of(history(snapshot(T0, one, B)), NOW)))
    assert bool(found) == fires
    if found:
        assert found[0].confidence == CERTAIN
        assert [each.member_id for each in found[0].subject.members] == ["a-1"]
        assert "at least 60000" in found[0].advice[0].proposed


def test_a_measured_poll_gap_gives_the_timeout_a_number():
    """If the longest time between polls is reported, the advice is twice that."""
    one = replace(A, rebalance_timeout_ms=3_600_000)
    events = [report(NOW - SECOND, one, {POLL_GAP_MAX: 90_500.0})]
    (found,) = rebalance_timeout_excessive(view_of(history(snapshot(T0, one, B), *events), NOW))
    assert found.advice[0].proposed == "181000"


def test_an_excessive_timeout_does_not_grow():
    """If batches take more than half of it, they come first; librdkafka rejects values below its session time-out."""
    one = replace(A, rebalance_timeout_ms=3_600_000)
    events = [report(NOW - SECOND, one, {POLL_GAP_MAX: 1_900_000.0})]
    (found,) = rebalance_timeout_excessive(view_of(history(snapshot(T0, one, B), *events), NOW))
    assert found.advice[0].proposed == "twice the longest batch, once batches are shorter: one took 1900 s"
    one = replace(A, client_id="rdkafka", session_timeout_ms=600_000, rebalance_timeout_ms=3_600_000)
    events = [report(NOW - SECOND, one, {POLL_GAP_MAX: 90_500.0})]
    (found,) = rebalance_timeout_excessive(view_of(history(snapshot(T0, one, B), *events), NOW))
    assert found.advice[0].proposed == "600000"


# --- Time between polls ---


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({POLL_GAP_MAX: 100_000.0}, None),
        ({POLL_GAP_MAX: 160_000.0}, Severity.INFO),
        ({POLL_GAP_MAX: 250_000.0}, Severity.TICKET),
        ({POLL_AGE: 170.0}, Severity.INFO),
        ({POLL_GAP_MAX: 250_000.0, POLL_IDLE: 0.99}, None),
    ],
    ids=["in time", "half", "nearly all", "still in it", "a long poll that waits for records"],
)
def test_a_reported_poll_gap_warns_before_the_overrun(values: dict[str, float], expected: str | None):
    """Half of max.poll.interval is informational, four fifths a ticket; waiting inside poll() is not work."""
    events = [report(NOW - 10 * SECOND, A, values, config=ClientConfig(max_poll_records=500))]
    found = list(poll_overrun_risk(view_of(history(snapshot(T0, A, B), *events), NOW)))
    assert [each.severity for each in found] == ([] if expected is None else [expected])
    if found:
        assert found[0].confidence == STRONG
        assert found[0].subject.members[0].member_id == "a-1"
        assert found[0].advice[0].parameter == "max.poll.records"


def test_the_advice_makes_a_batch_take_half_the_interval():
    """500 records in 250 s, with 300 s allowed: 300 records take 150 s."""
    events = [report(NOW, A, {POLL_GAP_MAX: 250_000.0}, config=ClientConfig(max_poll_records=500))]
    (found,) = poll_overrun_risk(view_of(history(snapshot(T0, A, B), *events), NOW))
    assert found.advice[0].proposed == "at most 300"


def committing(*, lag: bool, gap_s: int, who: Member = A) -> list[Event]:
    """Commit each 5 s, then once after a gap, with or without records waiting meanwhile."""
    times = [NOW - gap_s * SECOND - 60_000 + i * 5_000 for i in range(8)]
    times += [times[-1] + gap_s * SECOND]
    events: list[Event] = [snapshot(T0, who, B)]
    for i, at_ms in enumerate(times):
        done = 100 + 10 * i
        events.append(probe(at_ms - SECOND, ends={0: 10_000 if lag else done, 1: 10_000 if lag else done}))
        events.append(commits(at_ms, {0: done, 1: done}))
    return events


@pytest.mark.parametrize(
    ("events", "fires"),
    [
        pytest.param(committing(lag=True, gap_s=200), True, id="busy for 200 s"),
        pytest.param(committing(lag=False, gap_s=200), False, id="nothing to do for 200 s"),
        pytest.param(committing(lag=True, gap_s=100), False, id="a legal long batch"),
        pytest.param(
            committing(lag=True, gap_s=200, who=replace(A, client_id="rdkafka")), False, id="commits from a timer"
        ),
        pytest.param(committing(lag=True, gap_s=200, who=replace(A, client_id="sarama")), False, id="enforces nothing"),
    ],
)
def test_commits_show_a_poll_gap_only_of_busy_clients_that_commit_in_poll(events: list[Event], fires: bool):
    """Idle time, timers and clients without a limit have no finding; without client metrics it is plausible at most."""
    found = list(poll_overrun_risk(view_of(history(*events), NOW)))
    assert [each.confidence for each in found] == ([PLAUSIBLE] if fires else [])
    assert not found or found[0].missing


def stalling(stall_s: int) -> list[Event]:
    """Commit every second, in panes of 5 s, with one stall; the member catches up on its backlog."""
    events: list[Event] = [snapshot(T0, A, B)]
    start_ms = NOW - 3 * MINUTE
    for second in range(0, 100, 5):
        at_ms = start_ms + second * SECOND + (stall_s * SECOND if second >= 50 else 0)
        done = 10 * (second + 4)
        pane = commits(at_ms + 4 * SECOND, {0: done, 1: done})
        first = replace(pane.topics["orders"], first_at_ms=[at_ms, at_ms])
        events += [
            replace(pane, topics={"orders": first}),
            probe(at_ms + 4 * SECOND, ends=dict.fromkeys((0, 1), done + 1)),
        ]
    for passed in range(0, stall_s, 10):
        ends = 10 * 49 + 10 * passed
        events.append(probe(start_ms + (50 + passed) * SECOND, ends=dict.fromkeys((0, 1), ends)))
    return sorted(events, key=lambda each: getattr(each, "last_commit_ms", None) or getattr(each, "probed_at_ms", T0))


@pytest.mark.parametrize(("stall_s", "fires"), [(145, False), (160, True)])
def test_a_poll_gap_is_known_from_the_first_commit_after_it(stall_s: int, fires: bool):
    """Rows have the first and the last commit of a pane; between two commits the client may poll."""
    found = list(poll_overrun_risk(view_of(history(*stalling(stall_s)), NOW + MINUTE)))
    took = [int(each.summary.partition("once took ")[2].partition(" s")[0]) for each in found]
    assert [0.94 * stall_s <= each <= stall_s for each in took] == ([True] if fires else [])


def test_commits_once_in_minutes_are_a_habit():
    """A member that always commits each 200 s may poll all the time: no finding."""
    events: list[Event] = [snapshot(T0 - HOUR, A, B)]
    for i in range(8):
        at_ms = NOW - (8 - i) * 200 * SECOND
        events += [probe(at_ms - SECOND, ends={0: 99_999, 1: 99_999}), commits(at_ms, {0: 100 * i, 1: 100 * i})]
    assert not list(poll_overrun_risk(view_of(history(*events), NOW)))


# --- Joining ---


def forming(count: int, every_ms: int, *, left: tuple[str, ...] = (), first_empty: bool = True) -> list[Event]:
    """Let members join one by one, each in a rebalance of its own, into a group that began empty."""
    events: list[Event] = []
    before: list[Member] = [] if first_empty else [member("z-1")]
    for i in range(count):
        after = [*before, member(f"m{i}-1", [i])]
        at_ms = T0 + i * every_ms
        reason = "join" if before else "first_join"
        generation = Generation(
            i + 1,
            reason,
            join_ended_at_ms=at_ms + SECOND,
            assigned_at_ms=at_ms + SECOND,
            joined=(after[-1].member_id,),
            left=left if i == count - 1 else (),
        )
        events.append(rebalance(at_ms, before, after, took_ms=SECOND, generations=(generation,), reason=reason))
        before = after
    return [snapshot(T0, *before), *events]


@pytest.mark.parametrize(
    ("events", "fires"),
    [
        pytest.param(forming(5, 8_000), True, id="five in 32 s"),
        pytest.param(forming(3, 8_000), False, id="three"),
        pytest.param(forming(5, 60_000), False, id="one a minute"),
        pytest.param(forming(5, 8_000, left=("z-1",)), False, id="somebody left"),
        pytest.param(forming(5, 8_000, first_empty=False), False, id="scaled out"),
    ],
)
def test_a_group_that_forms_step_by_step_waits_too_little(events: list[Event], fires: bool):
    """From empty, with arrivals only; the advice is the spread of the joins plus a second."""
    found = list(initial_delay_too_short(view_of(history(*events), T0 + 3 * MINUTE)))
    assert bool(found) == fires
    if found:
        assert (found[0].advice[0].proposed, len(found[0].rebalance_ids)) == ("33000", 5)
        assert found[0].confidence == CERTAIN


def refused(values: dict[str, float | None], **changes: Any) -> list[Event]:
    """Let a client without a rebalance report each 10 s for a minute."""
    stranger = member("x-1")
    return [
        report(NOW - at * SECOND, stranger, values, **{"member_id": None, "interval_ms": 10_000, **changes})
        for at in range(60, -1, -10)
    ]


@pytest.mark.parametrize(
    ("events", "variant", "fires"),
    [
        pytest.param(
            refused({ASSIGNED: 0.0, JOIN_RATE: 0.2}, config=ClientConfig(session_timeout_ms=5_000)),
            "session_out_of_range",
            True,
            id="session below the limit",
        ),
        pytest.param(refused({ASSIGNED: 0.0}, join_state="wait-join"), None, True, id="librdkafka outside"),
        pytest.param(refused({ASSIGNED: 0.0, JOIN_RATE: 0.0}), None, False, id="does not try"),
        pytest.param(refused({ASSIGNED: 2.0, JOIN_RATE: 0.2}), None, False, id="has partitions"),
        pytest.param(refused({ASSIGNED: 0.0, JOIN_RATE: 0.2})[:3], None, False, id="has stopped reporting"),
        pytest.param(refused({ASSIGNED: 0.0, JOIN_RATE: 0.2}, client_id="b"), None, False, id="may be a member"),
    ],
)
def test_a_client_that_is_kept_out_reports_it(events: list[Event], variant: str | None, fires: bool):
    """It tries to join for a minute, has no partitions, and is in no generation of a settled group."""
    found = list(join_rejected(view_of(history(snapshot(T0, A, B), *events), NOW)))
    assert [(each.severity, each.variant) for each in found] == ([(Severity.TICKET, variant)] if fires else [])
    if found:
        assert found[0].subject.members[0].client_id == "x"


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ({}, True),
        ({"type": "consumer", "protocol": None}, False),
        ({"protocol": "stream"}, False),
        ({"protocol": "sessioned", "protocol_type": "connect"}, False),
    ],
)
def test_the_advice_for_a_client_that_is_kept_out_names_the_assignor_where_it_is_a_setting(
    described: dict[str, Any], expected: bool
):
    """In groups of KIP-848 the broker assigns, and Streams and Connect have their own assignors."""
    known = history(snapshot(T0, A, B, **described), *refused({ASSIGNED: 0.0}, join_state="wait-join"))
    (found,) = join_rejected(view_of(known, NOW))
    assert ("partition.assignment.strategy" in {each.parameter for each in found.advice}) == expected


def test_failed_rebalances_that_go_on_are_attempts():
    """Java counts them even if it never joins."""
    failing = [
        report(NOW - at * SECOND, member("x-1"), {ASSIGNED: 0.0, FAILED_REBALANCES: 70.0 - at}, member_id=None)
        for at in range(60, -1, -5)
    ]
    assert list(join_rejected(view_of(history(snapshot(T0, A, B), *failing), NOW)))


def test_a_group_that_nobody_can_join_is_harm():
    """Empty with lag: a page."""
    events = [commits(T0, {0: 5}), probe(NOW - SECOND, ends={0: 50})]
    known = history(snapshot(T0), *events, *refused({ASSIGNED: 0.0}, join_state="init"))
    (found,) = join_rejected(view_of(known, NOW))
    assert found.severity == Severity.PAGE


@pytest.mark.parametrize(
    "event",
    [snapshot(NOW - 20 * SECOND, A, B), probe(NOW - 10 * SECOND, "PreparingRebalance", [A, B])],
    ids=["just rebalanced", "rebalancing"],
)
def test_who_waits_for_a_barrier_is_not_rejected(event: Event):
    """A client may wait for as long as the barrier lasts."""
    waiting = refused({ASSIGNED: 0.0}, join_state="wait-join")
    assert not list(join_rejected(view_of(history(snapshot(T0, A, B), *waiting, event), NOW)))


# --- Everywhere ---


def test_a_healthy_group_has_no_finding():
    """Current defaults, reports in time, a past deploy: no findings."""
    members = [member(f"m{i}-1", [i], session_timeout_ms=45_000) for i in range(4)]
    events: list[Event] = [snapshot(T0, *members, protocol="cooperative-sticky")]
    for each in members:
        values = {HEARTBEAT_RATE: 0.33, POLL_GAP_MAX: 900.0, ASSIGNED: 1.0}
        events += [
            report(NOW - at * SECOND, each, values, config=ClientConfig(heartbeat_interval_ms=3_000))
            for at in range(60, -1, -5)
        ]
    known = history(*events)
    assert [each.rule for rule in CONDITIONS for each in rule(view_of(known, NOW))] == []


def test_a_young_group_is_not_judged():
    """Each group has two minutes before it is judged."""
    wrong = replace(A, session_timeout_ms=2_000, rebalance_timeout_ms=2**31 - 1)
    known = history(
        snapshot(T0, wrong, first_seen_ms=T0),
        report(T0 + SECOND, wrong, config=ClientConfig(heartbeat_interval_ms=9_000)),
    )
    assert [each.rule for rule in CONDITIONS for each in rule(view_of(known, T0 + MINUTE))] == []
    assert len({each.rule for rule in CONDITIONS for each in rule(view_of(known, T0 + 3 * MINUTE))}) == 3
