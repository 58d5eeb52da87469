"""Members whose heartbeats stopped although the process did not end: starved, blocked, paused, cut off or refused.

Members that were lost with their process are judged in `ended_processes`.
"""

from __future__ import annotations

from dataclasses import replace

from rebalance_contract import EvidenceSource, GroupType, Member
from rebalance_contract.client_settings import AIOKAFKA, KAFKA_PYTHON, KAFKAJS, has_keepalive
from rebalance_contract.clients import JOIN_RATE
from rebalance_streaming.detect.advice import blocked_heartbeat_advice, longer_session, starvation_advice
from rebalance_streaming.detect.bugs import known_bugs, upgrade_advice
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.rules.circumstances import (
    THAW_MS,
    is_back_soon,
    is_busy,
    patience_ms,
    same_slot,
    say_lost,
    spared_on_host,
    stays,
    whole_host_lost,
)
from rebalance_streaming.detect.rules.member_settings import session_of_lost
from rebalance_streaming.detect.verdict import Verdict, subject_of
from rebalance_streaming.observed.confidence import CERTAIN, HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departures import POLL_TIMEOUT, SESSION_EXPIRED, UNKNOWN, Departure
from rebalance_streaming.observed.evidence import MODERATE, observe
from rebalance_streaming.observed.liveness import ALIVE, GONE, HEALTHY, PAUSED, RESTARTED, STARVED, UNREACHABLE
from rebalance_streaming.observed.timeouts import may_have_overrun

_BLOCKED_LOOP = "event_loop_blocked"
#: A member that is admitted has joined again within this many heartbeat intervals.
_REJOINS = 3
#: Liveness of a member that was lost for another reason than the network to its coordinator.
_NOT_CUT_OFF = (GONE, RESTARTED, PAUSED, STARVED)


def starvation(episode: Episode, departure: Departure) -> Verdict | None:
    """Heartbeats stopped although the process was well."""
    if not departure.client.own_heartbeats:
        return None
    variant = starvation_variant(departure)
    if departure.liveness == STARVED:
        return _starved(episode, departure, variant or "lock", CERTAIN)
    if departure.liveness == PAUSED and _held_interpreter(departure):
        return _held(episode, departure)
    silent = departure.liveness in (None, ALIVE) and departure.back_as is not None
    return _starved_unseen(episode, departure, variant) if silent else None


def _starved_unseen(episode: Episode, departure: Departure, variant: str | None) -> Verdict | None:
    """Return a verdict on a client that came back and whose heartbeats are not reported, from its library; or None."""
    if variant is None:
        if not _is_of_any_release(departure) or is_busy(departure):
            return None
        # It joined with a request older than KIP-394, as kafka-python does before 2.1: all of these versions starve.
        joined_by_old = episode.history.coordinator_log.was_added_at_once(departure.member.member_id)
        sure = joined_by_old or _lost_alike(episode, departure)
        return _starved(episode, departure, "lock", PLAUSIBLE if sure else HINT)
    if not _may_have_starved(episode, departure, variant):
        return None
    again = any(past.member.client_id == departure.member.client_id for past in same_slot(episode, departure))
    return _starved(episode, departure, variant, STRONG if again else PLAUSIBLE)


def _is_of_any_release(departure: Departure) -> bool:
    """Whether it is known to be kafka-python, from the form of its subscription, but not in which version."""
    return departure.client.library == KAFKA_PYTHON and not departure.client.release


def _lost_alike(episode: Episode, departure: Departure) -> bool:
    """Whether it, or another client of its library, had an expired session before and came back, unlike a dead one."""
    return any(
        each.likely == SESSION_EXPIRED and each.back_as is not None and each.client.library == departure.client.library
        for each in episode.earlier
        if each.member.member_id != departure.member.member_id
    )


def _held(episode: Episode, departure: Departure) -> Verdict:
    """Return the verdict that something held the interpreter's lock: the threads stood still, the process worked."""
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
    """Return the verdict that heartbeats starved.

    `switched`: whether context switches went on while the process stood still; null: the process did not stand still.
    """
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
    """Return the mechanism by which heartbeats of this version starve; null if none is known."""
    library, release = departure.client.library, departure.client.release
    if library == AIOKAFKA:
        return _BLOCKED_LOOP  # heartbeats are a task of the loop that runs the application
    # Of several faults of a version the table has the one first that occurs most easily.
    faults = known_bugs(library, release, "heartbeat_starvation")
    return next((each.variant for each in faults if each.variant is not None), None)


