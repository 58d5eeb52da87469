"""Patterns across several rebalances of a group.

A pattern explains a series better than the causes of its parts: a restart of every instance is a deploy, repeated
deaths of the same instance are a crash loop. A pattern claims the rebalances it explains.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median

from rebalance_contract import UNDETERMINED, GroupType, Member, Rebalance, Severity
from rebalance_streaming.detect.catalogue import PARTS, of_family, with_trait
from rebalance_streaming.detect.episode import ExplainedDeparture
from rebalance_streaming.detect.group_view import GroupView, condition
from rebalance_streaming.detect.rules import loops
from rebalance_streaming.detect.rules.member_settings import may_be_named
from rebalance_streaming.detect.rules.rebalances import left_repeatedly, members_per_slot
from rebalance_streaming.detect.verdict import MOST_MEMBERS, Verdict, subject_of
from rebalance_streaming.groups.identity import client_stem
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.confidence import CLAIMED, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import CLEAN, SESSION_EXPIRED, UNKNOWN, Slot, slot_of
from rebalance_streaming.observed.liveness import GONE, RESTARTED

#: Causes that the departures of a deploy may have, including those of instances that are killed instead of stopped.
_DEPLOY_RULES = with_trait("deploy")
_DEATHS = with_trait("death") & _DEPLOY_RULES
_BENIGN = of_family("benign")
_UNEXPLAINED = with_trait("leaves_open")
_FORMATION = with_trait("formation")
#: If members leave in order, static membership is only proposed for groups larger than this.
_MANY = 3
#: The pauses of a supervisor between restarts grow at least by this factor.
_BACK_OFF = 1.4


@dataclass(frozen=True, slots=True)
class Life:
    """A member's time in the group. `joined_ms` null: it joined before the history begins. `past` is its departure."""

    member: Member
    joined_ms: int | None
    past: ExplainedDeparture

    @property
    def length_ms(self) -> int | None:
        """How long it was in the group (ms); null if it is not known when it joined."""
        return None if self.joined_ms is None else max(0, self.past.left_ms - self.joined_ms)


@dataclass(frozen=True, slots=True)
class _Series:
    """Short lives of one client that ended soon after each other.

    `starts` are the known start times of its processes (epoch ms). `surely_dead`: every life ended in a death;
    otherwise all ended in order, and the pauses after them grew.
    """

    slot: Slot
    lives: list[Life]
    starts: Sequence[int]
    surely_dead: bool

    @property
    def median_ms(self) -> float:
        """The median length of its lives (ms)."""
        return median(each.length_ms for each in self.lives if each.length_ms is not None)


@condition(inputs.REPORTED, without_log=True)
def crash_loop(view: GroupView) -> Iterator[Verdict]:
    """The same instance joins and dies repeatedly (Kubernetes: CrashLoopBackOff)."""
    series = list(_short_series(view))
    by_records = _ended_by_records(view) if series else []
    for each in series:
        if _are_ended_by_one(by_records, each.lives):
            continue
        member, first_ms = each.lives[-1].member, each.lives[0].past.left_ms
        yield view.say(
            "crash_loop",
            first_ms,
            subject_of(member),
            confidence=_loop_confidence(view, each),
            rebalance_ids=_rebalances_of(view, each.slot, each.lives),
            member=member,
            times=max(len(each.lives), view.thresholds.crash_loop_cycles),
            lasted=each.lives[-1].past.left_ms - first_ms,
            life=each.median_ms,
            names=may_be_named(view.history, [member]),
        )


def _short_series(view: GroupView) -> Iterator[_Series]:
    """Yield, for each client that may be in a crash loop, its series of short lives."""
    window = view.thresholds.crash_loop_window_ms
    for slot, lives in _lives_by_slot(view).items():
        cycles, starts = _deaths_to_see(view, slot, lives)
        died = any(_is_claimed_death(each.past) for each in lives)
        dead = _crowded([each for each in lives if _is_death(view, each, starts, died=died)], cycles, window)
        orderly = _crowded([each for each in lives if each.past.departure.likely == CLEAN], cycles, window)
        ended = dead or (orderly if _gaps_grow(view, slot, orderly) else [])
        ends = [each.past.left_ms for each in ended]
        among = [each.past for each in lives if ends and ends[0] <= each.past.left_ms <= ends[-1]]
        if 2 * sum(map(_is_known_otherwise, among)) > len(ended):
            continue
        series = _Series(slot, ended, starts, surely_dead=bool(dead))
        has_lengths = any(each.length_ms is not None for each in ended)
        if has_lengths and series.median_ms <= view.thresholds.short_life_ms:
            yield series


