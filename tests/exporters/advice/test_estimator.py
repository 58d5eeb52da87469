"""What settings would have avoided, by the rows of a group's own rebalances: certain, possible, and never."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_contract import Advice, CommitGap, Generation, Member, Rebalance, RebalanceImpact, RebalanceOutcome
from rebalance_contract.api_reports import EstimateRange, SettingEstimate
from rebalance_exporters.advice.absences import DepartureKind, PastRebalance, find_absences
from rebalance_exporters.advice.estimates import Setting
from rebalance_exporters.advice.estimator import avoids_something, estimate
from rebalance_exporters.advice.look_back import add_up, look_back

NOW_MS = 1_790_000_000_000
RECORDS = Advice("max.poll.records", "500", "124", "half")
History = list[PastRebalance]


def member(name: str, number: int = 1, host: str = "/10.0.0.1", **more: Any) -> Member:
    """The nth form of a member: its id changes each time that it joins."""
    fields: dict[str, Any] = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000} | more
    return Member(f"{name}-{number}", name, host, **fields)


def rebalance(
    at_s: float,
    before: Sequence[Member],
    after: Sequence[Member],
    *,
    rule: str | None = None,
    expired: Sequence[str] | None = None,
    poll_timeout: Sequence[str] = (),
    advice: tuple[Advice, ...] = (),
    lost: Mapping[int, int] | None = None,
    **changes: Any,
) -> PastRebalance:
    """A rebalance with its beginning and duration in seconds; `lost` are milliseconds by partition of topic t."""
    start_ms = NOW_MS + int(at_s * 1000)
    ids_before, ids_after = {each.member_id for each in before}, {each.member_id for each in after}
    joined = tuple(each.member_id for each in after if each.member_id not in ids_before)
    left = tuple(each.member_id for each in before if each.member_id not in ids_after)
    reported = Rebalance(
        cluster="prod",
        group="payments",
        rebalance_id=f"0-{at_s:g}",
        type="classic",
        reason="departure" if left else "join",
        outcome=RebalanceOutcome.COMPLETED,
        generation_from=1,
        generation_to=2,
        generations=(Generation(2, "join", join_ended_at_ms=start_ms + 1_000, joined=joined, left=left),),
        generations_aborted=0,
        started_after_ms=start_ms,
        started_before_ms=start_ms,
        join_ended_at_ms=start_ms + 1_000,
        completed_at_ms=start_ms + 1_000,
        sync_ms=0,
        duration_min_ms=1_000,
        duration_max_ms=1_000,
        protocol="range",
        leader=None,
        members_before=tuple(before),
        members_after=tuple(after),
        joined=joined,
        left=left,
    )
    silences = tuple(CommitGap("t", number, start_ms, start_ms + ms) for number, ms in (lost or {}).items())
    judged = expired is not None or bool(poll_timeout) or bool(silences)
    impact = RebalanceImpact(
        "prod",
        "payments",
        reported.rebalance_id,
        silences,
        sum((lost or {}).values()),
        expired=tuple(expired or ()) if expired is not None or poll_timeout else None,
        poll_timeout=tuple(poll_timeout) if expired is not None or poll_timeout else None,
    )
    return PastRebalance(replace(reported, **changes), impact if judged else None, rule, advice)


A = member("a")


def pause(at_s: float = 0, away_s: float = 8, number: int = 1, rule: str | None = "process_pause") -> History:
    """Member b is lost after its session of 10 s, and rejoins a while later."""
    b, again = member("b", number), member("b", number + 1)
    return [
        rebalance(at_s, (A, b), (A,), rule=rule, expired=[b.member_id]),
        rebalance(at_s + away_s, (A,), (A, again), rule=rule),
    ]


def overrun(rule: str | None = "poll_overrun", advice: tuple[Advice, ...] = (), away_s: float = 20) -> History:
    """Member b leaves because it did not poll for 60 s, and rejoins."""
    b, again = member("b"), member("b", 2)
    return [
        rebalance(0, (A, b), (A,), rule=rule, poll_timeout=[b.member_id], advice=advice),
        rebalance(away_s, (A,), (A, again), rule=rule, advice=advice),
    ]


def find(history: History, setting: str, value: int | None = None, *, since_s: float = -1e6) -> SettingEstimate:
    """The estimate of one setting."""
    past = look_back(history, NOW_MS + int(since_s * 1000), NOW_MS + 86_400_000)
    values = {} if value is None else {Setting(setting): value}
    return next(each for each in estimate(past, values) if each.setting == setting)


def counts(history: History, setting: str, value: int | None = None, **more: float) -> tuple[int, int]:
    """The minimum and maximum number of rebalances that a setting would have avoided."""
    found = find(history, setting, value, **more).avoided.rebalances
    return found.low, found.high


def test_a_session_that_outlasts_the_pause_avoids_both_rebalances():
    """The loss and the return; the member was silent for its session, and until it was back."""
    assert counts(pause(), "session.timeout.ms", 30_000) == (2, 2)
    assert counts(pause(away_s=21), "session.timeout.ms", 30_000) == (0, 0)
    found = find(pause(), "session.timeout.ms")
    assert (found.current, found.proposed, found.value) == ("10000", "30000", 30_000)
    assert found.rebalance_ids == ("0-8", "0-0")


def test_a_range_that_reaches_beyond_the_value_is_possible_only():
    """The return is between the start of its rebalance and the end of its join phase."""
    first, second = pause(away_s=19)
    # Silent for 10 + 19 to 10 + 20 s.
    assert counts([first, second], "session.timeout.ms", 29_500) == (0, 2)


def test_what_has_no_cause_is_possible_only():
    """It is unknown whether the same process returned."""
    assert counts(pause(rule=None), "session.timeout.ms", 30_000) == (0, 2)
    assert counts(pause(rule="undetermined"), "session.timeout.ms", 30_000) == (0, 2)


def test_a_restart_is_not_avoided_by_a_longer_session():
    """A new process joins as a new member; with an instance id it takes its predecessor's place."""
    restart = pause(rule="crash_loop")
    assert counts(restart, "session.timeout.ms", 300_000) == (0, 0)
    assert counts(restart, "group.instance.id", 30_000) == (2, 2)
    assert counts(restart, "group.instance.id", 15_000) == (0, 0)
    assert find(restart, "group.instance.id").proposed == "a stable name per instance, with session.timeout.ms = 30000"


