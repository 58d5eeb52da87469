"""Text for a rebalance in one line, for a finding in a few, and the phrases used in longer texts."""

from __future__ import annotations

from collections.abc import Sequence

from rebalance_contract import Advice, AlertSilence, Alternative, Evidence, Finding, Rebalance
from rebalance_contract.api import RebalanceText
from rebalance_exporters.terminal.escaping import safe
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.text.rebalances import describe_rebalance

UTC_CLOCK = Clock()


def describe(rebalance: Rebalance, clock: Clock = UTC_CLOCK, deploys: Sequence[AlertSilence] = ()) -> str:
    """Return one line: time, group, generations, numbers of members, trigger and duration.

    `deploys` are those announced for the time of the rebalance.
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
    """Return what triggered a rebalance, and which members left, joined and came back."""
    return "".join(each.text for each in text.why)


def describe_finding(finding: Finding, clock: Clock = UTC_CLOCK) -> str:
    """Return a finding with its confidence, evidence and advice."""
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
    """Return the finding without its reasons: time, group, state, severity and verdict."""
    at = clock.time(finding.updated_at_ms)
    return f"{at}  {finding.group}  {finding.state.upper()} {finding.severity}: {verdict(finding)}"


def verdict(finding: Finding) -> str:
    """Return the rule, its confidence, and the number of rebalances it explains."""
    of = "" if not finding.rebalances else f", cause of {finding.rebalances} rebalance{'s' * (finding.rebalances != 1)}"
    variant = "" if finding.variant is None else f" ({finding.variant})"
    return f"{finding.rule}{variant}, {finding.confidence:.0%} sure{of}"


def because(evidence: Evidence) -> str:
    """Return a piece of evidence and its meaning, marked if it is against the finding."""
    return f"{'but ' if evidence.against else ''}{evidence.field}: {evidence.value} ({evidence.rule})"


def why_not(alternative: Alternative) -> str:
    """Return an alternative cause, and the reason against it or why it is impossible."""
    return f"{alternative.rule}{' (impossible)' if alternative.impossible else ''}: {alternative.why_not}"


def change(advice: Advice) -> str:
    """Return the setting to change, with its current and proposed value."""
    current = "" if advice.current is None else f"{advice.current} -> "
    return f"{advice.parameter}: {current}{advice.proposed}"
