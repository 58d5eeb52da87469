"""The exporter's tables of metrics, all together."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_exporters import finding_metrics, group_metrics, lag_metrics, monitor_metrics, timing_metrics
from rebalance_exporters.series import Metric


def every_metric() -> Iterator[Metric[object]]:
    """Yield every metric that the exporter has, opt-in ones included."""
    for module in (group_metrics, lag_metrics, finding_metrics, timing_metrics, monitor_metrics):
        for name in sorted(vars(module)):
            value = getattr(module, name)
            yield from (each for each in (value if isinstance(value, tuple) else (value,)) if isinstance(each, Metric))
