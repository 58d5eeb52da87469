"""A coordinator that moved: as the cause of a rebalance, beside one, or without effect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from detect.standing_histories import departed, moved
from detect.views import view_of
from histories import HOUR, MINUTE, SECOND, T0, history, member, rebalance, snapshot
from rebalance_contract import CoordinatorAct, CoordinatorEvent
from rebalance_streaming.detect.episode import EpisodeContext, make_episode
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rules.coordinator import coordinator_overload
from rebalance_streaming.detect.rules.failover import coordinator_failover, find_failover
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.observed.confidence import CERTAIN, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import CLEAN, POLL_TIMEOUT, SESSION_EXPIRED, UNKNOWN
from rebalance_streaming.observed.history import GroupHistory

A, B = member("a-1", [0, 1]), member("b-1", [2, 3])
NOW = T0 + HOUR
MOVED_MS = NOW - 2 * MINUTE


def test_a_failover_that_nobody_noticed_is_a_note():
    """The coordinator moved and no rebalance followed: informational, counted, and resolved after a while."""
    known = history(snapshot(T0, A, B), *moved(MOVED_MS))
    (found,) = coordinator_failover(view_of(known, NOW))
    assert (found.confidence, found.advice) == (CERTAIN, ())
    assert "broker 1 to broker 2" in found.summary
    assert not list(coordinator_failover(view_of(known, NOW + 10 * MINUTE)))
    assert not list(coordinator_failover(view_of(history(snapshot(T0, A, B), moved(MOVED_MS)[0]), NOW)))


def test_a_rebalance_before_the_last_answer_of_the_old_coordinator_is_another_story():
    """The group formed, the coordinator answered once more and then failed."""
    known = history(snapshot(T0, A, B), rebalance(NOW - 152 * SECOND, [A], [A, B]), *moved(MOVED_MS))
    assert list(coordinator_failover(view_of(known, NOW)))


def test_a_failover_with_a_rebalance_is_reported_by_the_rebalance():
    """The condition is not reported if the cause of the rebalance says the same, nor until that is known."""
    change = rebalance(NOW - 90 * SECOND, [A, B], [B])
    known = history(snapshot(T0, A, B), *moved(MOVED_MS), change)
    assert not list(coordinator_failover(view_of(known, NOW)))
    causes = {change.rebalance_id: "coordinator_failover"}
    assert not list(coordinator_failover(view_of(known, NOW, causes=causes)))


def test_a_failover_beside_a_rebalance_with_another_cause_is_a_note():
    """Both are reported."""
    change = rebalance(NOW - 90 * SECOND, [A, B], [B])
    known = history(snapshot(T0, A, B), *moved(MOVED_MS), change)
    (found,) = coordinator_failover(view_of(known, NOW, causes={change.rebalance_id: "member_crash"}))
    assert (found.confidence, found.rebalance_ids) == (CERTAIN, (change.rebalance_id,))
    assert "a cause of its own" in found.summary


@pytest.mark.parametrize(
    ("after_s", "likely", "reason", "confidence"),
    [
        (20, SESSION_EXPIRED, "departure", STRONG),
        (20, UNKNOWN, "departure", PLAUSIBLE),
        (-20, SESSION_EXPIRED, "departure", STRONG),
        (71, SESSION_EXPIRED, "departure", None),
        (-60, SESSION_EXPIRED, "departure", None),
        (20, CLEAN, "departure", None),
        (20, POLL_TIMEOUT, "departure", None),
        (20, SESSION_EXPIRED, "join", None),
    ],
    ids=["expired", "unknown", "seen late", "too late", "before", "in order", "no poll", "a newcomer"],
)
def test_a_rebalance_right_after_a_failover_is_its_effect(
    after_s: int, likely: str, reason: str, confidence: float | None
):
    """Within a session and a minute, and only losses by session expiry: not joins, leaves or missed polls."""
    at_ms = NOW + after_s * SECOND
    change = rebalance(at_ms, [A, B], [B], reason=reason)
    known = history(snapshot(T0, A, B), *moved(NOW), change)
    gone = (departed(at_ms, A, likely, rule="undetermined").departure,)
    episode = make_episode(known, change, Thresholds(), JudgingTime(NOW + HOUR), EpisodeContext())
    found = find_failover(replace(episode, departures=gone))
    assert (None if found is None else found.confidence) == confidence
    if found is not None:
        assert (found.rebalance_ids, found.advice[0].proposed) == ((change.rebalance_id,), "45000")


@pytest.mark.parametrize(
    ("session_ms", "kind", "expected"),
    [(10_000, "classic", ["45000"]), (45_000, "classic", []), (60_000, "classic", []), (None, "consumer", [])],
)
def test_a_longer_session_is_advised_only_after_a_short_one(session_ms: int | None, kind: str, expected: list[str]):
    """The default outlasts a broker's restart, and it is the minimum of KIP-848 groups."""
    a, b = (replace(each, session_timeout_ms=session_ms) for each in (A, B))
    change = rebalance(NOW + 20 * SECOND, [a, b], [b], type=kind)
    known = history(snapshot(T0, a, b, type=kind), *moved(NOW), change)
    gone = (departed(NOW + 20 * SECOND, a, SESSION_EXPIRED, rule="undetermined").departure,)
    episode = make_episode(known, change, Thresholds(), JudgingTime(NOW + HOUR), EpisodeContext())
    found = find_failover(replace(episode, departures=gone))
    assert found is not None
    assert [each.proposed for each in found.advice if "session" in each.parameter] == expected
    assert found.advice[-1].parameter == "operation"


