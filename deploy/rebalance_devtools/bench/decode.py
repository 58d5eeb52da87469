"""Measures how fast offset commits are decoded: record by record, and by column."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from rebalance_contract import encode
from rebalance_devtools.bench import fill
from rebalance_streaming.activity.commits import LogColumns, pack_commits
from rebalance_streaming.wire.commits import KeyCache, decode_commits
from rebalance_streaming.wire.decode import decode_record

_RECORDS, _GROUPS, _PARTITIONS = 1_000_000, 1_000, 100
_BATCH = 100_000
_ROUNDS = 5


def measure() -> Iterator[str]:
    """Yield the table's lines: median and best of several rounds, one thread."""
    records = list(fill.commits(_RECORDS, _GROUPS, _PARTITIONS))
    keys = pa.array([key for _, key, _ in records], pa.binary())
    values = pa.array([value for _, _, value in records], pa.binary())
    batches = [(keys.slice(start, _BATCH), values.slice(start, _BATCH)) for start in range(0, _RECORDS, _BATCH)]
    sample = [(key, value) for _, key, value in records[:_BATCH]]
    cache = KeyCache()
    yield f"{_RECORDS:,} commits of {_GROUPS:,} groups x {_PARTITIONS} partitions, one thread, {_ROUNDS} rounds"
    yield ""
    yield "| path | k records/s, median | best |"
    yield "|---|---:|---:|"
    yield _row("generic, one record at a time", _BATCH, lambda: [decode_record(key, value) for key, value in sample])
    yield _row("by column", _RECORDS, lambda: [decode_commits(k, v, cache) for k, v in batches])
    yield _row("by column, packed per group and encoded", _RECORDS, lambda: [_pack(k, v, cache) for k, v in batches])


def _pack(keys: pa.Array, values: pa.Array, cache: KeyCache) -> list[bytes]:
    commits = decode_commits(keys, values, cache)
    rows = np.arange(len(keys))
    log = LogColumns(np.zeros(len(keys), dtype=np.int32), rows, commits.commit_timestamp_ms)
    return [encode(row) for row in pack_commits(commits, log, "bench", 5_000)]


def _row(name: str, records: int, work: Callable[[], object]) -> str:
    rates = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        work()
        rates.append(records / (time.perf_counter() - began) / 1000)
    return f"| {name} | {np.median(rates):,.0f} | {max(rates):,.0f} |"
