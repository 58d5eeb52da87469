"""Rebalances from probes alone: which are counted, their bounds, and which changes are no rebalance."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_contract import GroupState, GroupType, Probe, ProbedMember, Rebalance, RebalanceOutcome, RebalanceReason
from rebalance_streaming.groups.model import FoldState, dump_state, load_state, new_state
from rebalance_streaming.groups.probed import PROBED_FOLLOW_UP_WITHIN_MS, fold_probe, take_probe

#: 2026-01-01T00:00:00Z in epoch milliseconds.
T0 = 1_767_225_600_000
STABLE, PREPARING, EMPTY = GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.EMPTY


def has(name: str, *partitions: int, instance: str | None = None, client: str | None = None) -> ProbedMember:
    """Return a member with these partitions of one topic; without any, none is reported."""
    reported = {"t": list(partitions)} if partitions else None
    return ProbedMember(name, client or name.partition("-")[0], "/10.0.0.1", instance, partitions=reported)


def look(seconds: float, state: str, *members: ProbedMember, protocol: str = "range", **fields: Any) -> Probe:
    """Return the probe of a classic group this many seconds after T0."""
    described = {"type": GroupType.CLASSIC, "protocol": protocol, "members": members, **fields}
    return Probe(probed_at_ms=T0 + round(seconds * 1000), cluster="c", group="g", state=state, **described)


def epoch(seconds: float, state: str, number: int | None) -> Probe:
    """Return the probe of a KIP-848 group that is listed, or described with its epoch."""
    described = {} if number is None else {"group_epoch": number}
    kind = GroupType.CONSUMER
    return Probe(probed_at_ms=T0 + round(seconds * 1000), cluster="c", group="g", state=state, type=kind, **described)


def fold(*probes: Probe) -> tuple[FoldState, list[Rebalance]]:
    """Return the state, serialised at every step, and each rebalance's last version."""
    state, found = new_state("c", "g"), dict[str, Rebalance]()
    for each in probes:
        state, rebalances = fold_probe(load_state(dump_state(state)), each)
        found |= {one.rebalance_id: one for one in rebalances}
    return state, list(found.values())


def counted(state: FoldState) -> int:
    """Return the number of rebalances in the totals."""
    return sum(state.snapshot.counters.rebalances.values())


TWO = (has("a-1", 0, 1), has("b-1", 2, 3))
ONE = (has("a-1", 0, 1, 2, 3),)


def test_a_rebalance_that_was_seen_has_both_bounds():
    """It began after the last settled probe and before the first unsettled one, and ended likewise."""
    state, (found,) = fold(
        look(0, STABLE, *ONE),
        look(10, STABLE, *ONE),
        look(12, PREPARING, has("a-1"), has("b-1")),
        look(22, PREPARING, has("a-1"), has("b-1")),
        look(24, STABLE, *TWO),
    )
    assert (found.started_after_ms, found.started_before_ms) == (T0 + 10_000, T0 + 12_000)
    assert (found.duration_min_ms, found.duration_max_ms) == (10_000, 14_000)
    assert found.completed_at_ms == T0 + 24_000
    assert (found.reason, found.joined, found.first_offender) == (RebalanceReason.JOIN, ("b-1",), "b-1")
    assert (found.generation_from, found.generation_to, found.generations) == (None, None, ())
    assert found.moves is not None
    assert (found.moves.moved, found.moves.kept) == ({"t": [2, 3]}, 2)
    assert (counted(state), state.snapshot.counters.generations_completed) == (1, 0)
    assert state.snapshot.is_at_least
    assert found.is_at_least


def test_a_rebalance_between_two_looks_shows_in_the_members():
    """Its duration is between zero and the interval of the probes."""
    _, (found,) = fold(look(0, STABLE, *TWO), look(2, STABLE, *ONE))
    assert (found.reason, found.left, found.outcome) == ("departure", ("b-1",), RebalanceOutcome.COMPLETED)
    assert (found.duration_min_ms, found.duration_max_ms) == (0, 2_000)


