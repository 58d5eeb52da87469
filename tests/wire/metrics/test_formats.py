"""The entry point: every record is in exactly one format, or rejected for one of a few reasons, whatever its bytes."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rebalance_contract.bounds import MAX_FOREIGN_BYTES
from rebalance_streaming.wire.metrics import gather
from rebalance_streaming.wire.metrics.documents import MAX_NESTING
from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError
from rebalance_streaming.wire.metrics.formats import FORMATS, decode_metrics
from rebalance_streaming.wire.metrics.report import Report
from wire.metrics.payloads import OBSERVED_MS, decode_one, export_bytes, files, golden

EXPECTED = {
    "native.json": "native",
    "kafka-python.json": "native",
    "kafka-python-joining.json": "native",
    "librdkafka-classic.json": "librdkafka_stats",
    "librdkafka-joining.json": "librdkafka_stats",
    "librdkafka-kip848.json": "librdkafka_stats",
    "librdkafka-overrun.json": "librdkafka_stats",
    "librdkafka-wrapped.json": "librdkafka_stats",
    "otlp.json": "otlp_json",
    "otlp-push.json": "otlp_json",
    "otlp.pb": "otlp_proto",
    "otlp-push.pb": "otlp_proto",
    "telegraf.json": "telegraf_json",
    "telegraf.influx": "influx",
    "prometheus.json": "prometheus_json",
    "prometheus.txt": "prometheus_text",
}


def outcome(value: bytes | None, **more: Any) -> tuple[Report, ...] | Reason:
    """Return the decoded reports, at least one, or a reason with a sentence."""
    try:
        reports = decode_metrics(value, OBSERVED_MS, **more)
    except UndecodableError as error:
        return error.reason if str(error).endswith(".") else pytest.fail(f"no sentence: {error}")
    assert reports
    return reports


def test_every_golden_is_expected() -> None:
    """No file is unused, and every format has one."""
    assert {path.name for path in files()} == {*EXPECTED, "librdkafka-producer.json"}
    assert set(EXPECTED.values()) == set(FORMATS)


@pytest.mark.parametrize(("name", "format_id"), EXPECTED.items())
def test_a_format_is_detected_and_may_be_pinned(name: str, format_id: str) -> None:
    """Pinning the right format changes nothing; pinning another rejects the record."""
    report = decode_one(golden(name))
    assert report.format == format_id
    assert decode_one(golden(name), pinned=format_id) == report
    for other in FORMATS:
        if other != format_id:
            assert isinstance(outcome(golden(name), pinned=other), Reason)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_space_around_json_does_no_harm(name: str) -> None:
    """Telegraf ends its records with a line break, and some editors write a byte order mark."""
    if name.endswith(".json"):
        assert decode_one(b" \r\n\t" + golden(name) + b"\n") == decode_one(golden(name))
        assert decode_one(b"\xef\xbb\xbf" + golden(name)) == decode_one(golden(name))


@pytest.mark.generated
@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_every_truncation_fails_cleanly_or_decodes(path: Path) -> None:
    """A truncated record is rejected or, if protobuf allows it, read up to its end."""
    raw = path.read_bytes()
    step = max(1, len(raw) // 1_000)
    for size in range(0, len(raw), step):
        found = outcome(raw[:size])
        if path.suffix == ".json" and raw[:size].rstrip() != raw.rstrip():
            assert isinstance(found, Reason)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(None, Reason.EMPTY, id="tombstone"),
        pytest.param(b"", Reason.EMPTY, id="nothing"),
        pytest.param(b"{" + b" " * MAX_FOREIGN_BYTES, Reason.TOO_LARGE, id="too large"),
        pytest.param(b"{", Reason.MALFORMED, id="half JSON"),
        pytest.param(b'{"a": "\xff"}', Reason.MALFORMED, id="JSON that is not UTF-8"),
        pytest.param(b'{"schema": "\\ud800", "a": NaN}', Reason.MALFORMED, id="half a surrogate pair"),
        pytest.param(b"{}", Reason.UNKNOWN_FORMAT, id="empty object"),
        pytest.param(b"[]", Reason.UNKNOWN_FORMAT, id="empty list"),
        pytest.param(b'[1, {"fields": {}}]', Reason.UNKNOWN_FORMAT, id="other list"),
        pytest.param(b'{"a": 1}', Reason.UNKNOWN_FORMAT, id="other JSON"),
        pytest.param(b'"text"', Reason.UNKNOWN_FORMAT, id="JSON that is no object"),
        pytest.param(b"hello world", Reason.UNKNOWN_FORMAT, id="text"),
        pytest.param(b"\x00\x00\x00\x00\x01\x02", Reason.UNKNOWN_FORMAT, id="other bytes"),
        pytest.param(b"\x0a\x05ab", Reason.MALFORMED, id="half protobuf"),
        pytest.param(b"a b=1,c= 17", Reason.MALFORMED, id="half line protocol"),
        pytest.param(b"a b=1\xff", Reason.MALFORMED, id="line protocol that is not UTF-8"),
        pytest.param(
            b'\x08\x01\x12\x03\x0a\x01x"\x2fkafka.server:type=ReplicaManager,name=LeaderCount',
            Reason.CONFLUENT,
            id="Confluent's reporter",
        ),
        pytest.param(
            b'{"@timestamp": "2026-11-20T16:00:06Z", "metricset": {"name": "consumer"}, "kafka": {"consumer": {}}}',
            Reason.METRICBEAT,
            id="Metricbeat",
        ),
        pytest.param(b'{"schema": "rebalance-monitor/probe/1"}', Reason.UNKNOWN_FORMAT, id="a probe"),
    ],
)
def test_what_is_not_accepted_is_refused_by_its_reason(value: bytes | None, reason: Reason) -> None:
    """Each reason has a word for the metric and a sentence for the topic's owner."""
    assert outcome(value) is reason


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"stats":[', b'[{"":'])
@pytest.mark.parametrize("times", [40, 5_000, 80_000])
def test_nesting_without_end_is_refused(opening: bytes, times: int) -> None:
    """It does not depend on the parsers' stacks, and a value that is too deep is not read at all."""
    closing = opening.translate(bytes.maketrans(b"[{", b"]}"), b'"a:stats')[::-1]
    assert outcome(opening * times + b"1" + closing * times) is Reason.TOO_DEEP


def nested(levels: int) -> bytes:
    """Return a native report that is `levels` deep."""
    document = json.loads(golden("native.json"))
    document["extra"] = json.loads("[" * (levels - 1) + "]" * (levels - 1))
    return json.dumps(document).encode()


def test_the_limit_of_nesting_is_exact() -> None:
    """The limit itself is allowed, one more is not; brackets in a text are no levels."""
    assert isinstance(outcome(nested(MAX_NESTING)), tuple)
    assert outcome(nested(MAX_NESTING + 1)) is Reason.TOO_DEEP
    document = json.loads(golden("native.json")) | {"extra": "[{" * 100}
    assert isinstance(outcome(json.dumps(document).encode()), tuple)


def points(name: str, count: int) -> bytes:
    """Return a value of a format with this many points."""
    numbers = {f"m{number}": 1 for number in range(count)}
    document: Any
    match name:
        case "native":
            document = json.loads(golden("native.json")) | {"metrics": {"g": numbers}}
        case "librdkafka":
            partitions = {str(number): {"fetchq_cnt": 0} for number in range(count)}
            document = json.loads(golden("librdkafka-classic.json")) | {"topics": {"t": {"partitions": partitions}}}
        case "telegraf":
            document = {"name": "kafka", "tags": {}, "fields": numbers}
        case "prometheus":
            document = [json.loads(golden("prometheus.json")) | {"labels": {}}] * count
        case _:
            gauge = {"dataPoints": [{"timeUnixNano": 1, "asInt": 1}] * count}
            document = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "m", "gauge": gauge}]}]}]}
    return export_bytes(document) if name == "otlp protobuf" else json.dumps(document).encode()


