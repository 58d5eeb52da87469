"""Adds to the advice of findings what it would have avoided, where that can be estimated.

Receives findings of one group and its past; returns the same findings as the API reports them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_contract import Advice, Finding
from rebalance_contract.api import AdviceRow, FindingRow
from rebalance_contract.api_reports import Avoided
from rebalance_contract.client_settings import GROUP_SESSION_NAMES
from rebalance_exporters.advice.absence_estimates import POLL_INTERVAL_OF_CONNECT
from rebalance_exporters.advice.estimates import Setting
from rebalance_exporters.advice.estimator import avoids_something, estimate_one
from rebalance_exporters.advice.look_back import LookBack, add_up
from rebalance_exporters.advice.values import read_ms, read_share
from rebalance_exporters.text.avoided import saved

_SETTINGS = {
    **{each.value: each for each in Setting},
    **dict.fromkeys(GROUP_SESSION_NAMES, Setting.SESSION),
    POLL_INTERVAL_OF_CONNECT: Setting.MAX_POLL_INTERVAL,
}


def with_avoided(findings: Iterable[Finding], past: LookBack) -> tuple[FindingRow, ...]:
    """Return findings of one group with what their advice would have avoided in the period of `past`."""
    known: dict[tuple[Setting, int | None], Avoided | None] = {}
    return tuple(_make_row(each, past, known) for each in findings)


def without_avoided(finding: Finding) -> FindingRow:
    """Return a finding without estimates."""
    return _copy(finding, tuple(_row(each, None) for each in finding.advice))


def _make_row(finding: Finding, past: LookBack, known: dict[tuple[Setting, int | None], Avoided | None]) -> FindingRow:
    rows = []
    for each in finding.advice:
        change = _read(each)
        if change is not None and change not in known:
            known[change] = _estimate(past, *change)
        rows.append(_row(each, None if change is None else known[change]))
    return _copy(finding, tuple(rows))


def _estimate(past: LookBack, setting: Setting, value: int | None) -> Avoided | None:
    """Return what a change would have avoided, null if that is not known."""
    if not add_up(past).rebalances:
        return None
    found = estimate_one(past, setting, value)
    # If a name or a protocol seems to avoid nothing, that is not known: the estimate assumes that all else stays the
    # same.
    return found.avoided if value is not None or avoids_something(found) else None


def _read(advice: Advice) -> tuple[Setting, int | None] | None:
    """Return the setting of a piece of advice and its value as `estimate` takes it; null if there is no estimate."""
    setting = _SETTINGS.get(advice.parameter.partition(" ")[0])
    if setting is None:
        return None
    if setting is Setting.MAX_POLL_RECORDS:
        share = read_share(advice)
        return None if share is None else (setting, share)
    if setting in (Setting.SESSION, Setting.MAX_POLL_INTERVAL, Setting.INITIAL_DELAY):
        value = read_ms(advice)
        return None if value is None else (setting, value)
    return setting, None


def _row(advice: Advice, avoided: Avoided | None) -> AdviceRow:
    text = None if avoided is None else f"would have avoided {saved(avoided)} in the last 24 h"
    return AdviceRow(advice.parameter, advice.current, advice.proposed, advice.formula, avoided, text)


def _copy(finding: Finding, advice: tuple[AdviceRow, ...]) -> FindingRow:
    fields = {name: getattr(finding, name) for name in Finding.__dataclass_fields__}
    return FindingRow(**fields | {"advice": advice})
