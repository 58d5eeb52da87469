"""Lines that coordinators of all versions write about their groups, with the event that each describes.

They have the format of real brokers' logs. Those of 3.9.2 and 4.3.1 were written by such brokers (with their original
ids); those of other versions are made from the sources cited in `texts.py`.
"""

from typing import Any

from rebalance_contract import CoordinatorEvent
from rebalance_contract.sets import CoordinatorAct as Act
from rebalance_contract.sets import CoordinatorTrigger as Trigger

A = "c1-3bcb75b9-2e78-4a23-b2f0-6f04989c3760"
B = "my app-37f58e0c-ad00-4dba-9fe2-70306622a478"
OLD, NEW = "static-9a2aebab-8ef8-469a-ada9-e6d98f58e23a", "static-1b2aebab-8ef8-469a-ada9-e6d98f58e23b"
AT_MS = 1_795_391_928_123  # 2026-11-22T23:58:48.123Z
TIME = "2026-11-22 23:58:48,123"

SCALA = "[GroupCoordinator 1]: "
JAVA = "[GroupCoordinator id=1 topic=__consumer_offsets partition=12] "
SCALA_LOGGER, JAVA_LOGGER = (
    "kafka.coordinator.group.GroupCoordinator",
    "org.apache.kafka.coordinator.group.GroupMetadataManager",
)
METADATA = (
    f"MemberMetadata(memberId={A}, groupInstanceId=None, clientId=c1, clientHost=/127.0.0.1, sessionTimeoutMs=45000, "
    "rebalanceTimeoutMs=22000, supportedProtocols=List(range, cooperative-sticky))"
)


def scala(text: str) -> str:
    """Return a line in the format of Kafka's own log4j.properties."""
    return f"[{TIME}] INFO {SCALA}{text} ({SCALA_LOGGER})"


def java(text: str) -> str:
    """Return a line in the format of Kafka's own log4j2.yaml."""
    return f"[{TIME}] INFO {JAVA}{text} ({JAVA_LOGGER})"


def event(act: Act, **values: Any) -> CoordinatorEvent:
    return CoordinatorEvent(AT_MS, act, **values)


