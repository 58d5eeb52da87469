"""Partitions that end each of their owners: by a batch that is always too long, or by a single record.

Receives explained departures and the progress of the lost partitions; finds partitions that the departures have in
common. Causes of single departures are judged elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rebalance_contract import Member, Rebalance, Severity, Subject
from rebalance_contract.clients import CONSUMED_TOTAL
from rebalance_streaming.detect.catalogue import with_trait
from rebalance_streaming.detect.episode import ExplainedDeparture
from rebalance_streaming.detect.group_view import GroupView, condition
from rebalance_streaming.detect.rules.member_settings import have_poll_records
from rebalance_streaming.detect.verdict import Verdict, name_of
from rebalance_streaming.groups.partitions import Place, partition_name, places
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.clients import ClientHistory
from rebalance_streaming.observed.confidence import CERTAIN, CLAIMED, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import CLEAN, POLL_TIMEOUT, SESSION_EXPIRED, slot_of

#: Number of latest rebalances searched for a loop, and number of losses below which owner changes are no fault.
_SEARCHED, _LOSSES = 20, 2
#: A coincidence with at most this probability is not taken for chance.
_NO_CHANCE = 0.01
#: Causes of departures in order, such as a deploy or a scale-in.
_ORDERLY = with_trait("orderly")
#: Causes that no record can trigger, if they are sure.
_NOT_OF_RECORDS = with_trait("not_of_records")
#: Explanations of an expired session that do not exclude the member's work as the reason.
_OVER_WORK = with_trait("over_work")


@dataclass(frozen=True, slots=True)
class _Frozen:
    """A partition whose committed offset does not advance. `offset` null: no commit is known.

    `lag` is the number of waiting records, null if its end is not known; without a commit, all its records wait.
    """

    place: Place
    offset: int | None
    since_ms: int
    lag: int | None

    @property
    def name(self) -> str:
        """The name as Kafka prints it: topic-partition."""
        return partition_name(*self.place)


def _frozen(view: GroupView, place: Place) -> _Frozen:
    position = view.progress.position(*place)
    if position.committed is None or position.advanced_ms is None:
        return _Frozen(place, None, view.history.first_ms or 0, position.end)
    return _Frozen(place, position.committed, position.advanced_ms, position.lag)


# --- The same batch repeatedly ---


@condition(inputs.REPORTED)
def no_progress_loop(view: GroupView) -> Iterator[Verdict]:
    """Each owner in turn is lost over the same too-long batch (tulios/kafkajs#1396, #1083; kafka-python#2070)."""
    lost = [each for each in view.past if _was_too_long(each)]
    if len(lost) < _LOSSES:
        return
    rebalances = _series(view)
    touched = {place for each in lost[-_SEARCHED:] for place in places(each.member.partitions)} if rebalances else ()
    loops: dict[tuple[str, ...], list[_Frozen]] = {}
    for frozen in (_frozen(view, place) for place in sorted(touched)):
        changes = tuple(_owner_changes(rebalances, frozen))
        if len(changes) >= view.thresholds.no_progress_generations and _is_loop(view, frozen, lost, changes):
            loops.setdefault(changes, []).append(frozen)
    if loops:
        yield _loop_verdict(view, loops, lost)


def _was_too_long(past: ExplainedDeparture) -> bool:
    """Whether a member was lost over its work; one that starved, was paused or died is lost with any batch."""
    expired = past.departure.likely == SESSION_EXPIRED
    return past.departure.likely == POLL_TIMEOUT or (expired and past.rule in _OVER_WORK)


def _series(view: GroupView) -> list[Rebalance]:
    """Return the latest rebalances that may be successive turns of a loop; empty if the last one is too long ago.

    A turn may take as long as a poll.
    """
    found: list[Rebalance] = []
    next_ms = view.now_ms
    for each in reversed(view.history.in_order()[-_SEARCHED:]):
        polls = (m.rebalance_timeout_ms or 0 for m in (*each.members_before, *each.members_after))
        turn_ms = max(view.thresholds.resolve_after_ms, 2 * max(polls, default=0))
        if next_ms - each.started_before_ms > turn_ms:
            break
        if not found:
            view.time.note_due(each.started_before_ms + turn_ms + 1)
        found.insert(0, each)
        next_ms = each.started_before_ms
    return found


def _owner_changes(rebalances: Sequence[Rebalance], frozen: _Frozen) -> Iterator[str]:
    """Yield the ids of the rebalances since a partition froze in which it changed, got or lost its owner."""
    for each in rebalances:
        if each.started_before_ms >= frozen.since_ms and _owner(each.members_before, frozen.place) != _owner(
            each.members_after, frozen.place
        ):
            yield each.rebalance_id


def _owner(members: Sequence[Member], place: Place) -> str | None:
    return next((each.member_id for each in members if _has(each, place)), None)


def _has(member: Member, place: Place) -> bool:
    topic, partition = place
    return partition in (member.partitions or {}).get(topic, ())


def _is_loop(view: GroupView, frozen: _Frozen, lost: Sequence[ExplainedDeparture], changes: Sequence[str]) -> bool:
    """Whether owners were lost while records waited.

    If that is not known, or no offset was ever committed (offsets may be kept elsewhere), all losses must be poll
    timeouts: these only happen to members with work.
    """
    losses = [each for each in _losses(frozen, lost) if each.rebalance_id in changes]
    waited = _waited(view, frozen, losses)
    if len(losses) < _LOSSES or waited is False:
        return False
    sure = waited is True and frozen.offset is not None
    return sure or all(each.departure.likely == POLL_TIMEOUT for each in losses)


def _losses(frozen: _Frozen, lost: Sequence[ExplainedDeparture]) -> list[ExplainedDeparture]:
    """Return the departures of owners of a partition since it froze."""
    return [d for d in lost if d.left_ms >= frozen.since_ms and _has(d.member, frozen.place)]


def _waited(view: GroupView, frozen: _Frozen, losses: Sequence[ExplainedDeparture]) -> bool | None:
    """Whether the partition had unread records whenever an owner was lost; null if its end was never probed.

    End offsets below the committed offset are outdated and ignored.
    """
    ends = [view.progress.end_at(*frozen.place, each.left_ms) for each in losses]
    known = [end for end in ends if end is not None and end >= (frozen.offset or 0)]
    return all(end > (frozen.offset or 0) for end in known) if known else None


def _loop_verdict(
    view: GroupView, loops: dict[tuple[str, ...], list[_Frozen]], lost: Sequence[ExplainedDeparture]
) -> Verdict:
    stuck = sorted((each for group in loops.values() for each in group), key=lambda each: each.place)
    ids = tuple(dict.fromkeys(each for changes in loops for each in changes))
    since = max(each.since_ms for each in stuck)
    involved = [each for each in lost if each.rebalance_id in ids]
    lags = [each.lag for each in stuck if each.lag is not None]
    consumed = _consumed_since(view, involved, since)
    names = tuple(each.name for each in stuck)
    return view.say(
        "no_progress_loop",
        since,
        Subject(partitions=names),
        confidence=CERTAIN if consumed and lags else STRONG if lags else PLAUSIBLE,
        severity=Severity.PAGE if lags else Severity.TICKET,
        rebalance_ids=ids,
        partitions=names,
        rebalances=len(ids),
        owners=sorted({name_of(each.member) for each in involved}),
        lag=sum(lags) if lags else None,
        probed=bool(lags),
        consumed=consumed or None,
        next=[_at(each) for each in stuck],
        batches=have_poll_records(view.history, [each.member for each in involved]),
    )


def _at(frozen: _Frozen) -> str:
    return f"{frozen.name} @ {'its start' if frozen.offset is None else frozen.offset}"


def _consumed_since(view: GroupView, lost: Sequence[ExplainedDeparture], since_ms: int) -> float:
    """Return how many records the clients of lost members report to have consumed since; 0 if none reports."""
    found = (view.history.clients.of(each.member) for each in lost)
    clients = {id(client): client for client in found if client is not None}
    return sum(_growth(client, since_ms) for client in clients.values())


def _growth(client: ClientHistory, since_ms: int) -> float:
    later = (each.values for each in client.reports if each.emitted_ms >= since_ms)
    totals = [values[CONSUMED_TOTAL] for values in later if CONSUMED_TOTAL in values]
    return sum(max(0.0, after - before) for before, after in pairwise(totals))


# --- One record kills each owner ---


@condition(inputs.PROGRESS)
def poison_record(view: GroupView) -> Iterator[Verdict]:
    """One record ends each owner of its partition (Walmart and Uber on poison pills)."""
    window = view.thresholds.poison_window_ms
    deaths = [each for each in view.past if view.time.is_within(each.left_ms, window) and _may_be_poisoned(each)]
    if len(deaths) < view.thresholds.poison_departures:
        return
    coverage = Counter(place for each in deaths for place in places(each.member.partitions))
    found: dict[int, list[_Frozen]] = {}
    for place, count in coverage.items():
        if count >= view.thresholds.poison_departures:
            frozen = _frozen(view, place)
            if _is_poisoned(view, frozen, deaths):
                found.setdefault(len(_losses(frozen, deaths)), []).append(frozen)
    if found:
        yield _poison_verdict(view, sorted(found[max(found)], key=lambda each: each.place), deaths)


def _may_be_poisoned(death: ExplainedDeparture) -> bool:
    """Whether a record may have ended a member; a process that ends with an error may also leave in order."""
    if death.rule in _ORDERLY:
        return death.departure.joined_ms is not None and not death.departure.process_survived
    return not (death.rule in _NOT_OF_RECORDS and death.confidence >= STRONG)


def _is_death(view: GroupView, past: ExplainedDeparture) -> bool:
    """Whether a departure was not in order, or was in order but the member committed none of the waiting records."""
    joined_ms = past.departure.joined_ms
    return past.rule not in _ORDERLY or (joined_ms is not None and did_nothing(view, past, joined_ms) is True)


def _are_picked(view: GroupView, frozen: _Frozen) -> bool:
    """Whether only owners of a partition left since it froze, so often that it is not by chance.

    Any other cause would hit each member with the same probability.
    """
    gone = [each for each in view.past if each.left_ms >= frozen.since_ms]
    chance = 1.0
    for each in gone:
        lost_in = view.history.rebalances.get(each.rebalance_id)
        if lost_in is not None and _has(each.member, frozen.place):
            chance /= max(1, len(lost_in.members_before))
    owners = sum(_has(each.member, frozen.place) for each in gone)
    return owners == len(gone) and chance <= _NO_CHANCE


def did_nothing(view: GroupView, past: ExplainedDeparture, joined_ms: int) -> bool | None:
    """Whether a member committed nothing new in its life although records waited; null if no end was probed."""
    progress, mine = view.progress, places(past.member.partitions)
    if any(_advanced(view, place, joined_ms, past.left_ms) for place in mine):
        return False
    ends = [(progress.end_at(*place, past.left_ms), progress.committed_before(place, past.left_ms)) for place in mine]
    waited = [end > (0 if known is None else known[1]) for end, known in ends if end is not None]
    return any(waited) if waited else None


def _is_poisoned(view: GroupView, frozen: _Frozen, deaths: Sequence[ExplainedDeparture]) -> bool:
    victims, least = _losses(frozen, deaths), view.thresholds.poison_departures
    return (
        len(victims) >= least
        and (sum(_is_death(view, each) for each in victims) >= least or _are_picked(view, frozen))
        and _had_records(view, frozen, victims)
        and _are_several(view, victims)
        and (_others_advanced(view, frozen, victims) or _others_survived(view, frozen, victims))
    )


def _had_records(view: GroupView, frozen: _Frozen, victims: Sequence[ExplainedDeparture]) -> bool:
    """Whether records waited; if no end was probed, whether most victims surely ended, since idle ones may starve."""
    waited = _waited(view, frozen, victims)
    return 2 * sum(map(_surely_ended, victims)) > len(victims) if waited is None else waited


def _surely_ended(victim: ExplainedDeparture) -> bool:
    """Whether the cause of a departure is claimed, or it was surely in order, unlike that of a starved member."""
    departure = victim.departure
    return victim.confidence >= CLAIMED or (departure.likely == CLEAN and departure.confidence >= CLAIMED)


def _are_several(view: GroupView, victims: Sequence[ExplainedDeparture]) -> bool:
    """Whether more than one instance died: of different clients or hosts, or members at the same time."""
    if len({slot_of(each.member) for each in victims}) > 1:
        return True
    ids = {each.member.member_id for each in victims}
    together = ({m.member_id for m in each.members_before} & ids for each in view.history.rebalances.values())
    return any(len(each) > 1 for each in together)


def _others_advanced(view: GroupView, frozen: _Frozen, victims: Sequence[ExplainedDeparture]) -> bool:
    """Whether most victims with other partitions advanced one of these during their lives."""
    advanced = []
    for victim in victims:
        others = places(victim.member.partitions) - {frozen.place}
        since_ms = max(frozen.since_ms, victim.departure.joined_ms or 0)
        if others:
            advanced.append(any(_advanced(view, place, since_ms, victim.left_ms) for place in others))
    return bool(advanced) and 2 * sum(advanced) > len(advanced)


def _others_survived(view: GroupView, frozen: _Frozen, victims: Sequence[ExplainedDeparture]) -> bool:
    """Whether other members survived most losses of its owners; for owners that died too soon to commit anything."""
    outlived, comparable = 0, 0
    for victim in victims:
        lost_in = view.history.rebalances.get(victim.rebalance_id)
        if lost_in is None:
            continue
        stayed = {each.member_id for each in lost_in.members_after}
        others = [m.member_id in stayed for m in lost_in.members_before if not _has(m, frozen.place)]
        comparable += bool(others)
        outlived += any(others)
    return comparable > 1 and 2 * outlived > comparable


def _advanced(view: GroupView, place: tuple[str, int], from_ms: int, to_ms: int) -> bool:
    before = view.progress.committed_before(place, from_ms)
    after = view.progress.committed_before(place, to_ms)
    return after is not None and after[0] > from_ms and (before is None or after[1] > before[1])


def _poison_verdict(view: GroupView, poisoned: Sequence[_Frozen], deaths: Sequence[ExplainedDeparture]) -> Verdict:
    first, victims = poisoned[0], _losses(poisoned[0], deaths)
    of_one = max(Counter(slot_of(each.member) for each in deaths).values()) / len(deaths)
    clear = len(victims) / len(deaths) >= 2 * of_one and len(poisoned) == 1 and first.lag is not None
    return view.say(
        "poison_record",
        victims[0].left_ms,
        Subject(partitions=tuple(each.name for each in poisoned)),
        confidence=STRONG if clear else PLAUSIBLE,
        severity=Severity.PAGE if view.time.lasted(first.since_ms, view.thresholds.stalled_ms) else Severity.TICKET,
        rebalance_ids=_shaken_by(view, victims),
        next=[_at(each) for each in poisoned],
        departures=len(victims),
        deaths=len(deaths),
        members=sorted({name_of(each.member) for each in victims}),
        frozen=view.now_ms - first.since_ms,
        partition=first.name,
        place=_at(first),
        lag=first.lag,
        of_one=of_one,
    )


def _shaken_by(view: GroupView, victims: Sequence[ExplainedDeparture]) -> tuple[str, ...]:
    """Return the ids of the rebalances that lost victims, and of later ones in which only victims' slots changed."""
    ids, slots = {each.rebalance_id for each in victims}, {slot_of(each.member) for each in victims}
    until_ms = max(each.departure.back_ms or each.left_ms for each in victims)
    found = list(dict.fromkeys(each.rebalance_id for each in victims))
    for each in view.history.since_ms(victims[0].left_ms):
        known = each.all_members()
        moved = [known.get(name) for generation in each.generations for name in (*generation.joined, *generation.left)]
        alike = bool(moved) and all(m is not None and slot_of(m) in slots for m in moved)
        if alike and each.started_before_ms <= until_ms and each.rebalance_id not in ids:
            found.append(each.rebalance_id)
    return tuple(found)
