"""Every record type of `__consumer_offsets`, as data.

Source: the schema files in Kafka's `group-coordinator/src/main/resources/common/message/`, 3.7 to 4.4 (up to 3.4 they
lie under `core`). Types 0 to 2 are classic groups and offsets, 3 to 8 and 16 consumer groups (KIP-848), 9 to 15 share
groups (KIP-932), 17 and 19 to 23 streams groups (KIP-1071). Type 18 was never released. Attribute names are Kafka's
field names in snake case. `None` stands for null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rebalance_streaming.wire.schema import (
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID_KIND,
    Plan,
    array,
    plan_for,
    struct,
    wire,
)

ZERO_UUID = UUID(int=0)

# --- Keys: never flexible; the type number takes the place of a version. ---


@dataclass(frozen=True, slots=True)
class OffsetCommitKey:
    """Types 0 and 1: one committed offset."""

    group: str = wire(STRING)
    topic: str = wire(STRING)
    partition: int = wire(INT32)


@dataclass(frozen=True, slots=True)
class GroupMetadataKey:
    """Type 2: one classic group."""

    group: str = wire(STRING)


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Key of record types with one record per group."""

    group_id: str = wire(STRING)


@dataclass(frozen=True, slots=True)
class MemberKey:
    """Key of record types with one record per member."""

    group_id: str = wire(STRING)
    member_id: str = wire(STRING)


@dataclass(frozen=True, slots=True)
class RegularExpressionKey:
    """Type 16: one server-side subscription pattern of a group."""

    group_id: str = wire(STRING)
    regular_expression: str = wire(STRING)


# --- Values: classic groups and offsets ---


@dataclass(frozen=True, slots=True)
class OffsetCommitValue:
    """A committed offset. `commit_timestamp` is the coordinator's clock in ms; `leader_epoch` -1 means unknown.

    `expire_timestamp` is -1 unless the client asked for a retention; `topic_id` is all zero where absent.
    """

    offset: int = wire(INT64)
    leader_epoch: int = wire(INT32, since=3, default=-1)
    metadata: str = wire(STRING, default="")
    commit_timestamp: int = wire(INT64, default=-1)
    expire_timestamp: int = wire(INT64, since=1, until=1, default=-1)
    topic_id: UUID = wire(UUID_KIND, since=4, tag=0, default=ZERO_UUID)


@dataclass(frozen=True, slots=True)
class GroupMetadataMember:
    """A member of a classic group. Timeouts in ms; `rebalance_timeout` is -1 in version 0.

    `subscription` and `assignment` are in the form of the group's protocol type: see assignment.py.
    """

    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=3, nullable=True, default=None)
    client_id: str = wire(STRING, default="")
    client_host: str = wire(STRING, default="")
    rebalance_timeout: int = wire(INT32, since=1, default=-1)
    session_timeout: int = wire(INT32, default=-1)
    subscription: bytes = wire(BYTES, default=b"")
    assignment: bytes = wire(BYTES, default=b"")


@dataclass(frozen=True, slots=True)
class GroupMetadataValue:
    """A classic group. `current_state_timestamp` is -1 in versions 0 and 1; no members means an empty group."""

    protocol_type: str = wire(STRING)
    generation: int = wire(INT32)
    protocol: str | None = wire(STRING, nullable=True)
    leader: str | None = wire(STRING, nullable=True)
    current_state_timestamp: int = wire(INT64, since=2, default=-1)
    members: tuple[GroupMetadataMember, ...] = wire(array(struct(GroupMetadataMember)), default=())


