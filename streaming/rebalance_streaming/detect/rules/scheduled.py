"""Rebalances that Kafka Streams and Kafka Connect schedule themselves.

Both schedule a later rebalance inside an assignment, in a form that cannot be read from the log; it is recognised by
its distance from the one before. The rules receive a group's rebalances and claim those that they explain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from rebalance_contract import CONNECT_PROTOCOL, STREAMS_ASSIGNOR, Rebalance, RebalanceReason, Severity
from rebalance_streaming.detect.group_view import GroupView, condition
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.detect.wording import say
from rebalance_streaming.observed.confidence import PLAUSIBLE, STRONG

#: probing.rebalance.interval.ms: its default, its minimum, and the relative deviation allowed.
_PROBING_MS, _LEAST_PROBING_MS, _PROBING_SLACK = 600_000, 60_000, 0.05
_PROBES_OF_ANOTHER_INTERVAL = 3
_LONG_PROBING_MS = 2 * 3_600_000
#: scheduled.rebalance.max.delay.ms: its default, and the deviation allowed for the rejoin.
_DELAY_MS, _DELAY_SLACK_MS = 300_000, 30_000
#: Workers that rejoin within this time still complete the rebalance of the departure itself.
_FOLLOW_UP_MS = 6_000
_STREAMS_REASONS = frozenset({RebalanceReason.STREAMS_INTERNAL, RebalanceReason.COOPERATIVE_FOLLOWUP})


# --- Kafka Streams ---
@dataclass(frozen=True, slots=True)
class _Probing:
    """A rebalance without joins or leaves, and its distance from the one before."""

    rebalance: Rebalance
    spacing_ms: int


@condition()
def streams_probing_rebalance(view: GroupView) -> Iterator[Verdict]:
    """Streams checks every ten minutes whether warm-up replicas have caught up, and moves their tasks (KIP-441)."""
    probing = _probing(view.history.in_order())
    usual = [each for each in probing if _is_near(each.spacing_ms, _PROBING_MS)]
    other = [each for each in probing if each not in usual]
    interval = _even_interval(other)
    if usual:
        yield _probed(usual, _PROBING_MS, STRONG)
    elif interval is not None:
        yield _probed([each for each in other if _is_near(each.spacing_ms, interval)], interval, PLAUSIBLE)


def _probing(rebalances: list[Rebalance]) -> list[_Probing]:
    found = []
    for before, each in pairwise(rebalances):
        internal = all(generation.reason in _STREAMS_REASONS for generation in each.generations)
        if each.protocol != STREAMS_ASSIGNOR or not internal or each.joined or each.left:
            continue
        # The next one is scheduled when the assignment is distributed.
        spacing = each.started_before_ms - before.last_known_ms
        if spacing >= _LEAST_PROBING_MS * (1 - _PROBING_SLACK):
            found.append(_Probing(each, spacing))
    return found


def _is_near(spacing_ms: int, interval_ms: int) -> bool:
    return abs(spacing_ms - interval_ms) <= _PROBING_SLACK * interval_ms


def _even_interval(probing: list[_Probing]) -> int | None:
    """Return an interval other than the default that at least three in a row keep (ms); null if there is none."""
    for i in range(len(probing) - _PROBES_OF_ANOTHER_INTERVAL + 1):
        row = [each.spacing_ms for each in probing[i : i + _PROBES_OF_ANOTHER_INTERVAL]]
        if all(_is_near(each, row[0]) for each in row):
            return row[0]
    return None


def _probed(probing: list[_Probing], interval_ms: int, confidence: float) -> Verdict:
    first, last = probing[0].rebalance, probing[-1].rebalance
    long = last.started_before_ms - first.started_before_ms > _LONG_PROBING_MS
    return say(
        "streams_probing_rebalance",
        first.started_before_ms,
        confidence=confidence,
        severity=Severity.TICKET if long else None,
        rebalance_ids=tuple(each.rebalance.rebalance_id for each in probing),
        count=len(probing),
        interval=interval_ms,
        by_default=confidence > PLAUSIBLE,
    )


# --- Kafka Connect ---
@condition()
def connect_scheduled_rebalance(view: GroupView) -> Iterator[Verdict]:
    """Connect held back a lost worker's tasks for scheduled.rebalance.max.delay, then reassigned them (KIP-415)."""
    for confidence, pairs in ((STRONG, _scheduled(view, exact=True)), (PLAUSIBLE, _scheduled(view, exact=False))):
        if not pairs:
            continue
        before, after = pairs[-1]
        left_ms = before.last_known_ms
        delay = after.started_before_ms - left_ms
        yield say(
            "connect_scheduled_rebalance",
            left_ms,
            confidence=confidence,
            rebalance_ids=tuple(each.rebalance_id for _, each in pairs),
            left=len(before.left),
            workers=len(after.members_after),
            delay=delay,
            rounded=round(delay, -3),
            by_default=confidence > PLAUSIBLE,
        )


def _scheduled(view: GroupView, *, exact: bool) -> list[tuple[Rebalance, Rebalance]]:
    """Return pairs of a departure and the rebalance scheduled by it, after the default delay or a shorter one."""
    snapshot, order = view.history.snapshot, view.history.in_order()
    if snapshot is None or snapshot.protocol_type not in (CONNECT_PROTOCOL, None):
        return []
    pairs = []
    for before, each in pairwise(order):
        internal = all(generation.reason == RebalanceReason.CONNECT_INTERNAL for generation in each.generations)
        gone = bool(before.left) and not before.joined and bool(before.members_after)
        delay = each.started_before_ms - before.last_known_ms
        near = -_DELAY_SLACK_MS <= delay - _DELAY_MS <= _DELAY_SLACK_MS
        if internal and gone and delay > _FOLLOW_UP_MS and (near if exact else delay < _DELAY_MS - _DELAY_SLACK_MS):
            pairs.append((before, each))
    return pairs
