"""The partitions of a streams group's members (KIP-1071): their tasks are converted to topics by the topology."""

from typing import Any

from rebalance_streaming.groups.fold import fold
from rebalance_streaming.groups.model import FoldState, GroupRecord, dump_state, load_state, new_state
from rebalance_streaming.wire.records import (
    OwnedTaskIds,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTopologyValue,
    Subtopology,
    TaskIds,
    TopicInfo,
)

_TARGET, _CURRENT, _TOPOLOGY = 21, 22, 23


def folded(*values: tuple[int, Any]) -> FoldState:
    """Fold records of member `m` in order, with the state serialised after each."""
    state = new_state("c", "g")
    for offset, (kind, value) in enumerate(values):
        name = None if kind == _TOPOLOGY else "m"
        state, _ = fold(state, GroupRecord(7, offset, 1_000_000, True, value, kind, name))
        state = load_state(dump_state(state))
    return state


def part(name: str, *topics: str, patterns: tuple[str, ...] = (), repartitioned: tuple[str, ...] = ()) -> Subtopology:
    """Return a subtopology with its source topics."""
    inner = tuple(TopicInfo(each, 0, -1, ()) for each in repartitioned)
    return Subtopology(name, topics, patterns, (), (), inner, ())


def topology(*parts: Subtopology) -> tuple[int, StreamsGroupTopologyValue]:
    """Return a topology record."""
    return _TOPOLOGY, StreamsGroupTopologyValue(0, parts)


def has(**tasks: tuple[int, ...]) -> tuple[int, StreamsGroupCurrentMemberAssignmentValue]:
    """Return a record of the member's tasks, by the name of their subtopology after the letter s."""
    owned = tuple(OwnedTaskIds(name[1:], numbers, None) for name, numbers in tasks.items())
    return _CURRENT, StreamsGroupCurrentMemberAssignmentValue(3, 2, 1, owned, (), (), (), (), ())


PARTS = (part("0", "orders", "customers"), part("1", repartitioned=("app-by-key-repartition",)))


def test_tasks_stand_under_all_topics_that_they_read():
    """Commits and ends are by topic; repartition topics of the application are included."""
    (member,) = folded(topology(*PARTS), has(s0=(2, 0), s1=(1,))).snapshot.members
    assert member.partitions == {"orders": [0, 2], "customers": [0, 2], "app-by-key-repartition": [1]}


def test_targets_are_given_likewise():
    """So that targets can be compared with assignments."""
    target = StreamsGroupTargetAssignmentMemberValue((TaskIds("1", (3,)),), (), ())
    (member,) = folded(topology(*PARTS), (_TARGET, target)).snapshot.members
    assert member.target == {"app-by-key-repartition": [3]}


def test_a_topology_that_comes_later_is_applied_to_what_is_known():
    """Compaction may leave it after the records of the members."""
    (member,) = folded(has(s0=(1,)), topology(*PARTS)).snapshot.members
    assert member.partitions == {"orders": [1], "customers": [1]}


def test_tasks_whose_topics_are_not_in_the_log_stay_under_their_part():
    """The coordinator resolves a pattern, but does not write the result."""
    (member,) = folded(topology(part("0", "orders", patterns=("x.*",))), has(s0=(1,), s9=(0,))).snapshot.members
    assert member.partitions == {"0": [1], "9": [0]}
