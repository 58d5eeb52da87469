"""What a group's coordinators logged about it: when a rebalance began and why, and how a member left.

Receives events of brokers' logs in any order, possibly repeated; answers questions about moments. A fact from here is
the coordinator's own statement of its decision. Anything that the broker was not configured to log is missing, and if
no log was shipped every answer is null.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rebalance_contract import CoordinatorAct, CoordinatorEvent, CoordinatorTrigger, Evidence, EvidenceSource, Rebalance

#: Events kept of a group; a rebalance of ten members makes about fifty.
_KEPT = 5_000
#: Lines of one decision are written within this time of each other, and records are stored within it of their line.
_SAME_MS = 1_000
#: Up to 3.9 a leave that releases a join barrier is logged after the release: Kafka's handleLeaveGroup removes the
#: member, which completes the join, before it writes its line.
_RELEASED_MS = 100
#: Events of a member that leaves.
_EXITS = frozenset(
    (CoordinatorAct.EXPIRED, CoordinatorAct.LEFT, CoordinatorAct.AWAY, CoordinatorAct.EVICTED, CoordinatorAct.FENCED)
)
#: Events of a member that joins: it got its id, or its place.
_JOINS = frozenset((CoordinatorAct.NAMED, CoordinatorAct.JOINED))
#: Meanings of the reason that a client, or whoever removed it, gave for a leave (KIP-800): its poll limit passed; an
#: administrator's request; it no longer has a subscription, or reads on before it joins again, and its process runs.
UNPOLLED, REMOVED, UNSUBSCRIBED, BEHIND = "unpolled", "removed", "unsubscribed", "behind"
#: Keys are parts of the reason that all versions have. AbstractCoordinator.handlePollTimeoutExpiry and Connect's
#: WorkerCoordinator; KafkaAdminClient.removeMembersFromConsumerGroup, which puts it before its caller's reason;
#: KafkaConsumer's unsubscribe; Connect's DistributedHerder.readConfigToEnd. Any other reason, or none: a regular leave.
_LEAVES: Mapping[str, str] = {
    "poll timeout has expired": UNPOLLED,
    "member was removed by an admin": REMOVED,
    "the consumer unsubscribed from all topics": UNSUBSCRIBED,
    "taking too long to read the log": BEHIND,
}
#: Parts of the coordinators' reasons for evictions of members that joined and did not ask for their assignment.
_NOT_SYNCED = ("did not send its sync request", "failed to sync")


@dataclass(frozen=True, slots=True)
class RebalanceStart:
    """A coordinator began to prepare a rebalance, from its line `preparing`. Null: not named."""

    at_ms: int
    trigger: str
    member_id: str | None
    reason: str | None

    def evidence(self) -> Evidence:
        """Return what the coordinator wrote as its reason."""
        who = "" if self.member_id is None else f" of {self.member_id}"
        said = "" if self.reason is None else f": {self.reason}"
        return Evidence(EvidenceSource.BROKER_LOG, "preparing", f"{self.trigger}{who}{said}", "what began it")


@dataclass(frozen=True, slots=True)
class LoggedExit:
    """How a member left, as the coordinator logged it. `reason`: the client's or the coordinator's; null: none given.

    `in_barrier`: the group was already preparing a rebalance, for another reason.
    """

    at_ms: int
    act: str
    reason: str | None
    in_barrier: bool

    @property
    def meaning(self) -> str | None:
        """What the reason of a leave means; null for a regular leave, and where no reason was given."""
        if self.act != CoordinatorAct.LEFT or self.reason is None:
            return None
        return next((meaning for words, meaning in _LEAVES.items() if words in (self.reason or "")), None)

    @property
    def is_unsynced(self) -> bool:
        """Whether it was removed because it did not ask for its assignment after joining."""
        return self.act == CoordinatorAct.EVICTED and any(words in (self.reason or "") for words in _NOT_SYNCED)

    def evidence(self) -> Evidence:
        """Return the coordinator's line as an observation."""
        said = "no reason given" if self.reason is None else self.reason
        text = said if self.act in (CoordinatorAct.LEFT, CoordinatorAct.FENCED) else self.reason or _SAID[self.act]
        rule = _UNSYNCED if self.is_unsynced else _RULES_OF_LEAVES.get(self.meaning or "", _RULES[self.act])
        return Evidence(EvidenceSource.BROKER_LOG, self.act, text, rule)


