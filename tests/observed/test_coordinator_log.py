"""Coordinators' log lines take precedence over conclusions from commits and probes, at the time in the line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from histories import MINUTE, SECOND, T0, Event, commits, history, joined, lost, member, pulse, rebalance, snapshot
from rebalance_contract import CoordinatorAct as Act
from rebalance_contract import CoordinatorActivity, CoordinatorEvent, EvidenceSource, Rebalance, RebalanceImpact
from rebalance_contract import CoordinatorTrigger as Trigger
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.detect.detector import Detector
from rebalance_streaming.detect.episode import EpisodeContext, make_episode
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rank import explain
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.engine.engine import Engine, EngineConfig
from rebalance_streaming.observed.barriers import longest_barrier
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.coordinator_log import CoordinatorLog
from rebalance_streaming.observed.departed_members import find_departures
from rebalance_streaming.observed.departures import (
    CLEAN,
    POLL_TIMEOUT,
    REMOVED_BY_ADMIN,
    SESSION_EXPIRED,
    UNKNOWN,
    UNSYNCED,
    Departure,
)
from rebalance_streaming.observed.history import GroupHistory

B, STAYS = member("b-1", [2, 3]), member("a-1", [0, 1])
LOST_MS = T0 + 10 * MINUTE
OVER = "consumer poll timeout has expired"


def wrote(at_ms: int, act: Act, **values: Any) -> CoordinatorEvent:
    return CoordinatorEvent(at_ms, act, **values)


def begun(at_ms: int, trigger: Trigger, member_id: str | None = B.member_id, **values: Any) -> CoordinatorEvent:
    return wrote(at_ms, Act.PREPARING, **{"generation": 1, "trigger": trigger, "member_id": member_id, **values})


def with_lines(gone: Rebalance, lines: Sequence[CoordinatorEvent], *events: Event) -> GroupHistory:
    known = history(*events, gone)
    known.coordinator_log.take(lines)
    return known


def judged(gone: Rebalance, lines: Sequence[CoordinatorEvent], *events: Event) -> Departure:
    (found,) = find_departures(with_lines(gone, lines, *events), gone, {}, LOST_MS + MINUTE)
    return found


def left(**changes: Any) -> Rebalance:
    return lost(LOST_MS, B, [STAYS, B], **changes)


def test_an_event_that_is_repeated_is_known_once():
    """Within one row and across rows: a broker that loaded a group once did not lose it."""
    before, loaded = wrote(T0, Act.STABILISED, broker=1), wrote(T0 + SECOND, Act.LOADED, broker=2)
    log = CoordinatorLog()
    assert log.take([before, loaded, loaded])
    assert not log.take([loaded, before])
    assert [(each.before, each.broker) for each in log.loads()] == [(1, 2)]


# --- How a member left ---


@pytest.mark.parametrize("silence_ms", [0, 12 * SECOND, 300 * SECOND])
@pytest.mark.parametrize(
    ("act", "reason", "expected"),
    [
        (Act.EXPIRED, None, SESSION_EXPIRED),
        (Act.LEFT, OVER, POLL_TIMEOUT),
        (Act.LEFT, "worker poll timeout has expired", POLL_TIMEOUT),
        (Act.LEFT, "the consumer is being closed", CLEAN),
        (Act.LEFT, "the consumer unsubscribed from all topics", CLEAN),
        (Act.LEFT, "taking too long to read the log", CLEAN),
        (Act.LEFT, "member was removed by an admin", REMOVED_BY_ADMIN),
        (Act.LEFT, "member was removed by an admin: bad pod", REMOVED_BY_ADMIN),
        (Act.EVICTED, None, POLL_TIMEOUT),
        (Act.EVICTED, "the classic member failed to join within the rebalance timeout", POLL_TIMEOUT),
        (Act.EVICTED, "did not send its sync request in time", UNSYNCED),
        (Act.EVICTED, "the member failed to sync within timeout", UNSYNCED),
    ],
)
def test_what_the_coordinator_decided_is_certain(act: Act, reason: str | None, expected: str, silence_ms: int):
    """Whatever the commits look like, the line has how the member left, and when."""
    at_ms = LOST_MS - 1_234
    found = judged(
        left(), [wrote(at_ms, act, member_id="b-1", reason=reason)], *pulse(T0, LOST_MS - silence_ms, [2, 3])
    )
    assert (found.classes, found.confidence) == ((expected,), CERTAIN)
    assert (found.from_ms, found.to_ms) == (at_ms, at_ms)
    assert [each.source for each in found.evidence] == [EvidenceSource.BROKER_LOG]


@pytest.mark.parametrize(
    ("reason", "rule"),
    [
        ("the consumer is being closed", "it said itself that it goes"),
        (OVER, "it said itself that it goes"),
        ("member was removed by an admin", "somebody asked for its removal"),
        ("the consumer unsubscribed from all topics", "its application unsubscribed"),
    ],
)
def test_the_evidence_of_a_leave_says_whose_wish_it_was(reason: str, rule: str):
    """A member that was removed did not request to leave."""
    found = judged(left(), [wrote(LOST_MS, Act.LEFT, member_id="b-1", reason=reason)])
    assert [each.rule for each in found.evidence] == [rule]


@pytest.mark.parametrize(("who", "expected"), [("b-1", UNSYNCED), ("c-1", UNKNOWN), (None, UNKNOWN)])
def test_a_rebalance_that_a_missing_sync_began_names_who_did_not_send_it(who: str | None, expected: str):
    """The line names no single member if several were kept; later the lines of their removal name them."""
    assert judged(left(), [begun(LOST_MS - 900, Trigger.SYNC_EXPIRATION, who)]).likely == expected


def test_kafka_streams_removes_its_own_static_members_as_it_closes():
    """KafkaStreams.close(CloseOptions) uses the admin API; other removals by it are no clean leave."""
    who = replace(B, client_id="app-1f-StreamThread-1-consumer")
    line = wrote(LOST_MS, Act.LEFT, member_id="b-1", reason="member was removed by an admin")
    for instance, expected in (("app-1", CLEAN), (None, REMOVED_BY_ADMIN)):
        member_ = replace(who, group_instance_id=instance)
        assert judged(lost(LOST_MS, member_, [STAYS, member_]), [line]).likely == expected


def test_a_leave_without_a_reason_was_no_session_that_ran_out():
    """A silence as long as the session would suggest expiry, but the member sent a leave itself."""
    events = pulse(T0, LOST_MS - 12 * SECOND, [2, 3])
    assert judged(left(), (), *events).classes == (SESSION_EXPIRED,)
    found = judged(left(), [wrote(LOST_MS - 1_000, Act.LEFT, member_id="b-1")], *events)
    assert found.classes == (CLEAN,)
    assert found.evidence[-1].source == EvidenceSource.BROKER_LOG


def test_a_leave_without_a_reason_at_the_poll_limit_is_one():
    """librdkafka and kafka-python give no reason; a silence as long as the limit makes an overrun likely."""
    events = pulse(T0, LOST_MS - 301 * SECOND, [2, 3])
    found = judged(left(), [wrote(LOST_MS - 100, Act.LEFT, member_id="b-1")], *events)
    assert found.likely == POLL_TIMEOUT


@pytest.mark.parametrize(
    ("silence_s", "limit_s", "expected"), [(10, 15, UNKNOWN), (15, 19, POLL_TIMEOUT), (10, 30, CLEAN)]
)
def test_commits_that_ended_before_a_leave_show_an_overrun(silence_s: int, limit_s: int, expected: str):
    """Every five seconds until then: a client that closes has worked up to it, and commits once more."""
    short = replace(B, client_id="rdkafka", rebalance_timeout_ms=limit_s * SECOND)
    events = pulse(T0, LOST_MS - silence_s * SECOND + 1, [2, 3])
    found = judged(lost(LOST_MS, short, [STAYS, short]), [wrote(LOST_MS, Act.LEFT, member_id="b-1")], *events)
    assert found.likely == expected


@pytest.mark.parametrize(("last_s", "expected"), [(12, UNKNOWN), (3, CLEAN)])
def test_a_limit_may_be_over_where_nobody_knows_of_records_either(last_s: float, expected: str):
    """Without a prober it is unknown whether a commit was due; the age of the last one counts nevertheless."""
    who = member("b-1", [2, 3], client_id="rdkafka", session_timeout_ms=10_000, rebalance_timeout_ms=14_000)
    gone, came = lost(LOST_MS, who, [STAYS, who]), joined(LOST_MS - 5 * MINUTE, who, [STAYS])
    once = commits(LOST_MS - round(last_s * SECOND), {2: 7, 3: 7})
    found = judged(gone, [wrote(LOST_MS, Act.LEFT, member_id="b-1")], came, once)
    assert found.likely == expected


@pytest.mark.parametrize(
    ("last_s", "library", "expected"),
    [
        (6, "rdkafka", UNKNOWN),
        (6, "consumer-1", CLEAN),
        (0.5, "rdkafka", CLEAN),
        (2, "rdkafka", CLEAN),
        (10, "rdkafka", POLL_TIMEOUT),
    ],
    ids=["may be over", "commits inside poll", "committed as it closed", "not over yet", "over"],
)
def test_a_leave_when_the_poll_limit_may_be_over_is_left_open(last_s: float, library: str, expected: str):
    """librdkafka commits every five seconds, so its last poll may be that much older than its last commit."""
    who = member("b-1", [2, 3], client_id=library, session_timeout_ms=6_000, rebalance_timeout_ms=10_000)
    gone, came = lost(LOST_MS, who, [STAYS, who]), joined(LOST_MS - 5 * MINUTE, who, [STAYS])
    last_ms = LOST_MS - 100 - round(last_s * SECOND)
    events = [came, *pulse(last_ms - MINUTE, last_ms + 1, [2, 3])]
    found = judged(gone, [wrote(LOST_MS - 100, Act.LEFT, member_id="b-1")], *events)
    assert found.likely == expected


@pytest.mark.parametrize(
    ("lines", "at_once"),
    [
        ([wrote(T0, Act.JOINED, member_id="b-1")], True),
        ([wrote(T0, Act.NAMED, member_id="b-1"), wrote(T0 + 5, Act.JOINED, member_id="b-1")], False),
        ([wrote(T0, Act.NAMED, member_id="b-1")], False),
        ([wrote(T0, Act.JOINED, member_id="b-1", instance_id="i")], False),
        ([wrote(T0, Act.JOINED, member_id="c-1")], False),
    ],
    ids=["at once", "named first", "named only", "static", "another"],
)
def test_a_join_older_than_kip_394_is_recognised_by_how_it_was_answered(lines: list[CoordinatorEvent], at_once: bool):
    """A dynamic member that gets its id and its membership with one request uses JoinGroup before version 4."""
    known = CoordinatorLog()
    known.take(lines)
    assert known.was_added_at_once("b-1") is at_once


def test_the_session_is_struck_out_of_two_readings():
    """If only the length of the membership is known, either time-out matches."""
    who = member("b-1", [2, 3], session_timeout_ms=6_000, rebalance_timeout_ms=5_000)
    gone, came = lost(LOST_MS, who, [STAYS, who]), joined(LOST_MS - 10_500, who, [STAYS])
    assert judged(gone, (), came).classes == (SESSION_EXPIRED, POLL_TIMEOUT)
    found = judged(gone, [wrote(LOST_MS - 100, Act.LEFT, member_id="b-1")], came)
    assert (found.classes, found.confidence) == ((POLL_TIMEOUT, CLEAN), PLAUSIBLE)


def test_a_leave_before_the_poll_limit_can_have_passed_is_clean():
    """A member that was there for less than its limit cannot have exceeded it."""
    came = joined(LOST_MS - 2 * MINUTE, B, [STAYS])
    found = judged(left(), [wrote(LOST_MS - 100, Act.LEFT, member_id="b-1")], came)
    assert (found.classes, found.confidence) == ((CLEAN,), STRONG)


def test_without_lines_all_is_as_it_was():
    """A log that is not shipped, or that is about others, changes nothing."""
    for lines in ((), [wrote(LOST_MS, Act.LEFT, member_id="c-1", reason=OVER)]):
        found = judged(left(), lines)
        assert (found.classes, found.confidence, found.logged) == ((UNKNOWN,), HINT, None)


def test_a_line_of_another_time_is_not_of_this_departure():
    """A KIP-848 member keeps its id when it is fenced and rejoins."""
    gone = left(started_after_ms=LOST_MS - MINUTE)
    early, late = LOST_MS - 2 * MINUTE, (gone.completed_at_ms or 0) + MINUTE
    for at_ms in (early, late):
        assert judged(gone, [wrote(at_ms, Act.EXPIRED, member_id="b-1")]).logged is None


# --- Barriers ---


def test_a_member_that_left_while_others_waited_is_distinguished_from_the_one_that_set_it_off():
    """A rebalance that another member's line began before is one that waited for this member."""
    began, gone_ms = LOST_MS - 20 * SECOND, LOST_MS - SECOND
    line = wrote(gone_ms, Act.LEFT, member_id="b-1", reason=OVER)
    assert judged(left(), [begun(began, Trigger.JOIN, "c-1"), line]).in_barrier
    assert not judged(left(), [begun(gone_ms - 2, Trigger.LEAVE), line]).in_barrier
    assert not judged(left(), [line, begun(gone_ms, Trigger.LEAVE)]).in_barrier
    assert not judged(left(), [line, begun(gone_ms, Trigger.LEAVE, None)]).in_barrier
    # Up to 3.9 the line of a leave follows the release that it causes.
    released = [begun(began, Trigger.JOIN, "c-1"), wrote(gone_ms - 2, Act.STABILISED, generation=2), line]
    assert judged(left(), released).in_barrier
    settled = [begun(began, Trigger.JOIN, "c-1"), wrote(began + SECOND, Act.STABILISED, generation=2), line]
    assert not judged(left(), settled).in_barrier


