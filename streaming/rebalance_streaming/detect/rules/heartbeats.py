"""Members whose heartbeats stopped (catalogue §4.3): starved, blocked, frozen or cut off, or with their process gone.

Static members that were lost with their process are judged here as well (§4.4); those that stand, in `static_members`.
"""

from __future__ import annotations

from dataclasses import replace

from rebalance_contract import Evidence, EvidenceSource, GroupType
from rebalance_contract.clients import JOIN_RATE
from rebalance_streaming.detect.advice import (
    blocked_heartbeat_advice,
    graceful_stop_advice,
    longer_session,
    session_for_absence,
    starvation_advice,
)
from rebalance_streaming.detect.bugs import upgrade_advice
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.judging_time import JudgingTime
from rebalance_streaming.detect.rules.circumstances import THAW_MS, is_busy, same_slot, say_lost
from rebalance_streaming.detect.verdict import Verdict, subject_of
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import POLL_TIMEOUT, SESSION_EXPIRED, UNKNOWN, Departure, slot_of
from rebalance_streaming.observed.evidence import DECISIVE, MODERATE, observe, seconds
from rebalance_streaming.observed.evidence import STRONG as STRONG_EVIDENCE
from rebalance_streaming.observed.fingerprints import AIOKAFKA, KAFKA_PYTHON, KAFKAJS
from rebalance_streaming.observed.history import GroupHistory, partition_names
from rebalance_streaming.observed.liveness import ALIVE, GONE, HEALTHY, PAUSED, RESTARTED, STARVED, UNREACHABLE

#: kafka-python versions whose heartbeats starve: behind an idle poll, after a dead-lock, behind a busy loop.
_STARVATION = (
    ((1, 4), (1, 4, 7), "idle_lock"),
    ((1, 4, 7), (2, 0, 2), "deadlock"),
    ((2, 0, 2), (2, 2, 8), "lock_contention"),
)
#: In the client ids that Kafka Streams gives its consumers (StreamThread.getConsumerClientId).
_STREAM_THREAD = "-StreamThread-"
_BLOCKED_LOOP = "event_loop_blocked"
#: Whoever was lost is taken for dead when it is away so many times longer than those that came back.
_AWAY_AGAIN = 1.5
#: Whoever is let in has joined again after so many heartbeat intervals.
_REJOINS = 5
#: Of pauses and cuts that outlast a session few last so many sessions more, or so long.
_AWAY_SESSIONS, _AWAY_MS = 3, 30_000
#: What a process reports that has not ended.
_ALIVE = (STARVED, PAUSED, UNREACHABLE, HEALTHY, ALIVE)


def starvation(episode: Episode, _time: JudgingTime, departure: Departure) -> Verdict | None:
    """Heartbeats stopped although the process was well (stories A and D)."""
    if departure.likely != SESSION_EXPIRED or not departure.client.own_heartbeats:
        return None
    variant = starvation_variant(departure)
    if departure.liveness == STARVED:
        return _starved(episode, departure, variant or "lock", CERTAIN)
    if departure.liveness == PAUSED and _held_interpreter(departure):
        return _held(episode, departure)
    silent = departure.liveness in (None, ALIVE) and departure.back_as is not None
    return _starved_unseen(episode, departure, variant) if silent else None


def _starved_unseen(episode: Episode, departure: Departure, variant: str | None) -> Verdict | None:
    """Judge a client that came back and reports nothing of its heartbeats, by what is known of its library."""
    if variant is None:
        if not _is_of_any_release(departure) or is_busy(departure):
            return None
        sure = _joins_the_old_way(episode, departure) or _lost_alike(episode, departure)
        return _starved(episode, departure, "lock", PLAUSIBLE if sure else HINT)
    if not _may_have_starved(episode, departure, variant):
        return None
    again = any(past.member.client_id == departure.member.client_id for past in same_slot(episode, departure))
    return _starved(episode, departure, variant, STRONG if again else PLAUSIBLE)


def _is_of_any_release(departure: Departure) -> bool:
    """Whether its library is known to be prone, by the form of its subscription, and its version is not."""
    return departure.client.library == KAFKA_PYTHON and not departure.client.release


