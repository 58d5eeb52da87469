"""The golden records: written by real brokers, with the values that Kafka's own classes read (see golden/README.md)."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "golden"


@cache
def scenarios() -> tuple[str, ...]:
    """Return the names of all scenarios, sorted."""
    return tuple(sorted(path.name.removesuffix(".jsonl.gz") for path in FOLDER.glob("*.jsonl.gz")))


@cache
def records(scenario: str) -> tuple[dict[str, Any], ...]:
    """Return a scenario's records in log order, including control records. Shared between tests: do not modify them."""
    return _lines(FOLDER / f"{scenario}.jsonl.gz")


@cache
def timeline(scenario: str) -> tuple[dict[str, Any], ...]:
    """Return the actions on a scenario's clients and the output of clients and coordinator, in order of time."""
    return _lines(FOLDER / "timelines" / f"{scenario}.jsonl.gz")


def data_records(scenario: str) -> list[dict[str, Any]]:
    """Return a scenario's records without transaction markers, which clients never see."""
    return [record for record in records(scenario) if not record.get("control")]


def all_data_records() -> list[dict[str, Any]]:
    """Return the records of all scenarios, as `data_records`."""
    return [record for scenario in scenarios() for record in data_records(scenario)]


def key_of(record: dict[str, Any]) -> bytes:
    """Return a record's key."""
    return bytes.fromhex(record["key_hex"])


def value_of(record: dict[str, Any]) -> bytes | None:
    """Return a record's value, or null for a tombstone."""
    return None if record["value_hex"] is None else bytes.fromhex(record["value_hex"])


def _lines(path: Path) -> tuple[dict[str, Any], ...]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return tuple(json.loads(line) for line in file)
