"""Which timeout a member's silence, or its life in the group, matches: its session, or max.poll.interval.

Receives a measured departure; returns the classes that fit, with the confidence of the first. A silence that is
shorter than both timeouts indicates a regular leave.
"""

from __future__ import annotations

from rebalance_contract import CoordinatorAct, Evidence, EvidenceSource
from rebalance_contract.client_settings import AIOKAFKA, LIBRDKAFKA
from rebalance_streaming.observed.confidence import HINT, PLAUSIBLE, STRONG, one_step_lower
from rebalance_streaming.observed.departures import (
    CLEAN,
    COMMIT_GAP_MS,
    POLL_TIMEOUT,
    SESSION_EXPIRED,
    TIMER_SLACK_MS,
    UNKNOWN,
    Departure,
    LikelyClasses,
)
from rebalance_streaming.observed.evidence import observe, seconds
from rebalance_streaming.observed.liveness import GONE, RESTARTED

#: A longer commit interval is not taken into account.
_LONGEST_GAP_MS = 15_000
#: A client notices late that max.poll.interval has passed (measured: up to 3.8 s).
_LATE_LEAVE_MS = 4_500
#: A silence caused by a timeout is shorter than it by this at most, and longer by this at most plus a commit interval.
_EARLY_MS, _LATE_MS = 1_500, 3_000
#: An expired session shows within this time of its end.
_LIFE_SLACK_MS = 2_500
#: Most clients notice within this time, and a session that happens to expire just then is less likely.
_POLL_TIGHT_MS = 1_000
#: One of two explanations must fit this many times better than the other. A regular leave is the only explanation if it
#: fits this many times better than the other one, which are the odds of PLAUSIBLE.
_CLEARLY, _BY_FAR = 2.0, 6.0
#: All libraries that commit on a timer commit once more when they are closed, and clients that commit each batch have
#: already done so: a clean leave seldom follows a silence longer than this, and has this weight then.
_CLOSED_MS, _WITHOUT_LAST_COMMIT = 1_000, 0.2
#: Commits on a timer have ended when none came for this many of their intervals.
_BROKEN_RHYTHM = 2


def by_silence(of: Departure) -> LikelyClasses | None:
    """Compare how long a member had not committed with its timeouts; null where no commit was due."""
    if of.silence_ms is None:
        return None
    classes, evidence = _classes_of(of, of.silence_ms), _silence_evidence(of)
    # A client that commits only changes may not have had to commit yet.
    expired = classes == (SESSION_EXPIRED,)
    open_still = expired and not of.due and of.silence_ms <= 2 * (of.rhythm.gap_ms or COMMIT_GAP_MS)
    left = CLEAN in classes and classes[0] in (CLEAN, UNKNOWN)
    if (open_still or left) and (at_limit := _left_at_its_limit(of)) is not None:
        # Commits need no poll: librdkafka sends them from a thread of its own, others one per record of a batch.
        others = (each for each in classes if each not in (POLL_TIMEOUT, UNKNOWN))
        return LikelyClasses((POLL_TIMEOUT, *others), PLAUSIBLE, (*evidence, at_limit))
    if open_still:
        return LikelyClasses((UNKNOWN,), HINT, evidence)
    sure = STRONG if of.due else PLAUSIBLE
    return LikelyClasses(classes, sure if len(classes) == 1 else one_step_lower(sure), evidence) if classes else None