def _ended_by_records(view: GroupView) -> list[frozenset[str]]:
    """Return, for each poison record, the ids of the rebalances in which it ended members."""
    return [frozenset(each.rebalance_ids) for each in loops.poison_record(view)]


def _are_ended_by_one(by_records: Iterable[frozenset[str]], lives: list[Life]) -> bool:
    """Whether a single poison record explains the ends of all these lives."""
    ends = {each.past.rebalance_id for each in lives}
    return any(ends <= ended for ended in by_records)


def _deaths_to_see(view: GroupView, slot: Slot, lives: list[Life]) -> tuple[int, Sequence[int]]:
    """Return how many deaths of a client must be seen for a loop, and the start times of its processes, if needed.

    Probes miss some deaths. If the log is not read, and enough processes started within the window, one death is
    enough.
    """
    cycles = view.thresholds.crash_loop_cycles
    if view.reads_log:
        return cycles, _starts(view, slot) if len(lives) >= cycles else []
    starts = _starts(view, slot)
    in_time = any(
        last - first <= view.thresholds.crash_loop_window_ms
        for first, last in zip(starts, starts[cycles:], strict=False)
    )
    return 1 if in_time else cycles, starts


def _is_known_otherwise(past: ExplainedDeparture) -> bool:
    """Whether a departure has another known cause: a client that repeatedly overruns its poll limit does not die."""
    return past.confidence >= CLAIMED and past.rule not in PARTS


def _others_die(view: GroupView, lives: list[Life]) -> bool:
    """Whether other clients were lost meanwhile, at least half as often: then they may share a cause, as a record."""
    slot, first_ms, last_ms = slot_of(lives[0].member), lives[0].past.left_ms, lives[-1].past.left_ms
    others = [
        each
        for each in view.past
        if first_ms <= each.left_ms <= last_ms
        and each.departure.likely == SESSION_EXPIRED
        and slot_of(each.member) != slot
    ]
    return 2 * len(others) >= len(lives)


def _loop_confidence(view: GroupView, series: _Series) -> float:
    """Return the confidence of a crash loop.

    A client that starves, is paused or is cut off leaves and returns like one that dies. Its reports, or a successor
    that joins beside its ghost, distinguish the two. A process that dies at once does not report in all of its lives.
    """
    deaths = [
        each.past.departure.liveness in (GONE, RESTARTED)
        or _is_claimed_death(each.past)
        or _began_anew(each, series.starts, view.thresholds.short_life_ms)
        for each in series.lives
    ]
    if _others_die(view, series.lives):
        return HINT
    if sum(deaths) >= view.thresholds.crash_loop_cycles:
        return STRONG if series.surely_dead else PLAUSIBLE
    return PLAUSIBLE if any(deaths) or not series.surely_dead else HINT


def _is_claimed_death(past: ExplainedDeparture) -> bool:
    return past.rule in _DEATHS and past.confidence >= CLAIMED


def _is_death(view: GroupView, life: Life, starts: Sequence[int], *, died: bool) -> bool:
    """Whether a life ended in a death: its session expired, or another process of the client began soon after its end.

    `died`: another life of the client is claimed to have ended in a death; then any session expiry without another
    cause counts. A process that ends with an error may still close its client: it leaves in order, without having
    committed any of the records that waited.
    """
    past, joined_ms = life.past, life.joined_ms
    if past.departure.likely == SESSION_EXPIRED and (past.rule in _DEATHS or (died and not _is_known_otherwise(past))):
        return True
    if joined_ms is None or past.departure.process_survived or _is_known_otherwise(past):
        return False
    if not _began_anew(life, starts, view.thresholds.short_life_ms):
        return False
    nothing = loops.did_nothing(view, past, joined_ms)
    return nothing is True or (nothing is None and past.departure.likely != CLEAN)


def _began_anew(life: Life, starts: Sequence[int], within_ms: int) -> bool:
    """Whether another process of the client began after this life did, and at most `within_ms` after its end."""
    return life.joined_ms is not None and any(life.joined_ms < each <= life.past.left_ms + within_ms for each in starts)


def _starts(view: GroupView, slot: Slot) -> list[int]:
    """Return the reported start times of a client's processes; empty if several of its members are present."""
    if sum(client_stem(each.client_id) == slot[0] for each in view.members) > 1:
        return []
    clients = [each for each in view.history.clients if client_stem(each.client_id or "") == slot[0]]
    starts = (each.process_start_ms for client in clients for each in client.reports)
    return sorted({each for each in starts if each is not None})


