"""Measures how fast a recording is replayed: JSON lines of group records and offset commits."""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from rebalance_devtools.bench import fill
from rebalance_streaming.recordings.replay import replay
from rebalance_streaming.wire.records import OFFSETS_TOPIC

_COMMITS, _GROUPS, _PARTITIONS = 500_000, 1_000, 100
_ROUNDS = 3
_START_MS, _PER_MS = 1_790_000_000_000, 5


def measure() -> Iterator[str]:
    """Yield the table's lines: one process, one thread, reading from a file and writing rebalances."""
    with tempfile.TemporaryDirectory() as directory:
        recording = Path(directory) / "recording.jsonl"
        _write(recording)
        rates = {output: _rates(recording, output) for output in ("rebalances", "lag", "findings")}
    seconds = _COMMITS // _PER_MS // 1_000
    yield f"{_COMMITS:,} commits and {_GROUPS:,} group records of {seconds} s, median of {_ROUNDS} rounds"
    yield ""
    yield "| what | k lines/s, median | best |"
    yield "|---|---:|---:|"
    for output, found in rates.items():
        yield f"| replay of a recording, its {output} | {np.median(found):,.0f} | {max(found):,.0f} |"


def _rates(recording: Path, output: str) -> list[float]:
    """Return the rate of each round in thousands of lines per second."""
    rates = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        with recording.open("rb") as file:
            deque(replay([file], output=output), maxlen=0)
        rates.append((_COMMITS + _GROUPS) / (time.perf_counter() - began) / 1000)
    return rates


def _write(path: Path) -> None:
    encode = msgspec.json.encode
    with path.open("wb") as file:
        for number in range(_GROUPS):
            name = f"group-{number:05d}"
            key, value = fill.group_key(name), fill.group_value(1, 3, _START_MS)
            file.write(encode(_line(number, key, value)) + b"\n")
        commits = fill.commits(_COMMITS, _GROUPS, _PARTITIONS, _START_MS, _PER_MS)
        for number, (_, key, value) in enumerate(commits):
            file.write(encode(_line(_GROUPS + number, key, value)) + b"\n")


def _line(offset: int, key: bytes, value: bytes) -> dict[str, object]:
    return {
        "topic": OFFSETS_TOPIC,
        "partition": 0,
        "offset": offset,
        "timestamp_ms": _START_MS + offset // _PER_MS,
        "key_hex": key.hex(),
        "value_hex": value.hex(),
    }
