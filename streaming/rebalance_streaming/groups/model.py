"""What the fold works on: one record of a group's log, and all that is remembered of the group.

Receives what `wire` decoded, hands the fold values. Knows neither Spark nor the clock.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import msgspec

from rebalance_contract import Generation, GroupSnapshot, Member, Partitions, Rebalance, RebalanceOutcome


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A group's own record (any type but offset commits) with its place in the log.

    `value` is null for a tombstone, `member_id` null for records that belong to no member. `live` is false for records
    that were in the log before the monitor first looked at it: compaction has thinned those, so they describe a state
    and not a history. `received_at_ms` is the reader's clock, null when it is to be taken for that of the record.
    `log_era` counts how often the log partition was cut or recreated before this record was read.
    """

    partition: int
    offset: int
    timestamp_ms: int
    live: bool
    value: Any
    record_type: int = 2
    member_id: str | None = None
    received_at_ms: int | None = None
    log_era: int = 0

    @property
    def now_ms(self) -> int:
        """The present, as far as this record's reader knew it."""
        return self.timestamp_ms if self.received_at_ms is None else self.received_at_ms


@dataclass(frozen=True, slots=True)
class MemberChanges:
    """What happened to the members of a KIP-848, share or streams group since its last group epoch, in log order.

    `first` is the member that changed first. `others` are changes that belong to no member: `regex` (a pattern
    matched other topics), `topology`, `share_state`.
    """

    arrived: tuple[str, ...] = ()
    departed: tuple[Member, ...] = ()
    fenced: tuple[str, ...] = ()
    subscriptions: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    first: str | None = None


@dataclass(frozen=True, slots=True)
class RemovedGroup:
    """What a tombstone removed: the other half of a conversion may follow in the same batch and goes on from here.

    `converted`: it did.
    """

    type: str
    timestamp_ms: int
    generation: int | None
    members: tuple[Member, ...]
    converted: bool = False


@dataclass(frozen=True, slots=True)
class LatestRebalance:
    """The latest rebalance, to which a further generation may still belong.

    `settled`: its duration and moves are in the totals. `counted`: it is in the totals itself, as it is from its
    beginning on where the log has that. `spread_until_ms`: up to when its time is in the panes.
    `wandered`: partitions that were without their former owner at the end of some generation of it.
    `left_out_unassigned`: of the generations that it no longer names, those without an assignment that are not counted
    as aborted yet.
    """

    rebalance: Rebalance
    settled: bool = False
    spread_until_ms: int = 0
    wandered: Partitions = field(default_factory=dict)
    counted: bool = True
    left_out_unassigned: int = 0


@dataclass(frozen=True, slots=True)
class ProbedStates:
    """What probes saw of a classic group since its last record, in epoch milliseconds; null: nothing yet.

    `settled_ms`: the last time it was stable or empty; `rebalancing_ms`: the first time since then that it was not, and
    `still_ms` the last one, which is kept of groups only whose log is not read.
    """

    probed_ms: int | None = None
    settled_ms: int | None = None
    rebalancing_ms: int | None = None
    still_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One generation as its kind of group describes it, on the way into an episode.

    The start lies between `started_after_ms` (null: unknown) and `started_before_ms`, which probes may have narrowed.
    `known_ms` is the earliest sign of it in the log: whether it goes on with the rebalance before must not depend on
    which probe happened to come in time. `offender` is the member that set it off, null when several came into
    question.
    """

    generation: Generation
    started_after_ms: int | None
    started_before_ms: int
    known_ms: int
    members_before: tuple[Member, ...]
    members_after: tuple[Member, ...]
    merge_within_ms: int
    offender: str | None = None


class FoldState(msgspec.Struct, frozen=True, rename={"snapshot": "picture"}):
    """Everything remembered of one group between records; serialised whole, `snapshot` under the name in the store.

    `joining_since_ms` is set while a classic group is in a join phase whose start the log shows.
    `revoked_unassigned` says that a cooperative assignor left partitions unassigned that members gave up, so that a
    follow-up generation is due. `last_generation` outlives a deletion. `topic_names` maps topic ids to names.
    `metadata_hash` and `topology_epoch` are the last ones of groups that have them. `sources` are the topics that each
    subtopology of a streams group reads, by its id.
    """

    snapshot: GroupSnapshot
    joining_since_ms: int | None = None
    revoked_unassigned: bool = False
    last_generation: int | None = None
    changes: MemberChanges = msgspec.field(default_factory=MemberChanges)
    gone: RemovedGroup | None = None
    episode: LatestRebalance | None = None
    sighting: ProbedStates = msgspec.field(default_factory=ProbedStates)
    topic_names: dict[str, str] = msgspec.field(default_factory=dict)
    metadata_hash: int | None = None
    topology_epoch: int | None = None
    sources: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


@dataclass(slots=True, eq=False)
class FoldDraft:
    """The next state of a group while a record or a probe is worked into it: `of` a state, and `state` once it is done.

    Its fields are those of `FoldState`. What they hold is shared with the state it began from, so it is replaced, never
    changed in place.
    """

    snapshot: GroupSnapshot
    joining_since_ms: int | None
    revoked_unassigned: bool
    last_generation: int | None
    changes: MemberChanges
    gone: RemovedGroup | None
    episode: LatestRebalance | None
    sighting: ProbedStates
    topic_names: dict[str, str]
    metadata_hash: int | None
    topology_epoch: int | None
    sources: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, state: FoldState) -> FoldDraft:
        """Begin with a state, which stays what it is."""
        return cls(*_values_of(state))

    def state(self) -> FoldState:
        """Return the state as it is by now."""
        return FoldState(*_values_of(self))

    @property
    def ongoing(self) -> LatestRebalance | None:
        """The latest rebalance if it goes on, else null."""
        is_ongoing = self.episode is not None and self.episode.rebalance.outcome == RebalanceOutcome.ONGOING
        return self.episode if is_ongoing else None


_values_of = attrgetter(*FoldState.__struct_fields__)


def new_state(cluster: str, group: str) -> FoldState:
    """Return the state of a group of which no record has been read."""
    return FoldState(snapshot=GroupSnapshot(cluster=cluster, group=group))


#: What is longer is compressed: a group of 90,000 members has 45 MB of state, in which every member stands up to five
#: times, and Spark's state server has each value several times in its heap while it hands it on.
_COMPRESSED_FROM_BYTES = 65_536
#: Of what zlib writes; msgpack writes a map of that many fields as 0x8b.
_ZLIB_HEADER = b"\x78"


def dump_state(state: FoldState) -> bytes:
    """Serialise for the state store. Fields may be added with a default; older blobs then still load."""
    packed = _encoder.encode(state)
    return packed if len(packed) < _COMPRESSED_FROM_BYTES else zlib.compress(packed, level=1)


def load_state(blob: bytes) -> FoldState:
    """Read a state back. Raises msgspec.MsgspecError or zlib.error for bytes that are none."""
    return _decoder.decode(zlib.decompress(blob) if blob.startswith(_ZLIB_HEADER) else blob)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(FoldState)


id_of: Callable[[Member], str] = attrgetter("member_id")


def by_id(members: Iterable[Member]) -> tuple[Member, ...]:
    """Return members sorted by id: the log's own order is that of a hash map."""
    return tuple(sorted(members, key=id_of))


def difference(before: Iterable[Member], after: Iterable[Member]) -> tuple[list[Member], list[Member]]:
    """Return (left, joined) by member id."""
    old, new = {m.member_id: m for m in before}, {m.member_id: m for m in after}
    return [m for i, m in old.items() if i not in new], [m for i, m in new.items() if i not in old]
