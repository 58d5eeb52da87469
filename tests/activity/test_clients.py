"""Converts client messages into rows: every message has an outcome, every row is bounded, nothing is reported twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from goldens import FOLDER
from histories import SECOND, T0, member, report
from rebalance_contract import ClientActivity, ClientConfig, decode, encode
from rebalance_contract.bounds import MAX_FOREIGN_BYTES
from rebalance_contract.clients import CLIENT_VALUES, HEARTBEAT_AGE, HEARTBEAT_TOTAL, POLL_AGE
from rebalance_streaming.activity import clients
from rebalance_streaming.activity.clients import (
    MAX_MOMENTS,
    MetricRecord,
    Packed,
    TopicFormat,
    pack_batch,
    pack_messages,
    pack_reports,
)
from rebalance_streaming.activity.rows import MAX_PACKED_BYTES
from rebalance_streaming.wire.metrics.report import Point, Report, Temporality

WHO = member("b-1", [0, 1])
PANE = 5 * SECOND


def rows(*reports: Report) -> list[ClientActivity]:
    return [row for _, row in pack_reports(reports, PANE)]


def native(at_ms: int = T0, **client: Any) -> bytes:
    reported = {"client_id": "b", "group_id": "g", **client}
    metrics = {"consumer-coordinator-metrics": {"last-heartbeat-seconds-ago": 1.5, "assigned-partitions": 2}}
    document = {
        "schema": "rebalance-monitor/client-metrics/1",
        "emitted_ms": at_ms,
        "client": reported,
        "metrics": metrics,
    }
    return json.dumps(document).encode()


def packed(*values: bytes | None, **changes: Any) -> Packed:
    messages = [MetricRecord("metrics", value, T0) for value in values]
    return pack_messages(messages, {}, **{"cluster": "prod", "pane_ms": PANE, **changes})


# --- Rows ---


def test_one_row_has_what_a_client_said_in_a_pane():
    """Samples are in the order of the client's clock, in any order of arrival; the next pane is a separate row."""
    config = ClientConfig(session_timeout_ms=6_000)
    said = [report(T0 + at, WHO, {POLL_AGE: at / 1000}, config=config, pid=7) for at in (3_000, 1_000, 6_000)]
    first, second = rows(*said)
    assert [each.emitted_ms - T0 for each in first.samples] == [1_000, 3_000]
    assert (first.group_id, first.client_id, first.member_id, first.pid, first.config) == ("g", "b", "b-1", 7, config)
    assert (first.pane_start_ms, second.pane_start_ms) == (T0 // PANE * PANE, T0 // PANE * PANE + PANE)
    assert second.samples[0].values == {POLL_AGE: 6.0}


@pytest.mark.parametrize(
    ("changes", "key"), [({}, "g"), ({"group_id": None}, "b"), ({"group_id": None, "client_id": None}, "")]
)
def test_rows_are_keyed_by_what_is_known(changes: dict[str, Any], key: str):
    """The key is the group, as for its other rows; without one it is the client, so that its rows stay in order."""
    ((found, _),) = pack_reports([report(T0, WHO, **changes)], PANE)
    assert found == key


def test_a_new_member_id_is_a_row_of_its_own():
    """All samples of a row have the same identity."""
    assert len(rows(report(T0, WHO), report(T0 + 1, replace(WHO, member_id="b-2")))) == 2


def test_only_what_rules_ask_for_is_packed():
    """Metrics that no rule uses are dropped."""
    points = (
        Point(HEARTBEAT_AGE, None, never=True),
        Point(HEARTBEAT_TOTAL, 2.0, temporality=Temporality.DELTA),
        Point(POLL_AGE, 1.0),
        Point("io_wait_ratio", 0.5),
        Point(POLL_AGE, 9.0, {"node_id": "1"}),
        Point("app_offset", 7.0, {"topic": "orders", "partition": "3"}),
        Point("consumer_lag", 8.0, {"topic": "orders", "partition": "3"}),
    )
    (row,) = rows(replace(report(T0, WHO), points=points))
    (sample,) = row.samples
    assert (sample.values, sample.increments, sample.heartbeat_never) == ({POLL_AGE: 1.0}, {HEARTBEAT_TOTAL: 2.0}, True)
    assert row.app_offsets == {"orders": {"3": 7}}


def test_pieces_of_one_moment_are_one_sample():
    """Formats with one metric per message report one moment in several messages."""
    pieces = [report(T0, WHO, {POLL_AGE: 3.0}, cpu_s=1.0), report(T0, WHO, {HEARTBEAT_AGE: 1.5}, tick_late_ms=4)]
    ((sample,),) = (row.samples for row in rows(*pieces))
    assert sample.values == {POLL_AGE: 3.0, HEARTBEAT_AGE: 1.5}
    assert sample.process is not None
    assert (sample.process.cpu_s, sample.process.tick_late_ms) == (1.0, 4)


def test_rows_come_back():
    """A decoded row equals the encoded one, in JSON too."""
    for row in rows(report(T0, WHO, {POLL_AGE: 3.0}, reason="why", cpu_s=1.0, config=ClientConfig(max_poll_records=5))):
        assert decode(encode(row), ClientActivity) == row


@pytest.mark.parametrize("count", [50, 240])
def test_a_burst_is_reported_in_rows_of_bounded_length(count: int):
    """A client that was suspended reports several minutes at once: all of it is kept, in as many rows as needed."""
    values = dict.fromkeys(CLIENT_VALUES, 1234.5678)
    said = [report(T0 - at * SECOND, WHO, values, reason="r" * 500) for at in range(count)]
    found = rows(*(replace(each, observed_ms=T0) for each in said))
    assert sum(len(row.samples) for row in found) == count
    assert all(len(encode(row)) <= MAX_PACKED_BYTES for row in found)
    assert not any(row.is_truncated for row in found)


def test_of_too_many_moments_some_are_left_out():
    """They are thinned evenly, the last one is kept, increments are not lost, and the rows are marked."""
    said = [
        Report("native", T0, T0 - at, client_id="b", points=(Point(HEARTBEAT_TOTAL, 1.0, {}, Temporality.DELTA),))
        for at in range(10_000)
    ]
    found = rows(*said)
    samples = [sample for row in found for sample in row.samples]
    assert MAX_MOMENTS // 2 <= len(samples) <= MAX_MOMENTS
    assert max(sample.emitted_ms for sample in samples) == T0
    assert sum(sample.increments[HEARTBEAT_TOTAL] for sample in samples) == 10_000
    assert all(row.is_truncated for row in found)


def test_the_worst_row_is_bounded():
    """Names of maximum length, of characters that need six bytes in JSON, and more partitions than fit."""
    worst = "\x00"
    points = tuple(
        Point("app_offset", 2.0**60, {"topic": worst * 249, "partition": str(2**31 - n)}) for n in range(1, 5_000)
    )
    said = Report(
        "native",
        T0,
        T0,
        client_id=worst * 1_000,
        group_id=worst * 1_000,
        member_id=worst * 1_000,
        instance_id=worst * 249,
        host=worst * 255,
        library=worst * 100,
        library_version=worst * 100,
        reason=worst * 512,
        join_state=worst * 100,
        points=(*points, *(Point(name, 1.2345678901234567e18) for name in CLIENT_VALUES)),
    )
    (row,) = rows(said)
    assert len(encode(row)) <= MAX_PACKED_BYTES
    assert row.is_truncated


# --- Messages ---


def test_every_message_ends_in_one_outcome():
    """Every message is counted by topic and outcome; the row has whatever could be read."""
    found = packed(native(), b"x", b"", None, b"{", native(T0 + 1))
    assert found.counts == {
        ("metrics", "decoded"): 2,
        ("metrics", "unknown_format"): 1,
        ("metrics", "empty"): 2,
        ("metrics", "malformed"): 1,
    }
    ((key, row),) = found.rows
    assert (key, row.cluster, len(row.samples)) == ("g", "prod", 2)


def raising(error: BaseException) -> Callable[..., Any]:
    def decode_metrics(*_: Any, **__: Any) -> Any:
        raise error

    return decode_metrics


@pytest.mark.parametrize("error", [ZeroDivisionError(), RecursionError(), MemoryError(), KeyError("x")])
def test_a_fault_of_ours_is_counted_too(error: Exception, monkeypatch: pytest.MonkeyPatch):
    """An unexpected exception drops only this message and never stops the stream."""
    monkeypatch.setattr(clients, "decode_metrics", raising(error))
    assert packed(native()).counts == {("metrics", "failed"): 1}


@pytest.mark.waits
def test_a_message_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch):
    """The message is counted, and the next one is read."""

    def endless(value: bytes | None, *_: Any, **__: Any) -> tuple[Report, ...]:
        while value == b"endless":
            pass
        return (report(T0, WHO),)

    monkeypatch.setattr(clients, "decode_metrics", endless)
    # The short one's time includes garbage collection and other threads.
    found = packed(b"endless", b"short", b"endless", seconds=0.2)
    assert found.counts == {("metrics", "too_slow"): 2, ("metrics", "decoded"): 1}