def test_a_static_member_needs_a_session_that_outlasts_its_restart():
    """It already has an instance id."""
    named = {"group_instance_id": "w1"}
    gone, back = member("b", **named), member("b", 2, **named)
    history = [
        rebalance(0, (A, gone), (A,), rule="static_session_too_short", expired=[gone.member_id]),
        rebalance(8, (A,), (A, back), rule="static_session_too_short"),
    ]
    assert counts(history, "session.timeout.ms", 30_000) == (2, 2)
    assert counts(history, "group.instance.id", 30_000) == (0, 0)


def test_a_death_is_never_avoided_and_counts_as_cost():
    """The loss of a member that does not return is noticed later."""
    b = member("b")
    history = [*pause(), rebalance(60, (A, b), (A,), rule="member_crash", expired=[b.member_id])]
    found = find(history, "session.timeout.ms")
    assert found.avoided.rebalances == EstimateRange(2, 2)
    assert found.cost == (
        "a member that dies is noticed after 30 s instead of 10 s, and its partitions wait as long; "
        "1 member died, or stayed away, in this time"
    )


def test_another_change_beside_makes_it_inevitable():
    """A new member joins in the rebalance in which one is lost, so that rebalance is inevitable."""
    b, again, c = member("b"), member("b", 2), member("c")
    history = [
        rebalance(0, (A, b), (A, c), rule="process_pause", expired=[b.member_id]),
        rebalance(8, (A, c), (A, c, again), rule="process_pause"),
    ]
    assert counts(history, "session.timeout.ms", 30_000) == (1, 1)


