"""Which departure class each source suggests, which classes are impossible, and the combined result.

Receives a measured departure; returns it with the classes that fit, the confidence of the first, and why. Sources
are the coordinator's own lines, the log, the client's reports, commits, and what the client did as it left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rebalance_contract import CoordinatorAct, Evidence, EvidenceSource, GroupType, Rebalance
from rebalance_streaming.observed.clients import LossReports
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG, one_step_lower
from rebalance_streaming.observed.coordinator_log import REMOVED, UNPOLLED
from rebalance_streaming.observed.departures import (
    CLEAN,
    FENCED,
    POLL_TIMEOUT,
    REMOVED_BY_ADMIN,
    SESSION_EXPIRED,
    TIMER_SLACK_MS,
    UNKNOWN,
    UNSYNCED,
    Departure,
    LikelyClasses,
)
from rebalance_streaming.observed.evidence import MODERATE, observe, seconds, strength_of, weigh
from rebalance_streaming.observed.fingerprints import is_closed_by_admin
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
    is_unanswered,
    said_unpolled,
)
from rebalance_streaming.observed.timeouts import by_life, by_own_leave, by_silence

#: If two probes are further apart, they do not show when a member left.
_SEEN_MS = 5_000
_CLASSES = (POLL_TIMEOUT, SESSION_EXPIRED, CLEAN, FENCED)
#: Classes of the coordinator's own decisions.
_DECIDED = {
    CoordinatorAct.EXPIRED: SESSION_EXPIRED,
    CoordinatorAct.EVICTED: POLL_TIMEOUT,
    CoordinatorAct.FENCED: FENCED,
    CoordinatorAct.AWAY: CLEAN,
}
#: Classes by meaning of a leave's reason; any other reason is that of a regular leave.
_BY_REASON = {UNPOLLED: POLL_TIMEOUT, REMOVED: REMOVED_BY_ADMIN}
#: Confidence and meaning of each cell of the liveness matrix.
_BY_LIVENESS = {
    NOT_POLLING: (CERTAIN, "heartbeats went on, polls did not"),
    STARVED: (CERTAIN, "the process ran, its heartbeats did not"),
    PAUSED: (CERTAIN, "nothing of the process ran"),
    UNREACHABLE: (STRONG, "the process ran but could not deliver"),
}


def classify(of: Departure, rebalance: Rebalance) -> Departure:
    """Return a departure with the classes that fit, the confidence of the first, and why.

    Impossible classes are removed from the result of each source. The source with the highest confidence decides, the
    first of several with the same one; the others count for or against it.
    """
    struck = dict(_impossible(of, rebalance))
    sources: tuple[LikelyClasses | None, ...] = (_by_coordinator(of),)
    unread = rebalance.is_at_least and not _knows_session(of, rebalance)
    if sources[0] is None and unread:
        # Neither commits nor the timeouts to compare them with are known.
        sources = (_by_reports(of), _by_unread_leave(of))
    elif sources[0] is None:
        ended = None if rebalance.is_at_least and of.to_ms - of.from_ms > _SEEN_MS else _by_end(of)
        by_records = (_by_epoch(of, rebalance), _by_reports(of), by_silence(of), ended)
        sources = (*by_records, by_own_leave(of))
    found = [kept for each in sources if each is not None and (kept := _possible(each, struck)) is not None]
    found = sorted([each for each in found if each.classes[0] != UNKNOWN] or found, key=lambda each: -each.confidence)
    if not found:
        life = LikelyClasses((UNKNOWN,), HINT, ()) if unread else by_life(of)
        found = [_possible(life, struck) or LikelyClasses((UNKNOWN,), HINT, life.evidence)]
    classes, confidence, evidence = found[0]
    others = [_as_witness(each, classes) for each in found[1:]]
    witnesses = [each for several in others for each in several]
    return replace(
        of,
        classes=classes,
        confidence=weigh(confidence, witnesses),
        evidence=(*evidence, *witnesses),
        struck=tuple(struck.items()),
    )


def _knows_session(of: Departure, rebalance: Rebalance) -> bool:
    """Whether a member's session timeout is known: the log has that of a classic member, or its client reports it."""
    return of.member.session_timeout_ms is not None or rebalance.type != GroupType.CLASSIC


def _by_unread_leave(of: Departure) -> LikelyClasses | None:
    """Return the class of a member that left by LeaveGroup, as its coordinator logged, where no commit is known."""
    if of.logged is None or of.logged.act != CoordinatorAct.LEFT:
        return None
    return LikelyClasses((UNKNOWN, CLEAN, POLL_TIMEOUT), HINT, (of.logged.evidence(),))