def _joins_the_old_way(episode: Episode, departure: Departure) -> bool:
    """Whether it joined by a request older than KIP-394, as kafka-python does before 2.1: all of these starve."""
    return episode.history.coordinator_log.was_added_at_once(departure.member.member_id)


def _lost_alike(episode: Episode, departure: Departure) -> bool:
    """Whether it, or another of its kind, was lost by its session before and came back: what dies seldom does."""
    return any(
        each.likely == SESSION_EXPIRED and each.back_as is not None and each.client.library == departure.client.library
        for each in episode.earlier
        if each.member.member_id != departure.member.member_id
    )


def _held(episode: Episode, departure: Departure) -> Verdict:
    """Say that something kept the interpreter's lock: what stood still was its threads, the process itself worked."""
    switched = _switched(departure)
    held = [
        replace(each, field="held", rule="none of its threads got the interpreter") if each.field == PAUSED else each
        for each in departure.evidence
    ]
    return _starved(
        episode,
        replace(departure, evidence=tuple(held)),
        "native_code",
        STRONG if switched else PLAUSIBLE,
        switched=switched,
    )


def _starved(
    episode: Episode, departure: Departure, variant: str, confidence: float, *, switched: bool | None = None
) -> Verdict:
    """Say that heartbeats starved. `switched`: whether threads went on while all stood still; null: it did not."""
    client, kip848 = departure.client, episode.rebalance.type == GroupType.CONSUMER
    upgrade = upgrade_advice(client.library, client.release, "heartbeat_starvation", kip848=kip848)
    return say_lost(
        "heartbeat_starvation",
        departure,
        confidence=confidence,
        variant=variant,
        advice=starvation_advice(departure, variant, upgrade),
        library=client.library,
        version=client.version,
        unseen=departure.liveness is None,
        held=switched is not None,
        switched=switched,
    )


def starvation_variant(departure: Departure) -> str | None:
    """Return by which mechanism heartbeats of this version starve; null where none is known."""
    release = departure.client.release
    if departure.client.library == AIOKAFKA:
        return _BLOCKED_LOOP  # heartbeats are a task of the loop that runs the application
    if departure.client.library != KAFKA_PYTHON or not release:
        return None
    return next((variant for low, high, variant in _STARVATION if low <= release < high), None)


def _may_have_starved(episode: Episode, departure: Departure, variant: str) -> bool:
    """Whether a client that reports nothing may have starved: work blocks a loop, idleness holds a lock."""
    if departure.client.is_guessed and any(past.likely == POLL_TIMEOUT for past in same_slot(episode, departure)):
        return False  # aiokafka would not leave by itself so soon
    return departure.arriving != 0 if variant == _BLOCKED_LOOP else not is_busy(departure)


def _held_interpreter(departure: Departure) -> bool:
    """Whether something kept the interpreter's lock: threads went on switching, or time was used, or it is prone."""
    stretch = departure.stretch
    if stretch is None or departure.client.may_starve is False:
        return False
    if stretch.switches_per_second is not None:
        return _switched(departure)
    return (stretch.cpu_share or 0) >= 0.5 or starvation_variant(departure) == "lock_contention"


def _switched(departure: Departure) -> bool:
    """A thread that waits for the interpreter's lock asks every 5 ms; one that is frozen asks for nothing."""
    stretch = departure.stretch
    return stretch is not None and (stretch.switches_per_second or 0) >= 50


def blocked_heartbeat(episode: Episode, time: JudgingTime, departure: Departure) -> Verdict | None:
    """A client without a heartbeat thread was busy for longer than its session."""
    if departure.likely != SESSION_EXPIRED or departure.client.own_heartbeats:
        return None
    if departure.liveness in (GONE, RESTARTED, UNREACHABLE, HEALTHY, ALIVE):
        return None
    # What blocks the one thread of kafkajs, or keeps the interpreter's lock, stops the reports as well.
    if departure.liveness == PAUSED and departure.client.library != KAFKAJS and not _held_interpreter(departure):
        return None
    silent = departure.liveness is None and departure.back_ms is None
    if silent and time.lasted(departure.to_ms, _patience_ms(departure)):
        return None  # work ends, and then it is back
    confidence = STRONG if is_busy(departure) or departure.liveness == STARVED else PLAUSIBLE
    advice = blocked_heartbeat_advice(departure)
    return say_lost("processing_blocks_heartbeat", departure, confidence=confidence, advice=advice)


