"""The adapter between Spark's state and the folds, with a state and timers of the test's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from goldens import data_records, key_of, value_of
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.spark import stateful
from rebalance_streaming.spark.envelopes import GROUP_SCOPE
from rebalance_streaming.spark.stateful import GroupProcessor

KEY = (GROUP_SCOPE, "g-v39-kp3-group-expiry")
DAY_MS = 86_400_000


class Handle:
    """Spark's side: one value and the timers asked for."""

    def __init__(self) -> None:
        self.value: tuple[bytes] | None = None
        self.timers: list[int] = []

    def getValueState(self, _name: str, _schema: str) -> Handle:
        return self

    def get(self) -> tuple[bytes] | None:
        return self.value

    def update(self, value: tuple[bytes]) -> None:
        self.value = value

    def clear(self) -> None:
        self.value = None

    def registerTimer(self, at_ms: int) -> None:
        self.timers.append(at_ms)


def rows() -> list[dict[str, Any]]:
    """A group that was joined, left, and expired: its records end in a tombstone."""
    return [
        {
            "type": line["decoded"]["type"],
            "partition": line["partition"],
            "offset": line["offset"],
            "timestamp_ms": line["timestamp_ms"],
            "live": True,
            "key": key_of(line),
            "value": value_of(line),
        }
        for line in data_records("v39-kp3-group-expiry")
        if line["decoded"]["type"] == 2
    ]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The worker's clock, which stands where the test puts it."""
    now = {"ms": rows()[-1]["timestamp_ms"] + 100}
    monkeypatch.setattr(stateful, "_now_ms", lambda: now["ms"])
    return now


def processor(handle: Handle) -> GroupProcessor:
    """A processor on that state."""
    made = GroupProcessor(StreamConfig(kafka={"sasl.password": "secret"}))
    made.init(handle)  # type: ignore[arg-type]
    return made


def test_a_group_that_is_gone_is_dropped_after_a_day(clock: dict[str, int]):
    """Its totals wait for its return; then its state goes, and its row becomes a tombstone."""
    handle = Handle()
    made = processor(handle)
    list(made.handleInputRows(KEY, rows(), None))
    gone_ms = rows()[-1]["timestamp_ms"]
    assert gone_ms + DAY_MS in handle.timers
    clock["ms"] = gone_ms + DAY_MS - 1
    list(made.handleExpiredTimer(KEY, None, None))
    assert handle.value is not None
    clock["ms"] = gone_ms + DAY_MS
    (row,) = made.handleExpiredTimer(KEY, None, None)
    assert (handle.value, row["value"], row["key"]) == (None, None, b"default/g-v39-kp3-group-expiry")


def test_a_rebalance_is_counted_with_its_duration_by_a_timer(clock: dict[str, int]):
    """Nothing more is written, and still the histogram gets it."""
    handle, made = Handle(), None
    made = processor(handle)
    first = rows()[:1]
    clock["ms"] = first[0]["timestamp_ms"] + 100
    published = list(made.handleInputRows(KEY, first, None))
    assert sum(json.loads(published[-1]["value"])["counters"]["durations"]) == 0
    clock["ms"] = handle.timers[0]
    (row,) = made.handleExpiredTimer(KEY, None, None)
    assert sum(json.loads(row["value"])["counters"]["durations"]) == 1
    assert list(made.handleExpiredTimer(KEY, None, None)) == []


def test_workers_get_no_credentials():
    """What Spark ships to executors holds no client properties."""
    assert processor(Handle())._config.kafka == {}


def test_records_of_one_batch_are_folded_in_the_logs_order(clock: dict[str, int]):
    """Spark hands a key's rows over in any order."""
    in_order, shuffled = Handle(), Handle()
    list(processor(in_order).handleInputRows(KEY, rows(), None))
    list(processor(shuffled).handleInputRows(KEY, rows()[::-1], None))
    assert in_order.value == shuffled.value