def test_who_came_and_went_in_between_leaves_it_open():
    """The row does not show what these members did."""
    first, second = pause()
    first = first._replace(rebalance=replace(first.rebalance, passing=(member("d"),)))
    assert counts([first, second], "session.timeout.ms", 30_000) == (1, 2)


def test_an_emptied_group_needs_both_of_its_members():
    """Both left after overruns; one returned too late for the value."""
    a, b, a2, b2 = member("a"), member("b"), member("a", 2), member("b", 2)
    history = [
        rebalance(0, (a, b), (), rule="poll_overrun", poll_timeout=[a.member_id, b.member_id]),
        rebalance(10, (), (a2,), rule="poll_overrun"),
        rebalance(50, (a2,), (a2, b2), rule="poll_overrun"),
    ]
    assert counts(history, "max.poll.interval.ms", 90_000) == (1, 1)
    assert counts(history, "max.poll.interval.ms", 120_000) == (3, 3)


def test_polls_that_came_late():
    """A longer limit, or a smaller batch if the diagnosis advises one."""
    assert counts(overrun(), "max.poll.interval.ms", 90_000) == (2, 2)
    assert counts(overrun(), "max.poll.interval.ms", 80_000) == (0, 0)
    assert counts(overrun(advice=(RECORDS,)), "max.poll.records", 70) == (2, 2)
    assert counts(overrun(advice=(RECORDS,)), "max.poll.records", 80) == (0, 0)
    assert find(overrun(advice=(RECORDS,)), "max.poll.records").proposed == "50 % of what it is"
    # A client without the setting, and one without a known cause.
    assert counts(overrun(), "max.poll.records", 10) == (0, 0)
    assert counts(overrun(rule=None), "max.poll.records", 10) == (0, 2)
    assert counts(overrun(), "session.timeout.ms", 300_000) == (0, 0)


def test_the_last_commit_bounds_how_long_nobody_polled():
    """A member that committed three seconds before it left has polled then, whatever its limit."""
    b = member("b", partitions={"t": [1]}, rebalance_timeout_ms=4_000)
    first = rebalance(0, (A, b), (A,), rule="poll_overrun", poll_timeout=[b.member_id])
    assert first.impact is not None
    first = first._replace(impact=replace(first.impact, silences=(CommitGap("t", 1, NOW_MS - 3_000, NOW_MS + 9_000),)))
    second = rebalance(8, (A,), (A, member("b", 2)), rule="poll_overrun")
    (absence,) = find_absences([first, second], NOW_MS)
    told = (absence.departure, absence.away_ms, absence.silent_ms)
    assert told == (DepartureKind.POLL_LIMIT, (8_000, 9_000), (12_000, 12_000))


def test_a_deploy_is_avoided_by_names():
    """Members left cleanly and returned with the same client id and host; one on another host may be another."""
    b, moved = member("b"), member("b", 2, host="/10.0.0.9")
    history = [
        rebalance(0, (A, b), (A,), rule="rolling_deploy"),
        rebalance(5, (A,), (A, member("b", 2)), rule="rolling_deploy"),
    ]
    assert counts(history, "group.instance.id", 10_000) == (2, 2)
    history[1] = rebalance(5, (A,), (A, moved), rule="rolling_deploy")
    assert counts(history, "group.instance.id", 10_000) == (0, 2)


def test_a_newcomer_that_waited_for_the_ghost_came_within_the_session():
    """Killed and restarted at once: the rebalance waits for the session of the old member."""
    b, again = member("b"), member("b", 2)
    history = [rebalance(0, (A, b), (A, again), rule="ungraceful_shutdown", expired=[b.member_id])]
    assert counts(history, "group.instance.id", 10_000) == (1, 1)
    assert find(history, "group.instance.id").cost.startswith("a member that stops for good is noticed only")


