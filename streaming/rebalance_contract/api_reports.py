"""What the API answers of a period of the past: its sums, causes and settings, and what these would have avoided.

What `api.py` says of its rows holds here too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EstimateRange:
    """A number that lies between two others; where these are equal, it is known."""

    low: int = 0
    high: int = 0


@dataclass(frozen=True, slots=True)
class Avoided:
    """What a setting would have avoided of a number of rebalances, as far as their own rows show.

    `low` counts rebalances of which the rows show that the value would have been enough, `high` also those of which
    they leave that open. `rebalancing_ms` and `lost_partition_ms` are parts of what PeriodSums adds up. Of partitions
    whose own member was away, the time is in `high` only: they would have waited for it.
    """

    rebalances: EstimateRange = EstimateRange()
    rebalancing_ms: EstimateRange = EstimateRange()
    lost_partition_ms: EstimateRange = EstimateRange()


@dataclass(frozen=True, slots=True)
class PeriodSums:
    """What a number of rebalances come to.

    `rebalancing_ms` adds up durations, the lower bounds where the log does not show more; those that go on count for
    nothing. `lost_partition_ms` is the time that partitions were without commits, added up over partitions, of those
    rebalances for which it was reported; for `uncosted` it was not.
    """

    rebalances: int = 0
    rebalancing_ms: int = 0
    lost_partition_ms: int = 0
    uncosted: int = 0


@dataclass(frozen=True, slots=True)
class PeriodCause:
    """A diagnosis that was the primary cause of rebalances, of so many groups; `before` as in PeriodReport."""

    rule: str
    groups: int
    sums: PeriodSums
    before: PeriodSums | None


@dataclass(frozen=True, slots=True)
class PeriodGroup:
    """One group that rebalanced in the period, or in the one before.

    `owner` is its team, null where nobody is named. `causes` are at most three, the one that cost most first, with the
    sums of the group's rebalances (and `groups` of 1). `slowest_ms` is the longest rebalance and `slowest_id` its id,
    null where none has ended.
    """

    cluster: str
    group: str
    owner: str | None
    sums: PeriodSums
    before: PeriodSums | None
    causes: tuple[PeriodCause, ...]
    slowest_ms: int | None
    slowest_id: str | None


@dataclass(frozen=True, slots=True)
class GroupName:
    """Which group is meant."""

    cluster: str
    group: str


@dataclass(frozen=True, slots=True)
class PeriodSetting:
    """A setting to change, as findings advise it: `parameter`, `current` and `proposed` as in Advice.

    `sums` are of the rebalances whose primary cause has this advice, by the diagnoses in `rules`. `groups` are the
    first ten of `group_count`, the one that lost most first. Several settings may be advised against the same cause:
    their sums do not add up.
    """

    parameter: str
    current: str | None
    proposed: str
    rules: tuple[str, ...]
    groups: tuple[GroupName, ...]
    group_count: int
    sums: PeriodSums


@dataclass(frozen=True, slots=True)
class GroupEstimate:
    """What a setting would have avoided in one group; the fields are those of SettingEstimate."""

    cluster: str
    group: str
    current: str | None
    proposed: str
    avoided: Avoided
    cost: str


@dataclass(frozen=True, slots=True)
class PeriodWorth:
    """What one setting would have avoided in a period, over all groups.

    `groups` are the first five of `group_count`, the one in which it would have avoided most first, each with the value
    that its own history speaks for. Several settings may avoid the same rebalance: they do not add up.
    """

    setting: str
    avoided: Avoided
    groups: tuple[GroupEstimate, ...]
    group_count: int


@dataclass(frozen=True, slots=True)
class PeriodPart:
    """What began in a part of the period, from this time on."""

    from_ms: int
    sums: PeriodSums


@dataclass(frozen=True, slots=True)
class PeriodReport:
    """What rebalances cost in a period and why; a rebalance belongs to the period in which it began.

    `kept_since_ms` is when the earliest rebalance began that the exporter keeps, of any group, null where it keeps
    none; `dropped_until_ms` when the latest began that it has no room for, null where none had to go. What is `before`
    is of the period of the same length before this one, and null unless the exporter keeps rebalances since then.
    `known_groups` are those that are known now, `rebalanced_groups` those that rebalanced. `groups` are sorted by time
    lost, `changed` by how much that changed (empty where `before` is null), `causes` and `settings` by the time lost
    that they explain, `worth` by what would have been avoided; `unexplained` are rebalances without a finding that is
    kept. `parts` are of equal length.
    """

    at_ms: int
    version: str
    ready: bool
    ready_text: str
    since_ms: int
    until_ms: int
    cluster: str | None
    kept_since_ms: int | None
    dropped_until_ms: int | None
    known_groups: int
    rebalanced_groups: int
    sums: PeriodSums
    before: PeriodSums | None
    groups: tuple[PeriodGroup, ...]
    changed: tuple[PeriodGroup, ...]
    causes: tuple[PeriodCause, ...]
    unexplained: PeriodSums
    settings: tuple[PeriodSetting, ...]
    parts: tuple[PeriodPart, ...]
    worth: tuple[PeriodWorth, ...] = ()


@dataclass(frozen=True, slots=True)
class SettingEstimate:
    """One setting, the value that a group's own history speaks for, and what it would have avoided.

    `current` is what members had, null where no row has it. `value` is `proposed` as a number, in milliseconds or,
    of max.poll.records, in percent of what it is; null where the setting is no number. `cost` says what it costs and
    `basis` what the numbers rest on. `rebalance_ids` are at most ten that it would have avoided, the latest first,
    those that only may have been after the others.
    """

    setting: str
    current: str | None
    proposed: str
    value: int | None
    avoided: Avoided
    cost: str
    basis: str
    rebalance_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AdviceAnswer:
    """What settings would have avoided of the rebalances of one group that began since a time.

    `sums` are of these rebalances. `estimates` are sorted by what they would have avoided, the most first; several may
    avoid the same rebalance, so that they do not add up. `useless` are the settings that would have avoided nothing.
    `kept_since_ms` is when the earliest rebalance of the group began that the exporter keeps, null where it keeps
    none; `dropped_until_ms` as in PeriodReport.
    """

    at_ms: int
    ready: bool
    ready_text: str
    cluster: str
    group: str
    since_ms: int
    kept_since_ms: int | None
    dropped_until_ms: int | None
    sums: PeriodSums
    estimates: tuple[SettingEstimate, ...]
    useless: tuple[str, ...]
