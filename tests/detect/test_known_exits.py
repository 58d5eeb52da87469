"""Members whose exit is known from a coordinator's log line, or from their own process, and was no time-out."""

from __future__ import annotations

from typing import Any

import pytest

from detect.losing import AGAIN, LOST_MS, STAYS, B, back, episode, left
from histories import MINUTE, SECOND, T0, Event, history, pulse, rebalance, report
from rebalance_contract import CoordinatorAct as Act
from rebalance_contract import CoordinatorEvent, Rebalance
from rebalance_streaming.detect.episode import EpisodeContext, ExplainedDeparture, make_episode
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rank import explain
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.detect.verdict import Verdict

WORKS = list(pulse(T0, LOST_MS, [2, 3]))
CLOSED, UNSUBSCRIBED = "the consumer is being closed", "the consumer unsubscribed from all topics"
ADMIN, READS_ON = "member was removed by an admin", "taking too long to read the log"
UNSYNCED = "did not send its sync request in time"


def cause_of(of: Rebalance, reason: str | None, *events: Event, act: Act = Act.LEFT, after_ms: int = MINUTE) -> Verdict:
    """Return the primary cause of a rebalance with this log line about its lost member."""
    known = history(*WORKS, *events, of)
    known.coordinator_log.take([CoordinatorEvent(LOST_MS - 900, act, member_id="b-1", reason=reason)])
    now = JudgingTime(LOST_MS + after_ms)
    return explain(make_episode(known, of, Thresholds(), now, EpisodeContext()))[0]


def reports(*, start_again_ms: int | None = None) -> list[Event]:
    """Return reports until the member is back: from the same process, or from one until it left and then another."""
    process: dict[str, Any] = {"interval_ms": 2_000, "process_start_ms": T0 - MINUTE}
    anew = process if start_again_ms is None else process | {"process_start_ms": start_again_ms}
    back_ms = LOST_MS + 4 * SECOND
    first = range(LOST_MS - MINUTE, back_ms if start_again_ms is None else LOST_MS, 2 * SECOND)
    then = range(back_ms, LOST_MS + MINUTE, 2 * SECOND)
    return [*(report(at, B, **process) for at in first), *(report(at, AGAIN, **anew) for at in then)]


SOON = back(after_ms=4 * SECOND)


@pytest.mark.parametrize(
    ("reason", "events", "rule", "words"),
    [
        (CLOSED, (SOON,), "rolling_deploy", "was restarted in order"),
        (UNSUBSCRIBED, (SOON,), "subscription_change", "unsubscribed from all topics"),
        (UNSUBSCRIBED, (), "subscription_change", "unsubscribed from all topics"),
        (ADMIN, (SOON,), "undetermined", "removed by an administrator's request and joined again"),
        (ADMIN, (), "undetermined", "removed by an administrator's request;"),
        (READS_ON, (SOON,), "undetermined", "left to read its configuration on"),
        (CLOSED, (SOON, *reports()), "undetermined", "from the same process"),
        (None, (SOON, *reports()), "undetermined", "from the same process"),
        (CLOSED, (SOON, *reports(start_again_ms=LOST_MS + 2 * SECOND)), "rolling_deploy", "was restarted in order"),
        (CLOSED, (), "scale_in", "they left in order"),
    ],
    ids=[
        *("closed and back", "unsubscribed and back", "unsubscribed", "removed and back", "removed", "reads on"),
        *("closed and made anew", "the same, without a reason", "another process", "closed for good"),
    ],
)
def test_only_another_process_is_a_restart(reason: str | None, events: tuple[Event, ...], rule: str, words: str):
    """The reason of the leave decides, and whether the same process reports before and after."""
    found = cause_of(left(), reason, *events, after_ms=10 * MINUTE)
    assert found.rule == rule
    assert words in found.summary


@pytest.mark.parametrize(
    ("leader", "rule", "words"),
    [("b-1", "assignor_slow_or_failing", "sent no assignment"), ("a-1", "undetermined", "did not ask for its")],
)
def test_who_did_not_sync_had_joined(leader: str, rule: str, words: str):
    """It polled, otherwise it would not have joined; if it is the leader, all others wait for it (KAFKA-12890)."""
    formed = rebalance(LOST_MS - 10 * MINUTE, [], [STAYS, B], leader=leader)
    found = cause_of(left(), UNSYNCED, formed, act=Act.EVICTED)
    assert (found.rule, "poll_overrun") == (rule, next(each.rule for each in found.alternatives if each.impossible))
    assert words in found.summary
    assert "max.poll.records" not in {each.parameter for each in found.advice}


def test_a_process_that_ran_on_is_remembered_when_its_reports_are_forgotten():
    """The latest 180 reports are kept: a rebalance that is judged again later keeps their result."""
    gone, own = left(), {"interval_ms": 2_000, "process_start_ms": T0 - MINUTE}
    later = [report(LOST_MS + n * 2 * SECOND, AGAIN, **own) for n in range(30, 300)]
    now, known_first = JudgingTime(LOST_MS + 10 * MINUTE), history(*WORKS, *reports(), gone, SOON)
    first = make_episode(known_first, gone, Thresholds(), now, EpisodeContext()).departures
    known = EpisodeContext(departures={each.member.member_id: each for each in first})
    known_later = history(*WORKS, *reports(), *later, gone, SOON)
    again = make_episode(known_later, gone, Thresholds(), now, known).departures
    assert [each.kept_running for each in (*first, *again)] == [True, True]


def test_a_report_before_it_surely_left_is_none_of_afterwards():
    """If only probes show the rebalance, the member may have left at any time; it is a deploy nevertheless."""
    gone = left(started_after_ms=LOST_MS - 20 * SECOND, counted_from="probes")
    process: dict[str, Any] = {"interval_ms": 2_000, "process_start_ms": T0 - MINUTE, "pid": 1}
    mine = [report(at, B, **process) for at in range(LOST_MS - MINUTE, LOST_MS + 3 * SECOND, 2 * SECOND)]
    other = report(LOST_MS + 5 * SECOND, AGAIN, **process | {"process_start_ms": LOST_MS + 3 * SECOND, "pid": 2})
    (departure,) = episode(gone, *WORKS, *mine, other, SOON).departures
    assert departure.loss_reports is not None
    assert (departure.loss_reports.same_process, departure.kept_running) == (True, False)


def test_a_return_of_a_process_that_ran_on_has_the_cause_of_its_leave():
    """The second rebalance is the other half of the first: it is no restart either."""
    gone = left()
    known = history(*WORKS, *reports(), gone, SOON)
    now = JudgingTime(LOST_MS + 10 * MINUTE)
    of = make_episode(known, gone, Thresholds(), now, EpisodeContext())
    first, (departure,) = explain(of)[0], of.departures
    past = ExplainedDeparture(first.rule, first.confidence, departure.to_ms, B, departure, gone.rebalance_id)
    second = explain(make_episode(known, SOON, Thresholds(), now, EpisodeContext((past,))))[0]
    assert (first.rule, second.rule) == ("undetermined", "undetermined")
    assert "came back" in second.summary