# --- Values: consumer groups (KIP-848) ---


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataValue:
    """The group epoch. `metadata_hash` (4.1+) is 0 where absent, as for an empty group."""

    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64, tag=0, default=0)


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """Racks of one partition's replicas."""

    partition: int = wire(INT32)
    racks: tuple[str, ...] = wire(array(STRING))


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A subscribed topic as the group last saw it."""

    topic_id: UUID = wire(UUID_KIND)
    topic_name: str = wire(STRING)
    num_partitions: int = wire(INT32)
    partition_metadata: tuple[PartitionMetadata, ...] = wire(array(struct(PartitionMetadata)))


@dataclass(frozen=True, slots=True)
class GroupPartitionMetadataValue:
    """Types 4 (up to 4.0) and 9 (3.9 and 4.0): the topics a group subscribes to."""

    topics: tuple[TopicMetadata, ...] = wire(array(struct(TopicMetadata)))


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    """An assignor a classic member offers; `metadata` is a consumer protocol subscription."""

    name: str = wire(STRING)
    metadata: bytes = wire(BYTES)


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata:
    """What a new-protocol group stores of a member that uses the classic protocol."""

    session_timeout_ms: int = wire(INT32)
    supported_protocols: tuple[ClassicProtocol, ...] = wire(array(struct(ClassicProtocol)))


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadataValue:
    """A member. An empty `subscribed_topic_regex` means none, like null."""

    instance_id: str | None = wire(STRING, nullable=True)
    rack_id: str | None = wire(STRING, nullable=True)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: tuple[str, ...] = wire(array(STRING))
    subscribed_topic_regex: str | None = wire(STRING, nullable=True)
    rebalance_timeout_ms: int = wire(INT32)
    server_assignor: str | None = wire(STRING, nullable=True)
    classic_member_metadata: ClassicMemberMetadata | None = wire(
        struct(ClassicMemberMetadata), tag=0, nullable=True, default=None
    )


@dataclass(frozen=True, slots=True)
class TargetAssignmentMetadataValue:
    """Types 6, 12 and 20: the group epoch the target was computed for; the timestamp (4.3+) is 0 where absent."""

    assignment_epoch: int = wire(INT32)
    assignment_timestamp: int = wire(INT64, tag=0, default=0)


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: UUID = wire(UUID_KIND)
    partitions: tuple[int, ...] = wire(array(INT32))


@dataclass(frozen=True, slots=True)
class TargetAssignmentMemberValue:
    """Types 7 and 13: a member's target assignment."""

    topic_partitions: tuple[TopicPartitions, ...] = wire(array(struct(TopicPartitions)))


@dataclass(frozen=True, slots=True)
class OwnedTopicPartitions:
    """Partitions of one topic with the epochs of their assignment (KIP-1251, 4.3+), null before."""

    topic_id: UUID = wire(UUID_KIND)
    partitions: tuple[int, ...] = wire(array(INT32))
    assignment_epochs: tuple[int, ...] | None = wire(array(INT32), tag=0, nullable=True, default=None)


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    """A member's present assignment. State 0 stable, 1 unrevoked, 2 unreleased partitions; epoch -2: static, away."""

    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    state: int = wire(INT8)
    assigned_partitions: tuple[OwnedTopicPartitions, ...] = wire(array(struct(OwnedTopicPartitions)))
    partitions_pending_revocation: tuple[OwnedTopicPartitions, ...] = wire(array(struct(OwnedTopicPartitions)))


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegularExpressionValue:
    """The topics a pattern matched; `version` is the metadata image's, `timestamp` in ms."""

    topics: tuple[str, ...] = wire(array(STRING))
    version: int = wire(INT64)
    timestamp: int = wire(INT64)


# --- Values: share groups (KIP-932) ---


@dataclass(frozen=True, slots=True)
class ShareGroupMemberMetadataValue:
    """A share group's member."""

    rack_id: str | None = wire(STRING, nullable=True)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: tuple[str, ...] = wire(array(STRING))


@dataclass(frozen=True, slots=True)
class ShareGroupMetadataValue:
    """The group epoch; the early-access format of 3.9 and 4.0 lacks the hash and does not decode."""

    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64)


@dataclass(frozen=True, slots=True)
class ShareGroupCurrentMemberAssignmentValue:
    """A share group member's present assignment; several members may have the same partition."""

    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    state: int = wire(INT8)
    assigned_partitions: tuple[TopicPartitions, ...] = wire(array(struct(TopicPartitions)))


@dataclass(frozen=True, slots=True)
class NamedTopicPartitions:
    """Partitions of one topic, by id and name."""

    topic_id: UUID = wire(UUID_KIND)
    topic_name: str = wire(STRING)
    partitions: tuple[int, ...] = wire(array(INT32))


@dataclass(frozen=True, slots=True)
class NamedTopic:
    """A topic by id and name."""

    topic_id: UUID = wire(UUID_KIND)
    topic_name: str = wire(STRING)


@dataclass(frozen=True, slots=True)
class ShareGroupStatePartitionMetadataValue:
    """Partitions of a share group that have delivery state, or whose state is being created or deleted."""

    initializing_topics: tuple[NamedTopicPartitions, ...] = wire(array(struct(NamedTopicPartitions)))
    initialized_topics: tuple[NamedTopicPartitions, ...] = wire(array(struct(NamedTopicPartitions)))
    deleting_topics: tuple[NamedTopic, ...] = wire(array(struct(NamedTopic)))


