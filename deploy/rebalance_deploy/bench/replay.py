"""How fast a recording is replayed: JSON lines of offset commits with some group records between."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np

from rebalance_deploy.bench import fill
from rebalance_streaming.replay import OFFSETS_TOPIC, replay

_COMMITS, _GROUPS, _PARTITIONS = 500_000, 1_000, 100
_ROUNDS = 3
_START_MS = 1_790_000_000_000


def measure() -> Iterator[str]:
    """Yield the table's lines: one process, one thread, reading from a file and writing rebalances."""
    with tempfile.TemporaryDirectory() as directory:
        recording = Path(directory) / "recording.jsonl"
        _write(recording)
        rates = []
        for _ in range(_ROUNDS):
            began = time.perf_counter()
            with recording.open("rb") as file:
                rows = sum(1 for _ in replay([file]))
            rates.append((_COMMITS + _GROUPS) / (time.perf_counter() - began) / 1000)
    yield f"{_COMMITS:,} commits and {_GROUPS:,} group records, {rows:,} rebalances, median of {_ROUNDS} rounds"
    yield ""
    yield "| what | k lines/s, median | best |"
    yield "|---|---:|---:|"
    yield f"| replay of a recording | {np.median(rates):,.0f} | {max(rates):,.0f} |"


def _write(path: Path) -> None:
    encode = msgspec.json.encode
    with path.open("wb") as file:
        for number in range(_GROUPS):
            name = f"group-{number:05d}"
            key, value = fill.group_key(name), fill.group_value(1, 3, _START_MS)
            file.write(encode(_line(number, key, value)) + b"\n")
        for number, (_, key, value) in enumerate(islice(fill.commits(_COMMITS, _GROUPS, _PARTITIONS), _COMMITS)):
            file.write(encode(_line(_GROUPS + number, key, value)) + b"\n")


def _line(offset: int, key: bytes, value: bytes) -> dict[str, object]:
    return {
        "topic": OFFSETS_TOPIC,
        "partition": 0,
        "offset": offset,
        "timestamp_ms": _START_MS + offset // 20,
        "key_hex": key.hex(),
        "value_hex": value.hex(),
    }
