"""Pairing members across member ids."""

from rebalance_contract import Member
from rebalance_streaming.groups.identity import client_stem, pair_members


def member(member_id: str, client_id: str = "app", host: str = "10.0.0.1", instance: str | None = None) -> Member:
    return Member(member_id=member_id, client_id=client_id, host=host, group_instance_id=instance)


def test_static_members_pair_by_instance_id_whatever_else_changed():
    """A static member that moved to another host is still the same member."""
    old, new = member("i1-a", "x", "10.0.0.1", "i1"), member("i1-b", "y", "10.0.0.2", "i1")
    assert pair_members([old], [new]) == (("i1-a", "i1-b"),)


def test_a_dynamic_member_pairs_by_client_id_and_host():
    """A usual restart: same client id, same host, new member id."""
    assert pair_members([member("app-1")], [member("app-2")]) == (("app-1", "app-2"),)


def test_pairs_stand_in_the_order_in_which_members_left():
    """The same records give the same row in any process: it is published and compared in this order."""
    names = [f"app-{letter}" for letter in "qwertyuiopasdfghjklz"]
    left, joined = [member(f"{each}-1", each) for each in names], [member(f"{each}-2", each) for each in sorted(names)]
    assert pair_members(left, joined) == tuple((f"{each}-1", f"{each}-2") for each in names)


def test_weaker_signs_are_for_those_whom_stronger_ones_left_over():
    """A member paired by its exact client id is no candidate when the stems are compared."""
    left = [member("a-1", "app-11111"), member("b-1", "app-22222"), member("i-1", instance="i")]
    joined = [member("i-2", instance="i"), member("b-2", "app-22222"), member("c-2", "app-33333")]
    assert pair_members(left, joined) == (("i-1", "i-2"), ("b-1", "b-2"), ("a-1", "c-2"))


def test_ambiguous_members_stay_unpaired():
    """Two departures that look alike are not paired by guessing."""
    left = [member("app-1"), member("app-2")]
    assert pair_members(left, [member("app-3")]) == ()


def test_a_long_number_in_the_client_id_is_looked_through():
    """Clients that put a process id, a time or a UUID into the client id pair by the rest of it."""
    assert pair_members([member("a", "worker-48213")], [member("b", "worker-50977")]) == (("a", "b"),)


def test_short_numbers_distinguish_instances():
    """One instance that leaves while another joins on the same host is no restart."""
    assert pair_members([member("a", "worker-1")], [member("b", "worker-2")]) == ()


def test_a_different_host_is_a_different_member():
    """Most fleets use the same client id on several hosts."""
    assert pair_members([member("a", host="10.0.0.1")], [member("b", host="10.0.0.2")]) == ()


def test_the_stem_of_a_client_id_has_neither_long_numbers_nor_uuids():
    """Only the constant part is left."""
    assert client_stem("svc-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0-consumer-12-1795228310") == "svc--consumer-12-"
