"""The liveness matrix: heartbeats, polls and process each continue or stop, and reports arrive in time or late."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from histories import MINUTE, SECOND, T0, member, packed, report
from rebalance_contract.clients import FETCH_RATE, HEARTBEAT_AGE, HEARTBEAT_RATE, POLL_AGE, REBALANCE_AGE
from rebalance_streaming.observed.clients import ClientHistory, Clients, LossReports
from rebalance_streaming.observed.fingerprints import make_fingerprint
from rebalance_streaming.observed.liveness import (
    ALIVE,
    GONE,
    HEALTHY,
    NOT_POLLING,
    PAUSED,
    RESTARTED,
    STARVED,
    UNREACHABLE,
    LostClient,
    read_liveness,
)
from rebalance_streaming.wire.metrics.report import Point, Report

WHO = member("b-1", [0, 1])
LOST_MS = T0 + 10 * MINUTE
#: Only known: it reported each second to the end.
SEEN = LossReports(
    interval_ms=1_000,
    last_report_ms=LOST_MS - 500,
    next_report_ms=LOST_MS + 500,
    witnesses=5,
    undelivered=0,
    late_ms=0,
    stood_still_ms=0,
    beat_gap_ms=None,
    never_beat_ms=None,
    beat_rate=None,
    poll_age_ms=None,
    polled_ms=None,
    fetches=None,
    restarted=False,
    same_process=False,
    cpu_share=None,
    switches_per_second=None,
    reason=None,
    reason_before=None,
    reason_is_new=False,
)


def lost(*, through_application: bool = False, now_ms: int = LOST_MS + MINUTE, **changes: Any) -> LostClient:
    """Return a client with a session of 10 s and a poll limit of 30 s, lost with these changes of SEEN."""
    client = ClientHistory("b", "b-1", through_application=through_application)
    return LostClient(client, replace(SEEN, **changes), make_fingerprint(WHO), 10_000, 30_000, LOST_MS, now_ms)


UNANSWERED = (
    "Consumer group session timed out (in join-state steady) after 10004 ms without a successful response from the"
    " group coordinator (broker 1, last error was {})"
)
OVERRAN = "max.poll.interval.ms exceeded"
ENDED = {"next_report_ms": None, "last_report_ms": LOST_MS - 9 * SECOND}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # Heartbeats and polls, with a running process.
        pytest.param({"beat_gap_ms": 1_000.0, "polled_ms": LOST_MS - 900.0}, HEALTHY, id="all well"),
        pytest.param({"beat_gap_ms": 1_000.0}, HEALTHY, id="beats, nothing of polls"),
        pytest.param({"beat_gap_ms": 1_000.0, "fetches": False}, None, id="beats, idle or not polling"),
        pytest.param({"beat_gap_ms": 1_000.0, "polled_ms": LOST_MS - 9_000.0}, HEALTHY, id="a poll far from its limit"),
        pytest.param({"beat_gap_ms": 1_000.0, "polled_ms": LOST_MS - 28_000.0}, NOT_POLLING, id="polls ran out"),
        pytest.param({"beat_gap_ms": 9_000.0, "polled_ms": LOST_MS - 900.0}, STARVED, id="no beats, polls"),
        pytest.param({"beat_gap_ms": 9_000.0, "polled_ms": LOST_MS - 29_000.0}, STARVED, id="neither, but it ran"),
        pytest.param({"never_beat_ms": 8_000}, STARVED, id="never a beat"),
        pytest.param({"never_beat_ms": 0}, None, id="no beat yet, just joined"),
        pytest.param({"beat_rate": 0.3, "polled_ms": LOST_MS - 30_000.0}, NOT_POLLING, id="a rate of beats, no poll"),
        pytest.param({"same_process": True}, ALIVE, id="the same process all the while"),
        pytest.param({"same_process": True, "witnesses": 0}, None, id="the same process, reported long before"),
        pytest.param({"beat_rate": 0.1}, None, id="a low rate says nothing"),
        pytest.param({}, None, id="nothing reported"),
        pytest.param({"beat_gap_ms": 1_000.0, "witnesses": 0}, None, id="beats, but reported long before"),
        # A process that did not run.
        pytest.param({"stood_still_ms": 9_000, "beat_gap_ms": 9_000.0}, PAUSED, id="all stood still"),
        pytest.param({"stood_still_ms": 9_000}, PAUSED, id="reporting stood still"),
        pytest.param({"stood_still_ms": 9_000, "restarted": True}, RESTARTED, id="a younger process afterwards"),
        pytest.param({"stood_still_ms": 9_000, "beat_gap_ms": 1_000.0}, HEALTHY, id="reporting stood, beats went on"),
        pytest.param({"stood_still_ms": 2_000, "beat_gap_ms": 9_000.0}, STARVED, id="a short stop"),
        # Reports that stopped.
        pytest.param(ENDED, GONE, id="no report again"),
        pytest.param({**ENDED, "polled_ms": LOST_MS - 29_000.0}, GONE, id="ended, and the limit was over later"),
        pytest.param(
            {**ENDED, "restarted": True, "polled_ms": LOST_MS - 29_000.0},
            RESTARTED,
            id="dead for longer than its limit",
        ),
        pytest.param({**ENDED, "polled_ms": LOST_MS - 37_000.0}, NOT_POLLING, id="it reported when its limit was over"),
        pytest.param(
            {"last_report_ms": LOST_MS - 4_000, "same_process": True, "polled_ms": LOST_MS - 29_000.0},
            NOT_POLLING,
            id="it reported afterwards",
        ),
        pytest.param({**ENDED, "restarted": True}, RESTARTED, id="ended and younger"),
        pytest.param({"last_report_ms": LOST_MS - 9 * SECOND}, PAUSED, id="missed reports, then went on"),
        pytest.param({"restarted": True}, RESTARTED, id="only younger"),
        # Late reports.
        pytest.param({"undelivered": 3, "late_ms": 8_000}, UNREACHABLE, id="written in time, delivered late"),
        pytest.param({"undelivered": 3, "stood_still_ms": 4_000}, PAUSED, id="late because it stood still"),
        # librdkafka reports it itself.
        pytest.param(
            {"reason": OVERRAN, "reason_is_new": True, "beat_gap_ms": 9_000.0}, NOT_POLLING, id="its own word"
        ),
        pytest.param({**ENDED, "reason": OVERRAN}, GONE, id="a word about an earlier overrun"),
        pytest.param({"reason": "group rejoin", "beat_gap_ms": 9_000.0}, STARVED, id="another reason"),
        pytest.param({"reason": UNANSWERED.format("Success"), "beat_rate": 0.3}, UNREACHABLE, id="nobody answered"),
        pytest.param(
            {"reason": UNANSWERED.format("Success"), "beat_rate": 0.3, "stood_still_ms": 9_000},
            PAUSED,
            id="it stood still, and nobody could answer",
        ),
        pytest.param(
            {"reason": UNANSWERED.format("Broker: Group authorization failed"), "beat_rate": 0.3},
            HEALTHY,
            id="its coordinator answered with an error",
        ),
        pytest.param(
            {**dict.fromkeys(("reason", "reason_before"), UNANSWERED.format("Success")), "beat_rate": 0.3},
            HEALTHY,
            id="a word about the loss before",
        ),
    ],
)
def test_the_matrix(changes: dict[str, Any], expected: str | None):
    """Each cell by the deciding values; null if reports are too sparse."""
    assert read_liveness(lost(**changes), Clients()) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"late_ms": 12_000, "beat_gap_ms": 1_000.0}, NOT_POLLING),
        ({"late_ms": 12_000}, None),
        ({"late_ms": 25_000}, NOT_POLLING),
        ({"late_ms": 4_000, "beat_gap_ms": 1_000.0}, HEALTHY),
        ({"late_ms": 12_000, "beat_gap_ms": 9_000.0}, STARVED),
        ({"late_ms": 12_000, "undelivered": 4, "beat_gap_ms": 1_000.0}, NOT_POLLING),
    ],
    ids=["a burst, beats", "a burst alone", "a burst as long as the limit", "in time", "no beats", "not the network"],
)
def test_statistics_wait_for_the_application(changes: dict[str, Any], expected: str | None):
    """librdkafka's reports pass through the poll loop: late ones mean missing polls, not a missing connection."""
    assert read_liveness(lost(through_application=True, **changes), Clients()) == expected


