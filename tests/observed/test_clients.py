"""Client reports: whose report it is, and what reports show of the time before a loss."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from histories import HOUR, MINUTE, SECOND, T0, member, packed, report
from rebalance_contract import Member
from rebalance_contract.clients import ASSIGNED, COMMIT_TOTAL, HEARTBEAT_AGE, HEARTBEAT_TOTAL, POLL_AGE
from rebalance_streaming.observed import clients as clients_module
from rebalance_streaming.observed.clients import ClientHistory, Clients, LossReports
from rebalance_streaming.wire.metrics.report import ClientConfig, Point, Report, Temporality

WHO = member("b-1", [0, 1])
LOST_MS = T0 + 10 * MINUTE


def known(*reports: Report) -> ClientHistory:
    """Return one client's history."""
    client = ClientHistory()
    for each in reports:
        row = packed(each)
        client.take(row, row.samples[0])
        client.take_offsets(row.app_offsets)
    return client


def every_second(from_s: int, to_s: int, values: dict[str, float | None] | None = None, **changes: Any) -> list[Report]:
    """Return reports for each second, in seconds around the loss."""
    times = range(LOST_MS + from_s * SECOND, LOST_MS + to_s * SECOND, SECOND)
    return [report(at, WHO, values, **{"interval_ms": 1_000, **changes}) for at in times]


def before(*reports: Report, length_ms: int = 14_000) -> LossReports:
    """Return the summary of the reports before the loss."""
    found = known(*reports).before(LOST_MS, length_ms)
    assert found is not None
    return found


# --- One client ---


def test_identity_is_the_latest_reported():
    """A rejoin changes the member id; fields missing in a report are kept."""
    client = known(
        report(T0, WHO, library="kafka-python", library_version="2.2.3", instance_id="i"),
        report(T0 + SECOND, replace(WHO, member_id="b-2"), host=None, config=ClientConfig(session_timeout_ms=6_000)),
        report(T0 + 2 * SECOND, WHO, member_id=None),
    )
    assert (client.member_id, client.host, client.instance_id) == ("b-2", "/host-b", "i")
    assert (client.library, client.version, client.config.session_timeout_ms) == ("kafka-python", "2.2.3", 6_000)


def test_an_older_report_finds_its_place_and_changes_no_identity():
    """It arrived late: it counts for its own time only."""
    late = report(T0 + SECOND, replace(WHO, member_id="b-0"), {POLL_AGE: 3.0}, host="/old")
    client = known(report(T0, WHO), report(T0 + 2 * SECOND, WHO), late)
    assert [each.emitted_ms - T0 for each in client.reports] == [0, SECOND, 2 * SECOND]
    assert (client.member_id, client.host, client.reports[1].poll_age_ms) == ("b-1", "/host-b", 3_000)


@pytest.mark.parametrize("late", [False, True])
def test_pieces_of_one_moment_are_one_report(late: bool):
    """Formats with one metric per message report one moment in several messages, even late or repeated ones."""
    pieces = [report(T0, WHO, {POLL_AGE: 3.0}), report(T0, WHO, {HEARTBEAT_AGE: 1.5}), report(T0, WHO, {POLL_AGE: 3.0})]
    newer = [report(T0 + SECOND, WHO)]
    client = known(*(newer + pieces if late else pieces + newer))
    assert len(client.reports) == 2
    assert (client.reports[0].poll_age_ms, client.reports[0].heartbeat_age_ms) == (3_000, 1_500)


def test_only_the_latest_reports_are_kept():
    """Memory is bounded; the oldest are dropped, in any order of arrival."""
    reports = [report(T0 + n * SECOND, WHO) for n in range(400)]
    assert known(*reports).reports == known(*reversed(reports)).reports
    assert [known(*reports).reports[i].emitted_ms for i in (0, -1)] == [T0 + 220 * SECOND, T0 + 399 * SECOND]


def test_deltas_are_added_up():
    """A counter reported as increments becomes a total; others are kept as they are."""
    rows = [
        replace(report(T0 + n, WHO), points=(Point(HEARTBEAT_TOTAL, 2.0, temporality=Temporality.DELTA),))
        for n in range(3)
    ]
    assert [each.heartbeat_total for each in known(*rows).reports] == [2.0, 4.0, 6.0]


