"""A rebalance in one line of plain words, a finding in a few, and the phrases that longer texts are made of."""

from __future__ import annotations

from collections.abc import Sequence

from rebalance_contract import Advice, AlertSilence, Alternative, Evidence, Finding, Rebalance
from rebalance_contract.api import RebalanceText
from rebalance_exporters.terminal.escaping import safe
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.text.rebalances import describe_rebalance

UTC_CLOCK = Clock()


def describe(rebalance: Rebalance, clock: Clock = UTC_CLOCK, deploys: Sequence[AlertSilence] = ()) -> str:
    """Say when, who, from which generation to which, members before and after, why and how long.

    `deploys` were announced for its time.
    """
    text = describe_rebalance(rebalance, None, deploys)
    took = text.took if rebalance.duration_min_ms is None else f"took {text.took}"
    unseen = " (the log does not show its start)" if text.took.startswith("at least") else ""
    parts = (
        clock.time(rebalance.last_known_ms),
        rebalance.group,
        f"generation {text.generations}",
        f"members {text.members}",
        why(text),
        f"{took}{unseen}",
    )
    return safe("  ".join(parts))


def why(text: RebalanceText) -> str:
    """Say what set a rebalance off, and who left, joined and came back."""
    return "".join(each.text for each in text.why)


def describe_finding(finding: Finding, clock: Clock = UTC_CLOCK) -> str:
    """Say what was found, how sure that is, what it rests on and what to change."""
    lines = [
        headline(finding, clock),
        finding.summary,
        *(f"because  {because(each)}" for each in finding.evidence[:3]),
        *(f"not      {why_not(each)}" for each in finding.alternatives[:2]),
        *(f"unknown  {each}" for each in finding.missing),
        *(f"change   {change(each)}" for each in finding.advice),
    ]
    return "\n            ".join(map(safe, lines))


def headline(finding: Finding, clock: Clock = UTC_CLOCK) -> str:
    """Say when, of whom, how grave and what was found: the finding without its reasons."""
    at = clock.time(finding.updated_at_ms)
    return f"{at}  {finding.group}  {finding.state.upper()} {finding.severity}: {verdict(finding)}"


def verdict(finding: Finding) -> str:
    """Name the rule, how sure it is, and how many rebalances it explains."""
    of = "" if not finding.rebalances else f", cause of {finding.rebalances} rebalance{'s' * (finding.rebalances != 1)}"
    variant = "" if finding.variant is None else f" ({finding.variant})"
    return f"{finding.rule}{variant}, {finding.confidence:.0%} sure{of}"


def because(evidence: Evidence) -> str:
    """Say what was seen and what it means, and whether it speaks against what was found."""
    return f"{'but ' if evidence.against else ''}{evidence.field}: {evidence.value} ({evidence.rule})"


def why_not(alternative: Alternative) -> str:
    """Say what else it could have been and what speaks against it, or rules it out."""
    return f"{alternative.rule}{' (impossible)' if alternative.impossible else ''}: {alternative.why_not}"


def change(advice: Advice) -> str:
    """Say which setting to change, from what to what."""
    current = "" if advice.current is None else f"{advice.current} -> "
    return f"{advice.parameter}: {current}{advice.proposed}"
