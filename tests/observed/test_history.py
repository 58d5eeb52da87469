"""The memory of a group's history is small without events; for members only changes are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from histories import CLUSTER, GROUP, HOUR, MINUTE, T0, member, probe, rebalance, snapshot
from rebalance_contract import GroupState, Probe, Rebalance, decode, encode
from rebalance_streaming.observed import history as history_module
from rebalance_streaming.observed.coordinator_moves import find_moves
from rebalance_streaming.observed.history import GroupHistory

A, B = member("a-1", [0, 1]), member("b-1", [2, 3])
AT_REST, JOINING = GroupState.STABLE, GroupState.PREPARING_REBALANCE


def probed(*states: str, asked_every: int = 1) -> GroupHistory:
    """Return probes once a minute with these states; the members, always the same, are included every few minutes."""
    history = GroupHistory(CLUSTER, GROUP)
    for number, state in enumerate(states):
        members = [A, B] if number % asked_every == 0 else None
        history.take_probe(decode(encode(probe(T0 + number * MINUTE, state, members)), Probe))
    return history


def minutes(history: GroupHistory) -> Sequence[int]:
    """Return in which minutes the kept probes were made."""
    return [(each.at_ms - T0) // MINUTE for each in history.sightings]


def test_the_age_of_a_group_is_not_made_up():
    """At a start rows are read before the time is known; a group that only a probe described has no time in its row."""
    history = GroupHistory(CLUSTER, GROUP)
    unseen = replace(snapshot(T0), first_seen_ms=None, updated_at_ms=None)
    history.take_group(unseen, 0)
    assert history.first_ms is None
    history.take_group(unseen, T0 + MINUTE)
    assert history.first_ms == T0 + MINUTE
    history.take_group(snapshot(T0), 0)
    assert history.first_ms == snapshot(T0).first_seen_ms


@pytest.mark.parametrize("asked_every", [1, 2, 3])
def test_a_group_at_rest_is_remembered_by_its_first_probe_and_those_of_the_last_minutes(asked_every: int):
    """All have one list of members, because each probe reports the same again, or none."""
    history = probed(*[AT_REST] * 300, asked_every=asked_every)
    assert minutes(history) == [0, *range(283, 300)]
    assert len({id(each.members) for each in history.sightings if each.members is not None}) == 1


def test_probes_of_a_group_that_is_not_at_rest_are_all_kept():
    """The group may have been at rest between two of them."""
    history = probed(*[AT_REST] * 20, JOINING, JOINING, *[AT_REST] * 20)
    assert minutes(history) == [0, *range(19, 42)]


def test_members_that_did_not_change_are_one_object_in_all_rebalances():
    """Each row contains all of them again."""
    history, changed = GroupHistory(CLUSTER, GROUP), member("a-1", [0, 1, 2, 3])
    rows = [rebalance(T0, [A], [A, B]), rebalance(T0 + MINUTE, [A, B], [changed])]
    for row in rows:
        history.take_rebalance(decode(encode(row), Rebalance))
    first, second = history.in_order()
    assert (first, second) == tuple(rows)
    assert first.members_before[0] is first.members_after[0] is second.members_before[0]
    assert first.members_after[1] is second.members_before[1]
    assert second.members_after[0] == changed


def asked(*coordinators: tuple[int, int]) -> GroupHistory:
    """Return what is known from answers to who coordinates the group: minutes and brokers."""
    history = GroupHistory(CLUSTER, GROUP)
    for minute, broker in coordinators:
        history.take_probe(probe(T0 + minute * MINUTE, coordinator_id=broker))
    return history


@pytest.mark.parametrize(
    "again",
    [[(0, 1)], [(1, 1)], [(0, 1), (1, 1), (2, 2), (3, 2)], [(2, 1)]],
    ids=["repeated", "late", "all repeated", "as old as the latest change"],
)
def test_an_old_answer_is_no_move_back_of_the_coordinator(again: list[tuple[int, int]]):
    """A restart reads probes again, and two probers' may overtake each other: the group moved once."""
    moves = find_moves(asked((0, 1), (2, 2), *again, (4, 2)))
    assert [(each.before, each.after, each.at_ms) for each in moves] == [(1, 2, T0 + 2 * MINUTE)]


