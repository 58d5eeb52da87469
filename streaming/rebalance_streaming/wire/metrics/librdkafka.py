"""librdkafka's statistics as canonical points, bare or nested one level deep in an application's document.

Source: STATISTICS.md. Times are us unless stated otherwise; -1001 is an unknown offset, -1 an unknown lag and an idle
time without traffic. The statistics contain neither group nor member; only the document around them can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rebalance_streaming.wire.metrics.documents import read_json
from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError
from rebalance_streaming.wire.metrics.gather import take
from rebalance_streaming.wire.metrics.identity import read_identity, split_librdkafka_name
from rebalance_streaming.wire.metrics.report import Point, Report, Temporality
from rebalance_streaming.wire.metrics.values import as_epoch_ms, as_int, as_text, make_point

FORMAT = "librdkafka_stats"
LIBRARY = "librdkafka"

_WRAPPERS = ("stats", "statistics", "payload", "value", "message")
_REQUESTS = {
    "JoinGroup": "coordinator_join_total",
    "SyncGroup": "coordinator_sync_total",
    "LeaveGroup": "coordinator_leave_total",
    "OffsetCommit": "coordinator_commit_total",
}
_NO_PARTITION = "-1"

_Object = Mapping[str, Any]


def recognises(document: object) -> bool:
    """Return whether a document contains statistics. Nested text is not parsed for this."""
    return isinstance(document, dict) and (_is_statistics(document) or _wrapper(document) is not None)


def decode(document: _Object, observed_ms: int) -> tuple[Report, ...]:
    """Read a consumer's statistics. Raises UndecodableError (producer) for a producer's."""
    statistics = find_statistics(document)
    if statistics is None:
        raise UndecodableError(Reason.UNKNOWN_FORMAT, "There are no librdkafka statistics in the value.")
    outer = read_identity({} if statistics is document else document)
    emitted_ms = _seconds_ms(statistics.get("time"))
    identity = outer._replace(
        client_id=_client_id(statistics) or outer.client_id,
        library=outer.library or LIBRARY,
    )
    report = Report(
        FORMAT,
        observed_ms,
        observed_ms if emitted_ms is None else emitted_ms,
        **identity._asdict(),
        process_start_ms=_process_start_ms(emitted_ms, as_int(statistics.get("age"))),
        join_state=join_state(statistics),
        reason=rebalance_reason(statistics),
        points=take(statistics_points(statistics)),
    )
    return (report,)


def find_statistics(document: _Object) -> _Object | None:
    """Return a consumer's statistics from a document; null if there are none. Raises UndecodableError (producer)."""
    wrapper = None if _is_statistics(document) else _wrapper(document)
    found = document if wrapper is None else document[wrapper]
    if isinstance(found, str):
        found = read_json(found.encode())
    if not isinstance(found, dict) or not _is_statistics(found):
        return None
    if found["type"] != "consumer":
        raise UndecodableError(Reason.PRODUCER, "The statistics are a producer's.")
    return found


def _is_statistics(document: _Object) -> bool:
    return (
        isinstance(document.get("brokers"), dict)
        and isinstance(document.get("topics"), dict)
        and isinstance(document.get("type"), str)
    )


def _wrapper(document: _Object) -> str | None:
    for name in _WRAPPERS:
        inner = document.get(name)
        if (isinstance(inner, dict) and _is_statistics(inner)) or (isinstance(inner, str) and '"brokers"' in inner):
            return name
    return None


def _client_id(statistics: _Object) -> str | None:
    name = split_librdkafka_name(as_text(statistics.get("name")) or "")
    return as_text(statistics.get("client_id")) or (name[0] if name else None)


def _seconds_ms(raw: object) -> int | None:
    seconds = as_int(raw)
    return None if seconds is None else as_epoch_ms(seconds * 1_000)