def _gaps_grow(view: GroupView, slot: Slot, lives: list[Life]) -> bool:
    known = view.history.members
    joins = sorted(at_ms for name, at_ms in _joins(view) if name in known and slot_of(known[name]) == slot)
    gaps = [min((j - life.past.left_ms for j in joins if j > life.past.left_ms), default=0) for life in lives]
    gaps = [gap for gap in gaps if gap > 0]
    return len(gaps) >= 3 and all(b >= _BACK_OFF * a for a, b in itertools.pairwise(gaps))


@condition(inputs.PROGRESS, without_log=True)
def short_lived_consumers(view: GroupView) -> Iterator[Verdict]:
    """An application creates a consumer per job or request: each joins, leaves in order, and causes rebalances."""
    limits = view.thresholds
    lives = sorted(
        (life for each in _lives_by_slot(view).values() for life in each), key=lambda each: each.past.left_ms
    )
    brief = [
        each
        for each in lives
        if each.past.departure.likely in (CLEAN, UNKNOWN)
        and each.length_ms is not None
        and each.length_ms <= limits.short_life_ms
    ]
    brief = _crowded(brief, limits.short_lived_arrivals, limits.short_lived_window_ms)
    others, orderly = len(lives) - len(brief), sum(each.past.departure.likely == CLEAN for each in brief)
    # Members that come and go together are one arrival: an application that was started and stopped.
    arrivals = min(len({each.joined_ms for each in brief}), len({each.past.left_ms for each in brief}))
    if arrivals < limits.short_lived_arrivals or orderly * 2 < len(brief) or others > len(brief) // 3:
        return
    if _are_ended_by_one(_ended_by_records(view), brief):
        return
    slots = dict.fromkeys(slot_of(each.member) for each in brief)
    yield view.say(
        "short_lived_consumers",
        brief[0].past.left_ms,
        subject_of(brief[-1].member),
        confidence=STRONG if len(brief) > others * 3 else PLAUSIBLE,
        rebalance_ids=tuple(dict.fromkeys(name for slot in slots for name in _rebalances_of(view, slot, brief))),
        count=len(brief),
        life=median(each.length_ms or 0 for each in brief),
    )


@condition()
def rolling_deploy(view: GroupView) -> list[Verdict]:
    """Every instance was replaced once, one after the other (KIP-345)."""
    return [verdict for run in _runs_of_departures(view) if (verdict := _deploy(view, run)) is not None]


def _runs_of_departures(view: GroupView) -> list[list[ExplainedDeparture]]:
    """Return runs of departures that follow each other as closely as in a deploy."""
    runs: list[list[ExplainedDeparture]] = []
    for past in view.past:
        if runs and past.left_ms - runs[-1][-1].left_ms <= view.thresholds.deploy_per_member_ms:
            runs[-1].append(past)
        else:
            runs.append([past])
    return [run for run in runs if len(run) > 1]