def test_an_answer_older_than_one_that_agreed_is_no_move():
    """The latest answer counts, also where it said what was known."""
    assert find_moves(asked((0, 1), (3, 1), (2, 2), (4, 1))) == []


def test_a_coordinator_that_comes_back_later_moved_twice():
    """Newer answers count as before."""
    assert [each.after for each in find_moves(asked((0, 1), (2, 2), (3, 1)))] == [2, 1]


def test_two_members_are_seen_together_where_one_probe_lists_both():
    """Not if each is in a different one, and not by a probe without members."""
    history = GroupHistory(CLUSTER, GROUP)
    for minute, members in enumerate([[A], [B], None]):
        history.take_probe(decode(encode(probe(T0 + minute * MINUTE, AT_REST, members)), Probe))
    assert not history.seen_together("a-1", "b-1")
    for minute, members in enumerate([[B, A], None, [A]], start=3):
        history.take_probe(decode(encode(probe(T0 + minute * MINUTE, AT_REST, members)), Probe))
    assert history.seen_together("a-1", "b-1")
    assert not history.seen_together("a-1", "c-1")


def rolled(count: int, size: int, *, apart_ms: int = MINUTE) -> GroupHistory:
    """Return the history of a group of this size in which each rebalance replaces a member."""
    found, names = GroupHistory(CLUSTER, GROUP), [f"m{number}-0" for number in range(size)]
    for number in range(count):
        before = [member(name) for name in names]
        names[number % size] = f"m{number % size}-{number + 1}"
        found.take_rebalance(rebalance(T0 + number * apart_ms, before, [member(name) for name in names]))
    return found


def test_of_large_groups_fewer_rebalances_are_kept(monkeypatch: pytest.MonkeyPatch):
    """Each names all members; for any size, those that are judged together are kept."""
    monkeypatch.setattr(history_module, "_KEPT_NAMED", 800)
    small, large, huge = rolled(320, 1), rolled(60, 10), rolled(40, 30)
    assert [len(each.rebalances) for each in (small, large, huge)] == [300, 40, 30]
    for each in (small, large, huge):
        assert each.rebalances.keys() == {known.rebalance_id for known in each.in_order()}
        assert each.in_order()[-1].started_before_ms == max(known.started_before_ms for known in each.in_order())
        named = {m.member_id for known in each.in_order() for m in (*known.members_before, *known.members_after)}
        assert each.members.keys() == named


def test_a_new_version_of_a_rebalance_takes_no_more_room(monkeypatch: pytest.MonkeyPatch):
    """The bound counts the members of the latest version, and none of forgotten rebalances."""
    monkeypatch.setattr(history_module, "_KEPT_NAMED", 800)
    found = rolled(40, 10)
    for _ in range(3):
        for each in list(found.in_order()):
            found.take_rebalance(each)
    assert len(found.rebalances) == 40
    assert found.forget_rebalances(T0 + 1_000 * HOUR)
    for each in rolled(40, 10).in_order():
        found.take_rebalance(each)
    assert len(found.rebalances) == 40


def test_rebalances_of_long_ago_are_forgotten_but_for_the_latest():
    """A group that is at rest for long keeps its latest ones."""
    found = rolled(100, 3, apart_ms=HOUR)
    assert found.forget_rebalances(T0 + 50 * HOUR)
    assert len(found.rebalances) == 50
    assert found.in_order()[0].started_before_ms == T0 + 50 * HOUR
    assert not found.forget_rebalances(T0 + 50 * HOUR)
    assert found.forget_rebalances(T0 + 1_000 * HOUR)
    assert len(found.rebalances) == 30
    assert len(found.members) == 3 + 30
