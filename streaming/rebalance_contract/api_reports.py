"""Responses of the API about a past period: its sums, causes and settings, and what settings would have avoided.

The rules of `api.py` for its rows apply here too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EstimateRange:
    """A number between two bounds; it is exact if they are equal."""

    low: int = 0
    high: int = 0


@dataclass(frozen=True, slots=True)
class Avoided:
    """The part of a number of rebalances that a setting would have avoided, as far as their own rows show.

    `low` counts rebalances for which the rows show that the value would have been enough, `high` also those for which
    they leave it open. `rebalancing_ms` and `lost_partition_ms` are the avoided parts of the sums in PeriodSums. The
    lost time of partitions whose own member was away is in `high` only: they would have waited for it.
    """

    rebalances: EstimateRange = EstimateRange()
    rebalancing_ms: EstimateRange = EstimateRange()
    lost_partition_ms: EstimateRange = EstimateRange()


@dataclass(frozen=True, slots=True)
class PeriodSums:
    """Sums over a number of rebalances.

    `rebalancing_ms` is the sum of durations, of their lower bounds if the log does not show more; ongoing rebalances
    are not included. `lost_partition_ms` is the time that partitions were without commits, summed over partitions, of
    those rebalances for which it was reported; `uncosted` is the number of the others.
    """

    rebalances: int = 0
    rebalancing_ms: int = 0
    lost_partition_ms: int = 0
    uncosted: int = 0


@dataclass(frozen=True, slots=True)
class PeriodCause:
    """A diagnosis that was the primary cause of rebalances in `groups` groups; `before` as in PeriodReport."""

    rule: str
    groups: int
    sums: PeriodSums
    before: PeriodSums | None


@dataclass(frozen=True, slots=True)
class PeriodGroup:
    """One group that rebalanced in the period, or in the one before.

    `owner` is its team, null if none is configured. `causes` are at most three, the most costly first, with the sums of
    the group's rebalances (and `groups` of 1). `slowest_ms` is the duration of the longest rebalance and `slowest_id`
    its id, null if none has ended.
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
    """Identifies a group."""

    cluster: str
    group: str


@dataclass(frozen=True, slots=True)
class PeriodSetting:
    """A setting to change, as advised by findings: `parameter`, `current` and `proposed` as in Advice.

    `sums` are over the rebalances whose primary cause has this advice; `rules` are the diagnoses. `groups` are the
    first ten of `group_count`, the one that lost most first. Several settings may be advised against the same cause, so
    their sums must not be added.
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
    """What a setting would have avoided in one group; for the fields see SettingEstimate."""

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
    derived from its own history. Several settings may avoid the same rebalance, so estimates must not be added.
    """

    setting: str
    avoided: Avoided
    groups: tuple[GroupEstimate, ...]
    group_count: int


@dataclass(frozen=True, slots=True)
class PeriodPart:
    """Rebalances that began in one part of the period; the part starts at this time."""

    from_ms: int
    sums: PeriodSums


@dataclass(frozen=True, slots=True)
class PeriodReport:
    """What rebalances cost in a period and why; a rebalance belongs to the period in which it began.

    `kept_since_ms` is the start of the earliest rebalance of any group that the exporter keeps, null if it keeps none;
    `dropped_until_ms` is the start of the latest one that it dropped for lack of space, null if it dropped none.
    `before` refers to the preceding period of the same length, and is null unless the exporter keeps rebalances since
    its beginning. `known_groups` counts the groups known now, `rebalanced_groups` those that rebalanced. `groups` are
    sorted by lost time, `changed` by its change (empty if `before` is null), `causes` and `settings` by the lost time
    that they explain, `worth` by what would have been avoided; `unexplained` counts rebalances without a finding that
    is kept. `parts` are of equal length.
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
    """One setting, the value derived from a group's own history, and what it would have avoided.

    `current` is the members' value, null if no row contains it. `value` is `proposed` as a number, in milliseconds or,
    for max.poll.records, in percent of the current value; null if the setting is not a number. `cost` is the drawback
    of the value and `basis` what the numbers are based on. `rebalance_ids` are at most ten rebalances that it would
    have avoided, latest first, followed by those that it may have avoided.
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
    """What settings would have avoided of one group's rebalances that began since a time.

    `sums` are over these rebalances. `estimates` are sorted by what they would have avoided, the most first; several
    may avoid the same rebalance, so they must not be added. `useless` are the settings that would have avoided nothing.
    `kept_since_ms` is the start of the group's earliest rebalance that the exporter keeps, null if it keeps none;
    `dropped_until_ms` is defined as in PeriodReport.
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
