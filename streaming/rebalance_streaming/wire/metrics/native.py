"""This project's own format, which its reporters publish from inside clients.

`{"schema": "rebalance-monitor/client-metrics/1", "emitted_ms", "client": {...}, "metrics": {group: {name: value}}}`,
and if known `process`, `app`, `seq`, `interval_ms`, `tick_late_ms`. Groups and names are the client's own; for tags
see `names.split_group`. A librdkafka client puts its last statistics under `statistics`, object or text, with
`statistics_age_ms`, and may omit `metrics` then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rebalance_streaming.wire.metrics import librdkafka
from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError
from rebalance_streaming.wire.metrics.gather import take
from rebalance_streaming.wire.metrics.identity import read_labels
from rebalance_streaming.wire.metrics.names import canonical, split_group
from rebalance_streaming.wire.metrics.report import ClientConfig, Point, Report
from rebalance_streaming.wire.metrics.values import as_epoch_ms, as_float, as_int, as_text, make_point

FORMAT = "native"
SCHEMA = "rebalance-monitor/client-metrics/"
VERSION = "1"

_Object = Mapping[str, Any]


def recognises(document: object) -> bool:
    """Return whether a document has this project's schema."""
    schema = document.get("schema") if isinstance(document, dict) else None
    return isinstance(schema, str) and schema.startswith("rebalance-monitor/")


def decode(document: _Object, observed_ms: int) -> tuple[Report, ...]:
    """Read a report. Raises UndecodableError if a required field is missing."""
    _check_schema(document)
    emitted_ms = as_epoch_ms(document.get("emitted_ms"))
    client, process, app = (_object(document, name) for name in ("client", "process", "app"))
    client_id = as_text(client.get("client_id"))
    if emitted_ms is None or client_id is None:
        raise UndecodableError(Reason.MISSING_FIELD, "A native report needs emitted_ms and client.client_id.")
    statistics = librdkafka.find_statistics(document)
    report = Report(
        FORMAT,
        observed_ms,
        emitted_ms,
        client_id=client_id,
        group_id=as_text(client.get("group_id")),
        member_id=as_text(client.get("member_id")),
        instance_id=as_text(client.get("instance_id")),
        host=as_text(process.get("host")),
        library=as_text(client.get("library")),
        library_version=as_text(client.get("version")),
        generation=_generation(client.get("generation")),
        state=as_text(client.get("state")),
        seq=as_int(document.get("seq")),
        interval_ms=as_int(document.get("interval_ms")),
        tick_late_ms=as_int(document.get("tick_late_ms")),
        process_start_ms=as_epoch_ms(process.get("start_ms")),
        pid=as_int(process.get("pid")),
        cpu_s=as_float(process.get("cpu_s")),
        voluntary_switches=as_int(process.get("voluntary_switches")),
        last_poll_return_ms=as_epoch_ms(app.get("last_poll_return_ms")),
        waiting_since_ms=as_epoch_ms(app.get("waiting_since_ms")),
        records_in_last_poll=as_int(app.get("records_in_last_poll")),
        records_done=as_int(app.get("records_done")),
        statistics_age_ms=as_int(document.get("statistics_age_ms")),
        join_state=None if statistics is None else librdkafka.join_state(statistics),
        reason=None if statistics is None else librdkafka.rebalance_reason(statistics),
        config=_config(_object(client, "config")),
        points=take(_points(document, statistics)),
    )
    return (report,)


def _check_schema(document: _Object) -> None:
    schema = document.get("schema")
    if not isinstance(schema, str) or not schema.startswith(SCHEMA):
        raise UndecodableError(Reason.UNKNOWN_FORMAT, f"Its schema is not {SCHEMA}{VERSION}.")
    if schema != SCHEMA + VERSION:
        raise UndecodableError(Reason.UNKNOWN_VERSION, f"Only version {VERSION} of {SCHEMA} is known here.")


def _object(document: _Object, name: str) -> _Object:
    part = document.get(name)
    if part is not None and not isinstance(part, dict):
        raise UndecodableError(Reason.MALFORMED, f"{name} of a native report must be an object.")
    return part or {}


def _generation(raw: object) -> int | None:
    """Return a generation; null for -1, which clients without one report."""
    generation = as_int(raw)
    return None if generation is None or generation < 0 else generation


def _config(config: _Object) -> ClientConfig:
    return ClientConfig(
        session_timeout_ms=as_int(config.get("session_timeout_ms")),
        heartbeat_interval_ms=as_int(config.get("heartbeat_interval_ms")),
        max_poll_interval_ms=as_int(config.get("max_poll_interval_ms")),
        max_poll_records=as_int(config.get("max_poll_records")),
        fetch_max_wait_ms=as_int(config.get("fetch_max_wait_ms")),
        metadata_max_age_ms=as_int(config.get("metadata_max_age_ms")),
        request_timeout_ms=as_int(config.get("request_timeout_ms")),
        auto_commit_interval_ms=as_int(config.get("auto_commit_interval_ms")),
        group_protocol=as_text(config.get("group_protocol")),
    )


def _points(document: _Object, statistics: _Object | None) -> Iterator[Point | None]:
    if statistics is not None:
        yield from librdkafka.statistics_points(statistics)
    elif "metrics" not in document:
        raise UndecodableError(Reason.MISSING_FIELD, "A native report needs metrics or statistics.")
    metrics = _object(document, "metrics")
    for group in metrics:
        name, properties = split_group(group)
        labels = read_labels(properties)
        for attribute, raw in _object(metrics, group).items():
            yield make_point(canonical(f"{name}.{attribute}"), raw, labels)
