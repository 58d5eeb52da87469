"""Histories of groups made by hand, for stories about diagnosis, and their rows.

A member id is `client-number`: `a-1` and `a-2` are the same client before and after it rejoined. Partitions are those
of the topic `orders` unless a dictionary says otherwise. Times are in milliseconds; stories begin at `T0`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rebalance_contract import (
    ClientActivity,
    CommitActivity,
    CommitGap,
    Generation,
    GroupSnapshot,
    Member,
    OffsetActivity,
    Partitions,
    Probe,
    ProbeActivity,
    ProbedMember,
    Rebalance,
    RebalanceImpact,
    TopicCommits,
    encode,
)
from rebalance_streaming.activity.clients import pack_reports
from rebalance_streaming.activity.probes import unpack_probe
from rebalance_streaming.observed.history import GroupHistory
from rebalance_streaming.wire.metrics.report import Point, Report

T0 = 1_000_000_000_000
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
CLUSTER, GROUP, TOPIC = "prod", "g", "orders"

Event = GroupSnapshot | Rebalance | CommitActivity | OffsetActivity | RebalanceImpact | Probe | Report | ClientActivity
Numbers = Sequence[int] | Partitions | None


def member(member_id: str, partitions: Numbers = None, **changes: Any) -> Member:
    """Return a Java-like member: session 10 s, max.poll.interval 5 min, each client on its own host."""
    client = member_id.partition("-")[0]
    described: dict[str, Any] = {
        "client_id": client,
        "host": f"/host-{client}",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 300_000,
        "topics": (TOPIC,),
        "partitions": _partitions(partitions),
    }
    return Member(member_id, **{**described, **changes})


def _partitions(numbers: Numbers) -> Partitions:
    if numbers is None:
        return {}
    return dict(numbers) if isinstance(numbers, Mapping) else {TOPIC: list(numbers)}


def snapshot(at_ms: int, *members: Member, **changes: Any) -> GroupSnapshot:
    """Make the snapshot of a classic group that has been settled since `at_ms`: stable, or empty without members."""
    described: dict[str, Any] = {
        "type": "classic",
        "state": "Stable" if members else "Empty",
        "protocol_type": "consumer",
        "protocol": "range" if members else None,
        "generation": 1,
        "members": members,
        "first_seen_ms": T0 - HOUR,
        "last_rebalance_ms": at_ms,
        "updated_at_ms": at_ms,
    }
    return GroupSnapshot(CLUSTER, GROUP, **{**described, **changes})


def rebalance(
    at_ms: int, before: Sequence[Member], after: Sequence[Member], *, took_ms: int = 3_000, **changes: Any
) -> Rebalance:
    """Make a completed eager rebalance `r<at_ms>` of one generation, which spent most of its time waiting for joins."""
    old, new = {each.member_id for each in before}, {each.member_id for each in after}
    reason = "group_emptied" if not after else "departure" if old - new else "join"
    described: dict[str, Any] = {
        "rebalance_id": rebalance_id(at_ms),
        "type": "classic",
        "reason": reason,
        "outcome": "completed",
        "generation_from": 1,
        "generation_to": 2,
        "generations_aborted": 0,
        "started_after_ms": at_ms,
        "started_before_ms": at_ms,
        "join_ended_at_ms": at_ms + took_ms - 20,
        "completed_at_ms": at_ms + took_ms,
        "sync_ms": 20,
        "duration_min_ms": took_ms,
        "duration_max_ms": took_ms,
        "protocol": "range",
        "leader": min(new, default=None),
        "members_before": tuple(before),
        "members_after": tuple(after),
        "joined": tuple(sorted(new - old)),
        "left": tuple(sorted(old - new)),
    }
    described |= changes
    described.setdefault("generations", (_generation(described),))
    return Rebalance(CLUSTER, GROUP, **described)


def _generation(of: Mapping[str, Any]) -> Generation:
    return Generation(
        2,
        of["reason"],
        join_ended_at_ms=of["join_ended_at_ms"],
        assigned_at_ms=of["completed_at_ms"],
        joined=of["joined"],
        left=of["left"],
    )


def rebalance_id(at_ms: int) -> str:
    """Return the id of the rebalance that began then."""
    return f"r{at_ms}"


def commits(at_ms: int, offsets: Mapping[int, int | None], *, topic: str = TOPIC) -> CommitActivity:
    """Make a pane with one commit per partition, all at `at_ms`; null deletes. Later panes have later log positions."""
    rows = TopicCommits(
        partitions=list(offsets),
        offsets=list(offsets.values()),
        committed_at_ms=[at_ms] * len(offsets),
        first_at_ms=[at_ms] * len(offsets),
        log_offsets=[at_ms] * len(offsets),
        commits=[1] * len(offsets),
    )
    counts = ((at_ms // 10_000 * 10_000, len(offsets)),)
    return CommitActivity(CLUSTER, GROUP, 7, at_ms, at_ms, 5_000, counts, {topic: rows})


def probe(
    at_ms: int,
    state: str | None = None,
    members: Sequence[Member | ProbedMember] | None = None,
    *,
    ends: Mapping[int, int | None] | None = None,
    stable: Mapping[int, int | None] | None = None,
    starts: Mapping[int, int | None] | None = None,
    owners: Mapping[int, str] | None = None,
    topic: str = TOPIC,
    **changes: Any,
) -> Probe:
    """Make a probe that queried the given values only."""
    asked: dict[str, Any] = {
        "state": state,
        "members": None if members is None else tuple(map(_probed, members)),
        "end_offsets": _by_topic(topic, ends),
        "stable_offsets": _by_topic(topic, stable),
        "start_offsets": _by_topic(topic, starts),
        "owners": _by_topic(topic, owners),
    }
    reported = {name: msgspec.UNSET if value is None else value for name, value in asked.items()}
    return Probe(probed_at_ms=at_ms, cluster=CLUSTER, group=GROUP, **{**reported, **changes})


def _probed(each: Member | ProbedMember) -> ProbedMember:
    if isinstance(each, ProbedMember):
        return each
    return ProbedMember(each.member_id, each.client_id, each.host, each.group_instance_id)


def _by_topic(topic: str, values: Mapping[int, Any] | None) -> dict[str, dict[str, Any]] | None:
    return None if values is None else {topic: {str(p): value for p, value in values.items()}}


def report(at_ms: int, of: Member, values: Mapping[str, float | None] | None = None, **changes: Any) -> Report:
    """Make a member's client report, by canonical names; it arrives without delay."""
    described: dict[str, Any] = {
        "client_id": of.client_id,
        "group_id": GROUP,
        "member_id": of.member_id,
        "host": of.host,
        "interval_ms": 5_000,
        "points": tuple(Point(name, value) for name, value in (values or {}).items()),
    }
    return Report("native", at_ms, at_ms, **{**described, **changes})


