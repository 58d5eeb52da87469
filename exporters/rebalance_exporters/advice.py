"""What settings would have avoided: of the rebalances of one group, by what their own rows show.

Receives rebalances with their impacts and causes; hands on estimates. Pure: no clock, no I/O. A rebalance counts as
avoided by a value if every member that came or went in it did so because of an absence that the value would have
covered: certainly so where the whole range of the absence lies below the value and the diagnosis agrees, at most so
where the row leaves that open. What a value would have caused (a death that is noticed later) is told as its cost.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from rebalance_contract import COORDINATED_TYPES, GroupType, Member, Rebalance, RebalanceImpact, Silence
from rebalance_contract.api import Avoided, EstimateRange, PeriodSums, SettingEstimate
from rebalance_exporters.absences import (
    DID_NOT_POLL,
    HELD_UP,
    NO_CAUSE,
    STARVED,
    STOOD_STILL,
    Absence,
    Seen,
    Way,
    find_absences,
    when_begun,
    when_last_joined,
)
from rebalance_exporters.figures import plural, span

#: The rebalances before a period that are needed to find who came back in it.
CONTEXT_MS = 3_600_000


class Setting(StrEnum):
    """The settings that are estimated, in the order in which those of equal worth are told."""

    MAX_POLL_RECORDS = "max.poll.records"
    MAX_POLL_INTERVAL = "max.poll.interval.ms"
    SESSION = "session.timeout.ms"
    STATIC = "group.instance.id"
    ASSIGNOR = "partition.assignment.strategy"
    PROTOCOL = "group.protocol"
    INITIAL_DELAY = "group.initial.rebalance.delay.ms"
    HEARTBEAT = "heartbeat.interval.ms"


#: The name of the session where the coordinator sets it, as in groups of KIP-848.
SESSION_OF_GROUP = "consumer.session.timeout.ms"

_SECOND = 1_000
_SESSIONS_MS = tuple(_SECOND * each for each in (10, 15, 20, 30, 45, 60, 90, 120, 180, 300))
_POLL_INTERVALS_MS = tuple(_SECOND * each for each in (15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1_800))
_INITIAL_DELAYS_MS = tuple(_SECOND * each for each in (5, 10, 15, 30))
#: What max.poll.records could be, in percent of what it is.
_RECORD_SHARES = (50, 33, 25, 20, 10, 5, 2, 1)
#: A value is proposed that would have covered absences this much longer than those seen, and as many of them.
_MARGIN, _ENOUGH = 1.25, 0.8
_NAMED_REBALANCES = 10
#: A number of milliseconds at the beginning of what is proposed: no share, and no beginning of a word.
_NUMBER = re.compile(r"(\d{1,9})(?![\d.]|\s*%)\b")

#: The assignor that leaves partitions with their owner meanwhile.
_COOPERATIVE = "cooperative-sticky"


class Cover(NamedTuple):
    """Whether an absence, or a rebalance, would certainly, or at all, have been covered."""

    certain: bool
    possible: bool


_NOT, _MAYBE = Cover(False, False), Cover(False, True)


@dataclass(slots=True)
class _Tally:
    """What is added up of rebalances that would have been avoided."""

    certain: list[str] = field(default_factory=list)
    possible: list[str] = field(default_factory=list)
    rebalancing_ms: list[int] = field(default_factory=lambda: [0, 0])
    lost_ms: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, seen: Seen, cover: Cover, lost_ms: EstimateRange) -> None:
        """Add one that would have been avoided."""
        took_ms = seen.rebalance.duration_min_ms or 0
        (self.certain if cover.certain else self.possible).append(seen.rebalance.rebalance_id)
        self.rebalancing_ms[0] += took_ms if cover.certain else 0
        self.rebalancing_ms[1] += took_ms
        self.lost_ms[0] += lost_ms.low if cover.certain else 0
        self.lost_ms[1] += lost_ms.high

    @property
    def counts(self) -> EstimateRange:
        return EstimateRange(len(self.certain), len(self.certain) + len(self.possible))

    @property
    def names(self) -> tuple[str, ...]:
        return (*reversed(self.certain), *reversed(self.possible))[:_NAMED_REBALANCES]

    def avoided(self) -> Avoided:
        return Avoided(self.counts, EstimateRange(*self.rebalancing_ms), EstimateRange(*self.lost_ms))


@dataclass(frozen=True, slots=True)
class LookBack:
    """The rebalances of one group in the order of their start, with who was away; `since_ms`: those that count."""

    seen: tuple[Seen, ...]
    absences: tuple[Absence, ...]
    since_ms: int
    until_ms: int

    def counted(self) -> Iterator[tuple[int, Seen]]:
        """Yield those that began in the period, with their places."""
        for place, each in enumerate(self.seen):
            if self.since_ms <= each.rebalance.started_before_ms < self.until_ms:
                yield place, each

    def in_period(self) -> list[Absence]:
        """Return the absences that began in the period."""
        places = {place for place, _ in self.counted()}
        return [each for each in self.absences if each.left_in in places]


def look_back(seen: Iterable[Seen], since_ms: int, until_ms: int) -> LookBack:
    """Return the past of a group as `estimate` reads it."""
    ordered = sorted(seen, key=lambda each: (each.rebalance.started_before_ms, each.rebalance.rebalance_id))
    begun = tuple(each for each in ordered if each.rebalance.started_before_ms < until_ms)
    return LookBack(begun, tuple(find_absences(begun, until_ms)), since_ms, until_ms)


def add_up(past: LookBack) -> PeriodSums:
    """Return what the rebalances of the period come to."""
    seen = [each for _, each in past.counted()]
    impacts = [each.impact for each in seen if each.impact is not None]
    return PeriodSums(
        rebalances=len(seen),
        rebalancing_ms=sum(each.rebalance.duration_min_ms or 0 for each in seen),
        lost_partition_ms=sum(each.lost_partition_ms for each in impacts),
        uncosted=len(seen) - len(impacts),
    )


def estimate(past: LookBack, values: Mapping[Setting, int] | None = None) -> list[SettingEstimate]:
    """Return, for each setting, what it would have avoided, the most first; those that avoid nothing too.

    `values` are to be taken instead of those that the past speaks for: milliseconds or, of max.poll.records, percent.
    """
    given = values or {}
    found = [_ESTIMATES[setting](past, given.get(setting)) for setting in Setting]
    return sorted(found, key=lambda each: worth_of(each.avoided))


def worth_of(avoided: Avoided) -> tuple[int, ...]:
    """Return what settings are sorted by, the most first: what is certain, then what may be."""
    measures = (avoided.lost_partition_ms, avoided.rebalances, avoided.rebalancing_ms)
    return (*(-each.low for each in measures), *(-each.high for each in measures))


def avoids_something(of: SettingEstimate) -> bool:
    """Whether a setting would have avoided anything at all."""
    avoided = of.avoided
    return any((avoided.rebalances.high, avoided.rebalancing_ms.high, avoided.lost_partition_ms.high))


# --- Settings that cover absences ---


def _session(past: LookBack, value: int | None) -> SettingEstimate:
    def covers(absence: Absence, session_ms: float) -> Cover:
        if absence.way not in (Way.EXPIRED, Way.UNKNOWN) or absence.rule in DID_NOT_POLL:
            return _NOT
        is_static = absence.member.group_instance_id is not None
        if absence.is_restart and not is_static:
            # Who starts anew joins as a stranger, whatever the session.
            return _NOT
        agreed = absence.way is Way.EXPIRED and (is_static or absence.rule in STOOD_STILL)
        return _within(absence, session_ms, agreed=agreed)

    current = _limit(past, lambda member: member.session_timeout_ms)
    of_group = any(each.rebalance.type in COORDINATED_TYPES for each in past.seen)
    name = SESSION_OF_GROUP if of_group else Setting.SESSION
    chosen, tally = _best(past, covers, _above(_SESSIONS_MS, current), value, advised=_advised(past, name))
    deaths = [each for each in past.in_period() if each.way is Way.EXPIRED and each.back_in is None]
    cost = f"a member that dies is noticed after {_from(current, chosen)}, and its partitions wait as long"
    if any(each.rule in STARVED for each in past.in_period()):
        cost = f"{cost}; what starves the heartbeats stays, see the findings"
    if deaths:
        cost = f"{cost}; {plural(len(deaths), 'member')} died, or stayed away, in this time"
    return _tell(
        (name, _ms(current), _ms(chosen) or "", chosen),
        tally.avoided(),
        cost,
        "members whose session ran out and that came back as the same process: session, and time until they were back",
        tally,
    )


def _max_poll_interval(past: LookBack, value: int | None) -> SettingEstimate:
    def covers(absence: Absence, interval_ms: float) -> Cover:
        if absence.way not in (Way.POLL_LIMIT, Way.UNKNOWN) or absence.is_restart or absence.rule in STOOD_STILL:
            return _NOT
        agreed = absence.way is Way.POLL_LIMIT and absence.rule in DID_NOT_POLL
        return _within(absence, interval_ms, agreed=agreed)

    current = _poll_limit(past)
    advised = _advised(past, Setting.MAX_POLL_INTERVAL)
    chosen, tally = _best(past, covers, _above(_POLL_INTERVALS_MS, current), value, advised=advised)
    return _tell(
        (Setting.MAX_POLL_INTERVAL, _ms(current), _ms(chosen) or "", chosen),
        tally.avoided(),
        f"a consumer that is stuck is noticed after {_from(current, chosen)}, "
        "and may hold up a rebalance for as long where the protocol is classic",
        "members that left because they did not poll, and came back: the limit, and time until they were back",
        tally,
    )


def _max_poll_records(past: LookBack, value: int | None) -> SettingEstimate:
    def covers(absence: Absence, share: float) -> Cover:
        limit, (low, high) = absence.limit_ms, absence.silent_ms
        if absence.way is not Way.POLL_LIMIT or limit is None or absence.back_in is None:
            return _NOT
        advised = any(each.parameter == Setting.MAX_POLL_RECORDS for each in past.seen[absence.left_in].advice)
        if not advised and absence.rule not in NO_CAUSE:
            return _NOT
        certain = (
            advised
            and absence.rule not in NO_CAUSE
            and absence.is_same
            and high is not None
            and high * share < 100 * limit
        )
        return Cover(certain, low * share < 100 * limit)

    chosen, tally = _best(past, covers, _RECORD_SHARES, value, is_share=True)
    return _tell(
        (Setting.MAX_POLL_RECORDS, None, "" if chosen is None else f"{chosen} % of what it is", chosen),
        tally.avoided(),
        "more polls for as many records; less is fetched ahead of the work",
        "batches that took longer than max.poll.interval.ms, if a part of the records takes that part of the time",
        tally,
    )


def _static(past: LookBack, value: int | None) -> SettingEstimate:
    def covers(absence: Absence, session_ms: float) -> Cover:
        is_dynamic = absence.member.group_instance_id is None
        unexplained = absence.rule in NO_CAUSE
        if not is_dynamic or absence.way is Way.POLL_LIMIT or not (absence.is_restart or unexplained):
            return _NOT
        agreed = absence.is_restart and absence.way is not Way.UNKNOWN
        return _within(absence, session_ms, agreed=agreed)

    current = _limit(past, lambda member: member.session_timeout_ms)
    # With names alone the session stays as it is.
    ladder = _above(_SESSIONS_MS, current) if current is None else (current, *_above(_SESSIONS_MS, current))
    chosen, tally = _best(past, covers, ladder, value)
    more = "" if chosen in (None, current) else f", with session.timeout.ms = {chosen}"
    stops = [each for each in past.in_period() if each.way is Way.LEFT and each.back_in is None]
    cost = f"a member that stops for good is noticed only {span(chosen or current)} later; names must be unique"
    if stops:
        cost = f"{cost}; {plural(len(stops), 'member')} left for good in this time"
    return _tell(
        (Setting.STATIC, None, f"a stable name per instance{more}", chosen),
        tally.avoided(),
        cost,
        "members that were started again under the same client id and host within the session",
        tally,
    )


def _within(absence: Absence, limit_ms: float, *, agreed: bool) -> Cover:
    low, high = absence.silent_ms
    if absence.back_in is None:
        # It may have been about to come back when nobody looked any more.
        return Cover(False, low < limit_ms and absence.rule in NO_CAUSE and absence.way is Way.UNKNOWN)
    return Cover(agreed and absence.is_same and high is not None and high < limit_ms, low < limit_ms)


_Covers = Callable[[Absence, float], Cover]


def _best(
    past: LookBack,
    covers: _Covers,
    ladder: Sequence[int],
    value: int | None,
    *,
    advised: Iterable[int] = (),
    is_share: bool = False,
) -> tuple[int | None, _Tally]:
    """Return the smallest change that avoids nearly all that any would, and what it would have avoided.

    One of the values that findings advise is taken instead where it avoids as much: there is one advice, not two.
    """
    if value is not None:
        return value, _avoided(past, covers, value)
    margin = _MARGIN if is_share else 1 / _MARGIN
    # More of a change avoids no less.
    best = _avoided(past, covers, ladder[-1] * margin).counts if ladder else EstimateRange()
    for each in ladder if best.high else ():
        count = _avoided(past, covers, each * margin).counts
        if count.low >= _ENOUGH * best.low if best.low else count.high >= _ENOUGH * best.high:
            chosen = min((one for one in advised if one > each), default=each)
            return chosen, _avoided(past, covers, chosen)
    return None, _Tally()


def _advised(past: LookBack, setting: str) -> set[int]:
    """Return the numbers that findings about the rebalances of the period advise for a setting."""
    advice = (one for _, each in past.counted() for one in each.advice if one.parameter.startswith(setting))
    numbers = (_NUMBER.match(one.proposed) for one in advice)
    return {int(found[1]) for found in numbers if found is not None}


def _avoided(past: LookBack, covers: _Covers, value: float) -> _Tally:
    """Add up the rebalances all of whose changes a value would have covered."""
    cover_of: dict[tuple[int, str], Cover] = {}
    for absence in past.absences:
        cover = covers(absence, value)
        cover_of[absence.left_in, absence.member.member_id] = cover
        if absence.back_in is not None and absence.new_id is not None:
            cover_of[absence.back_in, absence.new_id] = cover
    tally = _Tally()
    for place, each in past.counted():
        cover = _cover(each.rebalance, [cover_of.get((place, name), _NOT) for name in _changes(each.rebalance)])
        if cover.possible:
            tally.add(each, cover, _lost_of_others(each))
    return tally


def _changes(rebalance: Rebalance) -> list[str]:
    return [*rebalance.left, *rebalance.joined]


def _cover(rebalance: Rebalance, covers: Sequence[Cover]) -> Cover:
    if not covers or not all(each.possible for each in covers):
        return _NOT
    # Of who came and went in between, and of what did not fit, nothing is known.
    whole = not rebalance.passing and not rebalance.is_truncated
    return Cover(whole and all(each.certain for each in covers), True)


def _lost_of_others(seen: Seen) -> EstimateRange:
    """Return the time lost that would not have been lost: of members that were away, and their partitions, perhaps."""
    if seen.impact is None:
        return EstimateRange()
    changed = {*seen.rebalance.left, *seen.rebalance.joined}
    members = (*seen.rebalance.members_before, *seen.rebalance.members_after)
    own = _owners(member for member in members if member.member_id in changed).keys()
    start_ms = seen.rebalance.started_before_ms
    others = sum(_length(each, start_ms) for each in seen.impact.silences if (each.topic, each.partition) not in own)
    return EstimateRange(min(others, seen.impact.lost_partition_ms), seen.impact.lost_partition_ms)


def _length(silence: Silence, start_ms: int) -> int:
    return max(0, silence.resumed_at_ms - max(silence.last_commit_ms, start_ms))


# --- Settings that make rebalances cheaper ---


def _assignor(past: LookBack, _: int | None) -> SettingEstimate:
    def helps(each: Rebalance) -> bool:
        return each.type == GroupType.CLASSIC and each.protocol not in (_COOPERATIVE, "stream", "connect", "compatible")

    lost_ms, names = _kept_working(past, helps)
    protocols = {each.rebalance.protocol for _, each in past.counted()} - {None}
    return SettingEstimate(
        setting=Setting.ASSIGNOR,
        current=", ".join(sorted(filter(None, protocols))) or None,
        proposed=_COOPERATIVE,
        value=None,
        avoided=Avoided(lost_partition_ms=lost_ms),
        cost="a second, short round of each rebalance that moves partitions; all clients must know it, and two rolling "
        "restarts change over",
        basis="partitions that kept their owner and stood still all the same; at least as long as the rebalance took",
        rebalance_ids=names,
    )


def _protocol(past: LookBack, _: int | None) -> SettingEstimate:
    def helps(each: Rebalance) -> bool:
        return each.type == GroupType.CLASSIC and each.protocol not in ("stream", "connect", "compatible")

    lost_ms, names = _kept_working(past, helps)
    # What a group waited for a member that does not join: no other waits for it where there is no barrier.
    waited = [
        each for _, each in past.counted() if helps(each.rebalance) and each.rule == "stalled_member_join_barrier"
    ]
    waited_ms = sum(each.rebalance.duration_min_ms or 0 for each in waited)
    return SettingEstimate(
        setting=Setting.PROTOCOL,
        current="classic" if any(helps(each.rebalance) for _, each in past.counted()) else None,
        proposed="consumer (KIP-848)",
        value=None,
        avoided=Avoided(rebalancing_ms=EstimateRange(0, waited_ms), lost_partition_ms=lost_ms),
        cost="needs brokers of 4.0 or newer and clients that know it; assignors of the clients' own are given up",
        basis="as for the assignor, and the time that a group waited for a member that did not join",
        rebalance_ids=tuple(dict.fromkeys((*names, *(each.rebalance.rebalance_id for each in waited))))[
            :_NAMED_REBALANCES
        ],
    )


def _kept_working(past: LookBack, helps: Callable[[Rebalance], bool]) -> tuple[EstimateRange, tuple[str, ...]]:
    """Return the time lost of partitions that kept their owner, and the rebalances in which it was lost."""
    low = high = 0
    names: list[str] = []
    for _, each in past.counted():
        if each.impact is None or not helps(each.rebalance):
            continue
        at_least, at_most = _lost_of_kept(each.rebalance, each.impact, each.rule)
        if at_most:
            names.append(each.rebalance.rebalance_id)
        low, high = low + at_least, high + at_most
    return EstimateRange(low, high), tuple(reversed(names))[:_NAMED_REBALANCES]


def _lost_of_kept(rebalance: Rebalance, impact: RebalanceImpact, rule: str | None) -> tuple[int, int]:
    """Return how long partitions stood still that had the same member before and after, at least and at most.

    A member of an eager group has no partitions while the rebalance lasts; what is longer may be a pause of commits.
    Where a member held the others up, its own stand still whatever the assignor: at least, the one with most is it.
    """
    before, after = _owners(rebalance.members_before), _owners(rebalance.members_after)
    took_ms = rebalance.duration_min_ms or 0
    lengths: dict[str, list[int]] = defaultdict(list)
    for each in impact.silences:
        owner = before.get((each.topic, each.partition))
        if owner is not None and owner == after.get((each.topic, each.partition)):
            lengths[owner].append(_length(each, rebalance.started_before_ms))
    least = [sum(min(each, took_ms) for each in of_owner) for of_owner in lengths.values()]
    held_up = max(least, default=0) if rule in HELD_UP else 0
    return sum(least) - held_up, sum(map(sum, lengths.values()))


def _owners(members: Iterable[Member]) -> dict[tuple[str, int], str]:
    return {
        (topic, number): member.member_id
        for member in members
        for topic, numbers in (member.partitions or {}).items()
        for number in numbers
    }


# --- A group that starts, and heartbeats ---


def _initial_delay(past: LookBack, value: int | None) -> SettingEstimate:
    arrivals = list(_arrivals_at_start(past))
    starts = sum(_is_start(each.rebalance) for _, each in past.counted())

    def avoided(delay_ms: float) -> _Tally:
        tally = _Tally()
        lost: set[str] = set()
        for each, start, (low, high) in arrivals:
            # Each arrival makes the coordinator wait anew: one that comes too late ends that.
            cover = Cover(high < delay_ms and start not in lost, low < delay_ms and start not in lost)
            if not cover.possible:
                lost.add(start)
                continue
            tally.add(each, cover, EstimateRange(0, 0 if each.impact is None else each.impact.lost_partition_ms))
        return tally

    chosen = value
    if chosen is None:
        best = max((avoided(each / _MARGIN).counts.high for each in _INITIAL_DELAYS_MS), default=0)
        enough = (each for each in _INITIAL_DELAYS_MS if avoided(each / _MARGIN).counts.high >= _ENOUGH * best)
        chosen = next(enough, None) if best else None
    tally = _Tally() if chosen is None else avoided(chosen)
    return _tell(
        (Setting.INITIAL_DELAY, None, _ms(chosen) or "", chosen),
        tally.avoided(),
        f"set on the brokers, for all groups: each start of a group takes {span(chosen)} at least; "
        f"this one started empty {plural(starts, 'time')}",
        "members that joined a group soon after it had started empty",
        tally,
    )


def _is_start(rebalance: Rebalance) -> bool:
    return rebalance.type == GroupType.CLASSIC and not rebalance.members_before and bool(rebalance.joined)


def _arrivals_at_start(past: LookBack) -> Iterator[tuple[Seen, str, tuple[int, int]]]:
    """Yield rebalances in which members joined a group that had just started, its start, and the time between.

    The time is bounded, and counts from the arrival before.
    """
    start, before = "", EstimateRange()
    counted = {place for place, _ in past.counted()}
    back = {(each.back_in, each.new_id) for each in past.absences}
    for place, each in enumerate(past.seen):
        rebalance = each.rebalance
        if _is_start(rebalance):
            start, before = rebalance.rebalance_id, when_last_joined(rebalance)
            continue
        came = bool(rebalance.joined) and not rebalance.left and not rebalance.passing
        if not start or not came or any((place, name) in back for name in rebalance.joined):
            start = ""
            continue
        begun = when_begun(rebalance)
        if place in counted:
            yield each, start, (max(0, begun.low - before.high), max(0, begun.high - before.low))
        before = when_last_joined(rebalance)


def _heartbeat(past: LookBack, _: int | None) -> SettingEstimate:
    tally, proposed, current = _Tally(), "", None
    for _place, each in past.counted():
        advice = next((one for one in each.advice if one.parameter == Setting.HEARTBEAT), None)
        if advice is not None:
            proposed, current = advice.proposed, advice.current
            tally.add(each, _MAYBE, EstimateRange(0, 0 if each.impact is None else each.impact.lost_partition_ms))
    return _tell(
        (Setting.HEARTBEAT, current, proposed or "a third of the session at most", None),
        tally.avoided(),
        "more heartbeats, which are small",
        "rebalances whose cause advises it: a heartbeat that is lost leaves no row",
        tally,
    )


# --- Words ---


def _tell(
    what: tuple[str, str | None, str, int | None], avoided: Avoided, cost: str, basis: str, tally: _Tally
) -> SettingEstimate:
    setting, current, proposed, value = what
    return SettingEstimate(setting, current, proposed, value, avoided, cost, basis, tally.names)


def _limit(past: LookBack, read: Callable[[Member], int | None]) -> int | None:
    """Return the largest of a setting that members had in the period; null where none tells it."""
    members = (member for _, each in past.counted() for member in each.rebalance.members_before)
    return max((told for told in map(read, members) if told is not None), default=None)


def _poll_limit(past: LookBack) -> int | None:
    """Return the max.poll.interval.ms of those that missed it, else the largest that any has; null: not told."""
    missed = [each.limit_ms for each in past.in_period() if each.way is Way.POLL_LIMIT and each.limit_ms is not None]
    return max(missed, default=None) or _limit(past, lambda member: member.rebalance_timeout_ms)


def _above(ladder: Sequence[int], current: int | None) -> tuple[int, ...]:
    return tuple(each for each in ladder if current is None or each > current)


def _ms(value: int | None) -> str | None:
    return None if value is None else str(value)


def _from(current: int | None, value: int | None) -> str:
    """Say from what to what a time would grow."""
    now = "what it is" if current is None else span(current)
    return now if value is None else f"{span(value)} instead of {now}"


_ESTIMATES: Mapping[Setting, Callable[[LookBack, int | None], SettingEstimate]] = {
    Setting.MAX_POLL_RECORDS: _max_poll_records,
    Setting.MAX_POLL_INTERVAL: _max_poll_interval,
    Setting.SESSION: _session,
    Setting.STATIC: _static,
    Setting.ASSIGNOR: _assignor,
    Setting.PROTOCOL: _protocol,
    Setting.INITIAL_DELAY: _initial_delay,
    Setting.HEARTBEAT: _heartbeat,
}
