"""Members that come close to max.poll.interval without having missed it (catalogue §4.2).

Receives a group as it stands. A client's own metrics tell the time between polls; commits tell it only of clients that
commit inside poll(), and only while records were waiting: time without work is no batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from rebalance_contract import Advice, Member
from rebalance_contract.clients import POLL_AGE, POLL_GAP_MAX, POLL_IDLE
from rebalance_streaming.detect import inputs
from rebalance_streaming.detect.advice import longer_poll_interval, shorter_batches
from rebalance_streaming.detect.clients import ClientHistory
from rebalance_streaming.detect.fingerprints import AIOKAFKA, LIBRDKAFKA, fingerprint
from rebalance_streaming.detect.history import places
from rebalance_streaming.detect.look import Condition, Look
from rebalance_streaming.detect.progress import KEPT
from rebalance_streaming.detect.rules.standing import client_of, is_consumer_group, positions_of
from rebalance_streaming.detect.verdict import TICKET, Verdict, subject_of
from rebalance_streaming.detect.wording import advise, say

#: A client that usually commits this often does so inside poll(), every auto.commit.interval (5 s).
_AUTO_COMMIT_MS = 10_000
#: Of a poll that waits for records the idle ratio is near 1, whatever its length.
_WAITING = 0.5
#: Commits of one request reach the log within this of each other.
_SAME_COMMIT_MS = 51


@dataclass(frozen=True, slots=True)
class _Gap:
    """The longest time between two polls, when it ended, and the metric that told it; null: commits did."""

    length_ms: float
    ended_ms: int
    metric: str | None


def poll_overrun_risk(look: Look) -> Iterator[Verdict]:
    """A batch took more than half of max.poll.interval; the next may take all of it (KIP-62; story C at its start)."""
    if look.is_young or not is_consumer_group(look):
        return
    reporting = bool(look.history.clients.known)
    for member in look.members:
        client = client_of(look, member) if reporting else None
        if client is None and not _may_be_late(look, member, member.rebalance_timeout_ms or 0):
            continue
        limit = _limit_of(member, client)
        gap = None if limit is None else _told_gap(look, member, client) or _gap_by_commits(look, member, limit)
        if limit is not None and gap is not None and gap.length_ms >= look.thresholds.poll_risk_warn * limit:
            yield _at_risk(look, member, client, limit, gap)


def _may_be_late(look: Look, member: Member, limit: int) -> bool:
    """Whether the commits remembered, however they lie, span as much as a risky gap."""
    return look.history.progress.span_ms(member.partitions or {}) >= look.thresholds.poll_risk_warn * limit


def longest_told_gap(look: Look, member: Member) -> float | None:
    """Return the longest time between two polls that a member's client reported, in milliseconds; null: none told."""
    gap = _told_gap(look, member, client_of(look, member))
    return None if gap is None else gap.length_ms


def _limit_of(member: Member, client: ClientHistory | None) -> int | None:
    """Return a member's max.poll.interval in milliseconds; null where the client enforces none or does not tell it."""
    prints = fingerprint(member, client)
    if client is not None and client.config.max_poll_interval_ms is not None:
        limit: int | None = client.config.max_poll_interval_ms
    else:
        # aiokafka's rebalance time-out is its session time-out.
        limit = member.rebalance_timeout_ms if prints.library != AIOKAFKA else None
    # A join request may carry 0, which is no limit that a gap has a share of.
    return limit or None if prints.enforces_poll else None


def _told_gap(look: Look, member: Member, client: ClientHistory | None) -> _Gap | None:
    if client is None:
        return None
    waiting: bool | None = None
    gaps: list[tuple[float, int, str]] = []
    for each in client.sights:
        if each.values.get(POLL_IDLE, 0.0) > _WAITING:
            continue
        if POLL_GAP_MAX in each.values:
            gaps.append((each.values[POLL_GAP_MAX], each.emitted_ms, POLL_GAP_MAX))
        # A client that only tells when it last got records is idle without any.
        if each.poll_age_ms is None:
            continue
        if waiting is None and POLL_AGE not in each.values:
            waiting = any(position.lag for position in positions_of(look, member.partitions))
        if POLL_AGE in each.values or waiting:
            gaps.append((each.poll_age_ms, each.emitted_ms, POLL_AGE))
    return _Gap(*max(gaps)) if gaps else None


def _gap_by_commits(look: Look, member: Member, limit: int) -> _Gap | None:
    """Return the longest busy time between two commits of a client that commits inside poll()."""
    progress, partitions, since = look.history.progress, member.partitions or {}, look.stable_since_ms()
    longest = progress.longest_gap_ms(partitions) if _may_be_late(look, member, limit) else None
    if longest is None or since is None or longest < look.thresholds.poll_risk_warn * limit:
        return None
    rhythm = progress.rhythm(partitions, look.now_ms)
    usual = rhythm.gap_ms is not None and rhythm.gap_ms <= _AUTO_COMMIT_MS
    library = fingerprint(member, client_of(look, member)).library
    if library == LIBRDKAFKA or not (rhythm.pulse or usual):
        return None
    times = _commit_times(look, member)
    gaps = [(b - a, b) for a, b in pairwise(times) if a >= since and _had_work(look, member, a)]
    return _Gap(*max(gaps), None) if gaps else None


def _commit_times(look: Look, member: Member) -> list[int]:
    times: list[int] = []
    before_ms: int | None = look.now_ms
    while before_ms is not None and len(times) < KEPT:
        last_ms = look.history.progress.rhythm(member.partitions or {}, before_ms).last_ms
        if last_ms is not None:
            times.append(last_ms)
        before_ms = None if last_ms is None else last_ms - _SAME_COMMIT_MS
    return times[::-1]


def _had_work(look: Look, member: Member, at_ms: int) -> bool:
    """Whether records were waiting in the member's partitions right after a commit."""
    progress = look.history.progress
    for place in places(member.partitions):
        end, committed = progress.end_at(*place, at_ms), progress.committed_before(place, at_ms)
        if end is not None and committed is not None and end > committed[1]:
            return True
    return False


def _at_risk(look: Look, member: Member, client: ClientHistory | None, limit: int, gap: _Gap) -> Verdict:
    near = gap.length_ms >= look.thresholds.poll_risk_ticket * limit
    return say(
        "poll_overrun_risk.told" if gap.metric else "poll_overrun_risk.by_commits",
        gap.ended_ms - round(gap.length_ms),
        subject_of(member),
        severity=TICKET if near else None,
        advice=_shorter_batches(member, client, limit, gap.length_ms),
        member=member,
        host=member.host or "the member",
        gap=gap.length_ms,
        limit=limit,
        share=gap.length_ms / limit,
        metric=gap.metric,
    )


def _shorter_batches(member: Member, client: ClientHistory | None, limit: int, batch_ms: float) -> tuple[Advice, ...]:
    if fingerprint(member, client).library == LIBRDKAFKA:
        return longer_poll_interval(batch_ms, limit), advise("worker_pool")
    told = None if client is None else client.config.max_poll_records
    return *shorter_batches(limit, batch_ms, told), advise("worker_pool")


CONDITIONS: tuple[Condition, ...] = (Condition(poll_overrun_risk, inputs.COMMITS | inputs.ENDS | inputs.CLIENTS),)
