"""Measures the duration of a live batch, and the age of a group's record when its rebalance reaches the topic."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from confluent_kafka import Producer

from rebalance_contract import QueryStatus, Rebalance, decode, decode_status
from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.monitor import Monitor
from rebalance_devtools.bench import fill
from rebalance_kafka.follower import read_to_end
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.wire.partitioner import partition_for_group

_COMMITS_PER_SECOND, _GROUPS, _PARTITIONS = 2_000, 1_000, 100
_REBALANCES_PER_SECOND = 7
_WARM_UP_SECONDS, _SECONDS = 60, 60
_TOPIC = "bench-offsets"


def measure() -> Iterator[str]:
    """Yield the table's lines: the whole monitor as deployed, with broker and load on the same machine."""
    with EmbeddedKafka(jvm_options=("-Xmx1g",)) as broker, tempfile.TemporaryDirectory() as directory:
        fill.create_log(broker.bootstrap, _TOPIC)
        sources = fill.monitor_settings(broker.bootstrap, _TOPIC, directory)
        with Monitor(sources, Path(directory)) as monitor:
            monitor.wait_until_ready(threading.Event(), lambda _: None)
            with _Load(broker.bootstrap):
                _wait(_WARM_UP_SECONDS)
                since_ms = int(time.time() * 1000)
                _wait(_SECONDS)
            yield from _table(broker.bootstrap, since_ms)


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


class _Load:
    """Writes commits and group records at a steady rate from a separate thread."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 5})
        commits = fill.commits(2**31, _GROUPS, _PARTITIONS)
        began, sent, rebalanced = time.monotonic(), 0, 0
        # An odd pause, so that the load is not synchronous with the triggers.
        while not self._stop.wait(0.037):
            elapsed = time.monotonic() - began
            while sent < elapsed * _COMMITS_PER_SECOND:
                partition, key, value = next(commits)
                producer.produce(_TOPIC, value, key, partition)
                sent += 1
            while rebalanced < elapsed * _REBALANCES_PER_SECOND:
                group, generation = f"group-{rebalanced % _GROUPS:05d}", rebalanced // _GROUPS + 1
                partition = partition_for_group(group, fill.LOG_PARTITIONS)
                value = fill.group_value(generation, 3, int(time.time() * 1000))
                producer.produce(_TOPIC, value, fill.group_key(group), partition)
                rebalanced += 1
            producer.poll(0)
        producer.flush(10)


def _table(bootstrap: str, since_ms: int) -> Iterator[str]:
    settings = StreamConfig()
    first_rows: dict[tuple[str, int | None], int] = {}
    for arrived_ms, value in _read_all(bootstrap, settings.rebalances_topic, since_ms):
        rebalance = decode(value, Rebalance)
        # Rows are rewritten when more becomes known, so rows of rebalances that ended before are skipped.
        if rebalance.completed_at_ms is not None and rebalance.completed_at_ms >= since_ms:
            key = (f"{rebalance.group}/{rebalance.rebalance_id}", rebalance.generation_to)
            first_rows.setdefault(key, arrived_ms - rebalance.completed_at_ms)
    latencies = list(first_rows.values())
    batches: dict[str, dict[int, int]] = {}
    for _, value in _read_all(bootstrap, settings.status_topic, since_ms):
        status = decode_status(value)
        if isinstance(status, QueryStatus) and status.batch_id is not None and status.batch_ms is not None:
            batches.setdefault(status.query, {})[status.batch_id] = status.batch_ms
    yield f"{_COMMITS_PER_SECOND:,} commits/s and {_REBALANCES_PER_SECOND} rebalances/s of {_GROUPS:,} groups, "
    yield f"{fill.LOG_PARTITIONS} source partitions, {_SECONDS} s after {_WARM_UP_SECONDS} s of warm-up; "
    yield "everything, broker and load included, on 2 cores"
    yield ""
    yield "| what | n | p50 ms | p99 ms | max ms |"
    yield "|---|---:|---:|---:|---:|"
    yield _row("group record in the log -> row in the rebalances topic", latencies)
    for query, found in batches.items():
        yield _row(f"{query} batch", list(found.values()))


def _row(what: str, values: list[int]) -> str:
    p50, p99 = np.percentile(values, (50, 99))
    return f"| {what} | {len(values):,} | {p50:,.0f} | {p99:,.0f} | {max(values):,} |"


def _read_all(bootstrap: str, topic: str, since_ms: int) -> Iterator[tuple[int, bytes]]:
    """Yield (broker or producer timestamp, value) of a topic's records since a time, up to its current end."""
    for record in read_to_end({"bootstrap.servers": bootstrap}, [topic], name="bench"):
        if record.value is not None and record.timestamp_ms is not None and record.timestamp_ms >= since_ms:
            yield record.timestamp_ms, record.value
