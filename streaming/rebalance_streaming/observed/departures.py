"""How a member left: the catalogue's departure classes (§1.5), from commits, probes and the client's own reports.

Receives a group's history and one rebalance; says for every member that is gone since when, how sure that is, which
time-out its silence matches and what its client reported meanwhile. Causes are the rules' business.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rebalance_contract import (
    CoordinatorAct,
    Evidence,
    EvidenceSource,
    Generation,
    GroupState,
    GroupType,
    Member,
    Rebalance,
    RebalanceReason,
)
from rebalance_streaming.groups.identity import client_stem
from rebalance_streaming.observed.barriers import SAME_MS
from rebalance_streaming.observed.clients import Stretch
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG, one_down
from rebalance_streaming.observed.coordinator_log import Exit
from rebalance_streaming.observed.evidence import MODERATE, observe, seconds, strength_of, weigh
from rebalance_streaming.observed.fingerprints import LIBRDKAFKA, Fingerprint, fingerprint, poll_limit_ms
from rebalance_streaming.observed.history import GroupHistory
from rebalance_streaming.observed.liveness import (
    ALIVE,
    GONE,
    HEALTHY,
    NOT_POLLING,
    PAUSED,
    POLL_SLACK_MS,
    RESTARTED,
    STARVED,
    UNREACHABLE,
    Lost,
    is_poll_reason,
    read_liveness,
)
from rebalance_streaming.observed.progress import Rhythm

POLL_TIMEOUT, SESSION_EXPIRED, CLEAN, FENCED, UNKNOWN = (
    "poll_timeout_leave",
    "session_expired",
    "clean_leave",
    "fenced",
    "unknown",
)

#: How long before the barrier's release a departure happened, where nothing else bounds it: what the others take to
#: notice (a heartbeat) and to rejoin.
_NOTICE_MS, _NOTICE_SLACK_MS = 1_500, 4_000
#: Auto-commit's default, for clients whose rhythm is not known.
_COMMIT_GAP_MS, _LONGEST_GAP_MS = 5_000, 15_000
#: A client notices late that max.poll.interval has passed (measured: up to 3.8 s).
_POLL_SLACK_MS = 4_500
#: Most notice within this, and a session that happens to run out just then is the less likely reading.
_POLL_TIGHT_MS = 1_000
#: A session that ran out shows within this of its end.
_LIFE_SLACK_MS = 2_500
#: Timers of the broker do not fire early; by so much may the times of two records be off.
_EXACT_MS = 250
#: How long before the first sign of a rebalance the join that began it was sent at most, where nothing bounds it.
_JOIN_MS = 10_000
#: Of two ways to leave one must fit so many times better than the other.
_CLEARLY = 2.0
#: Most clients commit once more when they are closed: a silence longer than this seldom goes before a clean leave.
_CLOSED_MS, _WITHOUT_LAST_COMMIT = 1_000, 0.5
#: Defaults of the broker for groups whose members do not set a session time-out (KIP-848).
_BROKER_SESSION_MS = 45_000


@dataclass(frozen=True, slots=True)
class Departure:
    """How one member left.

    It left between `from_ms` and `to_ms`, and surely not after `latest_ms`. It had its partitions since `joined_ms`,
    came through a join barrier last at `renewed_ms` and was in the group for at most `age_ms` (null: not known).
    `silence_ms` is the time since its partitions were last committed, null when no commit was due; `due`: one surely
    was. `classes` are the departure classes that fit, most likely first, and `confidence` is that of the first;
    `struck` are those that cannot be, by class. `in_barrier`: it was lost while the others waited for it. `liveness` is
    what its client reported, null when it reports nothing. `arriving` is how many records its partitions got in the
    length of a session before, null without probes of their ends. `back_as` is the member it came back as, `back_ms`
    when. `told` is what the coordinator wrote of it in its broker's log, null where that is not shipped.
    """

    member: Member
    client: Fingerprint
    from_ms: int
    to_ms: int
    latest_ms: int
    joined_ms: int | None
    renewed_ms: int | None
    age_ms: int | None
    rhythm: Rhythm
    lag: int | None
    arriving: int | None
    silence_ms: int | None
    due: bool
    in_barrier: bool
    liveness: str | None = None
    stretch: Stretch | None = None
    classes: tuple[str, ...] = (UNKNOWN,)
    confidence: float = HINT
    evidence: tuple[Evidence, ...] = ()
    struck: tuple[tuple[str, str], ...] = ()
    back_as: Member | None = None
    back_ms: int | None = None
    told: Exit | None = None

    @property
    def likely(self) -> str:
        """The class that fits best."""
        return self.classes[0]

    @property
    def lived(self) -> bool:
        """Whether its process is known to have gone on, by reports before and after that came from it."""
        seen = self.stretch
        return self.liveness in (HEALTHY, ALIVE) or (seen is not None and seen.same_process and not seen.restarted)

    @property
    def session_ms(self) -> int:
        """Its session time-out; the broker's default where records do not carry it."""
        return session_of(self.member)

    @property
    def poll_ms(self) -> int | None:
        """Its rebalance time-out, which is max.poll.interval of clients that enforce one; null where it is not."""
        return poll_limit_ms(self.member, self.client)