def test_points_of_partitions_are_kept_apart():
    """Lag per partition is not a value of the client; points with an invalid partition are left out."""
    points = (
        Point("app_offset", 7.0, {"topic": "orders", "partition": "3"}),
        Point("app_offset", 9.0, {"topic": "orders", "partition": "all"}),
        Point("app_offset", None, {"topic": "orders", "partition": "4"}),
        Point("consumer_lag", 1.0, {"topic": "orders", "partition": "5"}),
        Point("incoming_bytes", 1.0, {"node_id": "1"}),
    )
    client = known(replace(report(T0, WHO), points=points))
    assert client.lag == {("orders", 3): {"app_offset": 7.0}}
    assert client.reports[0].values == {}


def test_what_is_reported_twice_is_added_up_once():
    """Delivery is at least once; messages of one moment with other counters are no repetition."""
    one = replace(report(T0, WHO), points=(Point(HEARTBEAT_TOTAL, 2.0, temporality=Temporality.DELTA),))
    other = replace(report(T0, WHO), points=(Point(COMMIT_TOTAL, 5.0, temporality=Temporality.DELTA),))
    client = known(one, other, one, other, replace(one, emitted_ms=T0 + 1))
    assert [each.values for each in client.reports] == [
        {HEARTBEAT_TOTAL: 2.0, COMMIT_TOTAL: 5.0},
        {HEARTBEAT_TOTAL: 4.0},
    ]


def test_a_piece_may_say_zero():
    """The later message of a moment counts, even if it is 0."""
    client = known(report(T0, WHO, {ASSIGNED: 3.0}), report(T0, WHO, {ASSIGNED: 0.0}))
    assert [each.assigned for each in client.reports] == [0.0]


def test_the_last_poll_has_its_age():
    """The time of the last poll is as good as its age."""
    client = known(report(T0, WHO, last_poll_return_ms=T0 - 2_500), report(T0 + 1, WHO, last_poll_return_ms=T0 + 99))
    assert [each.poll_age_ms for each in client.reports] == [2_500, 0]


def test_a_client_that_waits_for_records_polls():
    """However long it has been waiting inside poll(); it is unknown for a client that reports neither."""
    client = known(report(T0, WHO, waiting_since_ms=T0 - 90_000), report(T0 + 1, WHO))
    assert [each.poll_age_ms for each in client.reports] == [0, None]


# --- The time before a loss ---


def test_without_a_report_before_nothing_is_known():
    """The reports of a client that began to report after the loss are not used."""
    assert known(*every_second(1, 5)).before(LOST_MS, 14_000) is None
    assert known().before(LOST_MS, 14_000) is None


def test_reports_around_the_loss():
    """The last before, the first after, and how many were written in the second half of the period."""
    seen = before(*every_second(-30, 5))
    assert (seen.last_report_ms - LOST_MS, (seen.next_report_ms or 0) - LOST_MS) == (0, SECOND)
    assert (seen.witnesses, seen.undelivered, seen.late_ms, seen.stood_still_ms) == (7, 0, 0, 0)


def test_what_arrived_after_the_loss_was_undelivered():
    """Written before and in time, but not in the topic until later."""
    late = [replace(each, observed_ms=LOST_MS + 5_000) for each in every_second(-4, 0)]
    seen = before(*every_second(-30, -4), *late)
    assert (seen.undelivered, seen.late_ms) == (4, 9_000)


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        (every_second(-30, 5, tick_late_ms=20), 20),
        ([*every_second(-30, -8, tick_late_ms=0), *every_second(1, 3, tick_late_ms=8_000)], 8_000),
        ([*every_second(-30, -8), *every_second(1, 3)], 10_000 - 1_600),
        (every_second(-30, -8), 0),
    ],
    ids=["regular", "woke late", "a hole in the reports", "it ended"],
)
def test_how_long_its_reporting_stood_still(reports: list[Report], expected: int):
    """By its own clock if that is reported, otherwise by the gap; an end is no gap."""
    assert before(*reports).stood_still_ms == expected


@pytest.mark.parametrize(
    ("last_s", "next_s", "expected"),
    [(1.0, 7.0, 2_000), (9.0, 14.0, 9_000), (9.0, 2.0, 9_000), (None, 14.0, 9_000), (None, 2.0, None)],
    ids=["not the latest", "same beat", "a beat after the loss", "reported afterwards", "nothing before"],
)
def test_how_long_before_the_last_heartbeat_was(last_s: float | None, next_s: float, expected: int | None):
    """By the report after the loss, unless its heartbeat was sent after it."""
    reports = [report(LOST_MS, WHO, {HEARTBEAT_AGE: last_s} if last_s else None)]
    reports.append(report(LOST_MS + 5_000, WHO, {HEARTBEAT_AGE: next_s}))
    assert before(*reports).beat_gap_ms == expected


