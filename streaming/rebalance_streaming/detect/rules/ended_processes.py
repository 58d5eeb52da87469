"""Members lost with their process: it died, was replaced, or a static member was away too long.

Static members that are still in the group are judged in `static_members`.
"""

from __future__ import annotations

from collections import Counter

from rebalance_contract import Evidence, EvidenceSource, GroupType
from rebalance_contract.client_settings import STREAM_THREAD
from rebalance_streaming.detect.advice import graceful_stop_advice, session_for_absence, shortens
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.rules.circumstances import (
    THAW_MS,
    is_back_soon,
    is_busy,
    is_restarted,
    patience_ms,
    say_lost,
    whole_host_lost,
)
from rebalance_streaming.detect.rules.member_settings import may_be_named, session_of_lost
from rebalance_streaming.detect.rules.rebalances import left_repeatedly
from rebalance_streaming.detect.verdict import Verdict, subject_of
from rebalance_streaming.groups.partitions import partition_names
from rebalance_streaming.observed.confidence import HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import (
    POLL_TIMEOUT,
    SESSION_EXPIRED,
    TIMER_SLACK_MS,
    UNKNOWN,
    Departure,
    slot_of,
)
from rebalance_streaming.observed.evidence import DECISIVE, MODERATE, observe, seconds
from rebalance_streaming.observed.evidence import STRONG as STRONG_EVIDENCE
from rebalance_streaming.observed.history import GroupHistory
from rebalance_streaming.observed.liveness import ALIVE, GONE, HEALTHY, PAUSED, RESTARTED, STARVED, UNREACHABLE
from rebalance_streaming.observed.timeouts import may_have_overrun

#: A lost member counts as dead if it is away this many times longer than similar members that came back.
_AWAY_AGAIN = 1.5
#: Liveness of a process that has not ended.
_ALIVE = (STARVED, PAUSED, UNREACHABLE, HEALTHY, ALIVE)


def static_absence(episode: Episode, departure: Departure) -> Verdict | None:
    """A static member was away for longer than its session and came back (KIP-345)."""
    static = departure.member.group_instance_id is not None
    if not static or departure.away_ms is None or departure.liveness in (HEALTHY, ALIVE):
        return None
    # If no commit was due, the last one does not show when it left; assume one session.
    away = departure.away_ms + (departure.silence_ms or departure.session_ms)
    longer = session_for_absence(session_of_lost(episode, departure), away)
    since_ms = departure.to_ms
    return say_lost("static_session_too_short.lost", departure, since_ms, missing=(), advice=longer, away=away)


def static_ghost(episode: Episode, departure: Departure) -> Verdict | None:
    """A static instance did not come back; nobody read its partitions until its session ended."""
    member = departure.member
    if member.group_instance_id is None or departure.back_ms is not None or departure.liveness in _ALIVE:
        return None
    subject = subject_of(member, partitions=partition_names(member.partitions)[:20])
    shorter = shortens(member.session_timeout_ms)
    return say_lost("static_member_ghost.lost", departure, subject=subject, shortens=shorter)


def ungraceful(episode: Episode, departure: Departure) -> Verdict | None:
    """An instance was replaced without leaving: its ghost stayed until its session ended."""
    if departure.member.group_instance_id or departure.liveness in (STARVED, HEALTHY, ALIVE):
        return None
    if departure.likely != SESSION_EXPIRED and not _ended_with_barrier(episode, departure):
        return None
    # A classic group waits for a ghost, and its coordinator would have logged that.
    alone = departure.logged is not None and not departure.in_barrier and episode.rebalance.type == GroupType.CLASSIC
    successor = None if alone else _successor_before_loss(episode, departure)
    if successor is None:
        return _closed_by_design(episode, departure)
    in_turn = _is_replaced_in_turn(episode, departure)
    return say_lost(
        "ungraceful_shutdown.ghost",
        departure,
        confidence=_ghost_confidence(episode, departure, in_turn=in_turn),
        advice=graceful_stop_advice(
            departure, names=may_be_named(episode.history, [departure.member], episode.rebalance)
        ),
        successor=successor,
        in_turn=in_turn,
    )


def _ended_with_barrier(episode: Episode, departure: Departure) -> bool:
    """Whether a member without a due commit was awaited for at most its session, as the ghost of a dead process is."""
    barrier = episode.barrier_of(departure)
    if departure.likely != UNKNOWN or not departure.in_barrier or barrier is None:
        return False
    return barrier.waited_ms <= departure.session_ms + departure.client.heartbeat_ms


def _closed_by_design(episode: Episode, departure: Departure) -> Verdict | None:
    """Kafka Streams closes without leaving (internal.leave.group.on.close): a member that is back was restarted."""
    away_ms = departure.away_ms
    if STREAM_THREAD not in departure.member.client_id or departure.likely != SESSION_EXPIRED:
        return None
    if away_ms is None or away_ms <= THAW_MS or departure.liveness in _ALIVE:
        return None
    names = may_be_named(episode.history, [departure.member], episode.rebalance)
    return say_lost("ungraceful_shutdown.by_design", departure, away=away_ms, names=names)


