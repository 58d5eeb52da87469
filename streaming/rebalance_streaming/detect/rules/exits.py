"""Members whose process ended without a word (catalogue §4.3, and §4.4 for static members)."""

from __future__ import annotations

from rebalance_contract import Advice, Alternative, Evidence
from rebalance_streaming.detect.advice import (
    absent_instance_advice,
    graceful_stop_advice,
    longer_session,
    longer_static_session,
)
from rebalance_streaming.detect.departures import FENCED, POLL_TIMEOUT, SESSION_EXPIRED, Departure, slot_of
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.history import GroupHistory, partition_names
from rebalance_streaming.detect.liveness import GONE, HEALTHY, PAUSED, RESTARTED, STARVED, UNREACHABLE
from rebalance_streaming.detect.rules.circumstances import THAW_MS, is_busy, missing_reports, same_slot, undetermined
from rebalance_streaming.detect.verdict import CERTAIN, LOG, STRONG, Verdict, name_of, seconds, subject_of

#: What a process reports that has not ended.
_ALIVE = (STARVED, PAUSED, UNREACHABLE, HEALTHY)


def static_absence(episode: Episode, departure: Departure) -> Verdict | None:
    """A static member was away for longer than its session and came back (KIP-345)."""
    member = departure.member
    if member.group_instance_id is None or departure.likely != SESSION_EXPIRED or departure.back_ms is None:
        return None
    if departure.liveness == HEALTHY:
        return None
    # Where no commit was due, the last one says nothing of when it went.
    away = departure.back_ms - departure.to_ms + (departure.silence_ms or departure.session_ms)
    return Verdict(
        rule="static_session_too_short",
        confidence=STRONG,
        summary=f"Static member {name_of(member)} was away {seconds(away)}, longer than its session of "
        f"{seconds(departure.session_ms)}, so its return cost two rebalances.",
        started_at_ms=departure.to_ms,
        subject=subject_of(member),
        evidence=departure.evidence,
        advice=(longer_static_session(departure.session_ms, away, of_client=member.session_timeout_ms is not None),),
    )


def static_ghost(episode: Episode, departure: Departure) -> Verdict | None:
    """A static instance is gone for good; nobody read its partitions until its session ended."""
    member = departure.member
    if member.group_instance_id is None or departure.likely != SESSION_EXPIRED or departure.back_ms is not None:
        return None
    if departure.liveness in _ALIVE:
        return None
    return Verdict(
        rule="static_member_ghost",
        confidence=0.7,
        summary=f"Static member {name_of(member)} stopped and did not come back; its partitions stayed unread for its "
        f"session of {seconds(departure.session_ms)}.",
        started_at_ms=departure.to_ms - departure.session_ms,
        subject=subject_of(member, partitions=partition_names(member.partitions)[:20]),
        evidence=departure.evidence,
        alternatives=(Alternative("member_crash", "static members do not leave when they are closed either"),),
        missing=missing_reports(departure),
        advice=absent_instance_advice(departure.session_ms),
    )


def ungraceful(episode: Episode, departure: Departure) -> Verdict | None:
    """An instance was replaced without leaving: its ghost stayed until its session ended."""
    if departure.likely != SESSION_EXPIRED or departure.member.group_instance_id:
        return None
    if departure.liveness in (STARVED, HEALTHY):
        return None
    successor = _successor_before_loss(episode, departure)
    if successor is None:
        return None
    return Verdict(
        rule="ungraceful_shutdown",
        confidence=_ghost_confidence(departure),
        summary=f"{name_of(departure.member)} was replaced without leaving the group; its ghost held partitions until "
        f"its session of {seconds(departure.session_ms)} ended.",
        started_at_ms=departure.to_ms - departure.session_ms,
        subject=subject_of(departure.member),
        evidence=(
            *departure.evidence,
            Evidence(
                LOG, "members", f"{successor} of the same client joined before it was removed", "restart beside a ghost"
            ),
        ),
        alternatives=(
            Alternative("member_crash", "its successor was there before it was removed"),
            *(() if departure.liveness else (Alternative("heartbeat_starvation", "no client metrics"),)),
        ),
        missing=missing_reports(departure),
        advice=graceful_stop_advice(departure),
    )