# --- In a broker's log ---


def loaded(known: GroupHistory, *times: int, broker: int | None = None) -> GroupHistory:
    """Return the log line of a broker that loaded the group."""
    known.coordinator_log.take(CoordinatorEvent(at, CoordinatorAct.LOADED, broker=broker) for at in times)
    return known


def test_a_broker_that_loaded_the_group_took_over():
    """Without probes the broker's log has the time to the millisecond, but not whether the broker changed."""
    change = rebalance(NOW - 90 * SECOND, [A, B], [B])
    quiet = loaded(history(snapshot(T0, A, B)), MOVED_MS)
    (found,) = coordinator_failover(view_of(quiet, NOW))
    assert (found.started_at_ms, [each.source for each in found.evidence]) == (MOVED_MS, ["broker_log"])
    assert "moved to another, or was started again" in found.summary
    known = loaded(history(snapshot(T0, A, B), change), MOVED_MS)
    gone = (departed(change.started_before_ms, B, SESSION_EXPIRED, rule="undetermined").departure,)
    episode = make_episode(known, change, Thresholds(), JudgingTime(NOW + HOUR), EpisodeContext())
    cause = find_failover(replace(episode, departures=gone))
    assert cause is not None
    assert cause.started_at_ms == MOVED_MS


def test_probes_and_a_log_show_one_move():
    """The log has the time, probes have the brokers; a second load is a separate move."""
    known = loaded(history(snapshot(T0, A, B), *moved(MOVED_MS)), MOVED_MS - 20 * SECOND)
    (found,) = coordinator_failover(view_of(known, NOW))
    assert [each.source for each in found.evidence] == ["probes", "broker_log"]
    assert "broker 1 to broker 2" in found.summary
    (later,) = coordinator_failover(view_of(loaded(known, NOW - SECOND), NOW))
    assert "moved to another" in later.summary


def test_a_log_that_names_its_broker_shows_from_which_to_which():
    """The broker that wrote about the group before, and the one that loaded it."""
    known = loaded(loaded(history(snapshot(T0, A, B)), T0, broker=3), MOVED_MS, broker=2)
    (found,) = coordinator_failover(view_of(known, NOW))
    assert "moved from broker 3 to broker 2" in found.summary


def test_a_broker_that_has_the_group_again_was_started_again_or_is_not_well():
    """Once, it may have been restarted; more often, it stalls at times, and this is no failover."""
    known = loaded(loaded(history(snapshot(T0, A, B)), T0, broker=1), MOVED_MS, broker=1)
    (once,) = coordinator_failover(view_of(known, NOW))
    assert "or was started again" in once.summary
    assert not list(coordinator_overload(view_of(known, NOW)))
    loaded(known, MOVED_MS + 30 * SECOND, broker=1)
    assert not list(coordinator_failover(view_of(known, NOW)))
    (found,) = coordinator_overload(view_of(known, NOW))
    assert (found.confidence, found.started_at_ms) == (PLAUSIBLE, MOVED_MS)
    assert "Broker 1 lost the group and had it again 2 times within 30.0 s" in found.summary
    assert not list(coordinator_overload(view_of(known, NOW + 10 * MINUTE)))
