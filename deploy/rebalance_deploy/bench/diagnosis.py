"""What the diagnosis costs: processor time per second of a cluster's life, by what it is fed with."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from rebalance_streaming.detect.detector import Detector
from rebalance_streaming.groups.events import (
    CommitSummary,
    Generation,
    GroupSnapshot,
    Member,
    Probe,
    Rebalance,
    TopicCommits,
)
from rebalance_streaming.wire.metrics.report import Point, Report

_GROUPS, _PARTITIONS, _MEMBERS, _SECONDS, _STEP = 1_000, 20, 5, 120, 5
#: Of these groups one in so many rebalances in each step.
_REBALANCING = 200
_START_MS = 1_790_000_000_000
_REPORTED = (
    "coordinator_last_heartbeat_seconds_ago",
    "coordinator_heartbeat_rate",
    "coordinator_assigned_partitions",
    "fetch_manager_fetch_rate",
    "fetch_manager_records_consumed_rate",
)


def measure() -> Iterator[str]:
    """Yield the table's lines: one thread, everything in memory."""
    spent: dict[str, float] = {}
    detector = Detector("bench")
    groups = [_picture(number) for number in range(_GROUPS)]
    detector.advance(_START_MS)
    for group in groups:
        detector.take_group(group)
    for second in range(_STEP, _SECONDS + 1, _STEP):
        _live(detector, groups, second, spent)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield f"{_GROUPS:,} groups x {_PARTITIONS} partitions, {_MEMBERS} members that report every {_STEP} s;"
    often = f"every {_STEP} s each group commits and is probed, and {_GROUPS // _REBALANCING} rebalance"
    yield f"{often}; {memory:,.0f} MB in all"
    yield ""
    yield "| what | share of a core |"
    yield "|---|---:|"
    for what, seconds in {**spent, "together": sum(spent.values())}.items():
        yield f"| {what} | {seconds / _SECONDS:.1%} |"


def _live(detector: Detector, groups: list[GroupSnapshot], second: int, spent: dict[str, float]) -> None:
    now_ms = _START_MS + second * 1_000
    with _timed("commits", spent):
        for number, group in enumerate(groups):
            detector.take_commits(_commits(group.group, number, second, now_ms))
    with _timed("probes", spent):
        for group in groups:
            ends: dict[str, dict[str, int | None]] = {
                _topic(group.group): {str(p): second * 10 + 3 for p in range(_PARTITIONS)}
            }
            detector.take_probe(Probe(probed_at_ms=now_ms, cluster="bench", group=group.group, end_offsets=ends))
    with _timed("client metrics", spent):
        for group in groups:
            for member in group.members:
                detector.take_report(_report(group.group, member, now_ms))
    with _timed("rules", spent):
        for number in range(second % _REBALANCING, _GROUPS, _REBALANCING):
            detector.take_rebalance(_rebalance(groups[number], now_ms))
        for moment in range(_STEP):
            detector.advance(now_ms + moment * 1_000)
            detector.disturbances()


@contextmanager
def _timed(what: str, spent: dict[str, float]) -> Iterator[None]:
    began = time.process_time()
    yield
    spent[what] = spent.get(what, 0.0) + time.process_time() - began


def _topic(group: str) -> str:
    return f"topic-of-{group}"


def _picture(number: int) -> GroupSnapshot:
    group = f"group-{number:05d}"
    share = _PARTITIONS // _MEMBERS
    members = tuple(
        Member(
            f"client-{i}-{group}",
            f"client-{i}",
            f"10.0.0.{i}",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            topics=(_topic(group),),
            partitions={_topic(group): list(range(i * share, (i + 1) * share))},
        )
        for i in range(_MEMBERS)
    )
    return GroupSnapshot(
        "bench",
        group,
        type="classic",
        state="Stable",
        protocol_type="consumer",
        protocol="range",
        generation=1,
        members=members,
        first_seen_ms=_START_MS - 3_600_000,
        last_rebalance_ms=_START_MS,
        updated_at_ms=_START_MS,
        log_partition=0,
        log_offset=number,
    )


def _commits(group: str, number: int, second: int, now_ms: int) -> CommitSummary:
    places = list(range(_PARTITIONS))
    commits = TopicCommits(places, [second * 10] * len(places), [now_ms - 100] * len(places), places, [1] * len(places))
    offset = second * _GROUPS + number
    return CommitSummary("bench", group, now_ms - 5_000, 5_000, 0, offset, offset, {_topic(group): commits})


def _report(group: str, member: Member, now_ms: int) -> Report:
    return Report(
        "native",
        now_ms,
        now_ms,
        client_id=member.client_id,
        group_id=group,
        member_id=member.member_id,
        host=member.host,
        pid=1,
        interval_ms=_STEP * 1_000,
        tick_late_ms=0,
        points=tuple(Point(name, 1.0) for name in _REPORTED),
    )


def _rebalance(group: GroupSnapshot, now_ms: int) -> Rebalance:
    """A member leaves; the detector is told of it once, and never that it came back."""
    lost, kept = group.members[0], group.members[1:]
    after = tuple(replace(member, partitions=dict(member.partitions or {})) for member in kept)
    return Rebalance(
        cluster="bench",
        group=group.group,
        rebalance_id=f"0-{now_ms}",
        type="classic",
        reason="departure",
        outcome="completed",
        generation_from=1,
        generation_to=2,
        generations=(
            Generation(2, "departure", join_ended_at_ms=now_ms - 10, assigned_at_ms=now_ms, left=(lost.member_id,)),
        ),
        generations_aborted=0,
        started_after_ms=now_ms - 5_000,
        started_before_ms=now_ms - 2_000,
        join_ended_at_ms=now_ms - 10,
        completed_at_ms=now_ms,
        sync_ms=10,
        duration_min_ms=2_000,
        duration_max_ms=5_000,
        protocol="range",
        leader=None,
        members_before=group.members,
        members_after=after,
        joined=(),
        left=(lost.member_id,),
    )