def pause(episode: Episode, _time: JudgingTime, departure: Departure) -> Verdict | None:
    """Nothing of the process ran for longer than the session: garbage collection, throttling, a frozen machine."""
    if departure.likely != SESSION_EXPIRED:
        return None
    together = _lost_together(episode, departure)
    if departure.liveness != PAUSED and not _stood_still_together(departure, together):
        return None
    session, host = departure.session_ms, departure.member.host
    silence = max((each.silence_ms or session) for each in together)
    sure = STRONG if departure.liveness == PAUSED else PLAUSIBLE
    if not any(each.liveness == PAUSED for each in together) and not _spared_on_host(episode, departure):
        sure = HINT  # the host may have been cut off, or stood still as a whole
    stood_still = max(silence, *(each.stretch.stood_still_ms for each in together if each.stretch is not None), 0)
    return say_lost(
        "process_pause.told",
        departure,
        departure.to_ms - silence,
        subject=subject_of(*(each.member for each in together), hosts=(host,)),
        confidence=sure,
        advice=(longer_session(session, departure.client.heartbeat_ms, pause_ms=stood_still),),
        stood_still=stood_still,
    )


def _stood_still_together(departure: Departure, together: list[Departure]) -> bool:
    """Whether others of its host stood still, or seem to have as it may have itself."""
    if departure.liveness in (None, GONE) and any(each.liveness == PAUSED for each in together):
        return True
    return departure.liveness is None and len(together) > 1 and _thawed_together(together)


def _thawed_together(together: list[Departure]) -> bool:
    """Whether all came back at once, and their library's heartbeats cannot have starved."""
    backs = [each.back_ms for each in together if each.back_ms is not None]
    if len(backs) < len(together) or max(backs) - min(backs) > 2 * THAW_MS:
        return False
    return all(each.client.may_starve is False for each in together)


def _lost_together(episode: Episode, departure: Departure) -> list[Departure]:
    """Departures of the same host within this rebalance, this one among them; not those of which more is known."""
    return [
        each
        for each in episode.departures
        if each.member.host == departure.member.host
        and each.likely == SESSION_EXPIRED
        and each.liveness in (None, PAUSED, GONE)
    ]


def unreachable(episode: Episode, _time: JudgingTime, departure: Departure) -> Verdict | None:
    """The client ran but could not reach the coordinator."""
    wide = _whole_host_lost(episode, departure.member.host)
    if departure.likely != SESSION_EXPIRED or (departure.liveness != UNREACHABLE and not wide):
        return None
    if departure.liveness in (GONE, RESTARTED, PAUSED, STARVED):
        return None
    client, session = episode.history.clients.of(departure.member), departure.session_ms
    longer = longer_session(
        session,
        departure.client.heartbeat_ms,
        pause_ms=departure.silence_ms or session,
        request_timeout_ms=None if client is None else client.config.request_timeout_ms,
    )
    return say_lost(
        "network_partition",
        departure,
        subject=subject_of(departure.member, hosts=(departure.member.host,)),
        confidence=STRONG if departure.liveness == UNREACHABLE else HINT,
        advice=(longer,),
    )


def refused(episode: Episode, time: JudgingTime, departure: Departure) -> Verdict | None:
    """Its session ran out although it runs, and it is not let in again: it lost a permission, say.

    The coordinator checks permissions before anything else (KafkaApis), so heartbeats that are sent renew nothing, and
    nothing tells the client that it is no member any more. One that is let in is back a heartbeat after it was removed.
    """
    if departure.likely not in (SESSION_EXPIRED, UNKNOWN) or departure.liveness not in (HEALTHY, ALIVE):
        return None
    if episode.rebalance.is_at_least and departure.likely == UNKNOWN:
        return None  # it may not have reached its coordinator
    client, patience_ms = episode.history.clients.of(departure.member), _REJOINS * departure.client.heartbeat_ms
    last = None if client is None else client.latest()
    waited = time.lasted(departure.to_ms, patience_ms)
    if departure.back_as is not None or not waited or last is None or last.emitted_ms < departure.to_ms + patience_ms:
        return None
    if not last.assigned and last.join_state is None and not last.values.get(JOIN_RATE):
        return None  # it may have closed its consumer
    text, rule, span = "sent on time", "renewed nothing", (departure.to_ms - departure.session_ms, departure.to_ms)
    beats = observe(EvidenceSource.CLIENT_METRICS, "heartbeats", text, rule, MODERATE, span=span)
    return say_lost(
        "join_rejected.lost",
        departure,
        clues=(beats,) if departure.liveness == HEALTHY else (),
        missing=(),
        away=last.emitted_ms - departure.to_ms,
    )