def test_reports_that_may_still_come_are_waited_for():
    """A client that reports each ten seconds is not gone after fifteen seconds without a report."""
    changes: dict[str, Any] = {"interval_ms": 10_000, "last_report_ms": LOST_MS - 8_000, "next_report_ms": None}
    assert read_liveness(lost(now_ms=LOST_MS + 7_000, **changes), Clients()) is None
    assert read_liveness(lost(now_ms=LOST_MS + 20_000, **changes), Clients()) == GONE


# --- With reports as they come ---


def sample(at_ms: int, values: dict[str, float | None] | None = None, **changes: Any) -> Report:
    return report(at_ms, WHO, values, **{"interval_ms": 1_000, **changes})


def known(*reports: Report) -> Clients:
    clients = Clients()
    for each in reports:
        clients.take(packed(each))
    return clients


def read(clients: Clients, now_ms: int = LOST_MS + MINUTE) -> str | None:
    """Return the cell of the member with a session of 10 s and a poll limit of 30 s."""
    client = clients.of(WHO)
    assert client is not None
    seen = client.before(LOST_MS, 14_000)
    assert seen is not None
    return read_liveness(
        LostClient(client, seen, make_fingerprint(WHO, client), 10_000, 30_000, LOST_MS, now_ms), clients
    )


