"""A rebalance in one line of plain words, a finding in a few."""

from __future__ import annotations

from datetime import UTC, datetime

from rebalance_streaming.groups.events import Finding, Member, Rebalance

#: Bounds this close come from probes and are worth showing.
_TIGHT_MS = 6_000


def describe(rebalance: Rebalance) -> str:
    """Say when, who, from which generation to which, members before and after, why and how long."""
    ended_ms = rebalance.completed_at_ms or rebalance.started_before_ms
    at = datetime.fromtimestamp(ended_ms / 1000, UTC).strftime("%H:%M:%S")
    generation_from = "-" if rebalance.generation_from is None else rebalance.generation_from
    return "  ".join(
        (
            at,
            rebalance.group,
            f"generation {generation_from} -> {rebalance.generation_to}",
            f"members {len(rebalance.members_before)} -> {len(rebalance.members_after)}",
            _why(rebalance),
            _duration(rebalance),
        )
    )


def describe_finding(finding: Finding) -> str:
    """Say what was found, how sure that is, what it rests on and what to change."""
    at = datetime.fromtimestamp(finding.updated_at_ms / 1000, UTC).strftime("%H:%M:%S")
    of = "" if not finding.rebalances else f", cause of {finding.rebalances} rebalance{'s' * (finding.rebalances != 1)}"
    variant = "" if finding.variant is None else f" ({finding.variant})"
    lines = [
        f"{at}  {finding.group}  {finding.state.upper()} {finding.severity}: {finding.rule}{variant}, "
        f"{finding.confidence:.0%} sure{of}",
        finding.summary,
        *(f"because  {each.field}: {each.value} ({each.rule})" for each in finding.evidence[:3]),
        *(f"not      {each.rule}: {each.why_not}" for each in finding.alternatives[:2]),
        *(f"unknown  {each}" for each in finding.missing),
        *(f"change   {each.parameter}: {_from(each.current)}{each.proposed}" for each in finding.advice),
    ]
    return "\n            ".join(lines)


def _from(current: str | None) -> str:
    return "" if current is None else f"{current} -> "


def _why(rebalance: Rebalance) -> str:
    members = {member.member_id: member for member in (*rebalance.members_before, *rebalance.members_after)}
    returned = {member_id for pair in rebalance.replaced for member_id in pair}
    changes = {
        "left": [each for each in rebalance.left if each not in returned],
        "joined": [each for each in rebalance.joined if each not in returned],
        "came back": [new for _, new in rebalance.replaced],
    }
    who = "; ".join(
        f"{what}: {', '.join(_name(members[each]) for each in ids)}" for what, ids in changes.items() if ids
    )
    return f"{rebalance.reason.replace('_', ' ')}{f' ({who})' if who else ''}"


def _name(member: Member) -> str:
    return f"{member.group_instance_id or member.client_id}@{member.host}"


def _duration(rebalance: Rebalance) -> str:
    low, high = rebalance.duration_min_ms, rebalance.duration_max_ms
    if low is None:
        return "goes on"
    if high == low:
        return f"took {low / 1000:.2f} s"
    if high is not None and high - low <= _TIGHT_MS:
        return f"took {low / 1000:.1f} to {high / 1000:.1f} s"
    # The upper bound reaches back to the group's previous record, which can be hours: only the lower one informs.
    return f"took at least {low / 1000:.2f} s (the log does not show its start)"
