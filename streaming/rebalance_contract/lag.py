"""Lag and sliding windows of one group, as the diagnosis computes them."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_contract.codec import SCHEMA_VERSION

#: The sliding windows by name, in milliseconds.
WINDOWS_MS = {"1m": 60_000, "5m": 300_000, "15m": 900_000}


@dataclass(frozen=True, slots=True)
class TopicLag:
    """Lag of a group on one topic, as parallel lists over its committed partitions, in records.

    `lags` is null where the end of a partition is not known; `total` is the sum of the known ones, null if there is
    none.
    `is_truncated`: partitions were left out so that the row fits; `total` counts them.
    """

    partitions: list[int]
    committed: list[int]
    lags: list[int | None]
    total: int | None
    is_truncated: bool = False


@dataclass(frozen=True, slots=True)
class GroupWindow:
    """One sliding window over event time that ends at the row's `at_ms`.

    `rebalancing_ratio` is the share of the window spent rebalancing, 0 to 1; `commits` counts commit records.
    `lag_max` is the largest lag in records, null without a measurement; `lag_slope` is its growth in records per
    second, null without two measurements. `lost_partition_ms` is the time that partitions had no commits because of
    rebalances; it is null if the log is not read, and so are generations.
    """

    generations_completed: int | None = 0
    generations_aborted: int | None = 0
    rebalances: int = 0
    rebalancing_ratio: float = 0.0
    commits: int = 0
    lag_max: int | None = None
    lag_slope: float | None = None
    lost_partition_ms: int | None = 0

    @property
    def generation_changes(self) -> int | None:
        """Number of generations, with or without an assignment; null if not known."""
        if self.generations_completed is None or self.generations_aborted is None:
            return None
        return self.generations_completed + self.generations_aborted


@dataclass(frozen=True, slots=True)
class GroupLag:
    """Lag and windows of one group: topic `…lag`, key `cluster/group`.

    `total` is the lag in records over all topics whose ends are known, null if none is. `oldest_unread_ms` is the
    earliest time at which the oldest unread record may have been written: null without lag, or if no probe reports it.
    The true time is at most `oldest_unread_error_ms` later; with `oldest_unread_is_bound` it may be arbitrarily
    earlier. `commits` counts the commits since the monitor first saw the group. `first_commit_ms` and `last_commit_ms`
    are the coordinator's times of the oldest and the newest of them, null if there is none. `log_partition` is the
    group's partition of the log, `last_log_offset` the position of its newest commit there, which is valid only within
    `log_era`; both are null if the log is not read. `windows` are named as in `WINDOWS_MS`. `is_truncated`: topics or
    partitions were left out so that the row fits; `total` includes them.
    """

    cluster: str
    group: str
    at_ms: int
    total: int | None = None
    topics: dict[str, TopicLag] = field(default_factory=dict)
    oldest_unread_ms: int | None = None
    oldest_unread_error_ms: int = 0
    oldest_unread_is_bound: bool = False
    commits: int = 0
    first_commit_ms: int | None = None
    last_commit_ms: int | None = None
    log_partition: int | None = None
    last_log_offset: int | None = None
    log_era: int = 0
    windows: dict[str, GroupWindow] = field(default_factory=dict)
    is_truncated: bool = False
    schema_version: int = SCHEMA_VERSION

    def time_lag_ms(self, now_ms: int) -> int | None:
        """Return the age of the oldest unread record in milliseconds; 0 without lag, null while lag is unknown."""
        if self.total is None:
            return None
        return 0 if self.oldest_unread_ms is None else max(0, now_ms - self.oldest_unread_ms)
