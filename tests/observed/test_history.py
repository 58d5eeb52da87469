"""What is remembered of a group costs little while nothing happens to it, and of members what changes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from histories import CLUSTER, GROUP, MINUTE, T0, member, probe, rebalance
from rebalance_contract import GroupState, Probe, Rebalance, decode, encode
from rebalance_streaming.observed.history import GroupHistory

A, B = member("a-1", [0, 1]), member("b-1", [2, 3])
AT_REST, JOINING = GroupState.STABLE, GroupState.PREPARING_REBALANCE


def probed(*states: str, asked_every: int = 1) -> GroupHistory:
    """Probe a group once a minute, in these states; its members, always the same, are asked every so many minutes."""
    history = GroupHistory(CLUSTER, GROUP)
    for number, state in enumerate(states):
        members = [A, B] if number % asked_every == 0 else None
        history.take_probe(decode(encode(probe(T0 + number * MINUTE, state, members)), Probe))
    return history


def minutes(history: GroupHistory) -> Sequence[int]:
    """Return in which minutes the probes that are kept were made."""
    return [(each.at_ms - T0) // MINUTE for each in history.sightings]


@pytest.mark.parametrize("asked_every", [1, 2, 3])
def test_a_group_at_rest_is_remembered_by_its_first_probe_and_those_of_the_last_minutes(asked_every: int):
    """All have one list of members, for each probe tells the same again, or none."""
    history = probed(*[AT_REST] * 300, asked_every=asked_every)
    assert minutes(history) == [0, *range(283, 300)]
    assert len({id(each.members) for each in history.sightings if each.members is not None}) == 1


def test_probes_of_a_group_that_is_not_at_rest_are_all_kept():
    """Between two of them it may have been at rest."""
    history = probed(*[AT_REST] * 20, JOINING, JOINING, *[AT_REST] * 20)
    assert minutes(history) == [0, *range(19, 42)]


def test_members_that_did_not_change_are_one_object_in_all_rebalances():
    """Each row tells all of them anew."""
    history, changed = GroupHistory(CLUSTER, GROUP), member("a-1", [0, 1, 2, 3])
    rows = [rebalance(T0, [A], [A, B]), rebalance(T0 + MINUTE, [A, B], [changed])]
    for row in rows:
        history.take_rebalance(decode(encode(row), Rebalance))
    first, second = history.in_order()
    assert (first, second) == tuple(rows)
    assert first.members_before[0] is first.members_after[0] is second.members_before[0]
    assert first.members_after[1] is second.members_before[1]
    assert second.members_after[0] == changed


def test_two_members_are_seen_together_where_one_probe_lists_both():
    """Not where each is in another one, and not by a probe that did not ask for members."""
    history = GroupHistory(CLUSTER, GROUP)
    for minute, members in enumerate([[A], [B], None]):
        history.take_probe(decode(encode(probe(T0 + minute * MINUTE, AT_REST, members)), Probe))
    assert not history.seen_together("a-1", "b-1")
    for minute, members in enumerate([[B, A], None, [A]], start=3):
        history.take_probe(decode(encode(probe(T0 + minute * MINUTE, AT_REST, members)), Probe))
    assert history.seen_together("a-1", "b-1")
    assert not history.seen_together("a-1", "c-1")
