"""Report on a past period: what rebalances cost, in which groups and why, and which settings would have helped.

Receives the kept rebalances, a snapshot of the fleet and the period; returns objects to encode as JSON. Each rebalance
is visited once, and once more to find what settings would have avoided, so the cost is linear in their number. Does not
depend on HTTP.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from rebalance_contract import Advice
from rebalance_contract.api import Readiness
from rebalance_contract.api_reports import (
    GroupName,
    PeriodCause,
    PeriodGroup,
    PeriodPart,
    PeriodReport,
    PeriodSetting,
    PeriodSums,
)
from rebalance_exporters.advice.answers import find_worth
from rebalance_exporters.owners import Owners
from rebalance_exporters.state.causes import PrimaryCause
from rebalance_exporters.state.fleet import FleetSnapshot, RebalanceHistory
from rebalance_exporters.state.kept import GroupKey, KeptRebalance

_T = TypeVar("_T")

#: Number of parts of a period; of a week each part is a quarter of a day.
PARTS = 28
_CAUSES_OF_GROUP, _GROUPS_OF_SETTING = 3, 10
#: Parameters of advice that names neither a setting nor a version.
_NO_SETTING = frozenset({"code", "operation"})


class Period(NamedTuple):
    """From `since_ms` to before `until_ms`; a null `cluster` means all clusters, `limit` bounds each list."""

    since_ms: int
    until_ms: int
    cluster: str | None = None
    limit: int = 20

    @property
    def before_ms(self) -> int:
        """Start of the previous period of the same length."""
        return 2 * self.since_ms - self.until_ms


@dataclass(slots=True)
class _Sums:
    rebalances: int = 0
    rebalancing_ms: int = 0
    lost_partition_ms: int = 0
    uncosted: int = 0

    def add(self, kept: KeptRebalance) -> None:
        self.rebalances += 1
        self.rebalancing_ms += kept.duration_ms or 0
        if kept.impact is None:
            self.uncosted += 1
        else:
            self.lost_partition_ms += kept.impact.lost_partition_ms

    def add_all(self, other: _Sums) -> None:
        self.rebalances += other.rebalances
        self.rebalancing_ms += other.rebalancing_ms
        self.lost_partition_ms += other.lost_partition_ms
        self.uncosted += other.uncosted

    @property
    def weight(self) -> tuple[int, int, int]:
        """Sort key, the largest sums first."""
        return -self.lost_partition_ms, -self.rebalancing_ms, -self.rebalances

    def as_row(self) -> PeriodSums:
        return PeriodSums(self.rebalances, self.rebalancing_ms, self.lost_partition_ms, self.uncosted)


@dataclass(slots=True)
class _GroupSums:
    """Sums of one group: `causes` by rule, `settings` by rule and parameter."""

    now: _Sums = field(default_factory=_Sums)
    before: _Sums = field(default_factory=_Sums)
    causes: dict[str, _Sums] = field(default_factory=lambda: defaultdict(_Sums))
    causes_before: dict[str, _Sums] = field(default_factory=lambda: defaultdict(_Sums))
    settings: dict[tuple[str, str], _AdviceSums] = field(default_factory=dict)
    slowest: KeptRebalance | None = None


@dataclass(slots=True)
class _AdviceSums:
    """The latest version of a piece of advice, and sums of the rebalances whose cause has it."""

    advice: Advice
    age: tuple[int, str]
    sums: _Sums = field(default_factory=_Sums)


@dataclass(slots=True)
class _SettingSums:
    rules: set[str] = field(default_factory=set)
    groups: dict[GroupKey, _Sums] = field(default_factory=lambda: defaultdict(_Sums))
    sums: _Sums = field(default_factory=_Sums)


def make_report(
    past: RebalanceHistory,
    fleet: FleetSnapshot,
    readiness: Readiness,
    now_ms: int,
    period: Period,
    *,
    version: str,
    owners: Owners,
) -> PeriodReport:
    """Return the report on a period."""
    kept_since_ms = min((kept.started_ms for kept, _ in past.rebalances), default=None)
    is_compared = kept_since_ms is not None and kept_since_ms <= period.before_ms
    groups, parts, unexplained = _add_up(past.rebalances, period)
    now, before = _Sums(), _Sums()
    for group_sums in groups.values():
        now.add_all(group_sums.now)
        before.add_all(group_sums.before)

    def describe(key: GroupKey) -> PeriodGroup:
        return _describe_group(key, groups[key], owners, is_compared=is_compared)

    rebalanced = [key for key, each in groups.items() if each.now.rebalances]
    worst = _first(rebalanced, period.limit, lambda key: (groups[key].now.weight, key))
    changed = [key for key, each in groups.items() if is_compared and each.now.weight != each.before.weight]
    return PeriodReport(
        at_ms=now_ms,
        version=version,
        ready=readiness.ready,
        ready_text=readiness.text,
        since_ms=period.since_ms,
        until_ms=period.until_ms,
        cluster=period.cluster,
        kept_since_ms=kept_since_ms,
        dropped_until_ms=past.dropped_until_ms,
        known_groups=sum(period.cluster in {None, key[0]} for key in fleet.groups),
        rebalanced_groups=len(rebalanced),
        sums=now.as_row(),
        before=before.as_row() if is_compared else None,
        groups=tuple(map(describe, worst)),
        changed=tuple(map(describe, _first(changed, period.limit, lambda key: (_change(groups[key]), key)))),
        causes=_describe_causes(groups.values(), period.limit, is_compared=is_compared),
        unexplained=unexplained.as_row(),
        settings=_describe_settings(groups, period.limit),
        parts=tuple(PeriodPart(from_ms, sums.as_row()) for from_ms, sums in parts),
        worth=find_worth(_of_cluster(past, period.cluster), period.since_ms, period.until_ms, period.limit),
    )


def _of_cluster(past: RebalanceHistory, cluster: str | None) -> Iterable[tuple[KeptRebalance, PrimaryCause | None]]:
    return (each for each in past.rebalances if cluster in {None, each[0].group[0]})


def _add_up(
    rebalances: Iterable[tuple[KeptRebalance, PrimaryCause | None]], period: Period
) -> tuple[Mapping[GroupKey, _GroupSums], list[tuple[int, _Sums]], _Sums]:
    """Return the sums by group, by part of the period with its start, and of the rebalances without a cause."""
    groups: dict[GroupKey, _GroupSums] = defaultdict(_GroupSums)
    length_ms, unexplained = period.until_ms - period.since_ms, _Sums()
    parts = [(period.since_ms + length_ms * part // PARTS, _Sums()) for part in range(PARTS)]
    for kept, cause in rebalances:
        if period.cluster not in {None, kept.group[0]}:
            continue
        if period.since_ms <= kept.started_ms < period.until_ms:
            _add(groups[kept.group], kept, cause)
            parts[(kept.started_ms - period.since_ms) * PARTS // length_ms][1].add(kept)
            if cause is None:
                unexplained.add(kept)
        elif period.before_ms <= kept.started_ms < period.since_ms:
            group_sums = groups[kept.group]
            group_sums.before.add(kept)
            if cause is not None:
                group_sums.causes_before[cause.rule].add(kept)
    return groups, parts, unexplained


def _add(group_sums: _GroupSums, kept: KeptRebalance, cause: PrimaryCause | None) -> None:
    group_sums.now.add(kept)
    if group_sums.slowest is None or _length(kept) > _length(group_sums.slowest):
        group_sums.slowest = kept
    if cause is None:
        return
    group_sums.causes[cause.rule].add(kept)
    # Of several proposals for one setting the first is to be tried first.
    advised = {each.parameter: each for each in reversed(cause.advice) if each.parameter not in _NO_SETTING}
    for parameter, advice in advised.items():
        known = group_sums.settings.setdefault((cause.rule, parameter), _AdviceSums(advice, cause.age))
        if cause.age > known.age:
            known.advice, known.age = advice, cause.age
        known.sums.add(kept)


def _length(kept: KeptRebalance) -> tuple[int, int, str]:
    """Return the sort key by duration; start and id break ties, so that two exporters name the same rebalance."""
    return kept.duration_ms or 0, kept.started_ms, kept.rebalance_id


def _change(group_sums: _GroupSums) -> tuple[int, ...]:
    """Return the sort key by change: the largest first, for better or worse."""
    pairs = zip(group_sums.now.weight, group_sums.before.weight, strict=True)
    return tuple(-abs(now - before) for now, before in pairs)


def _describe_group(key: GroupKey, group_sums: _GroupSums, owners: Owners, *, is_compared: bool) -> PeriodGroup:
    rules = _first(group_sums.causes, _CAUSES_OF_GROUP, lambda rule: (group_sums.causes[rule].weight, rule))
    slowest = group_sums.slowest
    return PeriodGroup(
        *key,
        owner=owners.team_of(*key),
        sums=group_sums.now.as_row(),
        before=group_sums.before.as_row() if is_compared else None,
        causes=tuple(
            PeriodCause(
                rule,
                1,
                group_sums.causes[rule].as_row(),
                group_sums.causes_before.get(rule, _Sums()).as_row() if is_compared else None,
            )
            for rule in rules
        ),
        slowest_ms=None if slowest is None else slowest.duration_ms,
        slowest_id=None if slowest is None or slowest.duration_ms is None else slowest.rebalance_id,
    )


def _describe_causes(groups: Iterable[_GroupSums], limit: int, *, is_compared: bool) -> tuple[PeriodCause, ...]:
    found: dict[str, _Sums] = defaultdict(_Sums)
    before: dict[str, _Sums] = defaultdict(_Sums)
    concerned: dict[str, int] = defaultdict(int)
    for group_sums in groups:
        for rule, sums in group_sums.causes.items():
            found[rule].add_all(sums)
            concerned[rule] += 1
        for rule, sums in group_sums.causes_before.items():
            before[rule].add_all(sums)
    return tuple(
        PeriodCause(rule, concerned[rule], found[rule].as_row(), before[rule].as_row() if is_compared else None)
        for rule in _first(found, limit, lambda rule: (found[rule].weight, rule))
    )


def _describe_settings(groups: Mapping[GroupKey, _GroupSums], limit: int) -> tuple[PeriodSetting, ...]:
    found: dict[tuple[str, str | None, str], _SettingSums] = defaultdict(_SettingSums)
    for key, group_sums in groups.items():
        for (rule, parameter), advised in group_sums.settings.items():
            setting = found[parameter, advised.advice.current, advised.advice.proposed]
            setting.rules.add(rule)
            setting.groups[key].add_all(advised.sums)
            setting.sums.add_all(advised.sums)
    chosen = _first(found, limit, lambda each: (found[each].sums.weight, each[0], each[1] or "", each[2]))
    return tuple(_describe_setting(each, found[each]) for each in chosen)


def _describe_setting(advice: tuple[str, str | None, str], setting: _SettingSums) -> PeriodSetting:
    groups = _first(setting.groups, _GROUPS_OF_SETTING, lambda key: (setting.groups[key].weight, key))
    return PeriodSetting(
        *advice,
        rules=tuple(sorted(setting.rules)),
        groups=tuple(GroupName(*key) for key in groups),
        group_count=len(setting.groups),
        sums=setting.sums.as_row(),
    )


def _first(things: Iterable[_T], limit: int, key: Callable[[_T], tuple[Any, ...]]) -> list[_T]:
    return heapq.nsmallest(limit, things, key=key)
