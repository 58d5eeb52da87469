"""Proposed numbers, compared with the catalogue's formulas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from detect import departing
from histories import MINUTE, SECOND, T0, member
from rebalance_contract import Advice, GroupType, Member
from rebalance_contract.client_settings import JAVA
from rebalance_streaming.detect.advice import (
    MemberSession,
    blocked_heartbeat_advice,
    cooperative_advice,
    fewer_records,
    graceful_stop_advice,
    longer_poll_interval,
    longer_session,
    poll_interval_for,
    poll_limit,
    poll_overrun_advice,
    session_for_absence,
    session_for_failover,
    session_of_member,
    shortens,
    shorter_batches,
    stalled_barrier_advice,
    starvation_advice,
    worker_overrun_advice,
)
from rebalance_streaming.observed.departures import POLL_TIMEOUT, SESSION_EXPIRED, Departure
from rebalance_streaming.observed.fingerprints import Fingerprint, make_fingerprint
from rebalance_streaming.wire.metrics.report import ClientConfig

LEFT_MS = T0 + 600 * SECOND
B = member("b-1", [2, 3])
#: The settings of a client that does not send reports.
NOTHING = ClientConfig()


def gone(who: Member = B, likely: str = POLL_TIMEOUT, **changes: Any) -> Departure:
    """Return how a member left after an overrun."""
    return departing.gone(who, likely, at_ms=LEFT_MS, rule="poll_overrun", **changes)


def proposed(advice: tuple[Advice, ...]) -> dict[str, str]:
    return {each.parameter: each.proposed for each in advice}


# --- Batches that take too long ---


@pytest.mark.parametrize(
    ("limit_s", "batch_s", "records", "allowed"),
    [
        (300, 750, 500, 100),
        (300, 300, 500, 250),
        (300, 250, 500, 300),
        (60, 61, 10, 4),
        (300, 10_000, 5, 1),
        (30, 100, 29, 4),
    ],
)
def test_a_batch_is_to_take_half_of_the_limit(limit_s: int, batch_s: int, records: int, allowed: int):
    """max(1, floor(0.5 R / r)), where r is the batch's time per record: 500 records of 1.5 s become 100."""
    found = fewer_records(limit_s * SECOND, batch_s * SECOND, records)
    assert (found.parameter, found.current, found.proposed) == ("max.poll.records", str(records), f"at most {allowed}")
    per_record_s = batch_s / records
    assert allowed == 1 or allowed * per_record_s <= 0.5 * limit_s < (allowed + 1) * per_record_s


def test_a_batch_size_that_is_not_reported_is_not_invented():
    """For a client that does not report max.poll.records the advice is a share, with a number only for the default."""
    found = fewer_records(300 * SECOND, 750 * SECOND, None)
    assert found.current is None
    assert found.proposed == "20% of what it is: at most 100, if that is the default of 500"


@pytest.mark.parametrize(
    ("record_s", "limit_s", "expected"), [(400.0, 300, 800_000), (200.2, 300, 401_000), (10.0, 15, 60_000)]
)
def test_a_longer_interval_holds_two_records(record_s: float, limit_s: int, expected: int):
    """1000 x ceil(2 r), at least a minute, and the advice says that others may wait this long as well."""
    (found,) = longer_poll_interval(record_s * SECOND, limit_s * SECOND)
    assert found.proposed.startswith(f"{expected}, ")
    assert "hold up the group" in found.proposed
    assert found.current == str(limit_s * SECOND)


def test_what_is_long_enough_stays():
    """Records of half the interval fit twice; a batch that takes half of it is reduced by one record."""
    assert longer_poll_interval(150 * SECOND, 300_000) == ()
    assert fewer_records(300 * SECOND, 150 * SECOND, 500).proposed == "at most 499"


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (None, {"max.poll.records"}),
        (500, {"max.poll.records"}),
        (5, {"max.poll.records"}),
        (2, {"max.poll.records", "max.poll.interval.ms"}),
        (1, {"max.poll.interval.ms"}),
    ],
)
def test_the_interval_grows_only_where_one_record_takes_half_of_it(records: int | None, expected: set[str]):
    """With a batch of 750 s and a limit of 300 s each of 2 records takes 375 s, so smaller batches do not help."""
    found = proposed(shorter_batches(300 * SECOND, 750 * SECOND, records))
    assert found.keys() == expected
    if "max.poll.interval.ms" in expected and records:
        assert found["max.poll.interval.ms"].startswith(f"{2 * 750 // records}000, ")


