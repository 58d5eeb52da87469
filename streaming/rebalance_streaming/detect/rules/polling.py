"""Members that exceeded max.poll.interval between calls of poll(), or came close to it.

A client's own metrics contain the time between polls; commits show it only for clients that commit inside poll(), and
only while records were waiting: time without work is no batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from rebalance_contract import Advice, Member, Severity
from rebalance_contract.client_settings import LIBRDKAFKA
from rebalance_contract.clients import POLL_AGE, POLL_GAP_MAX, POLL_IDLE
from rebalance_streaming.detect.advice import (
    longer_poll_interval,
    poll_limit,
    poll_overrun_advice,
    shorter_batches,
    worker_overrun_advice,
)
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.group_view import GroupView, condition
from rebalance_streaming.detect.rules.circumstances import say_lost
from rebalance_streaming.detect.rules.member_settings import barrier_advice, is_of_connect
from rebalance_streaming.detect.verdict import Verdict, subject_of
from rebalance_streaming.detect.wording import advise
from rebalance_streaming.groups.partitions import places
from rebalance_streaming.observed import inputs
from rebalance_streaming.observed.barriers import Barrier
from rebalance_streaming.observed.clients import ClientHistory
from rebalance_streaming.observed.confidence import HINT, PLAUSIBLE, STRONG
from rebalance_streaming.observed.departure_times import awaited_evidence
from rebalance_streaming.observed.departures import (
    CLEAN,
    POLL_TIMEOUT,
    SESSION_EXPIRED,
    UNKNOWN,
    UNSYNCED,
    Departure,
    slot_of,
)
from rebalance_streaming.observed.fingerprints import make_fingerprint, poll_limit_ms
from rebalance_streaming.observed.timeouts import kept_place_without_polls

#: A client that usually commits this often does so inside poll(), every auto.commit.interval (5 s).
_AUTO_COMMIT_MS = 10_000
#: Above this poll idle ratio the client mostly waits for records in poll(): time between polls is then no batch.
_WAITING = 0.5
#: Minimum number of gaps between commits from which an interval can be derived.
_FEW_GAPS = 3
#: Number of times within a gap at which waiting records are checked.
_LOOKS = 20


def barrier_holder(episode: Episode, departure: Departure) -> Verdict | None:
    """A rebalance that had begun for another reason waited for this member until its timeout."""
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
        advice=barrier_advice(episode.history, episode.rebalance, departure),
        waited=barrier.waited_ms if seen and barrier is not None else None,
        probed=episode.is_probed,
    )


def _held_barrier(episode: Episode, departure: Departure, barrier: Barrier | None) -> float | None:
    """Return the confidence that the other members waited for this one; null if there was another cause."""
    if not departure.in_barrier:
        slot, waited = slot_of(departure.member), episode.came_with_loss_of(departure)
        came = (each.member for each in episode.arrivals if each.returned_from is None)
        newcomer = any(each.member_id in waited and slot_of(each) != slot for each in came)
        unseen = newcomer and not episode.is_probed and departure.logged is None and departure.likely == POLL_TIMEOUT
        return PLAUSIBLE if unseen else None
    if barrier is None or barrier.waited_ms < episode.long_barrier_ms:
        return None
    triggers = [each for each in episode.departures if not each.in_barrier and each.member.member_id in barrier.left]
    if any(each.likely in (POLL_TIMEOUT, SESSION_EXPIRED, UNSYNCED) for each in triggers):
        return None
    if departure.likely == POLL_TIMEOUT:
        return STRONG
    # Without heartbeats it would have been removed after its session: it sent them, but did not join.
    if barrier.waited_ms > departure.session_ms + 3_000:
        return STRONG
    poll = departure.poll_ms
    return PLAUSIBLE if departure.likely == UNKNOWN and poll is not None and poll < departure.session_ms else None


def static_stall(episode: Episode, departure: Departure) -> Verdict | None:
    """A static member that stops polling does not leave: after max.poll.interval its session has to expire as well."""
    silence = departure.silence_ms
    if silence is None or not kept_place_without_polls(departure):
        return None
    return say_lost(
        "static_stalled_member.lost",
        departure,
        departure.to_ms - silence,
        confidence=STRONG if departure.confidence >= STRONG else PLAUSIBLE,
        missing=(),
        advice=poll_overrun_advice(departure, episode.history.clients.config_of(departure.member)),
        silence=silence,
    )


def poll_overrun(episode: Episode, departure: Departure) -> Verdict | None:
    """One batch took longer than max.poll.interval, so the client left by itself (KIP-62)."""
    config = episode.history.clients.config_of(departure.member)
    limit, classes = poll_limit(departure, config), departure.classes
    # A member that overran its limit rejoins with its next poll; one that stays away may also have lost its session.
    open_still = SESSION_EXPIRED in classes and departure.back_as is None
    worker = is_of_connect(episode.history, episode.rebalance)
    return say_lost(
        "poll_overrun",
        departure,
        departure.to_ms - (limit or 0),
        confidence=HINT if open_still else departure.confidence,
        advice=worker_overrun_advice(limit) if worker else poll_overrun_advice(departure, config),
        worker=worker,
        limit=limit,
        away=departure.away_ms,
        as_session=SESSION_EXPIRED in classes,
        in_order=CLEAN in classes and SESSION_EXPIRED not in classes,
        unlike=not {CLEAN, SESSION_EXPIRED} & set(classes),
    )


# --- Close to max.poll.interval without exceeding it ---


@dataclass(frozen=True, slots=True)
class _Gap:
    """The longest time between two polls, when it ended, and the metric that shows it (null: derived from commits)."""

    length_ms: float
    ended_ms: int
    metric: str | None


@condition(inputs.REPORTED, grown=True)
def poll_overrun_risk(view: GroupView) -> Iterator[Verdict]:
    """A batch took more than half of max.poll.interval; the next may take all of it (KIP-62).

    A client that overran its limit and came back is not reported here.
    """
    if not view.is_consumer_group:
        return
    reporting = bool(view.history.clients.known)
    for member in view.members:
        client = view.client_of(member) if reporting else None
        if client is None and not _may_be_late(view, member, member.rebalance_timeout_ms or 0):
            continue
        limit = _limit_of(member, client)
        gap = None if limit is None else _reported_gap(view, member, client) or _gap_by_commits(view, member, limit)
        # Beyond the limit the member was removed: that is `poll_overrun`, the cause of the resulting rebalance.
        if limit is not None and gap is not None and view.thresholds.poll_risk_warn * limit <= gap.length_ms < limit:
            yield _at_risk(view, member, client, limit, gap)


def _may_be_late(view: GroupView, member: Member, limit: int) -> bool:
    """Whether there may be a risky gap between commits, by an upper bound over all partitions of its topics."""
    bound = view.progress.longest_gap_bound_ms(member.partitions or {})
    return bound >= view.thresholds.poll_risk_warn * limit


def longest_reported_gap(view: GroupView, member: Member) -> float | None:
    """Return the longest time (ms) between two polls that a member's client reported; null: none was reported."""
    gap = _reported_gap(view, member, view.client_of(member))
    return None if gap is None else gap.length_ms