_SAID: Mapping[str, str] = {
    CoordinatorAct.EXPIRED: "has failed, removing it from the group",
    CoordinatorAct.EVICTED: "removed with those who did not join in time",
    CoordinatorAct.AWAY: "a static member said that it will return",
}
_RULES: Mapping[str, str] = {
    CoordinatorAct.EXPIRED: "no heartbeat within its session",
    CoordinatorAct.LEFT: "it said itself that it goes",
    CoordinatorAct.AWAY: "it said itself that it goes",
    CoordinatorAct.EVICTED: "it sent heartbeats and did not join",
    CoordinatorAct.FENCED: "removed by the coordinator",
}
_RULES_OF_LEAVES: Mapping[str, str] = {
    REMOVED: "somebody asked for its removal",
    UNSUBSCRIBED: "its application unsubscribed",
    BEHIND: "it reads on before it joins again",
}
_UNSYNCED = "it joined and did not ask for its assignment"


@dataclass(frozen=True, slots=True)
class StoreFailure:
    """A coordinator could not store an assignment; `error` is null if its version does not name it."""

    at_ms: int
    error: str | None


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """A broker loaded the group. `before` is the broker that logged about it until then; null: not known."""

    at_ms: int
    before: int | None
    broker: int | None


@dataclass(slots=True)
class _Stay:
    """When a member joined and left; null: no line has it."""

    came_ms: int | None = None
    went_ms: int | None = None


