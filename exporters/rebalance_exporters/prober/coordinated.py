"""Requests and reads descriptions of groups whose coordinator assigns partitions: consumer, share and streams groups.

Their answers have what those of classic groups lack: the group's epoch, which is raised for every rebalance (KIP-848).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError, for_code

from rebalance_contract import GroupState, GroupType, Partitions, ProbedMember
from rebalance_exporters.prober.answers import GROUP_ID_NOT_FOUND, Described
from rebalance_exporters.prober.group_messages import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)

#: The request that describes groups of a type.
REQUESTS: Mapping[str, type[Any]] = {
    GroupType.CONSUMER: ConsumerGroupDescribeRequest,
    GroupType.SHARE: ShareGroupDescribeRequest,
    GroupType.STREAMS: StreamsGroupDescribeRequest,
}
#: The kind of resource whose permission is missing, by error; the latter since 4.0, if members subscribe to topics that
#: the client may not describe.
_DENIED = {GroupAuthorizationFailedError: "group", TopicAuthorizationFailedError: "topic"}


def read_coordinated(row: Any) -> Described:
    """Return one group of a response. A group that is unknown, or of another type, is `Dead`."""
    if row.error_code == GROUP_ID_NOT_FOUND:
        return Described(row.group_id, GroupState.DEAD)
    if row.error_code:
        error = for_code(row.error_code)
        return Described(row.group_id, None, error=f"not described ({error.__name__})", denied=_DENIED.get(error, ""))
    topics = _topics_of_subtopologies(getattr(row, "topology", None))
    return Described(
        group=row.group_id,
        state=row.group_state,
        protocol=getattr(row, "assignor_name", None) or None,
        epoch=row.group_epoch,
        members=tuple(_read_member(member, topics) for member in row.members),
    )


def _topics_of_subtopologies(topology: Any) -> dict[str, list[str]]:
    """Return the topics that each subtopology of a streams group reads; none while the topology is not known."""
    parts: Iterable[Any] = () if topology is None else topology.subtopologies or ()
    return {
        each.subtopology_id: [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
        for each in parts
    }


def _read_member(member: Any, topics: Mapping[str, list[str]]) -> ProbedMember:
    return ProbedMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        # Share groups have no static members.
        group_instance_id=getattr(member, "instance_id", None),
        member_epoch=member.member_epoch,
        partitions=_read_assignment(member.assignment, topics),
    )


def _read_assignment(assignment: Any, topics: Mapping[str, list[str]]) -> Partitions:
    """Return partitions by topic. A task reads its partition of each topic of its subtopology (KIP-1071)."""
    if not hasattr(assignment, "active_tasks"):
        return {each.topic_name: sorted(each.partitions) for each in assignment.topic_partitions}
    return {
        topic: sorted(each.partitions)
        for each in assignment.active_tasks
        for topic in topics.get(each.subtopology_id) or (each.subtopology_id,)
    }