def _limit_of(member: Member, client: ClientHistory | None) -> int | None:
    """Return a member's max.poll.interval (ms); null if the client enforces none or it is not known."""
    fingerprint = make_fingerprint(member, client)
    reported = None if client is None else client.config.max_poll_interval_ms
    limit = poll_limit_ms(member, fingerprint) if reported is None else reported
    # A join request may carry 0, which means that there is no limit.
    return limit or None if fingerprint.enforces_poll else None


def _reported_gap(view: GroupView, member: Member, client: ClientHistory | None) -> _Gap | None:
    if client is None:
        return None
    waiting: bool | None = None
    gaps: list[tuple[float, int, str]] = []
    for each in client.reports:
        if each.values.get(POLL_IDLE, 0.0) > _WAITING:
            continue
        if POLL_GAP_MAX in each.values:
            gaps.append((each.values[POLL_GAP_MAX], each.emitted_ms, POLL_GAP_MAX))
        # If the client only reports when it last got records, that age only counts while records wait.
        if each.poll_age_ms is None:
            continue
        if waiting is None and POLL_AGE not in each.values:
            waiting = any(position.lag for position in view.positions_of(member.partitions))
        if POLL_AGE in each.values or waiting:
            gaps.append((each.poll_age_ms, each.emitted_ms, POLL_AGE))
    return _Gap(*max(gaps)) if gaps else None