def _possible(found: LikelyClasses, struck: Mapping[str, str]) -> LikelyClasses | None:
    """Return the result of a source without impossible classes, with less confidence if its first one was removed."""
    classes, confidence, evidence = found
    left = tuple(each for each in classes if each not in struck)
    if not left:
        return None
    if left[0] == UNKNOWN and len(left) == len(classes) - 1 == 2:
        return LikelyClasses(left[1:], PLAUSIBLE, evidence)  # one is left of two that fit equally well
    return LikelyClasses(left, confidence if left[0] == classes[0] else one_step_lower(confidence), evidence)


def _as_witness(other: LikelyClasses, classes: tuple[str, ...]) -> tuple[Evidence, ...]:
    """Return the evidence of a further source with its strength, for or against the first of these classes."""
    if other.classes[0] == classes[0]:
        return tuple(replace(each, strength=strength_of(other.confidence)) for each in other.evidence[:1])
    # Commits go on until a client leaves by itself, for any reason.
    leaves = {classes[0], other.classes[0]} <= {CLEAN, POLL_TIMEOUT, UNKNOWN}
    if leaves or other.confidence < PLAUSIBLE or classes[0] in other.classes:
        return ()
    return tuple(replace(each, strength=MODERATE, against=True) for each in other.evidence[:1])


def _impossible(of: Departure, rebalance: Rebalance) -> Iterator[tuple[str, str]]:
    """Yield the classes that times rule out, each with the reason."""
    decided = _decided(of)
    if decided is not None:
        yield from ((each, "its coordinator wrote otherwise") for each in _CLASSES if each != decided)
        return
    if of.logged is not None:
        yield SESSION_EXPIRED, "it left by its own request, as its coordinator wrote"
        yield FENCED, "it left by its own request, as its coordinator wrote"
    poll, session, seen = of.poll_ms, of.session_ms, of.loss_reports
    own_word = seen is not None and said_unpolled(seen)
    if not own_word and of.client.enforces_poll and poll and not _stood_inside_poll(of, poll):
        unpolled = None if seen is None or seen.polled_ms is None else of.latest_ms - seen.polled_ms
        if of.age_ms is not None and of.age_ms < poll - POLL_SLACK_MS:
            yield POLL_TIMEOUT, f"in the group for {seconds(of.age_ms)}, max.poll.interval is {seconds(poll)}"
        elif unpolled is not None and unpolled < poll - POLL_SLACK_MS:
            yield POLL_TIMEOUT, f"polled {seconds(unpolled)} before it was gone, max.poll.interval is {seconds(poll)}"
    if not _knows_session(of, rebalance):
        return
    if of.liveness in (GONE, RESTARTED) and (quiet := _unheard_ms(of)) is not None and quiet < session - TIMER_SLACK_MS:
        yield SESSION_EXPIRED, f"sent heartbeats until {seconds(quiet)} before it was gone, session {seconds(session)}"
    # A commit renews a classic member's session, as a heartbeat does (OffsetMetadataManager, GroupCoordinator).
    committed = of.rhythm.last_ms if rebalance.type == GroupType.CLASSIC else None
    quiet = None if committed is None or committed < (of.joined_ms or committed + 1) else of.latest_ms - committed
    if quiet is not None and quiet < session - TIMER_SLACK_MS:
        yield SESSION_EXPIRED, f"committed {seconds(quiet)} before it was gone, its session is {seconds(session)}"
    elif of.renewed_ms is not None and of.latest_ms - of.renewed_ms < session - TIMER_SLACK_MS:
        rejoined = seconds(of.latest_ms - of.renewed_ms)
        yield SESSION_EXPIRED, f"rejoined {rejoined} before it was gone, its session is {seconds(session)}"
    elif of.age_ms is not None and of.member.session_timeout_ms and of.age_ms < session - TIMER_SLACK_MS:
        yield SESSION_EXPIRED, f"in the group for {seconds(of.age_ms)}, its session is {seconds(session)}"


def _stood_inside_poll(of: Departure, poll: int) -> bool:
    """Whether a client that reports its polls cannot have returned from the last one within its limit.

    It ran, records waited, and nothing was committed for longer: a callback inside poll() overruns the limit as well,
    and reports show only that the application is inside the client. Any other client sends a LeaveGroup, unless the
    others wait for it; then a client that polls joins them.
    """
    awaited = of.member.group_instance_id is not None or of.in_barrier
    if not awaited or of.silence_ms is None or of.liveness not in (ALIVE, HEALTHY):
        return False
    # Records of the last poll are committed up to an interval later.
    late = (of.rhythm.gap_ms or 0) if of.in_barrier else 0
    return of.due and of.silence_ms + (of.to_ms - of.from_ms) // 2 + late >= poll