def test_it_goes_on_until_a_look_is_settled():
    """It counts once its reason is known; meanwhile the snapshot has its beginning."""
    state, (found,) = fold(look(0, STABLE, *ONE), look(2, PREPARING, has("a-1")))
    assert (found.outcome, found.completed_at_ms, counted(state)) == (RebalanceOutcome.ONGOING, None, 0)
    assert (state.snapshot.state, state.snapshot.rebalancing_since_ms) == (PREPARING, T0 + 2_000)


@pytest.mark.parametrize(
    ("probes", "reasons"),
    [
        ((look(0, STABLE, *ONE), look(2, STABLE, *ONE)), []),
        ((look(0, STABLE, *TWO), look(2, STABLE, *reversed(TWO))), []),
        ((look(0, EMPTY), look(2, STABLE, *ONE)), ["first_join"]),
        ((look(0, STABLE, *ONE), look(2, EMPTY)), ["group_emptied"]),
        ((look(0, STABLE, *ONE), look(2, PREPARING, has("a-1")), look(4, STABLE, *ONE)), ["other"]),
        ((look(0, STABLE, has("a-1", 0)), look(2, STABLE, has("a-1", 0, 1))), ["topic_metadata_change"]),
        ((look(0, STABLE, has("a-1", 0, 1)), look(2, STABLE, has("a-1", 0))), ["other"]),
        ((look(0, STABLE, *TWO), look(2, STABLE, has("a-1", 2, 3), has("b-1", 0, 1))), ["other"]),
        ((look(0, STABLE, has("a-1", 0)), look(2, STABLE, has("a-2", 0))), ["replacement"]),
        ((look(0, STABLE, has("a-1", 0)), look(2, STABLE, has("b-1", 0))), ["swap"]),
    ],
    ids=str,
)
def test_what_counts_and_as_what(probes: tuple[Probe, ...], reasons: list[str]):
    """Members and assignments of two probes are compared; subscriptions are unknown."""
    state, found = fold(*probes)
    assert [each.reason for each in found] == reasons
    assert counted(state) == len(reasons)


def test_a_first_look_counts_nothing_that_was_before():
    """A settled group is the baseline; if it is rebalancing, the previous members are unknown."""
    assert fold(look(0, STABLE, *TWO))[1] == []
    _, (found,) = fold(look(0, PREPARING, has("a-1")), look(2, STABLE, *ONE))
    assert (found.reason, found.started_after_ms, found.joined) == ("other", None, ())


def test_a_group_that_was_not_there_before_forms():
    """Its coordinator had listed its groups without it: all of its members have joined."""
    for state in (PREPARING, STABLE):
        probes = [look(0, state, *ONE, unlisted_at_ms=T0 - 30_000), look(2, STABLE, *ONE)]
        _, (found,) = fold(*probes)
        assert (found.reason, found.members_before) == ("first_join", ()), state


def test_the_prober_reports_when_it_saw_the_group_settled_last():
    """Unchanged probes are not published; a changed one has the time of the one before."""
    _, (found,) = fold(look(0, STABLE, *ONE), look(40, STABLE, *TWO, settled_at_ms=T0 + 38_000))
    assert (found.started_after_ms, found.duration_max_ms) == (T0 + 38_000, 2_000)


def test_a_static_member_that_comes_back_costs_no_rebalance():
    """KIP-345: the same instance under a new member id, with its previous partitions."""
    state, found = fold(
        look(0, STABLE, has("a-1", 0, instance="i")), look(2, STABLE, has("a-2", 0, instance="i", client="a"))
    )
    assert (found, counted(state), state.snapshot.counters.members_replaced) == ([], 0, 1)
    assert [each.new_member_id for each in state.snapshot.replacements] == ["a-2"]


def test_looks_close_to_each_other_are_one_rebalance():
    """A group must be settled for two heartbeats and a period: generations in the log are merged likewise."""
    state, found = fold(look(0, STABLE, *ONE), look(2, STABLE, *TWO), look(10, STABLE, *ONE))
    assert (len(found), counted(state)) == (1, 1)
    assert found[0].started_before_ms == T0 + 2_000
    state, found = fold(look(0, STABLE, *ONE), look(2, STABLE, *TWO), look(10.5, STABLE, *ONE))
    assert (len(found), counted(state)) == (2, 2)


