"""All of the exporter's metric tables."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_exporters.metrics import findings, groups, lag, monitor, timings
from rebalance_exporters.metrics.series import Metric


def every_metric() -> Iterator[Metric[object]]:
    """Yield every metric of the exporter, including opt-in ones."""
    for module in (groups, lag, findings, timings, monitor):
        for name in sorted(vars(module)):
            value = getattr(module, name)
            yield from (each for each in (value if isinstance(value, tuple) else (value,)) if isinstance(each, Metric))
