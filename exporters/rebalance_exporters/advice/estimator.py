"""Estimates what settings would have avoided, from the rows of one group's rebalances.

Receives rebalances with their impacts and causes; returns estimates. Pure: no clock, no I/O. A value avoids a rebalance
if every member that left or joined in it did so because of an absence that the value would have covered. That is
certain if the whole range of the absence lies below the value and the diagnosis agrees, and possible if the row leaves
it open. What a value would have caused, such as a death that is noticed later, is reported as its cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rebalance_contract.api_reports import Avoided, SettingEstimate
from rebalance_exporters.advice.absence_estimates import (
    estimate_max_poll_interval,
    estimate_max_poll_records,
    estimate_session,
    estimate_static,
)
from rebalance_exporters.advice.estimates import Setting
from rebalance_exporters.advice.look_back import LookBack
from rebalance_exporters.advice.rebalance_estimates import (
    estimate_assignor,
    estimate_heartbeat,
    estimate_initial_delay,
    estimate_protocol,
)


def estimate(past: LookBack, values: Mapping[Setting, int] | None = None) -> list[SettingEstimate]:
    """Return an estimate for each setting, the largest first, including those that avoid nothing.

    `values` replace the values derived from the past: milliseconds or, for max.poll.records, percent.
    """
    given = values or {}
    found = [_ESTIMATES[setting](past, given.get(setting)) for setting in Setting]
    return sorted(found, key=lambda each: worth_of(each.avoided))


def estimate_one(past: LookBack, setting: Setting, value: int | None) -> SettingEstimate:
    """Return the estimate for one setting; `value` is as in `estimate`, null to derive it from the past."""
    return _ESTIMATES[setting](past, value)


def worth_of(avoided: Avoided) -> tuple[int, ...]:
    """Return the sort key of an estimate, largest first: certain amounts, then possible ones."""
    measures = (avoided.lost_partition_ms, avoided.rebalances, avoided.rebalancing_ms)
    return (*(-each.low for each in measures), *(-each.high for each in measures))


def avoids_something(of: SettingEstimate) -> bool:
    """Whether a setting would have avoided anything at all."""
    avoided = of.avoided
    return any((avoided.rebalances.high, avoided.rebalancing_ms.high, avoided.lost_partition_ms.high))


_ESTIMATES: Mapping[Setting, Callable[[LookBack, int | None], SettingEstimate]] = {
    Setting.MAX_POLL_RECORDS: estimate_max_poll_records,
    Setting.MAX_POLL_INTERVAL: estimate_max_poll_interval,
    Setting.SESSION: estimate_session,
    Setting.STATIC: estimate_static,
    Setting.ASSIGNOR: estimate_assignor,
    Setting.PROTOCOL: estimate_protocol,
    Setting.INITIAL_DELAY: estimate_initial_delay,
    Setting.HEARTBEAT: estimate_heartbeat,
}
