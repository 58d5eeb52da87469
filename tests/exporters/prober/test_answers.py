"""How responses of brokers are parsed."""

import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from rebalance_contract import GroupState, ProbedMember
from rebalance_exporters.prober.coordinated import read_coordinated
from rebalance_exporters.prober.group_messages import (
    ConsumerGroupDescribeResponse,
    ShareGroupDescribeResponse,
    StreamsGroupDescribeResponse,
)
from rebalance_exporters.prober.groups import read_assignment, read_described, read_listed
from rebalance_exporters.prober.topics import parse_topic_id, read_topic, topic_id_text

ASSIGNMENT = bytes.fromhex("000000000001000174000000020000000300000001ffffffff")


def member(**changes: object) -> SimpleNamespace:
    """A member of a DescribeGroups response."""
    fields = {"member_id": "m", "group_instance_id": None, "client_id": "c", "client_host": "/h"}
    return SimpleNamespace(**{**fields, "member_assignment": ASSIGNMENT, **changes})


def described(**changes: object) -> SimpleNamespace:
    """A group of a DescribeGroups response."""
    fields = {"error_code": 0, "group_id": "g", "group_state": "Stable", "protocol_type": "consumer"}
    return SimpleNamespace(**{**fields, "protocol_data": "range", "members": [member()], **changes})


def test_old_lists_have_neither_state_nor_type():
    """Fields missing in a request's version are null."""
    listed = read_listed(SimpleNamespace(group_id="g", protocol_type="consumer"), broker=3)
    assert (listed.state, listed.type, listed.coordinator_id) == (None, None, 3)


def test_types_are_lower_case():
    """Brokers write `Consumer` or `consumer`."""
    row = SimpleNamespace(group_id="g", protocol_type="consumer", group_state="Stable", group_type="Consumer")
    assert read_listed(row, broker=1).type == "consumer"


def test_partitions_are_sorted_by_topic():
    """As required by the contract."""
    assert ConsumerProtocolAssignment.decode(ASSIGNMENT).version == 0
    assert read_described(described()).members[0].partitions == {"t": [1, 3]}


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff" * 40, ASSIGNMENT[:9]])
def test_what_is_no_assignment_is_unknown(data):
    """For any bytes of a client, its partitions are null and nothing fails."""
    assert read_assignment(data) is None


def test_other_protocols_assignments_are_not_guessed_at():
    """Bytes of Connect are not parsed as a consumer's."""
    assert read_described(described(protocol_type="connect")).members[0].partitions is None


def test_errors_become_words():
    """A missing permission has its own word; unknown groups are dead."""
    denied = read_described(described(error_code=30))
    assert (denied.denied, denied.state) == ("group", None)
    moved = read_described(described(error_code=16))
    assert (moved.denied, moved.error) == ("", "not described (NotCoordinatorError)")
    assert read_described(described(error_code=69, group_state="Dead", members=[])).state == "Dead"


def answered(response: type[Any], version: int, members: list[dict[str, Any]], **changes: Any) -> Any:
    """The only group of a response, encoded and decoded as between broker and client."""
    of_group, of_member = response.DescribedGroup, response.DescribedGroup.Member
    fields = {"error_code": 0, "error_message": None, "group_id": "g", "group_state": "Stable", "group_epoch": 7}
    rows = [of_member(version=version, **each) for each in members]
    group = of_group(version=version, **{**fields, "assignment_epoch": 7, "members": rows, **changes})
    sent = response(version=version, throttle_time_ms=0, groups=[group]).encode(version=version)
    (read,) = response[version].decode(sent).groups
    return read


MEMBER = {"member_id": "m", "client_id": "c", "client_host": "/h", "member_epoch": 6}


def test_a_consumer_group_has_epochs_and_members():
    """Of KIP-848: the group's epoch, its assignor, and each member's epoch and partitions, sorted."""
    response = ConsumerGroupDescribeResponse
    topics = response.DescribedGroup.Member.Assignment
    assigned = topics(
        topic_partitions=[topics.TopicPartitions(topic_id=uuid.uuid4(), topic_name="t", partitions=[3, 1])]
    )
    member = {**MEMBER, "instance_id": "i", "assignment": assigned, "target_assignment": topics(topic_partitions=[])}
    read = read_coordinated(answered(response, 1, [member], assignor_name="uniform"))
    assert (read.state, read.epoch, read.protocol, read.error) == ("Stable", 7, "uniform", None)
    assert read.members == (
        ProbedMember("m", "c", "/h", group_instance_id="i", member_epoch=6, partitions={"t": [1, 3]}),
    )


