"""Measures the memory of the monitor for a very large cluster: 10,000 groups of 100 partitions, all of them live."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from rebalance_deploy.embedded.kafka import EmbeddedKafka
from rebalance_deploy.errors import UserError
from rebalance_deploy.monitor import Monitor
from rebalance_deploy.topics import create_topics
from rebalance_devtools.bench import fill
from rebalance_devtools.bench.process_trees import read_memory
from rebalance_streaming.wire.partitioner import partition_for_group

_GROUPS, _PARTITIONS, _MEMBERS = 10_000, 100, 4
_COMMIT_ROUNDS = 3
_TOPIC = "bench-offsets"
_SETTLE_SECONDS = 60
_DEADLINE_SECONDS = 600


def measure() -> Iterator[str]:
    """Yield the table's lines, measured after two generations of every group and commits of every partition."""
    with EmbeddedKafka(jvm_options=("-Xmx1g",)) as broker, tempfile.TemporaryDirectory() as directory:
        fill.create_log(broker.bootstrap, _TOPIC)
        create_topics(broker.bootstrap, {"orders": _PARTITIONS})
        sources = fill.monitor_settings(broker.bootstrap, _TOPIC, directory)
        with Monitor(sources, Path(directory)) as monitor:
            monitor.wait_until_ready(threading.Event(), lambda _: None)
            began = time.monotonic()
            fill.write(broker.bootstrap, _TOPIC, _records())
            _await_groups(monitor)
            caught_up = time.monotonic() - began
            peak = _peak_memory(monitor, _SETTLE_SECONDS)
            scrape_seconds, size = _scrape(monitor)
    records = 2 * _GROUPS + _COMMIT_ROUNDS * _GROUPS * _PARTITIONS
    yield f"{_GROUPS:,} groups x {_PARTITIONS} partitions, {_MEMBERS} members each; {records:,} records written live"
    yield ""
    yield "| what | value |"
    yield "|---|---:|"
    yield f"| from the first record written to all groups on /metrics | {caught_up:,.0f} s |"
    for name, mebibytes in peak.items():
        yield f"| memory of {name}, highest of {_SETTLE_SECONDS} s | {mebibytes:,.0f} MiB |"
    yield f"| memory of the whole monitor | {sum(peak.values()):,.0f} MiB |"
    yield f"| one scrape of /metrics | {scrape_seconds:.2f} s, {size / 1e6:,.0f} MB |"


def _records() -> Iterator[tuple[int, bytes, bytes]]:
    names = [f"group-{number:05d}" for number in range(_GROUPS)]
    for generation in (1, 2):
        for name in names:
            value = fill.group_value(generation, _MEMBERS, int(time.time() * 1000), _PARTITIONS)
            yield partition_for_group(name, fill.LOG_PARTITIONS), fill.group_key(name), value
    yield from fill.commits(_COMMIT_ROUNDS * _GROUPS * _PARTITIONS, _GROUPS, _PARTITIONS)


def _await_groups(monitor: Monitor) -> None:
    """Wait until every group is on /metrics with both generations."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    wanted = 2 * _GROUPS
    while time.monotonic() < deadline:
        monitor.check()
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{monitor.url}/metrics", timeout=60) as answer:  # noqa: S310
            counted = sum(
                int(float(line.rpartition(b" ")[2]))
                for line in answer.read().splitlines()
                if line.startswith(b"kafka_rebalance_generations_total") and b'outcome="completed"' in line
            )
            if counted >= wanted:
                return
        threading.Event().wait(2)
    raise UserError(f"not all of {_GROUPS:,} groups were counted within {_DEADLINE_SECONDS} s")


def _peak_memory(monitor: Monitor, seconds: float) -> dict[str, float]:
    """Return the maximum memory (PSS) of each process tree in this period, in MiB."""
    peak: dict[str, float] = {}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for child in (monitor.stream, monitor.probe, monitor.export):
            memory = read_memory({child.name: child.process.pid})
            peak[child.name] = max(peak.get(child.name, 0.0), memory.total)
        threading.Event().wait(1)
    return peak


def _scrape(monitor: Monitor) -> tuple[float, int]:
    began = time.monotonic()
    with urllib.request.urlopen(f"{monitor.url}/metrics", timeout=60) as answer:  # noqa: S310
        return time.monotonic() - began, len(answer.read())
