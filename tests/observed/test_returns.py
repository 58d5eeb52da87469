"""The successors of members that left: their own ids, or a newcomer of the same client and host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from histories import (
    MINUTE,
    SECOND,
    T0,
    history,
    joined,
    lost,
    member,
    probe,
    pulse,
    rebalance,
    report,
)
from observed.leaving import LOST_MS, STAYS, B, judged, left
from rebalance_contract import Member
from rebalance_streaming.observed.departed_members import find_departures
from rebalance_streaming.observed.departures import (
    CLEAN,
    slot_of,
)


@pytest.mark.parametrize(
    ("other", "back"),
    [
        (member("b-2", [2]), True),
        (member("b-2", [2], host="/elsewhere"), False),
        (member("d-1", [2]), False),
        (member("b-1", [2]), True),
    ],
    ids=["same client", "another host", "another client", "same id"],
)
def test_it_came_back_under_a_new_id(other: Member, back: bool):
    """The first of its client and host to join later; its own id in any case (KIP-848)."""
    gone, again = left(), joined(LOST_MS + MINUTE, other, [STAYS])
    (found,) = find_departures(history(gone, again), gone, {}, LOST_MS + 2 * MINUTE)
    assert (found.back_as == other) == back
    assert found.back_ms == (again.completed_at_ms if back else None)


def test_clients_that_share_a_name_and_a_host_come_back_as_one_newcomer_each():
    """Of three that left together two returned; which of them does not matter, and none counts twice."""
    three, back = [member(f"b-{n}") for n in range(3)], [member("b-8"), member("b-9")]
    gone, again = rebalance(LOST_MS, three, []), rebalance(LOST_MS + MINUTE, [], back, reason="first_join")
    found = find_departures(history(gone, again), gone, {}, LOST_MS + 2 * MINUTE)
    assert [each.back_as for each in found] == [*back, None]


def test_of_two_that_share_a_name_the_one_that_was_lost_is_back():
    """The other one left cleanly, which may have been intended."""
    one, other = member("b-1", [2]), member("b-2", [3])
    gone, again = rebalance(LOST_MS, [STAYS, one, other], [STAYS]), joined(LOST_MS + MINUTE, member("b-3"), [STAYS])
    beats = pulse(LOST_MS - MINUTE, LOST_MS, [0, 1, 2]), pulse(LOST_MS - MINUTE, LOST_MS - 12 * SECOND, [3])
    left, lost_one = find_departures(history(*beats[0], *beats[1], gone, again), gone, {}, LOST_MS + 2 * MINUTE)
    assert (left.likely, left.back_as) == (CLEAN, None)
    assert lost_one.likely != CLEAN
    assert lost_one.back_as == member("b-3")


def test_who_is_back_by_its_own_id_is_nobody_else():
    """Two that share a name and a host left one after the other, and keep their ids (KIP-848)."""
    first, second = member("b-1"), member("b-2")
    gone = [rebalance(LOST_MS, [first, second], [second]), rebalance(LOST_MS + MINUTE, [second], [])]
    back = [joined(LOST_MS + 2 * MINUTE, first, []), joined(LOST_MS + 3 * MINUTE, second, [first])]
    (found,) = find_departures(history(*gone, *back), gone[1], {}, LOST_MS + 4 * MINUTE, ["b-1"])
    assert (found.back_as, found.back_ms) == (second, back[1].completed_at_ms)


def test_members_that_lived_at_the_same_time_are_two():
    """A probe listed both: the newcomer with the same name is a second instance."""
    gone, again = left(), joined(LOST_MS + MINUTE, member("b-2", [2]), [STAYS])
    both = probe(T0, "Stable", [STAYS, B, member("b-2")])
    (found,) = find_departures(history(both, gone, again), gone, {}, LOST_MS + 2 * MINUTE)
    assert found.back_as is None


def test_one_client_that_had_both_ids_is_back_although_its_former_one_is_still_listed():
    """It gave up its membership and joined again, while its coordinator waits for the old id."""
    again = replace(B, member_id="b-2")
    gone = lost(LOST_MS, B, [STAYS, B, again])
    seen = probe(LOST_MS - 5 * SECOND, "PreparingRebalance", [STAYS, B, again])
    events = [seen, joined(LOST_MS + MINUTE, again, [STAYS])]
    one_client = [report(LOST_MS - MINUTE, B, pid=7), report(LOST_MS - 5 * SECOND, again, pid=7)]
    assert judged(gone, *events, *one_client[1:]).back_as is None
    assert judged(gone, *events, *one_client).back_as == again


def test_static_members_are_known_by_their_name():
    """Host and client may change with a rescheduled pod; the instance id stays."""
    one, other = member("x-1", group_instance_id="i"), member("y-1", group_instance_id="i")
    assert slot_of(one) == slot_of(other) != slot_of(member("x-1"))
    assert slot_of(member("w-1", client_id="w-8d5c1f7e-aaaa-bbbb-cccc-0123456789ab")) == slot_of(
        member("w-2", client_id="w-00000000-1111-2222-3333-444444444444", host="/host-w")
    )