def test_a_share_group_has_no_static_members():
    """Otherwise it is described like a consumer group (KIP-932)."""
    response = ShareGroupDescribeResponse
    topics = response.DescribedGroup.Member.Assignment
    assigned = topics(topic_partitions=[topics.TopicPartitions(topic_id=uuid.uuid4(), topic_name="t", partitions=[0])])
    read = read_coordinated(answered(response, 1, [{**MEMBER, "assignment": assigned}], assignor_name="simple"))
    assert read.members == (ProbedMember("m", "c", "/h", member_epoch=6, partitions={"t": [0]}),)


def test_tasks_of_a_streams_group_are_the_partitions_that_they_read():
    """Of each source topic of their subtopology (KIP-1071), as in the log; of an unknown topology, by its id."""
    response = StreamsGroupDescribeResponse
    of_group, of_member = response.DescribedGroup, response.DescribedGroup.Member
    topology = of_group.Topology(
        epoch=1,
        subtopologies=[
            of_group.Topology.Subtopology(
                subtopology_id="0",
                source_topics=["orders"],
                repartition_source_topics=[
                    of_group.Topology.Subtopology.TopicInfo(name="by-key", partitions=4, replication_factor=1)
                ],
            )
        ],
    )
    tasks = of_member.Assignment(
        active_tasks=[of_member.Assignment.TaskIds(subtopology_id="0", partitions=[2, 0])],
        standby_tasks=[],
        warmup_tasks=[],
    )
    member = {**MEMBER, "assignment": tasks, "target_assignment": tasks, "user_endpoint": None}
    read = read_coordinated(answered(response, 0, [member], topology=topology))
    assert read.members[0].partitions == {"orders": [0, 2], "by-key": [0, 2]}
    assert read.protocol is None
    unknown = read_coordinated(answered(response, 0, [member], topology=None))
    assert unknown.members[0].partitions == {"0": [0, 2]}


def test_errors_of_groups_with_epochs_become_words():
    """A group that is gone is dead; of two permissions that may be missing, it is known which."""
    gone = read_coordinated(answered(ConsumerGroupDescribeResponse, 1, [], error_code=69))
    assert (gone.state, gone.error) == (GroupState.DEAD, None)
    for code, resource in ((30, "group"), (29, "topic"), (16, "")):
        refused = read_coordinated(answered(ConsumerGroupDescribeResponse, 1, [], error_code=code))
        assert (refused.state, refused.denied) == (None, resource)
        assert refused.error


def test_topic_ids_are_written_as_kafka_does():
    """Base64 for URLs, 22 characters, both ways; other texts are not ids."""
    topic_id = uuid.UUID("f2fdc62e-845c-4076-b8a8-68c3506a5c1c")
    assert topic_id_text(topic_id) == "8v3GLoRcQHa4qGjDUGpcHA"
    assert parse_topic_id("8v3GLoRcQHa4qGjDUGpcHA") == topic_id
    assert parse_topic_id("orders") is None
    assert parse_topic_id("orders.orders.orders.1") is None


def test_a_topics_error_says_what_to_grant():
    """An unauthorised topic is distinguished from a missing one."""
    fields = {"name": "t", "partitions": [], "topic_id": None}
    denied = read_topic(SimpleNamespace(error_code=29, **fields))
    assert denied.is_denied
    assert "kafka-acls --bootstrap-server HOST:PORT --add --operation Describe --topic t" in (denied.error or "")
    assert not read_topic(SimpleNamespace(error_code=3, **fields)).is_denied


def test_leaders_are_by_partition_number():
    """In any order; an invalid number is left out."""
    rows = [SimpleNamespace(partition_index=number, leader_id=leader) for number, leader in ((1, 7), (0, -1), (9, 5))]
    topic = read_topic(SimpleNamespace(error_code=0, name="t", partitions=rows))
    assert (topic.leaders, topic.partitions) == ((-1, 7, -1), 3)