@pytest.mark.parametrize(
    ("act", "came_s", "back"), [(Act.NAMED, -7, False), (Act.JOINED, -7, False), (Act.JOINED, 2, True)]
)
def test_who_came_before_another_went_is_not_that_one_come_back(act: Act, came_s: int, back: bool):
    """No probe listed both, and the coordinator logged the times of each join and leave."""
    gone = rebalance(LOST_MS, [STAYS, B], [STAYS, member("b-2", [2, 3])], reason="replacement")
    lines = [
        wrote(LOST_MS - MINUTE, Act.JOINED, member_id="b-1"),
        wrote(LOST_MS + came_s * SECOND, act, member_id="b-2"),
        wrote(LOST_MS, Act.EXPIRED, member_id="b-1"),
        wrote(LOST_MS + MINUTE, Act.EXPIRED, member_id="b-2"),
    ]
    assert (judged(gone, lines).back_as is not None) == back
    assert (judged(gone, [wrote(LOST_MS, Act.EXPIRED, member_id="b-1")]).back_as) == member("b-2", [2, 3])


def test_who_came_is_not_known_from_when_another_did():
    """The departure of the newcomer does not show whether the other member was still there."""
    gone = rebalance(LOST_MS, [STAYS, B], [STAYS, member("b-2", [2, 3])], reason="replacement")
    lines = [
        wrote(LOST_MS - MINUTE, Act.JOINED, member_id="b-1"),
        wrote(LOST_MS, Act.EXPIRED, member_id="b-1"),
        wrote(LOST_MS + MINUTE, Act.EXPIRED, member_id="b-2"),
    ]
    assert judged(gone, lines).back_as == member("b-2", [2, 3])


