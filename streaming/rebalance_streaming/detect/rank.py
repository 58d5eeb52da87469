"""Selects the primary cause of one rebalance: exactly one diagnosis, if only `undetermined`.

If a lost member started the rebalance, that loss is the cause, and whatever delayed the other members is secondary. The
cause of a benign rebalance is what delayed it, if it was delayed for long.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from rebalance_contract import UNDETERMINED, Alternative
from rebalance_streaming.detect.episode import Episode
from rebalance_streaming.detect.rules.barrier import explain_barrier, explain_late_round
from rebalance_streaming.detect.rules.benign import BENIGN_RULES, FOLLOWS, called_within, unexplained
from rebalance_streaming.detect.rules.coordinator import find_standstill, find_store_failure
from rebalance_streaming.detect.rules.failover import find_failover
from rebalance_streaming.detect.rules.losses import explain_loss
from rebalance_streaming.detect.verdict import Verdict, from_probes, merge
from rebalance_streaming.observed.confidence import CERTAIN


def explain(episode: Episode) -> tuple[Verdict, ...]:
    """Return what explains a rebalance, its primary cause first."""
    losses = _losses(episode)
    known = [each for each in losses if each.rule != UNDETERMINED]
    failover = find_failover(episode) if losses else None
    held = next(iter(episode.held), None)
    barrier = explain_barrier(episode) or held or explain_late_round(episode) if episode.knows_who_waited else None
    benign = next((verdict for rule in BENIGN_RULES if (verdict := rule(episode)) is not None), None)
    standstill = find_standstill(episode)
    if standstill is not None:
        # The losses of the single members are effects of the standstill.
        known = losses = []
    unstored = find_store_failure(episode, failover)
    moved = None if _is_sure(known) or (failover is not None and unstored is failover) else failover or standstill
    unknown = [each for each in losses if each.rule == UNDETERMINED]
    causes = (*known, *unknown, benign, barrier) if known else (barrier, *unknown, benign)
    ranked = [each for each in (unstored, moved, *causes) if each is not None] or [unexplained(episode)]
    start = episode.history.coordinator_log.start_of(episode.rebalance)
    if start is not None:
        ranked[0] = replace(ranked[0], evidence=(*ranked[0].evidence, start.evidence()))
    ranked = _with_called(ranked, [*called_within(episode)], episode.duration_ms)
    if episode.rebalance.is_at_least:
        ranked = [from_probes(each) for each in ranked]
    return tuple(replace(each, rebalance_ids=(episode.rebalance.rebalance_id,)) for each in _with_rivals(ranked))


def _with_called(ranked: list[Verdict], called: list[tuple[int, Verdict]], duration_ms: int) -> list[Verdict]:
    """Return the verdicts with those that triggered later parts of a rebalance; the costliest cause is the primary one.

    Costs are durations: the first cause has the part of the duration that is left by the others.
    """
    began = ranked[0].rule
    cost_ms = Counter({began: duration_ms - sum(ms for ms, _ in called)})
    for ms, verdict in called:
        cost_ms[verdict.rule] += ms
    costliest = max(cost_ms, key=lambda rule: cost_ms[rule])
    first = [] if costliest == began else [next(each for _, each in called if each.rule == costliest)]
    return [*first, *ranked, *(each for _, each in called if each not in first)]


def _losses(episode: Episode) -> list[Verdict]:
    """Return the verdicts on lost members: first what started the rebalance, then what happened while others waited."""
    found = [(each, v) for each in episode.departures if (v := explain_loss(episode, each)) is not None]
    began = {verdict.rule for departure, verdict in found if not departure.in_barrier}
    return sorted(merge([verdict for _, verdict in found]), key=lambda each: each.rule not in began)


def _is_sure(losses: list[Verdict]) -> bool:
    """Whether a loss is explained by the reports of its own client, so that a nearby failover is not the cause."""
    return any(each.confidence >= CERTAIN for each in losses)


def _with_rivals(ranked: list[Verdict]) -> list[Verdict]:
    """Return the verdicts, with the other rules added to the alternatives of the primary one."""
    first, rest = ranked[0], ranked[1:]
    named = {each.rule for each in first.alternatives} | {first.rule}
    rivals = tuple(
        Alternative(each.rule, "found as well; the rebalance began before it")
        for each in rest
        if each.rule not in named and each.rule not in (UNDETERMINED, FOLLOWS)
    )
    return [replace(first, alternatives=(*first.alternatives, *rivals)), *rest]
