"""Requests groups from coordinators: which there are, their states, and their members."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.errors import GroupAuthorizationFailedError, IncompatibleBrokerVersion, UnsupportedVersionError, for_code
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from rebalance_contract import CONSUMER_PROTOCOL, COORDINATED_TYPES, UNSETTLED_STATES, Partitions, ProbedMember
from rebalance_exporters.prober.answers import GROUP_ID_NOT_FOUND, Described, GroupList, Listed
from rebalance_exporters.prober.brokers import Answer, Brokers
from rebalance_exporters.prober.coordinated import REQUESTS, read_coordinated
from rebalance_exporters.prober.coordinators import find_coordinators
from rebalance_exporters.prober.tasks import describe

_DESCRIBED_AT_ONCE = 100
#: Errors of a broker that does not know a version of a request.
_UNSUPPORTED = (IncompatibleBrokerVersion, UnsupportedVersionError)


class GroupAsker:
    """Queries all coordinators for groups."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def list_all(self) -> GroupList:
        """Return every group that this client may see."""
        return _read_lists(self._ask_for_lists(self._brokers.ids))

    def list_unstable(self) -> GroupList:
        """Return the groups in an unstable state; from brokers older than 2.6 all groups, without states."""
        return self._list_filtered(states_filter=list(UNSETTLED_STATES), min_version=4)

    def list_newer(self) -> GroupList:
        """Return the groups that are not classic; from brokers older than 3.8 all groups, without types."""
        return self._list_filtered(types_filter=list(COORDINATED_TYPES), min_version=5)

    def _list_filtered(self, **fields: Any) -> GroupList:
        """Return the lists of all brokers; those that do not know the filter list all their groups.

        What a broker knows is not remembered: during a rolling upgrade brokers differ, and learn it one by one.
        """
        answers = self._ask_for_lists(self._brokers.ids, **fields)
        older = [broker for broker, answer in answers.items() if isinstance(answer, _UNSUPPORTED)]
        if older:
            answers |= self._ask_for_lists(older)
        return _read_lists(answers)

    def _ask_for_lists(self, brokers: Iterable[int | None], **fields: Any) -> dict[int | None, Answer | Exception]:
        """Return the answer of each broker, or the error in its place; `fields` are those of the request."""
        # Each broker has a request of its own: the client gives a request the version of the first broker it is for.
        asked = {broker: [ListGroupsRequest(**{"min_version": 0, **fields})] for broker in brokers}
        return {broker: answer for broker, (answer,) in self._brokers.ask(asked).items()}

    def describe(self, groups: Iterable[Listed]) -> list[Described]:
        """Return the coordinators' descriptions of groups, one per group: classic ones and those in `describable`."""
        describable = self.describable()
        names: dict[tuple[int, str | None], list[str]] = defaultdict(list)
        for listed in groups:
            names[listed.coordinator_id, listed.type if listed.type in describable else None].append(listed.group)
        batches: dict[int | None, list[_Batch]] = defaultdict(list)
        for (broker, kind), each in names.items():
            batches[broker] += [_Batch(kind, part) for part in _in_batches(each)]
        answers = self._brokers.ask({broker: [batch.request() for batch in each] for broker, each in batches.items()})
        return [
            described
            for broker, each in batches.items()
            for batch, answer in zip(each, answers[broker], strict=True)
            for described in batch.read(answer)
        ]

    def describe_unlisted(self, types: Mapping[str, str | None]) -> list[Described]:
        """Return the descriptions of groups that are in no list, from the coordinators that they have now.

        `types` has the type that each group had, null if not known. A group that does not exist is `Dead`.
        """
        coordinators = find_coordinators(self._brokers, list(types))
        unknown = [_undescribed(name, each) for name, each in coordinators.items() if isinstance(each, Exception)]
        listed = [
            Listed(name, each, protocol_type="", type=types[name])
            for name, each in coordinators.items()
            if not isinstance(each, Exception)
        ]
        return unknown + self.describe(listed)

    def describable(self) -> frozenset[str]:
        """Return the types of groups, besides classic ones, that the brokers can describe."""
        return frozenset(kind for kind, request in REQUESTS.items() if self._brokers.knows(request))


@dataclass(frozen=True, slots=True)
class _Batch:
    """Groups of one type that are described in one request; `kind` is null for classic groups."""

    kind: str | None
    names: list[str]

    def request(self) -> Any:
        if self.kind is None:
            return DescribeGroupsRequest(groups=self.names, include_authorized_operations=False)
        return REQUESTS[self.kind](group_ids=self.names, include_authorized_operations=False)

    def read(self, answer: Any) -> list[Described]:
        if isinstance(answer, Exception):
            return [_undescribed(name, answer) for name in self.names]
        return [read_described(row) if self.kind is None else read_coordinated(row) for row in answer.groups]


def _undescribed(group: str, error: Exception) -> Described:
    denied = "group" if isinstance(error, GroupAuthorizationFailedError) else ""
    return Described(group, None, error=f"not described ({describe(error)})", denied=denied)


def _read_lists(answers: Mapping[int | None, Answer | Exception]) -> GroupList:
    found = GroupList()
    for broker, answer in answers.items():
        assert broker is not None
        if isinstance(answer, Exception):
            found.errors.append(f"broker {broker} did not list its groups ({describe(answer)})")
        elif answer.error_code:
            found.errors.append(f"broker {broker} lists no groups ({for_code(answer.error_code).__name__})")
        else:
            found.answered.add(broker)
            found.groups += [read_listed(row, broker) for row in answer.groups]
    return found


def _in_batches(names: Sequence[str]) -> list[list[str]]:
    return [list(names[at : at + _DESCRIBED_AT_ONCE]) for at in range(0, len(names), _DESCRIBED_AT_ONCE)]


def read_listed(row: Any, broker: int) -> Listed:
    """Return one row of ListGroups; fields that the request's version lacks are null."""
    group_type = getattr(row, "group_type", None)
    return Listed(
        group=row.group_id,
        coordinator_id=broker,
        protocol_type=row.protocol_type,
        state=getattr(row, "group_state", None) or None,
        type=group_type.lower() if group_type else None,
    )


def read_described(row: Any) -> Described:
    """Return one row of DescribeGroups. A group that is unknown, or not a classic one, is `Dead`."""
    if row.error_code not in (0, GROUP_ID_NOT_FOUND):
        error = for_code(row.error_code)
        return Described(
            row.group_id,
            None,
            error=f"not described ({error.__name__})",
            denied="group" if error is GroupAuthorizationFailedError else "",
        )
    return Described(
        group=row.group_id,
        state=row.group_state,
        protocol_type=row.protocol_type,
        protocol=row.protocol_data or None,
        members=tuple(_read_member(member, row.protocol_type) for member in row.members),
    )


def _read_member(member: Any, protocol_type: str) -> ProbedMember:
    return ProbedMember(
        member_id=member.member_id,
        client_id=member.client_id or "",
        host=member.client_host,
        group_instance_id=getattr(member, "group_instance_id", None),
        partitions=read_assignment(member.member_assignment) if protocol_type == CONSUMER_PROTOCOL else None,
    )


def read_assignment(data: bytes) -> Partitions | None:
    """Return an assignment of the consumer protocol; null if it is empty or not one."""
    try:
        assignment = ConsumerProtocolAssignment.decode(bytes(data)) if data else None
    except Exception:  # the bytes are a client's own and may be anything
        return None
    if assignment is None:
        return None
    return {topic.topic: sorted(topic.partitions) for topic in assignment.assigned_partitions}
