"""The closed sets: the enumerations whose values appear in rows, declared once.

All components use these members; a member is its own text (`StrEnum`) and appears unchanged in JSON, labels and
sentences. A field has the enumeration as its type only if the monitor alone writes it and a row with an unknown value
is useless: `RebalanceOutcome`, `FindingState`, `StatusKind`. Otherwise its type is text (`Any…`, below), because values
may be added: brokers may report a new state or type, and a newer stream a new reason, severity or source. Readers pass
unknown values on.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta


class GroupType(StrEnum):
    """The type of a group: Kafka's names in lower case (org.apache.kafka.common.GroupType), and two more.

    Groups of type `simple` commit and have no members; those of type `zookeeper` are stored in ZooKeeper and are known
    from probes only.
    """

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    SIMPLE = "simple"
    ZOOKEEPER = "zookeeper"


#: The types of KIP-848, KIP-932 and KIP-1071, in which the coordinator assigns; DescribeGroups supports none of them.
COORDINATED_TYPES = (GroupType.CONSUMER, GroupType.SHARE, GroupType.STREAMS)


class GroupState(StrEnum):
    """A group's state by Kafka's names (org.apache.kafka.common.GroupState), in the order of a group's life cycle.

    `Deleted` is the monitor's own state for a group whose records are gone. A coordinator reports `Dead` for a group
    that it does not know.
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


#: States in which a group consumes, or has nothing to consume.
SETTLED_STATES = (GroupState.STABLE, GroupState.EMPTY, GroupState.DEAD, GroupState.DELETED)
#: Transitional states.
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
    """A member's state in a group whose coordinator assigns; `away`: a static member that announced its return."""

    STABLE = "stable"
    UNREVOKED = "unrevoked"
    UNRELEASED = "unreleased"
    AWAY = "away"


class RebalanceReason(StrEnum):
    """The reason of a rebalance, according to the log alone."""

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
    """How a rebalance ended: completed (the group was stable or empty) or aborted (it was deleted meanwhile)."""

    ONGOING = "ongoing"
    COMPLETED = "completed"
    ABORTED = "aborted"


class CountedFrom(StrEnum):
    """The source of a group's totals and rebalances: the log, which has all of them, or probes, which see some.

    Counts from probes are *lower bounds*; counts from the two sources are never added up.
    """

    LOG = "log"
    PROBES = "probes"


class FindingState(StrEnum):
    """Whether a finding still holds."""

    FIRING = "firing"
    RESOLVED = "resolved"


class Severity(StrEnum):
    """The action that a finding requires, gravest first: immediate, during working hours, none."""

    PAGE = "page"
    TICKET = "ticket"
    INFO = "info"


#: Rank of each severity; higher is graver.
SEVERITY_RANKS: Mapping[str, int] = {severity: rank for rank, severity in enumerate(reversed(Severity))}


def severity_rank(severity: str) -> int:
    """Return the rank of a severity; one that this version does not know has the highest."""
    return SEVERITY_RANKS.get(severity, SEVERITY_RANKS[Severity.PAGE])


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
    """An event that a group's coordinator writes to its broker's log.

    `preparing` begins a classic rebalance, `stabilised` ends its join phase, `assigned` its sync phase (KIP-848: the
    target assignment was computed). `expired`: no heartbeat within the session; `evicted`: did not join or sync in
    time; `fenced`: did not give up partitions in time, or another member has its instance id; `away`: a static member
    of KIP-848 announced its return; `replaced`: a static member has a new member id; `untaken`: no member joined in
    time; `refused`: could not join, because a member that has not left has its instance id; `unassigned`: no target
    assignment could be computed for an epoch.
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
    """Why a coordinator began to prepare a classic rebalance, according to its log line."""

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
    """The weight of an observation for or against a diagnosis, least first."""

    WEAK = "weak"
    MODERATE = "moderate"
    STRONG = "strong"
    DECISIVE = "decisive"


class SilenceKind(StrEnum):
    """The kind of a silence: alerts are silenced, or a pipeline announces a deploy."""

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


#: Types of fields to which a newer writer or a broker may add values: text with a set of known values.
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
    """Return the state for a broker's or client library's name of it; null for an unknown name.

    Clients write PreparingRebalance, PREPARING_REBALANCE or PREPARING_REBALANCING.
    """
    return _STATES.get(text.lower().replace("_", "").replace("rebalancing", "rebalance"))