def _may_have_starved(episode: Episode, departure: Departure, variant: str) -> bool:
    """Whether a client without reports may have starved: an event loop by work, other variants only when idle."""
    if departure.client.is_guessed and any(past.likely == POLL_TIMEOUT for past in same_slot(episode, departure)):
        return False  # aiokafka would not leave by itself so soon
    return departure.arriving != 0 if variant == _BLOCKED_LOOP else not is_busy(departure)


def _held_interpreter(departure: Departure) -> bool:
    """Whether something held the interpreter's lock.

    That shows in context switches; without them, in used CPU time or a version that is prone to it.
    """
    loss_reports = departure.loss_reports
    if loss_reports is None or departure.client.may_starve is False:
        return False
    if loss_reports.switches_per_second is not None:
        return _switched(departure)
    return (loss_reports.cpu_share or 0) >= 0.5 or starvation_variant(departure) == "lock_contention"


def _switched(departure: Departure) -> bool:
    """Whether threads kept switching: one waiting for the interpreter's lock retries every 5 ms, a frozen one not."""
    loss_reports = departure.loss_reports
    return loss_reports is not None and (loss_reports.switches_per_second or 0) >= 50


def blocked_heartbeat(episode: Episode, departure: Departure) -> Verdict | None:
    """A client without a heartbeat thread was busy for longer than its session."""
    if departure.client.own_heartbeats or departure.liveness in (GONE, RESTARTED, UNREACHABLE, HEALTHY, ALIVE):
        return None
    # Work that blocks the single thread of kafkajs, or holds the interpreter's lock, stops the reports as well.
    if departure.liveness == PAUSED and departure.client.library != KAFKAJS and not _held_interpreter(departure):
        return None
    silent = departure.liveness is None and departure.back_ms is None
    if silent and episode.time.lasted(departure.to_ms, patience_ms(departure)):
        return None  # it would be back after its work
    confidence = STRONG if is_busy(departure) or departure.liveness == STARVED else PLAUSIBLE
    advice = blocked_heartbeat_advice(departure, session_of_lost(episode, departure))
    return say_lost("processing_blocks_heartbeat", departure, confidence=confidence, advice=advice)


def pause(episode: Episode, departure: Departure) -> Verdict | None:
    """The whole process stood still for longer than the session: garbage collection, throttling, a frozen machine."""
    together = _lost_together(episode, departure)
    if departure.liveness != PAUSED and not _stood_still_together(episode, departure, together):
        return None
    session, host = departure.session_ms, departure.member.host
    silence = max((each.silence_ms or session) for each in together)
    sure = STRONG if departure.liveness == PAUSED else PLAUSIBLE
    if not any(each.liveness == PAUSED for each in together) and not spared_on_host(episode, departure):
        sure = HINT  # the host may have been cut off, or stood still as a whole
    stood_still = max(
        silence, *(each.loss_reports.stood_still_ms for each in together if each.loss_reports is not None), 0
    )
    return say_lost(
        "process_pause.stood_still",
        departure,
        departure.to_ms - silence,
        subject=subject_of(*(each.member for each in together), hosts=(host,)),
        confidence=sure,
        advice=longer_session(session_of_lost(episode, departure), pause_ms=stood_still),
        stood_still=stood_still,
    )


def _stood_still_together(episode: Episode, departure: Departure, together: list[Departure]) -> bool:
    """Whether other members on its host stood still, or several on the host, including it, seem to have."""
    if departure.liveness in (None, GONE) and any(each.liveness == PAUSED for each in together):
        return True
    # A member that is lost twice in a rebalance, under two ids, counts once.
    there = {each.member_id for each in episode.rebalance.members_before}
    several = sum(each.member.member_id in there for each in together) > 1
    return departure.liveness is None and several and _came_back_together(together)


