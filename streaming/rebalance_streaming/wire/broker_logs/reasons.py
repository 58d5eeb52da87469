"""Why a coordinator prepares a rebalance: the reason that it puts in brackets, and the client's reason in it.

Sources: kafka.coordinator.group.GroupCoordinator (2.2 to 3.9) and o.a.k.coordinator.group.GroupMetadataManager (3.7
on), at all calls of `prepareRebalance` and `maybePrepareRebalance`; client reasons since 3.2 (KIP-800).
"""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_contract.sets import CoordinatorTrigger
from rebalance_streaming.wire.broker_logs.templates import Template, template

_CLIENT_REASON = "; client reason: "
#: What a broker writes if the client gives no reason (older than KIP-800, or another library).
_NOT_PROVIDED = "not provided"
LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class StatedReason:
    """A reason. `member_id`: the member named, null for several or none. `text`: see `CoordinatorEvent.reason`.

    If an assignment could not be stored, the text is the error, null up to 2.x, where the coordinator does not name it.
    """

    trigger: CoordinatorTrigger
    member_id: str | None = None
    text: str | None = None


#: The texts of both coordinators, with a lower-case first letter, because that changed between versions.
_REASONS: tuple[tuple[CoordinatorTrigger, Template], ...] = tuple(
    (trigger, template(text))
    for trigger, text in (
        # addMemberAndRebalance; addMemberThenRebalanceOrCompleteJoin
        (CoordinatorTrigger.JOIN, "adding new member {member} with group instance"),
        # doJoinGroup; classicGroupJoinExistingMember: it joins again before it got an assignment
        (CoordinatorTrigger.REJOIN, "member {member} joining group during {state}"),
        (CoordinatorTrigger.REJOIN, "member {member} is joining group during {state}"),
        # updateStaticMemberAndRebalance; updateStaticMemberThenRebalanceOrCompleteJoin
        (CoordinatorTrigger.STATIC_CHANGE, "updating metadata for static member {member} with instance id "),
        (
            CoordinatorTrigger.STATIC_CHANGE,
            "group's selectedProtocol will change because static member {member} with instance id ",
        ),
        (CoordinatorTrigger.REJOIN, "updating metadata for member {member} during {state}"),
        (CoordinatorTrigger.REJOIN, "updating metadata for member {member}"),
        (CoordinatorTrigger.LEADER_REJOIN, "leader {member} re-joining group during {state}"),
        # onExpireHeartbeat; expireClassicGroupMemberHeartbeat
        (CoordinatorTrigger.HEARTBEAT_EXPIRATION, "removing member {member} on heartbeat expiration"),
        # handleLeaveGroup; classicGroupLeaveToClassicGroup
        (CoordinatorTrigger.LEAVE, "removing member {member} on LeaveGroup"),
        (CoordinatorTrigger.LEAVE, "explicit `LeaveGroup` request for ({members}) members"),
        # onExpirePendingSync; expirePendingSync
        (CoordinatorTrigger.SYNC_EXPIRATION, "removing {members} on pending sync request expiration"),
        # onGroupLoaded; onLoaded
        (CoordinatorTrigger.OVER_CAPACITY, "freshly-loaded group"),
        # doSyncGroup; classicGroupSyncToClassicGroup
        (CoordinatorTrigger.STORE_FAILED, "error when storing group assignment during SyncGroup (member: {member})"),
        # KIP-848's coordinator leaves out a space; its errors are those of appendGroupMetadataErrorToResponseError
        (
            CoordinatorTrigger.STORE_FAILED,
            "error {error} when storing group assignmentduring SyncGroup (member: {member})",
        ),
        (CoordinatorTrigger.STORE_FAILED, "error {error} when storing group assignment"),
        # convertToClassicGroup
        (CoordinatorTrigger.DOWNGRADE, "downgrade group"),
    )
)


def read_reason(text: str) -> StatedReason:
    """Return the content of a coordinator's reason."""
    own, asked, stated = text.partition(_CLIENT_REASON)
    lowered = own[:1].lower() + own[1:]
    for trigger, words in _REASONS:
        values = words.match(lowered)
        if values is not None:
            member = values.get("member") or _only(values.get("members"))
            return StatedReason(trigger, member, client_reason(stated) if asked else values.get("error"))
    return StatedReason(CoordinatorTrigger.OTHER, None, text[:LONGEST_REASON])


def client_reason(text: str) -> str | None:
    """Return the client's reason, without the full stop of the sentence around it; null: none."""
    stated = text.strip().rstrip(".")
    return None if stated in ("", _NOT_PROVIDED) else stated[:LONGEST_REASON]


def _only(members: str | None) -> str | None:
    """Return the one member of a list; null where it holds several."""
    names = read_members(members or "")
    return names[0] if len(names) == 1 else None


def read_members(text: str) -> list[str]:
    """Return the members of a collection as written by Scala (`Set(a, b)`), Java (`[a, b]`) and `String.join`."""
    inner = text.strip()
    opened = inner.find("(") + 1 if inner.endswith(")") else 1 if inner.startswith("[") and inner.endswith("]") else 0
    inner = inner[opened : len(inner) - 1] if opened else inner
    return [each for each in inner.split(", ") if each]