def session_of(member: Member) -> int:
    """Return a member's session time-out in milliseconds."""
    return member.session_timeout_ms or _BROKER_SESSION_MS


def slot_of(member: Member) -> tuple[str, str]:
    """Return what stays of a member when it comes back under a new id."""
    if member.group_instance_id is not None:
        return (member.group_instance_id, "")
    return (client_stem(member.client_id), member.host)


def find_departures(
    history: GroupHistory, rebalance: Rebalance, known: Mapping[str, Departure], now_ms: int
) -> tuple[Departure, ...]:
    """Return how every member left that was there before a rebalance and is not any more.

    `known`: what was found of them before, by member id; commits of that time may be forgotten by now.
    """
    after = {member.member_id for member in rebalance.members_after}
    meanwhile = {name for generation in rebalance.generations for name in generation.left}
    returned = (member for member in rebalance.members_after if member.member_id in meanwhile)
    there = {member.member_id: member for member in (*returned, *rebalance.passing, *rebalance.members_before)}
    gone = [m for m in there.values() if m.member_id not in after or m.member_id in meanwhile]
    return tuple(_find(history, rebalance, member, known.get(member.member_id), now_ms=now_ms) for member in gone)


def _find(
    history: GroupHistory, rebalance: Rebalance, member: Member, known: Departure | None, *, now_ms: int
) -> Departure:
    client = history.clients.of(member)
    assignor = rebalance.protocol or next((name for _, name in reversed(history.protocols)), None)
    prints, session = fingerprint(member, client, assignor), session_of(member)
    found = _measure(history, rebalance, member, prints) if known is None else replace(known, client=prints)
    found = _as_told(found, _told_exit(history, rebalance, member))
    surely_ms = found.from_ms - _NOTICE_MS
    stretch = None if client is None else client.before(found.to_ms, session + 4_000, surely_ms)
    if client is not None and stretch is not None:
        lost = Lost(client, stretch, prints, session, found.poll_ms, found.to_ms, now_ms, found.joined_ms)
        found = replace(found, stretch=stretch, liveness=read_liveness(lost, history.clients))
    found = _classified(found, rebalance)
    back_as, back_ms = _return_of(history, rebalance, member)
    return replace(found, back_as=back_as, back_ms=back_ms)


def _measure(history: GroupHistory, rebalance: Rebalance, member: Member, prints: Fingerprint) -> Departure:
    """Return when a member left, and how long it had been silent; nothing of why."""
    in_barrier = _was_awaited(history, rebalance, member)
    from_ms, to_ms, latest_ms = _when(history, rebalance, member, in_barrier=in_barrier)
    joined_ms, came_ms = _joined_at(history, rebalance, member), _came_at(history, rebalance, member)
    rhythm, lag = _rhythm(history, rebalance, member, to_ms), _lag_at(history, member, to_ms)
    silence, due = _silence(rhythm, lag, joined_ms, from_ms, to_ms)
    return Departure(
        member,
        prints,
        from_ms,
        to_ms,
        latest_ms,
        joined_ms,
        _renewed_at(history, rebalance, member),
        None if came_ms is None else latest_ms - came_ms,
        rhythm,
        lag,
        _arriving(history, member, to_ms),
        silence,
        due,
        in_barrier,
    )


def _was_awaited(history: GroupHistory, rebalance: Rebalance, member: Member) -> bool:
    """Whether probes listed the member while the group prepared: then it was removed, or left, inside the barrier."""
    generation, earliest, released = _lost_in(rebalance, member)
    if earliest is None or generation.join_ended_at_ms is None:
        return False
    return any(
        each.state == GroupState.PREPARING_REBALANCE
        and each.members is not None
        and any(listed.member_id == member.member_id for listed in each.members)
        for each in history.sightings_between(earliest, released)
    )


def _lost_in(rebalance: Rebalance, member: Member) -> tuple[Generation, int | None, int]:
    """Return the generation in which a member left, the earliest time of it, and when its join barrier was released."""
    order = rebalance.generations
    place = next((i for i, each in enumerate(order) if member.member_id in each.left), 0)
    generation = order[place]
    begun = rebalance.started_before_ms
    if place:
        begun = generation.join_ended_at_ms or generation.started_at_ms or generation.assigned_at_ms or begun
    earliest = order[place - 1].assigned_at_ms if place else rebalance.started_after_ms
    return generation, earliest, generation.join_ended_at_ms or begun


