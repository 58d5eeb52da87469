"""Severities of verdicts: page only if consumption is harmed now; no notification of hints and silenced findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rebalance_contract import Severity
from rebalance_streaming.detect.catalogue import diagnosis, with_trait
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.detect.findings import subject_key
from rebalance_streaming.detect.group_view import DAY_MS, GroupView
from rebalance_streaming.detect.verdict import Verdict
from rebalance_streaming.observed.confidence import CLAIMED

_UNEXPLAINED = with_trait("unexplained")


def with_severities(stated: Sequence[Verdict], view: GroupView, config: DetectConfig, *, harmed: bool) -> list[Verdict]:
    """Return all verdicts of a group with their severities; `harmed`: its consumption is harmed now."""
    recurs, group = _recurs(stated, view), view.history.group
    keys = [(each.rule, subject_key(each)) for each in stated]
    claimed = {key for key, each in zip(keys, stated, strict=True) if each.confidence >= CLAIMED}
    found = []
    for key, each in zip(keys, stated, strict=True):
        # A hint does not notify, unless its diagnosis has the trait `unsure`.
        sure = key in claimed or "unsure" in diagnosis(each.rule).traits
        heard = sure and not config.silenced(group, each.rule, view.now_ms)
        severity = _severity(each, harmed=harmed, recurs=recurs) if heard else Severity.INFO
        found.append(replace(each, severity=severity))
    return found


def _severity(verdict: Verdict, *, harmed: bool, recurs: bool) -> Severity:
    severity = verdict.severity or diagnosis(verdict.rule).severity
    if verdict.rule in _UNEXPLAINED and recurs:
        severity = Severity.TICKET
    return Severity.PAGE if severity == Severity.TICKET and harmed and verdict.primary else severity


def _recurs(stated: Iterable[Verdict], view: GroupView) -> bool:
    """Whether unexplained rebalances recur within a day, or the group's churn is as high as if they did."""
    since_ms = view.now_ms - DAY_MS
    unexplained = sum(
        each.primary and each.rule in _UNEXPLAINED and not each.is_consequence and (each.last_ms or 0) >= since_ms
        for each in stated
    )
    if unexplained >= view.thresholds.recurring_per_day:
        return True
    return unexplained > 0 and view.churn() >= view.thresholds.churn_share
