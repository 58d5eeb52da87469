"""Removes impossible values from a report, so that no later stage divides by them, sorts by them or keeps them.

Receives decoded reports; returns them with these values null and counted. The report itself is kept, since the rest of
it may be right. Limits are far from the values of any client: they keep arithmetic and memory bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

from rebalance_streaming.wire.metrics.report import ClientConfig, Point, Report
from rebalance_streaming.wire.records import LONGEST_TOPIC

#: Maximum time by which a client's clock may be ahead of the record's time, and for which a report may be on its way.
CLOCK_AHEAD_MS, LATE_MS = 300_000, 7 * 86_400_000

_TEN_YEARS_MS = 315_576_000_000
_DAY_MS = 86_400_000
# Java's time settings are int, librdkafka's too; Integer.MAX_VALUE means "for ever".
_INT32 = 2**31 - 1
_LARGEST = 2.0**62
#: Smaller rates are rounding errors; dividing by a rate must not give infinity.
_SMALLEST = 1e-9

_LONGEST_ID = 1_000
# Kafka checks them against the rules for topic names.
_LONGEST_INSTANCE = LONGEST_TOPIC
_LONGEST_HOST = 255
_LONGEST_REASON = 512
_LONGEST_WORD = 100
_LONGEST_TEXTS: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("client_id", "group_id", "member_id"), _LONGEST_ID),
        "instance_id": _LONGEST_INSTANCE,
        "host": _LONGEST_HOST,
        **dict.fromkeys(("library", "library_version", "state", "join_state"), _LONGEST_WORD),
    }
)
_LONGEST_LABELS: Mapping[str, int] = MappingProxyType({"topic": LONGEST_TOPIC, "partition": 10, "node_id": 64})

_NUMBERS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "interval_ms": (1, _DAY_MS),
        "tick_late_ms": (0, _TEN_YEARS_MS),
        "statistics_age_ms": (0, _TEN_YEARS_MS),
        "pid": (0, 2**32),
        "cpu_s": (0, 1e12),
        "voluntary_switches": (0, _LARGEST),
        "records_in_last_poll": (0, _INT32),
        "records_done": (0, _LARGEST),
        "generation": (0, _INT32),
        "seq": (0, _LARGEST),
    }
)
#: Times of the client's own clock, all before the report was made.
_TIMES = ("process_start_ms", "last_poll_return_ms", "waiting_since_ms")
_LONG_SETTINGS = frozenset(("metadata_max_age_ms",))
_SETTINGS = tuple(each.name for each in fields(ClientConfig) if each.name != "group_protocol")
_NO_CONFIG = ClientConfig()


def plausible(report: Report) -> Report:
    """Return a report without impossible values, and add their number to `implausible`."""
    found: dict[str, Any] = _implausible_values(report)
    found |= _times(report)
    count = len(found)
    if report.reason is not None and len(report.reason) > _LONGEST_REASON:
        found["reason"] = report.reason[:_LONGEST_REASON]
    config, settings = _config(report.config)
    points, dropped = _points(report.points)
    if settings:
        found["config"] = config
    if dropped or points is not report.points:
        found["points"] = points
    if not found:
        return report
    return replace(report, **found, implausible=report.implausible + count + settings + dropped)


def _implausible_values(report: Report) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, longest in _LONGEST_TEXTS.items():
        text = getattr(report, name)
        if text is not None and len(text) > longest:
            found[name] = None
    for name, (least, most) in _NUMBERS.items():
        number = getattr(report, name)
        if number is not None and not least <= number <= most:
            found[name] = None
    return found


def _times(report: Report) -> dict[str, int | None]:
    """Return the times to change: if a clock is far off, only ages are used.

    A report time far in the future would hide all later reports of the client.
    """
    found: dict[str, int | None] = {}
    emitted_ms, observed_ms = report.emitted_ms, report.observed_ms
    off_ms = 0
    if observed_ms > 0 and not observed_ms - LATE_MS <= emitted_ms <= observed_ms + CLOCK_AHEAD_MS:
        off_ms = observed_ms - emitted_ms
        found["emitted_ms"] = observed_ms
    for name in _TIMES:
        reported_ms = getattr(report, name)
        if reported_ms is None:
            continue
        if not -CLOCK_AHEAD_MS <= emitted_ms - reported_ms <= _TEN_YEARS_MS:
            found[name] = None
        elif off_ms:
            # A process's start must be the same in all its reports, but the clock's error is not constant.
            found[name] = None if name == "process_start_ms" else reported_ms + off_ms
    return found


def _config(config: ClientConfig) -> tuple[ClientConfig, int]:
    if config == _NO_CONFIG:
        return config, 0
    changes: dict[str, Any] = {}
    for name in _SETTINGS:
        value = getattr(config, name)
        if value is not None and not 1 <= value <= (_TEN_YEARS_MS if name in _LONG_SETTINGS else _INT32):
            changes[name] = None
    if config.group_protocol is not None and len(config.group_protocol) > _LONGEST_WORD:
        changes["group_protocol"] = None
    return (replace(config, **changes) if changes else config), len(changes)


def _points(points: tuple[Point, ...]) -> tuple[tuple[Point, ...], int]:
    """Return points with possible values (the same tuple if there is no change) and the number of impossible ones."""
    kept: list[Point] = []
    dropped, changed = 0, False
    for point in points:
        if point.labels and not _are_names(point.labels):
            dropped += 1
            continue
        value = point.value
        if value is None or value == 0 or _SMALLEST <= value <= _most(point.metric):
            kept.append(point)
        elif 0 < value < _SMALLEST:
            changed = True
            kept.append(replace(point, value=0.0))
        else:
            dropped += 1
            kept.append(replace(point, value=None))
    return (tuple(kept) if dropped or changed else points), dropped


def _are_names(labels: Mapping[str, str]) -> bool:
    return all(len(text) <= _LONGEST_LABELS.get(name, _LONGEST_WORD) for name, text in labels.items())


def _most(metric: str) -> float:
    """Return the largest possible value of a metric: those of time are ages, latencies and gaps in ms or seconds."""
    of_time = metric.endswith(("_max", "_avg", "_ago")) and "lag" not in metric
    return float(_TEN_YEARS_MS) if of_time else _LARGEST
