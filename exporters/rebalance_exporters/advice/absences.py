"""Who was away from a group, for how long and why it was removed, according to its rebalances.

Receives the rebalances of one group; hands on immutable values. Pure: no clock, no I/O. A member that comes back has a
new member id, so it is found again by its client id and host.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from rebalance_contract import UNDETERMINED, USUAL_SESSION_MS, Advice, Generation, Member, Rebalance, RebalanceImpact
from rebalance_contract.api_reports import EstimateRange
from rebalance_contract.client_settings import AIOKAFKA, library_of
from rebalance_contract.diagnoses import with_trait

#: By traits of the catalogue: what a cause says about a member that went, or of those that waited for it.
STARVED, STOOD_STILL, RESTARTED = with_trait("starved"), with_trait("same_process"), with_trait("new_process")
DID_NOT_POLL, HELD_UP, WAITED_FOR = with_trait("poll_limit"), with_trait("holds_up"), with_trait("waits_to_join")
#: Causes in which instances start while the session of the one before them still goes on.
_BEFORE_EXPIRY = with_trait("overlaps")
#: In the place of a cause where none is known.
NO_CAUSE = frozenset({None, UNDETERMINED})
#: Findings that are less sure are hints.
_MORE_THAN_A_HINT = 0.5
#: Members learn of a rebalance with their next heartbeat, and Kafka advises at least three of them in a session.
_HEARTBEATS_OF_SESSION = 3


class Seen(NamedTuple):
    """A rebalance with what is known of it: `rule` is its cause, null where none is known or it is a hint only.

    `advice` is what the cause advises, or the hint.
    """

    rebalance: Rebalance
    impact: RebalanceImpact | None = None
    rule: str | None = None
    advice: tuple[Advice, ...] = ()


def see(
    rebalance: Rebalance, impact: RebalanceImpact | None, rule: str, confidence: float, advice: tuple[Advice, ...]
) -> Seen:
    """Return a rebalance with the finding that is its cause, as sure as that is."""
    return Seen(rebalance, impact, rule if confidence >= _MORE_THAN_A_HINT else None, advice)


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
        """What its silence had to stay below, null where no record has it."""
        return poll_limit_of(self.member) if self.way is Way.POLL_LIMIT else self.member.session_timeout_ms


#: Whether a generation is the one meant.
_Test = Callable[[Generation], bool]


class _Gone(NamedTuple):
    member: Member
    place: int
    way: Way
    at_ms: EstimateRange


class _Back(NamedTuple):
    place: int
    member_id: str
    at_ms: EstimateRange


class _Waiting:
    """Those who went and have not come back, found again in constant time; who went first comes first."""

    def __init__(self) -> None:
        self._by_id: dict[str, _Gone] = {}
        self._by_place: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        self._by_client: dict[str, dict[str, None]] = defaultdict(dict)

    def add(self, gone: _Gone) -> None:
        """Add a member that left. Rows of other writers may let a member leave twice: the later one counts."""
        member = gone.member
        self._pop(member.member_id)
        self._by_id[member.member_id] = gone
        self._by_place[member.client_id, member.host][member.member_id] = None
        self._by_client[member.client_id][member.member_id] = None

    def take(self, newcomer: Member, named: str | None, *, is_same: bool) -> _Gone | None:
        """Hand out who a newcomer was before: the one named, else one of its client id and, if `is_same`, its host."""
        alike = self._by_place.get((newcomer.client_id, newcomer.host)) if is_same else None
        if named is None and not is_same:
            alike = self._by_client.get(newcomer.client_id)
        member_id = named if named is not None else next(iter(alike or ()), None)
        return None if member_id is None else self._pop(member_id)

    def _pop(self, member_id: str) -> _Gone | None:
        gone = self._by_id.pop(member_id, None)
        if gone is not None:
            del self._by_place[gone.member.client_id, gone.member.host][member_id]
            del self._by_client[gone.member.client_id][member_id]
        return gone

    def rest(self) -> Iterable[_Gone]:
        """Return those who are left."""
        return self._by_id.values()


def poll_limit_of(member: Member) -> int | None:
    """Return max.poll.interval.ms as a member's records carry it; null for aiokafka, whose records repeat its session.

    Its rebalance_timeout_ms is its session unless it is set (aiokafka/consumer/consumer.py).
    """
    library, _ = library_of(member, None)
    return None if library == AIOKAFKA else member.rebalance_timeout_ms


def find_absences(seen: Sequence[Seen], until_ms: int) -> list[Absence]:
    """Return the absences in rebalances sorted by their start; those that last are reported as of `until_ms`."""
    found: list[Absence] = []
    waiting = _Waiting()
    for place, each in enumerate(seen):
        joined, named = frozenset(each.rebalance.joined), {new: old for old, new in each.rebalance.replaced}
        newcomers = [member for member in each.rebalance.members_after if member.member_id in joined]
        for gone in _gone(each, place):
            waiting.add(gone)
        for is_same in (True, False):
            strangers = []
            for newcomer in newcomers:
                before = waiting.take(newcomer, named.get(newcomer.member_id), is_same=is_same)
                if before is None:
                    strangers.append(newcomer)
                    continue
                back = _Back(place, newcomer.member_id, _when_in(each.rebalance, newcomer.member_id))
                found.append(_absence(seen, before, back, is_same=newcomer.host == before.member.host))
            newcomers = strangers
    found += [_absence(seen, gone, None, is_same=True, until_ms=until_ms) for gone in waiting.rest()]
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
    # Timeouts are reported of a rebalance that had any; one with a cause was judged.
    is_judged = each.rule not in NO_CAUSE or (impact is not None and impact.expired is not None)
    return Way.LEFT if is_judged else Way.UNKNOWN


def when_begun(rebalance: Rebalance) -> EstimateRange:
    """Return when a rebalance began: no more than a heartbeat before it was first seen.

    A member learns of it with its next heartbeat, and joins; one that is slower makes this too narrow. The first member
    of an empty group waits for others, so nothing more is known of its start than the row says.
    """
    high = rebalance.started_before_ms
    low = high if rebalance.started_after_ms is None else rebalance.started_after_ms
    return EstimateRange(max(low, high - _heartbeat_ms(rebalance)) if rebalance.members_before else low, high)


def when_last_joined(rebalance: Rebalance) -> EstimateRange:
    """Return when the last of a rebalance's newcomers came, as far as its generations show."""
    last = next((each for each in reversed(rebalance.generations) if each.joined), None)
    began_it = last is None or (last is rebalance.generations[0] and len(last.joined) == 1 and not last.left)
    return when_begun(rebalance) if began_it else _when(rebalance, lambda generation: generation is last)


