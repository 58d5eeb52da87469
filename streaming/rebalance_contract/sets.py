"""The closed sets: every word of a fixed list that rows carry, declared once.

All sides compare with these members and show them; a member is its own text (`StrEnum`), so it stands in JSON, in a
label and in a sentence as it is. A field has its set as its type where only the monitor writes it and a word beyond
the set makes the row useless: `RebalanceOutcome`, `FindingState`, `StatusKind`. It is text (`Any…`, below) where the
set is what is known today: brokers may name a new state or type, and a newer stream a new reason, severity or source.
Readers pass such words on.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta


class GroupType(StrEnum):
    """What kind of group it is: Kafka's names in lower case (org.apache.kafka.common.GroupType), and two more.

    Groups of type `simple` commit and have no members; those of `zookeeper` live there and are known by probes only.
    """

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    SIMPLE = "simple"
    ZOOKEEPER = "zookeeper"


#: The types of KIP-848, KIP-932 and KIP-1071, in whose groups the coordinator assigns; DescribeGroups knows none.
COORDINATED_TYPES = (GroupType.CONSUMER, GroupType.SHARE, GroupType.STREAMS)


class GroupState(StrEnum):
    """A group's state by Kafka's names (org.apache.kafka.common.GroupState), in the order that a group goes through.

    `Deleted` is the monitor's word for a group whose records are gone, `Dead` a coordinator's for one that it does not
    know.
    """

    DELETED = "Deleted"
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    NOT_READY = "NotReady"
    DEAD = "Dead"


#: States in which a group consumes, or has nothing to.
SETTLED_STATES = (GroupState.STABLE, GroupState.EMPTY, GroupState.DEAD, GroupState.DELETED)
#: Those that a group does not rest in.
UNSETTLED_STATES = tuple(state for state in GroupState if state not in SETTLED_STATES)

#: The states that a group with members can be in, by its type.
STATES_OF: Mapping[str, tuple[GroupState, ...]] = {
    GroupType.CLASSIC: (
        GroupState.EMPTY,
        GroupState.PREPARING_REBALANCE,
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
    ),
    GroupType.CONSUMER: (GroupState.EMPTY, GroupState.ASSIGNING, GroupState.RECONCILING, GroupState.STABLE),
    GroupType.SHARE: (GroupState.EMPTY, GroupState.STABLE),
    GroupType.STREAMS: (
        GroupState.EMPTY,
        GroupState.NOT_READY,
        GroupState.ASSIGNING,
        GroupState.RECONCILING,
        GroupState.STABLE,
    ),
}


class MemberState(StrEnum):
    """A member's state in a group whose coordinator assigns; `away`: a static member that said it will return."""

    STABLE = "stable"
    UNREVOKED = "unrevoked"
    UNRELEASED = "unreleased"
    AWAY = "away"


class RebalanceReason(StrEnum):
    """What started a rebalance, according to the log alone."""

    FIRST_JOIN = "first_join"
    JOIN = "join"
    DEPARTURE = "departure"
    REPLACEMENT = "replacement"
    SWAP = "swap"
    GROUP_EMPTIED = "group_emptied"
    SUBSCRIPTION_CHANGE = "subscription_change"
    TOPIC_METADATA_CHANGE = "topic_metadata_change"
    COOPERATIVE_FOLLOWUP = "cooperative_followup"
    RACK_CHANGE = "rack_change"
    STREAMS_INTERNAL = "streams_internal"
    CONNECT_INTERNAL = "connect_internal"
    LEADER_REJOIN = "leader_rejoin"
    OTHER = "other"


class RebalanceOutcome(StrEnum):
    """How a rebalance ended: the group was stable or empty, or was deleted meanwhile."""

    ONGOING = "ongoing"
    COMPLETED = "completed"
    ABORTED = "aborted"


class CountedFrom(StrEnum):
    """What a group's totals and rebalances rest on: the log, which has all of them, or probes, which see some.

    What is counted from probes is *at least* so; the two are never added up.
    """

    LOG = "log"
    PROBES = "probes"


class FindingState(StrEnum):
    """Whether what was found still holds."""

    FIRING = "firing"
    RESOLVED = "resolved"


class Severity(StrEnum):
    """What a finding asks for, gravest first: somebody at once, somebody in working hours, nobody."""

    PAGE = "page"
    TICKET = "ticket"
    INFO = "info"


#: How grave each severity is; more is graver.
GRAVITY: Mapping[str, int] = {severity: rank for rank, severity in enumerate(reversed(Severity))}


def gravity(severity: str) -> int:
    """Return how grave a severity is; one that this version does not know is as grave as any."""
    return GRAVITY.get(severity, GRAVITY[Severity.PAGE])


