"""Texts that group coordinators write in their brokers' logs, and the event for each text.

Each text is cited by the methods that write it: those of kafka.coordinator.group.GroupCoordinator and
GroupMetadataManager (Scala, all versions up to 3.9), and those of o.a.k.coordinator.group.GroupMetadataManager (Java,
from 3.7 on behind `group.coordinator.rebalance.protocols`, the only one from 4.0 on). Read in the sources of 2.0.0,
2.3.0, 2.4.0, 2.8.0, 3.0.0, 3.1.0, 3.2.0, 3.9.0 and of the trunk that became 4.0, and in the classes of 3.9.2 and 4.3.1.
Debug lines are omitted: no broker writes them with its default settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rebalance_contract.sets import CoordinatorAct as Act
from rebalance_streaming.wire.broker_logs.templates import Template, template


@dataclass(frozen=True, slots=True)
class CoordinatorText:
    """A text of a coordinator. `fixed` are values that follow from the text."""

    act: Act
    template: Template
    fixed: Mapping[str, str]


def _text(act: Act, words: str, **fixed: str) -> CoordinatorText:
    return CoordinatorText(act, template(words), fixed)


#: In matching order: if a text is a prefix of another, the longer one comes first.
TEXTS: tuple[CoordinatorText, ...] = (
    # prepareRebalance; up to 2.1 without state and reason
    _text(
        Act.PREPARING,
        "Preparing to rebalance group {group} in state {state} with old generation {generation} (reason: {why}",
    ),
    _text(Act.PREPARING, "Preparing to rebalance group {group} with old generation {generation} "),
    # onCompleteJoin; completeClassicGroupJoin. Up to 2.4 without the number of members
    _text(
        Act.STABILISED,
        "Stabilized group {group} generation {generation} (__consumer_offsets-{log}) with {members} members",
    ),
    _text(Act.STABILISED, "Stabilized group {group} generation {generation} with {members} members"),
    _text(Act.STABILISED, "Stabilized group {group} generation {generation} "),
    # doSyncGroup; classicGroupSyncToClassicGroup. Up to 2.4 nothing after the generation, up to 2.8 no leader
    _text(
        Act.ASSIGNED,
        "Assignment received from leader for group {group} for generation {generation}. "
        "The group has {members} members",
    ),
    _text(Act.ASSIGNED, "Assignment received from leader for group {group} for generation {generation}"),
    _text(
        Act.ASSIGNED,
        "Assignment received from leader {member} for group {group} for generation {generation}. "
        "The group has {members} members",
    ),
    # onCompleteJoin; completeClassicGroupJoin
    _text(Act.EMPTIED, "Group {group} with generation {generation} is now empty"),
    _text(Act.UNTAKEN, "Group {group} could not complete rebalance because no members rejoined"),
    _text(Act.EVICTED, "Group {group} removed dynamic members who haven't joined: {listed}"),
    _text(
        Act.EVICTED,
        "Group {group} removed members who haven't sent their sync requests: {listed}",
        reason="did not send its sync request in time",
    ),
    # onExpireHeartbeat; expireClassicGroupMemberHeartbeat
    _text(Act.EXPIRED, "Member {member} in group {group} has failed, removing it from the group"),
    _text(Act.EXPIRED, "Pending member {member} in group {group} has been removed after session timeout expiration"),
    # handleLeaveGroup: 2.3; 2.4 to 2.8; 3.0 and 3.1; from 3.2 on (KIP-800)
    _text(Act.LEFT, "Member {member} in group {group} has left, removing it from the group"),
    _text(
        Act.LEFT,
        "Member[group.instance.id {instance}, member.id {member}] in group {group} has left, removing it from",
    ),
    _text(
        Act.LEFT,
        "Member MemberMetadata(memberId={member}, groupInstanceId={instance}, clientId={client}) has left group "
        "{group} through explicit `LeaveGroup`; client reason: {detail}",
    ),
    _text(
        Act.LEFT,
        "Member MemberMetadata(memberId={member}, groupInstanceId={instance}, clientId={client}) has left group "
        "{group} through explicit `LeaveGroup`",
    ),
    _text(Act.LEFT, "Pending member {member} is leaving group {group}."),
    _text(
        Act.LEFT, "Pending member with memberId={member} has left group {group} through explicit `LeaveGroup` request"
    ),
    # removeCurrentMemberFromClassicGroup, classicGroupLeaveToClassicGroup
    _text(
        Act.LEFT,
        "[Group {group}] Member {member} has left group through explicit `LeaveGroup` request; client reason: {detail}",
    ),
    _text(
        Act.LEFT,
        "[Group {group}] Pending member {member} has left group through explicit `LeaveGroup` request; "
        "client reason: {detail}",
    ),
    # classicGroupLeaveToConsumerGroup: 3.8 to 4.0; later
    _text(
        Act.LEFT,
        "[Group {group}] Dynamic Member {member} has left group through explicit `LeaveGroup` request; "
        "client reason: {detail}",
    ),
    _text(
        Act.LEFT,
        "[Group {group}] Static Member {member} with instance id {instance} has left group through explicit "
        "`LeaveGroup` request; client reason: {detail}",
    ),
    _text(
        Act.LEFT,
        "[GroupId {group}] Dynamic member {member} has left group through explicit `LeaveGroup` request; "
        "client reason: {detail}",
    ),
    _text(
        Act.LEFT,
        "[GroupId {group}] Static member {member} with instance id {instance} has left group through explicit "
        "`LeaveGroup` request; client reason: {detail}",
    ),
    # doUnknownJoinGroup, doDynamicNewMemberJoinGroup; classicGroupJoinNewDynamicMember: an id only, or a member
    _text(
        Act.NAMED,
        "Dynamic member with unknown member id joins group {group} in {state} state. Created a new member id {member} "
        "and request",
    ),
    _text(
        Act.JOINED,
        "Dynamic Member with unknown member id joins group {group} in {state} state. Created a new member id {member} "
        "for this member and add",
    ),
    _text(
        Act.JOINED,
        "Dynamic member with unknown member id joins group {group} in state {state}. Created a new member id {member} "
        "and added",
    ),
    _text(
        Act.JOINED,
        "Static Member with unknown member id joins group {group} in {state} state. Created a new member id {member} "
        "for this member and add",
    ),
    # classicGroupJoinExistingMember
    _text(Act.JOINED, "Pending dynamic member with id {member} joins group {group} in {state} state"),
    # doStaticNewMemberJoinGroup; classicGroupJoinNewStaticMember
    _text(
        Act.REPLACED,
        "Static member with groupInstanceId={instance} and unknown member id joins group {group} in {state} state. "
        "Replacing previously mapped member {replaced} with this groupInstanceId",
    ),
    _text(
        Act.JOINED,
        "Static member with groupInstanceId={instance} and unknown member id joins group {group} in {state} state. "
        "Created a new member id {member} for this member and add",
    ),
    # updateStaticMemberAndRebalance, addMemberAndRebalance: 2.6 to 2.8
    _text(
        Act.REPLACED,
        "Static member {instance} of group {group} with unknown member id rejoins, assigning new member id {member}, "
        "while old member id {replaced} will be removed",
    ),
    _text(Act.JOINED, "Adding new static member {instance} to group {group} with member id {member}."),
    # KIP-848, KIP-932: getOrMaybeSubscribeDynamicConsumerMember, getOrMaybeSubscribeStaticConsumerMember
    _text(
        Act.REPLACED,
        "[GroupId {group}] Static member with instance id {instance} re-joins the consumer group using the {protocol} "
        "protocol. Created a new member {member} to replace the existing member {replaced}.",
    ),
    _text(
        Act.JOINED,
        "[GroupId {group}] Static member {member} with instance id {instance} joins the consumer group using",
    ),
    _text(Act.JOINED, "[GroupId {group}] Member {member} joins the consumer group using"),
    _text(Act.JOINED, "[GroupId {group}] Member {member} joins the share group using"),
    _text(
        Act.NAMED,
        "[GroupId {group}] Dynamic member with unknown member id joins the consumer group. Created a new member id "
        "{member} and request",
    ),
    # hasMemberSubscriptionChanged, updateRegularExpressions, maybeUpdateGroupSubscriptionType
    _text(Act.SUBSCRIBED, "[GroupId {group}] Member {member} updated its subscribed topics to: "),
    _text(Act.SUBSCRIBED, "[GroupId {group}] Member {member} updated its subscribed regex to: "),
    # consumerGroupLeave, shareGroupLeave
    _text(
        Act.AWAY,
        "[GroupId {group}] Static Member {member} with instance id {instance} temporarily left the consumer group",
    ),
    _text(
        Act.AWAY,
        "[GroupId {group}] Static member {member} with instance id {instance} temporarily left the consumer group",
    ),
    _text(Act.LEFT, "[GroupId {group}] Static Member {member} with instance id {instance} left the consumer group"),
    _text(Act.LEFT, "[GroupId {group}] Static member {member} with instance id {instance} left the consumer group"),
    _text(Act.LEFT, "[GroupId {group}] Member {member} left the consumer group"),
    _text(Act.LEFT, "[GroupId {group}] Member {member} left the share group"),
    # consumerGroupFenceMemberOperation, shareGroupFenceMemberOperation, scheduleConsumerGroupRebalanceTimeout
    _text(
        Act.EXPIRED,
        "[GroupId {group}] Member {member} fenced from the group because the member session expired",
        reason="the member session expired",
    ),
    _text(
        Act.EVICTED,
        "[GroupId {group}] Member {member} fenced from the group because the classic member failed to join within",
        reason="the classic member failed to join within the rebalance timeout",
    ),
    _text(
        Act.EVICTED,
        "[GroupId {group}] Member {member} fenced from the group because the member failed to sync within",
        reason="the member failed to sync within timeout",
    ),
    _text(Act.FENCED, "[GroupId {group}] Member {member} fenced from the group because {detail}"),
    # throwIfInstanceIdIsFenced
    _text(
        Act.FENCED,
        "[GroupId {group}] Static member {member} with instance id {instance} is fenced by existing member {replaced}.",
        reason="another member has its instance id",
    ),
    # throwIfInstanceIdIsUnreleased
    _text(
        Act.REFUSED,
        "[GroupId {group}] Static member {member} with instance id {instance} cannot join the group because the "
        "instance id is owned by member {replaced}.",
    ),
    # updateTargetAssignment, where the assignor throws
    _text(
        Act.UNASSIGNED,
        "[GroupId {group}] Failed to compute a new target assignment for epoch {generation}: {detail}",
    ),
    # KIP-1071: getOrMaybeCreateDynamicStreamsMember, streamsGroupLeave, streamsGroupFenceMemberOperation
    _text(Act.JOINED, "[GroupId {group}][MemberId {member}] Member joins the streams group"),
    _text(Act.LEFT, "[GroupId {group}][MemberId {ignored}] Member {member} left the streams group"),
    _text(
        Act.EXPIRED,
        "[GroupId {group}] Streams member {member} fenced from the group because the member session expired",
        reason="the member session expired",
    ),
    _text(Act.FENCED, "[GroupId {group}] Streams member {member} fenced from the group because {detail}"),
    _text(Act.EPOCH, "[GroupId {group}][MemberId {member}] Bumped streams group epoch to {generation} with "),
    # consumerGroupHeartbeat, classicGroupJoinToConsumerGroup, shareGroupHeartbeat; from 4.1 on with the hash
    _text(Act.EPOCH, "[GroupId {group}] Bumped group epoch to {generation} with metadata hash "),
    _text(Act.EPOCH, "[GroupId {group}] Bumped group epoch to {generation}."),
    # updateTargetAssignment
    _text(Act.ASSIGNED, "[GroupId {group}] Computed a new target assignment for epoch {generation} with "),
    # onLoaded, onUnloaded
    _text(Act.LOADED, "Loading group metadata for {group} with generation {generation}"),
    _text(Act.LOADED, "Loaded classic group {group} with {members} members"),
    _text(Act.LOADED, "Loaded consumer group {group} with {members} members"),
    _text(Act.LOADED, "Loaded share group {group} with {members} members"),
    _text(Act.LOADED, "Loaded streams group {group} with {members} members"),
    _text(Act.UNLOADED, "Unloading group metadata for {group} with generation {generation}"),
    _text(Act.UNLOADED, "[GroupId={group}] Unloading group metadata for generation {generation}"),
    _text(Act.UNLOADED, "[GroupId={group}] Unloaded group metadata for group epoch {generation}"),
    # cleanupGroupMetadata, kafka.coordinator.group.GroupMetadataManager
    _text(Act.DELETED, "Group {group} transitioned to Dead in generation {generation}"),
    # convertToConsumerGroup, convertToClassicGroup and the like
    _text(Act.CONVERTED, "[GroupId {group}] Converted the {detail}"),
)

#: Beginnings of coordinators' lines that are no events of groups, or repeat what another line says.
SILENT: tuple[str, ...] = (
    "Starting up",
    "Startup complete",
    "Shutting down",
    "Shutdown complete",
    "Closing coordinator runtime",
    "Coordinator runtime closed",
    "Event processor closed",
    "Elected as the group coordinator",
    "Resigned as the group coordinator",
    "Scheduling ",
    "Started ",
    "Finished ",
    "Ignored ",
    "Already loading",
    "Not loading",
    "Not removing",
    "Removed ",
    "Generated ",
    "The following ",
    "Execution of ",
    "Failed to ",
    "Error loading",
    "Loaded offsets and group metadata",
    "Loaded member ",
    "Loaded transaction",
    "Static member which joins during Stable stage",
    "Static member joins during ",
    # The next two do not name the group; the reason of the rebalance, or the line of the eviction, does.
    "Static member ",
    "Group leader [memberId",
    "Request memberId",
    "Setting empty assignments",
    "Sending empty assignment",
    "Attempt to add rejoining member",
    "Received ",
    "Member id ",
    "Cannot ",
    "Skip ",
    "BrokerId ",
    "group: ",
)
#: The same for lines that begin with the name of their group in brackets: the text after the bracket.
SILENT_OF_GROUP: tuple[str, ...] = (
    "Creating a simple consumer group",
    "Computed new subscription metadata",
    "Computed new metadata hash",
    "Received updated regular expressions",
    "Member ",
    "Static member ",
    "Cannot ",
    "Could",
    "Scanned ",
    "Skipping ",
    "Ignoring ",
    "Configuring ",
    "Assignment configurations changed",
)