def _whole_host_lost(episode: Episode, host: str) -> bool:
    """Whether other groups lost members of a host at the same time, and nobody of this group on it was spared."""
    gone = {each.member.member_id for each in episode.departures}
    spared = [each for each in episode.rebalance.members_before if each.host == host and each.member_id not in gone]
    return bool(episode.elsewhere.groups) and host in episode.elsewhere.hosts and not spared


# --- Processes that ended without a word ---


def static_absence(episode: Episode, _time: JudgingTime, departure: Departure) -> Verdict | None:
    """A static member was away for longer than its session and came back (KIP-345)."""
    member, session = departure.member, departure.session_ms
    if member.group_instance_id is None or departure.likely != SESSION_EXPIRED or departure.back_ms is None:
        return None
    if departure.liveness in (HEALTHY, ALIVE):
        return None
    # Where no commit was due, the last one says nothing of when it went.
    away = departure.back_ms - departure.to_ms + (departure.silence_ms or session)
    longer = session_for_absence(session, away, of_client=member.session_timeout_ms is not None)
    since_ms = departure.to_ms
    return say_lost("static_session_too_short.lost", departure, since_ms, missing=(), advice=(longer,), away=away)


def static_ghost(episode: Episode, _time: JudgingTime, departure: Departure) -> Verdict | None:
    """A static instance is gone for good; nobody read its partitions until its session ended."""
    member = departure.member
    if member.group_instance_id is None or departure.likely != SESSION_EXPIRED or departure.back_ms is not None:
        return None
    if departure.liveness in _ALIVE:
        return None
    subject = subject_of(member, partitions=partition_names(member.partitions)[:20])
    return say_lost("static_member_ghost.lost", departure, subject=subject)


def ungraceful(episode: Episode, _time: JudgingTime, departure: Departure) -> Verdict | None:
    """An instance was replaced without leaving: its ghost stayed until its session ended."""
    if departure.member.group_instance_id or departure.liveness in (STARVED, HEALTHY, ALIVE):
        return None
    if departure.likely != SESSION_EXPIRED and not _ended_with_barrier(episode, departure):
        return None
    successor = _successor_before_loss(episode, departure)
    if successor is None:
        return _closed_by_design(departure)
    return say_lost(
        "ungraceful_shutdown.ghost",
        departure,
        confidence=_ghost_confidence(departure),
        advice=graceful_stop_advice(departure),
        successor=successor,
        reported=departure.liveness is not None,
    )


def _ended_with_barrier(episode: Episode, departure: Departure) -> bool:
    """Whether a member of which no commit was due was awaited for no longer than its session: a ghost's may be over."""
    barrier = episode.barrier_of(departure)
    if departure.likely != UNKNOWN or not departure.in_barrier or barrier is None:
        return False
    return barrier.waited_ms <= departure.session_ms + departure.client.heartbeat_ms


def _closed_by_design(departure: Departure) -> Verdict | None:
    """Kafka Streams closes without leaving (internal.leave.group.on.close): what is back was started again."""
    away_ms = None if departure.back_ms is None else departure.back_ms - departure.to_ms
    if _STREAM_THREAD not in departure.member.client_id or departure.likely != SESSION_EXPIRED:
        return None
    if away_ms is None or away_ms <= THAW_MS or departure.liveness in _ALIVE:
        return None
    return say_lost("ungraceful_shutdown.by_design", departure, away=away_ms)


def _ghost_confidence(departure: Departure) -> float:
    """A starved client, too, joins anew while its old id is still there, so without reports its library decides."""
    if departure.liveness in (GONE, RESTARTED):
        return STRONG
    return PLAUSIBLE if departure.client.may_starve is False else HINT


