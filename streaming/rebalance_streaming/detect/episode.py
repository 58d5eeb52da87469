"""One rebalance as rules see it: its history, its departures and arrivals, and how long the other members waited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

from rebalance_contract import Member, Rebalance, RebalanceReason
from rebalance_streaming.detect.catalogue import with_trait
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.barriers import Barrier, barriers, longest_of
from rebalance_streaming.observed.confidence import CLAIMED
from rebalance_streaming.observed.departed_members import find_departures, may_be_back
from rebalance_streaming.observed.departures import Departure, Slot, slot_of
from rebalance_streaming.observed.history import GroupHistory
from rebalance_streaming.observed.liveness import reports_end_ms

#: Diagnoses of a process that ended.
_DEATHS = with_trait("death")


@dataclass(frozen=True, slots=True)
class ExplainedDeparture:
    """An earlier departure with its explanation. `rule` and `confidence` are those of the verdict about it."""

    rule: str
    confidence: float
    left_ms: int
    member: Member
    departure: Departure
    rebalance_id: str


@dataclass(frozen=True, slots=True)
class Arrival:
    """A member that joined. `returned_from` is the departure it comes back from, null for a newcomer."""

    member: Member
    returned_from: ExplainedDeparture | None


@dataclass(frozen=True, slots=True)
class OtherGroups:
    """The other groups that lost members at about the same time, and the hosts and coordinators of these losses."""

    groups: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    coordinators: tuple[int, ...] = ()


@dataclass(frozen=True)
class Episode:
    """One rebalance with its context, at the time it is judged.

    `earlier` are departures in other rebalances, `died` the clients (`slot_of`) with an earlier departure that is
    claimed to be a death, `held` the verdicts on what blocked the group during the rebalance. `time` is when it is
    judged.
    """

    rebalance: Rebalance
    history: GroupHistory
    thresholds: Thresholds
    time: JudgingTime
    departures: tuple[Departure, ...]
    arrivals: tuple[Arrival, ...]
    earlier: tuple[Departure, ...] = ()
    died: frozenset[tuple[str, str]] = frozenset()
    held: tuple[Verdict, ...] = ()
    elsewhere: OtherGroups = OtherGroups()

    @property
    def now_ms(self) -> int:
        """When it is judged, in epoch milliseconds."""
        return self.time.now_ms

    @property
    def duration_ms(self) -> int:
        """Minimum duration of the rebalance in milliseconds; until now if it is ongoing."""
        return max(0, (self.rebalance.completed_at_ms or self.now_ms) - self.rebalance.started_before_ms)

    @cached_property
    def barriers(self) -> tuple[Barrier, ...]:
        """The join barriers of the rebalance in order; cached, because rules read them for each member that left."""
        return barriers(self.history, self.rebalance)

    @property
    def longest_barrier(self) -> Barrier | None:
        """The barrier in which members waited longest; null if none is known."""
        return longest_of(self.barriers)

    def barrier_of(self, departure: Departure) -> Barrier | None:
        """Return the barrier after which the group went on without this member; null if the log does not show it."""
        name = departure.member.member_id
        return next((each for each in self.barriers if name in each.left), None)

    def came_with_loss_of(self, departure: Departure) -> frozenset[str]:
        """Return the ids of the members that joined with the generation in which this one was lost.

        They may have waited for it.
        """
        name = departure.member.member_id
        return frozenset(new for each in self.rebalance.rounds if name in each.left for new in each.joined)

    @property
    def is_probed(self) -> bool:
        """Whether probes looked at the group while it rebalanced."""
        end = self.rebalance.completed_at_ms or self.now_ms
        return self.history.probed(self.rebalance.started_after_ms or self.rebalance.started_before_ms, end)

    @property
    def knows_who_waited(self) -> bool:
        """Whether members that waited can be told apart from one that did not come.

        Probes alone do not show that if a member left or passed through, or if the start is not known.
        """
        rebalance = self.rebalance
        gone = self.departures or rebalance.passing or rebalance.started_after_ms is None
        return not (rebalance.is_at_least and gone)

    @property
    def has_reports(self) -> bool:
        """Whether any client of the group reports."""
        return bool(self.history.clients.known)

    @property
    def long_barrier_ms(self) -> int:
        """The length (ms) from which a join barrier needs a cause: members learn of it with their next heartbeat."""
        members = (*self.rebalance.members_before, *self.rebalance.members_after)
        return long_barrier_ms(self.history, members, self.thresholds.barrier_ms)


def long_barrier_ms(history: GroupHistory, members: Iterable[Member], least_ms: int) -> int:
    """Return the length (ms) from which a join barrier of these members is long: three heartbeats of the slowest.

    Only client reports carry heartbeat intervals; otherwise `least_ms` applies, which is longer than three default
    intervals.
    """
    names = {member.client_id for member in members} if history.clients.known else set()
    intervals = (each.config.heartbeat_interval_ms or 0 for each in history.clients if each.client_id in names)
    return max(least_ms, 3 * max(intervals, default=0))


#: Reasons that can trigger a generation in which no member joins or leaves, besides the generations before it.
_OWN_TRIGGERS = frozenset(
    {RebalanceReason.LEADER_REJOIN, RebalanceReason.SUBSCRIPTION_CHANGE, RebalanceReason.TOPIC_METADATA_CHANGE}
)


def runs_of_own(rebalance: Rebalance) -> list[Rebalance]:
    """Return the later parts of a rebalance that have their own trigger, each as a separate rebalance.

    A part is a run of generations with the same reason in which no member joined or left; its members are those present
    at that time.
    """
    known = rebalance.all_members()
    there = [member.member_id for member in rebalance.members_before]
    found: list[Rebalance] = []
    for place, each in enumerate(rebalance.generations):
        there = [name for name in there if name not in each.left] + [name for name in each.joined if name not in there]
        own = place > 0 and each.reason in _OWN_TRIGGERS and not each.joined and not each.left
        began_ms = rebalance.generations[place - 1].assigned_at_ms if place else None
        ended_ms = each.assigned_at_ms or each.join_ended_at_ms
        if not own or began_ms is None or ended_ms is None:
            continue
        if found and found[-1].generations[-1] is rebalance.generations[place - 1] and found[-1].reason == each.reason:
            run = (*found[-1].generations, each)
            found[-1] = replace(found[-1], generations=run, completed_at_ms=ended_ms)
            continue
        members = tuple(known[name] for name in there if name in known)
        part = replace(rebalance, reason=each.reason, generations=(each,), passing=(), joined=(), left=(), replaced=())
        found.append(
            replace(
                part,
                started_after_ms=began_ms,
                started_before_ms=began_ms,
                completed_at_ms=ended_ms,
                members_before=members,
                members_after=members,
                first_offender=None,
                moves=None,
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class EpisodeContext:
    """What is already known about a rebalance, about those before it, and about other groups at the time.

    `past`: departures explained so far, oldest first; `departures`: this rebalance's departures by member id, as the
    previous judgement found them; `held`: verdicts on what blocked the group during the rebalance.
    """

    past: Sequence[ExplainedDeparture] = ()
    departures: Mapping[str, Departure] = field(default_factory=dict)
    held: tuple[Verdict, ...] = ()
    elsewhere: OtherGroups = OtherGroups()


def make_episode(
    history: GroupHistory, rebalance: Rebalance, thresholds: Thresholds, time: JudgingTime, known: EpisodeContext
) -> Episode:
    """Return what rules need to judge one rebalance; `time` collects when the result may change."""
    before = {member.member_id for member in rebalance.members_before}
    joined = [member for member in rebalance.members_after if member.member_id not in before]
    left_before = [each.member.member_id for each in known.past if each.rebalance_id != rebalance.rebalance_id]
    departures = find_departures(history, rebalance, known.departures, time.now_ms, left_before)
    for each in departures:
        # A client whose reports ended counts as gone two intervals later.
        ends_ms = None if each.loss_reports is None else reports_end_ms(each.loss_reports)
        if ends_ms is not None and ends_ms >= time.now_ms:
            time.note_due(ends_ms + 1)
    return Episode(
        rebalance,
        history,
        thresholds,
        time,
        departures,
        tuple(_arrivals(history, rebalance, joined, known.past)),
        tuple(each.departure for each in known.past if each.rebalance_id != rebalance.rebalance_id),
        frozenset(slot_of(each.member) for each in known.past if _is_death(each, rebalance)),
        known.held,
        known.elsewhere,
    )


def _is_death(past: ExplainedDeparture, rebalance: Rebalance) -> bool:
    """Whether an earlier departure is claimed to be the end of a process."""
    earlier = past.rebalance_id != rebalance.rebalance_id and past.left_ms < rebalance.started_before_ms
    return earlier and past.rule in _DEATHS and past.confidence >= CLAIMED


def _arrivals(
    history: GroupHistory, rebalance: Rebalance, joined: Sequence[Member], past: Sequence[ExplainedDeparture]
) -> Iterator[Arrival]:
    """Yield the members that joined, each with the latest departure it returns from; no departure is used twice."""
    ended_ms = rebalance.completed_at_ms
    earlier = [
        each
        for each in (past if joined else ())
        if each.rebalance_id != rebalance.rebalance_id and (ended_ms is None or each.left_ms <= ended_ms)
    ]
    own = {each.member.member_id: each for each in earlier}
    open_ones = _not_back(earlier, {member.member_id for member in joined})
    for member in joined:
        # A member that keeps its id is the same member, regardless of others with its name.
        of_slot = [] if member.member_id in own else open_ones.get(slot_of(member), [])
        place = next((n for n, (each, back) in enumerate(of_slot) if _is_back(history, each, back, member)), None)
        yield Arrival(member, own.get(member.member_id) if place is None else of_slot.pop(place)[0])


def _not_back(
    earlier: Sequence[ExplainedDeparture], joined: Set[str]
) -> Mapping[Slot, list[tuple[ExplainedDeparture, str | None]]]:
    """Return the departures whose members were not back before this rebalance, by slot, the latest first.

    Each comes with the id under which its member is known to be back now (null: none). Clients that share a name and a
    host and left one after the other all have the id of the first that comes as theirs; only the latest keeps it.
    """
    found: dict[Slot, list[tuple[ExplainedDeparture, str | None]]] = {}
    known: set[str] = set()
    for each in reversed(earlier):
        back = each.departure.back_as
        name = None if back is None or back.member_id in known else back.member_id
        if name is not None:
            known.add(name)
        if name is None or name in joined:
            found.setdefault(slot_of(each.member), []).append((each, name))
    return found


def _is_back(history: GroupHistory, past: ExplainedDeparture, back: str | None, member: Member) -> bool:
    """Whether a member may be the one that left; `back` is the id under which that one is known to be back, or null."""
    return back in (None, member.member_id) and may_be_back(history, past.member, member)