def _when(history: GroupHistory, rebalance: Rebalance, member: Member, *, in_barrier: bool) -> tuple[int, int, int]:
    """Return between which times a member left, and when it surely had."""
    generation, earliest, released = _lost_in(rebalance, member)
    begun = rebalance.started_before_ms if generation is rebalance.generations[0] else released
    if rebalance.type != GroupType.CLASSIC or (generation.reason == RebalanceReason.GROUP_EMPTIED and not in_barrier):
        return begun, begun, begun
    listed_ms, missed_ms = _listed(history, member, earliest or 0, released)
    if in_barrier:
        # A probe that no longer lists it bounds its end; without one, it went when the others were released.
        return (listed_ms or 0, missed_ms, missed_ms) if missed_ms is not None else (released - 200, released, released)
    if generation.joined and not _others_left(generation, member):
        # A newcomer waited for it: the barrier ends when it is out, unless a probe missed it before.
        return (released, released, released) if missed_ms is None else (listed_ms or begun, missed_ms, missed_ms)
    latest = begun if begun < released else max(released - _NOTICE_MS, earliest or 0)
    # Others notice within a heartbeat; where it took them longer, somebody else held them up.
    noticed_ms = released - _NOTICE_SLACK_MS if released - latest < _NOTICE_SLACK_MS else 0
    from_ms = min(latest, max(earliest or 0, latest - _NOTICE_SLACK_MS, noticed_ms, listed_ms or 0))
    # What began a rebalance had happened when a probe saw it.
    bound_ms = latest + SAME_MS if begun < released and not generation.joined else released
    return from_ms, latest, bound_ms if missed_ms is None else min(bound_ms, missed_ms)


def _listed(history: GroupHistory, member: Member, from_ms: int, to_ms: int) -> tuple[int | None, int | None]:
    """Return when a probe last listed a member, and when one first did no more; null: none did."""
    seen = [each for each in history.sightings_between(from_ms, to_ms) if each.members is not None]
    listed = [any(m.member_id == member.member_id for m in each.members or ()) for each in seen]
    last = max((place for place, there in enumerate(listed) if there), default=-1)
    later = seen[last + 1 :]
    missed = later[0].at_ms + SAME_MS if later and (last >= 0 or from_ms > 0) else None
    return (seen[last].at_ms - SAME_MS if last >= 0 else None), missed


def _others_left(generation: Generation, member: Member) -> bool:
    return any(name != member.member_id for name in generation.left)


def _rhythm(history: GroupHistory, rebalance: Rebalance, member: Member, to_ms: int) -> Rhythm:
    """Return a member's commit rhythm; members of one group run one program, so the others tell its kind."""
    own = history.progress.rhythm(member.partitions or {}, to_ms)
    if own.pulse and own.gap_ms is not None:
        return own
    others = [
        history.progress.rhythm(each.partitions or {}, to_ms)
        for each in rebalance.members_before[:20]
        if each.topics == member.topics and each.member_id != member.member_id
    ]
    gaps = [each.gap_ms for each in others if each.gap_ms is not None]
    pulse = own.pulse or any(each.pulse for each in others)
    return replace(own, pulse=pulse, gap_ms=own.gap_ms or min(gaps, default=None))


def _lag_at(history: GroupHistory, member: Member, at_ms: int) -> int | None:
    lags = []
    for topic, numbers in (member.partitions or {}).items():
        for p in numbers:
            end, committed = (
                history.progress.estimated_end_at(topic, p, at_ms),
                history.progress.committed_before((topic, p), at_ms),
            )
            # An end before what was committed is out of date: it tells nothing.
            if end is not None and committed is not None and end >= committed[1]:
                lags.append(end - committed[1])
    return sum(lags) if lags else None


def _arriving(history: GroupHistory, member: Member, to_ms: int) -> int | None:
    """Return how many records came in while the member was silent: an idle client has nothing to be busy with."""
    from_ms, progress = to_ms - session_of(member), history.progress
    grown = [
        late - early
        for topic, numbers in (member.partitions or {}).items()
        for p in numbers
        if (early := progress.estimated_end_at(topic, p, from_ms) or progress.first_end(topic, p)) is not None
        and (late := progress.estimated_end_at(topic, p, to_ms)) is not None
    ]
    return sum(grown) if grown else None