@pytest.mark.parametrize("name", ["native", "librdkafka", "telegraf", "prometheus", "otlp", "otlp protobuf"])
def test_more_points_than_any_client_has_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound applies to every format; a smaller one here, because writing the real one takes longer."""
    assert gather.MAX_POINTS >= 20_000
    monkeypatch.setattr(gather, "MAX_POINTS", 200)
    assert outcome(points(name, 201)) is Reason.TOO_MANY_POINTS
    assert outcome(points(name, 100)) is not Reason.TOO_MANY_POINTS


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("native.json", '"heartbeat-rate":0.33'),
        ("librdkafka-wrapped.json", '"replyq":0'),
        ("otlp.json", '"asDouble":2.0'),
        ("telegraf.json", '"heartbeat-rate":0.334'),
        ("prometheus.json", '"value":"2"'),
    ],
)
def test_bare_tokens_are_accepted_everywhere(name: str, before: str, token: str) -> None:
    """Python's json writes them, in any format: they are no value, and the rest of the record counts."""
    text = golden(name).decode()
    assert before in text
    value = text.replace(before, f"{before.partition(':')[0]}:{token}").encode()
    assert any(point.value is None for point in decode_one(value).points)
    assert len(decode_one(value).points) == len(decode_one(golden(name)).points)