def test_lines_that_come_later_show_who_was_there():
    """Repeated lookups are cached, until there are more lines."""
    known = with_lines(left(), [wrote(LOST_MS, Act.EXPIRED, member_id="b-1")])
    assert not known.seen_together("b-1", "b-2")
    known.coordinator_log.take([wrote(LOST_MS - SECOND, Act.NAMED, member_id="b-2")])
    assert known.seen_together("b-1", "b-2")


def test_a_join_barrier_is_as_long_as_the_coordinator_wrote():
    """Between its line and the release, whatever the bounds of the offsets topic."""
    gone = left(started_after_ms=LOST_MS - MINUTE, took_ms=3 * SECOND)
    released = gone.join_ended_at_ms or 0
    known = with_lines(gone, [begun(released - 40 * SECOND, Trigger.JOIN, "c-1")])
    barrier = longest_barrier(known, gone)
    assert barrier is not None
    assert barrier.waited_ms == 40 * SECOND


# --- Starts ---


def test_the_start_of_a_rebalance_is_its_own_line():
    """The one with the previous generation, within the bounds of the log."""
    gone = left(started_after_ms=LOST_MS - MINUTE)
    lines = [
        begun(LOST_MS - 5 * MINUTE, Trigger.JOIN, generation=0),
        begun(LOST_MS - 9_000, Trigger.LEAVE, reason=OVER),
        begun(LOST_MS + 4 * MINUTE, Trigger.JOIN, generation=2),
    ]
    start = with_lines(gone, lines).coordinator_log.start_of(gone)
    assert start is not None
    assert (start.at_ms, start.trigger, start.member_id, start.reason) == (LOST_MS - 9_000, "leave", "b-1", OVER)
    assert with_lines(gone, lines[:1] + lines[2:]).coordinator_log.start_of(gone) is None


