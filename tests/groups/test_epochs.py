"""Groups with epochs: records of single members update the snapshot of all."""

import random
from typing import Any
from unittest import mock
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_contract import Member
from rebalance_streaming.groups import epochs, topic_names
from rebalance_streaming.groups.fold import fold
from rebalance_streaming.groups.model import FoldDraft, FoldState, GroupRecord, member_of, new_state
from rebalance_streaming.wire.kafka_json import uuid_text
from rebalance_streaming.wire.records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    OwnedTopicPartitions,
)

_GROUP, _MEMBER, _CURRENT, _REGEX = 3, 5, 8, 16
ORDERS = UUID(int=1)


def folded(*records: tuple[int, str | None, Any]) -> FoldState:
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


def test_a_member_whose_own_record_follows_later_hides_no_name():
    """Members are sorted by id, and the first may be one of whom only the assignment has been read."""
    again = UUID(int=2)
    records = [(_MEMBER, "b", described("b", "orders")), (_CURRENT, "a", has(0)), (_CURRENT, "b", has(1))]
    state = folded(*records, (_CURRENT, "b", has(1, 3, topic=again)))
    assert state.topic_names == {uuid_text(ORDERS): "orders", uuid_text(again): "orders"}
    assert [each.partitions for each in state.snapshot.members] == [{"orders": [0]}, {"orders": [1, 3]}]


def test_members_without_partitions_cost_the_same_however_many_there_are(monkeypatch: pytest.MonkeyPatch):
    """Thousands of members may join before the first assignment, which has the id of their only topic."""
    looked: list[None] = []
    places = topic_names._places

    def counted(member: Member | None) -> set[str]:
        looked.append(None)
        return places(member)

    monkeypatch.setattr(topic_names, "_places", counted)
    members = [f"m-{number:03}" for number in range(300)]
    state = folded(*((_MEMBER, each, described(each, "orders")) for each in members), (_CURRENT, "m-007", has(0)))
    assert state.snapshot.members[7].partitions == {"orders": [0]}
    assert len(looked) < 4 * len(members)


#: A change of a group: member, and what it subscribes to, or the number of the topic that it has, or null if it leaves.
_CHANGES = st.tuples(st.sampled_from("abc"), st.sampled_from(["orders", "refunds", 1, 2, None]))


@pytest.mark.generated
@given(st.lists(_CHANGES, max_size=12))
def test_the_only_topic_is_found_as_if_all_members_were_looked_at_each_time(
    changes: list[tuple[str, str | int | None]],
):
    """A record of the whole group ends each change."""

    def names() -> dict[str, str]:
        records: list[tuple[int, str | None, Any]] = []
        for epoch, (member_id, change) in enumerate(changes):
            if isinstance(change, int):
                records.append((_CURRENT, member_id, has(0, topic=UUID(int=change))))
            else:
                records.append((_MEMBER, member_id, None if change is None else described(member_id, change)))
            records.append((_GROUP, None, ConsumerGroupMetadataValue(epoch, 0)))
        return folded(*records).topic_names

    with mock.patch.object(epochs, "learn_only_topic", _look_at_all):
        expected = names()
    assert names() == expected


def _look_at_all(draft: FoldDraft, member_id: str | None) -> None:
    """Do what `learn_only_topic` does, and look at all members also while the topic has no name."""
    members = draft.snapshot.members
    first = next((member for member in members if member.topics), None)
    if first is None or len(first.topics) != 1:
        return
    (name,) = first.topics
    named = {name, *draft.topic_names.values()}
    if name in draft.topic_names.values() and topic_names._places(member_of(members, member_id or "")) <= named:
        return
    if any(member.topics not in ((), (name,)) for member in members):
        return
    ids = {place for member in members for place in topic_names._places(member)} - named
    if len(ids) == 1:
        topic_names.name_topics(draft, {ids.pop(): name})