def packed(event: Report | ClientActivity) -> ClientActivity:
    """Return a report after packing for the diagnosis."""
    if isinstance(event, ClientActivity):
        return event
    ((_, row),) = pack_reports([event], 5 * SECOND, CLUSTER)
    return row


def unpacked(event: Probe) -> list[OffsetActivity | ProbeActivity]:
    """Return a probe as unpacked by the diagnosis."""
    return [row for _, row in unpack_probe(encode(event), event.cluster, event.probed_at_ms, event.probed_at_ms)]


def silenced(of: Rebalance, *silences: CommitGap) -> RebalanceImpact:
    """Make the impact of a rebalance: gaps in commits."""
    return RebalanceImpact(CLUSTER, GROUP, of.rebalance_id, silences)


def history(*events: Event) -> GroupHistory:
    """Return the history of these events, taken in the order given."""
    found = GroupHistory(CLUSTER, GROUP)
    for event in events:
        take(found, event)
    return found


def take(known: GroupHistory, event: Event) -> None:
    """Let a history take up one event."""
    if isinstance(event, GroupSnapshot):
        known.take_group(event, event.updated_at_ms or T0)
    elif isinstance(event, Rebalance):
        known.take_rebalance(event)
    elif isinstance(event, CommitActivity):
        known.progress.take_commits(event)
    elif isinstance(event, RebalanceImpact):
        known.take_impact(event)
    elif isinstance(event, OffsetActivity):
        known.take_offsets(event)
    elif isinstance(event, Probe):
        for row in unpacked(event):
            if isinstance(row, ProbeActivity):
                known.take_probe(row.probe)
            else:
                known.take_offsets(row)
    else:
        known.clients.take(packed(event))


def lost(at_ms: int, who: Member, before: Sequence[Member], **changes: Any) -> Rebalance:
    """Make a rebalance in which one member left, as recorded in its generation."""
    return rebalance(at_ms, before, [each for each in before if each is not who], **changes)


def joined(at_ms: int, who: Member, before: Sequence[Member], **changes: Any) -> Rebalance:
    """Make a rebalance in which one member joined."""
    return rebalance(at_ms, before, [*before, who], **changes)


def pulse(from_ms: int, to_ms: int, numbers: Sequence[int], first: int = 100) -> list[CommitActivity]:
    """Commit every five seconds with unchanged positions, as a client does that commits in its poll loop."""
    return [commits(at, dict.fromkeys(numbers, first)) for at in range(from_ms, to_ms, 5 * SECOND)]
