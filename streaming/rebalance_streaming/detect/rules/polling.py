"""Members lost because they did not call poll() (catalogue §4.2)."""

from __future__ import annotations

from rebalance_streaming.detect.advice import poll_limit, poll_overrun_advice, stalled_barrier_advice
from rebalance_streaming.detect.barriers import Barrier
from rebalance_streaming.detect.departures import (
    CLEAN,
    POLL_TIMEOUT,
    SESSION_EXPIRED,
    UNKNOWN,
    Departure,
    awaited_evidence,
)
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.rules.circumstances import client_of, say_lost
from rebalance_streaming.detect.verdict import PLAUSIBLE, STRONG, Verdict


def barrier_holder(episode: Episode, departure: Departure) -> Verdict | None:
    """A rebalance that had begun for another reason waited for this member until its time-out (story B)."""
    barrier = episode.barrier_of(departure)
    confidence = _held_barrier(episode, departure, barrier)
    if confidence is None:
        return None
    evidence, seen = departure.evidence, departure.in_barrier and barrier is not None
    if seen:
        evidence = (awaited_evidence(episode.history, episode.rebalance, departure), *departure.evidence)
    return say_lost(
        "stalled_member_join_barrier.held",
        departure,
        episode.rebalance.started_before_ms if barrier is None else barrier.from_ms,
        confidence=confidence,
        evidence=evidence,
        missing=(),
        advice=stalled_barrier_advice(departure),
        waited=barrier.waited_ms if seen and barrier is not None else None,
        probed=episode.is_probed,
    )


def _held_barrier(episode: Episode, departure: Departure, barrier: Barrier | None) -> float | None:
    """Return how sure it is that the others waited for this member; null if something else was the matter."""
    if not departure.in_barrier:
        newcomer = any(each.returned_from is None for each in episode.arrivals)
        unseen = newcomer and not episode.is_probed and departure.likely == POLL_TIMEOUT
        return PLAUSIBLE if unseen else None
    if barrier is None or barrier.waited_ms < episode.long_barrier_ms:
        return None
    triggers = [each for each in episode.departures if not each.in_barrier and each.member.member_id in barrier.left]
    if any(each.likely in (POLL_TIMEOUT, SESSION_EXPIRED) for each in triggers):
        return None
    if departure.likely == POLL_TIMEOUT:
        return STRONG
    # Whoever sends no heartbeat is out after its session: this one did, and yet did not join.
    if barrier.waited_ms > departure.session_ms + 3_000:
        return STRONG
    poll = departure.poll_ms
    return PLAUSIBLE if departure.likely == UNKNOWN and poll is not None and poll < departure.session_ms else None


def static_stall(episode: Episode, departure: Departure) -> Verdict | None:
    """A static member says no good-bye when it stops polling; it is out at max.poll.interval plus session (F11)."""
    member, poll, silence = departure.member, departure.poll_ms, departure.silence_ms
    if member.group_instance_id is None or poll is None or silence is None or silence < poll:
        return None
    return say_lost(
        "static_stalled_member.lost",
        departure,
        departure.to_ms - silence,
        confidence=STRONG if departure.confidence >= STRONG else PLAUSIBLE,
        missing=(),
        advice=poll_overrun_advice(departure, client_of(episode, departure)),
        silence=silence,
    )


def poll_overrun(episode: Episode, departure: Departure) -> Verdict | None:
    """One batch took longer than max.poll.interval, so the client left by itself (story C; KIP-62)."""
    if departure.likely != POLL_TIMEOUT:
        return None
    client = client_of(episode, departure)
    limit, classes = poll_limit(departure, client), departure.classes
    return say_lost(
        "poll_overrun",
        departure,
        departure.to_ms - (limit or 0),
        confidence=departure.confidence,
        advice=poll_overrun_advice(departure, client),
        limit=limit,
        away=None if departure.back_ms is None else departure.back_ms - departure.to_ms,
        as_session=SESSION_EXPIRED in classes,
        in_order=CLEAN in classes and SESSION_EXPIRED not in classes,
        unlike=not {CLEAN, SESSION_EXPIRED} & set(classes),
    )
