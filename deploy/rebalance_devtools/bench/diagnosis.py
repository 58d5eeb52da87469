"""Measures the processor time of the diagnosis per second of cluster time, by kind of input."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from rebalance_contract import (
    CommitActivity,
    Generation,
    GroupSnapshot,
    GroupState,
    GroupType,
    Member,
    OffsetActivity,
    Rebalance,
    RebalanceOutcome,
    TopicCommits,
    TopicOffsets,
    encode,
    topics,
)
from rebalance_streaming.activity.clients import pack_reports
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.engine.engine import Engine, EngineConfig
from rebalance_streaming.engine.rows import address, decode_input
from rebalance_streaming.wire.metrics.report import Point, Report
from rebalance_streaming.wire.records import OFFSETS_TOPIC

_GROUPS, _PARTITIONS, _MEMBERS, _SECONDS, _STEP = 1_000, 20, 5, 120, 5
_QUIET_GROUPS, _QUIET_SECONDS = 10_000, 600
#: The live load of `bench cold-start`: requests of this many groups in turn, each with all partitions.
_LOADED_GROUPS, _REQUESTS_PER_SECOND, _LOADED_SECONDS, _TICKS_PER_SECOND = 5_000, 100, 120, 2
#: One in this many groups rebalances in each step.
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
    engine = Engine(EngineConfig(cluster="bench", source_topic=OFFSETS_TOPIC, detect=DetectConfig()))
    groups = [_snapshot(number) for number in range(_GROUPS)]
    engine.advance(_START_MS)
    for group in groups:
        engine.apply(group, _START_MS)
    for second in range(_STEP, _SECONDS + 1, _STEP):
        _live(engine, groups, second, spent)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield f"{_GROUPS:,} groups x {_PARTITIONS} partitions, {_MEMBERS} members that report every {_STEP} s;"
    often = f"every {_STEP} s each group commits and is probed, and {_GROUPS // _REBALANCING} rebalance"
    yield f"{often}; {memory:,.0f} MiB in all"
    yield ""
    yield "| what | share of a core |"
    yield "|---|---:|"
    for what, seconds in {**spent, "together": sum(spent.values())}.items():
        yield f"| {what} | {seconds / _SECONDS:.1%} |"
    yield ""
    yield from measure_quiet()
    yield ""
    yield from measure_loaded()


def measure_quiet() -> Iterator[str]:
    """Yield the cost of quiet groups: when they are first processed, and for ten minutes afterwards."""
    spent: dict[str, float] = {}
    engine = Engine(EngineConfig(cluster="bench", source_topic=OFFSETS_TOPIC, detect=DetectConfig()))
    engine.advance(_START_MS)
    with _timed("cold", spent):
        for number in range(_QUIET_GROUPS):
            _take_up(engine, number)
        engine.advance(_START_MS + 1_000)
    with _timed("quiet", spent):
        for second in range(2, _QUIET_SECONDS + 2):
            engine.advance(_START_MS + second * 1_000)
    yield "| diagnosis at rest | |"
    yield "|---|---:|"
    yield f"| cold: {_QUIET_GROUPS:,} groups taken up and judged once | {spent['cold']:.1f} s |"
    yield f"| {_QUIET_GROUPS:,} quiet groups: share of a core | {spent['quiet'] / _QUIET_SECONDS:.1%} |"


def measure_loaded() -> Iterator[str]:
    """Yield the cost of commits of many groups, from the bytes of the input row to the bytes of lag.

    All groups have lag and none catches up. Each was quiet for two minutes, so that it is old enough to be judged.
    """
    spent: dict[str, float] = {}
    engine = Engine(EngineConfig(cluster="bench", source_topic=OFFSETS_TOPIC, detect=DetectConfig()))
    engine.advance(_START_MS)
    for number in range(_LOADED_GROUPS):
        _take_up(engine, number, end=1_000)
    for second in range(1, 130):
        engine.advance(_START_MS + second * 1_000)
    for second in range(130, 130 + _LOADED_SECONDS):
        _load(engine, second, spent)
    rate = _REQUESTS_PER_SECOND * _PARTITIONS
    yield f"| diagnosis of {_LOADED_GROUPS:,} groups x {_PARTITIONS} partitions, {rate:,} commits/s | share of a core |"
    yield "|---|---:|"
    for what, seconds in {**spent, "together": sum(spent.values())}.items():
        yield f"| {what} | {seconds / _LOADED_SECONDS:.1%} |"


def _load(engine: Engine, second: int, spent: dict[str, float]) -> None:
    now_ms, turns = (
        _START_MS + second * 1_000,
        range(second * _REQUESTS_PER_SECOND, (second + 1) * _REQUESTS_PER_SECOND),
    )
    rows = []
    for turn in turns:
        round_number, number = divmod(turn, _LOADED_GROUPS)
        commits = _commits(f"group-{number:05d}", turn, round_number + 2, now_ms)
        rows.append((commits.group.encode(), encode(commits)))
    with _timed("rows taken up", spent):
        for key, value in rows:
            row = decode_input(topics.ACTIVITY.name, key, value)
            assert row is not None, "it is an activity row"
            engine.apply(row, now_ms)
    for moment in range(_TICKS_PER_SECOND):
        at_ms = now_ms + moment * 1_000 // _TICKS_PER_SECOND
        for what, most in (("lag and windows, as bytes", 0), ("rules", None)):
            with _timed(what, spent):
                for output in engine.advance(at_ms, most=most):
                    address(output)


def _take_up(engine: Engine, number: int, *, end: int | None = None) -> None:
    """Feed an engine the rows of a group that it gets at a start: its snapshot, last commits, and end offsets.

    `end` is the end offset of each partition; with None every second group has lag.
    """
    snapshot = _snapshot(number)
    offset = 10 + number % 2 * 5 if end is None else end
    ends = {_topic(snapshot.group): TopicOffsets(list(range(_PARTITIONS)), [offset] * _PARTITIONS)}
    engine.apply(snapshot, _START_MS)
    engine.apply(_commits(snapshot.group, number, 1, _START_MS), _START_MS)
    engine.apply(OffsetActivity("bench", snapshot.group, _START_MS, ends=ends), _START_MS)


def _live(engine: Engine, groups: list[GroupSnapshot], second: int, spent: dict[str, float]) -> None:
    now_ms = _START_MS + second * 1_000
    with _timed("commits", spent):
        for number, group in enumerate(groups):
            engine.apply(_commits(group.group, number, second, now_ms), now_ms)
    with _timed("probes", spent):
        for group in groups:
            ends = {_topic(group.group): TopicOffsets(list(range(_PARTITIONS)), [second * 10 + 3] * _PARTITIONS)}
            engine.apply(OffsetActivity("bench", group.group, now_ms, ends=ends), now_ms)
    reports = [_report(group.group, member, now_ms) for group in groups for member in group.members]
    rows = pack_reports(reports, _STEP * 1_000, "bench")
    with _timed("client metrics", spent):
        for _, row in rows:
            engine.apply(row, now_ms)
    with _timed("rules, lag and windows, as bytes", spent):
        for number in range(second % _REBALANCING, _GROUPS, _REBALANCING):
            engine.apply(_rebalance(groups[number], now_ms), now_ms)
        for moment in range(_STEP):
            for output in engine.advance(now_ms + moment * 1_000):
                address(output)


@contextmanager
def _timed(what: str, spent: dict[str, float]) -> Iterator[None]:
    began = time.process_time()
    yield
    spent[what] = spent.get(what, 0.0) + time.process_time() - began


def _topic(group: str) -> str:
    return f"topic-of-{group}"


def _snapshot(number: int) -> GroupSnapshot:
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
        type=GroupType.CLASSIC,
        state=GroupState.STABLE,
        protocol_type="consumer",
        protocol="range",
        generation=1,
        members=members,
        first_seen_ms=_START_MS - 3_600_000,
        last_rebalance_ms=_START_MS - 3_000_000,
        updated_at_ms=_START_MS,
        log_partition=0,
        log_offset=number,
    )


def _commits(group: str, number: int, second: int, now_ms: int) -> CommitActivity:
    places, times = list(range(_PARTITIONS)), [now_ms - 100] * _PARTITIONS
    commits = TopicCommits(places, [second * 10] * len(places), times, times, places, [1] * len(places))
    offset, pane = second * _GROUPS + number, (now_ms - now_ms % 5_000, len(places))
    return CommitActivity("bench", group, 0, offset, offset, 5_000, (pane,), {_topic(group): commits})


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
    """Return a rebalance in which a member leaves; the engine is never told that it came back."""
    lost, kept = group.members[0], group.members[1:]
    after = tuple(replace(member, partitions=dict(member.partitions or {})) for member in kept)
    return Rebalance(
        cluster="bench",
        group=group.group,
        rebalance_id=f"0-{now_ms}",
        type="classic",
        reason="departure",
        outcome=RebalanceOutcome.COMPLETED,
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
