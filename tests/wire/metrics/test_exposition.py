"""Prometheus' text format: pages as JMX exporters, Micrometer and Telegraf write them."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from fuzz.timing import least_time
from rebalance_streaming.wire.metrics.errors import Reason, UndecodableError
from rebalance_streaming.wire.metrics.formats import decode_metrics
from rebalance_streaming.wire.metrics.report import Point, Report
from wire.metrics.payloads import OBSERVED_MS, decode_one, golden, value_of

NAME = "kafka_consumer_coordinator_heartbeat_rate"


def test_the_example_is_read() -> None:
    """Of the page only what is a consumer's; without a time of its own it is of the record's."""
    assert decode_one(golden("prometheus.txt")) == Report(
        "prometheus_text",
        OBSERVED_MS,
        OBSERVED_MS,
        client_id="consumer-orders-1",
        host="app-3",
        points=(Point("coordinator_last_heartbeat_seconds_ago", 2.0),),
    )


@pytest.mark.parametrize("generate", [generate_latest, generate_openmetrics])
@pytest.mark.parametrize("client", ["orders-1", 'a "b" \\ c\nd', "a,b}c={", "\\n", "é"])
def test_what_prometheus_own_library_writes_is_read(generate, client: str) -> None:
    """Both text formats, with every escape; lines of other metrics stand around it."""
    registry = CollectorRegistry()
    Gauge("up", "Whether.", registry=registry).set(1)
    Gauge(NAME, "Of heartbeats.", ["client_id", "x"], registry=registry).labels(client, "y z").set(0.25)
    Gauge("process_cpu", "Of all.", ["mode"], registry=registry).labels('"}').set(3)
    report = decode_one(generate(registry))
    assert (report.client_id, value_of(report, "coordinator_heartbeat_rate")) == (client, 0.25)
    assert len(report.points) == 1


@pytest.mark.parametrize(
    ("line", "emitted_ms"),
    [
        ('{client_id="c"} 1', OBSERVED_MS),
        ('{client_id="c"} 1 1795190406120', 1_795_190_406_120),
        ('{client_id="c"} 1 1795190406.120', 1_795_190_406_120),
        ('{ client_id = "c" , } 1', OBSERVED_MS),
        ('{client_id="c"} +1.0e0 # {trace_id="t"} 1', OBSERVED_MS),
        ('{client_id="c"}\t1\r', OBSERVED_MS),
    ],
)
def test_forms_of_a_line(line: str, emitted_ms: int) -> None:
    """Times in ms or, in OpenMetrics, in seconds; spaces, a last comma, an exemplar."""
    report = decode_one(f"{NAME}{line}\n".encode())
    assert (report.client_id, report.emitted_ms) == ("c", emitted_ms)
    assert value_of(report, "coordinator_heartbeat_rate") == 1.0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# TYPE up gauge\nup 1\n", Reason.NO_VALUES),
        ('kafka_producer_request_rate{client_id="c"} 1', Reason.PRODUCER),
        (f'{NAME}{{client_id="c"', Reason.MALFORMED),
        (f'{NAME}{{client_id="c" x}} 1', Reason.MALFORMED),
        (f'{NAME}{{client_id="c"}}', Reason.MALFORMED),
        (f'{NAME}{{client_id="c"}} 1 2 3', Reason.MALFORMED),
        ("# TYPE up gauge\n?\n", Reason.MALFORMED),
    ],
)
def test_what_is_not_accepted_is_refused_by_its_reason(text: str, reason: Reason) -> None:
    """A page without a consumer has no values; half a line is none."""
    with pytest.raises(UndecodableError) as refused:
        decode_metrics(text.encode(), OBSERVED_MS)
    assert refused.value.reason is reason


def test_a_page_that_is_not_utf_8_is_refused() -> None:
    """Like line protocol."""
    with pytest.raises(UndecodableError, match="not UTF-8"):
        decode_metrics(b"# TYPE up gauge\nup 1\n\xff", OBSERVED_MS)


@pytest.mark.parametrize(
    "value",
    [
        b'm{a="' + b"\\" * 100_001,
        b"m{" + b'a="b",' * 17_000,
        f'{NAME}{{a="'.encode() + b'\\"' * 50_000,
        f"{NAME}{{".encode() + b'a="b",' * 17_000,
        b"# TYPE m gauge\n" + b"m 1\n" * 25_000,
        b"m 1" + b" " * 100_000 + b"x",
        b"m 1 " + b"1" * 100_000 + b"x",
    ],
    ids=["slashes", "labels", "quotes", "labels of a consumer", "lines", "spaces", "digits"],
)
def test_the_cost_is_linear(value: bytes) -> None:
    """As for the other formats (test_hostile.py): no line makes the decoder try many ways to read it."""

    def decode() -> None:
        try:
            decode_metrics(value, OBSERVED_MS)
        except UndecodableError as error:
            assert error.reason in (Reason.MALFORMED, Reason.NO_VALUES, Reason.UNKNOWN_FORMAT)  # noqa: PT017

    assert least_time(decode) < 0.5
