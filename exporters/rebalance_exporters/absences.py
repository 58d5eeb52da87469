"""Who was away from a group, for how long and why it was taken out, as its rebalances tell.

Receives the rebalances of one group; hands on immutable values. Pure: no clock, no I/O. A member that comes back has a
new member id, so it is found again by its client id and host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from rebalance_contract import UNDETERMINED, Advice, Generation, Member, Rebalance, RebalanceImpact
from rebalance_contract.api import Bounds

#: Diagnoses by which a member that came back was one and the same process, whose heartbeats had stopped.
STOOD_STILL = frozenset(
    {
        "heartbeat_starvation",
        "network_partition",
        "process_pause",
        "processing_blocks_heartbeat",
        "session_timeout_too_short",
    }
)
#: Diagnoses by which a member that came back was started anew.
RESTARTED = frozenset(
    {
        "crash_loop",
        "member_crash",
        "member_flapping",
        "poison_record",
        "rolling_deploy",
        "static_membership_missing",
        "static_session_too_short",
        "ungraceful_shutdown",
    }
)
#: Diagnoses by which a member did not poll in time.
DID_NOT_POLL = frozenset(
    {"no_progress_loop", "poison_record", "poll_overrun", "stalled_member_join_barrier", "static_stalled_member"}
)
#: What stands in the place of a cause: nobody told one.
NO_CAUSE = frozenset({None, UNDETERMINED})
#: That of instances that are started while the session of the one before them still goes on.
_BEFORE_EXPIRY = "ungraceful_shutdown"
#: Members learn of a rebalance with their next heartbeat, and Kafka advises at least three of them in a session.
_HEARTBEATS_OF_SESSION = 3
_USUAL_SESSION_MS = 45_000


class Seen(NamedTuple):
    """A rebalance with what is known of it: `rule` is its cause and `advice` what that advises; null: not known."""

    rebalance: Rebalance
    impact: RebalanceImpact | None = None
    rule: str | None = None
    advice: tuple[Advice, ...] = ()


class Way(Enum):
    """How a member went: its session or its poll limit was over, or neither; unknown where it was not judged."""

    EXPIRED = "expired"
    POLL_LIMIT = "poll limit"
    LEFT = "left"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Absence:
    """A member that went in the rebalance `left_in`, and came back in `back_in`, which may be the same.

    The two are places in the list of rebalances; `back_in` is null where it did not come back. `away_ms` bounds the
    time between, `silent_ms` that since it was last known to do its part: since its last heartbeat, poll or farewell,
    by the way it went. `high` is null while it has not come back, and where the time before is not known. `is_same`:
    client id and host were those of before; else the client id only.
    """

    member: Member
    way: Way
    rule: str | None
    left_in: int
    back_in: int | None
    new_id: str | None
    is_same: bool
    away_ms: tuple[int, int | None]
    silent_ms: tuple[int, int | None]

    @property
    def is_restart(self) -> bool:
        """Whether another process came back."""
        return self.rule in RESTARTED

    @property
    def limit_ms(self) -> int | None:
        """What its silence had to stay below, null where no record tells it."""
        if self.way is Way.POLL_LIMIT:
            return self.member.rebalance_timeout_ms
        return self.member.session_timeout_ms


#: Whether a generation is the one meant.
_Test = Callable[[Generation], bool]


class _Gone(NamedTuple):
    member: Member
    place: int
    way: Way
    at_ms: Bounds


def find_absences(seen: Sequence[Seen], until_ms: int) -> list[Absence]:
    """Return the absences in rebalances that are sorted by their start; those that last are told as of `until_ms`."""
    found: list[Absence] = []
    waiting: list[_Gone] = []
    for place, each in enumerate(seen):
        members_after = {member.member_id: member for member in each.rebalance.members_after}
        newcomers = [members_after[name] for name in each.rebalance.joined if name in members_after]
        waiting += _gone(each, place)
        for is_same in (True, False):
            for newcomer in list(newcomers):
                gone = _earlier_self(newcomer, waiting, each.rebalance, is_same=is_same)
                if gone is not None:
                    waiting.remove(gone)
                    newcomers.remove(newcomer)
                    back_ms = _when_in(each.rebalance, newcomer.member_id)
                    found.append(_absence(seen, gone, back_ms, place, newcomer.member_id, is_same=is_same))
    found += [_absence(seen, gone, None, None, None, is_same=True, until_ms=until_ms) for gone in waiting]
    return found


def _gone(each: Seen, place: int) -> Iterator[_Gone]:
    """Yield who went in a rebalance."""
    before = {member.member_id: member for member in each.rebalance.members_before}
    for name in each.rebalance.left:
        if name in before:
            yield _Gone(before[name], place, _way(each, name), _when_gone(each, name))


def _way(each: Seen, name: str) -> Way:
    impact = each.impact
    if impact is not None and name in (impact.expired or ()):
        return Way.EXPIRED
    if impact is not None and name in (impact.poll_timeout or ()):
        return Way.POLL_LIMIT
    # Time-outs are told of a rebalance that had any; one with a cause was judged.
    is_judged = each.rule not in NO_CAUSE or (impact is not None and impact.expired is not None)
    return Way.LEFT if is_judged else Way.UNKNOWN


def _earlier_self(newcomer: Member, waiting: Iterable[_Gone], of: Rebalance, *, is_same: bool) -> _Gone | None:
    """Return who a newcomer was before: whom the rebalance names, else who went first under its name."""
    named = {new: old for old, new in of.replaced}.get(newcomer.member_id)
    for gone in waiting:
        if named is not None and gone.member.member_id == named:
            return gone
    for gone in waiting:
        alike = gone.member.client_id == newcomer.client_id
        if alike and (gone.member.host == newcomer.host) is is_same and named is None:
            return gone
    return None


def _when_gone(each: Seen, name: str) -> Bounds:
    """Return when a member went: no earlier than the one before the rebalance, or a heartbeat before it was seen."""
    rebalance = each.rebalance
    if each.impact is not None and each.impact.prepared_at_ms is not None and _first(rebalance, name):
        return Bounds(each.impact.prepared_at_ms, each.impact.prepared_at_ms)
    high = rebalance.started_before_ms
    if not _first(rebalance, name):
        # It went in a later generation: between that and the one before.
        return _when(rebalance, lambda generation: name in generation.left)
    sessions = [each.session_timeout_ms for each in rebalance.members_before if each.session_timeout_ms is not None]
    heartbeat_ms = max(sessions, default=_USUAL_SESSION_MS) // _HEARTBEATS_OF_SESSION
    low = high if rebalance.started_after_ms is None else max(rebalance.started_after_ms, high - heartbeat_ms)
    return Bounds(low, high)


def _first(rebalance: Rebalance, name: str) -> bool:
    """Whether a member went at the beginning, as far as generations tell."""
    later = (generation.left for generation in rebalance.generations[1:])
    return not any(name in left for left in later)


def _when_in(rebalance: Rebalance, name: str) -> Bounds:
    """Return between which times a member came back."""
    return _when(rebalance, lambda generation: name in generation.joined)


def _when(rebalance: Rebalance, is_it: _Test) -> Bounds:
    low = rebalance.started_before_ms if rebalance.started_after_ms is None else rebalance.started_after_ms
    for generation in rebalance.generations:
        end_ms = generation.join_ended_at_ms or generation.assigned_at_ms or rebalance.completed_at_ms
        high = end_ms if end_ms is not None else max(low, rebalance.started_before_ms)
        if is_it(generation):
            return Bounds(min(low, high), high)
        low = high
    end = rebalance.completed_at_ms or low
    return Bounds(min(low, end), end)


def _absence(
    seen: Sequence[Seen],
    gone: _Gone,
    back_ms: Bounds | None,
    back_in: int | None,
    new_id: str | None,
    *,
    is_same: bool,
    until_ms: int = 0,
) -> Absence:
    left_in, member = seen[gone.place], gone.member
    if back_ms is None:
        away: tuple[int, int | None] = (max(0, until_ms - gone.at_ms.high), None)
    else:
        away = (max(0, back_ms.low - gone.at_ms.high), max(0, back_ms.high - gone.at_ms.low))
    return Absence(
        member=member,
        way=gone.way,
        rule=left_in.rule,
        left_in=gone.place,
        back_in=back_in,
        new_id=new_id,
        is_same=is_same,
        away_ms=away,
        silent_ms=_silent(left_in, gone, back_ms, away, is_same_rebalance=back_in == gone.place),
    )


def _silent(
    left_in: Seen, gone: _Gone, back_ms: Bounds | None, away: tuple[int, int | None], *, is_same_rebalance: bool
) -> tuple[int, int | None]:
    """Return how long a member was silent altogether: the limit that it passed, and the time until it came back."""
    if gone.way in (Way.LEFT, Way.UNKNOWN):
        return away
    limit = gone.member.rebalance_timeout_ms if gone.way is Way.POLL_LIMIT else gone.member.session_timeout_ms
    low, high = away
    if gone.way is Way.EXPIRED and left_in.rule == _BEFORE_EXPIRY and is_same_rebalance and limit is not None:
        # The newcomer was there before the session of its predecessor ended: the group waited for that.
        return 0, limit - 1
    if limit is None:
        return low, None
    committed_ms = _last_commit(left_in, gone.member)
    longest = None if high is None else limit + high
    if back_ms is not None and committed_ms is not None and longest is not None:
        # Whoever commits is alive, and has polled.
        longest = max(limit + low, min(longest, back_ms.high - committed_ms))
    return limit + low, longest


def _last_commit(left_in: Seen, member: Member) -> int | None:
    """Return when the latest of a member's partitions was last committed, of those that stood still."""
    if left_in.impact is None or member.partitions is None:
        return None
    owned = {(topic, number) for topic, numbers in member.partitions.items() for number in numbers}
    silences = left_in.impact.silences
    return max((each.last_commit_ms for each in silences if (each.topic, each.partition) in owned), default=None)