def test_the_cause_of_a_rebalance_carries_what_began_it():
    """The finding has the reason logged by the coordinator, and the member."""
    gone = left()
    lines = [wrote(LOST_MS - 2, Act.EXPIRED, member_id="b-1"), begun(LOST_MS - 1, Trigger.HEARTBEAT_EXPIRATION)]
    known = with_lines(gone, lines)
    primary = explain(make_episode(known, gone, Thresholds(), JudgingTime(LOST_MS + MINUTE), EpisodeContext()))[0]
    found = [each for each in primary.evidence if each.source == EvidenceSource.BROKER_LOG]
    assert {each.field for each in found} == {"expired", "preparing"}
    assert any("b-1" in each.value for each in found)


# --- Retention ---


def test_lines_may_come_in_any_order_and_twice():
    """Several brokers' logs are shipped independently, and again after a restart of the shipper."""
    lines = [begun(LOST_MS - 10, Trigger.JOIN), wrote(LOST_MS, Act.STABILISED, generation=2)]
    one, other = CoordinatorLog(), CoordinatorLog()
    assert one.take(lines)
    assert other.take(reversed(lines))
    assert not other.take(lines)
    assert one == other


def test_a_group_that_rebalances_all_the_time_costs_no_more_than_another():
    """Only the latest events are kept."""
    log = CoordinatorLog()
    for at_ms in range(T0, T0 + 12_000, 2):
        log.take([wrote(at_ms, Act.JOINED, member_id=str(at_ms))])
    assert len(log._events) == len(log._known) == 5_000
    assert log._events[-1].at_ms == T0 + 11_998