BEFORE = range(LOST_MS - 30 * SECOND, LOST_MS, SECOND)
ALL = range(LOST_MS - 30 * SECOND, LOST_MS + 10 * SECOND, SECOND)


def since(at_ms: int, stopped_ms: int) -> float:
    return max(0, at_ms - stopped_ms) / 1_000


def test_an_age_that_grows_is_a_starved_heartbeat():
    """kafka-python's idle poll: reports in time, age growing to the session."""
    clients = known(*(sample(at, {HEARTBEAT_AGE: since(at, LOST_MS - 10_000)}, tick_late_ms=0) for at in ALL))
    assert read(clients) == STARVED


def test_a_rate_and_a_poll_age_are_a_stalled_poll():
    """Java's metrics: heartbeats at their usual rate, the last poll long ago."""
    values = [(at, {HEARTBEAT_RATE: 0.33, POLL_AGE: since(at, LOST_MS - 30_000)}) for at in ALL]
    assert read(known(*(sample(at, each) for at, each in values))) == NOT_POLLING


def overrun(at_ms: int, reason: str, rebalanced_ms: int) -> Report:
    """Return a report with the client's last rebalance reason, and its age."""
    values: dict[str, float | None] = {HEARTBEAT_AGE: 1.0, REBALANCE_AGE: since(at_ms, rebalanced_ms)}
    return sample(at_ms, values, reason=reason, process_start_ms=T0)


def test_a_poll_reason_is_about_the_rebalance_that_it_came_with():
    """librdkafka keeps its reason until it revokes all partitions again; a cooperative rebalance does not change it."""
    stale = [overrun(at, OVERRAN, LOST_MS - 2 * MINUTE) for at in BEFORE if at < LOST_MS - 9_000]
    assert read(known(*stale)) == GONE
    new = [overrun(at, OVERRAN if at >= LOST_MS else "group rejoin", LOST_MS) for at in ALL]
    assert read(known(*new)) == NOT_POLLING
    # One report in a session: the one before it shows whether the reason is new.
    rare = [overrun(at, reason, at) for at, reason in ((LOST_MS - MINUTE, "group rejoin"), (LOST_MS - 9_000, OVERRAN))]
    assert read(known(*rare)) == NOT_POLLING