def _successor_before_loss(episode: Episode, departure: Departure) -> str | None:
    """Return a member of the same client that joined while this one was silent and not yet removed."""
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
    """Whether a member was still there when one joined in whose generation it was lost.

    Probes saw it awaited, or both; or its session cannot have run out before the rebalance that the newcomer began, or
    before the newcomer's process began.
    """
    if departure.in_barrier or episode.history.seen_together(departure.member.member_id, newcomer):
        return True
    if _was_started_again_at_once(episode, departure):
        return True
    committed, began_ms = departure.rhythm.last_ms, episode.rebalance.started_before_ms
    return committed is not None and began_ms < departure.to_ms and began_ms - committed < departure.session_ms


def _was_started_again_at_once(episode: Episode, departure: Departure) -> bool:
    """Whether its next process began before its session can have run out, by their reports.

    The last heartbeat was sent at most a third of the session before the last report, as clients document it.
    """
    if departure.liveness != RESTARTED or departure.stretch is None:
        return False
    reported_ms = departure.stretch.last_report_ms
    next_ms = episode.history.clients.next_start_ms(departure.member.client_id, reported_ms)
    return next_ms is not None and next_ms < reported_ms + departure.session_ms * 2 // 3


def _is_of(history: GroupHistory, member_id: str, slot: tuple[str, str]) -> bool:
    member = history.members.get(member_id)
    return member is not None and slot_of(member) == slot


def crash(episode: Episode, time: JudgingTime, departure: Departure) -> Verdict | None:
    """The process died without a word and the session ran out."""
    if departure.likely != SESSION_EXPIRED or departure.liveness in _ALIVE:
        return None
    evidence = _crash_evidence(episode, time, departure)
    if evidence is None:
        return None
    return say_lost(
        "member_crash",
        departure,
        departure.to_ms - (departure.silence_ms or departure.session_ms),
        clues=tuple(evidence),
        returned=departure.back_ms is not None,
        reported=departure.liveness is not None,
    )


def _crash_evidence(episode: Episode, time: JudgingTime, departure: Departure) -> list[Evidence] | None:
    """Return what speaks for and against a death beside a session that ran out; null if something else fits as well."""
    away_ms = (departure.back_ms or episode.now_ms) - departure.to_ms
    patience_ms = _patience_ms(departure)
    usual_ms = _usual_absence_ms(episode, departure)
    long_away = time.lasted(departure.to_ms, patience_ms)
    waited = usual_ms is None or time.lasted(departure.to_ms, max(_AWAY_AGAIN * usual_ms, patience_ms))
    if departure.liveness == RESTARTED or (departure.liveness == GONE and waited):
        return [_reports_ended(departure)]
    known = departure.client.may_starve is False
    if known and slot_of(departure.member) in episode.died:
        return [_died_before()]
    if departure.back_ms is not None:
        if away_ms <= THAW_MS or not (known or is_busy(departure)):
            return None
        # Who was cut off, or stood still for long, comes back as well: that it cannot starve leaves these.
        return []
    if not waited:
        return None
    found = [_cannot_starve(departure)] if known else []
    if long_away and _successor_before_loss(episode, departure) is None:
        span = (departure.to_ms, episode.now_ms)
        text = f"for {seconds(away_ms)}"
        found.append(
            observe(EvidenceSource.LOG, "absence", text, "a frozen process is back sooner", MODERATE, span=span)
        )
    likelier = (UNKNOWN, POLL_TIMEOUT) if departure.client.is_guessed else (UNKNOWN,)
    if (others := [each for each in departure.classes[1:] if each not in likelier]) and found:
        text, rule = ", ".join(others), "its silence fits as well"
        # Whoever overran its poll limit stays away as long as the dead, and its library says nothing about that.
        weight = STRONG_EVIDENCE if POLL_TIMEOUT in others else MODERATE
        found.append(observe(EvidenceSource.COMMITS, "silence", text, rule, weight, against=True))
    if found and _nobody_was_spared(episode):
        text, rule = f"all {len(episode.departures)} were lost", "what they have in common is no process"
        found.append(observe(EvidenceSource.LOG, "members", text, rule, STRONG_EVIDENCE, against=True))
    if _whole_host_lost(episode, departure.member.host) and found:
        text = ", ".join(episode.elsewhere.groups[:3])
        found.append(observe(EvidenceSource.LOG, "other groups", text, "lost theirs as well", MODERATE, against=True))
    if usual_ms is not None and found:
        text = f"after {seconds(usual_ms)}"
        found.append(
            observe(EvidenceSource.LOG, "returns", text, "it, or others like it, came back", MODERATE, against=True)
        )
    return found


