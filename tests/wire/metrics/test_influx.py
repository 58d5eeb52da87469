"""InfluxDB line protocol: Telegraf's default format."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wire.metrics.payloads import decode_one, golden, value_of


def test_the_example_says_what_telegrafs_json_says() -> None:
    """The same metrics in both of Telegraf's formats are the same report."""
    in_json = decode_one(golden("telegraf.json"))
    assert decode_one(golden("telegraf.influx")) == replace(in_json, format="influx")


@pytest.mark.parametrize(
    ("line", "client"),
    [
        (rb"m,client-id=a\,b heartbeat-rate=1", "a,b"),
        (rb"m\ n,client-id=a\ b heartbeat-rate=1 1795190406", "a b"),
        (rb"m,client-id=a\=b heartbeat-rate=1", "a=b"),
        (b'm,client-id="a" heartbeat-rate=1', '"a"'),
        (b'm,client-id=a text="x, y=2 \\" z",up=t,heartbeat-rate=1', "a"),
        (b"m,client-id=a heartbeat-rate=1 \r\n\n", "a"),
    ],
)
def test_what_separates_may_be_escaped_or_quoted(line: bytes, client: str) -> None:
    """In names and tags separators are escaped, strings are quoted; strings and booleans are no metrics."""
    report = decode_one(line)
    assert (report.client_id, value_of(report, "coordinator_heartbeat_rate")) == (client, 1.0)
    assert len(report.points) == 1


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2i", 2.0),
        ("2u", 2.0),
        ("0.5e1", 5.0),
        ("2_0", None),
        ("2_0i", None),
        ("\u0662", None),
        ("t", None),
    ],
)
def test_only_what_the_format_calls_a_number_is_one(text: str, number: float | None) -> None:
    """Python also reads underscores, and the digits of other scripts, as parts of a number."""
    report = decode_one(f"m,client-id=c heartbeat-rate=1,rebalance-total={text}".encode())
    found = {point.metric: point.value for point in report.points}
    assert found.get("coordinator_rebalance_total") == number


def test_lines_of_one_client_and_time_go_together() -> None:
    """Telegraf may write several metrics into one record."""
    lines = b"a,client-id=c heartbeat-rate=1 1795190406\nb,client-id=c rebalance-total=2i 1795190406\n"
    report = decode_one(lines)
    assert value_of(report, "coordinator_rebalance_total") == 2.0
    assert report.emitted_ms == 1_795_190_406_000
