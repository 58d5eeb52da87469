"""Finds the absences of members in a group's rebalances: who was away, for how long, and why it was removed.

Receives the rebalances of one group; returns immutable values. Pure: no clock, no I/O. A member that comes back has a
new member id, so it is recognised by its client id and host.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from rebalance_contract import USUAL_SESSION_MS, Advice, Generation, Member, Rebalance, RebalanceImpact
from rebalance_contract.api_reports import EstimateRange
from rebalance_contract.client_settings import AIOKAFKA, library_of
from rebalance_contract.diagnoses import with_trait

#: Rules by trait of the catalogue: what a cause means for the member that left, or for the members that waited for it.
STARVED, STOOD_STILL, RESTARTED = with_trait("starved"), with_trait("same_process"), with_trait("new_process")
DID_NOT_POLL, HELD_UP, WAITED_FOR = with_trait("poll_limit"), with_trait("holds_up"), with_trait("waits_to_join")
#: Causes in which an instance starts while the session of its predecessor has not expired yet.
_BEFORE_EXPIRY = with_trait("overlaps")
#: Values of `rule` if no cause is known.
NO_CAUSE = frozenset({None, *with_trait("unexplained")})
#: Findings of lower confidence are hints.
_MORE_THAN_A_HINT = 0.5
#: Members learn of a rebalance with their next heartbeat, and Kafka advises at least three heartbeats per session.
_HEARTBEATS_OF_SESSION = 3


class PastRebalance(NamedTuple):
    """A rebalance and what is known of it: `rule` is its cause, null if none is known or it is only a hint.

    `advice` is that of the cause, or of the hint.
    """

    rebalance: Rebalance
    impact: RebalanceImpact | None = None
    rule: str | None = None
    advice: tuple[Advice, ...] = ()


def make_past_rebalance(
    rebalance: Rebalance, impact: RebalanceImpact | None, rule: str, confidence: float, advice: tuple[Advice, ...]
) -> PastRebalance:
    """Return a rebalance with the finding about its cause; `rule` is null if its confidence is that of a hint."""
    return PastRebalance(rebalance, impact, rule if confidence >= _MORE_THAN_A_HINT else None, advice)


class DepartureKind(Enum):
    """How a member left: session expired, poll limit exceeded, or neither; unknown if the rebalance was not judged."""

    EXPIRED = "expired"
    POLL_LIMIT = "poll limit"
    LEFT = "left"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Absence:
    """A member that left in the rebalance `left_in`, and came back in `back_in`, which may be the same.

    Both are indexes into the list of rebalances; `back_in` is null if it did not come back. `away_ms` bounds the time
    between them. `silent_ms` bounds the time since its last heartbeat, poll or leave request, depending on `departure`.
    The upper bounds are null while it has not come back, and if the time before it left is not known. `is_same`: client
    id and host are the same as before; otherwise only the client id is.
    """

    member: Member
    departure: DepartureKind
    rule: str | None
    left_in: int
    back_in: int | None
    new_id: str | None
    is_same: bool
    away_ms: tuple[int, int | None]
    silent_ms: tuple[int, int | None]

    @property
    def is_restart(self) -> bool:
        """Whether a new process came back, according to the cause."""
        return self.rule in RESTARTED

    @property
    def limit_ms(self) -> int | None:
        """The limit on its silence, in milliseconds; null if no record has it."""
        return (
            poll_limit_of(self.member) if self.departure is DepartureKind.POLL_LIMIT else self.member.session_timeout_ms
        )


#: Selects a generation.
_Test = Callable[[Generation], bool]


class _Departed(NamedTuple):
    member: Member
    place: int
    departure: DepartureKind
    at_ms: EstimateRange


class _Return(NamedTuple):
    place: int
    member_id: str
    at_ms: EstimateRange


class _AwayMembers:
    """Members that left and have not come back, with lookup in constant time; the first that left is returned first."""

    def __init__(self) -> None:
        self._by_id: dict[str, _Departed] = {}
        self._by_place: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        self._by_client: dict[str, dict[str, None]] = defaultdict(dict)

    def add(self, gone: _Departed) -> None:
        """Add a member that left. If it leaves twice, as rows of other writers may say, the later time counts."""
        member = gone.member
        self._pop(member.member_id)
        self._by_id[member.member_id] = gone
        self._by_place[member.client_id, member.host][member.member_id] = None
        self._by_client[member.client_id][member.member_id] = None

    def take(self, newcomer: Member, named: str | None, *, is_same: bool) -> _Departed | None:
        """Remove and return the former member of a newcomer: the one named, else the first with the same client id.

        If `is_same`, the host must be the same too. Null if there is none.
        """
        alike = self._by_place.get((newcomer.client_id, newcomer.host)) if is_same else None
        if named is None and not is_same:
            alike = self._by_client.get(newcomer.client_id)
        member_id = named if named is not None else next(iter(alike or ()), None)
        return None if member_id is None else self._pop(member_id)

    def _pop(self, member_id: str) -> _Departed | None:
        gone = self._by_id.pop(member_id, None)
        if gone is not None:
            del self._by_place[gone.member.client_id, gone.member.host][member_id]
            del self._by_client[gone.member.client_id][member_id]
        return gone

    def rest(self) -> Iterable[_Departed]:
        """Return the members that have not come back."""
        return self._by_id.values()


def poll_limit_of(member: Member) -> int | None:
    """Return max.poll.interval.ms as a member's records carry it; null for aiokafka, whose records repeat its session.

    Its rebalance_timeout_ms is its session unless it is set (aiokafka/consumer/consumer.py).
    """
    library, _ = library_of(member, None)
    return None if library == AIOKAFKA else member.rebalance_timeout_ms


def find_absences(rebalances: Sequence[PastRebalance], until_ms: int) -> list[Absence]:
    """Return the absences in rebalances sorted by their start; those without an end are measured up to `until_ms`."""
    found: list[Absence] = []
    away = _AwayMembers()
    for place, each in enumerate(rebalances):
        joined, named = frozenset(each.rebalance.joined), {new: old for old, new in each.rebalance.replaced}
        newcomers = [member for member in each.rebalance.members_after if member.member_id in joined]
        for gone in _departed_members(each, place):
            away.add(gone)
        for is_same in (True, False):
            strangers = []
            for newcomer in newcomers:
                before = away.take(newcomer, named.get(newcomer.member_id), is_same=is_same)
                if before is None:
                    strangers.append(newcomer)
                    continue
                back = _Return(place, newcomer.member_id, _when_returned(each.rebalance, newcomer.member_id))
                found.append(_absence(rebalances, before, back, is_same=newcomer.host == before.member.host))
            newcomers = strangers
    found += [_absence(rebalances, gone, None, is_same=True, until_ms=until_ms) for gone in away.rest()]
    return found


def _departed_members(each: PastRebalance, place: int) -> Iterator[_Departed]:
    """Yield the members that left in a rebalance."""
    before = {member.member_id: member for member in each.rebalance.members_before}
    for name in each.rebalance.left:
        if name in before:
            yield _Departed(before[name], place, _departure_kind(each, name), _when_left(each, name))


def _departure_kind(each: PastRebalance, name: str) -> DepartureKind:
    impact = each.impact
    if impact is not None and name in (impact.expired or ()):
        return DepartureKind.EXPIRED
    if impact is not None and name in (impact.poll_timeout or ()):
        return DepartureKind.POLL_LIMIT
    # `expired` is null while the rebalance has not been judged; a rebalance with a cause was judged.
    is_judged = each.rule not in NO_CAUSE or (impact is not None and impact.expired is not None)
    return DepartureKind.LEFT if is_judged else DepartureKind.UNKNOWN


def when_begun(rebalance: Rebalance) -> EstimateRange:
    """Return the time range of a rebalance's start: at most a heartbeat interval before it was first seen.

    A member learns of it with its next heartbeat and then joins; a slower member makes this range too narrow. The first
    member of an empty group waits for others, so its range is the one in the row.
    """
    high = rebalance.started_before_ms
    low = high if rebalance.started_after_ms is None else rebalance.started_after_ms
    return EstimateRange(max(low, high - _heartbeat_ms(rebalance)) if rebalance.members_before else low, high)


def when_last_joined(rebalance: Rebalance) -> EstimateRange:
    """Return the time range in which the last new member joined, as far as the generations show."""
    last = next((each for each in reversed(rebalance.generations) if each.joined), None)
    began_it = last is None or (last is rebalance.generations[0] and len(last.joined) == 1 and not last.left)
    return when_begun(rebalance) if began_it else _when(rebalance, lambda generation: generation is last)


def _heartbeat_ms(rebalance: Rebalance) -> int:
    members = (*rebalance.members_before, *rebalance.members_after)
    sessions = [each.session_timeout_ms for each in members if each.session_timeout_ms is not None]
    return max(sessions, default=USUAL_SESSION_MS) // _HEARTBEATS_OF_SESSION


def _when_left(each: PastRebalance, name: str) -> EstimateRange:
    """Return when a member left: at the start if that began the rebalance, else in its generation."""
    if any(name in generation.left for generation in each.rebalance.generations[1:]):
        return _when(each.rebalance, lambda generation: name in generation.left)
    if each.impact is not None and each.impact.prepared_at_ms is not None:
        return EstimateRange(each.impact.prepared_at_ms, each.impact.prepared_at_ms)
    return when_begun(each.rebalance)


def _when_returned(rebalance: Rebalance, name: str) -> EstimateRange:
    """Return the time range in which a member came back."""
    return _when(rebalance, lambda generation: name in generation.joined)


def _when(rebalance: Rebalance, is_it: _Test) -> EstimateRange:
    """Return the time range of the changes that a generation reports.

    It ends with the join phase, and begins with the rebalance or, in later generations, one heartbeat interval before
    the end.
    """
    begun, heartbeat_ms = when_begun(rebalance), _heartbeat_ms(rebalance)
    low = begun.low
    for number, generation in enumerate(rebalance.generations):
        end_ms = generation.join_ended_at_ms or generation.assigned_at_ms or rebalance.completed_at_ms
        high = max(low, begun.high if end_ms is None else end_ms)
        if is_it(generation):
            return EstimateRange(low if number == 0 else max(low, high - heartbeat_ms), high)
        low = high
    return EstimateRange(low, max(low, rebalance.completed_at_ms or low))


def _absence(
    rebalances: Sequence[PastRebalance], gone: _Departed, back: _Return | None, *, is_same: bool, until_ms: int = 0
) -> Absence:
    left_in, at_ms = rebalances[gone.place], gone.at_ms
    if back is None:
        away: tuple[int, int | None] = (max(0, until_ms - at_ms.high), None)
    else:
        away = (max(0, back.at_ms.low - at_ms.high), max(0, back.at_ms.high - at_ms.low))
    return Absence(
        member=gone.member,
        departure=gone.departure,
        rule=left_in.rule,
        left_in=gone.place,
        back_in=None if back is None else back.place,
        new_id=None if back is None else back.member_id,
        is_same=is_same,
        away_ms=away,
        silent_ms=_silent(left_in, gone, back, away),
    )


def _silent(
    left_in: PastRebalance, gone: _Departed, back: _Return | None, away: tuple[int, int | None]
) -> tuple[int, int | None]:
    """Return the bounds of a member's silence: the limit that it exceeded, plus the time until it came back."""
    if gone.departure in (DepartureKind.LEFT, DepartureKind.UNKNOWN):
        return away
    low, high = away
    limit = poll_limit_of(gone.member) if gone.departure is DepartureKind.POLL_LIMIT else gone.member.session_timeout_ms
    waited_for = back is not None and back.place == gone.place and left_in.rule in _BEFORE_EXPIRY
    if gone.departure is DepartureKind.EXPIRED and waited_for and limit is not None:
        # The newcomer joined before the session of its predecessor expired, and the group waited for that.
        return 0, limit - 1
    if limit is None:
        # A session timeout set by brokers is the default, unless it was changed; a poll limit is not known at all.
        return low + (USUAL_SESSION_MS if gone.departure is DepartureKind.EXPIRED else 0), None
    committed_ms = _last_commit(left_in, gone.member)
    longest = None if high is None else limit + high
    if back is not None and committed_ms is not None and longest is not None:
        # A member that commits is alive and has polled.
        longest = max(limit + low, min(longest, back.at_ms.high - committed_ms))
    return limit + low, longest


def _last_commit(left_in: PastRebalance, member: Member) -> int | None:
    """Return the latest commit of those of a member's partitions that stood still; null if there is none."""
    if left_in.impact is None or member.partitions is None:
        return None
    owned = {(topic, number) for topic, numbers in member.partitions.items() for number in numbers}
    silences = left_in.impact.silences
    return max((each.last_commit_ms for each in silences if (each.topic, each.partition) in owned), default=None)
