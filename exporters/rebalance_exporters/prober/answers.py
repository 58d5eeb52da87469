"""Answers of coordinators about groups, as values; independent of how they are requested."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_contract import COORDINATED_TYPES, UNSETTLED_STATES, ProbedMember

#: Kafka's error code for a group that its coordinator does not know, or that is of another type.
GROUP_ID_NOT_FOUND = 69


@dataclass(frozen=True, slots=True)
class Listed:
    """One row of a broker's list of groups; the broker that lists a group is its coordinator.

    `state` is null from brokers older than 2.6; `type`, in lower case, from those older than 3.8.
    """

    group: str
    coordinator_id: int
    protocol_type: str
    state: str | None = None
    type: str | None = None

    @property
    def is_classic(self) -> bool:
        """Whether the group can be described as a classic one."""
        return self.type not in COORDINATED_TYPES

    @property
    def is_unstable(self) -> bool:
        """Whether the group must be checked again soon."""
        return self.state is None or self.state in UNSETTLED_STATES


@dataclass(frozen=True, slots=True)
class Described:
    """What a coordinator answered about one group; `state` is null if `error` says why.

    `protocol` is null while none is chosen; for a group that is not classic it is the coordinator's assignor. `epoch`
    is null for classic groups. A classic group's member has no partitions (null) if its assignment is not in the format
    of the consumer protocol; in an unstable group they are those it had before (4.x), or null (older). `denied` is the
    kind of resource that the client may not describe, `group` or `topic`; empty if no permission is missing.
    """

    group: str
    state: str | None
    protocol_type: str = ""
    protocol: str | None = None
    members: tuple[ProbedMember, ...] = ()
    error: str | None = None
    denied: str = ""
    epoch: int | None = None


@dataclass(slots=True)
class GroupList:
    """The groups listed, the brokers that answered, and the errors of the others."""

    groups: list[Listed] = field(default_factory=list)
    answered: set[int] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)