def _classes_of(of: Departure, silence: int) -> tuple[str, ...]:
    """Return the timeouts that a silence matches; a clean leave when it is shorter than both.

    If the time of the departure is too uncertain to distinguish an expired session from a leave between two commits,
    the one that covers more of the possible time is chosen.
    """
    session, poll, slack = of.session_ms, of.poll_ms if of.client.enforces_poll else None, (of.to_ms - of.from_ms) // 2
    gap = _commit_gap_ms(of)
    as_poll = poll is not None and poll - _EARLY_MS - slack <= silence <= poll + gap + _LATE_LEAVE_MS + slack
    # A commit renews a classic session; one of KIP-848 runs from the last heartbeat.
    beat = 0 if of.member.session_timeout_ms else of.client.heartbeat_ms + 1_000
    expires = max(session - TIMER_SLACK_MS - beat, session // 2)
    longest = silence + max(0, of.latest_ms - (of.from_ms + of.to_ms) // 2)
    as_session = longest >= expires and silence <= session + gap + _LATE_MS + slack
    if as_poll and as_session:
        nearer = poll is not None and abs(silence - poll) < abs(silence - session - gap // 2)
        nearer_poll = nearer and not of.client.is_guessed
        return (POLL_TIMEOUT, SESSION_EXPIRED) if nearer_poll else (SESSION_EXPIRED, POLL_TIMEOUT)
    if as_poll:
        return (POLL_TIMEOUT,)
    clean = silence - slack < max(expires, gap) and silence <= max(2 * gap, 10_000)
    # Clients that commit in a thread of their own commit the records of the last poll up to an interval later.
    aside = of.client.library in (None, LIBRDKAFKA) and poll is not None
    if clean and aside and longest >= (poll or 0) - gap - _POLL_TIGHT_MS:
        return (UNKNOWN, CLEAN, POLL_TIMEOUT, SESSION_EXPIRED) if as_session else (UNKNOWN, CLEAN, POLL_TIMEOUT)
    if as_session and clean:
        return _expired_or_left(of, silence, expires, gap)
    if as_session or clean:
        return (SESSION_EXPIRED,) if as_session else (CLEAN,)
    # Its last commits were refused, or preceded the last poll.
    return (POLL_TIMEOUT, UNKNOWN) if poll is not None and silence > poll else ()


def _commit_gap_ms(of: Departure) -> int:
    """Return the usual distance of its commits in ms, up to the limit that a silence may include."""
    return min(of.rhythm.gap_ms or COMMIT_GAP_MS, _LONGEST_GAP_MS)


def _expired_or_left(of: Departure, silence: int, expires: int, gap: int) -> tuple[str, ...]:
    """Return the class that a silence clearly fits better, with the other one after it; unknown first if neither."""
    middle = (of.from_ms + of.to_ms) // 2
    shortest = silence - (middle - of.from_ms)
    # A time that is known to the millisecond counts as a period of 1 ms.
    longest = max(silence + (of.latest_ms - middle), shortest + 1)
    expired = max(0, longest - max(expires, shortest))
    closed, late = max(0, min(_CLOSED_MS, longest) - shortest), max(0, min(gap, longest) - max(_CLOSED_MS, shortest))
    # The partitions it owned since a further round are not known, nor is whether they were committed.
    owned_others = of.renewed_ms is not None and of.joined_ms is not None and of.renewed_ms > of.joined_ms
    left = closed + late * (1 if owned_others else _WITHOUT_LAST_COMMIT)
    at_the_edge = not left and _BY_FAR * expired < longest - shortest
    if at_the_edge and of.client.library == AIOKAFKA:
        # aiokafka leaves when a limit is over that no record contains.
        return (UNKNOWN, SESSION_EXPIRED, POLL_TIMEOUT)
    if expired > _CLEARLY * left:
        return (SESSION_EXPIRED, CLEAN) if left else (SESSION_EXPIRED,)
    if left >= _CLEARLY * expired:
        return (CLEAN, SESSION_EXPIRED) if left < _BY_FAR * expired else (CLEAN,)
    return (UNKNOWN, SESSION_EXPIRED, CLEAN)


def _silence_evidence(of: Departure) -> tuple[Evidence, ...]:
    if of.silence_ms is None:
        return ()
    usual = f", usually every {seconds(of.rhythm.gap_ms)}" if of.rhythm.gap_ms else ""
    text = f"{seconds(of.silence_ms)} without a commit{usual}"
    span = (of.rhythm.last_ms, of.to_ms)
    return (observe(EvidenceSource.COMMITS, "silence", text, "time since the last sign", span=span),)


def by_life(of: Departure) -> LikelyClasses:
    """Compare the time that a member without any commit was in the group with its timeouts."""
    life, session, poll = None if of.joined_ms is None else of.to_ms - of.joined_ms, of.session_ms, of.poll_ms
    evidence = _silence_evidence(of)
    if life is None:
        return LikelyClasses((UNKNOWN,), HINT, evidence)
    past_poll = life - poll if poll and of.client.enforces_poll else None
    as_session = -500 <= life - session <= _LIFE_SLACK_MS
    as_poll = past_poll is not None and -500 <= past_poll <= _LATE_LEAVE_MS
    tight = 0 <= (past_poll or 0) <= _POLL_TIGHT_MS and not of.client.is_guessed
    if as_poll and (not as_session or tight):
        return LikelyClasses((POLL_TIMEOUT,), PLAUSIBLE, (*evidence, _limit_evidence(of, life)))
    if as_session:
        text = f"lost {seconds(life)} after it got its partitions, with a session of {seconds(session)}"
        span = (of.joined_ms, of.to_ms)
        both = (*evidence, observe(EvidenceSource.LOG, "session_timeout", text, "never a heartbeat", span=span))
        if as_poll:
            return LikelyClasses((SESSION_EXPIRED, POLL_TIMEOUT), HINT, both)
        return LikelyClasses((SESSION_EXPIRED,), PLAUSIBLE, both)
    return LikelyClasses((UNKNOWN,), HINT, evidence)


def by_own_leave(of: Departure) -> LikelyClasses | None:
    """Return the class of a LeaveGroup without a reason (KIP-800), as of librdkafka and kafka-python; else null."""
    if of.logged is None or of.logged.act != CoordinatorAct.LEFT:
        return None
    logged = (of.logged.evidence(),)
    life = None if of.joined_ms is None else of.to_ms - of.joined_ms
    if not of.client.enforces_poll or (life is not None and of.poll_ms is not None and life < of.poll_ms - 500):
        # It polled to get its partitions, so its limit was not over.
        return LikelyClasses((CLEAN,), STRONG, logged)
    if (overran := _overran(of)) is not None:
        return LikelyClasses((POLL_TIMEOUT, CLEAN), PLAUSIBLE, (*logged, *overran))
    classes, sure = ((UNKNOWN, CLEAN, POLL_TIMEOUT), HINT) if _limit_may_be_over(of) else ((CLEAN,), PLAUSIBLE)
    return LikelyClasses(classes, sure, logged)


def _overran(of: Departure) -> tuple[Evidence, ...] | None:
    """Return the evidence that a member that left by itself had overrun its poll limit; null if there is none."""
    life_classes, silence = by_life(of), of.silence_ms or 0
    if of.rhythm.last_ms is None and POLL_TIMEOUT in life_classes.classes:
        return life_classes.evidence
    if of.poll_ms is not None and silence >= of.poll_ms - _POLL_TIGHT_MS:
        return _silence_evidence(of)
    if (at_limit := _left_at_its_limit(of)) is not None:
        return (at_limit,)
    # A client that is closed has worked until then, so its commits went on at their rate.
    ended = of.rhythm.gap_ms is not None and silence > _BROKEN_RHYTHM * of.rhythm.gap_ms
    return _silence_evidence(of) if ended and _limit_may_be_over(of) else None


def kept_place_without_polls(of: Departure) -> bool:
    """Whether a static member was silent for its poll limit plus its session: it was stuck while its client ran.

    The client of a static member does not leave at its limit but stops its heartbeats, so that its session starts to
    run out then. A member that died, or was away, is silent for its session alone, and its reports end as well. Records
    of the last poll are committed up to an interval later.
    """
    if of.member.group_instance_id is None or of.silence_ms is None or not of.poll_ms or not of.client.enforces_poll:
        return False
    gap, slack = _commit_gap_ms(of), (of.to_ms - of.from_ms) // 2
    both, alone = of.poll_ms + of.session_ms - gap - _EARLY_MS - slack, of.session_ms + gap + _LATE_MS + slack
    return of.silence_ms >= max(both, alone) and of.liveness not in (GONE, RESTARTED)


def _left_at_its_limit(of: Departure) -> Evidence | None:
    """Return the evidence that a member left just one poll limit after it got its partitions; null if it did not.

    Only for clients without reports, as a report shows when it polled, and only if the time is known more precisely
    than the limit.
    """
    if of.joined_ms is None or not of.poll_ms or not of.client.enforces_poll or of.loss_reports is not None:
        return None
    if of.to_ms - of.from_ms > of.poll_ms - _POLL_TIGHT_MS:
        return None
    # It left between these times, most likely as soon as its limit was over.
    life = max(of.from_ms - of.joined_ms, min(of.poll_ms, of.to_ms - of.joined_ms))
    if not 0 <= life - of.poll_ms <= _POLL_TIGHT_MS:
        return None
    return _limit_evidence(of, life)


def _limit_evidence(of: Departure, life_ms: int) -> Evidence:
    text = f"left {seconds(life_ms)} after it got its partitions, with a limit of {seconds(of.poll_ms or 0)}"
    span = (of.joined_ms, of.to_ms)
    return observe(EvidenceSource.LOG, "rebalance_timeout", text, "one poll, no other", span=span)


def may_have_overrun(of: Departure) -> bool:
    """Whether a member may have left at its poll limit: by its class if the coordinator logged it, else its silence."""
    poll, slack = of.poll_ms if of.client.enforces_poll else None, (of.to_ms - of.from_ms) // 2
    if of.logged is not None or poll is None or POLL_TIMEOUT in dict(of.struck):
        return POLL_TIMEOUT in of.classes
    return of.silence_ms is None or of.silence_ms + _commit_gap_ms(of) + slack >= poll - _POLL_TIGHT_MS


def _limit_may_be_over(of: Departure) -> bool:
    """Whether the poll limit of a client that commits in a thread of its own may have been over when it left.

    Records of the last poll are committed up to an interval later. A commit just before it left belongs to its closing.
    """
    quiet_ms = _uncommitted_ms(of)
    if quiet_ms is None or of.poll_ms is None or of.client.library not in (None, LIBRDKAFKA):
        return False
    return quiet_ms > _CLOSED_MS and quiet_ms + _commit_gap_ms(of) >= of.poll_ms - _POLL_TIGHT_MS


def _uncommitted_ms(of: Departure) -> int | None:
    """Return how long a member had not committed, due or not; null if it never did since it had its partitions."""
    last_ms = of.rhythm.last_ms
    if of.silence_ms is not None or last_ms is None or last_ms < (of.joined_ms or 0):
        return of.silence_ms
    return max(0, (of.from_ms + of.to_ms) // 2 - last_ms)
