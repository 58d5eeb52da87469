"""Telegraf's JSON: one metric, a list of them, or `{"metrics": [...]}`, from its JMX or its Prometheus input.

The measurement's name and any prefix of a field are the user's choice, so a metric is recognised by its ending.
Telegraf drops NaN and infinities: a value that the client did not have is missing here, not null.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError
from rebalance_streaming.wire.metrics.gather import Gatherer
from rebalance_streaming.wire.metrics.identity import Identity, read_identity, read_labels
from rebalance_streaming.wire.metrics.names import KNOWN, LONGEST_NAME, canonical, known_ending, may_be_known, recognise
from rebalance_streaming.wire.metrics.report import Report
from rebalance_streaming.wire.metrics.values import as_text, guess_epoch_ms, make_point

FORMAT = "telegraf_json"

# The Prometheus input's first layout: the measurement is the metric, the field its type.
_TYPES = frozenset(("gauge", "counter", "value", "untyped"))
# Address that the agent queried; its own `host` tag is where it runs.
_ASKED = ("jolokia_agent_url", "url")
_HERE = frozenset(("localhost", "127.0.0.1", "::1", ""))

_Object = Mapping[str, Any]


def recognises(document: object) -> bool:
    """Return whether a document is a metric or a list of metrics."""
    metrics = _metrics(document)
    return bool(metrics) and _is_metric(metrics[0])


def decode(document: object, observed_ms: int, written_as: str = FORMAT) -> tuple[Report, ...]:
    """Read the fields of all metrics; the magnitude of a timestamp determines its unit."""
    gathered = Gatherer(written_as, observed_ms)
    for metric in _metrics(document):
        if not _is_metric(metric):
            raise UndecodableError(Reason.MALFORMED, "Every metric of Telegraf needs name, tags and fields.")
        tags = metric["tags"]
        identity, labels, emitted_ms = _identity(tags), read_labels(tags), guess_epoch_ms(metric.get("timestamp"))
        for field, raw in metric["fields"].items():
            gathered.add(identity, emitted_ms, make_point(_name(metric["name"], field), raw, labels))
    return gathered.reports()


def _metrics(document: object) -> list[Any]:
    if isinstance(document, dict):
        several = document.get("metrics")
        return several if isinstance(several, list) else [document]
    return document if isinstance(document, list) else []


def _is_metric(metric: object) -> bool:
    return (
        isinstance(metric, dict)
        and isinstance(metric.get("fields"), dict)
        and isinstance(metric.get("tags"), dict)
        and isinstance(metric.get("name"), str)
    )


def _name(measurement: str, field: str) -> str:
    return "" if len(measurement) + len(field) > LONGEST_NAME else _joined_name(measurement, field)


@lru_cache(4096)
def _joined_name(measurement: str, field: str) -> str:
    if field.lower() in _TYPES:
        return recognise(measurement)
    joined = recognise(f"{measurement}.{field}")
    if joined in KNOWN or not may_be_known(joined):
        return joined
    return known_ending(canonical(field)) or joined


def _identity(tags: _Object) -> Identity:
    identity = read_identity(tags)
    asked = next((host for tag in _ASKED if (host := _host_of(as_text(tags.get(tag))))), None)
    return identity._replace(host=asked or identity.host)


def _host_of(url: str | None) -> str | None:
    """Return the host in a URL; null for none, and for the local host."""
    try:
        host = urlsplit(url or "").hostname or ""
    except ValueError:
        return None
    return None if host in _HERE else host
