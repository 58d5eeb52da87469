"""A rebalance in one line of plain words, a finding in a few, and the phrases that longer texts are made of."""

from __future__ import annotations

from collections.abc import Sequence

from rebalance_contract import Advice, Alternative, Evidence, Finding, Member, Rebalance, SubjectMember
from rebalance_exporters.terminal.escaping import safe
from rebalance_exporters.terminal.figures import Clock

#: Bounds this close come from probes and are worth showing.
TIGHT_MS = 6_000

#: A deploy moves hundreds of members; a line names so many of them.
_NAMED = 5

UTC_CLOCK = Clock()


def describe(rebalance: Rebalance, clock: Clock = UTC_CLOCK) -> str:
    """Say when, who, from which generation to which, members before and after, why and how long."""
    parts = (
        clock.time(rebalance.completed_at_ms or rebalance.started_before_ms),
        rebalance.group,
        f"generation {generations(rebalance)}",
        f"members {members(rebalance)}",
        why(rebalance),
        duration(rebalance),
    )
    return safe("  ".join(parts))


def members(rebalance: Rebalance) -> str:
    """Say how many members there were before and after, those included that the row had no room for."""
    before, after = rebalance.members_before_count, rebalance.members_after_count
    return (
        f"{len(rebalance.members_before) if before is None else before} -> "
        f"{len(rebalance.members_after) if after is None else after}"
    )


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


def generations(rebalance: Rebalance) -> str:
    """Write the generation before and the one it ended with."""
    return f"{'-' if rebalance.generation_from is None else rebalance.generation_from} -> {rebalance.generation_to}"


def why(rebalance: Rebalance) -> str:
    """Say what set it off, and who left, joined and came back."""
    before_and_after = (*rebalance.members_before, *rebalance.members_after, *rebalance.passing)
    members = {member.member_id: member for member in before_and_after}
    returned = {member_id for pair in rebalance.replaced for member_id in pair}
    changes = {
        "left": [each for each in rebalance.left if each not in returned],
        "joined": [each for each in rebalance.joined if each not in returned],
        "came back": [new for _, new in rebalance.replaced],
    }
    who = "; ".join(f"{what}: {_names(ids, members)}" for what, ids in changes.items() if ids)
    return f"{rebalance.reason.replace('_', ' ')}{f' ({who})' if who else ''}"


def name(member: Member | SubjectMember) -> str:
    """Name a member as people know it, which outlives its member id."""
    return f"{member.group_instance_id or member.client_id or member.member_id or '?'}@{member.host or '?'}"


def _names(ids: Sequence[str], members: dict[str, Member]) -> str:
    named = [name(members[each]) if each in members else each for each in ids[:_NAMED]]
    further = len(ids) - _NAMED
    return ", ".join(named) + (f" and {further} more" if further > 0 else "")


def duration(rebalance: Rebalance) -> str:
    """Say how long it took, as exactly as that is known."""
    if rebalance.duration_min_ms is None:
        return "goes on"
    text = bounds(rebalance.duration_min_ms, rebalance.duration_max_ms)
    return f"took {text}{' (the log does not show its start)' if text.startswith('at least') else ''}"


def bounds(low_ms: int | None, high_ms: int | None) -> str:
    """Write a duration that lies between two bounds; null for the lower one means that it has not ended."""
    if low_ms is None:
        return "goes on"
    if high_ms == low_ms:
        return f"{low_ms / 1000:.2f} s"
    if high_ms is not None and high_ms - low_ms <= TIGHT_MS:
        return f"{low_ms / 1000:.1f} to {high_ms / 1000:.1f} s"
    # The upper bound reaches back to the group's previous record, which can be hours: only the lower one informs.
    return f"at least {low_ms / 1000:.2f} s"