def test_a_counter_of_heartbeats_is_a_rate():
    """Ten in twenty seconds; a single total gives none."""
    reports = [report(LOST_MS - at * SECOND, WHO, {HEARTBEAT_TOTAL: 10.0 - at / 2}) for at in (12, 6, 0)]
    assert before(*reports).beat_rate == pytest.approx(0.5)
    assert before(reports[-1]).beat_rate is None


def test_a_poll_reported_afterwards_counts_as_of_the_loss():
    """The next report's age, minus the time since; a poll after the loss gives no information."""
    first = report(LOST_MS - SECOND, WHO)
    assert before(first, report(LOST_MS + 5_000, WHO, {POLL_AGE: 35.0})).poll_age_ms == 30_000
    assert before(first, report(LOST_MS + 5_000, WHO, {POLL_AGE: 2.0})).poll_age_ms is None


@pytest.mark.parametrize(("start_ms", "restarted"), [(T0 + 2_000, False), (LOST_MS, True), (None, False)])
def test_a_younger_process_is_a_restart(start_ms: int | None, restarted: bool):
    """A start time within the tolerance of clocks with whole seconds is the same process."""
    reports = [*every_second(-5, 0, process_start_ms=T0), *every_second(1, 3, process_start_ms=start_ms)]
    assert before(*reports).restarted is restarted


@pytest.mark.parametrize(
    ("from_s", "to_s", "start_ms", "expected"),
    [(-5, 5, T0, True), (-5, 5, LOST_MS, False), (-20, 5, T0, False), (-5, 20, T0, False)],
    ids=["the same", "another", "nothing before", "nothing after"],
)
def test_a_process_ran_through_what_it_reported_around(from_s: int, to_s: int, start_ms: int, *, expected: bool):
    """A report in between may be from before it left."""
    reports = [*every_second(-10, 3, process_start_ms=T0), *every_second(3, 10, process_start_ms=start_ms)]
    assert known(*reports).ran_through(LOST_MS + from_s * SECOND, LOST_MS + to_s * SECOND) is expected


def test_what_the_process_did_in_the_gap():
    """Processor time and switches per second over the longest gap between reports."""
    reports = [
        *every_second(-14, -8, cpu_s=1.0, voluntary_switches=100),
        *every_second(2, 3, cpu_s=9.8, voluntary_switches=2_300),
    ]
    seen = before(*reports)
    assert (seen.cpu_share, seen.switches_per_second) == (pytest.approx(0.8), pytest.approx(200))


def test_a_reason_is_the_one_that_came_with_the_loss():
    """librdkafka keeps its last reason: an unchanged one before and after is that of an earlier rebalance."""
    same = every_second(-3, 3, reason="group rejoin")
    assert before(*same).reason == "group rejoin"
    assert before(
        *every_second(-3, 1, reason="group rejoin"), *every_second(1, 3, reason="max.poll.interval")
    ).reason == ("max.poll.interval")


# --- The client of a report ---


def test_a_process_keeps_its_history_over_a_rejoin():
    """The old id and the new one lead to the same reports."""
    clients, again = Clients(), replace(WHO, member_id="b-2")
    for at, who in ((0, WHO), (10, WHO), (20, again)):
        clients.take(packed(report(T0 + at * SECOND, who)))
    (client,) = clients
    assert clients.of(Member("b-1", "b", "/host-b", None)) is client is clients.of(Member("b-2", "x", "/y", None))
    assert len(client.reports) == 3


def test_a_client_without_a_member_id_is_the_one_it_was():
    """While it is out of its group it reports without one: that is no second client."""
    clients = Clients()
    for at, member_id in ((0, "b-1"), (5, None), (10, "b-2")):
        clients.take(packed(report(T0 + at * SECOND, WHO, member_id=member_id)))
    (client,) = clients
    assert [each.member_id for each in client.reports] == ["b-1", None, "b-2"]