@dataclass(slots=True)
class CoordinatorLog:
    """The events of one group, in the order of their times."""

    _events: list[CoordinatorEvent] = field(default_factory=list)
    _known: set[CoordinatorEvent] = field(default_factory=set)
    #: Cached because rules ask for them often and few of thousands of events are loads; null: not computed.
    _loads: tuple[GroupLoad, ...] | None = None
    #: By member; null: not computed. Of a thousand members that share a name, each may be another one come back.
    _stays: dict[str, _Stay] | None = None

    def take(self, events: Iterable[CoordinatorEvent]) -> bool:
        """Process events; return whether any was new."""
        new = [each for each in dict.fromkeys(events) if each not in self._known]
        for each in new:
            self._known.add(each)
            insort(self._events, each, key=_at)
            self._loads = self._stays = None
        if len(self._events) > _KEPT:
            self._known.difference_update(self._events[:-_KEPT])
            del self._events[:-_KEPT]
        return bool(new)

    def is_empty(self) -> bool:
        """Whether no line of this group was ever shipped."""
        return not self._events

    def start_of(self, rebalance: Rebalance) -> RebalanceStart | None:
        """Return when a coordinator began to prepare a classic rebalance, and why; null if no line has it.

        A rebalance whose first generation took several attempts began with the first attempt.
        """
        latest = rebalance.started_before_ms + _SAME_MS
        earliest = None if rebalance.started_after_ms is None else rebalance.started_after_ms - _SAME_MS
        begun = [each for each in self._preparing(earliest, latest) if _leads_to(each, rebalance)]
        if not begun:
            return None
        # If a coordinator prepared without success, its successor prepares again.
        first = begun[-1] if earliest is None else begun[0]
        return RebalanceStart(first.at_ms, first.trigger or "", first.member_id, first.reason)

    def prepared_before(self, released_ms: int, not_before_ms: int | None = None) -> int | None:
        """Return when the coordinator began the join phase that was released at a time; null if no line has it."""
        for each in reversed(list(self._between(not_before_ms, released_ms + _SAME_MS))):
            if each.act == CoordinatorAct.PREPARING and each.at_ms <= released_ms:
                return each.at_ms
            if each.act in _SETTLED and each.at_ms < released_ms - _SAME_MS:
                return None
        return None

    def store_failure(self, rebalance: Rebalance) -> StoreFailure | None:
        """Return the first failure to store an assignment of a rebalance that the coordinator logged; null if none."""
        until_ms = rebalance.last_known_ms + _SAME_MS
        begun = self._preparing(rebalance.started_before_ms - _SAME_MS, until_ms)
        failed = (each for each in begun if each.trigger == CoordinatorTrigger.STORE_FAILED)
        return next((StoreFailure(each.at_ms, each.reason) for each in failed), None)

    def loads(self) -> tuple[GroupLoad, ...]:
        """Return when brokers logged that they loaded the group, oldest first."""
        if self._loads is None:
            self._loads = tuple(self._find_loads())
        return self._loads

    def _find_loads(self) -> Iterator[GroupLoad]:
        before: int | None = None
        for each in self._events:
            if each.act == CoordinatorAct.LOADED:
                yield GroupLoad(each.at_ms, before, each.broker)
            before = before if each.broker is None else each.broker

    def settled_after(self, seen_ms: int, until_ms: int | None) -> int | None:
        """Return when the coordinator first logged that a join phase seen at a time was over; null: no line has it."""
        until_ms = seen_ms if until_ms is None else until_ms
        return next((each.at_ms for each in self._between(seen_ms, until_ms) if each.act in _SETTLED), None)

    def exit_of(self, member_id: str, from_ms: int | None, to_ms: int) -> LoggedExit | None:
        """Return how a member left in a period, the last time it did; null if no line has it."""
        events = list(self._between(from_ms, to_ms))
        for place in range(len(events) - 1, -1, -1):
            each = events[place]
            if each.member_id != member_id:
                continue
            if each.act in _EXITS:
                return LoggedExit(each.at_ms, each.act, each.reason, self._in_barrier(events, place))
            # Without the line of the eviction, the rebalance that it began names the one member concerned.
            if each.act == CoordinatorAct.PREPARING and each.trigger == CoordinatorTrigger.SYNC_EXPIRATION:
                return LoggedExit(each.at_ms, CoordinatorAct.EVICTED, f"{_NOT_SYNCED[0]} in time", in_barrier=False)
        return None

    def were_together(self, former: str, newcomer: str) -> bool:
        """Whether, according to log lines, the newcomer joined before the former member left."""
        if self._stays is None:
            self._stays = self._find_stays()
        nothing = _Stay()
        came_ms, went_ms = self._stays.get(newcomer, nothing).came_ms, self._stays.get(former, nothing).went_ms
        return came_ms is not None and went_ms is not None and came_ms < went_ms

    def _find_stays(self) -> dict[str, _Stay]:
        """Return when each member first came and last went."""
        stays = defaultdict[str, _Stay](_Stay)
        for each in self._events:
            if each.member_id is None:
                continue
            if each.act in _JOINS and stays[each.member_id].came_ms is None:
                stays[each.member_id].came_ms = each.at_ms
            elif each.act in _EXITS:
                stays[each.member_id].went_ms = each.at_ms
        return dict(stays)

    def refusals(self, instance_id: str, from_ms: int) -> tuple[CoordinatorEvent, ...]:
        """Return the joins since a time that were refused because a member had their instance id, oldest first."""
        events = (each for each in self._between(from_ms, self._latest_ms()) if each.act == CoordinatorAct.REFUSED)
        return tuple(each for each in events if each.instance_id == instance_id)

    def failed_target(self, epoch: int) -> CoordinatorEvent | None:
        """Return the latest failure to compute a target assignment for a group epoch; null if no line has it."""
        failed = (each for each in reversed(self._events) if each.act == CoordinatorAct.UNASSIGNED)
        return next((each for each in failed if each.generation == epoch), None)

    def _latest_ms(self) -> int:
        return self._events[-1].at_ms if self._events else 0

    def was_added_at_once(self, member_id: str) -> bool:
        """Whether a member got its id and its place with one request, as by JoinGroup before version 4 (KIP-394).

        Since version 4 the coordinator first assigns an id, and adds the member when it asks again with that id.
        Static members are added at once by any version.
        """
        acts = {each.act for each in self._events if each.member_id == member_id and each.instance_id is None}
        return CoordinatorAct.JOINED in acts and CoordinatorAct.NAMED not in acts

    def _in_barrier(self, events: list[CoordinatorEvent], place: int) -> bool:
        """Whether a rebalance that began for another reason was being prepared when a member left."""
        gone = events[place]
        if gone.act == CoordinatorAct.EVICTED:
            return gone.reason is None
        for each in reversed(self._events[: bisect_right(self._events, gone.at_ms, key=_at)]):
            if each.act in _SETTLED and each.at_ms < gone.at_ms - _RELEASED_MS:
                return False
            if each.act == CoordinatorAct.PREPARING:
                # Up to 3.9 the line of the leave follows that of the rebalance it begins, and if several members leave
                # together only one of them begins it.
                return each.member_id != gone.member_id and each.at_ms < gone.at_ms - _SAME_MS
        return False

    def _preparing(self, from_ms: int | None, to_ms: int) -> Iterator[CoordinatorEvent]:
        return (each for each in self._between(from_ms, to_ms) if each.act == CoordinatorAct.PREPARING)

    def _between(self, from_ms: int | None, to_ms: int) -> Iterator[CoordinatorEvent]:
        begin = 0 if from_ms is None else bisect_left(self._events, from_ms, key=_at)
        return iter(self._events[begin : bisect_right(self._events, to_ms, key=_at)])


#: Events after which no rebalance is being prepared.
_SETTLED = frozenset((CoordinatorAct.STABILISED, CoordinatorAct.EMPTIED, CoordinatorAct.ASSIGNED))


def _at(event: CoordinatorEvent) -> int:
    return event.at_ms


def _leads_to(event: CoordinatorEvent, rebalance: Rebalance) -> bool:
    """Whether the prepared generation is the rebalance's first one, or an aborted one before it."""
    before, first = rebalance.generation_from, rebalance.generations[0].generation if rebalance.generations else None
    if event.generation is None:
        return True
    if before is not None:
        return before <= event.generation and (first is None or event.generation < max(first, before + 1))
    return first is None or event.generation < first
