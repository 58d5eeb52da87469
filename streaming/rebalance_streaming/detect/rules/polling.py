"""Members lost because they did not call poll() (catalogue §4.2)."""

from __future__ import annotations

from rebalance_contract import Alternative
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
from rebalance_streaming.detect.rules.circumstances import client_of, missing_reports
from rebalance_streaming.detect.verdict import PLAUSIBLE, STRONG, Verdict, name_of, seconds, subject_of


def barrier_holder(episode: Episode, departure: Departure) -> Verdict | None:
    """A rebalance that had begun for another reason waited for this member until its time-out (story B)."""
    barrier = episode.barrier_of(departure)
    confidence = _held_barrier(episode, departure, barrier)
    if confidence is None:
        return None
    member = departure.member
    evidence, waited = departure.evidence, "the others waited until it was out"
    if departure.in_barrier and barrier is not None:
        evidence = (awaited_evidence(episode.history, episode.rebalance, departure), *departure.evidence)
        waited = f"the others waited {seconds(barrier.waited_ms)}, until it was out"
    return Verdict(
        rule="stalled_member_join_barrier",
        confidence=confidence,
        summary=f"{name_of(member)} did not call poll() and so did not rejoin; {waited}.",
        started_at_ms=episode.rebalance.started_before_ms if barrier is None else barrier.from_ms,
        subject=subject_of(member),
        evidence=evidence,
        alternatives=(Alternative("poll_overrun", "the group was already rebalancing when the member was lost"),),
        missing=() if episode.is_probed else ("probes of the group's state while it rebalanced",),
        advice=stalled_barrier_advice(departure),
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
    return 0.7 if departure.likely == UNKNOWN and poll is not None and poll < departure.session_ms else None


def static_stall(episode: Episode, departure: Departure) -> Verdict | None:
    """A static member says no good-bye when it stops polling; it is out at max.poll.interval plus session (F11)."""
    member, poll, silence = departure.member, departure.poll_ms, departure.silence_ms
    if member.group_instance_id is None or poll is None or silence is None or silence < poll:
        return None
    return Verdict(
        rule="static_stalled_member",
        confidence=STRONG if departure.confidence >= STRONG else PLAUSIBLE,
        summary=f"Static member {name_of(member)} stopped polling and kept its partitions for {seconds(silence)}.",
        started_at_ms=departure.to_ms - silence,
        subject=subject_of(member),
        evidence=departure.evidence,
        alternatives=(Alternative("static_session_too_short", "it was silent for longer than max.poll.interval"),),
        advice=poll_overrun_advice(departure, client_of(episode, departure)),
    )


def poll_overrun(episode: Episode, departure: Departure) -> Verdict | None:
    """One batch took longer than max.poll.interval, so the client left by itself (story C; KIP-62)."""
    if departure.likely != POLL_TIMEOUT:
        return None
    member, client = departure.member, client_of(episode, departure)
    limit = poll_limit(departure, client)
    told = "" if limit is None else f" ({seconds(limit)})"
    back = "" if departure.back_ms is None else f"; it came back {seconds(departure.back_ms - departure.to_ms)} later"
    by_session = Alternative("heartbeat_starvation", "its silence matches max.poll.interval, not the session")
    others: tuple[Alternative, ...] = (by_session,)
    if CLEAN in departure.classes:
        others = (Alternative("scale_in", "it left at the very moment its poll limit was over"),)
    if SESSION_EXPIRED in departure.classes:
        why = "its silence is about as long as its session, too"
        others = (Alternative("member_crash", why), Alternative("heartbeat_starvation", why))
    return Verdict(
        rule="poll_overrun",
        confidence=departure.confidence,
        summary=f"{name_of(member)} did not poll within max.poll.interval{told} and left the group{back}.",
        started_at_ms=departure.to_ms - (limit or 0),
        subject=subject_of(member),
        evidence=departure.evidence,
        alternatives=others,
        missing=missing_reports(departure),
        advice=poll_overrun_advice(departure, client),
    )
