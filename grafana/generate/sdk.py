"""The parts of grafana-foundation-sdk that are used here, imported without the warning it gives of them."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # It calls classic dashboards deprecated; Grafana 10 and 11 read nothing else.
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.cog import plugins
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models import (
        common,
        dashboard,
        heatmap,
        prometheus,
        stat,
        statetimeline,
        table,
        timeseries,
        units,
    )

    # What decodes panels and queries of each kind; without it they stay dictionaries and nothing is checked.
    plugins.register_default_plugins()

__all__ = [
    "JSONEncoder",
    "common",
    "dashboard",
    "heatmap",
    "prometheus",
    "stat",
    "statetimeline",
    "table",
    "timeseries",
    "units",
]
