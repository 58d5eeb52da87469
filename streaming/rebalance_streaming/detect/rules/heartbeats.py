"""Members lost although their process was there: heartbeats starved, blocked, frozen or cut off (catalogue §4.3)."""

from __future__ import annotations

from dataclasses import replace

from rebalance_contract import Alternative
from rebalance_streaming.detect.advice import blocked_heartbeat_advice, longer_session, starvation_advice
from rebalance_streaming.detect.bugs import upgrade_advice
from rebalance_streaming.detect.departures import SESSION_EXPIRED, Departure
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.fingerprints import AIOKAFKA, KAFKA_PYTHON, KAFKAJS
from rebalance_streaming.detect.liveness import GONE, HEALTHY, PAUSED, RESTARTED, STARVED, UNREACHABLE
from rebalance_streaming.detect.rules.circumstances import THAW_MS, client_of, is_busy, same_slot, say_lost
from rebalance_streaming.detect.verdict import CERTAIN, HINT, PLAUSIBLE, STRONG, Verdict, subject_of

#: kafka-python versions whose heartbeats starve: behind an idle poll, after a dead-lock, behind a busy loop.
_STARVATION = (
    ((1, 4), (1, 4, 7), "idle_lock"),
    ((1, 4, 7), (2, 0, 2), "deadlock"),
    ((2, 0, 2), (2, 2, 8), "lock_contention"),
)


def starvation(episode: Episode, departure: Departure) -> Verdict | None:
    """Heartbeats stopped although the process was well (stories A and D)."""
    if departure.likely != SESSION_EXPIRED or not departure.client.own_heartbeats:
        return None
    variant = starvation_variant(departure)
    if departure.liveness == STARVED:
        by_library = "event_loop_blocked" if departure.client.library == AIOKAFKA else "lock"
        return _starved(episode, departure, variant or by_library, CERTAIN)
    if departure.liveness == PAUSED and _held_interpreter(departure):
        return _held(episode, departure)
    if departure.liveness is None and variant is not None and not is_busy(departure) and departure.back_as is not None:
        again = any(past.member.client_id == departure.member.client_id for past in same_slot(episode, departure))
        other = Alternative("member_crash", "it came back and its version is known for this")
        return _starved(episode, departure, variant, STRONG if again else PLAUSIBLE, other)
    return None


def _held(episode: Episode, departure: Departure) -> Verdict:
    """Say that something kept the interpreter's lock: what stood still was its threads, the process itself worked."""
    switched = _switched(departure)
    why = "the process kept switching threads" if switched else "a client of this version starves so"
    held = [
        replace(each, field="held", rule="none of its threads got the interpreter") if each.field == PAUSED else each
        for each in departure.evidence
    ]
    departure = replace(departure, evidence=tuple(held))
    label = STRONG if switched else PLAUSIBLE
    return _starved(episode, departure, "native_code", label, Alternative("process_pause", why))


def _starved(
    episode: Episode, departure: Departure, variant: str, confidence: float, *alternatives: Alternative
) -> Verdict:
    client, kip848 = departure.client, episode.rebalance.type == "consumer"
    upgrade = upgrade_advice(client.library, client.release, "heartbeat_starvation", kip848=kip848)
    return say_lost(
        "heartbeat_starvation",
        departure,
        confidence=confidence,
        variant=variant,
        alternatives=alternatives,
        advice=starvation_advice(departure, variant, upgrade),
        library=client.library,
        version=client.version,
    )


def starvation_variant(departure: Departure) -> str | None:
    """Return by which mechanism heartbeats of this version starve; null where none is known."""
    release = departure.client.release
    if departure.client.library != KAFKA_PYTHON or not release:
        return None
    return next((variant for low, high, variant in _STARVATION if low <= release < high), None)


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


def blocked_heartbeat(episode: Episode, departure: Departure) -> Verdict | None:
    """A client without a heartbeat thread was busy for longer than its session."""
    if departure.likely != SESSION_EXPIRED or departure.client.own_heartbeats:
        return None
    if departure.liveness in (GONE, RESTARTED, UNREACHABLE, HEALTHY):
        return None
    # What blocks the one thread of kafkajs, or keeps the interpreter's lock, stops the reports as well.
    if departure.liveness == PAUSED and departure.client.library != KAFKAJS and not _held_interpreter(departure):
        return None
    confidence = STRONG if is_busy(departure) or departure.liveness == STARVED else PLAUSIBLE
    advice = blocked_heartbeat_advice(departure)
    return say_lost("processing_blocks_heartbeat", departure, confidence=confidence, advice=advice)


def pause(episode: Episode, departure: Departure) -> Verdict | None:
    """Nothing of the process ran for longer than the session: garbage collection, throttling, a frozen machine."""
    if departure.likely != SESSION_EXPIRED:
        return None
    together = _lost_together(episode, departure)
    if departure.liveness != PAUSED and not _stood_still_together(departure, together):
        return None
    session, host = departure.session_ms, departure.member.host
    silence = max((each.silence_ms or session) for each in together)
    stood_still = max(silence, *(each.stretch.stood_still_ms for each in together if each.stretch is not None), 0)
    return say_lost(
        "process_pause.told",
        departure,
        departure.to_ms - silence,
        subject=subject_of(*(each.member for each in together), hosts=(host,)),
        confidence=STRONG if departure.liveness == PAUSED else PLAUSIBLE,
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


def unreachable(episode: Episode, departure: Departure) -> Verdict | None:
    """The client ran but could not reach the coordinator."""
    wide = _whole_host_lost(episode, departure.member.host)
    if departure.likely != SESSION_EXPIRED or (departure.liveness != UNREACHABLE and not wide):
        return None
    if departure.liveness in (GONE, RESTARTED, PAUSED, STARVED):
        return None
    client, session = client_of(episode, departure), departure.session_ms
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


def _whole_host_lost(episode: Episode, host: str) -> bool:
    """Whether other groups lost members of a host at the same time, and nobody of this group on it was spared."""
    gone = {each.member.member_id for each in episode.departures}
    spared = [each for each in episode.rebalance.members_before if each.host == host and each.member_id not in gone]
    return bool(episode.elsewhere.groups) and host in episode.elsewhere.hosts and not spared