def _silence(
    rhythm: Rhythm, lag: int | None, joined_ms: int | None, from_ms: int, to_ms: int
) -> tuple[int | None, bool]:
    """Return how long no commit came that was due, and whether it surely was due.

    What was committed before the member joined was somebody else's doing.
    """
    if rhythm.last_ms is None or (joined_ms is not None and rhythm.last_ms < joined_ms):
        return None, False
    silence = max(0, (from_ms + to_ms) // 2 - rhythm.last_ms)
    if rhythm.pulse or (lag or 0) > 0:
        return silence, True
    if silence <= 2 * (rhythm.gap_ms or _COMMIT_GAP_MS) or (lag is None and rhythm.gap_ms is not None):
        return silence, False
    return None, False


_Classes = tuple[tuple[str, ...], float, tuple[Evidence, ...]]


def _classified(of: Departure, rebalance: Rebalance) -> Departure:
    """Return a departure with the classes that fit, how sure the first is, and why.

    What cannot be is struck out of what each source says. The surest source decides, of several as sure the first;
    the others count for or against that.
    """
    struck = dict(_impossible(of, rebalance))
    sources: tuple[_Classes | None, ...] = (_class_by_coordinator(of),)
    if sources[0] is None:
        by_records = (_class_by_epoch(of, rebalance), _class_by_reports(of), _class_by_silence(of), _class_by_end(of))
        sources = (*by_records, _class_by_own_leave(of))
    told = [kept for each in sources if each is not None and (kept := _possible(each, struck)) is not None]
    told = sorted([each for each in told if each[0][0] != UNKNOWN] or told, key=lambda each: -each[1])
    if not told:
        life = _class_by_life(of)
        told = [_possible(life, struck) or ((UNKNOWN,), HINT, life[2])]
    classes, confidence, evidence = told[0]
    others = [_as_witness(each, classes) for each in told[1:]]
    witnesses = [each for several in others for each in several]
    return replace(
        of,
        classes=classes,
        confidence=weigh(confidence, witnesses),
        evidence=(*evidence, *witnesses),
        struck=tuple(struck.items()),
    )


def _possible(told: _Classes, struck: Mapping[str, str]) -> _Classes | None:
    """Return what a source says without the classes that cannot be, less surely where its first one was among them."""
    classes, confidence, evidence = told
    left = tuple(each for each in classes if each not in struck)
    if not left:
        return None
    if left[0] == UNKNOWN and len(left) == len(classes) - 1 == 2:
        return left[1:], PLAUSIBLE, evidence  # of two that fit as well one is left
    return left, confidence if left[0] == classes[0] else one_down(confidence), evidence


def _as_witness(told: _Classes, classes: tuple[str, ...]) -> tuple[Evidence, ...]:
    """Return the evidence of a further source with its strength, for or against the first of these classes."""
    if told[0][0] == classes[0]:
        return tuple(replace(each, strength=strength_of(told[1])) for each in told[2][:1])
    # Commits go on until a client leaves by itself, for whatever reason.
    leaves = {classes[0], told[0][0]} <= {CLEAN, POLL_TIMEOUT, UNKNOWN}
    if leaves or told[1] < PLAUSIBLE or classes[0] in told[0]:
        return ()
    return tuple(replace(each, strength=MODERATE, against=True) for each in told[2][:1])


def _impossible(of: Departure, rebalance: Rebalance) -> Iterator[tuple[str, str]]:
    """Yield the classes that arithmetic rules out, each with the reason."""
    decided = _decided(of)
    if decided is not None:
        yield from ((each, "its coordinator wrote otherwise") for each in _CLASSES if each != decided)
        return
    if of.told is not None:
        yield SESSION_EXPIRED, "it left by its own request, as its coordinator wrote"
        yield FENCED, "it left by its own request, as its coordinator wrote"
    poll, session, seen = of.poll_ms, of.session_ms, of.stretch
    own_word = seen is not None and is_poll_reason(seen.reason)
    if not own_word and of.client.enforces_poll and poll:
        unpolled = None if seen is None or seen.polled_ms is None else of.latest_ms - seen.polled_ms
        if of.age_ms is not None and of.age_ms < poll - POLL_SLACK_MS:
            yield POLL_TIMEOUT, f"in the group for {seconds(of.age_ms)}, max.poll.interval is {seconds(poll)}"
        elif unpolled is not None and unpolled < poll - POLL_SLACK_MS:
            yield POLL_TIMEOUT, f"polled {seconds(unpolled)} before it was gone, max.poll.interval is {seconds(poll)}"
    if of.liveness in (GONE, RESTARTED) and (quiet := _unheard_ms(of)) is not None and quiet < session - _EXACT_MS:
        yield SESSION_EXPIRED, f"sent heartbeats until {seconds(quiet)} before it was gone, session {seconds(session)}"
    # A commit renews a classic member's session, as a heartbeat does (OffsetMetadataManager, GroupCoordinator).
    committed = of.rhythm.last_ms if rebalance.type == GroupType.CLASSIC else None
    quiet = None if committed is None or committed < (of.joined_ms or committed + 1) else of.latest_ms - committed
    if quiet is not None and quiet < session - _EXACT_MS:
        yield SESSION_EXPIRED, f"committed {seconds(quiet)} before it was gone, its session is {seconds(session)}"
    elif of.renewed_ms is not None and of.latest_ms - of.renewed_ms < session - _EXACT_MS:
        rejoined = seconds(of.latest_ms - of.renewed_ms)
        yield SESSION_EXPIRED, f"rejoined {rejoined} before it was gone, its session is {seconds(session)}"
    elif of.age_ms is not None and of.member.session_timeout_ms and of.age_ms < session - _EXACT_MS:
        yield SESSION_EXPIRED, f"in the group for {seconds(of.age_ms)}, its session is {seconds(session)}"


def _unheard_ms(of: Departure) -> float | None:
    """Return for how long at most a process that ended had sent no heartbeat when it was gone; null: nothing tells."""
    seen = of.stretch
    if seen is None:
        return None
    if seen.beat_gap_ms is not None:
        return seen.beat_gap_ms + of.latest_ms - of.to_ms
    # Its heartbeats went on as long as it reported, the last one an interval before.
    ended = of.latest_ms - seen.last_report_ms + of.client.heartbeat_ms
    return ended if of.client.may_starve is False else None


_CLASSES = (POLL_TIMEOUT, SESSION_EXPIRED, CLEAN, FENCED)
#: What the coordinator decided itself, as classes.
_CLASS_TOLD = {
    CoordinatorAct.EXPIRED: SESSION_EXPIRED,
    CoordinatorAct.EVICTED: POLL_TIMEOUT,
    CoordinatorAct.FENCED: FENCED,
    CoordinatorAct.AWAY: CLEAN,
}


def _told_exit(history: GroupHistory, rebalance: Rebalance, member: Member) -> Exit | None:
    """Return what the coordinator wrote of a member's going around a rebalance; null where its lines are not there."""
    if history.coordinator_log.is_empty():
        return None
    from_ms = None if rebalance.started_after_ms is None else rebalance.started_after_ms - _LIFE_SLACK_MS
    until_ms = rebalance.started_before_ms if rebalance.completed_at_ms is None else rebalance.completed_at_ms
    return history.coordinator_log.exit_of(member.member_id, from_ms, until_ms + _LIFE_SLACK_MS)


def _as_told(of: Departure, told: Exit | None) -> Departure:
    """Return a departure at the moment that the coordinator wrote down, its silence measured up to then."""
    if told is None or of.told is not None:
        return of
    moved_ms = told.at_ms - (of.from_ms + of.to_ms) // 2
    silence = None if of.silence_ms is None else max(0, of.silence_ms + moved_ms)
    at_ms = told.at_ms
    return replace(
        of, told=told, from_ms=at_ms, to_ms=at_ms, latest_ms=at_ms, silence_ms=silence, in_barrier=told.in_barrier
    )


def _decided(of: Departure) -> str | None:
    """Return the class that the coordinator decided, or the client told it; null for a leave without a reason."""
    if of.told is None or (of.told.act == CoordinatorAct.LEFT and of.told.reason is None):
        return None
    if of.told.act == CoordinatorAct.LEFT:
        return POLL_TIMEOUT if of.told.over_poll_limit else CLEAN
    return _CLASS_TOLD[CoordinatorAct(of.told.act)]


def _class_by_coordinator(of: Departure) -> _Classes | None:
    decided = _decided(of)
    return None if decided is None or of.told is None else ((decided,), CERTAIN, (of.told.evidence(),))


def _class_by_own_leave(of: Departure) -> _Classes | None:
    """Return how a member left that said so itself without a reason, as librdkafka and kafka-python do (KIP-800)."""
    if of.told is None or of.told.act != CoordinatorAct.LEFT:
        return None
    told = (of.told.evidence(),)
    life = None if of.joined_ms is None else of.to_ms - of.joined_ms
    if not of.client.enforces_poll or (life is not None and of.poll_ms is not None and life < of.poll_ms - 500):
        # It polled to get its partitions, so its limit was not over.
        return (CLEAN,), STRONG, told
    by_life = _class_by_life(of)
    if of.rhythm.last_ms is None and POLL_TIMEOUT in by_life[0]:
        return (POLL_TIMEOUT, CLEAN), PLAUSIBLE, (*told, *by_life[2])
    if of.silence_ms is not None and of.poll_ms is not None and of.silence_ms >= of.poll_ms - _POLL_TIGHT_MS:
        return (POLL_TIMEOUT, CLEAN), PLAUSIBLE, told
    if (at_limit := _left_at_its_limit(of)) is not None:
        return (POLL_TIMEOUT, CLEAN), PLAUSIBLE, (*told, at_limit)
    return ((UNKNOWN, CLEAN, POLL_TIMEOUT), HINT, told) if _limit_may_be_over(of) else ((CLEAN,), PLAUSIBLE, told)


def _limit_may_be_over(of: Departure) -> bool:
    """Whether the poll limit of a client that commits in a thread of its own may have been over when it left.

    What was polled last is committed up to an interval later. A commit just before it left is that of its closing.
    """
    if of.silence_ms is None or of.poll_ms is None or of.client.library not in (None, LIBRDKAFKA):
        return False
    unpolled_ms = of.silence_ms + min(of.rhythm.gap_ms or _COMMIT_GAP_MS, _LONGEST_GAP_MS)
    return of.silence_ms > _CLOSED_MS and unpolled_ms >= of.poll_ms - _POLL_TIGHT_MS


def _class_by_end(of: Departure) -> _Classes | None:
    """Compare when a process last reported with when its member was gone: a session later, or at once."""
    if of.stretch is None or of.liveness not in (GONE, RESTARTED):
        return None
    quiet = of.to_ms - of.stretch.last_report_ms
    text = f"last report {seconds(quiet)} before it was removed, session {seconds(of.session_ms)}"
    span = (of.stretch.last_report_ms, of.to_ms)
    evidence = (observe(EvidenceSource.CLIENT_METRICS, "reports", text, "the process ended", span=span),)
    if of.session_ms - 500 <= quiet <= of.session_ms + 2 * of.stretch.interval_ms:
        return (SESSION_EXPIRED,), STRONG, evidence
    return ((CLEAN,), PLAUSIBLE, evidence) if quiet < min(of.session_ms, of.stretch.interval_ms + 1_000) else None


def _class_by_epoch(of: Departure, rebalance: Rebalance) -> _Classes | None:
    if not any(of.member.member_id in generation.fenced for generation in rebalance.generations):
        return None
    text = f"did not give up partitions within {seconds(of.poll_ms or 0)}"
    return (FENCED,), CERTAIN, (observe(EvidenceSource.LOG, "member_epoch", text, "fenced by the coordinator"),)


def _class_by_silence(of: Departure) -> _Classes | None:
    if of.silence_ms is None:
        return None
    classes, evidence = _classes_of(of, of.silence_ms), _silence_evidence(of)
    # Of a client that commits changes only, none may have been due yet.
    expired = classes == (SESSION_EXPIRED,)
    open_still = expired and not of.due and of.silence_ms <= 2 * (of.rhythm.gap_ms or _COMMIT_GAP_MS)
    left = CLEAN in classes and classes[0] in (CLEAN, UNKNOWN)
    if (open_still or left) and (at_limit := _left_at_its_limit(of)) is not None:
        # Commits need no poll: librdkafka sends them from a thread of its own, others one per record of a batch.
        others = (each for each in classes if each not in (POLL_TIMEOUT, UNKNOWN))
        return (POLL_TIMEOUT, *others), PLAUSIBLE, (*evidence, at_limit)
    if open_still:
        return (UNKNOWN,), HINT, evidence
    label = STRONG if of.due else PLAUSIBLE
    return (classes, label if len(classes) == 1 else one_down(label), evidence) if classes else None


def _class_by_life(of: Departure) -> _Classes:
    """Compare how long a member that never committed was in the group with its time-outs."""
    life, session, poll = None if of.joined_ms is None else of.to_ms - of.joined_ms, of.session_ms, of.poll_ms
    evidence = _silence_evidence(of)
    if life is None:
        return (UNKNOWN,), HINT, evidence
    past_poll = life - poll if poll and of.client.enforces_poll else None
    as_session = -500 <= life - session <= _LIFE_SLACK_MS
    as_poll = past_poll is not None and -500 <= past_poll <= _POLL_SLACK_MS
    tight = 0 <= (past_poll or 0) <= _POLL_TIGHT_MS and not of.client.is_guessed
    if as_poll and (not as_session or tight):
        return (POLL_TIMEOUT,), PLAUSIBLE, (*evidence, _limit_evidence(of, life))
    if as_session:
        text = f"lost {seconds(life)} after it got its partitions, with a session of {seconds(session)}"
        span = (of.joined_ms, of.to_ms)
        told = (*evidence, observe(EvidenceSource.LOG, "session_timeout", text, "never a heartbeat", span=span))
        return ((SESSION_EXPIRED, POLL_TIMEOUT), HINT, told) if as_poll else ((SESSION_EXPIRED,), PLAUSIBLE, told)
    return (UNKNOWN,), HINT, evidence


def _left_at_its_limit(of: Departure) -> Evidence | None:
    """Return that a member left just when its poll limit was over since it got its partitions; null if it did not.

    Its client must tell nothing, as one that reports tells when it polled, and the moment must be known well enough
    for a limit that short.
    """
    if of.joined_ms is None or not of.poll_ms or not of.client.enforces_poll or of.stretch is not None:
        return None
    if of.to_ms - of.from_ms > of.poll_ms - _POLL_TIGHT_MS:
        return None
    # Between the two it left; the first moment at which its limit was over is the likely one.
    life = max(of.from_ms - of.joined_ms, min(of.poll_ms, of.to_ms - of.joined_ms))
    if not 0 <= life - of.poll_ms <= _POLL_TIGHT_MS:
        return None
    return _limit_evidence(of, life)


def _limit_evidence(of: Departure, life_ms: int) -> Evidence:
    text = f"left {seconds(life_ms)} after it got its partitions, with a limit of {seconds(of.poll_ms or 0)}"
    span = (of.joined_ms, of.to_ms)
    return observe(EvidenceSource.LOG, "rebalance_timeout", text, "one poll, no other", span=span)


def _classes_of(of: Departure, silence: int) -> tuple[str, ...]:
    """Return the time-outs that a silence matches; a clean leave when it is shorter than both.

    Where the moment of the departure is not known well enough to tell a session that ran out from a leave between two
    commits, how much of the time in question each takes decides.
    """
    session, poll, slack = of.session_ms, of.poll_ms if of.client.enforces_poll else None, (of.to_ms - of.from_ms) // 2
    gap = min(of.rhythm.gap_ms or _COMMIT_GAP_MS, _LONGEST_GAP_MS)
    as_poll = poll is not None and poll - 1_500 - slack <= silence <= poll + gap + _POLL_SLACK_MS + slack
    # A commit renews a classic session; one of KIP-848 runs from the last heartbeat.
    beat = 0 if of.member.session_timeout_ms else of.client.heartbeat_ms + 1_000
    expires = max(session - _EXACT_MS - beat, session // 2)
    longest = silence + max(0, of.latest_ms - (of.from_ms + of.to_ms) // 2)
    as_session = longest >= expires and silence <= session + gap + 3_000 + slack
    if as_poll and as_session:
        nearer = poll is not None and abs(silence - poll) < abs(silence - session - gap // 2)
        nearer_poll = nearer and not of.client.is_guessed
        return (POLL_TIMEOUT, SESSION_EXPIRED) if nearer_poll else (SESSION_EXPIRED, POLL_TIMEOUT)
    if as_poll:
        return (POLL_TIMEOUT,)
    clean = silence - slack < max(expires, gap) and silence <= max(2 * gap, 10_000)
    # What was polled last is committed up to an interval later by clients that do it in a thread of their own.
    aside = of.client.library in (None, LIBRDKAFKA) and poll is not None
    if clean and aside and longest >= (poll or 0) - gap - _POLL_TIGHT_MS:
        return (UNKNOWN, CLEAN, POLL_TIMEOUT, SESSION_EXPIRED) if as_session else (UNKNOWN, CLEAN, POLL_TIMEOUT)
    if as_session and clean:
        return _expired_or_left(of, silence, expires, gap)
    if as_session or clean:
        return (SESSION_EXPIRED,) if as_session else (CLEAN,)
    # Its last commits were refused, or came before the last poll.
    return (POLL_TIMEOUT, UNKNOWN) if poll is not None and silence > poll else ()


def _expired_or_left(of: Departure, silence: int, expires: int, gap: int) -> tuple[str, ...]:
    """Return which of the two a silence fits clearly better, the other after it; unknown where neither."""
    middle = (of.from_ms + of.to_ms) // 2
    shortest, longest = silence - (middle - of.from_ms), silence + (of.latest_ms - middle)
    expired = max(0, longest - max(expires, shortest))
    closed, late = max(0, min(_CLOSED_MS, longest) - shortest), max(0, min(gap, longest) - max(_CLOSED_MS, shortest))
    left = closed + late * _WITHOUT_LAST_COMMIT
    if expired > _CLEARLY * left:
        return (SESSION_EXPIRED, CLEAN) if left else (SESSION_EXPIRED,)
    if left >= _CLEARLY * expired:
        return (CLEAN, SESSION_EXPIRED) if expired else (CLEAN,)
    return (UNKNOWN, SESSION_EXPIRED, CLEAN)


def _silence_evidence(of: Departure) -> tuple[Evidence, ...]:
    if of.silence_ms is None:
        return ()
    usual = f", usually every {seconds(of.rhythm.gap_ms)}" if of.rhythm.gap_ms else ""
    text = f"{seconds(of.silence_ms)} without a commit{usual}"
    span = (of.rhythm.last_ms, of.to_ms)
    return (observe(EvidenceSource.COMMITS, "silence", text, "time since the last sign", span=span),)


#: How sure a reading of the liveness matrix is, and what it means.
_TOLD = {
    NOT_POLLING: (CERTAIN, "heartbeats went on, polls did not"),
    STARVED: (CERTAIN, "the process ran, its heartbeats did not"),
    PAUSED: (CERTAIN, "nothing of the process ran"),
    UNREACHABLE: (STRONG, "the process ran but could not deliver"),
}


def _class_by_reports(of: Departure) -> _Classes | None:
    seen = of.stretch
    if seen is None or of.liveness not in _TOLD:
        return None
    label, words = _TOLD[of.liveness]
    beat = "never" if seen.beat_gap_ms is None else f"{seconds(seen.beat_gap_ms)} before"
    unpolled = 0 if seen.polled_ms is None else of.to_ms - seen.polled_ms
    text = {
        NOT_POLLING: seen.reason or f"no poll for {seconds(unpolled)}, limit {seconds(of.poll_ms or 0)}",
        STARVED: f"last heartbeat {beat}, session {seconds(of.session_ms)}; reports came on time",
        PAUSED: f"its reporting stood still for {seconds(seen.stood_still_ms)}",
        UNREACHABLE: f"{seen.undelivered} reports written in time arrived up to {seconds(seen.late_ms)} later",
    }[of.liveness]
    classes = (POLL_TIMEOUT,) if of.liveness == NOT_POLLING else (SESSION_EXPIRED,)
    span = (seen.last_report_ms, seen.next_report_ms or of.to_ms)
    # One report alone may be odd: it is not certain.
    label = label if seen.witnesses + (seen.next_report_ms is not None) > 1 or seen.reason else min(label, STRONG)
    return classes, label, (observe(EvidenceSource.CLIENT_METRICS, of.liveness, text, words, span=span),)


def _came_at(history: GroupHistory, rebalance: Rebalance, member: Member) -> int | None:
    """Return the earliest time at which a member can have joined the group; null when that is not known."""
    name = member.member_id
    lost, _, _ = _lost_in(rebalance, member)
    for of in reversed([*history.until(rebalance), rebalance]):
        earlier = [*itertools.takewhile(lambda each: each is not lost, of.generations)]
        place = next((i for i, each in enumerate(earlier) if name in each.joined), None)
        if place is not None:
            began_ms = max(of.started_after_ms or 0, of.started_before_ms - _JOIN_MS)
            return earlier[place - 1].assigned_at_ms if place else began_ms
    return None


def _joined_at(history: GroupHistory, rebalance: Rebalance, member: Member) -> int | None:
    """Return when a member got the partitions it had before a rebalance; null when that is not known."""
    lost, _, _ = _lost_in(rebalance, member)
    for generation in itertools.takewhile(lambda each: each is not lost, rebalance.generations):
        if member.member_id in generation.joined:
            return generation.assigned_at_ms
    before = history.before(rebalance)
    if before is None or before.completed_at_ms is None:
        return None
    known = {each.member_id for each in before.members_before}
    return before.completed_at_ms if member.member_id not in known or before.type == GroupType.CLASSIC else None


def _renewed_at(history: GroupHistory, rebalance: Rebalance, member: Member) -> int | None:
    """Return when the last join barrier that a member came through was released; null when that is not known.

    It starts the sessions of all members anew (GroupCoordinator.onCompleteJoin, later
    GroupMetadataManager.completeClassicGroupJoin).
    """
    if rebalance.type != GroupType.CLASSIC:
        return None
    lost, _, _ = _lost_in(rebalance, member)
    through = [*itertools.takewhile(lambda each: each is not lost, rebalance.generations)]
    before = history.before(rebalance)
    if not through and before is not None and before.type == GroupType.CLASSIC:
        through = [*before.generations]
    return through[-1].join_ended_at_ms if through else None


def _return_of(history: GroupHistory, rebalance: Rebalance, member: Member) -> tuple[Member | None, int | None]:
    """Return the member this one came back as, and when its group knew it; the first of its slot that joined later."""
    slot = slot_of(member)
    for each in (rebalance, *history.after(rebalance)):
        before = {known.member_id for known in each.members_before}
        for other in each.members_after:
            if other.member_id == member.member_id:
                return other, each.completed_at_ms
            if (
                other.member_id not in before
                and slot_of(other) == slot
                and not history.seen_together(member.member_id, other.member_id)
            ):
                return other, each.completed_at_ms
    return None, None


def awaited_evidence(history: GroupHistory, rebalance: Rebalance, departure: Departure) -> Evidence:
    """Return that probes listed a member while the others waited for it."""
    end, name = departure.to_ms, departure.member.member_id
    times = [
        each.at_ms
        for each in history.sightings_between(rebalance.started_after_ms or 0, end)
        if each.members is not None and any(m.member_id == name for m in each.members)
    ]
    text = f"listed until {seconds(max(0, end - times[-1]))} before the others were released" if times else "not seen"
    span = (times[0] if times else None, end)
    return observe(EvidenceSource.PROBES, "members", text, "awaited in the join barrier", span=span)
