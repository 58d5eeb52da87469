"""Lines are extracted from any shipping format, with their original time."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from rebalance_contract.bounds import MAX_FOREIGN_BYTES
from rebalance_contract.sets import CoordinatorAct
from rebalance_streaming.wire.broker_logs.decode import AHEAD_MS, MAX_LINE, decode_record
from rebalance_streaming.wire.broker_logs.envelopes import MAX_LINES
from rebalance_streaming.wire.broker_logs.outcomes import LineOutcome
from rebalance_streaming.wire.broker_logs.times import read_time

AT_MS, SHIPPED_MS = 1_795_391_928_123, 1_795_391_930_456
BODY = "[GroupCoordinator id=1 topic=__consumer_offsets partition=12] Group g with generation 6 is now empty."
LOGGER = "org.apache.kafka.coordinator.group.GroupMetadataManager"
LINE = f"[2026-11-22 23:58:48,123] INFO {BODY} ({LOGGER})"


def otlp(record: dict[str, Any]) -> dict[str, Any]:
    return {"resourceLogs": [{"resource": {"attributes": []}, "scopeLogs": [{"scope": {}, "logRecords": [record]}]}]}


#: Each contains the line with its own time.
ENVELOPES: dict[str, Any] = {
    "plain": LINE,
    "plain with a line end, as log4j's appender sends it": LINE + "\n",
    "windows": LINE + "\r\n",
    "level and thread elsewhere": f"[2026-11-22 23:58:48,123] INFO {BODY} ({LOGGER}) [group-coordinator-event-processor-0]",
    "strimzi, with milliseconds": f"2026-11-22 23:58:48,123 INFO {BODY} ({LOGGER}) [group-coordinator-1]",
    "zone in the pattern": f"[2026-11-23T00:58:48.123+01:00] INFO {BODY}",
    "containerd": f"2026-11-22T23:58:48.200000001Z stdout F {LINE}",
    "docker": {"log": LINE + "\n", "stream": "stdout", "time": "2026-11-22T23:58:48.2Z"},
    "fluent bit, tail": {"@timestamp": 1_795_391_930.456, "log": LINE},
    "fluent bit, kubernetes": {
        "@timestamp": "2026-11-22T23:58:50.456Z",
        "stream": "stdout",
        "log": LINE,
        "kubernetes": {"pod_name": "kafka-0"},
    },
    "fluent bit, several in a list": [{"date": 1_795_391_930.456, "log": LINE}],
    "vector": {
        "file": "/var/log/kafka/server.log",
        "host": "kafka-0",
        "message": LINE,
        "source_type": "file",
        "timestamp": "2026-11-22T23:58:50.456789Z",
    },
    "filebeat": {
        "@timestamp": "2026-11-22T23:58:50.456Z",
        "@metadata": {"beat": "filebeat", "version": "8.17.0"},
        "log": {"offset": 51_234, "file": {"path": "/var/log/kafka/server.log"}},
        "message": LINE,
        "input": {"type": "filestream"},
        "host": {"name": "kafka-0"},
    },
    "logstash": {"@timestamp": "2026-11-22T23:58:50.456Z", "@version": "1", "event": {"original": LINE}},
    "journald": {"MESSAGE": LINE, "__REALTIME_TIMESTAMP": "1795391930456789", "_SYSTEMD_UNIT": "kafka.service"},
    "cloudwatch": {"messageType": "DATA_MESSAGE", "logEvents": [{"id": "1", "timestamp": SHIPPED_MS, "message": LINE}]},
    "opentelemetry, line as it is": otlp(
        {"observedTimeUnixNano": "1795391930456000000", "body": {"stringValue": LINE}, "attributes": []}
    ),
    "opentelemetry, time parsed": otlp({"timeUnixNano": "1795391928123000000", "body": {"stringValue": BODY}}),
    "log4j 2, JsonTemplateLayout": {
        "instant": {"epochSecond": 1_795_391_928, "nanoOfSecond": 123_000_000},
        "level": "INFO",
        "loggerName": LOGGER,
        "message": BODY,
    },
    "log4j 2, EcsLayout": {
        "@timestamp": "2026-11-22T23:58:48.123Z",
        "ecs.version": "1.2.0",
        "log.level": "INFO",
        "log.logger": LOGGER,
        "message": BODY,
    },
    "logstash-logback style": {"@timestamp": "2026-11-22T23:58:48.123Z", "logger_name": LOGGER, "message": BODY},
    "a JSON layout that fluent bit carries": {
        "date": 1_795_391_930.456,
        "log": json.dumps({"timeMillis": AT_MS, "loggerName": LOGGER, "message": BODY}),
    },
    "a JSON layout that docker and filebeat carry": {
        "@timestamp": "2026-11-22T23:58:50.456Z",
        "message": json.dumps({"log": LINE, "time": "2026-11-22T23:58:48.2Z"}),
    },
}


def encode(value: Any) -> bytes:
    return (value if isinstance(value, str) else json.dumps(value)).encode()


@pytest.mark.parametrize("name", ENVELOPES)
def test_a_line_is_found_with_its_own_time(name: str):
    """The time is the coordinator's, not the shipper's."""
    lines = decode_record(encode(ENVELOPES[name]), SHIPPED_MS)
    ((group, event),) = lines.events
    assert (group, event.act, event.at_ms, event.exact) == ("g", CoordinatorAct.EMPTIED, AT_MS, True)
    assert lines.counts[LineOutcome.DECODED] == 1


@pytest.mark.parametrize(
    ("value", "at_ms"),
    [
        (f"INFO {BODY}", SHIPPED_MS + 5_000),
        (f"23:58:48,123 INFO {BODY}", SHIPPED_MS + 5_000),
        (f"2026-11-22 23:58:48 INFO {BODY}", AT_MS - 123),
        ({"log": f"INFO {BODY}", "time": "2026-11-22T23:58:48.123Z"}, AT_MS),
        ({"message": f"INFO {BODY}", "timestamp": "2026-11-22T23:58:48.123Z"}, AT_MS),
    ],
    ids=["no time", "no date", "whole seconds", "docker's time", "vector's time"],
)
def test_the_next_best_time_is_taken_and_said_so(value: Any, at_ms: int):
    """For a layout without a time, that of the shipper is used, and then that of the record; neither is exact."""
    ((_, event),) = decode_record(encode(value), SHIPPED_MS + 5_000).events
    assert (event.at_ms, event.exact) == (at_ms, False)


def test_local_time_is_turned_into_utc():
    """A broker that writes local time is read with the configured time zone."""
    ((_, event),) = decode_record(LINE.encode(), None, lambda local_ms: local_ms - 3_600_000).events
    assert event.at_ms == AT_MS - 3_600_000


@pytest.mark.parametrize("name", ["containerd", "zone in the pattern", "log4j 2, EcsLayout"])
def test_a_time_with_a_zone_needs_no_setting(name: str):
    """Only times without a zone are local."""
    shifted = decode_record(encode(ENVELOPES[name]), None, lambda local_ms: local_ms - 3_600_000).events[0][1]
    assert shifted.at_ms == (AT_MS - 3_600_000 if name == "containerd" else AT_MS)


def test_a_wrong_time_zone_shows():
    """A line from the future of its own record is no event: its configured zone is wrong, and all would be late."""
    assert decode_record(LINE.encode(), AT_MS - AHEAD_MS).counts == {LineOutcome.DECODED: 1}
    assert decode_record(LINE.encode(), AT_MS - AHEAD_MS - 1).counts == {LineOutcome.FUTURE: 1}


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (None, LineOutcome.EMPTY),
        (b" \n", LineOutcome.EMPTY),
        (b'{"message": ', LineOutcome.MALFORMED),
        (b'{"level": "INFO"}', LineOutcome.NO_TEXT),
        (b"\x0a\x10\x00\x01binary", LineOutcome.OTLP_PROTOBUF),
        (b"x" * (MAX_FOREIGN_BYTES + 1), LineOutcome.TOO_LARGE),
        (b"a\n" * (MAX_LINES + 1), LineOutcome.TOO_MANY_LINES),
        (LINE.encode() + b"x" * MAX_LINE, LineOutcome.TOO_LONG),
    ],
)
def test_what_cannot_be_read_is_counted_by_reason(value: bytes | None, outcome: LineOutcome):
    """There are no exceptions, and each reason is distinguished."""
    lines = decode_record(value, None)
    assert lines.counts[outcome] == 1
    assert lines.events == []


@pytest.mark.parametrize(
    ("unreadable", "outcome"),
    [
        ({"level": "INFO"}, LineOutcome.NO_TEXT),
        ({"log": '{"message": '}, LineOutcome.MALFORMED),
    ],
)
def test_an_element_that_cannot_be_read_costs_no_other_one(unreadable: Any, outcome: LineOutcome):
    """Shippers put lines of several sources into one record; each element is counted by itself."""
    lines = decode_record(encode([{"log": LINE}, unreadable, unreadable, {"log": LINE}]), SHIPPED_MS)
    assert lines.counts == {LineOutcome.DECODED: 2, outcome: 2}
    assert len(lines.events) == 2


def test_an_event_of_cloudwatch_that_cannot_be_read_costs_no_other_one():
    """A line may begin with a brace and be no JSON."""
    events = [{"timestamp": SHIPPED_MS, "message": text} for text in ("{Group=g}", LINE)]
    assert decode_record(encode({"logEvents": events}), SHIPPED_MS).counts == {
        LineOutcome.MALFORMED: 1,
        LineOutcome.DECODED: 1,
    }


@pytest.mark.parametrize("number", [MAX_LINES, MAX_LINES + 1])
@pytest.mark.parametrize("wrap", [lambda events: events, lambda events: {"logEvents": events}], ids=["list", "aws"])
def test_elements_that_are_not_read_show(wrap: Callable[[list[Any]], Any], number: int):
    """As many as are allowed are read; that there are more is counted once."""
    lines = decode_record(encode(wrap([{"message": "a"}] * number)), SHIPPED_MS)
    assert lines.counts[LineOutcome.OTHER] == MAX_LINES
    assert lines.counts[LineOutcome.TOO_MANY_LINES] == number - MAX_LINES


def test_an_element_with_too_many_lines_ends_its_record():
    """Otherwise a record of many such elements would cost as much as it has lines."""
    lines = decode_record(encode([{"log": "a\n" * (MAX_LINES + 1)}, {"log": LINE}]), SHIPPED_MS)
    assert lines.counts == {LineOutcome.OTHER: MAX_LINES, LineOutcome.TOO_MANY_LINES: 1}


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01 00:00:00,000", 0),
        ("2000-02-29T12:00:00.5Z", 951_825_600_500),
        ("2000-02-29T12:00:00.05+01:00", 951_822_000_050),
        ("2000-02-29 12:00:00,5", 951_825_600_000),
        ("2024-02-29T00:00:00.001Z", 1_709_164_800_001),
        ("2024-03-01T00:00:00.000Z", 1_709_251_200_000),
        ("2100-03-01 00:00:00,000", 4_107_542_400_000),
        ("2026-11-23T01:58:48.123456789+02:00", AT_MS),
        ("2026-11-22T18:28:48.123-0530", AT_MS),
        ("2026-13-01 00:00:00,000", None),
        ("2026-01-01 24:00:00,000", None),
        ("26-01-01 00:00:00,000", None),
        ("2026/01/01 00:00:00", None),
    ],
)
def test_times_are_read_by_position(text: str, ms: int | None):
    """Leap years, zones and fractions are handled; other texts are no times."""
    written = read_time(text)
    assert (None if written is None else written.ms) == ms


@pytest.mark.parametrize("fraction", [".1", ".12", ".120", ".123456789"])
def test_a_fraction_of_any_length_belongs_to_the_time(fraction: str):
    """Go's RFC3339Nano leaves out zeros at the end: of times in ms one of ten has at most two digits."""
    written = read_time(f"2026-11-22T23:58:48{fraction}Z stdout F ")
    assert written is not None
    assert (written.has_zone, written.length) == (True, 20 + len(fraction))
    assert written.has_ms == (len(fraction) > 3)


@pytest.mark.parametrize(
    "value",
    [
        f"2026-11-22T23:58:48.1Z stdout F INFO {BODY}",
        {"log": f"INFO {BODY}", "time": "2026-11-22T23:58:48.1Z"},
    ],
    ids=["containerd", "docker"],
)
def test_a_shippers_time_without_its_last_zeros_is_no_local_time(value: Any):
    """The setting for local time must not move it."""
    lines = decode_record(encode(value), SHIPPED_MS + 5_000, lambda local_ms: local_ms - 3_600_000)
    assert [event.at_ms for _, event in lines.events] == [AT_MS - 23]
