"""What is remembered of one group for judging it: snapshots, rebalances, probes, commits, clients, ZooKeeper.

Receives the stream's own rows roughly in the order of their times; a row may be repeated, which changes nothing.
Bounded by count and age, so that a group that rebalances all the time costs no more than another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from rebalance_contract import (
    UNSETTLED_STATES,
    CommitGap,
    GroupSnapshot,
    GroupType,
    Member,
    MemberState,
    OffsetActivity,
    Probe,
    ProbedMember,
    Rebalance,
    RebalanceImpact,
    read_state,
)
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.clients import Clients
from rebalance_streaming.observed.coordinator_log import CoordinatorLog
from rebalance_streaming.observed.progress import Progress

_KEPT_REBALANCES, _KEPT_PROBES, _KEPT_OWNERSHIP = 300, 400, 120
#: Members named in the rebalances kept, some 0.4 kB each where assignments change; the latest few are always kept.
_KEPT_NAMED, _FEWEST_REBALANCES = 200_000, 30
#: Within this time all probes are kept (a start reads as much); of earlier times at rest only the first and the last.
_ALL_PROBES_MS = 900_000
#: A probe shows a state for this long: two probes that are further apart do not prove the same state in between.
SEEN_FOR_MS = 90_000


@dataclass(frozen=True, slots=True)
class Sighting:
    """One probe of a group's state. `members` is null when not asked for; `ids` are their ids, empty when null."""

    at_ms: int
    state: str | None
    members: tuple[ProbedMember, ...] | None
    ids: frozenset[str] = frozenset()

    def adds_nothing_between(self, before: Sighting, after: Sighting) -> bool:
        """Whether this probe saw a group at rest, and the probes before and after it saw the same."""
        if self.state in UNSETTLED_STATES or not before.state == self.state == after.state:
            return False
        if self.members is None:
            return True
        return before.members == self.members and after.members in (None, self.members)


@dataclass(frozen=True, slots=True)
class Coordinator:
    """Which broker coordinated the group from some probe on."""

    at_ms: int
    broker: int


@dataclass(frozen=True, slots=True)
class Ownership:
    """One view of a group that is managed in ZooKeeper: its members, and who owns which partition."""

    at_ms: int
    members: tuple[ProbedMember, ...]
    owners: dict[str, dict[str, str]]


