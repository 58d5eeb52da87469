"""The parts of grafana-foundation-sdk that are used here, imported without its deprecation warnings."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # The SDK deprecates classic dashboards, but Grafana 10 and 11 support no other format.
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

    # Registers decoders for each kind of panel and query; without them they stay dictionaries and are not checked.
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