def test_an_overrun_is_as_long_as_the_limit_and_the_time_until_its_return():
    """Removed at 300 s and back 450 s later means a batch of 750 s; without a return at least the limit."""
    config = ClientConfig(max_poll_records=500)
    assert proposed(poll_overrun_advice(gone(back_s=450), config))["max.poll.records"] == "at most 100"
    assert proposed(poll_overrun_advice(gone(), config))["max.poll.records"] == "at most 250"


def test_a_static_member_was_silent_for_longer_than_its_limit():
    """It does not leave, so it is out a session after its limit: the batch took 345 s and then 55 s, not 355 s."""
    who = replace(B, group_instance_id="i", session_timeout_ms=45_000)
    of = gone(who, silence_ms=345 * SECOND, back_s=55)
    assert proposed(poll_overrun_advice(of, ClientConfig(max_poll_records=500)))["max.poll.records"] == "at most 187"
    dynamic = replace(of, member=replace(who, group_instance_id=None))
    assert (
        proposed(poll_overrun_advice(dynamic, ClientConfig(max_poll_records=500)))["max.poll.records"] == "at most 211"
    )


def test_librdkafka_has_no_batches_to_shorten():
    """It polls record by record: poll in between, or allow more time; it has no max.poll.records."""
    found = proposed(poll_overrun_advice(gone(replace(B, client_id="rdkafka"), back_s=20), NOTHING))
    assert found.keys() == {"code", "max.poll.interval.ms"}
    assert found["max.poll.interval.ms"].startswith("640000, ")


@pytest.mark.parametrize("client_id", ["b", "rdkafka"])
def test_without_a_limit_there_is_no_number(client_id: str):
    """Records of old brokers have no rebalance time-out: without the client's report only code can change."""
    of = gone(replace(B, client_id=client_id, rebalance_timeout_ms=None), back_s=450)
    assert poll_limit(of, NOTHING) is None
    assert [each.parameter for each in poll_overrun_advice(of, NOTHING)] == ["code"]
    config = ClientConfig(max_poll_interval_ms=300_000, max_poll_records=500)
    assert poll_limit(of, config) == 300_000
    if client_id == "b":
        assert proposed(poll_overrun_advice(of, config))["max.poll.records"] == "at most 100"


@pytest.mark.parametrize("client_id", ["b", "rdkafka", "kafka-python-2.2.3"])
def test_a_poll_time_out_is_never_cured_by_a_session(client_id: str):
    """Heartbeats do not depend on polls in these clients, whatever their own error messages recommend."""
    of = gone(replace(B, client_id=client_id), back_s=100)
    advice = (*poll_overrun_advice(of, NOTHING), *stalled_barrier_advice(of))
    assert not [each for each in advice if "session" in each.parameter or "session" in each.proposed]


def test_the_advice_for_a_held_barrier_names_the_limit_of_its_holder():
    """Its max.poll.interval bounds the wait; if no member was lost, the holder is unknown."""
    limits = [each for each in stalled_barrier_advice(gone()) if each.parameter == "max.poll.interval.ms"]
    assert [each.current for each in limits] == ["300000"]
    assert [each.current for each in stalled_barrier_advice(None)] == [None, None]


def client(client_id: str, library: str | None = None, version: str | None = None) -> Fingerprint:
    return replace(
        make_fingerprint(replace(B, client_id=client_id)),
        **({} if library is None else {"library": library, "version": version}),
    )