def test_time_of_the_own_partitions_is_lost_all_the_same():
    """A partition whose member is away waits for it if no other member takes it over."""
    a, b = member("a", partitions={"t": [0]}), member("b", partitions={"t": [1]})
    first = rebalance(0, (a, b), (a,), rule="process_pause", expired=["b-1"], lost={0: 2_000, 1: 8_000})
    second = rebalance(8, (a,), (a, member("b", 2)), rule="process_pause")
    avoided = find([first, second], "session.timeout.ms", 30_000).avoided
    assert (avoided.lost_partition_ms, avoided.rebalancing_ms) == (
        EstimateRange(2_000, 10_000),
        EstimateRange(2_000, 2_000),
    )
    back = member("b", 2, partitions={"t": [1]})
    second = rebalance(8, (a,), (a, back), rule="process_pause", lost={0: 1_000, 1: 9_000})
    assert find([second], "session.timeout.ms", 30_000).avoided.lost_partition_ms == EstimateRange()
    avoided = find([first, second], "session.timeout.ms", 30_000).avoided
    assert avoided.lost_partition_ms == EstimateRange(3_000, 20_000)


def test_partitions_that_stay_need_not_stand_still():
    """An eager assignor revokes all: at least for the rebalance's duration, at most until the next commit."""
    before = (member("a", partitions={"t": [0]}), member("b", partitions={"t": [1, 2]}))
    after = (member("a", partitions={"t": [0, 1]}), member("b", partitions={"t": [2]}))
    history = [rebalance(0, before, after, lost={0: 400, 1: 7_000, 2: 8_000}, joined=("c-1",))]
    for setting in ("partition.assignment.strategy", "group.protocol"):
        assert find(history, setting).avoided.lost_partition_ms == EstimateRange(1_400, 8_400)
    held_up = [history[0]._replace(rule="slow_rebalance_callback")]
    assert find(held_up, "partition.assignment.strategy").avoided.lost_partition_ms == EstimateRange(400, 8_400)
    changed = [history[0]._replace(rebalance=replace(history[0].rebalance, protocol="cooperative-sticky"))]
    assert not avoids_something(find(changed, "partition.assignment.strategy"))
    newer = [history[0]._replace(rebalance=replace(history[0].rebalance, type="consumer"))]
    assert not avoids_something(find(newer, "group.protocol"))


def test_a_barrier_is_what_the_newer_protocol_has_not():
    """At most the time for which a group waited for a member that did not join."""
    b, c = member("b"), member("c")
    history = [rebalance(0, (b,), (c,), rule="stalled_member_join_barrier", poll_timeout=["b-1"])]
    assert find(history, "group.protocol").avoided.rebalancing_ms == EstimateRange(0, 1_000)


def test_a_group_that_starts_waits_for_who_comes_soon():
    """Each arrival restarts the coordinator's wait; members after one that was too late are not waited for."""
    a, b, c, d = (member(name) for name in "abcd")
    history = [rebalance(0, (), (a,)), rebalance(6, (a,), (a, b)), rebalance(13, (a, b), (a, b, c))]
    assert counts(history, "group.initial.rebalance.delay.ms", 10_000) == (2, 2)
    assert counts(history, "group.initial.rebalance.delay.ms", 6_500) == (1, 1)
    later = [*history, rebalance(60, (a, b, c), (a, b, c, d))]
    assert counts(later, "group.initial.rebalance.delay.ms", 10_000) == (2, 2)
    assert counts([rebalance(0, (a,), (a, b)), *history[2:]], "group.initial.rebalance.delay.ms", 60_000) == (0, 0)
    assert find(history, "group.initial.rebalance.delay.ms").value == 10_000


def test_who_comes_back_is_no_late_starter():
    """A return belongs to an absence, not to a start."""
    history = [rebalance(0, (), (A, member("b"))), *pause(at_s=3, away_s=2)]
    assert counts(history, "group.initial.rebalance.delay.ms", 60_000) == (0, 0)


def test_heartbeats_are_a_hint():
    """No row describes a missed heartbeat: the diagnosis's advice is possible only."""
    advised = [
        each._replace(advice=(Advice("heartbeat.interval.ms", "5000", "3000", "S / 3"),))
        for each in pause(rule="session_heartbeat_ratio")
    ]
    found = find(advised, "heartbeat.interval.ms")
    assert (found.avoided.rebalances, found.current, found.proposed) == (EstimateRange(0, 2), "5000", "3000")