def _unheard_ms(of: Departure) -> float | None:
    """Return the longest time that an ended process can have sent no heartbeat when it was gone; null: not known."""
    seen = of.loss_reports
    if seen is None:
        return None
    if seen.beat_gap_ms is not None:
        return seen.beat_gap_ms + of.latest_ms - of.to_ms
    # Its heartbeats went on as long as it reported, the last one up to an interval before.
    ended = of.latest_ms - seen.last_report_ms + of.client.heartbeat_ms
    return ended if of.client.may_starve is False else None


def _decided(of: Departure) -> str | None:
    """Return the class by the coordinator's decision or the client's reason; null for a leave without a reason."""
    if of.logged is None or (of.logged.act == CoordinatorAct.LEFT and of.logged.reason is None):
        return None
    if of.logged.act == CoordinatorAct.LEFT:
        by_design = of.logged.meaning == REMOVED and is_closed_by_admin(of.member)
        return CLEAN if by_design else _BY_REASON.get(of.logged.meaning or "", CLEAN)
    if of.logged.is_unsynced:
        return UNSYNCED
    return _DECIDED[CoordinatorAct(of.logged.act)]


def _by_coordinator(of: Departure) -> LikelyClasses | None:
    """Return the class according to the coordinator's log line; null where its broker's log is not shipped."""
    decided = _decided(of)
    return None if decided is None or of.logged is None else LikelyClasses((decided,), CERTAIN, (of.logged.evidence(),))


def _by_epoch(of: Departure, rebalance: Rebalance) -> LikelyClasses | None:
    """Return FENCED if a KIP-848 coordinator fenced the member, which its epoch in the log shows; else null."""
    if not any(of.member.member_id in generation.fenced for generation in rebalance.generations):
        return None
    text = f"did not give up partitions within {seconds(of.poll_ms or 0)}"
    fenced = observe(EvidenceSource.LOG, "member_epoch", text, "fenced by the coordinator")
    return LikelyClasses((FENCED,), CERTAIN, (fenced,))


def _by_reports(of: Departure) -> LikelyClasses | None:
    """Return the class that a client's own reports indicate (`liveness`)."""
    seen = of.loss_reports
    if seen is None or of.liveness not in _BY_LIVENESS:
        return None
    sure, words = _BY_LIVENESS[of.liveness]
    beat = "never" if seen.beat_gap_ms is None else f"{seconds(seen.beat_gap_ms)} before"
    text = {
        NOT_POLLING: _unpolled_text(of, seen),
        STARVED: f"last heartbeat {beat}, session {seconds(of.session_ms)}; reports came on time",
        PAUSED: f"its reporting stood still for {seconds(seen.stood_still_ms)}",
        UNREACHABLE: seen.reason
        if seen.reason and is_unanswered(seen)
        else f"{seen.undelivered} reports written in time arrived up to {seconds(seen.late_ms)} later",
    }[of.liveness]
    classes = (POLL_TIMEOUT,) if of.liveness == NOT_POLLING else (SESSION_EXPIRED,)
    span = (seen.last_report_ms, seen.next_report_ms or of.to_ms)
    # A single report may be wrong, so it is not certain.
    own_word = said_unpolled(seen) or is_unanswered(seen)
    sure = sure if seen.witnesses + (seen.next_report_ms is not None) > 1 or own_word else min(sure, STRONG)
    return LikelyClasses(classes, sure, (observe(EvidenceSource.CLIENT_METRICS, of.liveness, text, words, span=span),))


def _unpolled_text(of: Departure, seen: LossReports) -> str:
    if seen.reason and said_unpolled(seen):
        return seen.reason
    if seen.polled_ms is None:
        return f"its statistics waited for its next poll, for up to {seconds(seen.late_ms)}"
    return f"no poll for {seconds(of.to_ms - seen.polled_ms)}, limit {seconds(of.poll_ms or 0)}"


def _by_end(of: Departure) -> LikelyClasses | None:
    """Compare a process's last report with when its member was gone: a session later, or at once."""
    if of.loss_reports is None or of.liveness not in (GONE, RESTARTED):
        return None
    quiet = of.to_ms - of.loss_reports.last_report_ms
    text = f"last report {seconds(quiet)} before it was removed, session {seconds(of.session_ms)}"
    span = (of.loss_reports.last_report_ms, of.to_ms)
    evidence = (observe(EvidenceSource.CLIENT_METRICS, "reports", text, "the process ended", span=span),)
    if of.session_ms - 500 <= quiet <= of.session_ms + 2 * of.loss_reports.interval_ms:
        return LikelyClasses((SESSION_EXPIRED,), STRONG, evidence)
    at_once = quiet < min(of.session_ms, of.loss_reports.interval_ms + 1_000)
    return LikelyClasses((CLEAN,), PLAUSIBLE, evidence) if at_once else None
