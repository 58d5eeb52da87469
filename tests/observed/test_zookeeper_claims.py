"""Claims on partitions in ZooKeeper, from looks at ids and owners."""

from __future__ import annotations

from rebalance_contract import ProbedMember
from rebalance_streaming.observed.history import Ownership
from rebalance_streaming.observed.zookeeper_claims import claims, owns, undisturbed_since


def seen(at_ms: int, ids: str, **owners: str) -> Ownership:
    """Return a look with members, one letter each, and the owners of each topic's partitions, one letter each, too."""
    members = tuple(ProbedMember(each, "", "") for each in ids)
    return Ownership(at_ms, members, {topic: {str(p): o for p, o in enumerate(of)} for topic, of in owners.items()})


def test_who_owns_nothing_claims_every_topic():
    """An owner has claims only on the topics it owns; a removed owner still has its partitions."""
    look = seen(1, "abc", orders="aax", bills="b")
    assert claims(look, "orders") == {"a": 2, "x": 1, "c": 0}
    assert claims(look, "bills") == {"b": 1, "c": 0}


def test_a_thread_owns_for_its_member():
    """Old high-level consumers own as id, hyphen and number; a longer id with the same prefix is another member."""
    look = Ownership(1, (), {"orders": {"0": "a-0", "1": "ab-1"}})
    assert [owns(look, each) for each in ("a", "ab", "b")] == [True, True, False]


def test_a_change_of_owners_begins_the_time_anew():
    """It lasts while the owners of that topic are unchanged and the member is there; other topics do not matter."""
    looks = [seen(1, "ab", orders="ab"), seen(2, "ab", orders="aa"), seen(3, "ab", orders="aa", bills="a")]
    assert undisturbed_since(looks, 2, "orders", "b") == 2
    assert undisturbed_since([*looks[:1], seen(2, "a", orders="aa"), looks[2]], 2, "orders", "b") == 3
    assert undisturbed_since(looks, 0, "orders", "b") == 1