def test_two_consumers_of_one_process_may_share_a_client_id():
    """They report at the same time under two member ids; if one has been silent lately, it got a new id."""
    clients = Clients()
    for at in (0, 5, 10):
        clients.take(packed(report(T0 + at * SECOND, WHO)))
        clients.take(packed(report(T0 + at * SECOND + 1, replace(WHO, member_id="c-1"))))
    one, other = clients.of(Member("b-1", "b", "/host-b", None)), clients.of(Member("c-1", "b", "/host-b", None))
    assert one is not None
    assert other is not None
    assert (len(one.reports), len(other.reports)) == (3, 3)
    clients.take(packed(report(T0 + 15 * SECOND, WHO)))
    clients.take(packed(report(T0 + 15 * SECOND, replace(WHO, member_id="c-2"))))
    assert clients.of(Member("c-2", "b", "/host-b", None)) is other
    assert len(list(clients)) == 2


def test_a_late_report_of_an_old_id_goes_to_its_own_client():
    """It does not start a history of its own."""
    clients = Clients()
    for at, member_id in ((0, "b-1"), (10, "b-2"), (3, "b-1")):
        clients.take(packed(report(T0 + at * SECOND, WHO, member_id=member_id)))
    (client,) = clients
    assert client.member_id == "b-2"


@pytest.mark.parametrize(
    ("reported", "asked", "found"),
    [
        ([{"member_id": "b-1"}], ("b-1", "other", "/other", None), True),
        ([{"member_id": None}], ("b-9", "b", "/host-b", None), True),
        ([{"member_id": None, "host": "/pod"}], ("b-9", "b", "/10.0.0.1", None), True),
        ([{"member_id": None, "client_id": "z", "instance_id": "i"}], ("b-9", "b", "/host-b", "i"), True),
        ([{"member_id": "b-7", "host": "/pod"}], ("b-9", "b", "/10.0.0.1", None), False),
        ([{"member_id": None, "pid": 1}, {"member_id": None, "pid": 2}], ("b-9", "b", "/host-b", None), False),
        ([{"member_id": None, "host": "/h1"}, {"member_id": None, "host": "/h2"}], ("b-9", "b", "/h2", None), True),
        ([{"member_id": "b-7", "host": "/h1"}, {"member_id": None, "host": "/h3"}], ("b-9", "b", "/h2", None), True),
        ([{"member_id": None, "client_id": "z"}], ("b-9", "b", "/host-b", None), False),
    ],
    ids=[
        "by member id",
        "by client and host",
        "by client alone",
        "by instance",
        "somebody else's",
        "two alike",
        "the one on its host",
        "the one without an id",
        "another client",
    ],
)
def test_a_member_finds_its_reports(
    reported: list[dict[str, Any]], asked: tuple[str, str, str, str | None], found: bool
):
    """By the most reliable match; no client is better than the wrong one."""
    clients = Clients()
    for each in reported:
        clients.take(packed(report(T0, WHO, **each)))
    assert (clients.of(Member(*asked)) is not None) == found


def scanned(clients: Clients, of: Member) -> ClientHistory | None:
    """Find a member's client by a scan of all of them."""
    if of.member_id in clients.by_member:
        return clients.by_member[of.member_id]
    alike = [
        each
        for each in clients
        if (of.group_instance_id is not None and each.instance_id == of.group_instance_id)
        or each.client_id == of.client_id
    ]
    near = [each for each in alike if each.host is not None and each.host == of.host]
    free = [each for each in alike if each.member_id is None]
    return near[0] if len(near) == 1 else free[0] if len(free) == 1 else None


@pytest.mark.parametrize("most", [4, 100], ids=["clients are forgotten", "all are kept"])
def test_a_member_finds_the_client_that_a_look_at_all_finds(most: int, monkeypatch: pytest.MonkeyPatch):
    """For any identities that clients report, and any changes of them."""
    monkeypatch.setattr(clients_module, "_KEPT_CLIENTS", most)
    monkeypatch.setattr(clients_module, "_KEPT_ALIKE", 2)
    names, hosts, instances, ids = ("a", "b", None), ("/x", "/y", None), ("i", "j", None), ("m-1", "m-2", None, None)
    asked = [
        Member(member_id, client_id, host, instance)
        for member_id in ("m-1", "m-9")
        for client_id in ("a", "b", "c")
        for host in ("/x", "/y", "/z")
        for instance in ("i", "k", None)
    ]
    found = 0
    for seed in range(5):
        chance, clients = random.Random(seed), Clients()
        for second in range(25):
            reported_names = {"client_id": chance.choice(names), "instance_id": chance.choice(instances)}
            where = {"host": chance.choice(hosts), "pid": chance.choice((1, 2, None)), "member_id": chance.choice(ids)}
            clients.take(packed(report(T0 + second * 4 * SECOND, WHO, **reported_names, **where)))
            for each in asked if second % 4 == 0 else ():
                one = clients.of(each)
                assert one is scanned(clients, each), (seed, second, each)
                found += one is not None
    assert found > 50


