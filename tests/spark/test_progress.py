"""Spark's progress of a query becomes its status."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from rebalance_contract import QueryStatus
from rebalance_streaming.spark.progress import CatchUp, QueryWatch

TOPIC = "__consumer_offsets"
CATCH_UP = CatchUp(TOPIC, {0: 0, 1: 0, 2: 0}, {0: 10, 1: 0, 2: 5})
STARTED = QueryStatus("c", "membership", False, started_at_ms=1, updated_at_ms=1, trigger_ms=500, wanted_records=15)


@dataclass
class Query:
    """A fake of a query with its watch; time, of both clocks, advances a second with each look."""

    runId: str = "r1"  # noqa: N815 - as Spark has it
    watch: QueryWatch = field(default_factory=lambda: QueryWatch(STARTED, CATCH_UP))
    now_ms: int = 10_000
    steady: float = 0.0
    said: str | None = None
    batch_id: int = 0
    busy: bool = False
    data: bool = False
    message: str = "Waiting for data to arrive"

    def __post_init__(self) -> None:
        self.watch.clock = lambda: self.steady

    @property
    def _jsq(self) -> Any:
        progress = None if self.said is None else SimpleNamespace(batchId=lambda: self.batch_id, json=lambda: self.said)
        status = SimpleNamespace(
            isTriggerActive=lambda: self.busy, isDataAvailable=lambda: self.data, message=lambda: self.message
        )
        return SimpleNamespace(lastProgress=lambda: progress, status=lambda: status)

    def batch(self, processed: dict[str, int], latest: dict[str, int], **more: Any) -> QueryStatus:
        """Complete a batch and look; return the resulting status."""
        source = {"endOffset": {TOPIC: processed}, "latestOffset": json.dumps({TOPIC: latest})}
        self.batch_id += 1
        progress = {"batchId": self.batch_id, "batchDuration": 120, "numInputRows": 7, "sources": [source]}
        self.said = json.dumps({**progress, "timestamp": "1970-01-01T00:00:00.700Z", **more})
        self.data = True
        return self.look()

    def look(self) -> QueryStatus:
        """Look once, a second later."""
        self.now_ms += 1_000
        self.steady += 1
        looked_at: Any = self
        self.watch.look(looked_at, self.now_ms)
        return self.watch.status


def test_a_query_is_caught_up_once_it_reached_the_ends_it_found():
    """Partitions without records do not count, and later records do not undo it."""
    query = Query()
    assert not query.batch({"0": 10, "1": 0, "2": 4}, {"0": 10, "2": 5}).caught_up
    assert query.batch({"0": 10, "1": 0, "2": 5}, {"0": 10, "2": 5}).caught_up
    assert query.batch({"0": 10, "1": 0, "2": 5}, {"0": 99, "2": 5}).caught_up


def test_how_much_of_the_log_is_read_is_reported():
    """Of the records at the start; later ones do not count."""
    assert Query().batch({"0": 4, "2": 9}, {"0": 10, "2": 9}).read_records == 9
    assert CATCH_UP.wanted == 15


def test_source_lag_is_what_lies_between_processed_and_latest():
    """Both formats in which Spark reports positions are read."""
    assert Query().batch({"0": 6, "2": 5}, {"0": 10, "2": 6}).source_lag_records == 5


def test_what_arrives_during_a_long_batch_is_unread():
    """Spark reports the end of the log at the start of the batch; older looks at the brokers do not reduce it."""
    query = Query(busy=True)
    assert query.batch({"0": 6, "2": 5}, {"0": 10, "2": 5}).source_lag_records == 4
    query.watch.ends = {TOPIC: {0: 8, 2: 5}}
    assert query.look().source_lag_records == 4
    query.watch.ends = {TOPIC: {0: 40, 2: 5}, "probes": {0: 99}}
    assert query.look().source_lag_records == 34
    assert query.batch({"0": 40, "2": 5}, {"0": 40, "2": 5}).source_lag_records == 0
    query.busy, query.watch.ends = False, {TOPIC: {0: 41}}
    assert query.look().source_lag_records == 0


def test_a_batch_reports_its_figures():
    """Duration, rows and state."""
    state = [{"numRowsTotal": 4, "memoryUsedBytes": 512}]
    status = Query(now_ms=0).batch({"0": 1}, {"0": 1}, stateOperators=state)
    assert (status.batch_id, status.batch_ms, status.input_rows) == (1, 120, 7)
    assert (status.state_rows, status.state_bytes) == (4, 512)


def test_how_old_the_picture_is():
    """With a backlog the newest record that was used says it, if there was one; without one the start of the batch."""
    query = Query(now_ms=0)
    newest = {"newest": {"newest": 400}}
    assert query.batch({"0": 1}, {"0": 9}, observedMetrics=newest).event_delay_ms == 700 + 120 - 400
    assert query.batch({"0": 2}, {"0": 9}, observedMetrics={"newest": {"newest": None}}).event_delay_ms is None
    assert query.batch({"0": 9}, {"0": 9}, observedMetrics=newest).event_delay_ms == 120


def test_the_log_is_read_up_to_the_start_of_a_batch_that_left_nothing():
    """Records left over by a batch, or arriving during it, are unread; an idle query has read up to its last look."""
    query = Query(busy=True)
    assert query.batch({"0": 6, "2": 5}, {"0": 10, "2": 5}).read_until_ms == 0
    assert query.batch({"0": 10, "2": 5}, {"0": 10, "2": 5}).read_until_ms == 700
    query.busy = query.data = False
    assert query.look().read_until_ms == query.now_ms - STARTED.trigger_ms


@pytest.mark.parametrize("message", ["Initializing StreamExecution", "Initializing sources"])
def test_a_query_that_is_started_again_has_read_nothing_more(message: str):
    """Records that arrived before its first look at the inputs are unknown, however long that takes."""
    query = Query()
    before = query.batch({"0": 10, "2": 5}, {"0": 10, "2": 5}).read_until_ms
    query.runId, query.said, query.data, query.message = "r2", None, False, message
    assert query.look().read_until_ms == before
    query.message = "Waiting for data to arrive"
    assert query.look().read_until_ms == query.now_ms - STARTED.trigger_ms


def test_a_query_that_found_nothing_new_is_caught_up():
    """A restart without new records produces no batch with rows, but the query is caught up."""
    query = Query()
    query.batch({"0": 1}, {"0": 1})
    query.data = False
    status = query.look()
    assert (status.caught_up, status.last_batch_at_ms, status.read_records) == (True, query.now_ms, 15)


def test_a_query_that_has_said_nothing_yet_is_not_caught_up():
    """It may not have read its inputs at all."""
    status = Query().look()
    assert (status.caught_up, status.read_until_ms) == (False, 0)


def test_a_batch_that_goes_on_is_reported_by_how_long():
    """The time begins with the end of the previous batch, and ends with each batch and while nothing runs."""
    query = Query(busy=True)
    query.batch({"0": 1}, {"0": 9})
    assert query.watch.busy_seconds() == 0
    query.look()
    query.look()
    assert query.watch.busy_seconds() == 2
    query.batch({"0": 2}, {"0": 9})
    assert query.watch.busy_seconds() == 0
    query.look()
    query.busy = False
    query.look()
    assert query.watch.busy_seconds() == 0


def test_a_first_batch_that_hangs_is_reported_too():
    """A query that has never finished a batch is as busy as any other."""
    query = Query(busy=True)
    for _ in range(4):
        query.look()
    assert query.watch.busy_seconds() == 3
    query.runId = "r2"
    query.look()
    assert query.watch.busy_seconds() == 0


def test_a_clock_that_is_set_makes_no_batch_longer():
    """A step ahead of an hour would interrupt every batch as stalled."""
    query = Query(busy=True)
    query.look()
    query.now_ms += 3_600_000
    query.look()
    assert query.watch.busy_seconds() == 1


def test_a_clock_that_is_set_back_takes_back_what_is_known():
    """After a jump ahead, what happens until then is not known, though the query has read everything until now."""
    query = Query()
    query.batch({"0": 1}, {"0": 1})
    query.data = False
    query.now_ms += 3_600_000
    query.look()
    query.now_ms -= 3_600_000
    query.busy = True
    assert query.look().read_until_ms == query.now_ms
    stepped_ms = query.now_ms
    assert query.look().read_until_ms == stepped_ms
    query.busy = False
    assert query.look().read_until_ms == query.now_ms - STARTED.trigger_ms


def test_another_run_of_the_query_goes_on_where_it_was():
    """Batch numbers may be repeated after a restart; a query that was caught up stays so."""
    query = Query()
    assert query.batch({"0": 10, "2": 5}, {"0": 10, "2": 5}).caught_up
    query.runId, query.batch_id = "r2", 0
    status = query.batch({"0": 11, "2": 5}, {"0": 12, "2": 5})
    assert (status.caught_up, status.source_lag_records, status.batch_id) == (True, 1, 1)


@pytest.mark.parametrize("sources", [[], [{"endOffset": None, "latestOffset": None}]])
def test_a_progress_without_positions_is_none_the_worse(sources: list[Any]):
    """Spark reports this before it has queried the brokers."""
    assert not Query().batch({}, {}, sources=sources).caught_up