def _came_back_together(together: list[Departure]) -> bool:
    """Whether all came back at about the same time, and their libraries' heartbeats cannot have starved."""
    backs = [each.back_ms for each in together if each.back_ms is not None]
    if len(backs) < len(together) or max(backs) - min(backs) > 2 * THAW_MS:
        return False
    return all(each.client.may_starve is False for each in together)


def _lost_together(episode: Episode, departure: Departure) -> list[Departure]:
    """Return the session expiries on the same host in this rebalance, including this one, without a known cause."""
    return [
        each
        for each in episode.departures
        if each.member.host == departure.member.host
        and each.likely == SESSION_EXPIRED
        and each.liveness in (None, PAUSED, GONE)
    ]


def unreachable(episode: Episode, departure: Departure) -> Verdict | None:
    """The client ran but could not reach the coordinator."""
    is_wide = whole_host_lost(episode, departure.member.host)
    if departure.liveness in _NOT_CUT_OFF or (departure.liveness != UNREACHABLE and not is_wide):
        return None
    longer = longer_session(
        session_of_lost(episode, departure),
        pause_ms=departure.silence_ms or departure.session_ms,
        with_requests=True,
    )
    return say_lost(
        "network_partition",
        departure,
        subject=subject_of(*_cut_off_with(episode, departure), hosts=(departure.member.host,)),
        confidence=STRONG if departure.liveness == UNREACHABLE else HINT,
        advice=longer,
        keepalive=has_keepalive(departure.client.library),
    )


def _cut_off_with(episode: Episode, departure: Departure) -> list[Member]:
    """Return the member that was cut off, and the others lost on its host if the host lost all its members."""
    if spared_on_host(episode, departure):
        return [departure.member]
    return [
        each.member
        for each in episode.departures
        if each.likely == SESSION_EXPIRED
        and each.liveness not in _NOT_CUT_OFF
        and each.member.host == departure.member.host
    ]


def refused(episode: Episode, departure: Departure) -> Verdict | None:
    """A member's session expired although its process runs, and it is not admitted again: it lost a permission, say.

    The coordinator checks permissions first (KafkaApis), so its heartbeats do not renew the session, and the client
    does not learn that it was removed. A client that is admitted is back one heartbeat after it was removed.
    """
    if departure.liveness not in (HEALTHY, ALIVE):
        return None
    if episode.rebalance.is_at_least and departure.likely == UNKNOWN:
        return None  # it may not have reached its coordinator
    last, rejoins_ms = episode.history.clients.latest_of(departure.member), _REJOINS * departure.client.heartbeat_ms
    waited = episode.time.lasted(departure.to_ms, rejoins_ms)
    if departure.back_as is not None or not waited or last is None or last.emitted_ms < departure.to_ms + rejoins_ms:
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


def frozen_or_starved(episode: Episode, departure: Departure) -> Verdict | None:
    """A session expired, and no source distinguishes the possible causes."""
    began_ms = episode.rebalance.started_before_ms
    if departure.liveness in (HEALTHY, ALIVE):
        return say_lost("undetermined.healthy", departure, began_ms, missing=(), beat=departure.liveness == HEALTHY)
    if departure.client.may_starve is False and (is_back_soon(departure) or departure.kept_id):
        pause_ms = departure.silence_ms or departure.session_ms
        same = departure.kept_id or (not may_have_overrun(departure) and stays(episode, departure))
        alone = same and spared_on_host(episode, departure)
        return say_lost(
            "process_pause.back_soon",
            departure,
            confidence=PLAUSIBLE if alone else HINT,
            kept=departure.kept_id,
            alone=alone,
            subject=subject_of(departure.member, hosts=(departure.member.host,)),
            advice=longer_session(session_of_lost(episode, departure), pause_ms=pause_ms),
        )
    return say_lost("undetermined.silent", departure, began_ms, missing=())


def unknown_loss(episode: Episode, departure: Departure) -> Verdict | None:
    """No commit was due from the member before it was gone, so it is not known how it left."""
    return say_lost(
        "undetermined.unread" if episode.rebalance.is_at_least else "undetermined.gone",
        departure,
        episode.rebalance.started_before_ms,
        missing=(),
    )