def test_processes_are_bounded(monkeypatch: pytest.MonkeyPatch):
    """Names may be invented, and every restart makes a new one: the longest silent are forgotten, with their ids."""
    monkeypatch.setattr(clients_module, "_KEPT_CLIENTS", 20)
    clients = Clients()
    for number in range(100):
        clients.take(packed(report(T0 + number, WHO, client_id=f"c{number}", member_id=f"m{number}")))
    assert 18 <= len(list(clients)) <= 20
    assert clients.of(Member("m99", "x", "/x", None)) is not None
    assert clients.of(Member("m0", "x", "/x", None)) is None
    assert len(clients.by_member) <= 20


def test_a_process_that_is_silent_for_an_hour_is_forgotten():
    """Pods with new names replace each other: of removed ones only the look-back of a start is kept."""
    found = Clients()
    for number in range(40):
        who = member(f"b-{number}", host=f"/pod-{number}")
        for at_ms in range(0, 15 * MINUTE, 5 * MINUTE):
            found.take(packed(report(T0 + number * 15 * MINUTE + at_ms, who)))
    assert len(found.known) <= 6
    assert len(found.by_member) <= 6
    assert found.of(member("b-39", host="/pod-39")) is not None
    assert found.of(member("b-9", host="/pod-9")) is None


def test_many_clients_keep_fewer_reports_each(monkeypatch: pytest.MonkeyPatch):
    """Clients of one group use bounded memory, however many there are, even invented ones."""
    monkeypatch.setattr(clients_module, "_KEPT_OF_GROUP", 400)
    found = Clients()
    for at_s in range(200):
        for number in range(8):
            found.take(packed(report(T0 + at_s * SECOND, member(f"c{number}-1", host=f"/h{number}"))))
    assert {len(each.reports) for each in found} == {50}
    assert {each.reports[-1].emitted_ms for each in found} == {T0 + 199 * SECOND}


def test_what_is_repeated_after_it_was_dropped_is_not_added_again(monkeypatch: pytest.MonkeyPatch):
    """A large group keeps fewer reports; one that it dropped and reads again would count a second time."""
    monkeypatch.setattr(clients_module, "_KEPT_OF_GROUP", 0)
    monkeypatch.setattr(clients_module, "_FEWEST", 3)
    beats = (Point(HEARTBEAT_TOTAL, 2.0, temporality=Temporality.DELTA),)
    rows = [packed(replace(report(T0 + number * SECOND, WHO), points=beats)) for number in range(7)]
    clients = Clients()
    for row in (*rows[:6], *rows[:4], rows[6]):
        clients.take(row)
    (client,) = clients
    assert [each.heartbeat_total for each in client.reports] == [10.0, 12.0, 14.0]


def test_a_client_whose_clock_is_behind_is_not_forgotten():
    """It reports like the others, hours ago by its own clock."""
    found, late = Clients(), member("b-late", host="/late")
    for minute in range(0, 120, 5):
        at_ms = T0 + minute * MINUTE
        found.take(packed(report(at_ms, WHO)))
        row = packed(report(at_ms - 3 * HOUR, late))
        found.take(replace(row, samples=tuple(replace(each, observed_ms=at_ms - 3 * HOUR) for each in row.samples)))
    history = found.of(late)
    assert history is not None
    assert len(history.reports) == 24


def test_consumers_alike_are_bounded(monkeypatch: pytest.MonkeyPatch):
    """Many member ids of one process at once."""
    monkeypatch.setattr(clients_module, "_KEPT_ALIKE", 10)
    monkeypatch.setattr(clients_module, "_KEPT_MEMBER_IDS", 10)
    clients = Clients()
    for number in range(100):
        clients.take(packed(report(T0 + number, WHO, member_id=f"m{number}")))
    assert (len(list(clients)), len(clients.by_member)) == (10, 10)


def test_partitions_are_bounded(monkeypatch: pytest.MonkeyPatch):
    """Positions of partitions that were reported longest ago are dropped first."""
    monkeypatch.setattr(clients_module, "_KEPT_PLACES", 3)
    client = ClientHistory()
    client.take_offsets({"t": {str(number): number for number in range(5)} | {"x": 1, "²": 1, "9" * 30: 1}})
    assert client.lag == {("t", number): {"app_offset": number} for number in (2, 3, 4)}
