"""Spark's progress reports become statuses."""

import json
from types import SimpleNamespace
from typing import Any

from rebalance_streaming.groups.events import QueryStatus
from rebalance_streaming.spark.progress import CatchUp, ProgressListener

TOPIC = "__consumer_offsets"


class Published(list[QueryStatus]):
    """What a listener published, at a time that stands still."""

    def __init__(self) -> None:
        super().__init__()
        self.listener = ProgressListener(self.append, lambda: 1_000)
        started = QueryStatus("c", "membership", False, started_at_ms=1, updated_at_ms=1, trigger_ms=500)
        self.listener.watch(started, CatchUp(TOPIC, {0: 10, 1: 0, 2: 5}))
        self.listener.onQueryStarted(SimpleNamespace(runId="r1", name="membership"))  # type: ignore[arg-type]

    def batch(self, processed: dict[str, int], latest: dict[str, int], **more: Any) -> QueryStatus:
        """Report a batch and return the status it led to."""
        source = {"endOffset": {TOPIC: processed}, "latestOffset": json.dumps({TOPIC: latest})}
        progress = {"name": "membership", "batchId": 3, "batchDuration": 120, "numInputRows": 7, "sources": [source]}
        progress["timestamp"] = "1970-01-01T00:00:00.700Z"
        event = SimpleNamespace(progress=SimpleNamespace(json=json.dumps({**progress, **more})))
        self.listener.onQueryProgress(event)  # type: ignore[arg-type]
        return self[-1]


def test_a_query_is_caught_up_once_it_reached_the_ends_it_found():
    """Partitions without records do not count, and what is written later does not undo it."""
    published = Published()
    assert not published.batch({"0": 10, "1": 0, "2": 4}, {"0": 10, "2": 5}).caught_up
    assert published.batch({"0": 10, "1": 0, "2": 5}, {"0": 10, "2": 5}).caught_up
    assert published.batch({"0": 10, "1": 0, "2": 5}, {"0": 99, "2": 5}).caught_up
    assert published.listener.caught_up()


def test_source_lag_is_what_lies_between_processed_and_latest():
    """Both forms in which Spark reports positions are read."""
    status = Published().batch({"0": 6, "2": 5}, {"0": 10, "2": 6})
    assert status.source_lag_records == 5


def test_a_batch_reports_its_figures():
    """Duration, rows, state and the age of the newest record."""
    state = [{"numRowsTotal": 4, "memoryUsedBytes": 512}]
    status = Published().batch({"0": 1}, {"0": 1}, stateOperators=state, observedMetrics={"newest": {"newest": 400}})
    assert (status.batch_id, status.batch_ms, status.input_rows) == (3, 120, 7)
    assert (status.state_rows, status.state_bytes, status.event_delay_ms) == (4, 512, 600)


def test_the_log_is_read_up_to_the_start_of_a_batch_that_left_nothing():
    """Of what a batch left over, and of what came while it ran, nothing is known; an idle query knows all."""
    published = Published()
    published.batch({"0": 6, "2": 5}, {"0": 10, "2": 5})
    assert published.listener.read_until_ms() == 0
    published.batch({"0": 10, "2": 5}, {"0": 10, "2": 5})
    assert published.listener.read_until_ms() == 700
    published.listener.onQueryIdle(SimpleNamespace(runId="r1"))  # type: ignore[arg-type]
    assert published.listener.read_until_ms() == 1_000


def test_an_idle_query_has_read_everything():
    """A restart with nothing new produces no batch at all, and is caught up all the same."""
    published = Published()
    published.listener.onQueryIdle(SimpleNamespace(runId="r1"))  # type: ignore[arg-type]
    published.listener.heartbeat()
    assert (published[-1].caught_up, published[-1].last_batch_at_ms) == (True, 1_000)


def test_other_queries_are_ignored():
    """A session may run queries that are not the monitor's."""
    published = Published()
    published.listener.onQueryIdle(SimpleNamespace(runId="other"))  # type: ignore[arg-type]
    event = SimpleNamespace(progress=SimpleNamespace(json=json.dumps({"name": None, "sources": []})))
    published.listener.onQueryProgress(event)  # type: ignore[arg-type]
    assert list(published) == []
