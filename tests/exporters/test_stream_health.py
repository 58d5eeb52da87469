"""The stream's health, by the status of its queries."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import generate_latest

from rebalance_contract import QueryStatus
from rebalance_exporters.stream_health import StreamHealth

RUNS = QueryStatus("c", "membership", True, 1, 1, 500, last_batch_at_ms=2_500, wanted_records=9_000, read_records=9_000)


def test_a_stream_that_starts_works_and_is_not_ready():
    """Starting Spark takes long on a small machine; a restart would make it longer."""
    now = [0.0]
    health = StreamHealth(lambda: now[0])
    now[0] = 900.0
    assert health.unhealthy() is None
    assert health.unready() == "starting"
    now[0] = 901.0
    assert health.unhealthy() == "starting for 901 s"


def test_a_stream_that_waits_for_brokers_is_healthy_and_says_so():
    """However long they are down; afterwards the usual time of a start is allowed."""
    now = [0.0]
    health = StreamHealth(lambda: now[0])
    health.wait_for("no Kafka broker answers at b:1")
    now[0] = 5_000.0
    assert health.unhealthy() is None
    assert health.unready() == "no Kafka broker answers at b:1"
    health.wait_for(None)
    assert (health.unhealthy(), health.unready()) == (None, "starting")
    now[0] = 5_901.0
    assert health.unhealthy() == "starting for 901 s"


def test_it_is_ready_once_all_queries_run_and_have_read_the_log_up():
    """Until then the first missing query is named."""
    health = StreamHealth()
    behind = replace(RUNS, query="activity", caught_up=False, read_records=3_000)
    health.look([RUNS, behind])
    assert health.unready() == "the activity query reads the log up: 3,000 of 9,000 records"
    health.look([RUNS, replace(behind, error="Kafka is away")])
    assert health.unready() == "the activity query does not run: Kafka is away"
    health.look([replace(RUNS, is_stalled=True), behind])
    assert health.unready() == "a batch of the membership query makes no progress"
    assert health.unhealthy() is None
    health.look([RUNS, replace(behind, caught_up=True)])
    assert health.unready() is None


def test_a_batch_that_does_not_end_is_reported_long_before_it_is_ended():
    """A stream that was ready no longer is, because it counts nothing; one that is catching up may take longer."""
    health = StreamHealth()
    long = replace(RUNS, updated_at_ms=RUNS.last_batch_at_ms + 60_000)
    health.look([RUNS, long])
    assert health.unready() is None
    long = replace(long, updated_at_ms=long.updated_at_ms + 15_000)
    health.look([RUNS, long])
    assert health.unready() == "no batch of the membership query has ended for 75 s"
    assert health.unhealthy() is None
    health.look([RUNS, replace(long, trigger_ms=25_000)])
    assert health.unready() is None
    first = replace(long, caught_up=False, read_records=0, started_at_ms=long.last_batch_at_ms, last_batch_at_ms=None)
    health.look([RUNS, first])
    assert health.unready() == (
        "the membership query reads the log up: 0 of 9,000 records; no batch of the membership query has ended for 75 s"
    )


def test_a_stream_that_looks_after_nothing_is_not_healthy():
    """It hangs: its queries may continue, but are not restarted."""
    now = [0.0]
    health = StreamHealth(lambda: now[0])
    health.look([RUNS])
    now[0] = 300.0
    assert health.unhealthy() is None
    now[0] = 301.0
    problem = health.unhealthy()
    assert problem is not None
    assert "301 s" in problem
    assert health.unready() == problem


def test_its_metrics_say_the_same():
    """One series per query, and those of the process itself."""
    health = StreamHealth()
    assert "kafka_rebalance_monitor_stream_ready 0.0" in generate_latest(health.registry).decode()
    health.look([replace(RUNS, restarts=2), replace(RUNS, query="activity", error="gone", last_batch_at_ms=None)])
    text = generate_latest(health.registry).decode()
    for line in (
        "kafka_rebalance_monitor_stream_ready 0.0",
        'kafka_rebalance_monitor_stream_query_running{cluster="c",query="membership"} 1.0',
        'kafka_rebalance_monitor_stream_query_running{cluster="c",query="activity"} 0.0',
        'kafka_rebalance_monitor_stream_query_caught_up{cluster="c",query="membership"} 1.0',
        'kafka_rebalance_monitor_stream_query_restarts_total{cluster="c",query="membership"} 2.0',
        'kafka_rebalance_monitor_stream_query_last_batch_timestamp_seconds{cluster="c",query="membership"} 2.5',
    ):
        assert line in text.splitlines()
    assert 'last_batch_timestamp_seconds{cluster="c",query="activity"}' not in text
    assert "process_resident_memory_bytes " in text
    health.look([RUNS])
    assert "kafka_rebalance_monitor_stream_ready 1.0" in generate_latest(health.registry).decode()