def _gap_by_commits(view: GroupView, member: Member, limit: int) -> _Gap | None:
    """Return a lower bound of the longest busy time between two polls, for a client that commits inside poll().

    It commits with the first poll after its commit interval, so it may have polled during one interval of the gap.
    """
    partitions, since = member.partitions or {}, view.stable_since_ms()
    longest = view.progress.longest_gap_ms(partitions) if _may_be_late(view, member, limit) else None
    if longest is None or since is None or longest < view.thresholds.poll_risk_warn * limit:
        return None
    rhythm, gaps = view.progress.rhythm(partitions, view.now_ms), view.progress.commit_gaps(partitions)
    usual = rhythm.gap_ms is not None and rhythm.gap_ms <= _AUTO_COMMIT_MS
    library = make_fingerprint(member, view.client_of(member)).library
    if library == LIBRDKAFKA or not (rhythm.pulse or usual) or len(gaps) < _FEW_GAPS:
        return None
    interval = median(until_ms - from_ms for from_ms, until_ms in gaps)
    found = [
        (until_ms - waited_ms - interval, until_ms)
        for from_ms, until_ms in gaps
        if from_ms >= since
        and until_ms - from_ms >= view.thresholds.poll_risk_warn * limit
        and (waited_ms := _waited_since(view, member, from_ms, until_ms)) is not None
    ]
    return _Gap(*max(found), None) if found else None


def _waited_since(view: GroupView, member: Member, from_ms: int, until_ms: int) -> int | None:
    """Return since when records waited in the member's partitions in a gap between commits; null if none did."""
    progress = view.progress
    committed = {
        place: known[1] for place in places(member.partitions) if (known := progress.committed_before(place, from_ms))
    }
    for at_ms in range(from_ms, until_ms, max(1, (until_ms - from_ms) // _LOOKS)):
        ends = ((progress.estimated_end_at(*place, at_ms), offset) for place, offset in committed.items())
        if any(end is not None and end > offset for end, offset in ends):
            return at_ms
    return None


def _at_risk(view: GroupView, member: Member, client: ClientHistory | None, limit: int, gap: _Gap) -> Verdict:
    near = gap.length_ms >= view.thresholds.poll_risk_ticket * limit
    return view.say(
        "poll_overrun_risk.by_metrics" if gap.metric else "poll_overrun_risk.by_commits",
        gap.ended_ms - round(gap.length_ms),
        subject_of(member),
        severity=Severity.TICKET if near else None,
        advice=_shorter_batches(member, client, limit, gap.length_ms),
        member=member,
        gap=gap.length_ms,
        limit=limit,
        share=gap.length_ms / limit,
        metric=gap.metric,
    )


def _shorter_batches(member: Member, client: ClientHistory | None, limit: int, batch_ms: float) -> tuple[Advice, ...]:
    if make_fingerprint(member, client).library == LIBRDKAFKA:
        return *longer_poll_interval(batch_ms, limit, LIBRDKAFKA), advise("worker_pool")
    records = None if client is None else client.config.max_poll_records
    return *shorter_batches(limit, batch_ms, records), advise("worker_pool")