def newer_pause(away_s: float, kind: str = "consumer", rule: str | None = "process_pause") -> History:
    """A member of a group whose session is set by brokers is lost, and rejoins."""
    b, again = (member("b", number, session_timeout_ms=None) for number in (1, 2))
    return [
        rebalance(0, (b,), (), rule=rule, expired=["b-1"], type=kind, protocol="uniform"),
        rebalance(away_s, (), (again,), rule=rule, type=kind, protocol="uniform"),
    ]


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_the_session_of_a_newer_group_is_the_groups(kind: str):
    """Its records have no session, so nothing is certain; it is 45 s unless set, and brokers allow 60 s at most."""
    found = find(newer_pause(8, kind), f"{kind}.session.timeout.ms")
    assert (found.current, found.value, found.avoided.rebalances) == (None, 60_000, EstimateRange(0, 2))
    assert found.cost.startswith("a member that dies is noticed after 1 min instead of 45 s")
    for away_s in (15, 60):
        found = find(newer_pause(away_s, kind), f"{kind}.session.timeout.ms")
        assert (found.value, found.avoided.rebalances) == (None, EstimateRange())


def test_what_a_finding_once_advised_beyond_the_limit_is_not_taken():
    """Kept rows may advise a session of minutes for a group that allows 60 s."""
    advice = (Advice("consumer.session.timeout.ms (of the group)", "45000", "145000", "-"),)
    assert (
        find([each._replace(advice=advice) for each in newer_pause(8)], "consumer.session.timeout.ms").value == 60_000
    )


def test_names_come_with_the_groups_session():
    """Its clients reject session.timeout.ms; members of share and streams groups reject instance ids as well."""
    found = find(newer_pause(8, rule="crash_loop"), "group.instance.id")
    assert found.proposed == "a stable name per instance, with consumer.session.timeout.ms of the group = 60000"
    for kind in ("share", "streams"):
        assert not avoids_something(find(newer_pause(8, kind, rule="crash_loop"), "group.instance.id"))


def as_client(history: History, client_id: str, **changes: Any) -> History:
    """The same with members of another client."""

    def of(members: Sequence[Member]) -> tuple[Member, ...]:
        return tuple(replace(each, client_id=client_id, **changes) for each in members)

    return [
        each._replace(
            rebalance=replace(
                each.rebalance,
                members_before=of(each.rebalance.members_before),
                members_after=of(each.rebalance.members_after),
            )
        )
        for each in history
    ]


def test_librdkafka_takes_no_session_above_its_poll_interval():
    """Its poll interval is the limit: longer sessions are not proposed, even if a finding advises them."""
    assert find(as_client(pause(), "rdkafka", rebalance_timeout_ms=20_000), "session.timeout.ms").value == 20_000
    assert find(as_client(pause(away_s=15), "rdkafka", rebalance_timeout_ms=20_000), "session.timeout.ms").value is None
    advice = (Advice("session.timeout.ms", "10000", "45000", "-"),)
    advised = as_client([each._replace(advice=advice) for each in pause()], "rdkafka", rebalance_timeout_ms=25_000)
    assert find(advised, "session.timeout.ms").value == 25_000
    assert find(as_client(pause(away_s=60), "rdkafka"), "group.instance.id").value is None


def test_a_neighbour_with_another_client_bounds_nothing():
    """The limit of librdkafka does not apply to a Java member that lost its session."""
    z = replace(member("z", rebalance_timeout_ms=10_000), client_id="rdkafka")
    b, again = member("b"), member("b", 2)
    history = [
        rebalance(0, (z, b), (z,), rule="process_pause", expired=["b-1"]),
        rebalance(8, (z,), (z, again), rule="process_pause"),
    ]
    assert find(history, "session.timeout.ms").value == 30_000