def _process_start_ms(emitted_ms: int | None, age_us: int | None) -> int | None:
    """Subtract the age: the result has the precision of the statistics' clock, one second."""
    return None if emitted_ms is None or age_us is None else as_epoch_ms(emitted_ms - age_us // 1_000)


def join_state(statistics: _Object) -> str | None:
    """Return the state of the member's join, verbatim."""
    return as_text(_object(statistics, "cgrp").get("join_state"))


def rebalance_reason(statistics: _Object) -> str | None:
    """Return why the member last rebalanced, verbatim; null before it gave a reason."""
    return as_text(_object(statistics, "cgrp").get("rebalance_reason"))


def statistics_points(statistics: _Object) -> Iterator[Point | None]:
    """Yield the points of statistics; null for values without a point."""
    yield make_point("replyq", statistics.get("replyq")) if "replyq" in statistics else None
    brokers = _object(statistics, "brokers")
    yield from _group_points(_object(statistics, "cgrp"))
    yield from _coordinator_points(_object(brokers, "GroupCoordinator"))
    for broker in brokers.values():
        if isinstance(broker, dict):
            yield from _node_points(broker)
    for topic, of_topic in _object(statistics, "topics").items():
        if isinstance(of_topic, dict):
            yield from _topic_points(topic, _object(of_topic, "partitions"))


def _object(document: _Object, name: str) -> _Object:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def _group_points(group: _Object) -> Iterator[Point | None]:
    if not group:
        return
    yield make_point("coordinator_assigned_partitions", group.get("assignment_size"))
    yield make_point("coordinator_rebalance_total", group.get("rebalance_cnt"))
    age_ms = as_int(group.get("rebalance_age"))
    # The age is 0 before the first assignment.
    seconds = -1 if group.get("rebalance_cnt") == 0 else None if age_ms is None else age_ms / 1_000
    yield make_point("coordinator_last_rebalance_seconds_ago", seconds)


def _coordinator_points(coordinator: _Object) -> Iterator[Point | None]:
    if not coordinator:
        return
    requests = _object(coordinator, "req")
    heartbeats = requests.get("Heartbeat")
    # ConsumerGroupHeartbeat is not counted: members of the new protocol never join and stay at 0 here.
    if heartbeats or requests.get("JoinGroup"):
        yield make_point("coordinator_heartbeat_total", heartbeats)
    for request, metric in _REQUESTS.items():
        if request in requests:
            yield make_point(metric, requests[request])
    yield make_point("coordinator_tx_idle_seconds", _known(coordinator.get("txidle"), 1_000_000))
    yield make_point("coordinator_rx_idle_seconds", _known(coordinator.get("rxidle"), 1_000_000))
    yield make_point("coordinator_response_time_max", _of_window(_object(coordinator, "rtt"), "max"))


def _node_points(broker: _Object) -> Iterator[Point | None]:
    node, window = as_int(broker.get("nodeid")), _object(broker, "rtt")
    # Negative ids are bootstrap servers and the coordinator's logical connection.
    if node is not None and node >= 0 and window.get("cnt"):
        labels = {"node_id": str(node)}
        yield make_point("node_request_latency_avg", _of_window(window, "avg"), labels)
        yield make_point("node_request_latency_max", _of_window(window, "max"), labels)


def _topic_points(topic: str, partitions: _Object) -> Iterator[Point | None]:
    for partition, fields in partitions.items():
        # A consumer knows all partitions of its topics; those not assigned to it have no values.
        if partition == _NO_PARTITION or not isinstance(fields, dict) or fields.get("desired") is False:
            continue
        labels = {"topic": topic, "partition": partition}
        for metric, field in (
            ("consumer_lag", "consumer_lag"),
            ("committed_offset", "committed_offset"),
            ("app_offset", "app_offset"),
            ("fetchq_count", "fetchq_cnt"),
        ):
            if field in fields:
                yield make_point(metric, _known(fields[field]), labels, Temporality.GAUGE)


def _known(raw: object, divisor: int = 1) -> float | None:
    number = as_int(raw)
    return None if number is None or number < 0 else number / divisor


def _of_window(window: _Object, name: str) -> float | None:
    """Return a value of a window in ms; null for a window without values, which has zeros."""
    return _known(window.get(name), 1_000) if window.get("cnt") else None
