"""Partition assignment: eager assignors, changes of assignor, idle members, unequal shares, unrelated members."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from detect.views import said_by, view_of
from histories import HOUR, MINUTE, SECOND, T0, Event, history, member, probe, rebalance, report, silenced, snapshot
from rebalance_contract import CommitGap, Member, Moves, Severity
from rebalance_streaming.detect.rules.assignors import (
    assignment_imbalance,
    assignor_migration_error,
    eager_assignor,
    idle_members,
    shared_connect_group,
    shared_group_id,
)
from rebalance_streaming.observed.confidence import CERTAIN, PLAUSIBLE, STRONG

NOW = T0 + 2 * HOUR
RULES = (
    eager_assignor,
    assignor_migration_error,
    idle_members,
    assignment_imbalance,
    shared_group_id,
    shared_connect_group,
)


def members(count: int, **changes: Any) -> list[Member]:
    return [member(f"m{i}-1", [i], **changes) for i in range(count)]


# --- Eager assignors ---


def cost(who: list[Member], *, kept: int = 4, took_ms: int = 3 * SECOND, count: int = 1) -> list[Event]:
    """Let four partitions have no commits for the duration of a rebalance."""
    begins = [NOW - (i + 1) * HOUR for i in range(count)]
    gaps = {at: tuple(CommitGap("orders", p, at, at + took_ms) for p in range(4)) for at in begins}
    made = [rebalance(at, who, who, moves=Moves(kept=kept), took_ms=took_ms) for at in begins]
    return [*made, *(silenced(each, *gaps[each.started_before_ms]) for each in made)]


@pytest.mark.parametrize(
    ("events", "severity"),
    [
        pytest.param(
            [snapshot(T0, *members(6)), *cost(members(6))], Severity.TICKET, id="six members stopped for nothing"
        ),
        pytest.param([snapshot(T0, *members(6))], Severity.INFO, id="six members, no rebalance yet"),
        pytest.param([snapshot(T0, *members(4)), *cost(members(4))], None, id="four members, little lost"),
        pytest.param(
            [snapshot(T0, *members(4)), *cost(members(4), took_ms=30 * MINUTE, count=2)],
            Severity.TICKET,
            id="churn of 4 %",
        ),
        pytest.param([snapshot(T0, *members(6), protocol="cooperative-sticky")], None, id="cooperative"),
        pytest.param([snapshot(T0, *members(6), protocol=None, type="consumer")], None, id="newer protocol"),
        pytest.param([snapshot(T0, *members(6), protocol="stream"), *cost(members(6))], None, id="Streams"),
    ],
)
def test_an_eager_assignor_costs_what_did_not_move(events: list[Event], severity: str | None):
    """From five members or a percent of a day on; a ticket only if there was an impact."""
    found = list(eager_assignor(view_of(history(*events), NOW)))
    assert [(each.severity, each.confidence) for each in found] == ([] if severity is None else [(severity, CERTAIN)])


@pytest.mark.parametrize(
    ("library", "version", "words"),
    [
        ("apache-kafka-java", "3.7.0", "one rolling bounce"),
        ("apache-kafka-java", "2.8.0", "two rolling bounces"),
        ("confluent-kafka", "2.5.0", "stopped at once"),
        (None, None, "two rolling bounces"),
    ],
)
def test_the_way_to_a_cooperative_assignor_depends_on_the_client(library: str | None, version: str | None, words: str):
    """Java from 3.0 needs one rolling bounce, older versions two, librdkafka a full stop."""
    who = members(5)
    reports = [report(NOW, each, library=library, library_version=version) for each in who]
    (found,) = eager_assignor(view_of(history(snapshot(T0, *who), *reports), NOW))
    assert words in found.advice[0].proposed


def test_nothing_is_advised_that_no_client_has():
    """kafka-python has no cooperative assignor before 3.0, and does not support KIP-848."""
    who = [replace(each, client_id="kafka-python-2.2.3") for each in members(5)]
    (found,) = eager_assignor(view_of(history(snapshot(T0, *who)), NOW))
    assert found.advice == ()


def changing(*names: str, every_ms: int = 4 * MINUTE) -> list[Event]:
    who = members(2)
    times = [NOW - (len(names) - 1 - i) * every_ms for i in range(len(names))]
    return [snapshot(at_ms, *who, protocol=name) for at_ms, name in zip(times, names, strict=True)]


@pytest.mark.parametrize(
    ("events", "confidence"),
    [
        pytest.param(changing("range"), None, id="never"),
        pytest.param(changing("range", "cooperative-sticky"), None, id="migrated"),
        pytest.param(changing("range", "roundrobin", "cooperative-sticky"), None, id="in two steps"),
        pytest.param(changing("range", "cooperative-sticky", "range"), PLAUSIBLE, id="back again"),
        pytest.param(changing("range", "sticky", "range", "sticky"), STRONG, id="to and fro"),
        pytest.param(changing("range", "sticky", "range", every_ms=40 * MINUTE), None, id="rolled back an hour later"),
    ],
)
def test_an_assignor_that_goes_back_and_forth(events: list[Event], confidence: float | None):
    """One change is a migration; members with incompatible lists cause repeated changes."""
    found = list(assignor_migration_error(view_of(history(*events), NOW)))
    assert [each.confidence for each in found] == ([] if confidence is None else [confidence])


# --- Shares ---


def surplus(idle_minutes: int, *, partitions: int = 2, count: int = 3, **changes: Any) -> list[Event]:
    """Let two members own everything and the others nothing, since a rebalance some minutes ago."""
    who = [member(f"m{i}-1", [i] if i < 2 else []) for i in range(count)]
    at_ms = NOW - idle_minutes * MINUTE
    return [
        snapshot(at_ms, *who, **changes),
        rebalance(at_ms - SECOND, who[:2], who, took_ms=SECOND),
        probe(NOW - SECOND, ends=dict.fromkeys(range(partitions), 5)),
    ]


@pytest.mark.parametrize(
    ("events", "idle"),
    [
        pytest.param(surplus(31), ["m2-1"], id="one too many"),
        pytest.param(surplus(31, count=4), ["m2-1", "m3-1"], id="two too many"),
        pytest.param(surplus(29), [], id="for less than half an hour"),
        pytest.param(surplus(31, partitions=3), [], id="there is a partition for it"),
        pytest.param(surplus(31, count=2), [], id="as many as partitions"),
        pytest.param(surplus(31, protocol_type="connect"), [], id="Connect workers"),
    ],
)
def test_members_that_never_get_a_partition(events: list[Event], idle: list[str]):
    """More members than partitions for half an hour; the proper number is named."""
    found = list(idle_members(view_of(history(*events), NOW)))
    assert [m.member_id for each in found for m in each.subject.members] == idle
    assert all((each.advice[0].current, each.advice[0].proposed) == (str(2 + len(idle)), "2") for each in found)


def test_idleness_counts_over_several_rebalances():
    """A deploy in between does not restart the half hour of a member that stayed idle."""
    idle, busy = member("i-1"), [member("m0-1", [0]), member("m1-1", [1])]
    changes = [rebalance(NOW - at * MINUTE, [*busy, idle], [*busy, idle], took_ms=SECOND) for at in (45, 20, 5)]
    known = history(snapshot(NOW - 5 * MINUTE, *busy, idle), *changes)
    assert list(idle_members(view_of(known, NOW)))
    known.take_rebalance(rebalance(NOW - 12 * MINUTE, busy, [*busy, replace(idle, partitions={"orders": [0]})]))
    assert not list(idle_members(view_of(known, NOW)))


def test_each_member_counts_since_it_became_idle_itself():
    """A member that became idle in a later rebalance is not named yet; the time is that of the latest named member."""
    busy = [member("m0-1", [0]), member("m1-1", [1])]
    first, second, third = member("i-1"), member("j-1"), member("k-1")
    after = {90: [*busy, first], 40: [*busy, first, second], 10: [*busy, first, second, third]}
    changes = [rebalance(NOW - at * MINUTE, busy, who, took_ms=SECOND) for at, who in after.items()]
    known = history(snapshot(NOW - 10 * MINUTE, *busy, first, second, third), *changes)
    (found,) = idle_members(view_of(known, NOW))
    assert [each.member_id for each in found.subject.members] == ["i-1", "j-1"]
    assert found.started_at_ms == NOW - 90 * MINUTE + SECOND


def test_members_of_other_topics_are_counted_apart():
    """Surplus members of one topic are independent of those of another, which have a partition each."""
    busy, idle = member("m0-1", [0]), member("m1-1")
    other = [member(f"o{i}-1", topics=("bills",)) for i in range(2)]
    at_ms, who = NOW - 40 * MINUTE, [busy, idle, *other]
    known = history(
        snapshot(at_ms, *who),
        rebalance(at_ms - SECOND, who, who, took_ms=SECOND),
        probe(NOW - SECOND, ends={0: 5}),
        probe(NOW - SECOND, ends=dict.fromkeys(range(2), 5), topic="bills"),
    )
    (found,) = idle_members(view_of(known, NOW))
    assert [each.member_id for each in found.subject.members] == ["m1-1"]


def shared_out(*shares: int, minutes: int = 11, **changes: Any) -> list[Event]:
    start, who = 0, []
    for i, share in enumerate(shares):
        who.append(member(f"m{i}-1", range(start, start + share), topics=changes.pop(f"topics{i}", ("orders",))))
        start += share
    at_ms = NOW - minutes * MINUTE
    return [snapshot(at_ms, *who, **changes), rebalance(at_ms - SECOND, who, who, took_ms=SECOND)]


@pytest.mark.parametrize(
    ("events", "severity"),
    [
        pytest.param(shared_out(6, 3, 3), Severity.TICKET, id="twice as much"),
        pytest.param(shared_out(22, 20, 21), Severity.INFO, id="two of twenty"),
        pytest.param(shared_out(3, 2, 2), None, id="as fair as can be"),
        pytest.param(shared_out(6, 3, 3, minutes=9), None, id="not for long"),
        pytest.param(shared_out(6, 3, 3, protocol="stream"), None, id="Streams has tasks of its own"),
        pytest.param(shared_out(6, 3, topics1=("orders", "bills")), None, id="different subscriptions"),
        pytest.param(shared_out(6, 3, 3, state="PreparingRebalance"), None, id="rebalancing"),
    ],
)
def test_unequal_shares_of_equal_members(events: list[Event], severity: str | None):
    """More than one partition apart with equal subscriptions, for ten minutes; the busiest is named."""
    found = list(assignment_imbalance(view_of(history(*events), NOW)))
    assert [each.severity for each in found] == ([] if severity is None else [severity])
    assert all(each.subject.members[0].member_id == "m0-1" for each in found)


@pytest.mark.parametrize(
    ("client_id", "described", "expected"),
    [
        ("rdkafka", {"protocol": "range"}, ["cooperative-sticky", "roundrobin"]),
        ("rdkafka", {"protocol": "roundrobin"}, ["cooperative-sticky"]),
        ("rdkafka", {"protocol": "cooperative-sticky"}, []),
        ("aiokafka-0.12.0", {"protocol": "range"}, ["roundrobin"]),
        ("kafkajs", {"protocol": "RoundRobinAssigner"}, []),
        ("m", {"type": "consumer", "protocol": "range"}, ["uniform"]),
        ("m", {"type": "consumer", "protocol": "uniform"}, []),
    ],
)
def test_fairer_assignors_are_those_that_the_group_has_not_and_could_have(
    client_id: str, described: dict[str, str], expected: list[str]
):
    """The advice names neither the current assignor nor one that the client lacks."""
    events = shared_out(6, 3, 3, **described)
    events[0] = snapshot(
        NOW - 11 * MINUTE, *(replace(each, client_id=client_id) for each in events[0].members), **described
    )
    (found,) = assignment_imbalance(view_of(history(*events), NOW))
    assert [each.proposed.partition(",")[0].partition(";")[0] for each in found.advice] == expected


# --- Strangers ---


def strangers(other: Member, *, minutes: int = 61, **changes: Any) -> list[Event]:
    one = member("billing-1", {"bills": [0]}, topics=("bills",), host="h1")
    at_ms = NOW - minutes * MINUTE
    return [snapshot(at_ms, one, other, **changes), rebalance(at_ms - SECOND, [one], [one, other], took_ms=SECOND)]


OTHER = member("shipping-1", {"parcels": [0]}, topics=("parcels",), host="h2")


@pytest.mark.parametrize(
    ("events", "fires"),
    [
        pytest.param(strangers(OTHER), True, id="two applications"),
        pytest.param(strangers(replace(OTHER, host="h1")), True, id="on one host"),
        pytest.param(strangers(replace(OTHER, client_id="billing")), True, id="one name, other hosts"),
        pytest.param(strangers(replace(OTHER, client_id="billing-7", host="h1")), False, id="one application"),
        pytest.param(strangers(replace(OTHER, topics=("bills", "parcels"))), False, id="a topic in common"),
        pytest.param(strangers(replace(OTHER, topic_regex="par.*")), False, id="a pattern, which may match both"),
        pytest.param(strangers(OTHER, minutes=59), False, id="a rolling change"),
        pytest.param(strangers(OTHER, protocol_type="connect"), False, id="no consumers"),
    ],
)
def test_two_applications_in_one_group(events: list[Event], fires: bool):
    """No topic in common for an hour, and different clients or hosts."""
    found = list(shared_group_id(view_of(history(*events), NOW)))
    assert [each.confidence for each in found] == ([STRONG] if fires else [])
    assert not found or ("billing" in found[0].summary and "parcels" in found[0].summary)


def connect(*offsets: tuple[int | None, int | None], one_name: bool = True) -> list[Event]:
    """Let two workers join once a minute, each with its config topic offset; the second with a new id each time."""
    found: list[Event] = []
    for number, (first, second) in enumerate(offsets):
        at_ms, client = NOW - (len(offsets) - number) * MINUTE, "w2" if one_name else f"w{number + 2}"
        who = [member("w1-1", config_offset=first), member(f"{client}-{number}", config_offset=second)]
        found.append(rebalance(at_ms, who, who))
    return found


@pytest.mark.parametrize(
    ("events", "fires"),
    [
        pytest.param(connect((4, -1), (4, -1), (4, -1)), True, id="another topic, and an empty one"),
        pytest.param(connect((4, 9), (6, 9), (4, 9), (4, 9), (4, 9)), True, id="the leader is the one behind"),
        pytest.param(connect((4, -1), (4, -1)), False, id="it has not read on yet"),
        pytest.param(connect((4, 1), (5, 2), (6, 3)), False, id="it reads on"),
        pytest.param(connect((4, 1), (4, 4), (5, 4), (5, 5), (6, 5)), False, id="it caught up"),
        pytest.param(connect((4, 4), (4, 4), (4, 4)), False, id="one cluster"),
        pytest.param(connect((4, None), (4, None), (4, None)), False, id="not known"),
        pytest.param(connect((4, -1), (4, -1), (4, -1), one_name=False), False, id="other workers each time"),
    ],
)
def test_two_connect_clusters_in_one_group(events: list[Event], fires: bool):
    """One worker is behind another in its config topic at three joins, and does not catch up."""
    found = list(shared_connect_group(view_of(history(*events, snapshot(NOW, *members(2))), NOW)))
    assert [(each.rule, each.confidence) for each in found] == ([("shared_group_id", STRONG)] if fires else [])
    assert not found or "config topic" in found[0].summary
    later = view_of(history(*events, snapshot(NOW, *members(2))), NOW + HOUR)
    assert list(shared_connect_group(later)) == []


# --- Everywhere ---


def test_a_healthy_group_has_no_finding():
    """Cooperative assignor, equal shares, one application, all partitions owned: no findings, even after a deploy."""
    who = members(6)
    deploy = [rebalance(NOW - (6 - i) * MINUTE, who, who, moves=Moves(kept=5)) for i in range(6)]
    known = history(snapshot(NOW - MINUTE, *who, protocol="cooperative-sticky"), *deploy)
    assert said_by(*RULES, of=view_of(known, NOW)) == []