# --- Values: streams groups (KIP-1071) ---


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A configuration entry or a tag."""

    key: str = wire(STRING)
    value: str = wire(STRING)


@dataclass(frozen=True, slots=True)
class StreamsGroupMetadataValue:
    """The group epoch and the topology epochs that belong to it; -1 where absent."""

    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64)
    validated_topology_epoch: int = wire(INT32, tag=0, default=-1)
    last_assignment_configs: tuple[KeyValue, ...] | None = wire(
        array(struct(KeyValue)), tag=1, nullable=True, default=None
    )
    stored_description_topology_epoch: int = wire(INT32, tag=2, default=-1)
    failed_description_topology_epoch: int = wire(INT32, tag=3, default=-1)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address at which an instance serves interactive queries."""

    host: str = wire(STRING)
    port: int = wire(UINT16)


@dataclass(frozen=True, slots=True)
class StreamsGroupMemberMetadataValue:
    """A streams group's member: one stream thread."""

    instance_id: str | None = wire(STRING, nullable=True)
    rack_id: str | None = wire(STRING, nullable=True)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    rebalance_timeout_ms: int = wire(INT32)
    topology_epoch: int = wire(INT32)
    process_id: str = wire(STRING)
    user_endpoint: Endpoint | None = wire(struct(Endpoint), nullable=True)
    client_tags: tuple[KeyValue, ...] = wire(array(struct(KeyValue)))


@dataclass(frozen=True, slots=True)
class TaskIds:
    """Tasks of one subtopology."""

    subtopology_id: str = wire(STRING)
    partitions: tuple[int, ...] = wire(array(INT32))


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMemberValue:
    """A member's target tasks."""

    active_tasks: tuple[TaskIds, ...] = wire(array(struct(TaskIds)))
    standby_tasks: tuple[TaskIds, ...] = wire(array(struct(TaskIds)))
    warmup_tasks: tuple[TaskIds, ...] = wire(array(struct(TaskIds)))


@dataclass(frozen=True, slots=True)
class OwnedTaskIds:
    """Tasks of one subtopology with the epochs of their assignment (4.2+, active tasks only), null before."""

    subtopology_id: str = wire(STRING)
    partitions: tuple[int, ...] = wire(array(INT32))
    assignment_epochs: tuple[int, ...] | None = wire(array(INT32), tag=0, nullable=True, default=None)


@dataclass(frozen=True, slots=True)
class StreamsGroupCurrentMemberAssignmentValue:
    """A member's present tasks. State 1 stable, 2 unrevoked, 3 unreleased tasks: differs from consumer groups."""

    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    state: int = wire(INT8)
    active_tasks: tuple[OwnedTaskIds, ...] = wire(array(struct(OwnedTaskIds)))
    standby_tasks: tuple[OwnedTaskIds, ...] = wire(array(struct(OwnedTaskIds)))
    warmup_tasks: tuple[OwnedTaskIds, ...] = wire(array(struct(OwnedTaskIds)))
    active_tasks_pending_revocation: tuple[OwnedTaskIds, ...] = wire(array(struct(OwnedTaskIds)))
    standby_tasks_pending_revocation: tuple[OwnedTaskIds, ...] = wire(array(struct(OwnedTaskIds)))
    warmup_tasks_pending_revocation: tuple[OwnedTaskIds, ...] = wire(array(struct(OwnedTaskIds)))


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """An internal topic of a topology; 0 partitions and replication -1 leave the number to the broker."""

    name: str = wire(STRING)
    partitions: int = wire(INT32)
    replication_factor: int = wire(INT16)
    topic_configs: tuple[KeyValue, ...] = wire(array(struct(KeyValue)))


@dataclass(frozen=True, slots=True)
class CopartitionGroup:
    """Indexes of source topics that must have the same number of partitions."""

    source_topics: tuple[int, ...] = wire(array(INT16))
    source_topic_regex: tuple[int, ...] = wire(array(INT16))
    repartition_source_topics: tuple[int, ...] = wire(array(INT16))


@dataclass(frozen=True, slots=True)
class Subtopology:
    """One connected part of a topology."""

    subtopology_id: str = wire(STRING)
    source_topics: tuple[str, ...] = wire(array(STRING))
    source_topic_regex: tuple[str, ...] = wire(array(STRING))
    state_changelog_topics: tuple[TopicInfo, ...] = wire(array(struct(TopicInfo)))
    repartition_sink_topics: tuple[str, ...] = wire(array(STRING))
    repartition_source_topics: tuple[TopicInfo, ...] = wire(array(struct(TopicInfo)))
    copartition_groups: tuple[CopartitionGroup, ...] = wire(array(struct(CopartitionGroup)))