def test_many_messages_of_one_client_are_sampled():
    """Each message is decoded or dropped; none is lost uncounted."""
    found = packed(*(native(T0 - at) for at in range(2_000)))
    assert sum(found.counts.values()) == 2_000
    assert found.counts["metrics", "decoded"] <= MAX_MOMENTS
    assert sum(len(row.samples) for _, row in found.rows) == found.counts["metrics", "decoded"]


@pytest.mark.parametrize("at_ms", [-1, 0, T0 + 10**9, 200 * T0])
def test_a_time_that_cannot_be_is_now(at_ms: int):
    """Producers set the time of a record; a time in the far future would hide later records."""
    message = MetricRecord("metrics", native(at_ms if at_ms > 0 else T0), at_ms)
    found = pack_messages([message], {}, cluster="prod", pane_ms=PANE, now_ms=T0)
    ((_, row),) = found.rows
    assert (row.samples[0].observed_ms, row.samples[0].emitted_ms) == (T0, T0)


def test_settings_of_a_topic_hold():
    """The format of the topic is pinned, and its defaults fill in missing fields."""
    value = native(group_id=None)
    topic = {"metrics": TopicFormat("native", {"group_id": "other"})}
    found = pack_messages([MetricRecord("metrics", value, T0)], topic, cluster="prod", pane_ms=PANE)
    assert [key for key, _ in found.rows] == ["other"]
    pinned = {"metrics": TopicFormat("otlp_json")}
    counts = pack_messages([MetricRecord("metrics", value, T0)], pinned, cluster="prod", pane_ms=PANE).counts
    assert counts == {("metrics", "unknown_format"): 1}


