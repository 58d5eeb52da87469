"""A consumer of confluent-kafka that polls continuously, in a process of its own, and reports its resource use.

    python polling_client.py '{"bootstrap": …, "group": …, "topic": …, "interval_seconds": …, "with": "reporter"}'

`with` is `nothing`, `statistics` that are discarded, or `reporter`. For each line on standard input it writes one line
of JSON: its peak memory, the durations of polls since the previous line, and its assignment. The line `fork` makes it
fork a child, as programs do for purposes unrelated to Kafka: the child's exit code is reported.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import select
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer

from rebalance_exporters.reporters.confluent import report

_SPEC = json.loads(sys.argv[1])
_PAUSE_SECONDS = 0.02
_FORK_SECONDS = 60.0


def make_consumer(group: str, wanted: str) -> Any:
    """Return a consumer of the topic."""
    config: dict[str, Any] = {
        "bootstrap.servers": _SPEC["bootstrap"],
        "group.id": group,
        "client.id": group,
        "log_level": 0,
        "error_cb": lambda _: None,
    }
    seconds = _SPEC["interval_seconds"]
    if wanted == "statistics":
        config |= {"statistics.interval.ms": round(seconds * 1000), "stats_cb": lambda _: None}
    consumer = report(Consumer, config, interval_seconds=seconds) if wanted == "reporter" else Consumer(config)
    consumer.subscribe([_SPEC["topic"]])
    return consumer


def most_memory() -> int:
    """Return the peak memory of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def fork() -> int | None:
    """Return the exit code of a child that cleans up what it inherited, or null for one that had to be killed."""
    child = multiprocessing.get_context("fork").Process(target=gc.collect)
    child.start()
    child.join(_FORK_SECONDS)
    ended = child.exitcode
    child.kill()
    child.join()
    return ended


def main() -> None:
    """Poll until standard input ends. No thread may read it: a forked child would wait forever for that thread."""
    took, reading = list[float](), [sys.stdin.fileno()]
    consumer = make_consumer(_SPEC["group"], _SPEC["with"])
    while True:
        began = time.perf_counter()
        consumer.poll(0)
        took.append(1000 * (time.perf_counter() - began))
        time.sleep(_PAUSE_SECONDS)
        if not select.select(reading, [], [], 0)[0]:
            continue
        order = os.read(reading[0], 100)
        if not order:
            return
        said = {"child": fork()} if order == b"fork\n" else {}
        reported = {"bytes": most_memory(), "polls_ms": sorted(took), "assigned": len(consumer.assignment()), **said}
        took.clear()
        sys.stdout.write(json.dumps(reported) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
