"""Data of the fold: one record of a group's log, and the state that is remembered of the group.

Receives records decoded by `wire`. Independent of Spark and the clock.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import msgspec

from rebalance_contract import Generation, GroupSnapshot, Member, Partitions, Rebalance, RebalanceOutcome


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A group's own record (any type but offset commits) with its position in the log.

    `value` is null for a tombstone, `member_id` null for records that belong to no member. `live` is false for records
    that were in the log before the monitor first read it: compaction has removed some of them, so they describe a state
    but not a history. `received_at_ms` is the reader's clock; null: use the record's time.
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
        """Present time, as far as this record's reader knew it."""
        return self.timestamp_ms if self.received_at_ms is None else self.received_at_ms


@dataclass(frozen=True, slots=True)
class MemberChanges:
    """Changes of the members of a KIP-848, share or streams group since its last group epoch, in log order.

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
    """A group removed by a tombstone: the second half of a conversion may follow in the same batch and continues it.

    `converted`: it did follow.
    """

    type: str
    timestamp_ms: int
    generation: int | None
    members: tuple[Member, ...]
    converted: bool = False


@dataclass(frozen=True, slots=True)
class LatestRebalance:
    """The latest rebalance, to which a further generation may still belong.

    `settled`: its duration and moves are in the totals. `counted`: the rebalance itself is in the totals; if the log is
    read, it is from its beginning. `spread_until_ms`: until when its time is in the panes. `wandered`: partitions that
    were without their former owner at the end of some generation of it. `left_out_unassigned`: number of generations
    that were dropped from its list, have no assignment and are not yet counted as aborted.
    """

    rebalance: Rebalance
    settled: bool = False
    spread_until_ms: int = 0
    wandered: Partitions = field(default_factory=dict)
    counted: bool = True
    left_out_unassigned: int = 0


@dataclass(frozen=True, slots=True)
class ProbedStates:
    """States that probes saw of a classic group since its last record, in epoch milliseconds; null: none yet.

    `settled_ms`: the last time it was stable or empty; `rebalancing_ms`: the first time since then that it was not, and
    `still_ms` the last such time, which is kept only for groups whose log is not read.
    """

    probed_ms: int | None = None
    settled_ms: int | None = None
    rebalancing_ms: int | None = None
    still_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One generation as its kind of group describes it, before it is added to a rebalance.

    The start lies between `started_after_ms` (null: unknown) and `started_before_ms`, which probes may have narrowed.
    `known_ms` is its earliest sign in the log: whether it continues the previous rebalance must not depend on which
    probe happened to arrive in time. `offender` is the member that started it, null if there are several candidates.
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
    """Everything remembered of one group between records; serialised as a whole, `snapshot` under its stored name.

    `joining_since_ms` is set while a classic group is in a join phase whose start the log shows.
    `revoked_unassigned`: a cooperative assignor left partitions unassigned that members gave up, so a follow-up
    generation is due. `last_generation` is kept after a deletion. `topic_names` maps topic ids to names.
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
    """The next state of a group while a record or a probe is processed: begin with `of`, end with `state`.

    It has the fields of `FoldState`. Their values are shared with the initial state, so they are replaced, never
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
        """Begin with a state, which is not changed."""
        return cls(*_values_of(state))

    def state(self) -> FoldState:
        """Return the present state."""
        return FoldState(*_values_of(self))

    @property
    def ongoing(self) -> LatestRebalance | None:
        """The latest rebalance if it is ongoing, else null."""
        is_ongoing = self.episode is not None and self.episode.rebalance.outcome == RebalanceOutcome.ONGOING
        return self.episode if is_ongoing else None


_values_of = attrgetter(*FoldState.__struct_fields__)


def new_state(cluster: str, group: str) -> FoldState:
    """Return the state of a group without any record."""
    return FoldState(snapshot=GroupSnapshot(cluster=cluster, group=group))


#: Longer states are compressed: a group of 90,000 members has 45 MB of state, which contains every member up to five
#: times, and Spark's state server has each value several times in its heap while passing it on.
_COMPRESSED_FROM_BYTES = 65_536
#: First byte of zlib's output; msgpack writes a map with this number of fields as 0x8b.
_ZLIB_HEADER = b"\x78"


def dump_state(state: FoldState) -> bytes:
    """Serialise for the state store. Fields may be added with a default; older blobs can still be read then."""
    packed = _encoder.encode(state)
    return packed if len(packed) < _COMPRESSED_FROM_BYTES else zlib.compress(packed, level=1)


#: What `load_state` raises for invalid bytes.
UNREADABLE = (msgspec.MsgspecError, zlib.error, UnicodeDecodeError, RecursionError)


def load_state(blob: bytes) -> FoldState:
    """Read a state back. Raises one of `UNREADABLE` for invalid bytes."""
    return _decoder.decode(zlib.decompress(blob) if blob.startswith(_ZLIB_HEADER) else blob)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(FoldState)


id_of: Callable[[Member], str] = attrgetter("member_id")


def by_id(members: Iterable[Member]) -> tuple[Member, ...]:
    """Return members sorted by id: the log has them in the order of a hash map."""
    return tuple(sorted(members, key=id_of))


def member_of(members: Sequence[Member], member_id: str) -> Member | None:
    """Return the member with an id, of members that are sorted by id; null if there is none."""
    at = bisect_left(members, member_id, key=id_of)
    return members[at] if at < len(members) and members[at].member_id == member_id else None


def difference(before: Iterable[Member], after: Iterable[Member]) -> tuple[list[Member], list[Member]]:
    """Return (left, joined) by member id."""
    old, new = {m.member_id: m for m in before}, {m.member_id: m for m in after}
    return [m for i, m in old.items() if i not in new], [m for i, m in new.items() if i not in old]