@pytest.mark.parametrize(
    ("protocol", "clients", "words"),
    [
        ("range", [client("c", JAVA, "3.7.0")], "in one rolling bounce"),
        ("range", [client("c", JAVA, "2.8.0")], "in two rolling bounces"),
        ("sticky", [client("c", JAVA, None), client("c", JAVA, "3.7.0")], "in two rolling bounces"),
        ("roundrobin", [client("kgo")], "in two rolling bounces"),
        ("range", [client("c")], "in two rolling bounces"),
        ("range", [client("rdkafka")], "stopped at once: librdkafka does not mix"),
        ("range", [client("kafka-python-3.0.2")], "stopped at once: kafka-python does not mix"),
        ("range", [client("rdkafka"), client("c", JAVA, "3.7.0")], "librdkafka with all members stopped at once"),
        ("range", [client("c", JAVA, "2.3.1")], None),
        ("range", [client("kafka-python-2.2.3")], None),
        ("range", [client("rdkafka"), client("kafka-python-2.2.3")], None),
        ("roundrobin", [client("aiokafka-0.12.0")], None),
        ("RoundRobinAssigner", [client("kafkajs")], None),
        ("range", [client("sarama")], None),
        ("cooperative-sticky", [client("rdkafka")], None),
        ("stream", [client("a-StreamThread-1-consumer")], None),
        ("sessioned", [client("connect-1", JAVA, "3.7.0")], None),
        (None, [client("rdkafka")], None),
    ],
)
def test_a_cooperative_assignor_is_advised_to_those_that_have_it(
    protocol: str | None, clients: list[Fingerprint], words: str | None
):
    """With the migration path of each client; no advice if the group has one already or a client lacks it."""
    found = cooperative_advice(protocol, clients, "saves time")
    assert [(each.parameter, each.current, each.formula) for each in found] == (
        [] if words is None else [("partition.assignment.strategy", protocol, "saves time")]
    )
    assert words is None or words in found[0].proposed


def test_a_poll_interval_is_as_long_as_the_client_takes_it():
    """The limit is a day in librdkafka, and the largest int elsewhere."""
    who = replace(B, client_id="rdkafka", rebalance_timeout_ms=80_000_000)
    assert proposed(poll_overrun_advice(gone(who, back_s=20), NOTHING))["max.poll.interval.ms"].startswith("86400000, ")
    assert poll_interval_for(2**31) == 2**31 - 1


def test_a_worker_of_connect_is_no_consumer():
    """Its limit is its rebalance time-out, and a connector delayed it."""
    found = worker_overrun_advice(60_000)
    assert [(each.parameter, each.current) for each in found] == [
        ("operation", None),
        ("rebalance.timeout.ms", "60000"),
    ]


# --- Sessions ---


def session(
    who: Member = B, kind: str = GroupType.CLASSIC, heartbeat_ms: int = 3_000, **settings: int
) -> MemberSession:
    """Return the advised session time-out of a member, with the settings that its client reports."""
    fingerprint = replace(make_fingerprint(who), heartbeat_ms=heartbeat_ms)
    return session_of_member(who, fingerprint, kind, ClientConfig(**settings))


RDKAFKA = replace(B, client_id="rdkafka", session_timeout_ms=10_000, rebalance_timeout_ms=30_000)
NEWER = replace(B, session_timeout_ms=None, epoch=3)


@pytest.mark.parametrize(
    ("silence_s", "heartbeat_ms", "request_ms", "expected"),
    [
        (12, 3_000, None, 45_000),
        (30, 3_000, None, 63_000),
        (12, 20_000, None, 60_000),
        (12, 3_000, 30_000, 45_000),
        (12, 3_000, 60_000, 63_000),
        (12, 3_000, 305_000, 45_000),
        (1_500, 3_000, None, 1_800_000),
    ],
    ids=[
        *("the default", "two pauses", "three heartbeats", "short requests", "long requests", "requests of no end"),
        "what brokers allow",
    ],
)
def test_a_session_outlasts_pauses_heartbeats_and_requests(
    silence_s: int, heartbeat_ms: int, request_ms: int | None, expected: int
):
    """max(3 h, request.timeout + h, 2 x longest pause + h, 45 s), limited by the brokers' maximum."""
    settings = {} if request_ms is None else {"request_timeout_ms": request_ms}
    (found,) = longer_session(
        session(heartbeat_ms=heartbeat_ms, **settings), pause_ms=silence_s * SECOND, with_requests=True
    )
    assert (found.parameter, found.current, found.proposed) == ("session.timeout.ms", "10000", str(expected))
    assert ("request.timeout" in found.formula) == (request_ms in (30_000, 60_000))
    assert found.formula.endswith("at most 1800000")


@pytest.mark.parametrize(
    ("session_ms", "silence_ms", "expected"),
    [(10_000, 12_000, "45000"), (30_000, 40_000, "80000"), (30_000, None, "60000"), (1_800_000, None, None)],
)
def test_a_client_that_beats_between_messages_needs_a_session_for_two(
    session_ms: int, silence_ms: int | None, expected: str | None
):
    """Twice the longest time between two heartbeats; the better advice, a client with a thread, comes first."""
    who = replace(B, client_id="kafkajs", session_timeout_ms=session_ms)
    first, *longer = blocked_heartbeat_advice(gone(who, SESSION_EXPIRED, silence_ms=silence_ms), session(who))
    assert first.parameter == "code"
    assert [(each.current, each.proposed) for each in longer] == ([(str(session_ms), expected)] if expected else [])


