"""Groups with epochs: records of single members update the snapshot of all."""

import random
from typing import Any
from uuid import UUID

from rebalance_streaming.groups.fold import fold
from rebalance_streaming.groups.model import FoldState, GroupRecord, new_state
from rebalance_streaming.wire.kafka_json import uuid_text
from rebalance_streaming.wire.records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    OwnedTopicPartitions,
)

_MEMBER, _CURRENT, _REGEX = 5, 8, 16
ORDERS = UUID(int=1)


def folded(*records: tuple[int, str, Any]) -> FoldState:
    """Fold records, each (type, member id, value), in order."""
    state = new_state("c", "g")
    for offset, (kind, member_id, value) in enumerate(records):
        state, _ = fold(state, GroupRecord(7, offset, 1_000_000, True, value, kind, member_id))
    return state


def described(client_id: str, *topics: str, pattern: str = "") -> ConsumerGroupMemberMetadataValue:
    """Return a member's own record."""
    return ConsumerGroupMemberMetadataValue(None, None, client_id, "/h", topics, pattern, 300_000, None)


def has(*partitions: int, topic: UUID = ORDERS) -> ConsumerGroupCurrentMemberAssignmentValue:
    """Return the record of a member's partitions of the topic."""
    return ConsumerGroupCurrentMemberAssignmentValue(2, 1, 0, (OwnedTopicPartitions(topic, partitions),), ())


def test_each_member_stands_once_and_in_its_place():
    """Records of members may arrive in any order, be repeated or remove one: members are sorted by id."""
    names = [f"m-{number}" for number in range(40)]
    came = random.Random(1).sample(names, len(names))
    gone = came[::7]
    records = [
        *((_MEMBER, each, described(f"{each}-client", "orders")) for each in came),
        *((_CURRENT, each, has(number)) for number, each in enumerate(names)),
        *((_MEMBER, each, None) for each in gone),
    ]
    members = folded(*records).snapshot.members
    assert [each.member_id for each in members] == sorted(set(names) - set(gone))
    assert all(each.client_id == f"{each.member_id}-client" for each in members)
    assert all(each.partitions == {"orders": [names.index(each.member_id)]} for each in members)


def test_a_member_of_whom_nothing_was_said_before_is_put_into_its_place():
    """At the beginning of a compacted log its assignment record may precede its member record."""
    members = folded((_CURRENT, "b", has(1)), (_CURRENT, "c", has(2)), (_CURRENT, "a", has(0))).snapshot.members
    assert [(each.member_id, each.client_id) for each in members] == [("a", ""), ("b", ""), ("c", "")]


def test_the_only_topic_of_a_group_names_the_only_id():
    """Records of members have topic ids; if all subscribe to one topic, its id is known."""
    state = folded((_MEMBER, "a", described("a", "orders")), (_MEMBER, "b", described("b")), (_CURRENT, "b", has(0)))
    assert state.topic_names == {uuid_text(ORDERS): "orders"}
    assert state.snapshot.members[1].partitions == {"orders": [0]}


def test_a_topic_that_was_made_anew_has_its_name_under_its_new_id():
    """It was deleted meanwhile: members have partitions with an id for which no record has a name."""
    again = UUID(int=2)
    records = [(_MEMBER, each, described(each, "orders")) for each in "ab"]
    records += [(_CURRENT, each, has(number)) for number, each in enumerate("ab")]
    records += [(_CURRENT, each, has(number, 2 + number, topic=again)) for number, each in enumerate("ab")]
    state = folded(*records)
    assert state.topic_names == {uuid_text(ORDERS): "orders", uuid_text(again): "orders"}
    assert [each.partitions for each in state.snapshot.members] == [{"orders": [0, 2]}, {"orders": [1, 3]}]


def test_what_members_still_have_of_a_topic_of_before_keeps_its_name():
    """All subscribe to another topic now; the assignment with the other id follows later."""
    records = [(_MEMBER, "a", described("a", "orders")), (_CURRENT, "a", has(0)), (_MEMBER, "a", described("a", "new"))]
    state = folded(*records)
    assert state.snapshot.members[0].partitions == {"orders": [0]}
    state = folded(*records, (_CURRENT, "a", has(0, topic=UUID(int=2))))
    assert state.snapshot.members[0].partitions == {"new": [0]}


def test_patterns_that_are_resolved_again_and_again_take_no_room():
    """The state of a group in Spark does not grow while no group epoch follows."""
    state = folded((_MEMBER, "a", described("a", pattern="ord.*")), *[(_REGEX, "", None)] * 50)
    assert state.changes.others == ("regex",)


def test_an_id_stays_where_the_topic_may_be_another():
    """With two topics it may be either, and a pattern may match any."""
    for other in (described("b", "refunds"), described("b", pattern="ref.*")):
        state = folded((_MEMBER, "a", described("a", "orders")), (_MEMBER, "b", other), (_CURRENT, "a", has(0)))
        assert state.snapshot.members[0].partitions == {uuid_text(ORDERS): [0]}
