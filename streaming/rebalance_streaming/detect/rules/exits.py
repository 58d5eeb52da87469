"""Members whose process ended without a word (catalogue §4.3, and §4.4 for static members)."""

from __future__ import annotations

from rebalance_streaming.detect.advice import graceful_stop_advice, longer_session, session_for_absence
from rebalance_streaming.detect.departures import SESSION_EXPIRED, UNKNOWN, Departure, slot_of
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.history import GroupHistory, partition_names
from rebalance_streaming.detect.liveness import GONE, HEALTHY, PAUSED, RESTARTED, STARVED, UNREACHABLE
from rebalance_streaming.detect.rules.circumstances import THAW_MS, host_of, is_busy, same_slot, say_lost
from rebalance_streaming.detect.verdict import CERTAIN, HINT, PLAUSIBLE, STRONG, Verdict, subject_of

#: What a process reports that has not ended.
_ALIVE = (STARVED, PAUSED, UNREACHABLE, HEALTHY)


def static_absence(episode: Episode, departure: Departure) -> Verdict | None:
    """A static member was away for longer than its session and came back (KIP-345)."""
    member, session = departure.member, departure.session_ms
    if member.group_instance_id is None or departure.likely != SESSION_EXPIRED or departure.back_ms is None:
        return None
    if departure.liveness == HEALTHY:
        return None
    # Where no commit was due, the last one says nothing of when it went.
    away = departure.back_ms - departure.to_ms + (departure.silence_ms or session)
    longer = session_for_absence(session, away, of_client=member.session_timeout_ms is not None)
    since_ms = departure.to_ms
    return say_lost("static_session_too_short.lost", departure, since_ms, missing=(), advice=(longer,), away=away)


def static_ghost(episode: Episode, departure: Departure) -> Verdict | None:
    """A static instance is gone for good; nobody read its partitions until its session ended."""
    member = departure.member
    if member.group_instance_id is None or departure.likely != SESSION_EXPIRED or departure.back_ms is not None:
        return None
    if departure.liveness in _ALIVE:
        return None
    subject = subject_of(member, partitions=partition_names(member.partitions)[:20])
    return say_lost("static_member_ghost.lost", departure, subject=subject)


def ungraceful(episode: Episode, departure: Departure) -> Verdict | None:
    """An instance was replaced without leaving: its ghost stayed until its session ended."""
    if departure.likely != SESSION_EXPIRED or departure.member.group_instance_id:
        return None
    if departure.liveness in (STARVED, HEALTHY):
        return None
    successor = _successor_before_loss(episode, departure)
    if successor is None:
        return None
    return say_lost(
        "ungraceful_shutdown",
        departure,
        confidence=_ghost_confidence(departure),
        advice=graceful_stop_advice(departure),
        successor=successor,
        reported=departure.liveness is not None,
    )


def _ghost_confidence(departure: Departure) -> float:
    """A starved client, too, joins anew while its old id is still there, so without reports its library decides."""
    if departure.liveness in (GONE, RESTARTED):
        return STRONG
    return PLAUSIBLE if departure.client.may_starve is False else HINT


def _successor_before_loss(episode: Episode, departure: Departure) -> str | None:
    """Return a member of the same client that joined while this one was silent and not yet removed."""
    slot, history = slot_of(departure.member), episode.history
    silent_from = departure.to_ms - departure.session_ms - 5_000
    for generation in episode.rebalance.generations:
        for member_id in generation.joined:
            if member_id != departure.member.member_id and _is_of(history, member_id, slot):
                return member_id
        if departure.member.member_id in generation.left:
            break
    for each in history.in_order():
        if each.rebalance_id == episode.rebalance.rebalance_id or (each.completed_at_ms or 0) < silent_from:
            continue
        if each.started_before_ms > departure.to_ms:
            break
        for member_id in each.joined:
            beside = departure.member.member_id in {m.member_id for m in each.members_before}
            if beside and member_id != departure.member.member_id and _is_of(history, member_id, slot):
                return member_id
    return None


def _is_of(history: GroupHistory, member_id: str, slot: tuple[str, str]) -> bool:
    member = history.members.get(member_id)
    return member is not None and slot_of(member) == slot


def crash(episode: Episode, departure: Departure) -> Verdict | None:
    """The process died without a word and the session ran out."""
    if departure.likely != SESSION_EXPIRED or departure.liveness in _ALIVE:
        return None
    confidence = _crash_confidence(episode, departure)
    if confidence is None:
        return None
    return say_lost(
        "member_crash",
        departure,
        departure.to_ms - (departure.silence_ms or departure.session_ms),
        confidence=confidence,
        returned=departure.back_ms is not None,
        reported=departure.liveness is not None,
    )


def _crash_confidence(episode: Episode, departure: Departure) -> float | None:
    """Return how sure a crash is; null where it is no likelier than something else."""
    if departure.liveness == RESTARTED or (departure.liveness == GONE and not _may_come_back(episode, departure)):
        return CERTAIN
    known = departure.client.may_starve is False
    if departure.back_ms is None:
        return _absence_confidence(episode, departure, known=known)
    if departure.back_ms - departure.to_ms <= THAW_MS:
        return None
    if known:
        return PLAUSIBLE
    return HINT if is_busy(departure) else None


def _absence_confidence(episode: Episode, departure: Departure, *, known: bool) -> float | None:
    """Judge by how long it has been away: what starved or stood still is back within minutes."""
    if _may_come_back(episode, departure):
        return None
    if _waited_long(episode, departure):
        return HINT if _came_back_before(episode, departure) else PLAUSIBLE
    return PLAUSIBLE if known else HINT


def _may_come_back(episode: Episode, departure: Departure) -> bool:
    """Whether it was lost before, came back then, and has not been away for long."""
    return _came_back_before(episode, departure) and not _waited_long(episode, departure)


def _came_back_before(episode: Episode, departure: Departure) -> bool:
    return any(past.back_ms is not None for past in same_slot(episode, departure))


def _waited_long(episode: Episode, departure: Departure) -> bool:
    return episode.now_ms - departure.to_ms >= episode.thresholds.formation_window_ms


def frozen_or_starved(episode: Episode, departure: Departure) -> Verdict | None:
    """It was lost by its session, came back, and nothing separates what may have happened."""
    if departure.likely != SESSION_EXPIRED:
        return None
    began_ms, host = episode.rebalance.started_before_ms, host_of(departure)
    if departure.liveness == HEALTHY:
        return say_lost("undetermined.healthy", departure, began_ms, missing=(), host=host)
    returned = departure.back_ms is not None
    if departure.client.may_starve is False and returned:
        pause_ms, heartbeat_ms = departure.silence_ms or departure.session_ms, departure.client.heartbeat_ms
        return say_lost(
            "process_pause.back_soon",
            departure,
            subject=subject_of(departure.member, hosts=(departure.member.host,)),
            advice=(longer_session(departure.session_ms, heartbeat_ms, pause_ms=pause_ms),),
        )
    return say_lost("undetermined.silent", departure, began_ms, missing=(), host=host, returned=returned)


def unknown_loss(episode: Episode, departure: Departure) -> Verdict | None:
    """Nothing was due from the member before it was gone, so nothing tells how it went."""
    if departure.likely != UNKNOWN:
        return None
    began_ms = episode.rebalance.started_before_ms
    return say_lost("undetermined.gone", departure, began_ms, missing=(), host=host_of(departure))