class EvidenceSource(StrEnum):
    """Where an observation comes from."""

    LOG = "log"
    COMMITS = "commits"
    PROBES = "probes"
    CLIENT_METRICS = "client_metrics"
    ZOOKEEPER = "zookeeper"
    BROKER_LOG = "broker_log"
    ANNOUNCEMENT = "announcement"


class CoordinatorAct(StrEnum):
    """What a group's coordinator writes in its broker's log that it did, or that happened to it.

    `preparing` begins a classic rebalance, `stabilised` ends its join phase, `assigned` its sync phase (of KIP-848: the
    target assignment is computed). `expired`: no heartbeat in a session; `evicted`: did not join or sync in time;
    `fenced`: did not give up partitions in time, or another has its instance id; `away`: a static member of KIP-848
    that said it will return; `replaced`: a static member has a new member id; `untaken`: nobody joined in time;
    `refused`: may not join, because a member that has not left has its instance id; `unassigned`: no target assignment
    could be computed for an epoch.
    """

    PREPARING = "preparing"
    STABILISED = "stabilised"
    ASSIGNED = "assigned"
    EMPTIED = "emptied"
    UNTAKEN = "untaken"
    EPOCH = "epoch"
    NAMED = "named"
    JOINED = "joined"
    SUBSCRIBED = "subscribed"
    EXPIRED = "expired"
    LEFT = "left"
    AWAY = "away"
    EVICTED = "evicted"
    FENCED = "fenced"
    REPLACED = "replaced"
    REFUSED = "refused"
    UNASSIGNED = "unassigned"
    LOADED = "loaded"
    UNLOADED = "unloaded"
    DELETED = "deleted"
    CONVERTED = "converted"


class CoordinatorTrigger(StrEnum):
    """Why a coordinator began to prepare a classic rebalance, as it says itself."""

    JOIN = "join"
    REJOIN = "rejoin"
    LEADER_REJOIN = "leader_rejoin"
    LEAVE = "leave"
    HEARTBEAT_EXPIRATION = "heartbeat_expiration"
    SYNC_EXPIRATION = "sync_expiration"
    STATIC_CHANGE = "static_change"
    OVER_CAPACITY = "over_capacity"
    STORE_FAILED = "store_failed"
    DOWNGRADE = "downgrade"
    OTHER = "other"


class EvidenceStrength(StrEnum):
    """How much an observation counts for or against a diagnosis, least first."""

    WEAK = "weak"
    MODERATE = "moderate"
    STRONG = "strong"
    DECISIVE = "decisive"


class SilenceKind(StrEnum):
    """What was asked for: that nobody is called, or, by a pipeline, that its deploy is taken for one."""

    SILENCE = "silence"
    DEPLOY = "deploy"


class Participant(StrEnum):
    """Writers and readers of topics: the three queries of the stream, the other two processes, clients and brokers."""

    MEMBERSHIP = "membership"
    ACTIVITY = "activity"
    DIAGNOSIS = "diagnosis"
    PROBER = "prober"
    EXPORTER = "exporter"
    CLIENTS = "clients"
    BROKERS = "brokers"


#: The queries of the stream; the first two read the watched log.
QUERIES = (Participant.MEMBERSHIP, Participant.ACTIVITY, Participant.DIAGNOSIS)


class StatusKind(StrEnum):
    """What a row of the status topic reports; the second part of its key."""

    RECORDS = "records"
    QUERY = "query"
    CLIENT_METRICS = "client_metrics"
    DIAGNOSIS = "diagnosis"
    QUARANTINE = "quarantine"
    LOG = "log"


def _known(words: type[StrEnum]) -> Meta:
    return Meta(description="Known words are given as examples; a newer writer may have more.", examples=list(words))


#: Fields whose words a newer writer, or a broker, may add to: text of which a set is known.
AnyGroupType = Annotated[str, _known(GroupType)]
AnyGroupState = Annotated[str, _known(GroupState)]
AnyMemberState = Annotated[str, _known(MemberState)]
AnyReason = Annotated[str, _known(RebalanceReason)]
AnyCountedFrom = Annotated[str, _known(CountedFrom)]
AnySeverity = Annotated[str, _known(Severity)]
AnySource = Annotated[str, _known(EvidenceSource)]
AnyStrength = Annotated[str, _known(EvidenceStrength)]
AnySilenceKind = Annotated[str, _known(SilenceKind)]
AnyAct = Annotated[str, _known(CoordinatorAct)]
AnyTrigger = Annotated[str, _known(CoordinatorTrigger)]


_STATES = {state.lower(): state for state in GroupState}


def read_state(text: str) -> GroupState | None:
    """Return the state that a broker's or a client library's word stands for; null for one that is not known.

    Clients write PreparingRebalance, PREPARING_REBALANCE or PREPARING_REBALANCING.
    """
    return _STATES.get(text.lower().replace("_", "").replace("rebalancing", "rebalance"))