def _ghost_confidence(episode: Episode, departure: Departure, *, in_turn: bool) -> float:
    """Return the confidence that a ghost is that of an ended process.

    A starved client also joins again while its old id is still there, so without reports its library decides. So does a
    client whose coordinator does not answer: if it is not known how the ghost ended, that is as likely.
    """
    unseen = departure.likely == UNKNOWN and departure.liveness is None
    if unseen or _nobody_was_spared(episode):
        return HINT
    if departure.liveness in (GONE, RESTARTED):
        return STRONG
    return PLAUSIBLE if departure.client.may_starve is False or in_turn else HINT


def _is_replaced_in_turn(episode: Episode, departure: Departure) -> bool:
    """Whether other members' sessions expired before and they were replaced, each once and alone, as in a deploy.

    Starvation hits the same clients repeatedly, or several at once.
    """
    since_ms = departure.to_ms - episode.thresholds.deploy_window_ms
    before = [each for each in episode.earlier if since_ms <= each.to_ms < departure.to_ms]
    lost = [*(each for each in before if each.likely == SESSION_EXPIRED and each.liveness not in _ALIVE), departure]
    alone = len({each.to_ms for each in lost}) == len(lost) > 1 and len(episode.departures) == 1
    if not alone:
        return False
    there = {slot_of(each) for each in (*episode.rebalance.members_before, *episode.rebalance.members_after)}
    if any(slot_of(each.member) not in there for each in lost[:-1]):
        return False  # one was not replaced
    first = lost[0].member.member_id
    begun = (
        Counter(map(slot_of, each.members_before))
        for each in reversed([*episode.history.until(episode.rebalance), episode.rebalance])
        if first in {member.member_id for member in each.members_before}
    )
    return not left_repeatedly((slot_of(each.member) for each in lost), next(begun, Counter()))


def _successor_before_loss(episode: Episode, departure: Departure) -> str | None:
    """Return the id of a member of the same client that joined while this one was silent and not yet removed."""
    slot, history, name = slot_of(departure.member), episode.history, departure.member.member_id
    silent_from = departure.to_ms - departure.session_ms - 5_000
    for generation in episode.rebalance.rounds:
        here = [each for each in generation.joined if each != name and _is_of(history, each, slot)]
        if here and (name not in generation.left or _was_there(episode, departure, here[0])):
            return here[0]
        if name in generation.left:
            break
    for each in history.in_order():
        if each.rebalance_id == episode.rebalance.rebalance_id or (each.completed_at_ms or 0) < silent_from:
            continue
        if each.started_before_ms > departure.to_ms:
            break
        beside = name in {m.member_id for m in each.members_before}
        here = [m for m in each.joined if beside and m != name and _is_of(history, m, slot)]
        if here:
            return here[0]
    return None


def _was_there(episode: Episode, departure: Departure, newcomer: str) -> bool:
    """Whether a member was still in the group when a newcomer joined, although the same generation lost it.

    Either probes saw the group wait for it, or both members at once; or its session cannot have expired before the
    newcomer started the rebalance, or before the newcomer's process began.
    """
    if departure.in_barrier or episode.history.seen_together(departure.member.member_id, newcomer):
        return True
    if _was_started_again_at_once(episode, departure):
        return True
    committed, began_ms = departure.rhythm.last_ms, episode.rebalance.started_before_ms
    return committed is not None and began_ms < departure.to_ms and began_ms - committed < departure.session_ms


def _was_started_again_at_once(episode: Episode, departure: Departure) -> bool:
    """Whether the reports show that its next process began before its session can have expired.

    The last heartbeat was sent at most a third of the session before the last report, as documented by clients.
    """
    if departure.liveness != RESTARTED or departure.loss_reports is None:
        return False
    reported_ms = departure.loss_reports.last_report_ms
    next_ms = episode.history.clients.next_start_ms(departure.member.client_id, reported_ms)
    return next_ms is not None and next_ms < reported_ms + departure.session_ms * 2 // 3


def _is_of(history: GroupHistory, member_id: str, slot: tuple[str, str]) -> bool:
    member = history.members.get(member_id)
    return member is not None and slot_of(member) == slot


def crash(episode: Episode, departure: Departure) -> Verdict | None:
    """The process died without leaving the group, and the session expired."""
    if departure.liveness in _ALIVE:
        return None
    evidence = _crash_evidence(episode, departure)
    if evidence is None:
        return None
    return say_lost(
        "member_crash",
        departure,
        departure.to_ms - (departure.silence_ms or departure.session_ms),
        clues=tuple(evidence),
    )