@dataclass(slots=True)
class GroupHistory:
    """Everything remembered of one group."""

    cluster: str
    group: str
    snapshot: GroupSnapshot | None = None
    first_ms: int | None = None
    rebalances: dict[str, Rebalance] = field(default_factory=dict)
    impacts: dict[str, RebalanceImpact] = field(default_factory=dict)
    sightings: deque[Sighting] = field(default_factory=lambda: deque(maxlen=_KEPT_PROBES))
    coordinators: deque[Coordinator] = field(default_factory=lambda: deque(maxlen=20))
    ownership: deque[Ownership] = field(default_factory=lambda: deque(maxlen=_KEPT_OWNERSHIP))
    progress: Progress = field(default_factory=Progress)
    clients: Clients = field(default_factory=Clients)
    coordinator_log: CoordinatorLog = field(default_factory=CoordinatorLog)
    #: Latest description of every member of the rebalances kept.
    members: dict[str, Member] = field(default_factory=dict)
    #: Protocol names in order, with the times of change.
    protocols: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=20))
    topic_counts: dict[str, int] = field(default_factory=dict)
    topic_changes: deque[tuple[int, str, int, int]] = field(default_factory=lambda: deque(maxlen=50))
    had_members_ms: int | None = None
    #: Members that kept partitions which others were to get (KIP-848), as they were then, and the end of that time.
    released: deque[tuple[Member, int]] = field(default_factory=lambda: deque(maxlen=50))
    #: When the latest answer named a coordinator, whether a new one or not.
    _coordinator_ms: int | None = None
    #: Total number of members in the rebalances kept; a member of several counts in each.
    _named: int = 0
    _ordered: list[Rebalance] | None = None
    _listed: tuple[ProbedMember, ...] | None = None
    _listed_ids: frozenset[str] = frozenset()

    def take_group(self, snapshot: GroupSnapshot, at_ms: int) -> None:
        """Process a snapshot; one that is older than the known one changes nothing.

        `at_ms` is 0 at a start, before the time is known up to which the rows have been read.
        """
        known = self.snapshot
        if known is not None and _position(snapshot) < _position(known):
            return
        if known is not None:
            self._note_released(known, snapshot, at_ms)
        self.snapshot = snapshot
        first_ms = at_ms if snapshot.first_seen_ms is None else snapshot.first_seen_ms
        if first_ms:
            self._note_age(first_ms)
        self._shared(snapshot.members)
        if snapshot.members:
            self.had_members_ms = max(snapshot.updated_at_ms or at_ms, self.had_members_ms or 0)
        if snapshot.protocol and (not self.protocols or self.protocols[-1][1] != snapshot.protocol):
            self.protocols.append((snapshot.updated_at_ms or at_ms, snapshot.protocol))

    def _note_released(self, known: GroupSnapshot, snapshot: GroupSnapshot, at_ms: int) -> None:
        now = {each.member_id: (each.state, each.state_since_ms) for each in snapshot.members}
        for each in known.members:
            state = (each.state, each.state_since_ms)
            if each.state == MemberState.UNREVOKED and now.get(each.member_id) != state:
                self.released.append((each, snapshot.updated_at_ms or at_ms))

    def take_rebalance(self, rebalance: Rebalance) -> None:
        """Process a version of a rebalance; the latest replaces earlier ones."""
        known = self.rebalances.get(rebalance.rebalance_id)
        self.rebalances[rebalance.rebalance_id] = replace(
            rebalance,
            members_before=self._shared(rebalance.members_before),
            members_after=self._shared(rebalance.members_after),
            passing=self._shared(rebalance.passing),
        )
        self._named += _count_named(rebalance) - (0 if known is None else _count_named(known))
        self._ordered = None
        self._note_age(rebalance.started_before_ms)
        self._forget(self._beyond_room())

    def _beyond_room(self) -> list[Rebalance]:
        """Return the oldest rebalances beyond the limits."""
        if len(self.rebalances) <= _KEPT_REBALANCES and self._named <= _KEPT_NAMED:
            return []
        ordered, named, gone = self.in_order(), self._named, 0
        while len(ordered) - gone > _KEPT_REBALANCES or (
            named > _KEPT_NAMED and len(ordered) - gone > _FEWEST_REBALANCES
        ):
            named -= _count_named(ordered[gone])
            gone += 1
        return ordered[:gone]

    def forget_rebalances(self, until_ms: int) -> bool:
        """Forget rebalances that were over at `until_ms`, except the latest few; return whether there were any."""
        old = [each for each in self.in_order()[:-_FEWEST_REBALANCES] if each.last_known_ms <= until_ms]
        self._forget(old)
        return bool(old)

    def _forget(self, rebalances: Iterable[Rebalance]) -> None:
        gone = {each.rebalance_id for each in rebalances}
        if not gone:
            return
        for each in gone:
            self._named -= _count_named(self.rebalances.pop(each))
            self.impacts.pop(each, None)
        self._ordered = None
        kept = {
            m.member_id for r in self.rebalances.values() for m in (*r.members_before, *r.members_after, *r.passing)
        }
        self.members = {each: member for each, member in self.members.items() if each in kept}

    def take_probe(self, probe: Probe) -> int:
        """Process a probe; return which `inputs` it changed."""
        at_ms, changed = probe.probed_at_ms, inputs.NOTHING
        self._note_age(at_ms)
        if isinstance(probe.coordinator_id, int):
            changed |= self._note_coordinator(probe.coordinator_id, at_ms)
        if isinstance(probe.owners, dict):
            return changed | self._note_owners(probe, probe.owners)
        if isinstance(probe.state, str) or isinstance(probe.members, tuple):
            return changed | self._note_state(probe)
        return changed

    def take_offsets(self, row: OffsetActivity) -> int:
        """Process probed end offsets; return which `inputs` they changed."""
        self._note_age(row.probed_at_ms)
        moved = self.progress.take_offsets(row)
        return (inputs.ENDS if moved else inputs.NOTHING) | self._note_topics(row.ends, row.probed_at_ms)

    def forget_topics(self, until_ms: int) -> None:
        """Forget topics whose offsets were all deleted by `until_ms`, since a group may read other topics every day."""
        self.progress.forget_gone(until_ms)
        counts = ((topic, self.progress.partition_count(topic)) for topic in self.topic_counts)
        self.topic_counts = {topic: count for topic, count in counts if count is not None}

    def take_impact(self, impact: RebalanceImpact) -> bool:
        """Process the cost of a rebalance; return whether it is new and belongs to a rebalance that is kept."""
        if impact.rebalance_id not in self.rebalances or self.impacts.get(impact.rebalance_id) == impact:
            return False
        self.impacts[impact.rebalance_id] = impact
        return True

    def commit_gaps_of(self, rebalance: Rebalance) -> tuple[CommitGap, ...]:
        """Return the gaps in commits that a rebalance caused."""
        impact = self.impacts.get(rebalance.rebalance_id)
        return () if impact is None else impact.silences

    def _note_owners(self, probe: Probe, owners: dict[str, dict[str, str]]) -> int:
        if self.ownership and probe.probed_at_ms <= self.ownership[-1].at_ms:
            return inputs.NOTHING
        self.ownership.append(Ownership(probe.probed_at_ms, _members(probe), owners))
        return inputs.OWNERS

    def _note_state(self, probe: Probe) -> int:
        """Process a state; a settled one that equals the one before changes nothing."""
        last = self.sightings[-1] if self.sightings else None
        if last is not None and probe.probed_at_ms <= last.at_ms:
            return inputs.NOTHING
        state = (read_state(probe.state) or probe.state) if isinstance(probe.state, str) else None
        members = probe.members if isinstance(probe.members, tuple) else None
        if members is not None:
            # While a group is at rest, each probe lists the same members: share them.
            if members != self._listed:
                self._listed, self._listed_ids = members, frozenset(each.member_id for each in members)
            members = self._listed
        ids = frozenset() if members is None else self._listed_ids
        self.sightings.append(Sighting(probe.probed_at_ms, state, members, ids))
        self._thin_out(probe.probed_at_ms - _ALL_PROBES_MS)
        same = last is not None and last.state == state and state not in UNSETTLED_STATES and last.members == members
        return inputs.NOTHING if same else inputs.STATES

    def _thin_out(self, until_ms: int) -> None:
        seen = self.sightings
        while len(seen) > 2 and seen[2].at_ms < until_ms and seen[1].adds_nothing_between(seen[0], seen[2]):
            del seen[1]

    def _note_coordinator(self, broker: int, at_ms: int) -> int:
        if self._coordinator_ms is not None and at_ms <= self._coordinator_ms:
            return inputs.NOTHING
        self._coordinator_ms = at_ms
        if self.coordinators and self.coordinators[-1].broker == broker:
            return inputs.NOTHING
        self.coordinators.append(Coordinator(at_ms, broker))
        return inputs.STATES

    def _note_topics(self, probed: Iterable[str], at_ms: int) -> int:
        changed = inputs.NOTHING
        for topic in probed:
            count, known = self.progress.partition_count(topic), self.topic_counts.get(topic)
            if count is None:
                continue
            if known is not None and known != count:
                self.topic_changes.append((at_ms, topic, known, count))
            changed |= inputs.GROUP if known != count else inputs.NOTHING
            self.topic_counts[topic] = count
        return changed

    def _note_age(self, at_ms: int) -> None:
        self.first_ms = at_ms if self.first_ms is None else min(self.first_ms, at_ms)

    def _shared(self, members: Iterable[Member]) -> tuple[Member, ...]:
        """Remember members; return them, replaced by equal objects that are kept already."""
        shared = tuple(each if (known := self.members.get(each.member_id)) != each else known for each in members)
        self.members.update({member.member_id: member for member in shared})
        return shared

    # --- Questions ---

    def in_order(self) -> list[Rebalance]:
        """Return the rebalances kept, oldest first; callers must not change the list."""
        if self._ordered is None:
            self._ordered = sorted(self.rebalances.values(), key=_began)
        return self._ordered

    def latest(self) -> Rebalance | None:
        """Return the latest rebalance."""
        ordered = self.in_order()
        return ordered[-1] if ordered else None

    def since_ms(self, from_ms: int) -> list[Rebalance]:
        """Return rebalances that began after a moment, oldest first."""
        ordered = self.in_order()
        return ordered[bisect_left(ordered, from_ms, key=lambda each: each.started_before_ms) :]

    def until(self, rebalance: Rebalance) -> list[Rebalance]:
        """Return the rebalances before this one, oldest first."""
        ordered = self.in_order()
        return ordered[: bisect_left(ordered, rebalance.started_before_ms, key=lambda each: each.started_before_ms)]

    def before(self, rebalance: Rebalance) -> Rebalance | None:
        """Return the rebalance before this one."""
        return next(reversed(self.until(rebalance)), None)

    def assignor_of(self, rebalance: Rebalance) -> str | None:
        """Return the protocol of a rebalance, or the last one before it if no member was left to agree on one.

        Null if none is known. Rebalances take precedence over snapshots: a start reads a day of rebalances again, but
        only the latest snapshot, which is empty when the group is.
        """
        if rebalance.protocol:
            return rebalance.protocol
        earlier = (each.protocol for each in reversed(self.until(rebalance)) if each.protocol)
        return next(earlier, self.protocols[-1][1] if self.protocols else None)

    def after(self, rebalance: Rebalance) -> list[Rebalance]:
        """Return the rebalances after this one, oldest first."""
        return [each for each in self.in_order() if each.started_before_ms > rebalance.started_before_ms]

    def absences(self) -> Iterator[tuple[int, int]]:
        """Yield when the group had lost all its members and when the next ones joined (epoch ms), oldest first."""
        for emptied, back in pairwise(self.in_order()):
            if not emptied.members_after and emptied.completed_at_ms is not None:
                yield emptied.completed_at_ms, back.started_before_ms

    def sightings_between(self, from_ms: int, to_ms: int) -> Iterator[Sighting]:
        """Yield the probes of a period, both ends included."""
        return (each for each in self.sightings if from_ms <= each.at_ms <= to_ms)

    def probed(self, from_ms: int, to_ms: int) -> bool:
        """Whether probes saw the group's state around a period."""
        return any(each.state is not None and from_ms - SEEN_FOR_MS <= each.at_ms <= to_ms for each in self.sightings)

    def seen_together(self, former: str, newcomer: str) -> bool:
        """Whether both members were present at the same time, as a probe listed or the coordinator logged.

        In this case the newcomer is not the former member come back.
        """
        probed = any(former in each.ids and newcomer in each.ids for each in self.sightings)
        return probed or self.coordinator_log.were_together(former, newcomer)

    def is_simple(self) -> bool:
        """Whether the group has never had members in Kafka."""
        return (self.snapshot is None or self.snapshot.type == GroupType.SIMPLE) and not self.rebalances


def _began(rebalance: Rebalance) -> tuple[int, str]:
    return rebalance.started_before_ms, rebalance.rebalance_id


def _count_named(rebalance: Rebalance) -> int:
    return len(rebalance.members_before) + len(rebalance.members_after) + len(rebalance.passing)


def _position(snapshot: GroupSnapshot) -> tuple[int, int]:
    return (snapshot.updated_at_ms or -1, snapshot.log_offset if snapshot.log_offset is not None else -1)


def _members(probe: Probe) -> tuple[ProbedMember, ...]:
    return probe.members if isinstance(probe.members, tuple) else ()


def is_cooperative(history: GroupHistory) -> bool:
    """Whether members keep their partitions during a rebalance."""
    snapshot = history.snapshot
    return snapshot is not None and (snapshot.type == GroupType.CONSUMER or "cooperative" in (snapshot.protocol or ""))
