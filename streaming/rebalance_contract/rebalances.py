"""One logical rebalance: its generations, phases, members before and after."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_contract.codec import SCHEMA_VERSION
from rebalance_contract.groups import Member, Partitions
from rebalance_contract.sets import AnyCountedFrom, AnyGroupType, AnyReason, CountedFrom, RebalanceOutcome

#: How many members a rebalance names that came and went within it.
KEPT_PASSING = 50
#: How many generations a rebalance names at most: the first ones and the last ones. A group that does not come to rest
#: for a day has one rebalance of ten thousands of them.
KEPT_FIRST_GENERATIONS, KEPT_LAST_GENERATIONS = 20, 180


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation, or group epoch, of a rebalance.

    `aborted_before` counts generations since the one before it that never got an assignment. `joined`, `left`,
    `replaced` (old id, new id) and `fenced` are member ids. `started_at_ms` is null
    where the log does not show it (classic groups). `join_ended_at_ms` is when the join barrier was released (classic
    only, null when the record's version does not carry it); `assigned_at_ms` when the assignment was stored, null
    while there is none. `fenced` are members removed because they did not give up partitions within their rebalance
    timeout (KIP-848).
    """

    generation: int
    reason: AnyReason
    aborted_before: int = 0
    started_at_ms: int | None = None
    join_ended_at_ms: int | None = None
    assigned_at_ms: int | None = None
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    replaced: tuple[tuple[str, str], ...] = ()
    fenced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Moves:
    """What a rebalance did to partitions, comparing owners before and after by identity, not by member id.

    `moved` changed from one owner to another, `kept` stayed, `gained` had no owner before, `lost` have none after.
    `ping_ponged` were taken from their owner and given back within the rebalance.
    """

    moved: Partitions = field(default_factory=dict)
    kept: int = 0
    gained: int = 0
    lost: int = 0
    ping_ponged: Partitions = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One logical rebalance: topic `…rebalances`, key `cluster/group/rebalance_id`, rewritten as it evolves.

    Several generations are one logical rebalance when they follow each other so closely that the group was never really
    stable in between, or when a cooperative assignor needs a second round. `outcome` is `completed` where the group was
    stable, or empty, at the end, and `aborted` where it was deleted meanwhile.

    `generation_from` is the generation before (null when none was known), `generation_to` the one it ended with.
    `generations` are all of its own, or of more than 200 the first and the last ones; `generation_count` counts all,
    and is null in rows of an earlier version and where no generation is reported. `generations_aborted` counts those
    that never got an assignment.
    `join_ended_at_ms` and `sync_ms` (from there until the leader's assignment was stored) belong to its first
    generation of a classic group; `assigning_ms` (until the target assignment was there) and `reconciling_ms` (from
    there until every member had it) to the newer kinds. Each is null for the others, and while it lasts.
    `protocol` is the assignor's name, `leader` the member that computed the assignment: null where the log, or a group
    whose coordinator assigns, names none.
    A classic rebalance's start is not in the log, so it is bounded: it lies between `started_after_ms` and
    `started_before_ms`, and its duration between `duration_min_ms` and `duration_max_ms`. Where the start is known
    (the first join of a group new to the coordinator, every KIP-848 group) both bounds coincide; a probe that saw it
    narrows them. Durations and `completed_at_ms` are null while it is ongoing.
    `joined`, `left` and `replaced` (old id, new id) are the net change over all generations, as member ids; `passing`
    are members that came and went in between, the first fifty. `first_offender` is the member whose arrival, departure
    or change set it off, null when several came into question. `moves` is null when assignments are not in a known
    form.
    What it cost is in `RebalanceImpact`. `is_truncated`: members, generations or partitions were left out so that the
    row fits; `members_before_count` and `members_after_count` count all members, and are null in rows of an earlier
    version.

    Where `counted_from` is `probes`, the log could not be read: `generations` is empty, `generation_from` and
    `generation_to` are group epochs, null for classic groups, whose generation no request returns. `completed_at_ms` is
    then the first look at the settled group, so that the rebalance ended at most a probe's period before; its duration
    lies between the two bounds all the same, and several rebalances between two looks are one.
    """

    cluster: str
    group: str
    rebalance_id: str
    type: AnyGroupType
    reason: AnyReason
    outcome: RebalanceOutcome
    generation_from: int | None
    generation_to: int | None
    generations: tuple[Generation, ...]
    generations_aborted: int
    started_after_ms: int | None
    started_before_ms: int
    join_ended_at_ms: int | None
    completed_at_ms: int | None
    sync_ms: int | None
    duration_min_ms: int | None
    duration_max_ms: int | None
    protocol: str | None
    leader: str | None
    members_before: tuple[Member, ...]
    members_after: tuple[Member, ...]
    joined: tuple[str, ...]
    left: tuple[str, ...]
    replaced: tuple[tuple[str, str], ...] = ()
    passing: tuple[Member, ...] = ()
    first_offender: str | None = None
    assigning_ms: int | None = None
    reconciling_ms: int | None = None
    moves: Moves | None = None
    members_before_count: int | None = None
    members_after_count: int | None = None
    generation_count: int | None = None
    is_truncated: bool = False
    counted_from: AnyCountedFrom = CountedFrom.LOG
    schema_version: int = SCHEMA_VERSION

    @property
    def last_known_ms(self) -> int:
        """When it ended; while it goes on, the latest time at which it can have begun."""
        return self.completed_at_ms or self.started_before_ms

    @property
    def all_generations(self) -> int:
        """How many generations it has, those that are left out too."""
        return len(self.generations) if self.generation_count is None else self.generation_count

    @property
    def size_before(self) -> int:
        """How many members the group had before, those that are left out too."""
        return len(self.members_before) if self.members_before_count is None else self.members_before_count

    @property
    def size_after(self) -> int:
        """How many members the group had after it, those that are left out too."""
        return len(self.members_after) if self.members_after_count is None else self.members_after_count

    @property
    def rounds(self) -> tuple[Generation, ...]:
        """Its generations in order; where the log could not be read, one for all of it, with the number 0."""
        if not self.is_at_least:
            return self.generations
        at_ms = self.completed_at_ms
        return (Generation(0, self.reason, join_ended_at_ms=at_ms, joined=self.joined, left=self.left),)

    @property
    def changes(self) -> int:
        """How often members came or went, over all of its generations that are listed."""
        return sum(len(each.joined) + len(each.left) for each in self.generations)

    @property
    def is_at_least(self) -> bool:
        """Whether it was seen by probes only, which may have taken several for one."""
        return self.counted_from != CountedFrom.LOG

    def all_members(self) -> dict[str, Member]:
        """Return who was in the group before, meanwhile or after, by member id, each as it was last."""
        return {each.member_id: each for each in (*self.members_before, *self.passing, *self.members_after)}