def _crash_evidence(episode: Episode, departure: Departure) -> list[Evidence] | None:
    """Return the evidence for and against a death, besides the expired session; null if another cause fits as well."""
    away_ms = (departure.back_ms or episode.now_ms) - departure.to_ms
    alive_ms = patience_ms(departure)
    usual_ms = _usual_absence_ms(episode, departure)
    long_away = episode.time.lasted(departure.to_ms, alive_ms)
    waited = usual_ms is None or episode.time.lasted(departure.to_ms, max(_AWAY_AGAIN * usual_ms, alive_ms))
    if departure.liveness == RESTARTED or (departure.liveness == GONE and waited):
        return [_reports_ended(departure)]
    known = departure.client.may_starve is False
    if known and (alone := _died_before(episode, departure) or _died_at_once(episode, departure)) is not None:
        return [alone]
    if departure.back_ms is not None:
        if is_back_soon(departure) or not (known or is_busy(departure)):
            return None
        # A client that cannot starve may still have been cut off or paused for long, and then it comes back, too.
        return [_long_absence(away_ms, departure.to_ms)] if is_restarted(episode, departure) else []
    if not waited:
        return None
    found = [_cannot_starve(departure)] if known else []
    if long_away and _successor_before_loss(episode, departure) is None:
        found.append(_long_absence(away_ms, departure.to_ms))
    likelier = (UNKNOWN, POLL_TIMEOUT) if departure.client.is_guessed else (UNKNOWN,)
    if (others := [each for each in departure.classes[1:] if each not in likelier]) and found:
        text, rule = ", ".join(others), "its silence fits as well"
        # A client that overran its poll limit may stay away as long as a dead one, and with any library.
        weight = STRONG_EVIDENCE if POLL_TIMEOUT in others else MODERATE
        found.append(observe(EvidenceSource.COMMITS, "silence", text, rule, weight, against=True))
    if found and _nobody_was_spared(episode):
        text, rule = f"all {len(episode.departures)} were lost", "what they have in common is no process"
        found.append(observe(EvidenceSource.LOG, "members", text, rule, STRONG_EVIDENCE, against=True))
    if whole_host_lost(episode, departure.member.host) and found:
        text = ", ".join(episode.elsewhere.groups[:3])
        found.append(observe(EvidenceSource.LOG, "other groups", text, "lost theirs as well", MODERATE, against=True))
    if usual_ms is not None and found:
        text = f"after {seconds(usual_ms)}"
        found.append(
            observe(EvidenceSource.LOG, "returns", text, "it, or others like it, came back", MODERATE, against=True)
        )
    return found


def _long_absence(away_ms: int, from_ms: int) -> Evidence:
    text, rule, span = f"for {seconds(away_ms)}", "a frozen process is back sooner", (from_ms, from_ms + away_ms)
    return observe(EvidenceSource.LOG, "absence", text, rule, MODERATE, span=span)


def _nobody_was_spared(episode: Episode) -> bool:
    """Whether a rebalance lost all members of its group by session expiry, and they were several clients."""
    lost = {each.member.member_id for each in episode.departures if each.likely == SESSION_EXPIRED}
    several = len({slot_of(each.member) for each in episode.departures}) > 1
    return several and all(each.member_id in lost for each in episode.rebalance.members_before)


def _reports_ended(departure: Departure) -> Evidence:
    restarted = departure.liveness == RESTARTED
    value = "of another process" if restarted else "none any more"
    rule = "it was started again" if restarted else "its process ended"
    since_ms = departure.loss_reports.last_report_ms if departure.loss_reports else departure.to_ms
    return observe(EvidenceSource.CLIENT_METRICS, "reports", value, rule, DECISIVE, span=(since_ms, None))


def _died_before(episode: Episode, departure: Departure) -> Evidence | None:
    if slot_of(departure.member) not in episode.died:
        return None
    return observe(EvidenceSource.LOG, "earlier loss", "its process had ended", "one that dies, dies again", MODERATE)


def _died_at_once(episode: Episode, departure: Departure) -> Evidence | None:
    """Return evidence that a member was removed one session after it got partitions: it sent no heartbeat."""
    began_ms, session = departure.joined_ms, departure.session_ms
    if began_ms is None or not departure.member.partitions or episode.rebalance.is_at_least:
        return None
    if departure.to_ms - began_ms > session + TIMER_SLACK_MS or may_have_overrun(departure):
        return None
    text, rule = f"none in its session of {seconds(session)}", "it ended with its first records"
    return observe(EvidenceSource.LOG, "heartbeats", text, rule, MODERATE, span=(began_ms, departure.to_ms))


def _cannot_starve(departure: Departure) -> Evidence:
    text, rule = str(departure.client.library), "its heartbeats have a thread of their own"
    return observe(EvidenceSource.LOG, "client library", text, rule, MODERATE)


def _usual_absence_ms(episode: Episode, departure: Departure) -> int | None:
    """Return the longest absence (ms) of it, or of others of its host or program, that came back; null if none did."""
    slot, member = slot_of(departure.member), departure.member
    alike = [
        each
        for each in (*episode.earlier, *episode.departures)
        if each.away_ms is not None
        and each.likely == SESSION_EXPIRED
        and each.liveness not in (GONE, RESTARTED)
        and (slot_of(each.member)[0] == slot[0] or each.member.host == member.host)
        and each is not departure
    ]
    return max((each.away_ms for each in alike if each.away_ms is not None), default=None)