@dataclass(frozen=True, slots=True)
class StreamsGroupTopologyValue:
    """The topology an application registered."""

    epoch: int = wire(INT32)
    subtopologies: tuple[Subtopology, ...] = wire(array(struct(Subtopology)))


# --- The table ---


@dataclass(frozen=True, slots=True)
class RecordType:
    """A record type: its number, Kafka's name, and the structures of key and value.

    Value versions run from 0 to `newest`; those from `flexible_from` on use the flexible encoding.
    """

    number: int
    name: str
    key: type[Any]
    value: type[Any]
    newest: int = 0
    flexible_from: int = 0

    def key_plan(self) -> Plan:
        """Return how to read the key after its type number."""
        return plan_for(self.key, 0, flexible=False)

    def value_plan(self, version: int) -> Plan | None:
        """Return how to read a value of this version after its version number, null for an unknown version."""
        if not 0 <= version <= self.newest:
            return None
        return plan_for(self.value, version, flexible=version >= self.flexible_from)


_TARGET_METADATA = TargetAssignmentMetadataValue
_TYPES = (
    RecordType(0, "LEGACY_OFFSET_COMMIT", OffsetCommitKey, OffsetCommitValue, newest=0, flexible_from=1),
    RecordType(1, "OFFSET_COMMIT", OffsetCommitKey, OffsetCommitValue, newest=4, flexible_from=4),
    RecordType(2, "GROUP_METADATA", GroupMetadataKey, GroupMetadataValue, newest=4, flexible_from=4),
    RecordType(3, "CONSUMER_GROUP_METADATA", GroupKey, ConsumerGroupMetadataValue),
    RecordType(4, "CONSUMER_GROUP_PARTITION_METADATA", GroupKey, GroupPartitionMetadataValue),
    RecordType(5, "CONSUMER_GROUP_MEMBER_METADATA", MemberKey, ConsumerGroupMemberMetadataValue),
    RecordType(6, "CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA", GroupKey, _TARGET_METADATA),
    RecordType(7, "CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER", MemberKey, TargetAssignmentMemberValue),
    RecordType(8, "CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT", MemberKey, ConsumerGroupCurrentMemberAssignmentValue),
    RecordType(9, "SHARE_GROUP_PARTITION_METADATA", GroupKey, GroupPartitionMetadataValue),
    RecordType(10, "SHARE_GROUP_MEMBER_METADATA", MemberKey, ShareGroupMemberMetadataValue),
    RecordType(11, "SHARE_GROUP_METADATA", GroupKey, ShareGroupMetadataValue),
    RecordType(12, "SHARE_GROUP_TARGET_ASSIGNMENT_METADATA", GroupKey, _TARGET_METADATA),
    RecordType(13, "SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER", MemberKey, TargetAssignmentMemberValue),
    RecordType(14, "SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT", MemberKey, ShareGroupCurrentMemberAssignmentValue),
    RecordType(15, "SHARE_GROUP_STATE_PARTITION_METADATA", GroupKey, ShareGroupStatePartitionMetadataValue),
    RecordType(16, "CONSUMER_GROUP_REGULAR_EXPRESSION", RegularExpressionKey, ConsumerGroupRegularExpressionValue),
    RecordType(17, "STREAMS_GROUP_METADATA", GroupKey, StreamsGroupMetadataValue),
    RecordType(19, "STREAMS_GROUP_MEMBER_METADATA", MemberKey, StreamsGroupMemberMetadataValue),
    RecordType(20, "STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA", GroupKey, _TARGET_METADATA),
    RecordType(21, "STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER", MemberKey, StreamsGroupTargetAssignmentMemberValue),
    RecordType(22, "STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT", MemberKey, StreamsGroupCurrentMemberAssignmentValue),
    RecordType(23, "STREAMS_GROUP_TOPOLOGY", GroupKey, StreamsGroupTopologyValue),
)

RECORD_TYPES: dict[int, RecordType] = {each.number: each for each in _TYPES}

#: The topic that contains the log (Kafka: Topic.GROUP_METADATA_TOPIC_NAME).
OFFSETS_TOPIC = "__consumer_offsets"
#: Kafka refuses longer topic names (org.apache.kafka.common.internals.Topic), so they do not exist.
LONGEST_TOPIC = 249
#: First bytes of the keys of offset commits: their types as encoded.
OFFSET_COMMIT_PREFIXES = tuple(
    each.number.to_bytes(2, "big") for each in RECORD_TYPES.values() if each.key is OffsetCommitKey
)
