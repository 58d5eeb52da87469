"""A rebalance in one line of plain words."""

from __future__ import annotations

from datetime import UTC, datetime

from rebalance_streaming.groups.events import Member, Rebalance


def describe(rebalance: Rebalance) -> str:
    """Say when, who, from which generation to which, members before and after, why and how long."""
    at = datetime.fromtimestamp(rebalance.completed_at_ms / 1000, UTC).strftime("%H:%M:%S")
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


def _why(rebalance: Rebalance) -> str:
    members = {member.member_id: member for member in (*rebalance.members_before, *rebalance.members_after)}
    left = ", ".join(_name(members[each]) for each in rebalance.left)
    joined = ", ".join(_name(members[each]) for each in rebalance.joined)
    who = "; ".join(f"{what} {names}" for what, names in (("left:", left), ("joined:", joined)) if names)
    return f"{rebalance.reason.replace('_', ' ')}{f' ({who})' if who else ''}"


def _name(member: Member) -> str:
    return f"{member.group_instance_id or member.client_id}@{member.host}"


def _duration(rebalance: Rebalance) -> str:
    low = rebalance.duration_min_ms / 1000
    if rebalance.duration_max_ms == rebalance.duration_min_ms:
        return f"took {low:.2f} s"
    # The upper bound reaches back to the group's previous record, which can be hours: only the lower one informs.
    return f"took at least {low:.2f} s (the log does not show its start)"
