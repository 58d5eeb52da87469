"""Clients that go on without the group, or whose commits fail after a rebalance (catalogue §4.7), by their own reports.

Receives reports of clients and compares them with who is in the group. Without reports nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rebalance_contract import Member, Rebalance
from rebalance_contract.clients import COMMIT_RATE, COMMIT_TOTAL, CONSUMED_RATE, CONSUMED_TOTAL
from rebalance_streaming.detect.clients import ClientHistory, Sight
from rebalance_streaming.detect.look import Look
from rebalance_streaming.detect.verdict import CERTAIN, STRONG, Verdict, subject_of
from rebalance_streaming.detect.wording import say

#: Rates look back two windows of 30 s: what they say is about the time before that as well.
_RATE_WINDOW_MS = 60_000
#: A client learns late that it is out, and clocks differ.
_SLACK_MS = 5_000
_FRESH_MS = 120_000


def _moved(sights: Sequence[Sight], total: str, rate: str | None, since_ms: int) -> bool | None:
    """Whether something was counted in these reports, all after `since_ms`; null when they do not tell."""
    counted = [each.values[total] for each in sights if total in each.values]
    if len(counted) > 1:
        return any(after > before for before, after in pairwise(counted))
    told = [
        each.values[rate]
        for each in sights
        if rate is not None and rate in each.values and each.emitted_ms >= since_ms + _RATE_WINDOW_MS
    ]
    return told[-1] > 0 if told else None


# --- Zombies ---


def zombie_member(look: Look) -> Iterator[Verdict]:
    """A client that was removed from the group keeps on consuming."""
    picture = look.history.picture
    if picture is None or picture.rebalancing_since_ms is not None:
        return
    present = {each.member_id for each in look.members}
    for client in look.history.clients:
        latest = client.latest()
        if latest is None or latest.member_id is None or latest.member_id in present:
            continue
        gone_ms = _gone_ms(look, latest.member_id)
        if gone_ms is not None and look.is_within(latest.emitted_ms, _FRESH_MS):
            yield from _zombie(look, client, latest.member_id, gone_ms)


def _gone_ms(look: Look, member_id: str) -> int | None:
    """Return when a member was out of the group; null when it never was seen in it."""
    for each in reversed(look.history.in_order()):
        if member_id in {m.member_id for m in each.members_before}:
            return None if member_id in {m.member_id for m in each.members_after} else each.completed_at_ms
    return None


def _zombie(look: Look, client: ClientHistory, member_id: str, gone_ms: int) -> Iterator[Verdict]:
    after = [s for s in client.sights if s.member_id == member_id and s.emitted_ms >= gone_ms + _SLACK_MS]
    member = look.history.members.get(member_id)
    if member is None or not _moved(after, CONSUMED_TOTAL, CONSUMED_RATE, gone_ms):
        return
    cause = next((each.rule for each in reversed(look.past) if each.member.member_id == member_id), None)
    lasted = after[-1].emitted_ms - gone_ms
    yield say("zombie_member", gone_ms, subject_of(member), member=member, lasted=lasted, cause=cause)


# --- Commits that fail ---


def commit_failures_after_rebalance(look: Look) -> Iterator[Verdict]:
    """Since a rebalance a member consumes, but none of its commits is stored: they are refused, or not tried."""
    latest = next(reversed(look.history.in_order()), None) if look.history.clients.known else None
    if latest is None or latest.completed_at_ms is None or not look.is_settled:
        return
    for member in look.members:
        client = look.history.clients.of(member)
        if client is not None and client.sights and member.partitions:
            yield from _failing(look, client, member, latest)


def _failing(look: Look, client: ClientHistory, member: Member, rebalance: Rebalance) -> Iterator[Verdict]:
    done_ms, progress = rebalance.completed_at_ms or 0, look.history.progress
    after = [s for s in client.sights if s.emitted_ms >= done_ms + _SLACK_MS]
    rhythm = progress.rhythm(member.partitions or {}, done_ms)
    quiet_ms = max(_RATE_WINDOW_MS, 3 * (rhythm.gap_ms or 0)) + _SLACK_MS
    if not after or rhythm.gap_ms is None or after[-1].emitted_ms - done_ms < quiet_ms:
        return
    if not look.is_within(after[-1].emitted_ms, _FRESH_MS) or not _moved(after, CONSUMED_TOTAL, CONSUMED_RATE, done_ms):
        return
    if progress.commits_between(member.partitions or {}, done_ms, look.now_ms):
        return
    yield _failing_verdict(look, member, rebalance, tried=_moved(after, COMMIT_TOTAL, COMMIT_RATE, done_ms))


def _failing_verdict(look: Look, member: Member, rebalance: Rebalance, *, tried: bool | None) -> Verdict:
    done_ms = rebalance.completed_at_ms or rebalance.started_before_ms
    return say(
        "commit_failures_after_rebalance",
        done_ms,
        subject_of(member),
        confidence=STRONG if tried is None else CERTAIN,
        variant={True: "refused", False: "not_tried", None: None}[tried],
        rebalance_ids=(rebalance.rebalance_id,),
        member=member,
        lasted=look.now_ms - done_ms,
        told={True: "go on, and none is stored", False: "stopped", None: "not told"}[tried],
        known=tried is not None,
    )
