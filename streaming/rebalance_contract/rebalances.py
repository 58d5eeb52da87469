"""One logical rebalance: its generations, phases, members before and after."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_contract.codec import SCHEMA_VERSION
from rebalance_contract.groups import Member, Partitions
from rebalance_contract.sets import AnyCountedFrom, AnyGroupType, AnyReason, CountedFrom, RebalanceOutcome

#: Maximum number of members listed that joined and left within a rebalance.
KEPT_PASSING = 50
#: Maximum numbers of first and last generations listed in a rebalance. A group that does not settle for a day has one
#: rebalance with tens of thousands of generations.
KEPT_FIRST_GENERATIONS, KEPT_LAST_GENERATIONS = 20, 180


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation, or group epoch, of a rebalance.

    `aborted_before` counts generations between the previous one and this one that never got an assignment. `joined`,
    `left`, `replaced` (old id, new id) and `fenced` are member ids. `started_at_ms` is null if the log does not contain
    it (classic groups). `join_ended_at_ms` is when the join phase ended (classic groups only, null if the record's
    version does not contain it); `assigned_at_ms` is when the assignment was stored, null while there is none. `fenced`
    are members removed because they did not give up partitions within their rebalance time-out (KIP-848).
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
    """Changes of partition ownership by a rebalance; owners are compared by identity, not by member id.

    `moved` partitions changed their owner, `kept` ones did not, `gained` ones had no owner before, `lost` ones have
    none after. `ping_ponged` partitions were taken from their owner and given back within the rebalance.
    """

    moved: Partitions = field(default_factory=dict)
    kept: int = 0
    gained: int = 0
    lost: int = 0
    ping_ponged: Partitions = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One logical rebalance: topic `…rebalances`, key `cluster/group/rebalance_id`, rewritten as it evolves.

    Several generations are one logical rebalance if they follow each other so closely that the group was never really
    stable in between, or if a cooperative assignor needs a second round. `outcome` is `completed` if the group was
    stable, or empty, at the end, and `aborted` if it was deleted meanwhile.

    `generation_from` is the generation before (null if none was known), `generation_to` the last one.
    `generations` lists all generations, or the first and the last ones of more than 200; `generation_count` counts all,
    and is null in rows of an earlier version and if no generation is reported. `generations_aborted` counts those
    that never got an assignment.
    `join_ended_at_ms` and `sync_ms` (from then until the leader's assignment was stored) refer to the first generation
    of a classic group; `assigning_ms` (until the target assignment was computed) and `reconciling_ms` (from then until
    every member had its assignment) to the newer types. Each is null for other types, and until the phase has ended.
    `protocol` is the assignor's name, `leader` the member that computed the assignment: null if the log names none, or
    if the coordinator assigns.
    A classic rebalance's start is not in the log, so it is bounded: it lies between `started_after_ms` and
    `started_before_ms`, and its duration between `duration_min_ms` and `duration_max_ms`. If the start is known
    (the first join of a group new to the coordinator, every KIP-848 group) both bounds coincide; a probe during the
    rebalance narrows them. Durations and `completed_at_ms` are null while it is ongoing.
    `joined`, `left` and `replaced` (old id, new id) are the net change over all generations, as member ids; `passing`
    are the first fifty members that joined and left in between. `first_offender` is the member whose arrival, departure
    or change triggered it, null if there are several candidates. `moves` is null if assignments are not in a known
    format.
    The cost is in `RebalanceImpact`. `is_truncated`: members, generations or partitions were left out so that the row
    fits; `members_before_count` and `members_after_count` count all members, and are null in rows of an earlier
    version.

    If `counted_from` is `probes`, the log could not be read: `generations` is empty, `generation_from` and
    `generation_to` are group epochs, null for classic groups, whose generation no request returns. `completed_at_ms` is
    then the time of the first probe of the settled group, so the rebalance ended at most one probe interval earlier;
    its duration still lies between the two bounds. Several rebalances between two probes are counted as one.
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
        """When it ended; while it is ongoing, the latest time at which it can have started."""
        return self.completed_at_ms or self.started_before_ms

    @property
    def all_generations(self) -> int:
        """Number of generations, including those left out of the row."""
        return len(self.generations) if self.generation_count is None else self.generation_count

    @property
    def size_before(self) -> int:
        """Number of members before the rebalance, including those left out of the row."""
        return len(self.members_before) if self.members_before_count is None else self.members_before_count

    @property
    def size_after(self) -> int:
        """Number of members after the rebalance, including those left out of the row."""
        return len(self.members_after) if self.members_after_count is None else self.members_after_count

    @property
    def rounds(self) -> tuple[Generation, ...]:
        """Its generations in order; if the log could not be read, a single one with number 0 for all of them."""
        if not self.is_at_least:
            return self.generations
        at_ms = self.completed_at_ms
        return (Generation(0, self.reason, join_ended_at_ms=at_ms, joined=self.joined, left=self.left),)

    @property
    def changes(self) -> int:
        """Number of joins and departures over all listed generations."""
        return sum(len(each.joined) + len(each.left) for each in self.generations)

    @property
    def is_at_least(self) -> bool:
        """Whether it was seen by probes only, which may have merged several rebalances into one."""
        return self.counted_from != CountedFrom.LOG

    def all_members(self) -> dict[str, Member]:
        """Return all members before, during or after the rebalance by member id, each as last seen."""
        return {each.member_id: each for each in (*self.members_before, *self.passing, *self.members_after)}