def batch(*values: bytes | None) -> pa.RecordBatch:
    count = len(values)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(["metrics"] * count),
            pa.array([None] * count, pa.binary()),
            pa.array(values, pa.binary()),
            pa.array([T0] * count, pa.int64()),
            pa.array([json.dumps([{"key": "host", "value": "aA=="}])] + [None] * (count - 1), pa.string()),
        ],
        names=["topic", "key", "value", "timestamp_ms", "headers"],
    )


def test_a_batch_of_spark_is_packed():
    """Columns by name, headers as JSON."""
    found = pack_batch(batch(native(), None, b"0" * (MAX_FOREIGN_BYTES + 1)), {}, cluster="prod", pane_ms=PANE)
    assert found.counts == {("metrics", "decoded"): 1, ("metrics", "empty"): 1, ("metrics", "too_large"): 1}
    assert [row.host for _, row in found.rows] == ["h"]


@pytest.mark.parametrize("path", sorted((FOLDER / "client-metrics").glob("*.[jp]*")), ids=lambda path: path.name)
def test_golden_values_make_rows(path: Any):
    """Everything written by real clients and agents becomes rows, and splitting a batch loses no sample."""
    once = packed(path.read_bytes())
    twice = packed(path.read_bytes(), path.read_bytes())
    assert [row.samples for _, row in once.rows] == [row.samples for _, row in twice.rows]