def test_identity_comes_from_the_payload_then_headers_then_defaults() -> None:
    """The topic's configuration completes agents that only know client ids."""
    headers = {"group.id": b"g", "client_id": b"ignored", "trace": b"\xff", "member-id": None}
    report = decode_one(golden("telegraf.json"), headers=headers, defaults={"group-id": "other", "library": "kafka"})
    assert (report.client_id, report.group_id, report.library) == ("consumer-orders-1", "g", "kafka")
    assert report.member_id is None


def test_a_format_that_does_not_exist_cannot_be_pinned() -> None:
    """That is an error of the configuration, not of a record."""
    with pytest.raises(ValueError, match="there are native") as refused:
        decode_metrics(b"{}", OBSERVED_MS, pinned="line_protocol")
    assert not isinstance(refused.value, UndecodableError)


def test_a_refusal_survives_the_way_between_processes() -> None:
    """Spark's workers pass on exceptions by pickling them."""
    error = pickle.loads(pickle.dumps(UndecodableError(Reason.CONFLUENT, "Why.")))
    assert (error.reason, str(error)) == (Reason.CONFLUENT, "Why.")


WORDS = [
    *("schema", "rebalance-monitor/client-metrics/1", "emitted_ms", "client", "client_id", "metrics", "statistics"),
    *("resourceMetrics", "scopeMetrics", "resource", "scope", "name", "gauge", "sum", "dataPoints", "attributes"),
    *("key", "value", "stringValue", "asDouble", "asInt", "timeUnixNano", "flags", "aggregationTemporality"),
    *("type", "consumer", "brokers", "topics", "cgrp", "partitions", "GroupCoordinator", "req", "rtt", "stats", "time"),
    *("fields", "tags", "timestamp", "labels", "age", "topic", "client-id", "host", "instance", "process", "config"),
]
WORD = st.sampled_from(WORDS) | st.text(max_size=8)
DOCUMENTS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORD,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORD, inner, max_size=6),
    max_leaves=25,
)
PINS = st.sampled_from([None, *FORMATS])


@pytest.mark.generated
@given(DOCUMENTS, PINS)
def test_no_document_raises_anything_else(document: object, pinned: str | None) -> None:
    """Any JSON made of the formats' own words is read or rejected."""
    outcome(json.dumps(document).encode(), pinned=pinned)


@st.composite
def changed_goldens(draw: st.DrawFn) -> bytes:
    """Return a golden document with a few of its values replaced by anything."""
    path = draw(st.sampled_from([path for path in files() if path.suffix == ".json"]))
    document = json.loads(path.read_bytes())
    for _ in range(draw(st.integers(1, 3))):
        node = document
        while True:
            places = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not places:
                break
            place = draw(st.sampled_from(places))
            if isinstance(node[place], dict | list) and draw(st.integers(0, 4)):
                node = node[place]
                continue
            node[place] = draw(DOCUMENTS)
            break
    return json.dumps(document).encode()


@pytest.mark.generated
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(changed_goldens(), PINS)
def test_no_changed_golden_raises_anything_else(value: bytes, pinned: str | None) -> None:
    """A value of another type anywhere is skipped or rejected."""
    outcome(value, pinned=pinned)


@st.composite
def damaged_goldens(draw: st.DrawFn) -> bytes:
    """Return a golden value with some bytes replaced, added or removed."""
    raw = bytearray(draw(st.sampled_from(files())).read_bytes())
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, max(0, len(raw) - 1)))
        raw[start : start + draw(st.integers(0, 3))] = draw(st.binary(max_size=4))
    return bytes(raw)


@pytest.mark.generated
@given(damaged_goldens(), PINS)
def test_no_damaged_golden_raises_anything_else(value: bytes, pinned: str | None) -> None:
    """Flipped bits are rejected, or read as their new meaning."""
    outcome(value, pinned=pinned)


@pytest.mark.generated
@given(st.binary(max_size=300), PINS, st.dictionaries(WORD, st.none() | st.binary(max_size=5), max_size=3))
@example(b"{" + b'"a":' * 3, None, {})
@example(b'{"a":' + b"9" * 5_000 + b"}", None, {})
@example(b"\x0a\x02\x0a\x00", None, {})
def test_no_bytes_raise_anything_else(value: bytes, pinned: str | None, headers: dict[str, bytes | None]) -> None:
    """The stream continues whatever the topic contains."""
    outcome(value, pinned=pinned, headers=headers)
    outcome(b"{" + value, pinned=pinned, headers=headers)
    outcome(b"\x0a" + value, pinned=pinned, headers=headers)