def test_the_advice_without_a_heartbeat_thread_is_to_upgrade():
    """kafkajs can call heartbeat() between messages; newer versions of kafka-python have a thread."""
    who = replace(B, client_id="kafka-python-1.3.5")
    first, _ = blocked_heartbeat_advice(gone(who, SESSION_EXPIRED), session(who))
    assert (first.parameter, first.current) == ("upgrade", "1.3.5")
    who = replace(B, client_id="kafkajs")
    first, _ = blocked_heartbeat_advice(gone(who, SESSION_EXPIRED), session(who))
    assert "heartbeat()" in first.proposed


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (GroupType.CONSUMER, "consumer.session.timeout.ms"),
        (GroupType.SHARE, "share.session.timeout.ms"),
        (GroupType.STREAMS, "streams.session.timeout.ms"),
    ],
)
def test_a_session_that_the_group_sets_stays_within_the_brokers_limits(kind: str, name: str):
    """45 to 60 s, however long the pause; the advice names the broker setting that allows more."""
    (found,) = longer_session(session(NEWER, kind, heartbeat_ms=5_000), pause_ms=50 * SECOND)
    assert (found.parameter, found.current) == (f"{name} (of the group)", "45000 (the default, not reported)")
    assert found.proposed == "60000"
    assert f"at most 60000 (group.{kind}.max.session.timeout.ms of the brokers)" in found.formula
    (found,) = session_for_absence(session(NEWER, kind), 35 * SECOND)
    assert found.proposed == "53000"
    assert session_for_absence(session(NEWER, kind), 20 * SECOND) == ()


def test_a_session_that_does_not_outlast_what_it_is_for_is_not_proposed():
    """The brokers' limit has to be raised too, up to half an hour; beyond that, nothing is proposed."""
    limit = "and group.consumer.max.session.timeout.ms of the brokers with it: they take no session above it"
    of = session(NEWER, GroupType.CONSUMER)
    assert [each.proposed for each in session_for_absence(of, 20 * MINUTE)] == [f"1800000, {limit}"]
    assert [each.proposed for each in session_for_absence(of, 61 * SECOND)] == [f"92000, {limit}"]
    assert [each.proposed for each in session_for_absence(of, 60 * SECOND)] == ["60000"]
    assert [each.proposed for each in longer_session(replace(of, heartbeat_ms=5_000), pause_ms=100 * SECOND)] == [
        f"205000, {limit}"
    ]
    for each in (of, session()):
        assert session_for_absence(each, 31 * MINUTE) == session_for_absence(each, 100 * MINUTE) == ()
    assert [each.proposed for each in session_for_absence(session(), 29 * MINUTE)] == ["1800000"]
    first, *longer = blocked_heartbeat_advice(gone(B, SESSION_EXPIRED, silence_ms=31 * MINUTE), session())
    assert (first.parameter, longer) == ("upgrade", [])


def test_a_broker_that_restarts_is_outlasted_by_nothing_shorter_than_usual():
    """A poll interval of 12 s in librdkafka is too short for such a session: it has to be raised as well."""
    of = session(replace(RDKAFKA, rebalance_timeout_ms=12_000))
    (found,) = session_for_failover([of])
    assert found.proposed == "45000, and max.poll.interval.ms with it: librdkafka takes no session above it"
    (found,) = session_for_failover([session(replace(RDKAFKA, rebalance_timeout_ms=60_000))])
    assert found.proposed == "45000"


def test_a_session_is_advised_only_if_it_is_longer():
    """With a session of 120 s and an absence of 10 s, or of 45 s and a short pause, no change is needed."""
    assert session_for_absence(session(replace(B, session_timeout_ms=120_000)), 10 * SECOND) == ()
    assert longer_session(session(replace(B, session_timeout_ms=45_000)), pause_ms=20 * SECOND) == ()
    assert session_for_failover([session(replace(B, session_timeout_ms=45_000))]) == ()
    assert session_for_failover([session(NEWER, GroupType.CONSUMER)]) == session_for_failover([]) == ()
    several = [session(replace(B, session_timeout_ms=each)) for each in (90_000, 10_000)]
    assert [(each.current, each.proposed) for each in session_for_failover(several)] == [("10000", "45000")]