def _heartbeat_ms(rebalance: Rebalance) -> int:
    members = (*rebalance.members_before, *rebalance.members_after)
    sessions = [each.session_timeout_ms for each in members if each.session_timeout_ms is not None]
    return max(sessions, default=USUAL_SESSION_MS) // _HEARTBEATS_OF_SESSION


def _when_gone(each: Seen, name: str) -> EstimateRange:
    """Return when a member went: what set the rebalance off did so at its beginning, others in their generation."""
    if any(name in generation.left for generation in each.rebalance.generations[1:]):
        return _when(each.rebalance, lambda generation: name in generation.left)
    if each.impact is not None and each.impact.prepared_at_ms is not None:
        return EstimateRange(each.impact.prepared_at_ms, each.impact.prepared_at_ms)
    return when_begun(each.rebalance)


def _when_in(rebalance: Rebalance, name: str) -> EstimateRange:
    """Return between which times a member came back."""
    return _when(rebalance, lambda generation: name in generation.joined)


def _when(rebalance: Rebalance, is_it: _Test) -> EstimateRange:
    """Return between which times what a generation reports happened: a heartbeat, or the join phase, before its end."""
    begun, heartbeat_ms = when_begun(rebalance), _heartbeat_ms(rebalance)
    low = begun.low
    for number, generation in enumerate(rebalance.generations):
        end_ms = generation.join_ended_at_ms or generation.assigned_at_ms or rebalance.completed_at_ms
        high = max(low, begun.high if end_ms is None else end_ms)
        if is_it(generation):
            return EstimateRange(low if number == 0 else max(low, high - heartbeat_ms), high)
        low = high
    return EstimateRange(low, max(low, rebalance.completed_at_ms or low))


def _absence(seen: Sequence[Seen], gone: _Gone, back: _Back | None, *, is_same: bool, until_ms: int = 0) -> Absence:
    left_in, at_ms = seen[gone.place], gone.at_ms
    if back is None:
        away: tuple[int, int | None] = (max(0, until_ms - at_ms.high), None)
    else:
        away = (max(0, back.at_ms.low - at_ms.high), max(0, back.at_ms.high - at_ms.low))
    return Absence(
        member=gone.member,
        way=gone.way,
        rule=left_in.rule,
        left_in=gone.place,
        back_in=None if back is None else back.place,
        new_id=None if back is None else back.member_id,
        is_same=is_same,
        away_ms=away,
        silent_ms=_silent(left_in, gone, back, away),
    )


def _silent(left_in: Seen, gone: _Gone, back: _Back | None, away: tuple[int, int | None]) -> tuple[int, int | None]:
    """Return how long a member was silent altogether: the limit that it passed, and the time until it came back."""
    if gone.way in (Way.LEFT, Way.UNKNOWN):
        return away
    low, high = away
    limit = poll_limit_of(gone.member) if gone.way is Way.POLL_LIMIT else gone.member.session_timeout_ms
    waited_for = back is not None and back.place == gone.place and left_in.rule in _BEFORE_EXPIRY
    if gone.way is Way.EXPIRED and waited_for and limit is not None:
        # The newcomer was there before the session of its predecessor ended: the group waited for that.
        return 0, limit - 1
    if limit is None:
        # A session that brokers set is the default, unless it was changed; of a poll limit nothing is known.
        return low + (USUAL_SESSION_MS if gone.way is Way.EXPIRED else 0), None
    committed_ms = _last_commit(left_in, gone.member)
    longest = None if high is None else limit + high
    if back is not None and committed_ms is not None and longest is not None:
        # Whoever commits is alive, and has polled.
        longest = max(limit + low, min(longest, back.at_ms.high - committed_ms))
    return limit + low, longest


def _last_commit(left_in: Seen, member: Member) -> int | None:
    """Return when the latest of a member's partitions was last committed, of those that stood still."""
    if left_in.impact is None or member.partitions is None:
        return None
    owned = {(topic, number) for topic, numbers in member.partitions.items() for number in numbers}
    silences = left_in.impact.silences
    return max((each.last_commit_ms for each in silences if (each.topic, each.partition) in owned), default=None)