def test_the_session_that_grows_is_that_of_those_who_lost_it():
    """Beside a member with 45 s, one with 6 s gets more, and not less than its neighbour has."""
    z = member("z", session_timeout_ms=45_000)
    b, again = (member("b", number, session_timeout_ms=6_000) for number in (1, 2))
    history = [
        rebalance(0, (z, b), (z,), rule="process_pause", expired=["b-1"]),
        rebalance(4, (z,), (z, again), rule="process_pause"),
    ]
    found = find(history, "session.timeout.ms")
    assert (found.current, found.value, found.avoided.rebalances) == ("6000", 15_000, EstimateRange(2, 2))
    assert "members that have more, up to 45 s, are to keep it" in found.cost


def test_aiokafka_does_not_report_its_poll_limit():
    """Its records repeat the session: no value is known to be longer, but one from a finding may be."""
    history = as_client(overrun(), "aiokafka-0.12.0", rebalance_timeout_ms=10_000)
    found = find(history, "max.poll.interval.ms")
    assert (found.current, found.value, found.avoided.rebalances) == (None, None, EstimateRange())
    assert counts(history, "max.poll.interval.ms", 600_000) == (0, 2)
    assert not avoids_something(find(history, "max.poll.records"))
    unjudged = as_client([each._replace(impact=None, rule=None) for each in overrun()], "aiokafka-0.12.0")
    assert counts(unjudged, "max.poll.interval.ms") == (0, 0)


@pytest.mark.parametrize(("client_id", "expected"), [("rdkafka", (0, 0)), ("kgo", (0, 0)), ("consumer-b-1", (0, 2))])
def test_only_clients_with_batches_can_have_smaller_ones(client_id: str, expected: tuple[int, int]):
    """librdkafka has no max.poll.records, whatever the cause."""
    assert counts(as_client(overrun(rule=None), client_id), "max.poll.records", 10) == expected


def stood_still(client_id: str, protocol: str = "range") -> History:
    """A rebalance in which a partition stalled that kept its owner, because the group waited for a member."""
    before, after = (member("a", partitions={"t": [0]}),), (member("a", partitions={"t": [0]}), member("b"))
    past = rebalance(0, before, after, rule="stalled_member_join_barrier", lost={0: 4_000})
    return as_client([past._replace(rebalance=replace(past.rebalance, protocol=protocol))], client_id)


@pytest.mark.parametrize(
    ("client_id", "protocol", "assignor", "newer"),
    [
        ("consumer-a-1", "range", True, True),
        ("kgo", "roundrobin", True, True),
        ("rdkafka", "range", True, True),
        ("kafka-python-3.0.2", "range", True, False),
        ("kafka-python-2.2.3", "range", False, False),
        ("aiokafka-0.12.0", "roundrobin", False, False),
        ("kafkajs", "RoundRobinAssigner", False, False),
        ("a", "one of our own", False, True),
        ("connect-1", "sessioned", False, False),
        ("connect-1", "default", False, False),
        ("connect-1", "compatible", False, False),
        ("app-1-StreamThread-1-consumer", "stream", False, False),
    ],
)
def test_assignor_and_protocol_are_proposed_to_clients_that_have_them(
    client_id: str, protocol: str, assignor: bool, newer: bool
):
    """Streams and Connect have their own; some libraries have neither the cooperative assignor nor KIP-848."""
    history = stood_still(client_id, protocol)
    assert avoids_something(find(history, "partition.assignment.strategy")) == assignor
    assert avoids_something(find(history, "group.protocol")) == newer


def test_a_worker_of_connect_has_no_settings_of_a_consumer():
    """Its limit between polls is rebalance.timeout.ms; it has no max.poll.records, and no instance id."""
    history = [each._replace(rebalance=replace(each.rebalance, protocol="sessioned")) for each in overrun(rule=None)]
    assert counts(history, "rebalance.timeout.ms") == (0, 2)
    assert not avoids_something(find(history, "max.poll.records"))
    restart = [
        each._replace(rebalance=replace(each.rebalance, protocol="sessioned")) for each in pause(rule="crash_loop")
    ]
    assert not avoids_something(find(restart, "group.instance.id"))


