"""Answers what settings would have avoided in the rebalances that the exporter keeps: for one group, and for a report.

Receives kept rebalances with their causes; returns objects that become JSON. Each rebalance is read once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from rebalance_contract import Finding
from rebalance_contract.api import FindingRow, Readiness
from rebalance_contract.api_reports import (
    AdviceAnswer,
    Avoided,
    EstimateRange,
    GroupEstimate,
    PeriodWorth,
    SettingEstimate,
)
from rebalance_exporters.advice.absences import PastRebalance, make_past_rebalance
from rebalance_exporters.advice.advised import with_avoided
from rebalance_exporters.advice.estimator import avoids_something, estimate, worth_of
from rebalance_exporters.advice.look_back import CONTEXT_MS, LookBack, add_up, look_back
from rebalance_exporters.state.causes import PrimaryCause
from rebalance_exporters.state.fleet import RebalanceHistory
from rebalance_exporters.state.kept import GroupKey, KeptRebalance

_GROUPS_OF_SETTING = 5


def make_answer(
    past: RebalanceHistory, key: GroupKey, readiness: Readiness, since_ms: int, now_ms: int
) -> AdviceAnswer:
    """Return what settings would have avoided in a group since a time. `past` is the group's history."""
    history = _history(past, since_ms, now_ms)
    estimates = estimate(history)
    return AdviceAnswer(
        at_ms=now_ms,
        ready=readiness.ready,
        ready_text=readiness.text,
        cluster=key[0],
        group=key[1],
        since_ms=since_ms,
        kept_since_ms=min((kept.started_ms for kept, _ in past.rebalances), default=None),
        dropped_until_ms=past.dropped_until_ms,
        sums=add_up(history),
        estimates=tuple(each for each in estimates if avoids_something(each)),
        useless=tuple(each.setting for each in estimates if not avoids_something(each)),
    )


def describe_findings(
    findings: Iterable[Finding], past: RebalanceHistory, since_ms: int, now_ms: int
) -> tuple[FindingRow, ...]:
    """Return findings of one group with what their advice would have avoided since a time. `past` is its history."""
    return with_avoided(findings, _history(past, since_ms, now_ms))


def _history(past: RebalanceHistory, since_ms: int, now_ms: int) -> LookBack:
    rebalances = [_read(kept, cause) for kept, cause in past.rebalances if kept.started_ms >= since_ms - CONTEXT_MS]
    # The stream's clock may be ahead of this one: rebalances that start after `now_ms` count too.
    return look_back(
        rebalances, since_ms, max((now_ms, *(each.rebalance.started_before_ms + 1 for each in rebalances)))
    )


def find_worth(
    rebalances: Iterable[tuple[KeptRebalance, PrimaryCause | None]], since_ms: int, until_ms: int, limit: int
) -> tuple[PeriodWorth, ...]:
    """Return the settings that would have avoided most in a period, over all groups, largest first."""
    groups: dict[GroupKey, list[tuple[KeptRebalance, PrimaryCause | None]]] = defaultdict(list)
    for kept, cause in rebalances:
        if since_ms - CONTEXT_MS <= kept.started_ms < until_ms:
            groups[kept.group].append((kept, cause))
    found: dict[str, dict[GroupKey, SettingEstimate]] = defaultdict(dict)
    for key, of_group in groups.items():
        # Read group by group: a rebalance takes many times more memory when unpacked.
        history = [_read(*each) for each in of_group]
        for each in estimate(look_back(history, since_ms, until_ms)):
            if avoids_something(each):
                found[each.setting][key] = each
    described = (_describe(setting, of_groups) for setting, of_groups in found.items())
    return tuple(sorted(described, key=lambda each: (worth_of(each.avoided), each.setting))[:limit])


def _read(kept: KeptRebalance, cause: PrimaryCause | None) -> PastRebalance:
    rebalance, impact = kept.read()
    if cause is None:
        return PastRebalance(rebalance, impact)
    return make_past_rebalance(rebalance, impact, cause.rule, cause.confidence, cause.advice)


def _describe(setting: str, of_groups: Mapping[GroupKey, SettingEstimate]) -> PeriodWorth:
    first = sorted(of_groups, key=lambda key: (worth_of(of_groups[key].avoided), key))[:_GROUPS_OF_SETTING]
    return PeriodWorth(
        setting=setting,
        avoided=_sum(each.avoided for each in of_groups.values()),
        groups=tuple(_describe_group(key, of_groups[key]) for key in first),
        group_count=len(of_groups),
    )


def _describe_group(key: GroupKey, of: SettingEstimate) -> GroupEstimate:
    return GroupEstimate(*key, of.current, of.proposed, of.avoided, of.cost)


def _sum(several: Iterable[Avoided]) -> Avoided:
    each = list(several)
    return Avoided(
        _add(one.rebalances for one in each),
        _add(one.rebalancing_ms for one in each),
        _add(one.lost_partition_ms for one in each),
    )


def _add(bounds: Iterable[EstimateRange]) -> EstimateRange:
    each = list(bounds)
    return EstimateRange(sum(one.low for one in each), sum(one.high for one in each))
