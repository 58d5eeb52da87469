"""The native form of a report, as strict JSON; docs/client-metrics.md lists its fields."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from rebalance_exporters.reporters.process import read_process

if TYPE_CHECKING:
    from typing import Any

    from rebalance_exporters.reporters.reporter import DueReport

SCHEMA = "rebalance-monitor/client-metrics/1"
_DIGITS = 6


def compose_native(
    tick: DueReport, client: dict[str, Any], app: dict[str, Any], metrics: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return a report; `metrics` is group -> name -> value."""
    return {
        "schema": SCHEMA,
        **tick.fields(),
        "process": read_process(),
        "client": client,
        "app": app,
        "metrics": metrics,
    }


def as_json_number(value: object) -> float | str | None:
    """Return a metric's value as strict JSON can hold it.

    NaN, minus infinity and anything that is not a number mean that there is no value: null. Plus infinity is the age of
    something that never happened, which differs from an unknown age: the text `Infinity`.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if math.isfinite(value):
        return value if isinstance(value, int) else round(value, _DIGITS)
    return "Infinity" if value > 0 else None


def encode(report: dict[str, Any]) -> bytes:
    """Return strict JSON. Raises ValueError for NaN and infinities."""
    return json.dumps(report, allow_nan=False, separators=(",", ":")).encode()


def encode_key(*names: str | None) -> bytes | None:
    """Return the first known name as a record's key, null if there is none."""
    return next((name.encode() for name in names if name), None)