def _patience_ms(departure: Departure) -> int:
    """Return how long a member that lives is away at most, but for few."""
    return max(_AWAY_SESSIONS * departure.session_ms, _AWAY_MS)


def _nobody_was_spared(episode: Episode) -> bool:
    """Whether a rebalance lost several clients at once, all that its group had, by their sessions."""
    lost = {each.member.member_id for each in episode.departures if each.likely == SESSION_EXPIRED}
    several = len({slot_of(each.member) for each in episode.departures}) > 1
    return several and all(each.member_id in lost for each in episode.rebalance.members_before)


def _reports_ended(departure: Departure) -> Evidence:
    restarted = departure.liveness == RESTARTED
    value, rule = (
        ("of another process", "it was started again") if restarted else ("none any more", "its process ended")
    )
    since_ms = departure.stretch.last_report_ms if departure.stretch else departure.to_ms
    return observe(EvidenceSource.CLIENT_METRICS, "reports", value, rule, DECISIVE, span=(since_ms, None))


def _died_before() -> Evidence:
    return observe(EvidenceSource.LOG, "earlier loss", "its process had ended", "one that dies, dies again", MODERATE)


def _cannot_starve(departure: Departure) -> Evidence:
    text, rule = str(departure.client.library), "its heartbeats have a thread of their own"
    return observe(EvidenceSource.LOG, "client library", text, rule, MODERATE)


def _usual_absence_ms(episode: Episode, departure: Departure) -> int | None:
    """Return how long it, or others of its host or program, were away when they were lost and came back; null: none."""
    slot, member = slot_of(departure.member), departure.member
    alike = [
        each
        for each in (*episode.earlier, *episode.departures)
        if each.back_ms is not None
        and each.likely == SESSION_EXPIRED
        and each.liveness not in (GONE, RESTARTED)
        and (slot_of(each.member)[0] == slot[0] or each.member.host == member.host)
        and each is not departure
    ]
    return max((each.back_ms - each.to_ms for each in alike if each.back_ms is not None), default=None)


def frozen_or_starved(episode: Episode, _time: JudgingTime, departure: Departure) -> Verdict | None:
    """It was lost by its session, came back, and nothing separates what may have happened."""
    if departure.likely != SESSION_EXPIRED:
        return None
    began_ms = episode.rebalance.started_before_ms
    if departure.liveness in (HEALTHY, ALIVE):
        return say_lost("undetermined.healthy", departure, began_ms, missing=(), beat=departure.liveness == HEALTHY)
    returned = departure.back_ms is not None
    soon = departure.back_ms is not None and departure.back_ms - departure.to_ms <= THAW_MS
    if departure.client.may_starve is False and soon:
        pause_ms, heartbeat_ms = departure.silence_ms or departure.session_ms, departure.client.heartbeat_ms
        return say_lost(
            "process_pause.back_soon",
            departure,
            subject=subject_of(departure.member, hosts=(departure.member.host,)),
            advice=(longer_session(departure.session_ms, heartbeat_ms, pause_ms=pause_ms),),
        )
    return say_lost("undetermined.silent", departure, began_ms, missing=(), returned=returned)


def _spared_on_host(episode: Episode, departure: Departure) -> bool:
    """Whether another member of its host went on: then the way from there to the coordinator was open."""
    stayed = {each.member_id for each in episode.rebalance.members_after}
    return any(
        each.host == departure.member.host and each.member_id != departure.member.member_id
        for each in episode.rebalance.members_before
        if each.member_id in stayed
    )


def unknown_loss(episode: Episode, _time: JudgingTime, departure: Departure) -> Verdict | None:
    """Nothing was due from the member before it was gone, so nothing tells how it went."""
    if departure.likely != UNKNOWN:
        return None
    began_ms = episode.rebalance.started_before_ms
    if episode.rebalance.is_at_least:
        return say_lost("undetermined.unread", departure, began_ms, missing=())
    return say_lost("undetermined.gone", departure, began_ms, missing=())
