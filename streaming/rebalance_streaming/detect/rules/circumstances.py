"""Helpers shared by the rules about one lost member: was it busy, was it lost before, which sources are missing."""

from __future__ import annotations

from typing import Any

from rebalance_contract import Evidence, Subject
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.verdict import Verdict, subject_of
from rebalance_streaming.detect.wording import say
from rebalance_streaming.observed.confidence import STRONG
from rebalance_streaming.observed.departures import SESSION_EXPIRED, Departure, slot_of

#: A frozen process is back within this time after its session ended; a new process takes longer to start and join.
THAW_MS = 5_000
#: Few pauses and network cuts that outlast a session last for this many more sessions, or this long.
_AWAY_SESSIONS, _AWAY_MS = 3, 30_000
#: Few processes that die repeatedly live for this many sessions, or for `_AWAY_MS`.
_STAYS_SESSIONS = 2
#: Within this time a restarted process cannot be distinguished from a paused one.
_RESTART_MS = 15_000


def is_busy(departure: Departure) -> bool:
    """Whether records arrived while the member was silent; without any, it was idle."""
    return (departure.arriving or 0) > 0


def same_slot(episode: Episode, departure: Departure) -> list[Departure]:
    """Return earlier departures of the same member, under any id."""
    slot = slot_of(departure.member)
    return [past for past in episode.earlier if slot_of(past.member) == slot]


def missing_reports(departure: Departure) -> tuple[str, ...]:
    """Return the missing source that would have decided; empty if the cause is sure or its client reports."""
    if departure.liveness is not None or departure.confidence >= STRONG:
        return ()
    host = departure.member.host or "the member's host"
    return (f"client metrics of {host}: reports on time, late or missing would separate these",)


def say_lost(
    key: str,
    departure: Departure,
    since_ms: int | None = None,
    /,
    *,
    subject: Subject | None = None,
    evidence: tuple[Evidence, ...] | None = None,
    missing: tuple[str, ...] | None = None,
    **given: Any,
) -> Verdict:
    """Return a verdict about a lost member, with the facts and the evidence of its departure.

    The facts `member`, `session`, `returned` and `reported` (whether its client reports) have defaults. `given` are
    further arguments of `say`: the confidence, other facts and so on. Defaults for null: `since_ms` is one session
    before the member was gone, `subject` is the member, `evidence` that of the departure, `missing` its client's
    reports.
    """
    return say(
        key,
        departure.to_ms - departure.session_ms if since_ms is None else since_ms,
        subject_of(departure.member) if subject is None else subject,
        evidence=departure.evidence if evidence is None else evidence,
        missing=missing_reports(departure) if missing is None else missing,
        **{"returned": departure.back_ms is not None, "reported": departure.liveness is not None, **given},
        member=departure.member,
        session=departure.session_ms,
    )


def whole_host_lost(episode: Episode, host: str) -> bool:
    """Whether other groups lost members on a host at the same time, and this group lost all of its members there."""
    gone = {each.member.member_id for each in episode.departures}
    spared = [each for each in episode.rebalance.members_before if each.host == host and each.member_id not in gone]
    return bool(episode.elsewhere.groups) and host in episode.elsewhere.hosts and not spared


def spared_on_host(episode: Episode, departure: Departure) -> bool:
    """Whether another member on its host stayed in the group: then the host could reach the coordinator."""
    stayed = {each.member_id for each in episode.rebalance.members_after}
    return any(
        each.host == departure.member.host and each.member_id != departure.member.member_id
        for each in episode.rebalance.members_before
        if each.member_id in stayed
    )


def patience_ms(departure: Departure) -> int:
    """Return the longest usual absence (ms) of a member whose process is alive."""
    return max(_AWAY_SESSIONS * departure.session_ms, _AWAY_MS)


def is_back_soon(departure: Departure) -> bool:
    """Whether a member came back within another session, as most paused or disconnected members do.

    It is admitted one heartbeat after its request, when the other members have learned of it.
    """
    soon_ms = max(THAW_MS, departure.session_ms) + departure.client.heartbeat_ms
    return departure.away_ms is not None and departure.away_ms <= soon_ms


def stays(episode: Episode, departure: Departure) -> bool:
    """Whether a member came back after its group had gone on without it, and has stayed for a long time since.

    A restarted process may join while the group waits for its ghost, and a process that died repeatedly may die again;
    both cases return False.
    """
    back, back_ms = departure.back_as, departure.back_ms
    lost = sum(each.likely == SESSION_EXPIRED for each in same_slot(episode, departure))
    again = lost + 1 >= episode.thresholds.crash_loop_cycles
    if back is None or back_ms is None or again or episode.rebalance.is_at_least:
        return False
    if departure.in_barrier or back.member_id in episode.came_with_loss_of(departure):
        return False
    until_ms = back_ms + max(_STAYS_SESSIONS * departure.session_ms, _AWAY_MS)
    later = (each for each in episode.history.after(episode.rebalance) if each.started_before_ms <= until_ms)
    return episode.time.lasted(until_ms, 0) and not any(back.member_id in each.left for each in later)


def is_restarted(episode: Episode, departure: Departure) -> bool:
    """Whether a client that cannot starve came back too late for a pause, and its host was neither frozen nor cut off.

    Pauses and network cuts end within a few sessions; a restart by a supervisor takes longer.
    """
    if departure.away_ms is None or departure.client.may_starve is not False:
        return False
    late = departure.away_ms > max(_AWAY_SESSIONS * departure.session_ms, _RESTART_MS)
    return late and spared_on_host(episode, departure)