def test_the_same_poll_reason_again_is_recognised_by_its_age():
    """For a second overrun librdkafka reports the same reason, and that it has just revoked its partitions."""
    first_ms = LOST_MS - 2 * MINUTE
    again = [overrun(at, OVERRAN, LOST_MS if at >= LOST_MS else first_ms) for at in ALL]
    assert read(known(*again)) == NOT_POLLING
    # Reports from before the next poll are delivered with it, and stay until the poll after that.
    old, new = {HEARTBEAT_AGE: 1.0, REBALANCE_AGE: 9.0}, {HEARTBEAT_AGE: 1.0, REBALANCE_AGE: 0.5}
    late = [sample(at, new if at >= LOST_MS + 2_000 else old, reason=OVERRAN, process_start_ms=T0) for at in ALL]
    assert read(known(*late)) == NOT_POLLING
    before = [overrun(at, OVERRAN, first_ms) for at in ALL]
    assert read(known(*before)) == HEALTHY


def test_a_fetch_rate_of_none_is_no_poll_time_out():
    """If no poll age is reported, a client that fetches nothing may be idle, or not poll: it is unknown."""
    assert read(known(*(sample(at, {HEARTBEAT_AGE: 1.0, FETCH_RATE: 0.0}) for at in ALL))) is None
    assert read(known(*(sample(at, {HEARTBEAT_AGE: 1.0, FETCH_RATE: 2.0}) for at in ALL))) == HEALTHY


def test_a_heartbeat_that_was_never_sent_counts_only_with_partitions():
    """Every client starts without one; a member with an assignment should have one."""

    def never(at_ms: int, assigned: float) -> Report:
        points = (Point(HEARTBEAT_AGE, None, never=True), Point("coordinator_assigned_partitions", assigned))
        return replace(sample(at_ms), points=points)

    assert read(known(*(never(at, 2.0) for at in ALL))) == STARVED
    assert read(known(*(never(at, 0.0) for at in ALL))) == ALIVE


def test_late_reports_find_their_place():
    """A report that was written in time and arrived after the loss shows a network cut."""
    cut_ms = LOST_MS - 8_000
    in_time = [sample(at, {HEARTBEAT_AGE: 1.0}) for at in BEFORE if at < cut_ms]
    written = [sample(at, {HEARTBEAT_AGE: 1.0}) for at in range(cut_ms, LOST_MS + 4_000, SECOND)]
    late = [replace(each, observed_ms=LOST_MS + 4_000) for each in written]
    after = [sample(LOST_MS + at, {HEARTBEAT_AGE: 1.0}) for at in range(4_000, 9_000, 1_000)]
    assert read(known(*in_time, *late, *after)) == UNREACHABLE
    assert read(known(*in_time, *after[:1], *late, *after[1:])) == UNREACHABLE


def test_a_process_that_died_has_a_successor():
    """Another process with the same client id, started later: it was restarted; without one it is gone."""
    first = [sample(at, {HEARTBEAT_AGE: 1.0}, pid=1, process_start_ms=T0) for at in BEFORE if at < LOST_MS - 8_000]
    second = [
        report(at, replace(WHO, member_id="b-2"), pid=2, process_start_ms=LOST_MS - 5_000, interval_ms=1_000)
        for at in range(LOST_MS - 4_000, LOST_MS + 9_000, SECOND)
    ]
    assert read(known(*first)) == GONE
    assert read(known(*first, *second)) == RESTARTED
    older = [replace(each, process_start_ms=T0 - MINUTE, emitted_ms=LOST_MS - 20_000) for each in second[:1]]
    assert read(known(*first, *older)) == GONE


def test_a_thread_that_woke_late_is_a_pause():
    """By the reporter's own clock: it slept eight seconds longer than intended."""
    reports = [sample(at, tick_late_ms=0) for at in BEFORE if at < LOST_MS - 8_000]
    woke = [sample(LOST_MS + 1_000, tick_late_ms=8_000), sample(LOST_MS + 2_000, tick_late_ms=0)]
    assert read(known(*reports, *woke)) == PAUSED