def test_what_began_before_the_period_shows_who_came_back():
    """The earlier rebalance itself is not counted."""
    assert counts(pause(at_s=-5), "session.timeout.ms", 30_000, since_s=0) == (1, 1)


def test_a_value_is_proposed_for_most_and_not_for_the_worst():
    """One absence of four minutes does not make the session five minutes long."""
    history = [each for number in range(1, 10, 2) for each in pause(at_s=60 * number, number=number)]
    history += pause(at_s=700, away_s=250, number=20)
    assert find(history, "session.timeout.ms").value == 30_000
    assert counts(history, "session.timeout.ms") == (10, 10)


def test_a_value_that_a_finding_advises_is_taken_where_it_is_enough():
    """So that one setting has one value; a value that is too small is not used, nor a share or a sentence."""
    advised = [
        ("45000", 45_000),
        ("60000, which is also the longest", 60_000),
        ("15000", 30_000),
        ("25% of it", 30_000),
    ]
    for proposed, value in advised:
        advice = (Advice("session.timeout.ms", "10000", proposed, "-"),)
        assert find([each._replace(advice=advice) for each in pause()], "session.timeout.ms").value == value


@pytest.mark.parametrize(("advised", "proposed"), [("26% of what it is", 26), ("80% of what it is", 50)])
def test_a_share_that_a_finding_advises_is_taken_where_it_is_enough(advised: str, proposed: int):
    """A half is sufficient: so is a quarter, but not four fifths."""
    advice = (Advice("max.poll.records", None, advised, "half"),)
    assert find(overrun(advice=advice), "max.poll.records").value == proposed


def test_a_calm_group_has_nothing_to_gain():
    """Every setting is listed, and none avoids anything."""
    past = look_back([], NOW_MS, NOW_MS + 1)
    assert {each.setting for each in estimate(past)} == set(Setting)
    assert not any(map(avoids_something, estimate(past)))


WAYS = st.sampled_from(["expired", "poll", "left", "unjudged"])
RULES = st.sampled_from([None, "undetermined", "process_pause", "poll_overrun", "crash_loop", "rolling_deploy"])


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Absences of one member of two, of any length, way and cause, each with its return."""
    found, at_s = [], 0
    for number in range(1, draw(st.integers(1, 5)) + 1):
        at_s += draw(st.integers(5, 400))
        way, rule, away_s = draw(WAYS), draw(RULES), draw(st.integers(1, 400))
        b, again = member("b", number), member("b", number + 1)
        ways: dict[str, Sequence[str] | None] = {
            "expired": [b.member_id] if way == "expired" else None if way in ("unjudged", "poll") else []
        }
        polls = [b.member_id] if way == "poll" else []
        lost = {0: draw(st.integers(0, 9_000))}
        advice = (RECORDS,) if draw(st.booleans()) else ()
        found.append(
            rebalance(
                at_s, (A, b), (A,), rule=rule, expired=ways["expired"], poll_timeout=polls, lost=lost, advice=advice
            )
        )
        at_s += away_s
        found.append(rebalance(at_s, (A,), (A, again), rule=rule))
    return found


@pytest.mark.generated
@given(histories(), st.integers(1, 600_000), st.integers(1, 600_000))
def test_bounds_hold_whatever_happened(history: History, one: int, other: int):
    """The low bound is at most the high one, nothing avoids more than there was, and a larger value avoids no less."""
    past = look_back(history, NOW_MS - 1, NOW_MS + 86_400_000)
    sums = add_up(past)
    for each in estimate(past):
        for bounds, most in (
            (each.avoided.rebalances, sums.rebalances),
            (each.avoided.rebalancing_ms, sums.rebalancing_ms),
            (each.avoided.lost_partition_ms, sums.lost_partition_ms),
        ):
            assert 0 <= bounds.low <= bounds.high <= most
    for setting in (Setting.SESSION, Setting.MAX_POLL_INTERVAL, Setting.STATIC, Setting.INITIAL_DELAY):
        less, more = (counts(history, setting, value) for value in sorted((one, other)))
        assert less[0] <= more[0]
        assert less[1] <= more[1]
