"""Impossible rows are rejected before any part of them is applied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from histories import CLUSTER, GROUP, HOUR, MINUTE, T0, commits, member, probe, rebalance, snapshot
from rebalance_contract import (
    CommitGap,
    ContractError,
    CoordinatorActivity,
    CountActivity,
    CountedImpact,
    DecodeTotals,
    Finding,
    FindingState,
    GroupImpact,
    GroupLag,
    OffsetActivity,
    Probe,
    ProbeActivity,
    RebalanceImpact,
    RecordCount,
    ReportCount,
    ReportTotals,
    Severity,
    Subject,
    TopicLag,
    TopicOffsets,
    encode,
)
from rebalance_streaming.activity.probes import MOST_PARTITIONS, unpack_probe
from rebalance_streaming.observed.plausible import ImplausibleError, check, check_restored

COUNTED = CountActivity(CLUSTER, "__consumer_offsets", 7, 5, ((1, 4, "decoded", 6),))


def test_what_a_task_counted_can_be_true():
    """Of a partition without read records it contains no position."""
    check(COUNTED, T0)
    check(replace(COUNTED, last_offset=-1, counts=()), T0)


@pytest.mark.parametrize(
    "row",
    [
        replace(COUNTED, counts=((1, 4, "decoded", 2**62),)),
        replace(COUNTED, counts=((1, 4, "decoded", -1),)),
        replace(COUNTED, counts=((1, 2**64, "decoded", 6),)),
        replace(COUNTED, counts=((2**64, None, "decoded", 6),)),
        replace(COUNTED, log_era=2**64),
        replace(COUNTED, partition=-1),
        replace(COUNTED, partition=2**31),
        replace(COUNTED, last_offset=2**63 - 1),
    ],
)
def test_numbers_that_no_task_can_have_counted_are_refused(row: CountActivity):
    """Otherwise totals would need more than 64 bits, and exporters could not read them."""
    with pytest.raises(ImplausibleError):
        check(row, T0)


@pytest.mark.parametrize("name", ["started_at_ms", "join_ended_at_ms", "assigned_at_ms"])
def test_generations_of_a_time_that_cannot_be_are_refused(name: str):
    """Rules count epochs from when they started."""
    row = rebalance(T0, [], [member("a-1", [0, 1])])
    (generation,) = row.generations
    check(replace(row, generations=(replace(generation, **{name: T0}),)), T0)
    for at_ms in (-1, T0 + 48 * HOUR):
        with pytest.raises(ImplausibleError):
            check(replace(row, generations=(replace(generation, **{name: at_ms}),)), T0)


@pytest.mark.parametrize("column", ["committed_at_ms", "first_at_ms"])
def test_commits_of_a_time_that_cannot_be_are_refused(column: str):
    """Exporters reject the lag of a group that began to commit in the year 1."""
    row = commits(T0, {0: 1, 1: 2})
    check(row, T0)
    for times in ([T0, -62_135_596_800_001], [T0, 2**52], [T0]):
        odd = replace(row, topics={"orders": replace(row.topics["orders"], **{column: times})})
        with pytest.raises(ImplausibleError):
            check(odd, T0)


@pytest.mark.parametrize(
    "fields",
    [
        {"pane_ms": 0},
        {"pane_ms": 2**63},
        {"first_log_offset": -1},
        {"log_era": 2**63},
        {"log_partition": MOST_PARTITIONS},
        {"pane_counts": ((T0, 1), (T0, 2**63))},
        {"pane_counts": ((-1, 1),)},
    ],
)
def test_commits_of_no_pane_or_place_are_refused(fields: dict[str, Any]):
    """Commit rhythms divide by the width of a pane, and arrays have 64 bits."""
    row = commits(T0, {0: 1, 1: 2})
    with pytest.raises(ImplausibleError):
        check(replace(row, **fields), T0)


@pytest.mark.parametrize("column", ["offsets", "log_offsets", "commits"])
def test_commits_of_numbers_that_cannot_be_are_refused(column: str):
    """Each column has one number for each partition."""
    row = commits(T0, {0: 1, 1: 2})
    for numbers in ([1, 2**63], [1, -1], [1], []):
        odd = replace(row, topics={"orders": replace(row.topics["orders"], **{column: numbers})})
        with pytest.raises(ImplausibleError):
            check(odd, T0)


@pytest.mark.parametrize("kind", ["ends", "stable_ends", "committed"])
def test_offsets_of_each_kind_are_looked_at(kind: str):
    """With many topics, one impossible value is found; a null offset is possible."""
    right = {f"t-{number}": TopicOffsets([0, MOST_PARTITIONS - 1], [None, 2**62]) for number in range(1_000)}
    check(OffsetActivity(CLUSTER, GROUP, T0, **{kind: right}), T0)
    odd = (
        TopicOffsets([MOST_PARTITIONS], [5]),
        TopicOffsets([-1], [5]),
        TopicOffsets([0], [-5]),
        TopicOffsets([0], [2**63]),
        TopicOffsets([0, 1], [5]),
    )
    for each in odd:
        with pytest.raises(ImplausibleError):
            check(OffsetActivity(CLUSTER, GROUP, T0, **{kind: {**right, "t-500": each}}), T0)
    with pytest.raises(ImplausibleError):
        check(OffsetActivity(CLUSTER, GROUP, T0, **{kind: {f"t-{n}": right["t-0"] for n in range(10_001)}}), T0)


def test_what_is_taken_of_a_probe_can_be_true():
    """The same bound on partitions applies when probes are split and when their rows are read."""

    def rows(partition: int) -> list[object]:
        offsets = {"orders": {str(partition): 5}}
        text = encode(
            Probe(probed_at_ms=T0, cluster=CLUSTER, group=GROUP, end_offsets=offsets, committed_offsets=offsets)
        )
        return [row for _, row in unpack_probe(text, CLUSTER, T0, T0)]

    for row in rows(MOST_PARTITIONS - 1):
        check(row, T0)
    with pytest.raises(ContractError):
        rows(MOST_PARTITIONS)


def test_a_pane_of_a_broker_log_has_a_time_that_can_be():
    """It is separate from the times of its events, of which there may be none."""
    check(CoordinatorActivity(CLUSTER, GROUP, T0, ()), T0)
    for start_ms in (-1, T0 + 5_000 * MINUTE):
        with pytest.raises(ImplausibleError):
            check(CoordinatorActivity(CLUSTER, GROUP, start_ms, ()), T0)


@pytest.mark.parametrize("group", ["g" * 32_767, "\u00e9" * 16_383])
def test_a_group_id_is_no_longer_than_kafka_can_write_it(group: str):
    """A longer one would be the key of a row that no exporter accepts."""

    def named(group_id: str) -> list[object]:
        asked = replace(probe(T0, "Stable", []), group=group_id)
        return [
            replace(commits(T0, {0: 1}), group=group_id),
            replace(snapshot(T0), group=group_id),
            ProbeActivity(asked),
        ]

    for row in named(group):
        check(row, T0)
    for row in named(group + "gg"):
        with pytest.raises(ImplausibleError):
            check(row, T0)


LAG = GroupLag(
    CLUSTER,
    GROUP,
    T0,
    topics={"orders": TopicLag([0, 2], [5, 7], [None, 1], 1)},
    commits=9,
    first_commit_ms=T0 - MINUTE,
    last_commit_ms=T0,
    log_partition=7,
    last_log_offset=12,
)
COST = RebalanceImpact(
    CLUSTER, GROUP, "one", (CommitGap("orders", 0, T0 - MINUTE, T0),), 60_000, 5, 9, T0, prepared_at_ms=T0 - MINUTE
)
COSTS = GroupImpact(CLUSTER, GROUP, counted={"one": CountedImpact(1, 0, 60_000, T0)})
FOUND = Finding(
    "id", CLUSTER, GROUP, "a_rule", Severity.INFO, FindingState.FIRING, True, 0.9, Subject(), T0, T0, T0, None, "so"
)
RECORDS = DecodeTotals(CLUSTER, "activity", (RecordCount("activity", 1, 4, "decoded", 6),), {"offsets/7": (0, 5)})
REPORTS = ReportTotals(CLUSTER, (ReportCount("metrics", "decoded", 6),), {"metrics/0": (0, -1)})


@pytest.mark.parametrize("row", [LAG, COST, COSTS, FOUND, RECORDS, REPORTS], ids=lambda row: type(row).__name__)
@pytest.mark.parametrize("now_ms", [0, T0 + MINUTE])
def test_what_an_earlier_run_published_can_be_true(row: object, now_ms: int):
    """Whether the time is known or not."""
    check_restored(row, now_ms)


def on_topic(partitions: list[int], committed: list[int]) -> GroupLag:
    """Return a row of lag on one topic."""
    return replace(LAG, topics={"orders": TopicLag(partitions, committed, [], None)})


@pytest.mark.parametrize(
    "row",
    [
        replace(LAG, group="g" * 32_768),
        replace(LAG, at_ms=2**60),
        replace(LAG, at_ms=T0 + 5_000 * MINUTE),
        replace(LAG, last_commit_ms=-1),
        replace(LAG, first_commit_ms=2**52),
        replace(LAG, commits=2**63),
        replace(LAG, log_partition=MOST_PARTITIONS),
        replace(LAG, last_log_offset=-1),
        replace(LAG, log_era=2**63),
        replace(LAG, topics={f"topic-{number}": TopicLag([0], [5], [0], 0) for number in range(10_001)}),
        on_topic([0, 1], [5]),
        on_topic([1, 0], [5, 5]),
        on_topic([0, MOST_PARTITIONS], [5, 5]),
        on_topic([0], [2**63]),
        replace(COST, prepared_at_ms=2**52),
        replace(COST, lag_peak=2**63),
        replace(COST, lost_partition_ms=2**62),
        replace(COST, silences=(CommitGap("orders", -1, T0, T0),)),
        replace(COST, silences=(CommitGap("orders", 0, T0, 2**62),)),
        replace(COSTS, closed_until_ms=2**60),
        replace(COSTS, earlier=CountedImpact(2**62)),
        replace(COSTS, counted={"one": CountedImpact(started_at_ms=2**60)}),
        replace(FOUND, detected_at_ms=2**60),
        replace(FOUND, rebalances=2**63),
        replace(RECORDS, records=(RecordCount("activity", 1, 4, "decoded", 2**62),)),
        replace(RECORDS, positions={"offsets/7": (0, 2**63)}),
        replace(REPORTS, reports=(ReportCount("metrics", "decoded", -1),)),
        replace(REPORTS, positions={"metrics/0": (2**63, 5)}),
    ],
)
def test_what_no_run_can_have_published_is_not_restored(row: object):
    """Rows of a far future would override all later ones, and totals would need more than 64 bits."""
    with pytest.raises(ImplausibleError):
        check_restored(row, T0)