def _ghost_confidence(departure: Departure) -> float:
    """A starved client, too, joins anew while its old id is still there, so without reports its library decides."""
    if departure.liveness in (GONE, RESTARTED):
        return STRONG
    return 0.8 if departure.client.may_starve is False else 0.5


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
    back = "and has not come back" if departure.back_ms is None else "and was started again"
    return Verdict(
        rule="member_crash",
        confidence=confidence,
        summary=f"{name_of(departure.member)} went silent without leaving, {back}; the group removed it after its "
        f"session of {seconds(departure.session_ms)}.",
        started_at_ms=departure.to_ms - (departure.silence_ms or departure.session_ms),
        subject=subject_of(departure.member),
        evidence=departure.evidence,
        alternatives=(Alternative("process_pause", "a frozen process is back within seconds"),)
        if departure.liveness is None
        else (),
        missing=missing_reports(departure),
        advice=(
            Advice(
                "operation", None, "look at the exit code, the kernel's out-of-memory log and the last log lines", "-"
            ),
        ),
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
        return 0.65
    return 0.5 if is_busy(departure) else None


def _absence_confidence(episode: Episode, departure: Departure, *, known: bool) -> float | None:
    """Judge by how long it has been away: what starved or stood still is back within minutes."""
    if _may_come_back(episode, departure):
        return None
    if _waited_long(episode, departure):
        return 0.5 if _came_back_before(episode, departure) else 0.85
    return 0.65 if known else 0.5


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
    if departure.liveness == HEALTHY:
        return undetermined(
            episode,
            departure,
            f"{name_of(departure.member)} was silent for its session of {seconds(departure.session_ms)}, although it "
            "ran and sent heartbeats; whether it left by itself or they did not arrive cannot be told.",
            (
                Alternative("scale_in", "it committed nothing for a session before"),
                Alternative("network_partition", "its reports came in time"),
            ),
        )
    if departure.client.may_starve is False and departure.back_ms is not None:
        return Verdict(
            rule="process_pause",
            confidence=0.55,
            summary=f"{name_of(departure.member)} was silent for its session and back within seconds: it stood still.",
            started_at_ms=departure.to_ms - departure.session_ms,
            subject=subject_of(departure.member, hosts=(departure.member.host,)),
            evidence=departure.evidence,
            alternatives=(Alternative("member_crash", "a new process rarely joins so soon"),),
            missing=missing_reports(departure),
            advice=(
                longer_session(
                    departure.session_ms, departure.silence_ms or departure.session_ms, departure.client.heartbeat_ms
                ),
            ),
        )
    return undetermined(
        episode,
        departure,
        f"{name_of(departure.member)} was silent for its session of {seconds(departure.session_ms)}"
        f"{'' if departure.back_ms is None else ' and came back'}; whether it crashed, stood still or only its "
        "heartbeats did cannot be told.",
        (
            Alternative("heartbeat_starvation", "no client metrics, and no version known for it"),
            Alternative("process_pause", "no client metrics, no second member of its process"),
            Alternative("member_crash", "no client metrics; it came back under the same name"),
        ),
    )


def unknown_loss(episode: Episode, departure: Departure) -> Verdict | None:
    """Nothing was due from the member before it was gone, so nothing tells how it went."""
    if departure.likely in (POLL_TIMEOUT, SESSION_EXPIRED, FENCED) or departure.likely != "unknown":
        return None
    return undetermined(
        episode,
        departure,
        f"{name_of(departure.member)} is gone; no commit was due from it, so the log does not tell how it left.",
        (
            Alternative("scale_in", "it may have left in order"),
            Alternative("member_crash", "its session may have run out"),
            Alternative("poll_overrun", "it may have left by its poll time-out"),
        ),
    )