def test_a_detector_takes_lines_of_groups_it_watches():
    """A line that arrives after the judgement changes it, at the latest half a minute later."""
    detector = Detector("prod")
    gone = rebalance(LOST_MS, [STAYS, B], [STAYS])
    detector.take_group(snapshot(LOST_MS + 3_000, STAYS))
    detector.take_rebalance(gone)
    detector.advance(LOST_MS + MINUTE)
    before = detector.causes("g")[gone.rebalance_id]
    event = wrote(LOST_MS - 1_000, Act.LEFT, member_id="b-1", reason=OVER)
    detector.take_coordinator(CoordinatorActivity("prod", "g", LOST_MS - 5_000, (event,)))
    detector.advance(LOST_MS + MINUTE + 1_000)
    detector.advance(LOST_MS + MINUTE + 30_000)
    assert (before, detector.causes("g")[gone.rebalance_id]) == ("undetermined", "poll_overrun")


def test_the_impact_of_a_rebalance_says_when_and_why_it_began():
    """Whichever arrives first, the rebalance or the line; lines of another cluster are not used."""
    gone = rebalance(LOST_MS, [STAYS, B], [STAYS])
    start = begun(LOST_MS - 700, Trigger.LEAVE, reason=OVER)
    lines = CoordinatorActivity("prod", "g", LOST_MS - 5_000, (start,))
    for rows in ((gone, lines), (lines, gone)):
        engine = Engine(EngineConfig(cluster="prod", source_topic="__consumer_offsets", detect=DetectConfig()))
        engine.apply(CoordinatorActivity("other", "g", LOST_MS, (begun(LOST_MS - 900, Trigger.JOIN),)), LOST_MS)
        for row in rows:
            engine.apply(row, LOST_MS + 5_000)
        (impact,) = [each for each in engine.advance(LOST_MS + 5_000) if isinstance(each, RebalanceImpact)]
        assert (impact.prepared_at_ms, impact.trigger, impact.trigger_member, impact.trigger_reason) == (
            LOST_MS - 700,
            "leave",
            "b-1",
            OVER,
        )