PREPARING = "Preparing to rebalance group g in state"
#: (writer, text, event)
LINES: list[tuple[str, str, CoordinatorEvent]] = [
    # --- A rebalance begins ---
    (
        "2.0, 2.1",
        scala("Preparing to rebalance group g with old generation 4 (__consumer_offsets-12)"),
        event(Act.PREPARING, generation=4, trigger=Trigger.OTHER),
    ),
    (
        "2.4",
        scala(
            f"{PREPARING} Stable with old generation 4 (__consumer_offsets-12) (reason: Adding new member {A} with group instanceid None)"
        ),
        event(Act.PREPARING, generation=4, trigger=Trigger.JOIN, member_id=A),
    ),
    (
        "2.8",
        scala(
            f"{PREPARING} PreparingRebalance with old generation 4 (__consumer_offsets-12) (reason: leader {A} re-joining group during Stable)"
        ),
        event(Act.PREPARING, generation=4, trigger=Trigger.LEADER_REJOIN, member_id=A),
    ),
    (
        "2.8",
        scala(
            f"{PREPARING} PreparingRebalance with old generation 4 (__consumer_offsets-12) (reason: removing member {A} on heartbeat expiration)"
        ),
        event(Act.PREPARING, generation=4, trigger=Trigger.HEARTBEAT_EXPIRATION, member_id=A),
    ),
    (
        "3.9.2",
        scala(
            f"{PREPARING} PreparingRebalance with old generation 1 (__consumer_offsets-12) (reason: Adding new member {A} "
            f"with group instance id None; client reason: need to re-join with the given member-id: {A})"
        ),
        event(
            Act.PREPARING,
            generation=1,
            trigger=Trigger.JOIN,
            member_id=A,
            reason=f"need to re-join with the given member-id: {A}",
        ),
    ),
    (
        "3.9.2",
        scala(
            f"{PREPARING} PreparingRebalance with old generation 2 (__consumer_offsets-12) (reason: Removing member {A} on "
            "LeaveGroup; client reason: consumer poll timeout has expired.)"
        ),
        event(
            Act.PREPARING,
            generation=2,
            trigger=Trigger.LEAVE,
            member_id=A,
            reason="consumer poll timeout has expired",
        ),
    ),
    (
        "3.9",
        scala(
            f"{PREPARING} PreparingRebalance with old generation 2 (__consumer_offsets-12) (reason: Removing Set({A}, {B}) on pending sync request expiration)"
        ),
        event(Act.PREPARING, generation=2, trigger=Trigger.SYNC_EXPIRATION),
    ),
    (
        "3.9",
        scala(
            f"{PREPARING} PreparingRebalance with old generation 2 (__consumer_offsets-12) (reason: Member {A} joining group during CompletingRebalance; client reason: not provided)"
        ),
        event(Act.PREPARING, generation=2, trigger=Trigger.REJOIN, member_id=A),
    ),
    (
        "3.9",
        scala(
            f"{PREPARING} PreparingRebalance with old generation 2 (__consumer_offsets-12) (reason: Updating metadata for member {A} during Stable; client reason: not provided)"
        ),
        event(Act.PREPARING, generation=2, trigger=Trigger.REJOIN, member_id=A),
    ),
    (
        "3.9",
        scala(
            f"{PREPARING} PreparingRebalance with old generation 2 (__consumer_offsets-12) (reason: Updating metadata for "
            f"static member {NEW} with instance id Some(static); client reason: not provided)"
        ),
        event(Act.PREPARING, generation=2, trigger=Trigger.STATIC_CHANGE, member_id=NEW),
    ),
    (
        "3.9",
        scala(
            f"{PREPARING} PreparingRebalance with old generation 2 (__consumer_offsets-12) (reason: Error when storing group assignment during SyncGroup (member: {A}))"
        ),
        event(Act.PREPARING, generation=2, trigger=Trigger.STORE_FAILED, member_id=A),
    ),
    (
        "4.3.1",
        java(
            f"{PREPARING} PreparingRebalance with old generation 2 (reason: Adding new member {B} with group instance id null; client reason: not provided)."
        ),
        event(Act.PREPARING, generation=2, trigger=Trigger.JOIN, member_id=B),
    ),
    (
        "4.3.1",
        java(
            f"{PREPARING} PreparingRebalance with old generation 2 (reason: explicit `LeaveGroup` request for ({A}) members.)."
        ),
        event(Act.PREPARING, generation=2, trigger=Trigger.LEAVE, member_id=A),
    ),
    (
        "4.3.1",
        java(
            f"{PREPARING} PreparingRebalance with old generation 2 (reason: explicit `LeaveGroup` request for ({A}, {B}) members.)."
        ),
        event(Act.PREPARING, generation=2, trigger=Trigger.LEAVE),
    ),
    (
        "4.3.1",
        java(
            f"{PREPARING} PreparingRebalance with old generation 2 (reason: removing member {A} on heartbeat expiration.)."
        ),
        event(Act.PREPARING, generation=2, trigger=Trigger.HEARTBEAT_EXPIRATION, member_id=A),
    ),
    (
        "4.3.1",
        java(
            f"{PREPARING} PreparingRebalance with old generation 2 (reason: Leader {A} re-joining group during Stable; client reason: rebalance enforced by user)."
        ),
        event(
            Act.PREPARING,
            generation=2,
            trigger=Trigger.LEADER_REJOIN,
            member_id=A,
            reason="rebalance enforced by user",
        ),
    ),
    (
        "4.3.1",
        java(
            f"{PREPARING} PreparingRebalance with old generation 2 (reason: Removing [{A}] on pending sync request expiration)."
        ),
        event(Act.PREPARING, generation=2, trigger=Trigger.SYNC_EXPIRATION, member_id=A),
    ),
    (
        "4.3.1",
        java(
            f"{PREPARING} PreparingRebalance with old generation 2 (reason: Error NOT_ENOUGH_REPLICAS when storing group assignmentduring SyncGroup (member: {A}).)."
        ),
        event(Act.PREPARING, generation=2, trigger=Trigger.STORE_FAILED, member_id=A, reason="NOT_ENOUGH_REPLICAS"),
    ),
    (
        "4.3.1",
        java(
            f"{PREPARING} PreparingRebalance with old generation 2 (reason: Freshly-loaded group g (size 5) is over capacity 3. Rebalancing in order to give a chance for consumers to commit offsets)."
        ),
        event(Act.PREPARING, generation=2, trigger=Trigger.OVER_CAPACITY),
    ),
    (
        "4.3.1",
        java(
            f"{PREPARING} PreparingRebalance with old generation 2 (reason: Downgrade group g from consumer to classic for member leaving.)."
        ),
        event(Act.PREPARING, generation=2, trigger=Trigger.DOWNGRADE),
    ),
    (
        "to come",
        java(f"{PREPARING} PreparingRebalance with old generation 2 (reason: something new)."),
        event(Act.PREPARING, generation=2, trigger=Trigger.OTHER, reason="something new"),
    ),
    # --- Its end ---
    ("2.0", scala("Stabilized group g generation 5 (__consumer_offsets-12)"), event(Act.STABILISED, generation=5)),
    (
        "3.9.2",
        scala("Stabilized group g generation 5 (__consumer_offsets-12) with 3 members"),
        event(Act.STABILISED, generation=5, members=3),
    ),
    ("4.3.1", java("Stabilized group g generation 5 with 3 members."), event(Act.STABILISED, generation=5, members=3)),
    ("2.0", scala("Assignment received from leader for group g for generation 5"), event(Act.ASSIGNED, generation=5)),
    (
        "2.8",
        scala(
            "Assignment received from leader for group g for generation 5. The group has 3 members, 0 of which are static."
        ),
        event(Act.ASSIGNED, generation=5, members=3),
    ),
    (
        "4.3.1",
        java(
            f"Assignment received from leader {A} for group g for generation 5. The group has 3 members, 1 of which are static."
        ),
        event(Act.ASSIGNED, generation=5, members=3, member_id=A),
    ),
    (
        "3.9.2",
        scala("Group g with generation 6 is now empty (__consumer_offsets-12)"),
        event(Act.EMPTIED, generation=6),
    ),
    ("4.3.1", java("Group g with generation 6 is now empty."), event(Act.EMPTIED, generation=6)),
    ("3.9", scala("Group g could not complete rebalance because no members rejoined"), event(Act.UNTAKEN)),
    (
        "3.9",
        scala(f"Group g removed dynamic members who haven't joined: Set({A})"),
        event(Act.EVICTED, member_id=A),
    ),
    ("4.3.1", java(f"Group g removed dynamic members who haven't joined: [{A}]"), event(Act.EVICTED, member_id=A)),
    # --- Members ---
    ("3.9.2", scala(f"Member {A} in group g has failed, removing it from the group"), event(Act.EXPIRED, member_id=A)),
    ("4.3.1", java(f"Member {B} in group g has failed, removing it from the group."), event(Act.EXPIRED, member_id=B)),
    (
        "4.3.1",
        java(f"Pending member {A} in group g has been removed after session timeout expiration."),
        event(Act.EXPIRED, member_id=A),
    ),
    ("2.3", scala(f"Member {A} in group g has left, removing it from the group"), event(Act.LEFT, member_id=A)),
    (
        "2.8",
        scala(
            f"Member[group.instance.id Some(static), member.id {OLD}] in group g has left, removing it from the group"
        ),
        event(Act.LEFT, member_id=OLD, instance_id="static"),
    ),
    (
        "3.0",
        scala(f"Member {METADATA} has left group g through explicit `LeaveGroup` request"),
        event(Act.LEFT, member_id=A),
    ),
    (
        "3.9.2",
        scala(
            f"Member {METADATA} has left group g through explicit `LeaveGroup`; client reason: consumer poll timeout has expired."
        ),
        event(Act.LEFT, member_id=A, reason="consumer poll timeout has expired"),
    ),
    (
        "3.9.2",
        scala(f"Member {METADATA} has left group g through explicit `LeaveGroup`; client reason: not provided"),
        event(Act.LEFT, member_id=A),
    ),
    (
        "4.3.1",
        java(
            f"[Group g] Member {A} has left group through explicit `LeaveGroup` request; client reason: the consumer is being closed"
        ),
        event(Act.LEFT, member_id=A, reason="the consumer is being closed"),
    ),
    (
        "4.3.1",
        java(
            f"[GroupId g] Static member {OLD} with instance id static has left group through explicit `LeaveGroup` request; client reason: not provided"
        ),
        event(Act.LEFT, member_id=OLD, instance_id="static"),
    ),
    (
        "4.3.1",
        java(
            f"Dynamic member with unknown member id joins group g in Empty state. Created a new member id {A} and requesting the member to rejoin with this id."
        ),
        event(Act.NAMED, member_id=A),
    ),
    (
        "3.9.2",
        scala(
            f"Dynamic member with unknown member id joins group g in Stable state. Created a new member id {A} and request the member to rejoin with this id."
        ),
        event(Act.NAMED, member_id=A),
    ),
    (
        "2.8",
        scala(
            f"Dynamic Member with unknown member id joins group g in Stable state. Created a new member id {A} for this member and add to the group."
        ),
        event(Act.JOINED, member_id=A),
    ),
    (
        "4.3.1",
        java(f"Pending dynamic member with id {A} joins group g in PreparingRebalance state. Adding to the group now."),
        event(Act.JOINED, member_id=A),
    ),
    (
        "4.3.1",
        java(
            f"Static member with groupInstanceId=static and unknown member id joins group g in Stable state. Replacing previously mapped member {OLD} with this groupInstanceId."
        ),
        event(Act.REPLACED, instance_id="static", replaced_id=OLD),
    ),
    (
        "2.8",
        scala(
            f"Static member Some(static) of group g with unknown member id rejoins, assigning new member id {NEW}, while old member id {OLD} will be removed."
        ),
        event(Act.REPLACED, instance_id="static", member_id=NEW, replaced_id=OLD),
    ),
    (
        "4.3.1",
        java(
            f"Static member with groupInstanceId=static-instance and unknown member id joins group g in Empty state. Created a new member id {NEW} for this member and added to the group."
        ),
        event(Act.JOINED, instance_id="static-instance", member_id=NEW),
    ),
    # --- KIP-848, KIP-932, KIP-1071 ---
    (
        "4.3.1",
        java("[GroupId g] Member yw+yfynfTaO5owUhtNbOAA joins the consumer group using the consumer protocol."),
        event(Act.JOINED, member_id="yw+yfynfTaO5owUhtNbOAA"),
    ),
    (
        "4.3.1",
        java("[GroupId g] Member yw+yfynfTaO5owUhtNbOAA left the consumer group."),
        event(Act.LEFT, member_id="yw+yfynfTaO5owUhtNbOAA"),
    ),
    (
        "4.3.1",
        java("[GroupId g] Static member m with instance id i temporarily left the consumer group."),
        event(Act.AWAY, member_id="m", instance_id="i"),
    ),
    (
        "3.9",
        java("[GroupId g] Static Member m with instance id i temporarily left the consumer group."),
        event(Act.AWAY, member_id="m", instance_id="i"),
    ),
    (
        "4.3.1",
        java(
            "[GroupId g] Static member with instance id i re-joins the consumer group using the consumer protocol. Created a new member m2 to replace the existing member m1."
        ),
        event(Act.REPLACED, member_id="m2", instance_id="i", replaced_id="m1"),
    ),
    (
        "4.3.1",
        java("[GroupId g] Member m fenced from the group because the member session expired."),
        event(Act.EXPIRED, member_id="m", reason="the member session expired"),
    ),
    (
        "4.3.1",
        java("[GroupId g] Member m fenced from the group because it failed to transition from epoch 7 within 45000ms."),
        event(Act.FENCED, member_id="m", reason="it failed to transition from epoch 7 within 45000ms"),
    ),
    (
        "4.3.1",
        java(
            "[GroupId g] Member m fenced from the group because the classic member failed to join within the rebalance timeout."
        ),
        event(Act.EVICTED, member_id="m", reason="the classic member failed to join within the rebalance timeout"),
    ),
    (
        "4.3.1",
        java("[GroupId g] Bumped group epoch to 2 with metadata hash -8169664307361605620."),
        event(Act.EPOCH, generation=2),
    ),
    ("3.9", java("[GroupId g] Bumped group epoch to 2."), event(Act.EPOCH, generation=2)),
    (
        "4.3.1",
        java(
            "[GroupId g][MemberId m] Bumped streams group epoch to 2 with metadata hash 5 and validated topic epoch 0."
        ),
        event(Act.EPOCH, generation=2, member_id="m"),
    ),
    (
        "4.3.1",
        java("[GroupId g] Computed a new target assignment for epoch 2 with 'uniform' assignor in 6ms."),
        event(Act.ASSIGNED, generation=2),
    ),
    (
        "4.3.1",
        java("[GroupId g] Member m updated its subscribed topics to: [a, b]."),
        event(Act.SUBSCRIBED, member_id="m"),
    ),
    ("4.3.1", java("[GroupId g][MemberId m] Member m left the streams group."), event(Act.LEFT, member_id="m")),
    # --- Coordinators ---
    ("3.9.2", scala("Unloading group metadata for g with generation 0"), event(Act.UNLOADED, generation=0)),
    ("4.3.1", java("[GroupId=g] Unloading group metadata for generation 6."), event(Act.UNLOADED, generation=6)),
    ("4.3.1", java("[GroupId=g] Unloaded group metadata for group epoch 3."), event(Act.UNLOADED, generation=3)),
    ("3.9.2", scala("Loading group metadata for g with generation 5"), event(Act.LOADED, generation=5)),
    ("4.3.1", java("Loaded classic group g with 2 members."), event(Act.LOADED, members=2)),
    (
        "4.3.1",
        java("[GroupId g] Converted the classic group to a consumer group."),
        event(Act.CONVERTED, reason="classic group to a consumer group"),
    ),
]


