"""The metrics of a group's lag, commits and sliding windows, read from a row of the lag topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rebalance_contract import GroupLag, GroupWindow
from rebalance_exporters.metrics.series import WINDOW, Metric, Samples, in_seconds, one_sample, window_samples


@dataclass(frozen=True, slots=True)
class LagMoment:
    """A group's lag and the present time, for values that change with the clock alone."""

    lag: GroupLag
    now_ms: int


def _per_window(read: Callable[[GroupWindow], float | None]) -> Callable[[GroupLag], Samples]:
    """Turn a reader of one window into a reader of all existing windows."""
    return lambda lag: window_samples(lag.windows, read)


def _read_topic_lag(lag: GroupLag) -> Samples:
    topics = lag.topics
    return [((name,), total) for name in sorted(topics) if (total := topics[name].total) is not None]


def _read_topic_committed(lag: GroupLag) -> Samples:
    # Only partitions that topic_lag counts too; otherwise the two would not add up to what was produced.
    return [
        ((name,), sum(at for at, lag in zip(topic.committed, topic.lags, strict=True) if lag is not None))
        for name, topic in sorted(lag.topics.items())
        if topic.total is not None and not topic.is_truncated
    ]


def _read_partition_lag(lag: GroupLag) -> Samples:
    return [
        ((name, str(partition)), records)
        for name, topic in sorted(lag.topics.items())
        for partition, records in zip(topic.partitions, topic.lags, strict=True)
        if records is not None
    ]


def _read_commit_age(moment: LagMoment) -> Samples:
    last_ms = moment.lag.last_commit_ms
    return one_sample(None if last_ms is None else max(0, moment.now_ms - last_ms) / 1000)


def _read_time_lag(moment: LagMoment) -> Samples:
    return one_sample(in_seconds(moment.lag.time_lag_ms(moment.now_ms)))


#: Rendered once per lag row of a group.
WINDOW_METRICS: tuple[Metric[GroupLag], ...] = (
    Metric(
        "window_generation_changes",
        "gauge",
        "Generations, or group epochs, of the last 1, 5 and 15 minutes, completed and aborted.",
        WINDOW,
        _per_window(lambda window: window.generation_changes),
        unused="For rules that compare generations with rebalances, of which several generations may be one.",
    ),
    Metric(
        "window_rebalances",
        "gauge",
        "Logical rebalances of the last 1, 5 and 15 minutes.",
        WINDOW,
        _per_window(lambda window: window.rebalances),
    ),
    Metric(
        "window_rebalancing_ratio",
        "gauge",
        "Share of the last 1, 5 and 15 minutes that the group spent rebalancing, 0 to 1.",
        WINDOW,
        _per_window(lambda window: window.rebalancing_ratio),
    ),
)

#: Rendered once per lag row of a group.
LAG_METRICS: tuple[Metric[GroupLag], ...] = (
    Metric(
        "group_lag",
        "gauge",
        "Records between what the group committed and the end of its partitions, as of the last probe. Absent while no "
        "end offset is known, and, like all lag, once the last probe is more than two minutes old: see "
        "`monitor_last_probe_timestamp_seconds`.",
        (),
        lambda lag: one_sample(lag.total),
    ),
    Metric("topic_lag", "gauge", "The group's lag per topic, in records.", ("topic",), _read_topic_lag),
    Metric(
        "topic_committed_offset",
        "gauge",
        "Offsets the group has committed, summed over the topic's partitions whose end is known. Its growth is what "
        "the group processes; together with the growth of topic_lag it is what is produced. Use deriv(), not rate(): "
        "it falls when offsets are reset. Absent where the row had no room for all partitions.",
        ("topic",),
        _read_topic_committed,
    ),
    Metric(
        "window_commits",
        "gauge",
        "Offset commits of the last 1, 5 and 15 minutes.",
        WINDOW,
        _per_window(lambda window: window.commits),
    ),
    Metric(
        "window_lag_max",
        "gauge",
        "Largest lag probed in the last 1, 5 and 15 minutes, in records.",
        WINDOW,
        _per_window(lambda window: window.lag_max),
    ),
    Metric(
        "window_lag_slope",
        "gauge",
        "How fast the lag grows (or, below 0, shrinks) over the last 1, 5 and 15 minutes, in records per second.",
        WINDOW,
        _per_window(lambda window: window.lag_slope),
    ),
)

#: Off by default: a series per committed partition.
PARTITION_LAG: Metric[GroupLag] = Metric(
    "partition_lag", "gauge", "The group's lag per partition, in records.", ("topic", "partition"), _read_partition_lag
)

#: Rendered at every scrape.
COMMIT_AGE: Metric[LagMoment] = Metric(
    "group_commit_age_seconds",
    "gauge",
    "Time since the group's last offset commit. If it grows although the group has work, the group makes no progress. "
    "Absent while no commit was read, and while the diagnosis is silent.",
    (),
    _read_commit_age,
)

#: Rendered at every scrape.
TIME_LAG: Metric[LagMoment] = Metric(
    "group_time_lag_seconds",
    "gauge",
    "Age of the oldest record that the group has not committed: an upper bound, too large by no more than an eighth or "
    "one probe interval. Only a lower bound for records older than the prober's memory.",
    (),
    _read_time_lag,
)