def test_a_cooperative_group_waits_for_its_second_round():
    """A revoked partition has no owner yet (KIP-429): the round that assigns it belongs to the same rebalance."""
    first = [
        look(0, STABLE, *ONE, protocol="cooperative-sticky"),
        look(2, STABLE, has("a-1", 0, 1), has("b-1"), protocol="cooperative-sticky"),
    ]
    late = PROBED_FOLLOW_UP_WITHIN_MS // 1000
    state, (found,) = fold(*first, look(late, STABLE, *TWO, protocol="cooperative-sticky"))
    assert (counted(state), found.reason, found.completed_at_ms) == (1, "join", T0 + late * 1000)
    eager = [look(0, STABLE, *ONE), look(2, STABLE, has("a-1", 0, 1), has("b-1")), look(30, STABLE, *TWO)]
    assert len(fold(*eager)[1]) == 2


def test_an_epoch_that_rose_is_a_rebalance():
    """For KIP-848 groups the epoch shows more than the state, which may be settled again at the next probe."""
    state, (found,) = fold(epoch(0, STABLE, 3), epoch(2, STABLE, 3), epoch(4, STABLE, 5))
    assert (found.generation_from, found.generation_to, found.type) == (3, 5, GroupType.CONSUMER)
    assert (counted(state), state.snapshot.generation) == (1, 5)


def test_a_group_that_is_only_listed_is_known_by_its_state():
    """Without members joins and departures are unknown."""
    state, (found,) = fold(epoch(0, STABLE, None), epoch(2, GroupState.RECONCILING, None), epoch(8, STABLE, None))
    assert (found.reason, found.moves is None or not found.moves.moved, counted(state)) == ("other", True, 1)


def test_a_deleted_group_keeps_its_totals():
    """An ongoing rebalance is aborted; a later group of the same name is a new one."""
    state, found = fold(
        look(0, STABLE, *ONE),
        look(2, PREPARING, has("a-1")),
        look(4, GroupState.DEAD),
        look(20, STABLE, *TWO),
    )
    assert [each.outcome for each in found] == [RebalanceOutcome.ABORTED, RebalanceOutcome.COMPLETED]
    assert [each.reason for each in found] == ["other", "first_join"]
    assert counted(state) == 2


def test_a_repetition_changes_nothing():
    """After a crash probes are repeated: those at or before the last one are skipped."""
    probes = [look(0, STABLE, *ONE), look(2, PREPARING, has("a-1")), look(4, STABLE, *TWO)]
    state, _ = fold(*probes)
    for each in probes:
        assert fold_probe(state, each) == (state, ())


def test_brokers_that_hide_assignments_meanwhile_take_nothing_away():
    """Before 4.0 members of a rebalancing group are listed without partitions: they keep their previous ones."""
    state, _ = fold(look(0, STABLE, *TWO), look(2, PREPARING, has("a-1"), has("b-1")))
    assert [each.partitions for each in state.snapshot.members] == [{"t": [0, 1]}, {"t": [2, 3]}]


@pytest.mark.parametrize(
    "probe",
    [
        Probe(probed_at_ms=T0, cluster="c", group="g", end_offsets={"t": {"0": 1}}),
        Probe(probed_at_ms=T0, cluster="c", group="g", state="Bewildered"),
        Probe(probed_at_ms=T0, cluster="c", group="g", state="Stable", type=GroupType.ZOOKEEPER),
    ],
    ids=["offsets", "a state of a newer broker", "ZooKeeper"],
)
def test_what_says_nothing_of_a_group_in_kafka_makes_no_snapshot(probe: Probe):
    """A group that is not in Kafka is not shown as counted."""
    state, found = fold(probe)
    assert (found, state.snapshot.state, state.snapshot.first_seen_ms) == ([], None, None)


def test_where_the_log_is_read_a_probe_begins_no_rebalance():
    """The log has each rebalance, so a probe that showed one would count it twice."""
    for reads_log in (True, False):
        state, found = take_probe(new_state("c", "g"), look(0, STABLE, *ONE), reads_log=reads_log)
        assert not found
        state, found = take_probe(state, look(2, PREPARING, *ONE), reads_log=reads_log)
        assert bool(found) is not reads_log
