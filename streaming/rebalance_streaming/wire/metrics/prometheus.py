"""Samples of Prometheus remote write in the JSON of prometheus-kafka-adapter: one per record.

A metric's name comes from a JMX exporter's rules or from Micrometer; labels are the user's, `instance` the scraper's.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping
from typing import Any

from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError
from rebalance_streaming.wire.metrics.gather import Gatherer
from rebalance_streaming.wire.metrics.identity import Identity, read_identity, read_labels
from rebalance_streaming.wire.metrics.names import recognise
from rebalance_streaming.wire.metrics.report import Report
from rebalance_streaming.wire.metrics.values import as_text, guess_epoch_ms, make_point

FORMAT = "prometheus_json"

_RFC_3339 = re.compile(
    r"(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt ]([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)"
    r"(?:\.(\d{1,9}))?(?:[Zz]|([+-])([01]\d|2[0-3]):?([0-5]\d))",
    re.ASCII,
)
_WITH_PORT = re.compile(r"(.+?):\d+", re.ASCII)

_Object = Mapping[str, Any]


def recognises(document: object) -> bool:
    """Return whether a document is a sample."""
    return _is_sample(document) or (isinstance(document, list) and bool(document) and _is_sample(document[0]))


def decode(document: Any, observed_ms: int, written_as: str = FORMAT) -> tuple[Report, ...]:
    """Read a sample, or a list of them."""
    gathered = Gatherer(written_as, observed_ms)
    for sample in document if isinstance(document, list) else [document]:
        if not _is_sample(sample):
            raise UndecodableError(Reason.MALFORMED, "Every sample of Prometheus needs name, labels and value.")
        labels = sample["labels"]
        emitted_ms = parse_time_ms(sample.get("timestamp"))
        point = make_point(recognise(sample["name"]), sample["value"], read_labels(labels))
        gathered.add(_identity(labels), emitted_ms, point)
    return gathered.reports()


def _is_sample(sample: Any) -> bool:
    return (
        isinstance(sample, dict)
        and isinstance(sample.get("labels"), dict)
        and isinstance(sample.get("name"), str)
        and "value" in sample
    )


def _identity(labels: _Object) -> Identity:
    identity, instance = read_identity(labels), as_text(labels.get("instance"))
    if identity.host or not instance:
        return identity
    with_port = _WITH_PORT.fullmatch(instance)
    return identity._replace(host=with_port[1].strip("[]") if with_port else instance)


def parse_time_ms(raw: object) -> int | None:
    """Return a time in RFC 3339, or a number of any unit, in ms since 1970; null for anything else."""
    found = _RFC_3339.fullmatch(raw) if isinstance(raw, str) else None
    if found is None:
        return guess_epoch_ms(raw)
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    if year < 1970:
        return None
    milliseconds = int((found[7] or "0").ljust(3, "0")[:3])
    offset_minutes = int(found[9]) * 60 + int(found[10]) if found[8] else 0
    utc = calendar.timegm((year, month, day, hour, minute, second)) - int(f"{found[8] or '+'}{offset_minutes * 60}")
    return utc * 1_000 + milliseconds