LEAVING = "has left group through explicit `LeaveGroup` request; client reason: not provided"
#: (text, event) of less common lines.
LINES += [
    ("rare", line, expected)
    for line, expected in [
        (
            java(f"Group g removed members who haven't sent their sync requests: [{A}]"),
            event(Act.EVICTED, member_id=A, reason="did not send its sync request in time"),
        ),
        (scala(f"Pending member {A} is leaving group g."), event(Act.LEFT, member_id=A)),
        (
            scala(f"Pending member with memberId={A} has left group g through explicit `LeaveGroup` request"),
            event(Act.LEFT, member_id=A),
        ),
        (java(f"[Group g] Pending member {A} {LEAVING}"), event(Act.LEFT, member_id=A)),
        (java(f"[Group g] Dynamic Member {A} {LEAVING}"), event(Act.LEFT, member_id=A)),
        (
            java(f"[Group g] Static Member {OLD} with instance id i {LEAVING}"),
            event(Act.LEFT, member_id=OLD, instance_id="i"),
        ),
        (java(f"[GroupId g] Dynamic member {A} {LEAVING}"), event(Act.LEFT, member_id=A)),
        (
            java(
                f"Dynamic member with unknown member id joins group g in state Stable. Created a new member id {A} and "
                "added the member to the group."
            ),
            event(Act.JOINED, member_id=A),
        ),
        (
            scala(
                f"Static Member with unknown member id joins group g in Stable state. Created a new member id {NEW} for "
                "this member and add to the group."
            ),
            event(Act.JOINED, member_id=NEW),
        ),
        (
            scala(f"Adding new static member i to group g with member id {NEW}."),
            event(Act.JOINED, member_id=NEW, instance_id="i"),
        ),
        (
            java(
                "[GroupId g] Static member m with instance id i joins the consumer group using the consumer protocol."
            ),
            event(Act.JOINED, member_id="m", instance_id="i"),
        ),
        (
            java("[GroupId g] Member m joins the share group using the share protocol."),
            event(Act.JOINED, member_id="m"),
        ),
        (
            java(
                "[GroupId g] Dynamic member with unknown member id joins the consumer group. Created a new member id m "
                "and requesting the member to rejoin with this id."
            ),
            event(Act.NAMED, member_id="m"),
        ),
        (java("[GroupId g] Member m updated its subscribed regex to: a.*."), event(Act.SUBSCRIBED, member_id="m")),
        (
            java("[GroupId g] Static Member m with instance id i left the consumer group."),
            event(Act.LEFT, member_id="m", instance_id="i"),
        ),
        (
            java("[GroupId g] Static member m with instance id i left the consumer group."),
            event(Act.LEFT, member_id="m", instance_id="i"),
        ),
        (java("[GroupId g] Member m left the share group."), event(Act.LEFT, member_id="m")),
        (
            java("[GroupId g] Member m fenced from the group because the member failed to sync within timeout."),
            event(Act.EVICTED, member_id="m", reason="the member failed to sync within timeout"),
        ),
        (
            java("[GroupId g] Static member m2 with instance id i is fenced by existing member m1."),
            event(
                Act.FENCED,
                member_id="m2",
                instance_id="i",
                replaced_id="m1",
                reason="another member has its instance id",
            ),
        ),
        (
            java(
                "[GroupId g] Static member m2 with instance id i cannot join the group because the instance id is owned "
                "by member m1."
            ),
            event(Act.REFUSED, member_id="m2", instance_id="i", replaced_id="m1"),
        ),
        (
            java("[GroupId g] Failed to compute a new target assignment for epoch 5: it broke."),
            event(Act.UNASSIGNED, generation=5, reason="it broke"),
        ),
        (java("[GroupId g][MemberId m] Member joins the streams group."), event(Act.JOINED, member_id="m")),
        (
            java("[GroupId g] Streams member m fenced from the group because the member session expired."),
            event(Act.EXPIRED, member_id="m", reason="the member session expired"),
        ),
        (
            java(
                "[GroupId g] Streams member m fenced from the group because it failed to transition from epoch 2 within "
                "300000ms."
            ),
            event(Act.FENCED, member_id="m", reason="it failed to transition from epoch 2 within 300000ms"),
        ),
        (java("Loaded consumer group g with 2 members."), event(Act.LOADED, members=2)),
        (java("Loaded share group g with 2 members."), event(Act.LOADED, members=2)),
        (java("Loaded streams group g with 2 members."), event(Act.LOADED, members=2)),
        (scala("Group g transitioned to Dead in generation 5"), event(Act.DELETED, generation=5)),
    ]
]