def test_librdkafka_takes_no_session_above_its_poll_interval():
    """The poll interval is proposed if it is longer than the pause; otherwise it has to be raised as well."""
    (found,) = longer_session(session(RDKAFKA), pause_ms=14 * SECOND)
    assert found.proposed == "30000"
    assert "at most 30000 (max.poll.interval.ms: librdkafka takes no session above it)" in found.formula
    (found,) = longer_session(session(RDKAFKA), pause_ms=28 * SECOND)
    both = "and max.poll.interval.ms with it: librdkafka takes no session above it"
    assert found.proposed == f"59000, {both}"
    defaults = replace(RDKAFKA, session_timeout_ms=45_000, rebalance_timeout_ms=300_000)
    (found,) = longer_session(session(defaults), pause_ms=200 * SECOND)
    assert found.proposed == "300000"
    short = replace(RDKAFKA, rebalance_timeout_ms=10_000)
    assert [each.proposed for each in session_for_failover([session(short)])] == [f"45000, {both}"]
    # In groups of KIP-848 the two are independent.
    newer = replace(RDKAFKA, session_timeout_ms=None)
    (found,) = longer_session(session(newer, GroupType.CONSUMER, heartbeat_ms=5_000), pause_ms=50 * SECOND)
    assert found.proposed == "60000"


def test_kafka_python_takes_no_session_that_is_not_below_its_request_timeout():
    """Until 3.0, with a default of 305 s."""
    who = replace(B, client_id="kafka-python-2.2.3")
    (found,) = longer_session(session(who), pause_ms=200 * SECOND)
    assert found.proposed == "304000"
    (found,) = longer_session(session(replace(who, client_id="kafka-python-3.0.2")), pause_ms=200 * SECOND)
    assert found.proposed == "403000"


@pytest.mark.parametrize(("session_ms", "expected"), [(None, False), (10_000, False), (45_000, False), (90_000, True)])
def test_only_a_long_session_can_be_shorter(session_ms: int | None, expected: bool):
    """At or below the default it is short enough, and the default of brokers is their minimum."""
    assert shortens(session_ms) == expected


# --- Starvation and stops ---


@pytest.mark.parametrize(
    ("variant", "words"),
    [
        ("idle_lock", {"metadata_max_age_ms": "3000"}),
        ("lock_contention", {"code": "time.sleep(0.001)"}),
        ("native_code", {"code": "a process of its own"}),
        ("event_loop_blocked", {"code": "out of the event loop"}),
        ("deadlock", {}),
        (None, {}),
    ],
)
def test_a_starved_client_gets_advice_for_the_time_until_it_is_upgraded(variant: str | None, words: dict[str, str]):
    """Each mechanism has its own workaround; a longer session time-out, which only hides the cause, is none."""
    upgrade = Advice("upgrade", "1.4.6", "3.0", "-")
    of = gone(replace(B, client_id="kafka-python-1.4.6"), SESSION_EXPIRED)
    found = starvation_advice(of, variant, upgrade)
    assert found[0] is upgrade
    rest = proposed(found[1:])
    assert rest.keys() == words.keys()
    assert all(words[name] in rest[name] for name in words)
    assert starvation_advice(of, variant, None) == found[1:]


def test_the_workaround_is_the_clients_own_heartbeat_interval():
    """A client that reports a heartbeat interval of 2 s should refresh its metadata every 2 s."""
    of = gone(replace(B, client_id="kafka-python-1.4.6"), SESSION_EXPIRED)
    of = replace(of, client=replace(of.client, heartbeat_ms=2_000))
    assert proposed(starvation_advice(of, "idle_lock", None)) == {"metadata_max_age_ms": "2000"}


@pytest.mark.parametrize(("client_id", "call"), [("consumer-g-1", "wakeup()"), ("kafka-python-2.3.0", "close()")])
def test_the_advice_for_a_killed_instance_is_to_close(client_id: str, call: str):
    """In Java poll() is woken up first; for all clients the grace period is the longest batch and ten seconds."""
    found = graceful_stop_advice(gone(replace(B, client_id=client_id), SESSION_EXPIRED), names=True)
    assert call in found[0].proposed
    assert ("wakeup" in found[0].proposed) == (client_id == "consumer-g-1")
    assert proposed(found)["terminationGracePeriodSeconds"] == "longest batch + 10 s"
