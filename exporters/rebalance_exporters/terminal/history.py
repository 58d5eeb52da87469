"""`history`: the rebalances of a group since a time, one row each, and their totals. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rebalance_contract import Finding
from rebalance_contract.api import RebalanceRow
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.report import Column, Grid
from rebalance_exporters.text.figures import UNKNOWN, plural, span
from rebalance_exporters.text.rebalances import describe_rebalance

_COLUMNS = (
    Column("START"),
    Column("DURATION", right=True),
    Column("GENERATION", right=True),
    Column("#MEMBERS", right=True),
    Column("REASON"),
    Column("CAUSE", may_shrink=True),
    Column("ID"),
)


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of several rebalances. Durations are lower bounds if the log does not show more.

    `causes` counts the primary findings by rule, most frequent first; `unjudged` is the number of rebalances without a
    kept one.
    """

    rebalances: int
    generations: int
    generations_aborted: int
    rebalancing_ms: int
    slowest_ms: int | None
    slowest_id: str | None
    lost_partition_ms: int
    causes: dict[str, int]
    unjudged: int


def find_causes(rebalances: Iterable[RebalanceRow], findings: Iterable[Finding]) -> dict[str, Finding]:
    """Return the primary finding by rebalance id, where one is kept."""
    ids = {each.rebalance_id for each in rebalances}
    primary = sorted((each for each in findings if each.primary), key=lambda each: each.updated_at_ms)
    return {of: finding for finding in primary for of in finding.rebalance_ids if of in ids}


def add_up(rebalances: Sequence[RebalanceRow], causes: Mapping[str, Finding]) -> Totals:
    """Add up rebalances and their causes."""
    slowest = max(rebalances, key=lambda each: each.duration_min_ms or 0, default=None)
    counted = Counter(causes[each.rebalance_id].rule for each in rebalances if each.rebalance_id in causes)
    return Totals(
        rebalances=len(rebalances),
        generations=sum(each.all_generations for each in rebalances),
        generations_aborted=sum(each.generations_aborted for each in rebalances),
        rebalancing_ms=sum(each.duration_min_ms or 0 for each in rebalances),
        slowest_ms=None if slowest is None else slowest.duration_min_ms,
        slowest_id=None if slowest is None else slowest.rebalance_id,
        lost_partition_ms=sum(each.impact.lost_partition_ms for each in rebalances if each.impact is not None),
        causes=dict(counted.most_common()),
        unjudged=len(rebalances) - counted.total(),
    )


def describe_history(rebalances: Iterable[RebalanceRow], causes: Mapping[str, Finding], clock: Clock) -> Grid:
    """Return the table, oldest first, so that the newest row is next to the prompt."""
    ordered = sorted(rebalances, key=lambda each: each.started_before_ms)
    return Grid("", _COLUMNS, tuple(_describe(each, causes.get(each.rebalance_id), clock) for each in ordered))


def _describe(rebalance: RebalanceRow, cause: Finding | None, clock: Clock) -> tuple[str, ...]:
    text = describe_rebalance(rebalance, rebalance.impact)
    return (
        clock.moment(rebalance.started_before_ms),
        text.took.replace("at least", ">="),
        text.generations,
        text.members,
        rebalance.reason.replace("_", " ") + (" (announced deploy)" if rebalance.deploys else ""),
        UNKNOWN if cause is None else f"{cause.rule}{'' if cause.variant is None else f' ({cause.variant})'}",
        rebalance.rebalance_id,
    )


def describe_totals(totals: Totals) -> tuple[str, ...]:
    """Return the totals as lines of text."""
    aborted = f" and {totals.generations_aborted} without an assignment" if totals.generations_aborted else ""
    lines = [
        f"{plural(totals.rebalances, 'rebalance')}, {plural(totals.generations, 'generation')}{aborted}; "
        f"at least {span(totals.rebalancing_ms)} rebalancing, "
        f"{span(totals.lost_partition_ms)} of partitions without commits"
    ]
    if totals.slowest_ms:
        lines.append(f"slowest: {span(totals.slowest_ms)} ({totals.slowest_id})")
    causes = [f"{count} x {rule}" for rule, count in totals.causes.items()]
    if totals.unjudged:
        causes.append(f"{totals.unjudged} without a finding that is kept")
    return (*lines, f"causes: {', '.join(causes)}")
