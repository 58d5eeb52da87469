"""Meaning of numbers, texts and times in a payload; the only place that defines which numbers mean "no value".

Receives parsed JSON or protobuf values of any type; never raises. Source of the rules: Kafka's `SampledStat` and
`Heartbeat`, kafka-python's `metrics/`, librdkafka's STATISTICS.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from rebalance_streaming.wire.metrics.names import temporality_of
from rebalance_streaming.wire.metrics.report import Point, Temporality

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|inf|infinity|nan)", re.IGNORECASE | re.ASCII)
_WHOLE = re.compile(r"-?\d{1,19}", re.ASCII)
_LONGEST_NUMBER = 64
_INT64 = 2**63
# Kafka's strings have an int16 length.
_LONGEST_TEXT = 32_767

#: Larger ages are counted from 1970: the event has never happened, and the client uses 0 as its time.
_TEN_YEARS_SECONDS = 10 * 365.25 * 86_400
_YEAR_10000_MS = 253_402_300_800_000


def as_number(raw: object) -> float | None:
    """Return a number from a number or text; NaN for null, null for anything that is no number.

    JSON has no NaN and no infinities, so writers use `"NaN"`, `"+Inf"`, bare tokens or null.
    """
    if type(raw) is float:
        return raw
    if type(raw) is int:
        return float(raw) if -_INT64 <= raw < _INT64 * 2 else math.inf if raw > 0 else -math.inf
    if raw is None:
        return math.nan
    if isinstance(raw, str) and len(raw) <= _LONGEST_NUMBER and _NUMBER.fullmatch(raw):
        return float(raw)
    return None


def as_int(raw: object) -> int | None:
    """Return an integer of at most 64 bits from a number or text; null for anything else."""
    if type(raw) is int:
        return raw if -_INT64 <= raw < _INT64 else None
    if type(raw) is float:
        return int(raw) if math.isfinite(raw) and abs(raw) < _INT64 else None
    if isinstance(raw, str) and _WHOLE.fullmatch(raw):
        return as_int(int(raw))
    return None


def as_float(raw: object) -> float | None:
    """Return a finite number; null for anything else."""
    number = as_number(raw)
    return number if number is not None and math.isfinite(number) else None


def as_text(raw: object) -> str | None:
    """Return a text that is neither empty nor too long; integers count as text, like partitions and nodes."""
    if isinstance(raw, str):
        return raw if 0 < len(raw) <= _LONGEST_TEXT else None
    return str(raw) if type(raw) is int and -_INT64 <= raw < _INT64 else None


def as_epoch_ms(raw: object, per_ms: int = 1) -> int | None:
    """Return a time since 1970, in units of `per_ms` per ms, in ms; null for impossible times such as 0."""
    number = as_int(raw)
    return number // per_ms if number is not None and 0 < number // per_ms < _YEAR_10000_MS else None


def guess_epoch_ms(raw: object) -> int | None:
    """Return a time since 1970 in ms, with its unit (s, ms, us or ns) guessed by magnitude: all after March 1973."""
    number = as_number(raw)
    if number is None or not math.isfinite(number):
        return None
    if number < 1e11:
        return as_epoch_ms(number * 1_000)
    return as_epoch_ms(raw, 1 if number < 1e14 else 1_000 if number < 1e17 else 1_000_000)


def make_point(
    metric: str, raw: object, labels: Mapping[str, str] | None = None, temporality: Temporality | None = None
) -> Point | None:
    """Return the point for a raw value; null if it is not a number or has no name.

    No value: NaN and infinities, which windows without events have. Never: ages of -1 (Java), of +infinity
    (kafka-python) and ages since 1970. An average of 0.0 is kept: kafka-python has it for windows without events, which
    only the rate beside it shows. A missing temporality is derived from the name.
    """
    number = as_number(raw)
    if number is None or not metric:
        return None
    never = metric.endswith("_seconds_ago") and (number == -1 or number > _TEN_YEARS_SECONDS)
    value = None if never or not math.isfinite(number) else number
    return Point(metric, value, dict(labels) if labels else {}, temporality or temporality_of(metric), never)