def _deploy(view: GroupView, left: list[ExplainedDeparture]) -> Verdict | None:
    window = max(view.thresholds.deploy_window_ms, view.thresholds.deploy_per_member_ms * len(left))
    first_ms, last_ms = left[0].left_ms, left[-1].left_ms
    if last_ms - first_ms > window or any(each.rule not in _DEPLOY_RULES for each in left):
        return None
    if any(each.departure.kept_running for each in left):
        return None
    rebalances = [
        each
        for each in view.history.since_ms(first_ms - window // 10)
        if each.started_before_ms <= last_ms + view.thresholds.deploy_per_member_ms
        and view.causes.get(each.rebalance_id) not in _FORMATION
        and each.last_known_ms >= first_ms - 1_000
    ]
    came = [m for each in rebalances for m in (*each.members_after, *each.passing) if _arrived(each, m)]
    dead = _not_replaced(left, came)
    left = [each for each in left if each not in dead]
    # A rebalance with a death is not claimed, even if it has orderly leaves, too: the death costs more.
    ends = {each.rebalance_id for each in dead}
    size = len(rebalances[0].members_before) if rebalances else 0
    killed = sum(each.departure.likely == SESSION_EXPIRED for each in left)
    if size == 0 or len(left) < 2 or not _replaced_once(left, came, members_per_slot(rebalances)):
        return None
    ids = tuple(each.rebalance_id for each in rebalances if each.rebalance_id not in ends)
    # If most members were killed, that is reported rather than the deploy.
    stopped = killed * 2 > len(left)
    if stopped and not _is_stopped_in_turn(left, size):
        return None
    return view.say(
        "ungraceful_shutdown.deploy" if stopped else "rolling_deploy.deploy",
        first_ms,
        subject_of(*(each.member for each in left[:MOST_MEMBERS])),
        confidence=None if stopped else _deploy_confidence(view, left, size),
        rebalance_ids=ids,
        left=len(left),
        came=len(came),
        killed=killed,
        size=size,
        names=(stopped or size > _MANY) and may_be_named(view.history, [each.member for each in left]),
        lasted=last_ms - first_ms,
        rebalances=len(ids),
    )


def _not_replaced(left: list[ExplainedDeparture], came: list[Member]) -> list[ExplainedDeparture]:
    """Return the members that died during a deploy: killed and without a successor, while most others have one."""
    successors = {slot_of(each) for each in came}
    alone = [each for each in left if slot_of(each.member) not in successors]
    killed = all(each.departure.likely == SESSION_EXPIRED for each in alone)
    return alone if killed and 2 * len(alone) < len(left) else []


def _is_stopped_in_turn(left: list[ExplainedDeparture], size: int) -> bool:
    """Whether at least three quarters of a group are claimed deaths, one per rebalance: then it was intended."""
    dead = [each for each in left if each.rule in _DEATHS and each.confidence >= CLAIMED]
    in_turn = len({each.rebalance_id for each in dead}) == len(dead)
    return in_turn and len(dead) > 1 and 4 * len(dead) >= 3 * size


def _deploy_confidence(view: GroupView, left: list[ExplainedDeparture], size: int) -> float:
    orderly = sum(each.departure.likely == CLEAN for each in left)
    if orderly * 2 < len(left):
        return PLAUSIBLE if _is_whole_group_in_turn(view, left, size) else HINT
    return STRONG if len(left) / size >= 0.75 and orderly == len(left) else PLAUSIBLE


def _is_whole_group_in_turn(view: GroupView, left: list[ExplainedDeparture], size: int) -> bool:
    """Whether every instance of a group was replaced, one after the other, by departures that may all be in order.

    Workers of Kafka Connect commit nothing in their group, so the class of their departures is not known. A series that
    goes through a whole group once, and waits each time until the instance is back, is intended. An instance that is
    back in the rebalance in which it was lost may have waited for its own ghost: then it was killed.
    """
    if size <= 2 or len(left) < size or any(each.departure.likely not in (CLEAN, UNKNOWN) for each in left):
        return False
    if any(each.departure.process_survived or not _is_back_later(view, each) for each in left):
        return False
    backs = [each.departure.back_ms or 0 for each in left]
    return all(back <= after.left_ms for back, after in zip(backs, left[1:], strict=False))


def _is_back_later(view: GroupView, past: ExplainedDeparture) -> bool:
    """Whether a member came back after its group had gone on without it.

    Only a classic group waits for a ghost; other groups let newcomers join beside it.
    """
    lost, back_ms = view.history.rebalances.get(past.rebalance_id), past.departure.back_ms
    if lost is None or back_ms is None:
        return False
    gone_ms = lost.completed_at_ms if lost.type == GroupType.CLASSIC else past.departure.to_ms
    return gone_ms is not None and back_ms > gone_ms


def _replaced_once(left: list[ExplainedDeparture], came: list[Member], width: Counter[Slot]) -> bool:
    """Whether as many members with the same topics came as left, with at most one missing, and none left twice."""
    again = {each.member.member_id for each in left} & {member.member_id for member in came}
    twice = left_repeatedly((slot_of(each.member) for each in left), width)
    alike = {each.member.topics for each in left} == {member.topics for member in came}
    return alike and not again and not twice and max(2, len(left) - 1) <= len(came) <= len(left)


def _arrived(rebalance: Rebalance, member: Member) -> bool:
    return any(member.member_id in generation.joined for generation in rebalance.rounds)


@condition()
def member_flapping(view: GroupView) -> Iterator[Verdict]:
    """The same member leaves and returns repeatedly, and no source shows why."""
    window, returns = view.thresholds.flapping_window_ms, view.thresholds.flapping_returns
    back = {
        slot: [each for each in lives if each.past.departure.back_as is not None]
        for slot, lives in _lives_by_slot(view).items()
    }
    often = {slot: lives for slot, lives in back.items() if _crowded(lives, returns, window)}
    # Widths of clients that share a name and a host; only computed for rebalances of clients that came back often.
    ends = {each.past.rebalance_id for lives in often.values() for each in lives}
    width = members_per_slot(each for each in view.history.in_order() if each.rebalance_id in ends)
    for slot, all_lives in often.items():
        # With this many departures in all, at least one of the members sharing the slot left often enough.
        lives = _crowded(all_lives, (returns - 1) * max(1, width[slot]) + 1, window)
        if not lives or any(each.past.rule not in _UNEXPLAINED for each in lives):
            continue
        member = lives[-1].member
        if any((each.config_offset or 0) > (member.config_offset or 0) for each in view.members):
            continue  # a Connect worker that is behind leaves to read its config: `shared_group_id` if it never does
        yield view.say(
            "member_flapping",
            lives[0].past.left_ms,
            subject_of(member),
            rebalance_ids=_rebalances_of(view, slot, lives),
            member=member,
            times=len(lives),
        )


def rebalance_storm(view: GroupView) -> Iterator[Verdict]:
    """So many rebalances that the group can hardly work; the variant is their most frequent cause."""
    limits, window = view.thresholds, view.thresholds.storm_window_ms
    recent = [each for each in view.recent(window) if view.causes.get(each.rebalance_id) not in _BENIGN]
    busy_ms = sum(
        max(0, (each.completed_at_ms or view.now_ms) - max(each.started_before_ms, view.now_ms - window))
        for each in recent
    )
    share = busy_ms / window
    if share < limits.storm_share and any(each.completed_at_ms is None for each in recent):
        view.time.note_due(view.now_ms + max(1, ceil(limits.storm_share * window - busy_ms)))
    if len(recent) < limits.storm_rebalances and not (share >= limits.storm_share and len(recent) > 1):
        return
    causes = Counter(view.causes[each.rebalance_id] for each in recent if each.rebalance_id in view.causes)
    cause, by_cause = causes.most_common(1)[0] if causes else (UNDETERMINED, len(recent))
    snapshot = view.history.snapshot
    one_pass = bool(causes) and causes.keys() <= PARTS and _is_one_pass(view, recent)
    yield view.say(
        "rebalance_storm",
        recent[0].started_before_ms,
        severity=Severity.PAGE if view.lag_grows() else Severity.INFO if one_pass else Severity.TICKET,
        variant=cause,
        rebalance_ids=tuple(each.rebalance_id for each in recent),
        count=len(recent),
        share=share,
        cause=cause,
        by_cause=by_cause,
        generation=str(snapshot.generation if snapshot else None),
    )


def _is_one_pass(view: GroupView, rebalances: list[Rebalance]) -> bool:
    """Whether members left, but each at most once, as in an unfinished deploy."""
    ids = {each.rebalance_id for each in rebalances}
    gone = [slot_of(each.member) for each in view.past if each.rebalance_id in ids]
    return bool(gone) and not left_repeatedly(gone, members_per_slot(rebalances))


def _crowded(lives: list[Life], count: int, window_ms: int) -> list[Life]:
    """Return the lives, given in the order of their ends, with at least `count` ends in some window of `window_ms`."""
    found: list[Life] = []
    first = taken = 0
    for i, last in enumerate(lives):
        while last.past.left_ms - lives[first].past.left_ms > window_ms:
            first += 1
        if i + 1 - first >= count:
            found += lives[max(first, taken) : i + 1]
            taken = i + 1
    return found


def _lives_by_slot(view: GroupView) -> dict[Slot, list[Life]]:
    joined: dict[str, int] = {}
    for name, at_ms in _joins(view):
        joined.setdefault(name, at_ms)
    lives: dict[Slot, list[Life]] = {}
    for past in view.past:
        life = Life(past.member, joined.get(past.member.member_id), past)
        lives.setdefault(slot_of(past.member), []).append(life)
    return lives


def _joins(view: GroupView) -> Iterator[tuple[str, int]]:
    """Yield the id of each member that joined and when its generation was assigned (epoch ms), oldest first."""
    for each in view.history.in_order():
        for generation in each.rounds:
            yield from ((name, generation.assigned_at_ms or each.started_before_ms) for name in generation.joined)


def _rebalances_of(view: GroupView, slot: Slot, lives: list[Life]) -> tuple[str, ...]:
    """Return the ids of the rebalances in which a slot's members came or went during these lives, except formations."""
    found = []
    first_ms = min(each.past.left_ms if each.joined_ms is None else each.joined_ms for each in lives)
    last_ms = max(each.past.departure.back_ms or each.past.left_ms for each in lives)
    ends = {each.past.rebalance_id for each in lives}
    for each in view.history.in_order():
        inside = each.last_known_ms >= first_ms and each.started_before_ms <= last_ms
        if not inside and each.rebalance_id not in ends:
            continue
        changed = {name for generation in each.rounds for name in (*generation.joined, *generation.left)}
        known = each.all_members()
        touches = any(name in known and slot_of(known[name]) == slot for name in changed)
        if touches and (each.members_before or view.causes.get(each.rebalance_id) not in _FORMATION):
            found.append(each.rebalance_id)
    return tuple(found)
